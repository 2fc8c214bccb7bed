//===- KernelContext.h - what emitted code sees besides its arguments -*- C++ -*-===//
//
// Layout is part of the kernel ABI: emitted code reads and writes these fields by offset.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilewright {

struct KernelContext {
  void *scratch;      // 0: per thread, KernelStep::scratchBytes, 64-byte aligned
  int64_t errorCode;  // 8: 0 = none; else 1 + index into the step's error sites (first error wins)
  int64_t errorIndex; // 16: the offending index
  int64_t errorBound; // 24: the extent it should be below
  int64_t thread;     // 32: 0 .. threads-1 of this step
};
static_assert(offsetof(KernelContext, errorCode) == 8 && offsetof(KernelContext, thread) == 32);

/// Returns 0, or 1 after an error was recorded in the context.
using KernelFunction = int64_t (*)(void *const *buffers, const int64_t *ints, int64_t begin, int64_t end,
                                   KernelContext *context);

} // namespace tilewright
