//===- Steps.h - groups become the launches of a program -----------*- C++ -*-===//
#pragma once

#include "tilewright/Transforms/Emit.h"

namespace tilewright::loop {

/// One step of a program before its kernel is compiled.
struct PlannedStep {
  const Group *group = nullptr;

  /// Empty for an external call. Equal keys mean equal code for one target.
  std::string key, name;
  /// Makes the kernel's module; callable from any thread. Throws EmitError.
  std::function<mlir::OwningOpRef<mlir::ModuleOp>(mlir::MLIRContext &, llvm::StringRef symbol)> emit;

  KernelArguments arguments;
  LaunchPlan launch;
  /// Part of a product (see KernelStep::Role in Runtime/Program.h).
  enum Role : uint8_t { Plain, Packs, Packed, Unpacked } role = Plain;
  /// The panels depend on a parameter alone: they are kept, and the call chooses between Packed and Unpacked. Else the
  /// launches' grids do.
  bool attached = false;
  BufferId panels = 0;
  SizeExpr spared = 0; // BufferSpec::spared of attached panels

  /// Of a structured kernel: its control flow and fused pieces, for explain.
  std::string structure;

  bool isExternal() const { return key.empty(); }
};

/// Steps in execution order. `groups` and `target` must stay where they are while steps are used. Throws EmitError.
std::vector<PlannedStep> planSteps(Module &module, std::vector<Group> &groups, const TileTarget &target);

} // namespace tilewright::loop
