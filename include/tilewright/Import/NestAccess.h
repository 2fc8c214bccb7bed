//===- NestAccess.h - what nests read and write, and from where -----*- C++ -*-===//
#pragma once

#include "tilewright/Import/LoopIR.h"

#include <functional>

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

/// Calls fn on every access of an expression, those inside indices included.
void forEachLoad(ExprRef value, const std::function<void(const Access &, DType)> &fn);
/// Calls fn on every access that the nest reads.
void forEachRead(const Nest &nest, const std::function<void(const Access &, DType)> &fn);
/// Buffers that the nest writes.
std::vector<BufferId> writesOf(const Nest &nest);
bool reads(const Nest &nest, BufferId buffer);

} // namespace tilewright::loop
