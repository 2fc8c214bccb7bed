//===- Attention.h - scaled dot product attention as one kernel ----*- C++ -*-===//
//
// out[b, h, i] = softmax_j(scale * q[b, h, i] . k[b, h, j] + mask[b, h, i, j]) v[b, h, j] in f32, without the matrix of
// scores in memory: a kernel of the tile dialect, made of tile.pack, tile.contract and loops over rows. One grid point
// takes a block of rows of one head and goes over the keys in blocks (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018; Dao et al., "FlashAttention", 2022):
//
//   pack a block of k (transposed) and of v into panels
//   scores      = scale * q k^T, masked; -inf in the columns that fill up the last vector
//   per row     : new maximum; p = exp(score - maximum); the sum, and the factor that older sums and outputs are
//   multiplied with output      = output * factor + p v
//
// All sizes and strides are run-time integers; the kernel is specialised on the mask's kind, causality and the scale.
// Where a row has no key that is not masked (and where there are no keys) the result is 0, as PyTorch has it; NaN and
// +inf scores give NaN.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Target/Host/ContractPlan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <array>
#include <string>

namespace tilewright::host {

/// What an attention kernel is specialised on.
struct AttentionKind {
  enum Mask : uint8_t {
    None,
    Additive, // f32, added to the scaled score
    Boolean   // bool: false means -inf
  } mask = None;
  bool maskContiguous = true; // the mask's last stride is 1; else it is an integer of the step
  bool outContiguous = true;  // the result's last stride is 1
  bool causal = false;        // key j is seen by query i if j <= i, in addition to the mask
  double scale = 1;

  /// Equal texts mean equal kernels (for one target).
  std::string key() const;
};

/// Sizes and strides (in elements) of [batch, heads, rows, columns] operands; a broadcast dimension has stride 0.
struct AttentionSizes {
  SizeExpr batch, heads, queries, keys;
  SizeExpr headSize, valueSize; // D of q and k, E of v and the result
  std::array<SizeExpr, 4> q, k, v, mask, out;
};

/// The launch of the kernel: buffers are q, k, v, (mask,) out, each at its first element.
struct AttentionLaunch {
  std::vector<SizeExpr> ints; // of the step, in the kernel's order
  SizeExpr grid, grain, scratchBytes, flops, bytesMoved;
};

/// Block sizes: up to 192 rows (fewer where that leaves threads idle) and 256 keys, so that scores and packed keys stay
/// in L2.
AttentionLaunch planAttention(const AttentionKind &kind, const AttentionSizes &sizes, const MatrixTarget &target,
                              unsigned threads);

/// A module with `tile.kernel @name` for compileKernel. The context has the dialects of registerDialects loaded.
mlir::OwningOpRef<mlir::ModuleOp> buildAttention(mlir::MLIRContext &context, const AttentionKind &kind,
                                                 const MatrixTarget &target, llvm::StringRef name);

} // namespace tilewright::host
