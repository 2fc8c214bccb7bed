//===- KernelStore.h - kernels compiled in this process ------------*- C++ -*-===//
//
// One entry per key and CPU level. Programs with kernels of the same structure (the layers of a model, a static graph
// and the dynamic one after it) share them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Compiler/Pipeline.h"
#include "tilewright/Target/Host/HostTarget.h"
#include "tilewright/Transforms/Steps.h"

#include <memory>

namespace tilewright::compiler {

struct KernelOutcome {
  std::shared_ptr<const KernelCode> code;
  bool built = false;
  double seconds = 0; // of building
  std::vector<host::Phase> phases;
};

/// Kernels for all steps, in order (none for external calls); missing ones are compiled side by side. Throws
/// importer::ImportError naming the step's operator and source.
std::vector<KernelOutcome> provideKernels(const std::vector<loop::PlannedStep> &steps, const CompileOptions &options);

} // namespace tilewright::compiler
