//===- LoopPlan.cpp - how a group of loops is walked ----------------------===//

#include "tilewright/Transforms/Domain.h"
#include "tilewright/Transforms/Emit.h"

#include <algorithm>
#include <functional>

namespace tilewright::loop {

namespace {

bool hasReduction(const Group &group) {
  return std::any_of(group.members.begin(), group.members.end(),
                     [](const Nest &n) { return n.kind == Nest::Reduction; });
}

/// Number of accesses that step by one element along a dimension.
unsigned unitSteps(const Group &group, unsigned dim) {
  unsigned count = 0;
  auto look = [&](const Access &access) { count += dim < access.coefs.size() && access.coefs[dim].isConstant(1); };
  for (const Nest &member : group.members) {
    forEachRead(member, [&](const Access &access, DType) { look(access); });
    for (const Store &store : member.stores)
      look(store.access);
  }
  return count;
}

/// A dimension along which something is contiguous that is gathered along `vector`, as in a transpose.
std::optional<unsigned> gatheredAlong(const Group &group, unsigned vector) {
  std::optional<unsigned> found;
  auto look = [&](const Access &access) {
    if (vector >= access.coefs.size() || access.coefs[vector].isConstant(0) || access.coefs[vector].isConstant(1))
      return;
    for (unsigned d = 0; d < group.outer.size(); ++d)
      if (d != vector && d < access.coefs.size() && access.coefs[d].isConstant(1))
        found = d;
  };
  for (const Nest &member : group.members) {
    forEachRead(member, [&](const Access &access, DType) { look(access); });
    for (const Store &store : member.stores)
      look(store.access);
  }
  return found;
}

/// Makes dimension `from` of a group without reductions the last one.
void moveToEnd(ExprPool &pool, Group &group, unsigned from) {
  unsigned rank = group.outer.size();
  IndexMap map;
  map.newRank = rank;
  map.offset.resize(rank);
  map.coef.assign(rank, std::vector<SizeExpr>(rank));
  std::vector<SizeExpr> domain;
  for (unsigned d = 0; d < rank; ++d)
    if (d != from)
      domain.push_back(group.outer[d]);
  domain.push_back(group.outer[from]);
  for (unsigned d = 0; d < rank; ++d)
    map.coef[d][d == from ? rank - 1 : d - (d > from)] = 1;
  for (Nest &member : group.members) {
    for (Store &store : member.stores) {
      store.access = remap(pool, store.access, map);
      store.value = remap(pool, store.value, map);
    }
    member.domain = domain;
  }
  group.outer = std::move(domain);
}

/// A member runs in the earliest loop over the row in which all it needs is there: after the loop that ends a reduction
/// it reads, and not before the loop that makes a row value it reads.
std::vector<unsigned> phases(const Group &group) {
  std::vector<unsigned> phaseOf;
  std::map<BufferId, unsigned> available; // first phase that may read the buffer
  for (const Nest &member : group.members) {
    unsigned phase = 0;
    forEachRead(member, [&](const Access &access, DType) {
      if (auto it = available.find(access.buffer); it != available.end())
        phase = std::max(phase, it->second);
    });
    phaseOf.push_back(phase);
    for (BufferId b : writesOf(member))
      available[b] = phase + (member.kind == Nest::Reduction);
  }
  return phaseOf;
}

} // namespace

LoopPlan planLoops(ExprPool &pool, Group &group) {
  LoopPlan plan;
  plan.phaseOf = phases(group);
  if (!hasReduction(group)) {
    if (group.outer.empty())
      return plan;
    // The vector runs along the dimension in which most accesses are contiguous, stores before loads.
    unsigned best = group.outer.size() - 1, bestScore = 0;
    for (unsigned d = group.outer.size(); d-- > 0;) {
      unsigned score = unitSteps(group, d) * 2;
      for (const Nest &member : group.members)
        for (const Store &store : member.stores)
          score += 3 * store.access.coefs[d].isConstant(1);
      if (score > bestScore)
        best = d, bestScore = score;
    }
    std::optional<unsigned> across = gatheredAlong(group, best);
    if (across) {
      moveToEnd(pool, group, *across);
      best -= *across < best;
      plan.chunk = LoopPlan::kStrip;
      plan.strips = true;
    }
    if (best + 1 != group.outer.size())
      moveToEnd(pool, group, best);
    plan.vectorDim = group.outer.size() - 1;
    plan.chunked = true;
    return plan;
  }
  unsigned lastRow = group.outer.size() + group.row.size() - 1;
  if (group.row.empty()) // every reduced dimension had extent 1
    plan.column = !group.outer.empty();
  else {
    // The vector runs where fewer reads are gathers; what does not move along it is broadcast. Results of the
    // reductions are contiguous along the last outer dimension as a rule: reads alone count.
    unsigned rowGathers = 0, outerGathers = 0;
    auto gathers = [](const SizeExpr &coef) { return !coef.isConstant(0) && !coef.isConstant(1); };
    for (const Nest &member : group.members)
      forEachRead(member, [&](const Access &access, DType) {
        if (group.outer.empty() || access.coefs.size() <= group.outer.size())
          return;
        rowGathers += lastRow < access.coefs.size() && gathers(access.coefs[lastRow]);
        outerGathers += gathers(access.coefs[group.outer.size() - 1]);
      });
    plan.column = rowGathers > outerGathers;
  }
  if (plan.column)
    plan.vectorDim = group.outer.size() - 1;
  else if (!group.row.empty())
    plan.vectorDim = lastRow;
  return plan;
}

bool streams(const Group &group, const Access &access, unsigned dim) {
  // What is updated in place is in the caches, since it was read.
  return !group.local.count(access.buffer) && dim < access.coefs.size() && access.coefs[dim].isConstant(1) &&
         access.indirect.empty() &&
         std::none_of(
             group.members.begin(), group.members.end(),
             [&](const Nest &member) { return reads(member, access.buffer); });
}

bool mayStream(const Group &group, const LoopPlan &plan) {
  if (plan.column || plan.strips || plan.vectorDim < 0)
    return false;
  for (const Nest &member : group.members)
    for (const Store &store : member.stores)
      if (streams(group, store.access, plan.vectorDim))
        return true;
  return false;
}

LaunchPlan launchOf(const Group &group, const LoopPlan &plan, const TileTarget &target) {
  LaunchPlan launch;
  unsigned rank = group.outer.size() + group.row.size();
  SizeExpr points = productOf(group.outer) * productOf(group.row);
  SizeExpr work = productOf(group.row); // elements per grid point
  launch.grid = productOf(group.outer);
  if (plan.chunked) {
    const SizeExpr &last = group.outer.back();
    SizeExpr chunks = SizeExpr::ceildiv(last, plan.chunk);
    launch.grid = 1;
    for (size_t d = 0; d + 1 < group.outer.size(); ++d)
      launch.grid = launch.grid * group.outer[d];
    launch.grid = launch.grid * chunks;
    work = SizeExpr::min(last, plan.chunk);
  } else if (plan.column) {
    SizeExpr tile = int64_t(4 * target.lanes);
    launch.grid = 1;
    for (size_t d = 0; d + 1 < group.outer.size(); ++d)
      launch.grid = launch.grid * group.outer[d];
    launch.grid = launch.grid * SizeExpr::ceildiv(group.outer.back(), tile);
    work = work * tile;
  }
  // A thread should get some 10 us of work: about 8192 elements of simple arithmetic.
  launch.grain = SizeExpr::max(1, SizeExpr::floordiv(8192, SizeExpr::max(1, work)));

  // Row values that a later phase reads again lie in scratch.
  SizeExpr scratch = 0;
  for (const Nest &member : group.members)
    for (const Store &store : member.stores)
      if (group.local.count(store.access.buffer) && member.domain.size() == rank && !group.row.empty()) {
        SizeExpr bytes =
            productOf(group.row) * int64_t(sizeOf(store.value->type)) * int64_t(plan.column ? 4 * target.lanes : 1);
        scratch = scratch + SizeExpr::ceildiv(bytes, 64) * 64;
      }
  launch.scratchBytes = scratch;

  std::map<BufferId, SizeExpr> bytes;
  unsigned cost = 0;
  auto touch = [&](const Access &access, DType type, const std::vector<SizeExpr> &domain) {
    if (group.local.count(access.buffer))
      return;
    SizeExpr elements = 1;
    for (size_t d = 0; d < access.coefs.size(); ++d)
      if (!access.coefs[d].isConstant(0))
        elements = elements * domain[d];
    bytes[access.buffer] = elements * int64_t(sizeOf(type));
  };
  for (const Nest &member : group.members) {
    forEachRead(member, [&](const Access &access, DType type) { touch(access, type, member.domain); });
    for (const Store &store : member.stores) {
      touch(store.access, store.value->type, member.domain);
      cost += costOf(store.value);
    }
    if (member.body)
      cost += costOf(member.body) + 1;
  }
  for (const auto &[b, n] : bytes)
    launch.bytesMoved = launch.bytesMoved + n;
  launch.flops = points * int64_t(cost);
  return launch;
}

} // namespace tilewright::loop
