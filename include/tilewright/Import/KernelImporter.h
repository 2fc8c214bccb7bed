//===- KernelImporter.h - kernel programs become loop nests --------*- C++ -*-===//
#pragma once

#include "tilewright/Graph/KernelProgram.h"
#include "tilewright/Import/Importer.h"
#include "tilewright/Import/LoopIR.h"

namespace tilewright::importer {

struct KernelModule {
  loop::Module module; // a structured program is one nest of kind Kernel
  /// Why the program was not raised to the graph level; empty if it was.
  std::string structuredBecause;
};

/// Parameters become the module's inputs in their order; outputs are written in place. Throws ImportError, naming the
/// source line. Without `raise` every program becomes a nest of kind Kernel.
KernelModule importKernel(const kernel::Program &program, bool raise = true);

} // namespace tilewright::importer
