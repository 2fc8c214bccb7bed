//===- Domain.cpp ---------------------------------------------------------===//

#include "tilewright/Transforms/Domain.h"

#include <algorithm>

namespace tilewright::loop {

bool provablyLessEqual(const SizeExpr &a, const SizeExpr &b) { return (b - a).provablyNonNegative(); }

namespace {

/// A dimension of the reader that steps through a dimension of the producer with a multiplier.
struct Digit {
  SizeExpr step, extent;
};

/// True if the digits, as a mixed-radix number, stay below `extent` after adding `offset`.
bool fits(std::vector<Digit> digits, const SizeExpr &offset, const SizeExpr &extent) {
  SizeExpr radix = 1;
  while (!digits.empty()) {
    auto next = std::find_if(digits.begin(), digits.end(), [&](const Digit &d) { return d.step == radix; });
    if (next == digits.end()) {
      // Not dense (a step of 2, say): the last value must still lie inside.
      SizeExpr last = offset + radix;
      for (const Digit &d : digits)
        last = last + d.step * (d.extent - 1);
      return provablyLessEqual(last, extent);
    }
    radix = radix * next->extent;
    digits.erase(next);
  }
  return provablyLessEqual(offset + radix, extent);
}

} // namespace

std::optional<IndexMap> solve(const Access &store, std::span<const SizeExpr> storeDomain, const Access &load,
                              std::span<const SizeExpr> loadDomain) {
  if (!store.indirect.empty() || !load.indirect.empty())
    return std::nullopt;
  unsigned rank = storeDomain.size();
  IndexMap map;
  map.newRank = loadDomain.size();
  map.offset.resize(rank);
  map.coef.assign(rank, std::vector<SizeExpr>(map.newRank));

  // Producer dimensions that matter, outermost (largest stride) first: a later one's stride divides an earlier one's.
  std::vector<unsigned> order;
  for (unsigned p = 0; p < rank; ++p)
    if (!storeDomain[p].isConstant(1)) {
      if (store.coefs[p].isConstant(0))
        return std::nullopt;
      order.push_back(p);
    }
  std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) {
    if (store.coefs[a] == store.coefs[b])
      return false;
    return SizeExpr::divideExactly(store.coefs[a], store.coefs[b]).has_value();
  });

  SizeExpr offset = load.offset - store.offset;
  if (!offset.isConstant(0)) {
    bool placed = false;
    for (unsigned p : order)
      if (auto quotient = SizeExpr::divideExactly(offset, store.coefs[p])) {
        map.offset[p] = *quotient;
        placed = true;
        break;
      }
    if (!placed)
      return std::nullopt;
  }

  std::vector<std::vector<Digit>> digits(rank);
  for (unsigned d = 0; d < map.newRank; ++d) {
    if (loadDomain[d].isConstant(1) || load.coefs[d].isConstant(0))
      continue;
    bool placed = false;
    for (unsigned p : order)
      if (auto step = SizeExpr::divideExactly(load.coefs[d], store.coefs[p])) {
        map.coef[p][d] = *step;
        digits[p].push_back({*step, loadDomain[d]});
        placed = true;
        break;
      }
    if (!placed)
      return std::nullopt;
  }
  for (unsigned p : order)
    if (!fits(digits[p], map.offset[p], storeDomain[p]) || !provablyLessEqual(0, map.offset[p]))
      return std::nullopt;
  return map;
}

namespace {

/// Applies a map of the whole domain; `parallelMap` is its part for the parallel dimensions.
void applyToNest(ExprPool &pool, Nest &nest, const IndexMap &map, std::vector<SizeExpr> domain, unsigned reduced) {
  unsigned oldParallel = nest.domain.size() - nest.reduced, newParallel = domain.size() - reduced;
  IndexMap parallel;
  parallel.newRank = newParallel;
  for (unsigned i = 0; i < oldParallel; ++i) {
    parallel.offset.push_back(map.offset[i]);
    parallel.coef.emplace_back(map.coef[i].begin(), map.coef[i].begin() + newParallel);
  }
  for (Store &store : nest.stores) {
    store.access = remap(pool, store.access, parallel);
    store.value = remap(pool, store.value, parallel);
  }
  if (nest.kind == Nest::Reduction) {
    nest.body = remap(pool, nest.body, map);
    nest.target = remap(pool, nest.target, parallel);
  }
  if (nest.kind == Nest::Contraction) {
    nest.lhs = remap(pool, nest.lhs, map);
    nest.rhs = remap(pool, nest.rhs, map);
  }
  nest.domain = std::move(domain);
  nest.reduced = reduced;
}

/// Calls fn on the coefficients of every access over the nest's domain, and on every Index leaf (with its dimension).
void forEachCoefs(const Nest &nest, const std::function<void(const std::vector<SizeExpr> &)> &coefs,
                  const std::function<void(unsigned)> &index) {
  auto walk = [&](ExprRef value) {
    visit(value, [&](ExprRef e) {
      if (e->op == ScalarOp::Load)
        coefs(e->access.coefs);
      else if (e->op == ScalarOp::Index)
        index(e->intValue);
    });
  };
  auto access = [&](const Access &a) {
    coefs(a.coefs);
    for (const Access::Indirect &term : a.indirect)
      walk(term.index);
  };
  for (const Store &store : nest.stores) {
    access(store.access);
    walk(store.value);
  }
  if (nest.kind == Nest::Reduction) {
    walk(nest.body);
    access(nest.target);
  }
}

} // namespace

