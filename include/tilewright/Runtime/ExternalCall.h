//===- ExternalCall.h - functions that other rooms provide by name -*- C++ -*-===//
#pragma once

#include "tilewright/Support/DType.h"

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

struct ExternalTensor {
  void *data;
  DType dtype;
  std::span<const int64_t> sizes, strides; // strides in elements
};

struct ExternalArguments {
  std::string_view payload;
  std::span<const ExternalTensor> inputs, outputs; // outputs are planned memory to be filled
  std::span<const int64_t> ints;
};

/// Runs on the thread that called Executable::run. May throw; the executor carries the exception to its caller.
using ExternalFunction = void (*)(const ExternalArguments &);

/// Registration is process wide and idempotent; a second, different function under one name throws std::logic_error.
void registerExternalFunction(std::string name, ExternalFunction function);
/// nullptr if unknown.
ExternalFunction findExternalFunction(std::string_view name);

} // namespace tilewright
