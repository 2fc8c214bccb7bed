//===- Domain.h - changing the index space of a loop nest ---------*- C++ -*-===//
//
// Nests meet in fusion only when their index spaces agree. These functions re-express a nest over other dimensions:
// exact or not at all.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Import/LoopIR.h"

#include <functional>
#include <span>

namespace tilewright::loop {

/// Old indices as linear functions of new ones: old[i] = offset[i] + sum(coef[i][j] * new[j]).
struct IndexMap {
  std::vector<SizeExpr> offset;
  std::vector<std::vector<SizeExpr>> coef;
  unsigned newRank = 0;

  static IndexMap identity(unsigned oldRank, unsigned newRank);
};

Access remap(ExprPool &pool, const Access &access, const IndexMap &map);
ExprRef remap(ExprPool &pool, ExprRef value, const IndexMap &map);

/// True if a <= b for all non-negative values of the symbols, as far as the polynomials show it.
bool provablyLessEqual(const SizeExpr &a, const SizeExpr &b);

/// The producer's indices, for each point of `loadDomain`, of the element that `load` reads, if the producer wrote it
/// at `store` over `storeDomain`. Nothing if the reader's view is not linear in the producer's indices or may leave its
/// domain.
std::optional<IndexMap> solve(const Access &store, std::span<const SizeExpr> storeDomain, const Access &load,
                              std::span<const SizeExpr> loadDomain);

/// Calls fn on every access of an expression, those inside indices included.
void forEachLoad(ExprRef value, const std::function<void(const Access &, DType)> &fn);
/// Calls fn on every access that the nest reads.
void forEachRead(const Nest &nest, const std::function<void(const Access &, DType)> &fn);
/// Buffers that the nest writes.
std::vector<BufferId> writesOf(const Nest &nest);
bool reads(const Nest &nest, BufferId buffer);

/// Removes dimensions of extent 1 (of a pointwise or reduction nest, and batch dimensions of a contraction).
void dropUnitDimensions(ExprPool &pool, Nest &nest);

/// Re-expresses dimensions [begin, end) of a pointwise or reduction nest over `target` extents (same product, same
/// order): dimensions are split freely, and merged where every access allows it. Dimensions must not straddle the
/// reduced ones. False: nothing changed.
bool reshapeDimensions(ExprPool &pool, Nest &nest, unsigned begin, unsigned end, const std::vector<SizeExpr> &target);

/// True if dimensions d and d+1 of all accesses of `nests` (which share a domain) can be walked as one.
bool mergeable(const Nest &nest, unsigned d);

} // namespace tilewright::loop
