//===- NestAccess.cpp ------------------------------------------------------===//

#include "tilewright/Import/NestAccess.h"

#include <algorithm>

namespace tilewright::loop {

IndexMap IndexMap::identity(unsigned oldRank, unsigned newRank) {
  IndexMap map;
  map.newRank = newRank;
  map.offset.resize(oldRank);
  map.coef.assign(oldRank, std::vector<SizeExpr>(newRank));
  for (unsigned i = 0; i < std::min(oldRank, newRank); ++i)
    map.coef[i][i] = 1;
  return map;
}

Access remap(ExprPool &pool, const Access &access, const IndexMap &map) {
  Access result;
  result.buffer = access.buffer;
  result.offset = access.offset;
  result.coefs.resize(map.newRank);
  for (size_t i = 0; i < access.coefs.size(); ++i) {
    if (access.coefs[i].isConstant(0))
      continue;
    result.offset = result.offset + access.coefs[i] * map.offset[i];
    for (unsigned j = 0; j < map.newRank; ++j)
      if (!map.coef[i][j].isConstant(0))
        result.coefs[j] = result.coefs[j] + access.coefs[i] * map.coef[i][j];
  }
  for (const Access::Indirect &term : access.indirect)
    result.indirect.push_back({remap(pool, term.index, map), term.stride});
  return result;
}

ExprRef remap(ExprPool &pool, ExprRef value, const IndexMap &map) {
  return rewriteLeaves(pool, value, [&](ExprRef leaf) -> ExprRef {
    if (leaf->op == ScalarOp::Load)
      return pool.load(remap(pool, leaf->access, map), leaf->type);
    if (leaf->op != ScalarOp::Index)
      return nullptr;
    unsigned dim = leaf->intValue;
    ExprRef sum = pool.size(map.offset[dim]);
    for (unsigned j = 0; j < map.newRank; ++j) {
      const SizeExpr &coef = map.coef[dim][j];
      if (coef.isConstant(0))
        continue;
      ExprRef term = pool.index(j);
      if (!coef.isConstant(1))
        term = pool.make(ScalarOp::Mul, DType::I64, {term, pool.size(coef)});
      sum = pool.make(ScalarOp::Add, DType::I64, {sum, term});
    }
    return sum;
  });
}

void forEachLoad(ExprRef value, const std::function<void(const Access &, DType)> &fn) {
  visit(value, [&](ExprRef e) {
    if (e->op == ScalarOp::Load)
      fn(e->access, e->type);
  });
}

void forEachRead(const Nest &nest, const std::function<void(const Access &, DType)> &fn) {
  auto tensor = [&](const Tensor &t) {
    Access access;
    access.buffer = t.buffer;
    access.offset = t.offset;
    fn(access, t.dtype);
  };
  for (const Store &store : nest.stores)
    forEachLoad(store.value, fn);
  switch (nest.kind) {
  case Nest::Pointwise:
    break;
  case Nest::Reduction:
    forEachLoad(nest.body, fn);
    break;
  case Nest::Contraction:
    fn(nest.lhs, nest.operandType);
    fn(nest.rhs, nest.operandType);
    break;
  case Nest::Attention:
    for (const Tensor &t : nest.operands)
      tensor(t);
    break;
  case Nest::External:
  case Nest::Kernel:
    for (const Tensor &t : nest.externalInputs)
      tensor(t);
    break;
  }
  for (const Store &store : nest.stores)
    for (const Access::Indirect &term : store.access.indirect)
      forEachLoad(term.index, fn);
}

std::vector<BufferId> writesOf(const Nest &nest) {
  std::vector<BufferId> result;
  for (const Store &store : nest.stores)
    result.push_back(store.access.buffer);
  if (nest.kind == Nest::Reduction)
    result.push_back(nest.target.buffer);
  if (nest.kind == Nest::Attention)
    result.push_back(nest.result.buffer);
  for (const Tensor &t : nest.externalOutputs)
    result.push_back(t.buffer);
  return result;
}

bool reads(const Nest &nest, BufferId buffer) {
  bool found = false;
  forEachRead(nest, [&](const Access &access, DType) { found |= access.buffer == buffer; });
  return found;
}

} // namespace tilewright::loop
