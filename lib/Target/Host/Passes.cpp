//===- Passes.cpp - passes for tilewright-opt --------------------------------------------------------------------===//

#include "tilewright/Target/Host/Lowering.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace tilewright::host {

#define GEN_PASS_DECL
#define GEN_PASS_DEF_TILEUNROLL
#define GEN_PASS_DEF_TILEPEELTAILS
#define GEN_PASS_DEF_TILETOVECTOR
#define GEN_PASS_DEF_TILELOWERCONTRACT
#define GEN_PASS_DEF_TILELOWERGRID
#define GEN_PASS_DEF_EXPANDMATH
#define GEN_PASS_DEF_TILETOLLVM
#include "tilewright/Target/Host/Passes.h.inc"

namespace {

/// Runs a step on every kernel of a module.
template <typename Step> LogicalResult forKernels(ModuleOp module, Step step) {
  for (tile::KernelOp kernel : llvm::make_early_inc_range(module.getOps<tile::KernelOp>()))
    if (failed(step(kernel)))
      return failure();
  return success();
}

template <typename Step> LogicalResult forLevel(ModuleOp module, StringRef level, Step step) {
  if (const HostTarget *target = HostTarget::find(level))
    return step(*target);
  return module.emitError() << "no CPU level '" << level << "': x86-64, avx2, avx512 or avx512bf16";
}

struct TileUnroll : impl::TileUnrollBase<TileUnroll> {
  void runOnOperation() override {
    if (failed(forKernels(getOperation(), unrollTiles)))
      signalPassFailure();
  }
};

struct TilePeelTails : impl::TilePeelTailsBase<TilePeelTails> {
  void runOnOperation() override {
    for (tile::KernelOp kernel : getOperation().getOps<tile::KernelOp>())
      peelTails(kernel);
  }
};

struct TileToVector : impl::TileToVectorBase<TileToVector> {
  using impl::TileToVectorBase<TileToVector>::TileToVectorBase;
  void runOnOperation() override {
    if (failed(forLevel(getOperation(), level, [&](const HostTarget &target) {
          return forKernels(getOperation(), [&](tile::KernelOp kernel) { return tileToVector(kernel, target); });
        })))
      signalPassFailure();
  }
};

struct TileLowerContract : impl::TileLowerContractBase<TileLowerContract> {
  using impl::TileLowerContractBase<TileLowerContract>::TileLowerContractBase;
  void runOnOperation() override {
    if (failed(forLevel(getOperation(), level, [&](const HostTarget &target) {
          return forKernels(getOperation(), [&](tile::KernelOp kernel) { return lowerContract(kernel, target); });
        })))
      signalPassFailure();
  }
};

struct TileLowerGrid : impl::TileLowerGridBase<TileLowerGrid> {
  void runOnOperation() override {
    if (failed(forKernels(getOperation(), lowerGrid)))
      signalPassFailure();
  }
};

struct ExpandMath : impl::ExpandMathBase<ExpandMath> {
  using impl::ExpandMathBase<ExpandMath>::ExpandMathBase;
  void runOnOperation() override {
    if (failed(forLevel(getOperation(), level,
                        [&](const HostTarget &target) { return expandMath(getOperation(), target); })))
      signalPassFailure();
  }
};

struct TileToLlvm : impl::TileToLlvmBase<TileToLlvm> {
  void runOnOperation() override {
    if (failed(convertToLlvm(getOperation())))
      signalPassFailure();
  }
};

#define GEN_PASS_REGISTRATION
#include "tilewright/Target/Host/Passes.h.inc"

} // namespace

void registerPasses() { registerTilewrightHostPasses(); }

} // namespace tilewright::host
