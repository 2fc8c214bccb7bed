//===- StridedMemory.h - copy and fill of strided memory ----------*- C++ -*-===//
//
// What copies and fills do on a stream's worker. No torch: a worker must not run PyTorch's kernels (thread-local state,
// the GIL, a second team of OpenMP threads).
//
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tilewright::npu {

/// A copy of `bytes`-sized elements (1, 2, 4, 8 or 16). Strides are in bytes and may be 0 in the source.
struct StridedCopy {
  struct Dim {
    int64_t size, toStride, fromStride;
  };
  char *to;
  const char *from;
  size_t elementBytes;
  std::vector<Dim> dims; // outermost first; none: one element
  /// Bits to flip in each element on the way, in memory order: the signs that a lazy conjugate or negative stands for.
  /// All zero: none.
  std::array<uint8_t, 16> flip{};

  /// Builds it from sizes and strides in elements; drops, orders and merges dimensions so that rows are long.
  StridedCopy(void *to, std::span<const int64_t> toStrides, const void *from, std::span<const int64_t> fromStrides,
              std::span<const int64_t> sizes, size_t elementBytes);

  int64_t elements() const;
  /// On the calling thread and the pool.
  void run() const;
};

} // namespace tilewright::npu
