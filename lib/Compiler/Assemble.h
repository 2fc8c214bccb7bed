//===- Assemble.h - groups and kernels become a Program ------------*- C++ -*-===//
#pragma once

#include "KernelStore.h"

#include "tilewright/Transforms/Steps.h"

namespace tilewright::compiler {

/// Before: steps in execution order, the kernel of each compiled (kernels[i] is null for external calls). After: a
/// Program that Program::deserialize accepts.
Program assemble(const loop::Module &module, const std::vector<loop::PlannedStep> &steps,
                 const std::vector<KernelOutcome> &kernels, const std::string &level);

} // namespace tilewright::compiler
