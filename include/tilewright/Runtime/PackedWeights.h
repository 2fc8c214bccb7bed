//===- PackedWeights.h - what programs keep of weights -----------*- C++ -*-===//
//
// A contraction reads its weight in a packed layout. The packed copy (an Attached buffer of a Program) is kept for
// (address, write epoch, how it was packed), process wide, so that all programs that pack a weight alike share one
// copy. It is kept when the same weight is seen a second time: operands that are activations are packed in the call and
// forgotten.
//
// A copy goes when its weight's epoch has changed, its block is freed, or no program that used it is left; these are
// looked for whenever another copy is made, when a program goes, and on request. Where memory is short, all of them go.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tilewright {

struct PackedWeightStats {
  size_t count = 0, bytes = 0;
  uint64_t hits = 0, packed = 0; // since the process started: calls that used a kept copy, and that packed
};
PackedWeightStats packedWeightStats();

/// Drops every copy that is out of date; with `all`, the others too (they are made again when needed).
void releasePackedWeights(bool all = false);

/// Drops what was packed under these epochs: the weights are no longer frozen.
void releasePackedWeights(std::span<const uint64_t> epochs);

} // namespace tilewright
