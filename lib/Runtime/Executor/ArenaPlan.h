//===- ArenaPlan.h - temporaries that share memory ---------------*- C++ -*-===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tilewright {

inline constexpr size_t kArenaAlignment = 64; // a cache line, and a ZMM register

struct Lifetime {
  size_t bytes;
  uint32_t first, last; // steps, inclusive
};

struct ArenaPlan {
  std::vector<size_t> offsets; // per temporary, multiples of 64
  size_t bytes = 0;            // of the arena: where the highest one ends, rounded up
};

/// Greedy by size: the largest first, each at the best-fitting gap among those it shares a step with (the strategy
/// called "greedy by size for offset calculation" in Pisarchyk and Lee, "Efficient Memory Management for Deep Neural
/// Net Inference", 2020). Throws std::overflow_error if the sum exceeds 63 bits.
ArenaPlan planArena(std::span<const Lifetime> lifetimes);

} // namespace tilewright
