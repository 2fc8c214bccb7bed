//===- Reduce.h - reductions that several families share ---------*- C++ -*-===//
//
// Results are in the accumulator's type: round once, at the end of the operator.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Builder.h"

#include <utility>

namespace tilewright::importer {

/// How many elements the dimensions hold together.
SizeExpr countOf(const Tensor &t, const std::vector<unsigned> &dims);
Tensor sumOf(Builder &b, const Tensor &t, const std::vector<unsigned> &dims, bool keepDim);
Tensor meanOf(Builder &b, const Tensor &t, const std::vector<unsigned> &dims, bool keepDim);
Tensor maxOf(Builder &b, const Tensor &t, const std::vector<unsigned> &dims, bool keepDim);
/// Variance and mean, dimensions kept. Two passes: the mean, then the squares of the differences from it, divided by
/// count - correction.
std::pair<Tensor, Tensor> varianceOf(Builder &b, const Tensor &t, const std::vector<unsigned> &dims, double correction);
/// Drops dimensions of size 1 that a reduction kept.
Tensor withoutDimensions(Tensor t, const std::vector<unsigned> &dims);

} // namespace tilewright::importer
