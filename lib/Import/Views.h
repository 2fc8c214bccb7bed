//===- Views.h - other ways to see the same memory ---------------*- C++ -*-===//
//
// Views change sizes, strides and offset and emit nothing. Dimensions are in [0, rank) already.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Builder.h"

namespace tilewright::importer {

Tensor permute(const Tensor &t, const std::vector<unsigned> &order);
Tensor transpose(const Tensor &t, unsigned a, unsigned b);
Tensor unsqueeze(Tensor t, unsigned dim);
/// Drops the dimension, whatever its size: callers know it is 1.
Tensor dropDimension(Tensor t, unsigned dim);
/// Drops those of the dimensions that are known to have size 1.
Tensor squeeze(const Tensor &t, const std::vector<unsigned> &dims);
/// Sizes as torch.expand takes them: -1 keeps a size. Throws Invalid where a size is neither 1 nor equal.
Tensor expand(Builder &b, const Tensor &t, const Sizes &sizes);
/// Broadcast to sizes that are known to fit.
Tensor broadcastTo(const Tensor &t, const Sizes &sizes);
/// t[..., start:end:step, ...] with Python's clamping. nullopt: from the beginning, to the end.
Tensor slice(Builder &b, Tensor t, unsigned dim, std::optional<SizeExpr> start, std::optional<SizeExpr> end,
             const SizeExpr &step);
/// `length` elements from `start`, both within bounds already.
Tensor narrow(Tensor t, unsigned dim, const SizeExpr &start, const SizeExpr &length);
Tensor select(Builder &b, const Tensor &t, unsigned dim, const SizeExpr &index);
Tensor diagonal(Builder &b, const Tensor &t, int64_t offset, unsigned dim1, unsigned dim2);
/// The dimension read from its end. Not a view in PyTorch: strides become negative.
Tensor reversed(Tensor t, unsigned dim);

/// Replaces one -1 by what is left of `numel`; demands that the product is `numel`.
Sizes inferSize(Builder &b, const SizeExpr &numel, Sizes sizes);
/// The view of t with these sizes (whose product is t's), if strides can express it.
std::optional<Tensor> tryReshape(const Tensor &t, const Sizes &sizes);
/// The view if there is one, else a contiguous copy. Sizes may hold one -1.
Tensor reshape(Builder &b, const Tensor &t, const Sizes &sizes);
/// Dimensions first..last (inclusive) become one.
Tensor flatten(Builder &b, const Tensor &t, unsigned first, unsigned last);

//===--- Strides --------------------------------------------------------------===//

bool isContiguous(const Tensor &t);
/// Whether the elements fill a range of memory, each once, in some order of dimensions.
bool isNonOverlappingAndDense(const Tensor &t);
/// TensorIterator's strides for a result of elementwise operators (ATen/TensorIterator.cpp, reorder_dimensions): the
/// order of dimensions of the first operand that tells. `operands` are broadcast to `sizes`.
Sizes elementwiseStrides(const ModuleState &state, const std::vector<Tensor> &operands, const Sizes &sizes);
/// Strides of empty_like(t): t's own if it is dense, else dense in its order of dimensions.
Sizes likeStrides(const ModuleState &state, const Tensor &t);

} // namespace tilewright::importer
