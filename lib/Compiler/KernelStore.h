//===- KernelStore.h - kernels compiled in this process ------------*- C++ -*-===//
//
// One entry per key and CPU level. Programs with kernels of the same structure (the layers of a model, a static graph and
// the dynamic one after it) share them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Compiler/Pipeline.h"
#include "tilewright/Target/Host/HostTarget.h"

#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <memory>

namespace tilewright::compiler {

/// A kernel that a program needs. `emit` makes its module; it is called only if the kernel is not there yet, on any thread.
struct KernelRequest {
  std::string key, name, op, source;
  std::function<mlir::OwningOpRef<mlir::ModuleOp>(mlir::MLIRContext &, llvm::StringRef symbol)> emit;
};

struct KernelOutcome {
  std::shared_ptr<const KernelCode> code;
  bool built = false;
  double seconds = 0; // of building
  std::vector<host::Phase> phases;
};

/// Kernels for all requests, in order; missing ones are compiled side by side. Throws importer::ImportError naming the
/// request's operator and source.
std::vector<KernelOutcome> provideKernels(const std::vector<KernelRequest> &requests, const CompileOptions &options);

} // namespace tilewright::compiler
