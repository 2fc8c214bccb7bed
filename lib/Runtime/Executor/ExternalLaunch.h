//===- ExternalLaunch.h - runs one external step -----------------*- C++ -*-===//
#pragma once

#include "CallFrame.h"

namespace tilewright {

/// Calls the function on this thread with the step's tensors; its exceptions propagate. The stream has been drained.
void launchExternal(const CallFrame &frame, const LoadedExternalStep &step, const BoundExternalStep &bound);

} // namespace tilewright
