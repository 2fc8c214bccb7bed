//===- Group.cpp - nests that share a row, or a contraction, become one kernel -----===//

#include "tilewright/Transforms/Domain.h"
#include "tilewright/Transforms/Fusion.h"

#include <algorithm>
#include <map>

namespace tilewright::loop {

namespace {

std::vector<SizeExpr> concat(const std::vector<SizeExpr> &a, const std::vector<SizeExpr> &b) {
  std::vector<SizeExpr> result = a;
  result.insert(result.end(), b.begin(), b.end());
  return result;
}

unsigned parallelRank(const Nest &nest) { return nest.domain.size() - nest.reduced; }

std::set<BufferId> readsOf(const Nest &nest) {
  std::set<BufferId> result;
  forEachRead(nest, [&](const Access &access, DType) { result.insert(access.buffer); });
  return result;
}

/// The same element for every point: equal offsets and coefficients, where a missing trailing dimension counts as 0.
bool sameElement(const Access &a, const Access &b, std::span<const SizeExpr> domain) {
  if (!a.indirect.empty() || !b.indirect.empty() || !(a.offset == b.offset))
    return false;
  for (size_t d = 0; d < domain.size(); ++d) {
    SizeExpr x = d < a.coefs.size() ? a.coefs[d] : SizeExpr(0), y = d < b.coefs.size() ? b.coefs[d] : SizeExpr(0);
    if (!(x == y) && !domain[d].isConstant(1))
      return false;
  }
  return true;
}

class Grouper {
public:
  Grouper(Module &module, std::vector<std::string> &decisions)
      : module(module), decisions(decisions), escaping(module.kept) {
    for (const Output &output : module.outputs)
      if (output.present)
        escaping.insert(output.tensor.buffer);
  }

  std::vector<Group> run() {
    for (const Nest &nest : module.nests)
      for (BufferId b : readsOf(nest))
        ++readers[b];
    for (Nest &nest : module.nests) {
      dropUnitDimensions(module.pool, nest);
      place(std::move(nest));
    }
    module.nests.clear();
    for (Group &group : groups)
      finish(group);
    return std::move(groups);
  }

private:
  Module &module;
  std::vector<std::string> &decisions;
  std::vector<Group> groups;
  std::set<BufferId> escaping;
  std::map<BufferId, unsigned> readers;
  std::map<BufferId, std::vector<unsigned>> writtenBy; // groups

  void place(Nest nest) {
    // The last group that this nest depends on; it can be computed there and no earlier.
    int last = -1;
    for (BufferId b : readsOf(nest))
      for (unsigned g : writtenBy[b])
        last = std::max<int>(last, g);
    for (BufferId b : writesOf(nest))
      for (unsigned g : writtenBy[b])
        last = std::max<int>(last, g);
    int joined = last >= 0 && movable(nest, last) && join(groups[last], nest) ? last : joinNeighbour(nest, last);
    if (joined >= 0) {
      for (BufferId b : writesOf(nest))
        if (writtenBy[b].empty() || writtenBy[b].back() != unsigned(joined))
          writtenBy[b].push_back(joined);
      return;
    }
    for (BufferId b : writesOf(nest))
      writtenBy[b].push_back(groups.size());
    groups.push_back(start(std::move(nest)));
  }

  /// A group after `last` that reads memory which the nest reads too: walked once, it is loaded once.
  int joinNeighbour(Nest &nest, int last) {
    std::set<BufferId> reading = readsOf(nest);
    for (int g = int(groups.size()) - 1; g > last; --g) {
      if (groups[g].kind != Group::Loops)
        continue;
      bool shares = std::any_of(groups[g].members.begin(), groups[g].members.end(), [&](const Nest &member) {
        bool found = false;
        forEachRead(member, [&](const Access &access, DType) {
          found |= reading.count(access.buffer) && !module.buffers[access.buffer].elements.isConstant(1);
        });
        return found;
      });
      if (shares && movable(nest, g) && join(groups[g], nest))
        return g;
    }
    return -1;
  }

  /// May the nest run where group `target` runs, before the groups after it?
  bool movable(const Nest &nest, unsigned target) {
    std::set<BufferId> reading = readsOf(nest);
    std::vector<BufferId> writing = writesOf(nest);
    for (unsigned g = target + 1; g < groups.size(); ++g)
      for (const Nest &other : groups[g].members) {
        for (BufferId b : writesOf(other))
          if (reading.count(b) || std::count(writing.begin(), writing.end(), b))
            return false;
        for (BufferId b : writing)
          if (reads(other, b))
            return false;
      }
    return true;
  }