bool mergeable(const Nest &nest, unsigned d) {
  bool ok = true;
  unsigned parallel = nest.domain.size() - nest.reduced;
  if (d + 1 == parallel && nest.reduced)
    return false; // would straddle
  if (nest.kind == Nest::Reduction && nest.reduced && d + 1 >= parallel &&
      (nest.reduce == ReduceKind::ArgMax || nest.reduce == ReduceKind::ArgMin))
    return false; // the index counts one dimension
  forEachCoefs(
      nest,
      [&](const std::vector<SizeExpr> &coefs) {
        if (d + 1 < coefs.size())
          ok &= coefs[d] == coefs[d + 1] * nest.domain[d + 1];
      },
      [&](unsigned dim) { ok &= dim != d && dim != d + 1; });
  return ok;
}

void dropUnitDimensions(ExprPool &pool, Nest &nest) {
  if (nest.kind == Nest::Attention || nest.kind == Nest::External)
    return;
  unsigned rank = nest.domain.size(), parallel = rank - nest.reduced;
  unsigned keepFrom = nest.kind == Nest::Contraction ? rank - 3 : rank;
  std::vector<unsigned> kept;
  for (unsigned d = 0; d < rank; ++d)
    if (d >= keepFrom || !nest.domain[d].isConstant(1))
      kept.push_back(d);
  if (kept.size() == rank)
    return;
  IndexMap map = IndexMap::identity(rank, 0);
  map.newRank = kept.size();
  map.coef.assign(rank, std::vector<SizeExpr>(kept.size()));
  std::vector<SizeExpr> domain;
  unsigned reduced = 0;
  for (unsigned j = 0; j < kept.size(); ++j) {
    map.coef[kept[j]][j] = 1;
    domain.push_back(nest.domain[kept[j]]);
    reduced += kept[j] >= parallel;
  }
  applyToNest(pool, nest, map, std::move(domain), reduced);
}

bool reshapeDimensions(ExprPool &pool, Nest &nest, unsigned begin, unsigned end, const std::vector<SizeExpr> &target) {
  std::vector<SizeExpr> source(nest.domain.begin() + begin, nest.domain.begin() + end);
  if (source == target)
    return true;
  // Pair runs of source and target dimensions of equal product, innermost first.
  struct Run {
    unsigned sourceBegin, sourceEnd, targetBegin, targetEnd;
  };
  std::vector<Run> runs;
  unsigned s = source.size(), t = target.size();
  while (s || t) {
    Run run{s, s, t, t};
    SizeExpr sp = 1, tp = 1;
    auto takeSource = [&] { sp = sp * source[--s]; };
    auto takeTarget = [&] { tp = tp * target[--t]; };
    if (!s || !t)
      return false;
    takeSource();
    takeTarget();
    while (!(sp == tp)) {
      if (t && SizeExpr::divideExactly(sp, tp))
        takeTarget();
      else if (s && SizeExpr::divideExactly(tp, sp))
        takeSource();
      else
        return false;
    }
    run.sourceBegin = s;
    run.targetBegin = t;
    if (run.sourceEnd - run.sourceBegin > 1 && run.targetEnd - run.targetBegin > 1)
      return false;
    for (unsigned d = run.sourceBegin; d + 1 < run.sourceEnd; ++d)
      if (!mergeable(nest, begin + d))
        return false;
    runs.push_back(run);
  }
  unsigned tail = nest.domain.size() - end;
  unsigned parallel = nest.domain.size() - nest.reduced;
  std::vector<SizeExpr> domain(nest.domain.begin(), nest.domain.begin() + begin);
  domain.insert(domain.end(), target.begin(), target.end());
  domain.insert(domain.end(), nest.domain.begin() + end, nest.domain.end());
  IndexMap map;
  map.newRank = domain.size();
  map.offset.resize(nest.domain.size());
  map.coef.assign(nest.domain.size(), std::vector<SizeExpr>(domain.size()));
  for (unsigned d = 0; d < begin; ++d)
    map.coef[d][d] = 1;
  for (unsigned d = 0; d < tail; ++d)
    map.coef[end + d][begin + target.size() + d] = 1;
  for (const Run &run : runs) {
    // Many to one: the innermost source index stands for the merged one (coefficients were shown to agree).
    unsigned from = begin + run.sourceEnd - 1;
    SizeExpr step = 1;
    for (unsigned j = run.targetEnd; j-- > run.targetBegin;) {
      map.coef[from][begin + j] = step;
      step = step * target[j];
    }
  }
  unsigned reduced = begin >= parallel ? nest.reduced - (end - begin) + target.size() : nest.reduced;
  applyToNest(pool, nest, map, std::move(domain), reduced);
  return true;
}

} // namespace tilewright::loop
