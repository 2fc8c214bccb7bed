//===- Assemble.h - groups and kernels become a Program ------------*- C++ -*-===//
#pragma once

#include "KernelStore.h"

#include "tilewright/Transforms/Emit.h"

namespace tilewright::compiler {

/// A step before its kernel is compiled. `request` is an index into the kernel requests, or -1 for an external call.
struct PlannedStep {
  int request = -1;
  loop::KernelArguments arguments;
  loop::LaunchPlan launch;
  const loop::Group *group = nullptr;
  int64_t packs = -1; // the buffer of panels that this step fills, if a parameter alone decides what they hold
};

/// Makes outputs dense tensors in buffers of their own: copies are nests, to be fused.
void separateOutputs(loop::Module &module);

/// Before: steps in execution order, kernels compiled. After: a Program that Program::deserialize accepts.
Program assemble(const loop::Module &module, const std::vector<PlannedStep> &steps, const std::vector<KernelOutcome> &kernels,
                 const std::string &level);

} // namespace tilewright::compiler