  static Group start(Nest nest) {
    Group group;
    switch (nest.kind) {
    case Nest::Pointwise:
      group.outer = nest.domain;
      break;
    case Nest::Reduction:
      group.outer.assign(nest.domain.begin(), nest.domain.end() - nest.reduced);
      group.row.assign(nest.domain.end() - nest.reduced, nest.domain.end());
      break;
    case Nest::Contraction:
      group.kind = Group::Contraction;
      break;
    case Nest::Attention:
      group.kind = Group::Attention;
      break;
    case Nest::External:
      group.kind = Group::External;
      break;
    case Nest::Kernel:
      group.kind = Group::Kernel;
      break;
    }
    group.members.push_back(std::move(nest));
    return group;
  }

  bool join(Group &group, Nest &nest) {
    if (nest.kind != Nest::Pointwise && nest.kind != Nest::Reduction)
      return false;
    if (group.kind == Group::Loops)
      return nest.kind == Nest::Pointwise ? joinPointwise(group, nest) : joinReduction(group, nest);
    if (group.kind == Group::Contraction && nest.kind == Nest::Pointwise)
      return joinEpilogue(group, nest);
    return false;
  }

  void record(const Group &group, const Nest &nest, const char *how) {
    decisions.push_back(std::string(how) + ": " + nest.op + " with " + group.members.front().op);
  }

  static bool hasReduction(const Group &group) {
    return std::any_of(group.members.begin(), group.members.end(),
                       [](const Nest &n) { return n.kind == Nest::Reduction; });
  }

  /// Everything that `nest` (already over the group's dimensions) reads of the group it reads at its own point, and
  /// nothing that it writes is read or written by the group elsewhere.
  bool samePoint(const Group &group, const Nest &nest) {
    bool ok = true;
    std::vector<SizeExpr> all = concat(group.outer, group.row);
    auto check = [&](const Access &load) {
      for (const Nest &member : group.members) {
        for (const Store &store : member.stores)
          if (store.access.buffer == load.buffer)
            ok &= sameElement(store.access, load, all);
        if (member.kind == Nest::Reduction && member.target.buffer == load.buffer)
          ok &= sameElement(member.target, load, all);
      }
    };
    forEachRead(nest, [&](const Access &access, DType) { check(access); });
    bool ordered = hasReduction(group) || nest.kind == Nest::Reduction;
    auto checkWrite = [&](const Access &write) {
      for (const Nest &member : group.members)
        forEachRead(member, [&](const Access &read, DType) {
          if (read.buffer == write.buffer)
            ok &= !ordered && sameElement(read, write, all);
        });
      for (const Nest &member : group.members)
        for (BufferId b : writesOf(member))
          ok &= b != write.buffer;
    };
    for (const Store &store : nest.stores)
      checkWrite(store.access);
    if (nest.kind == Nest::Reduction)
      checkWrite(nest.target);
    return ok;
  }

  bool joinPointwise(Group &group, Nest &nest) {
    Nest candidate = nest;
    std::vector<SizeExpr> all = concat(group.outer, group.row);
    SizeExpr points = productOf(candidate.domain);
    bool fits = false;
    if (points == productOf(all))
      fits = reshapeDimensions(module.pool, candidate, 0, candidate.domain.size(), all);
    if (!fits && points == productOf(group.outer))
      fits = reshapeDimensions(module.pool, candidate, 0, candidate.domain.size(), group.outer);
    if (!fits && !hasReduction(group)) {
      // Nothing forces the group's dimensions yet: take the reader's.
      std::vector<Nest> members = group.members;
      bool reshaped = points == productOf(group.outer);
      for (Nest &member : members)
        reshaped = reshaped && reshapeDimensions(module.pool, member, 0, member.domain.size(), candidate.domain);
      if (reshaped) {
        Group trial = group;
        trial.members = std::move(members);
        trial.outer = candidate.domain;
        if (!samePoint(trial, candidate))
          return false;
        record(group, nest, "joined");
        trial.members.push_back(std::move(candidate));
        group = std::move(trial);
        return true;
      }
    }
    if (!fits || !samePoint(group, candidate))
      return false;
    record(group, nest, "joined");
    group.members.push_back(std::move(candidate));
    return true;
  }

  bool joinReduction(Group &group, Nest &nest) {
    Nest candidate = nest;
    if (hasReduction(group)) {
      unsigned parallel = parallelRank(candidate);
      if (!reshapeDimensions(module.pool, candidate, parallel, candidate.domain.size(), group.row) ||
          !reshapeDimensions(module.pool, candidate, 0, parallel, group.outer) || !samePoint(group, candidate))
        return false;
      record(group, nest, "joined");
      group.members.push_back(std::move(candidate));
      return true;
    }
    // The pointwise members take the reduction's dimensions.
    Group trial = group;
    trial.outer.assign(nest.domain.begin(), nest.domain.end() - nest.reduced);
    trial.row.assign(nest.domain.end() - nest.reduced, nest.domain.end());
    for (Nest &member : trial.members)
      if (!(productOf(member.domain) == productOf(nest.domain)) ||
          !reshapeDimensions(module.pool, member, 0, member.domain.size(), nest.domain))
        return false;
    if (!samePoint(trial, candidate))
      return false;
    record(group, nest, "joined");
    trial.members.push_back(std::move(candidate));
    group = std::move(trial);
    return true;
  }

