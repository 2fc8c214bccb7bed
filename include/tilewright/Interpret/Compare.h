//===- Compare.h - whether two runs gave the same -----------------*- C++ -*-===//
#pragma once

#include "tilewright/Support/DType.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tilewright::interpret {

/// Bytes of each of a program's buffers.
using Contents = std::vector<std::vector<uint8_t>>;

struct Difference {
  size_t buffer, element; // the first of them
  size_t count;           // elements that differ
  std::string before, after;
  double allowed; // how far floats may be apart here
};

struct Comparison {
  bool sameBits = true; // NaN of any kind counts as NaN
  std::optional<Difference> difference;
};

/// A run and others like it that make use of the freedom that a pass has, differently for every seed: nothing where
/// such a run ended with an error of data. Empty where nothing is free.
struct Samples {
  const Contents *plain = nullptr; // the run without freedom
  std::function<std::optional<Contents>(uint64_t seed)> other;
};

/// Compares the buffers that `types` names. Without samples bits must be equal. With them floats may be 8 times as far
/// apart as samples are from their plain run, and some units in the last place; anything else must lie between samples.
/// Samples are made only where bits differ, and more of them before a difference is told.
Comparison compare(const Contents &before, const Contents &after, const std::map<size_t, DType> &types,
                   const Samples &samples);

} // namespace tilewright::interpret
