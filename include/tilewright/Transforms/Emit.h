//===- Emit.h - groups become kernels of the tile dialect ---------*- C++ -*-===//
#pragma once

#include "tilewright/Target/Host/AttentionPlan.h"
#include "tilewright/Transforms/KernelKey.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>

namespace tilewright::loop {

/// What the tile level must know of the target.
struct TileTarget {
  unsigned lanes = 16;  // f32 elements of a vector
  unsigned threads = 1; // that will run the program
  host::MatrixTarget matrix;
  /// Builds the fused attention kernel.
  std::function<mlir::OwningOpRef<mlir::ModuleOp>(mlir::MLIRContext &, const host::AttentionKind &,
                                                  llvm::StringRef name)>
      buildAttention;
  bool streaming = false; // large results are written past the caches: what is computed next does not read them
};

/// The launch of a kernel, in run-time sizes.
struct LaunchPlan {
  SizeExpr grid = 1, grain = 1, scratchBytes = 0, bytesMoved = 0, flops = 0;
};

/// A group (or a part of one) cannot be expressed: names the operator and why.
struct EmitError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How a Loops group is walked: which dimension is the vector, what is the grid. A function of the key's structure
/// alone.
struct LoopPlan {
  int vectorDim = -1;     // of outer ++ row; -1: scalar code
  bool column = false;    // the vector runs along the last outer dimension
  bool chunked = false;   // pointwise: the last dimension is cut into chunks
  int64_t chunk = kChunk; // elements of one
  /// Something is gathered along the vector and contiguous along the dimension before it: chunks are short, and their
  /// loop is outside of that dimension's, so that what a gather brings into the cache is used by the next ones.
  bool strips = false;
  std::vector<unsigned> phaseOf; // per member
  /// Bytes that the kernel moves, if some stores are to bypass the caches where that is beyond kStreamingBytes.
  std::optional<SizeExpr> streamed;
  static constexpr int64_t kStreamingBytes = int64_t(48) << 20;
  static constexpr int64_t kChunk = 4096, kStrip = 32;
};
LoopPlan planLoops(ExprPool &pool, Group &group); // may permute the dimensions of a pointwise group
/// Whether vectors along `dim` that are stored there could bypass the caches.
bool streams(const Group &group, const Access &access, unsigned dim);
/// Whether the group writes vectors that could bypass the caches.
bool mayStream(const Group &group, const LoopPlan &plan);
LaunchPlan launchOf(const Group &group, const LoopPlan &plan, const TileTarget &target);

/// Emits `tile.kernel @name` for a Loops group.
mlir::OwningOpRef<mlir::ModuleOp> emitLoops(mlir::MLIRContext &context, const Group &group, const LoopPlan &plan,
                                            const KernelKey &key, const TileTarget &target, llvm::StringRef name);

/// A contraction as launches: pack the right operand (a kernel of its own), then multiply.
struct ContractionPlan {
  host::MatrixShape shape;
  host::ContractBlocks blocks;
  BufferId panels = 0;         // a fresh buffer of the module
  std::vector<unsigned> batch; // batch dimensions of the domain that the right operand differs in
  SizeExpr panelElements = 0;  // of one panel
  SizeExpr packedElements = 0; // of all panels of one matrix
};
ContractionPlan planContraction(Module &module, const Group &group, const TileTarget &target);

/// A contraction that reads its right operand as it lies: every row of the result reads all of it, from a cache for a
/// few rows, and nothing is packed.
struct UnpackedProduct {
  std::shared_ptr<Group> group; // a Loops group
  SizeExpr pays;                // 1 where this is better than packing for one call, else 0
};
/// Nothing where neither dimension of the operand is contiguous, or where there are never few rows.
std::optional<UnpackedProduct> planUnpacked(Module &module, const Group &group, const ContractionPlan &plan);

/// The two kernels of a contraction. The keys' integers are complete when these return.
KernelKey packKey(const Group &group, const ContractionPlan &plan);
KernelKey contractKey(const Group &group, const Module &module, const ContractionPlan &plan);
LaunchPlan packLaunch(const Group &group, const ContractionPlan &plan);
LaunchPlan contractLaunch(const Group &group, const ContractionPlan &plan);
mlir::OwningOpRef<mlir::ModuleOp> emitPack(mlir::MLIRContext &context, const Group &group, const ContractionPlan &plan,
                                           const KernelKey &key, llvm::StringRef name);
mlir::OwningOpRef<mlir::ModuleOp> emitContract(mlir::MLIRContext &context, const Group &group,
                                               const ContractionPlan &plan, const KernelKey &key, llvm::StringRef name);

/// A structured kernel program (Import/KernelBody.h) whose blocks are fused.
struct KernelPlan;
/// Consumes the nests' blocks; adds buffers to the module. Throws EmitError.
std::shared_ptr<const KernelPlan> planKernel(Module &module, const Nest &nest, const TileTarget &target);
KernelArguments argumentsOf(const KernelPlan &plan);
LaunchPlan launchOf(const KernelPlan &plan);
/// Control flow and fused pieces as text, with what each tile takes of the scratch.
std::string str(const KernelPlan &plan);
/// What the kernel is specialised on.
std::string keyOf(const KernelPlan &plan);
mlir::OwningOpRef<mlir::ModuleOp> emitKernel(mlir::MLIRContext &context, const KernelPlan &plan, llvm::StringRef name);

} // namespace tilewright::loop
