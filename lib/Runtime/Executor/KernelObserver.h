//===- KernelObserver.h - times of kernels for those who ask -----*- C++ -*-===//
#pragma once

#include "tilewright/Runtime/Executable.h"

#include <chrono>

namespace tilewright {

/// Measures one step if somebody wants to know (setKernelObserver, TILEWRIGHT_DEBUG >= 1), else costs two loads.
class KernelTimer {
public:
  KernelTimer(const KernelCode &code, const KernelStep &step, int64_t bytes, int64_t flops);
  void stop();

private:
  const KernelCode &code;
  const KernelStep &step;
  const int64_t bytes, flops;
  const bool wanted;
  std::chrono::steady_clock::time_point begin;
};

} // namespace tilewright
