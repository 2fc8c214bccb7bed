//===- Strides.cpp - which strides a result has ---------------------------===//
#include "Views.h"

#include <algorithm>
#include <numeric>

namespace tilewright::importer {

bool isContiguous(const Tensor &t) {
  SizeExpr expected = 1;
  for (unsigned d = t.rank(); d-- > 0;) {
    if (t.sizes[d].isConstant(0))
      return true;
    if (t.sizes[d].isConstant(1))
      continue;
    if (!(t.strides[d] == expected))
      return false;
    expected = expected * t.sizes[d];
  }
  return true;
}

bool isNonOverlappingAndDense(const Tensor &t) {
  std::vector<unsigned> left;
  for (unsigned d = 0; d < t.rank(); ++d) {
    if (t.sizes[d].isConstant(0))
      return true;
    if (!t.sizes[d].isConstant(1))
      left.push_back(d);
  }
  SizeExpr expected = 1;
  while (!left.empty()) {
    auto next = std::find_if(left.begin(), left.end(), [&](unsigned d) { return t.strides[d] == expected; });
    if (next == left.end())
      return false;
    expected = expected * t.sizes[*next];
    left.erase(next);
  }
  return true;
}

/// Dense strides with perm[0] running fastest.
static Sizes stridesInOrder(const Sizes &sizes, const std::vector<unsigned> &perm) {
  Sizes strides(sizes.size());
  SizeExpr stride = 1;
  for (unsigned d : perm) {
    strides[d] = stride;
    if (!sizes[d].isConstant(0))
      stride = stride * sizes[d];
  }
  return strides;
}

Sizes elementwiseStrides(const ModuleState &state, const std::vector<Tensor> &operands, const Sizes &sizes) {
  const unsigned rank = sizes.size();
  // The fast paths: all operands of the result's shape, all contiguous or all dense with the same strides.
  const bool sameShape =
      std::all_of(operands.begin(), operands.end(), [&](const Tensor &t) { return t.sizes == sizes; });
  if (operands.empty() || rank < 2 || (sameShape && std::all_of(operands.begin(), operands.end(), isContiguous)))
    return loop::contiguousStrides(sizes);
  if (sameShape && isNonOverlappingAndDense(operands[0]) &&
      std::all_of(operands.begin(), operands.end(), [&](const Tensor &t) { return t.strides == operands[0].strides; }))
    return operands[0].strides;

  std::vector<Sizes> strides;
  for (const Tensor &t : operands) {
    Sizes aligned(rank);
    for (unsigned d = 0; d < t.rank(); ++d) {
      const unsigned to = d + rank - t.rank();
      aligned[to] = t.sizes[d].isConstant(1) && !sizes[to].isConstant(1) ? SizeExpr(0) : t.strides[d];
    }
    strides.push_back(std::move(aligned));
  }
  // 1: dim0 should come after dim1; -1: before; 0: nobody can tell.
  const auto order = [&](unsigned dim0, unsigned dim1) {
    for (const Sizes &s : strides) {
      if (s[dim0].isConstant(0) || s[dim1].isConstant(0))
        continue;
      if (state.probablyLess(s[dim0], s[dim1]))
        return -1;
      if (state.probablyLess(s[dim1], s[dim0]))
        return 1;
      if (s[dim0] == s[dim1] && state.probablyLess(sizes[dim1], sizes[dim0]))
        return 1;
    }
    return 0;
  };
  std::vector<unsigned> perm(rank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  for (unsigned i = 1; i < rank; ++i) {
    unsigned at = i;
    for (unsigned j = i; j-- > 0;) {
      const int comparison = order(perm[j], perm[at]);
      if (comparison < 0)
        break;
      if (comparison > 0) {
        std::swap(perm[j], perm[at]);
        at = j;
      }
    }
  }
  return stridesInOrder(sizes, perm);
}

Sizes likeStrides(const ModuleState &state, const Tensor &t) {
  return isNonOverlappingAndDense(t) ? t.strides : elementwiseStrides(state, {t}, t.sizes);
}

} // namespace tilewright::importer
