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

#include "tilewright/Target/Host/AttentionPlan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace tilewright::host {

/// A module with `tile.kernel @name` for compileKernel. The context has the dialects of registerDialects loaded.
mlir::OwningOpRef<mlir::ModuleOp> buildAttention(mlir::MLIRContext &context, const AttentionKind &kind,
                                                 const MatrixTarget &target, llvm::StringRef name);

} // namespace tilewright::host
