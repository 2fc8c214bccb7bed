//===- KernelLaunch.h - runs one kernel step ---------------------*- C++ -*-===//
#pragma once

#include "CallFrame.h"

namespace tilewright {

/// Runs all grid points of a step on the pool, complete on return. Throws DataError if the kernel recorded an error of
/// data: that of the lowest grid point, so that the message does not depend on the number of threads.
void launchKernel(const CallFrame &frame, const LoadedKernelStep &step, const BoundKernelStep &bound);

} // namespace tilewright
