//===- FlatJson.h - the little JSON that the runtime needs -------*- C++ -*-===//
//
// The compiler's errors are flat objects of strings; its options are written, never read, here. A JSON library would be
// the runtime's only dependency.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tilewright {

/// The members of an object whose values are strings (null counts as ""). Nothing for any other text.
std::optional<std::map<std::string, std::string>> parseFlatJson(std::string_view text);

/// The text in quotes.
std::string quoteJson(std::string_view text);

} // namespace tilewright
