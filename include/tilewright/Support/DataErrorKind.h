//===- DataErrorKind.h - what Python sees of a wrong value -------*- C++ -*-===//
#pragma once

#include <cstdint>

namespace tilewright {

/// The exception that an error of data becomes. The numeric values are part of Program's serialised form.
enum class DataErrorKind : uint8_t { Index, Runtime }; // IndexError, RuntimeError

} // namespace tilewright
