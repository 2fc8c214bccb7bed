//===- Domain.h - changing the index space of a loop nest ---------*- C++ -*-===//
//
// Nests meet in fusion only when their index spaces agree. These functions re-express a nest over other dimensions:
// exact or not at all.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Import/NestAccess.h"

#include <functional>
#include <span>

namespace tilewright::loop {

/// True if a <= b for all non-negative values of the symbols, as far as the polynomials show it.
bool provablyLessEqual(const SizeExpr &a, const SizeExpr &b);

/// The producer's indices, for each point of `loadDomain`, of the element that `load` reads, if the producer wrote it
/// at `store` over `storeDomain`. Nothing if the reader's view is not linear in the producer's indices or may leave its
/// domain.
std::optional<IndexMap> solve(const Access &store, std::span<const SizeExpr> storeDomain, const Access &load,
                              std::span<const SizeExpr> loadDomain);

/// Removes dimensions of extent 1 (of a pointwise or reduction nest, and batch dimensions of a contraction).
void dropUnitDimensions(ExprPool &pool, Nest &nest);

/// Re-expresses dimensions [begin, end) of a pointwise or reduction nest over `target` extents (same product, same
/// order): dimensions are split freely, and merged where every access allows it. Dimensions must not straddle the
/// reduced ones. False: nothing changed.
bool reshapeDimensions(ExprPool &pool, Nest &nest, unsigned begin, unsigned end, const std::vector<SizeExpr> &target);

/// True if dimensions d and d+1 of all accesses of `nests` (which share a domain) can be walked as one.
bool mergeable(const Nest &nest, unsigned d);

} // namespace tilewright::loop