  bool joinEpilogue(Group &group, Nest &nest) {
    Nest &contraction = group.members.front();
    std::vector<SizeExpr> parallel(contraction.domain.begin(), contraction.domain.end() - 1);
    Nest candidate = nest;
    if (!(productOf(candidate.domain) == productOf(parallel)) ||
        !reshapeDimensions(module.pool, candidate, 0, candidate.domain.size(), parallel))
      return false;
    // Every read of the product must be of its own element; nothing written may be an operand.
    bool ok = true;
    for (const Store &store : candidate.stores) {
      ok &= !reads(contraction, store.access.buffer) && store.access.indirect.empty() && !store.atomicAdd;
      forEachLoad(store.value, [&](const Access &load, DType) {
        ok &= load.indirect.empty();
        for (const Store &made : contraction.stores)
          if (made.access.buffer == load.buffer)
            ok &= sameElement(made.access, load, parallel);
      });
    }
    if (!ok)
      return false;
    for (const Store &store : candidate.stores) {
      ExprRef value = rewriteLeaves(module.pool, store.value, [&](ExprRef leaf) -> ExprRef {
        if (leaf->op == ScalarOp::Load)
          for (const Store &made : contraction.stores)
            if (made.access.buffer == leaf->access.buffer)
              return made.value;
        return nullptr;
      });
      contraction.stores.push_back({store.access, value});
    }
    // A product that nobody else reads is not written at all.
    std::set<BufferId> readHere = readsOf(nest);
    std::erase_if(contraction.stores, [&](const Store &made) {
      BufferId b = made.access.buffer;
      return readHere.count(b) && readers[b] == 1 && !escaping.count(b) && module.buffers[b].kind == Buffer::Temp;
    });
    record(group, nest, "epilogue");
    contraction.op += "+" + nest.op;
    return true;
  }

  void finish(Group &group) {
    if (group.kind == Group::Contraction)
      stepAlongColumns(group.members.front());
    if (group.kind != Group::Loops)
      return;
    mergeDimensions(group);
    for (const Nest &member : group.members)
      for (BufferId b : writesOf(member)) {
        if (module.buffers[b].kind != Buffer::Temp || escaping.count(b) || writtenBy[b].size() != 1)
          continue;
        unsigned inside = 0;
        for (const Nest &other : group.members)
          inside += reads(other, b);
        if (inside == readers[b])
          group.local.insert(b);
      }
  }

  /// A product of one column is still a vector of it (with one valid element): its stores step along the columns.
  static void stepAlongColumns(Nest &contraction) {
    unsigned n = contraction.domain.size() - 2;
    if (contraction.domain[n].isConstant(1))
      for (Store &store : contraction.stores)
        store.access.coefs[n] = 1;
  }

  /// Dimensions that all members walk as one become one: fewer loops, longer vectors.
  void mergeDimensions(Group &group) {
    auto mergeRange = [&](std::vector<SizeExpr> &extents, unsigned begin) {
      for (unsigned d = extents.size(); d-- > 1;) {
        bool all = true;
        for (const Nest &member : group.members)
          if (member.domain.size() > begin + d)
            all &= mergeable(member, begin + d - 1);
        if (!all)
          continue;
        std::vector<SizeExpr> merged = extents;
        merged[d - 1] = merged[d - 1] * merged[d];
        merged.erase(merged.begin() + d);
        for (Nest &member : group.members)
          if (member.domain.size() > begin + d)
            reshapeDimensions(module.pool, member, begin, begin + extents.size(), merged);
        extents = std::move(merged);
      }
    };
    if (!group.row.empty())
      mergeRange(group.row, group.outer.size());
    mergeRange(group.outer, 0);
  }
};

} // namespace

std::vector<Group> formGroups(Module &module, std::vector<std::string> &decisions) {
  return Grouper(module, decisions).run();
}

FusionResult fuse(Module &module) {
  FusionResult result;
  breakSelfOverlap(module);
  removeDeadNests(module);
  inlineProducers(module, result.decisions);
  removeDeadNests(module);
  result.groups = formGroups(module, result.decisions);
  return result;
}

std::string str(const Group &group) {
  static const char *const kinds[] = {"loops", "contraction", "attention", "external", "kernel"};
  std::string text = std::string("group ") + kinds[group.kind];
  if (group.kind == Group::Loops) {
    text += " outer(";
    for (const SizeExpr &e : group.outer)
      text += (text.back() == '(' ? "" : ", ") + e.str();
    text += ") row(";
    for (const SizeExpr &e : group.row)
      text += (text.back() == '(' ? "" : ", ") + e.str();
    text += ")";
  }
  text += " {\n";
  for (const Nest &member : group.members) {
    text += "  " + str(member) + "\n";
  }
  return text + "}\n";
}

} // namespace tilewright::loop
