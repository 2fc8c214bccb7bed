//===- Cursor.h - JSON with a place for every complaint -----------*- C++ -*-===//
#pragma once

#include "tilewright/Graph/Graph.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace tilewright::graph {

using Json = nlohmann::json;

/// A JSON value and where it stands, so that every complaint names its place.
class Cursor {
public:
  Cursor(const Json &json, std::string path) : json(json), path(std::move(path)) {}

  [[noreturn]] void fail(const std::string &message) const { throw FormatError(path + ": " + message); }

  const Json &value() const { return json; }
  const std::string &where() const { return path; }

  Cursor at(const char *key) const {
    expectObject();
    auto found = json.find(key);
    if (found == json.end())
      fail(std::string("\"") + key + "\" is missing");
    return {*found, path + "." + key};
  }
  std::optional<Cursor> find(const char *key) const {
    expectObject();
    auto found = json.find(key);
    if (found == json.end())
      return std::nullopt;
    return Cursor(*found, path + "." + key);
  }
  template <typename Fn> void each(Fn fn) const {
    if (!json.is_array())
      fail(std::string("expected a list, found ") + json.type_name());
    for (size_t i = 0; i < json.size(); ++i)
      fn(Cursor(json[i], path + "[" + std::to_string(i) + "]"));
  }
  /// A misspelt key would otherwise be an option silently ignored.
  void onlyKeys(std::initializer_list<std::string_view> allowed) const {
    expectObject();
    for (auto it = json.begin(); it != json.end(); ++it)
      if (std::find(allowed.begin(), allowed.end(), it.key()) == allowed.end())
        fail("unknown key \"" + it.key() + "\"");
  }

  const std::string &string() const {
    if (!json.is_string())
      fail(std::string("expected a string, found ") + json.type_name());
    return json.get_ref<const std::string &>();
  }
  int64_t integer() const {
    if (!json.is_number_integer() ||
        (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max())))
      fail(std::string("expected an integer of 64 bits, found ") + (json.is_number() ? json.dump() : json.type_name()));
    return json.get<int64_t>();
  }
  /// An index below `bound`; `what` is what it counts.
  uint32_t index(size_t bound, const char *what) const {
    int64_t i = integer();
    if (i < 0 || static_cast<size_t>(i) >= bound)
      fail(std::string(what) + " " + std::to_string(i) + " does not exist (there are " + std::to_string(bound) + ")");
    return static_cast<uint32_t>(i);
  }
  DType dtype() const {
    std::optional<DType> found = dtypeFromName(string());
    if (!found)
      fail("unknown dtype \"" + string() + "\"");
    return *found;
  }
  /// A number or the text of a SizeExpr over the first `symbols` symbols.
  SizeExpr size(size_t symbols) const {
    if (!json.is_string())
      return integer();
    SizeExpr e;
    try {
      e = SizeExpr::parse(string());
    } catch (const std::exception &error) {
      fail(error.what());
    }
    for (unsigned id : e.symbols())
      if (id >= symbols)
        fail("symbol s" + std::to_string(id) + " does not exist (there are " + std::to_string(symbols) + ")");
    return e;
  }
  std::vector<SizeExpr> sizes(size_t symbols) const {
    std::vector<SizeExpr> result;
    each([&](const Cursor &c) { result.push_back(c.size(symbols)); });
    return result;
  }

private:
  void expectObject() const {
    if (!json.is_object())
      fail(std::string("expected an object, found ") + json.type_name());
  }

  const Json &json;
  std::string path;
};

} // namespace tilewright::graph
