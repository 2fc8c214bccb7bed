//===- Unpacked.cpp - products with few rows, without packing -------------===//
//
// Packing reads the right operand, writes it and reads it again: 4 times its bytes with what the cache fetches before
// it writes. With few rows a product has no other work that counts, so sums along the operand as it lies are faster.
//
//===----------------------------------------------------------------------===//

#include "tilewright/Transforms/Domain.h"
#include "tilewright/Transforms/Emit.h"

namespace tilewright::loop {

namespace {

// Rows from which packing pays. Where k is contiguous in the operand, all rows of the result use one of its rows while
// it is in L1, at half of the rate of a packed product. Where n is, each row of the result reads all of it from memory.
constexpr int64_t kRowsAlongK = 12, kRowsAlongN = 4;

} // namespace

std::optional<UnpackedProduct> planUnpacked(Module &module, const Group &group, const ContractionPlan &plan) {
  const Nest &nest = group.members.front();
  const unsigned rank = nest.domain.size(), parallel = rank - 1, m = rank - 3, n = rank - 2, k = rank - 1;
  const bool alongK = nest.rhs.coefs[k].isConstant(1) && nest.lhs.coefs[k].isConstant(1);
  if (!alongK && !nest.rhs.coefs[n].isConstant(1))
    return std::nullopt;
  SizeExpr pays = 1 - SizeExpr::min(1, SizeExpr::floordiv(nest.domain[m], alongK ? kRowsAlongK : kRowsAlongN));
  if (pays.isConstant(0))
    return std::nullopt;

  // Columns go before rows where all rows are to use what is in L1; the vector runs along the last of them otherwise.
  IndexMap map = IndexMap::identity(rank, rank);
  if (alongK)
    std::swap(map.coef[m], map.coef[n]);
  auto over = [&](const std::vector<SizeExpr> &extents) {
    std::vector<SizeExpr> result = extents;
    if (alongK)
      std::swap(result[m], result[n]);
    return result;
  };
  IndexMap outer = map;
  outer.newRank = parallel;
  outer.offset.resize(parallel);
  outer.coef.resize(parallel);
  for (auto &row : outer.coef)
    row.resize(parallel);

  ExprPool &pool = module.pool;
  auto result = std::make_shared<Group>();
  result->outer = over({nest.domain.begin(), nest.domain.end() - 1});
  result->row = {nest.domain[k]};

  Buffer sums;
  sums.dtype = plan.shape.accumulator;
  sums.elements = productOf(result->outer);
  Access sum;
  sum.buffer = module.buffers.size();
  sum.coefs = contiguousStrides(result->outer);
  module.buffers.push_back(std::move(sums));
  result->local.insert(sum.buffer);

  Nest reduction;
  reduction.kind = Nest::Reduction;
  reduction.domain = over(nest.domain);
  reduction.reduced = 1;
  auto operand = [&](const Access &access) {
    return pool.cast(pool.load(remap(pool, access, map), nest.operandType), plan.shape.accumulator);
  };
  ExprRef x = operand(nest.lhs), y = operand(nest.rhs);
  reduction.body = pool.make(ScalarOp::Mul, plan.shape.accumulator, {x, y});
  reduction.target = sum;
  reduction.op = nest.op;
  reduction.source = nest.source;
  result->members.push_back(std::move(reduction));

  Nest epilogue;
  epilogue.domain = result->outer;
  epilogue.op = nest.op;
  epilogue.source = nest.source;
  for (const Store &store : nest.stores) {
    ExprRef value = remap(pool, store.value, outer);
    value = rewriteLeaves(pool, value, [&](ExprRef leaf) -> ExprRef {
      return leaf->op == ScalarOp::Accumulator ? pool.load(sum, plan.shape.accumulator) : nullptr;
    });
    epilogue.stores.push_back({remap(pool, store.access, outer), value, store.atomicAdd});
  }
  result->members.push_back(std::move(epilogue));
  return UnpackedProduct{std::move(result), pays};
}

} // namespace tilewright::loop
