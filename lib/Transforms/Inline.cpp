//===- Inline.cpp - producers move into their readers ---------------------===//
//
// A value that is cheap to compute again, or that is read once, need not pass through memory.
//
//===----------------------------------------------------------------------===//

#include "tilewright/Transforms/Domain.h"
#include "tilewright/Transforms/Fusion.h"

#include <algorithm>
#include <map>

namespace tilewright::loop {

namespace {

// In rough vector instructions. A load that hits cache costs about as much as a handful of arithmetic: below kCheap
// computing again beats writing and reading back for any number of readers; kModerate is for a value broadcast to more
// points than it has.
constexpr unsigned kCheap = 4;
constexpr unsigned kModerate = 8;

std::set<BufferId> outputBuffers(const Module &module) {
  std::set<BufferId> result = module.kept;
  for (const Output &output : module.outputs)
    if (output.present)
      result.insert(output.tensor.buffer);
  return result;
}

class Inliner {
public:
  Inliner(Module &module, std::vector<std::string> &decisions)
      : module(module), decisions(decisions), escaping(outputBuffers(module)) {}

  void run() {
    for (unsigned i = 0; i < module.nests.size(); ++i)
      for (BufferId b : writesOf(module.nests[i]))
        writers[b].push_back(i);
    for (unsigned i = 0; i < module.nests.size(); ++i)
      countReads(i);
    for (unsigned i = 0; i < module.nests.size(); ++i)
      inlineInto(i);
  }

private:
  Module &module;
  std::vector<std::string> &decisions;
  std::set<BufferId> escaping;
  std::map<BufferId, std::vector<unsigned>> writers; // nests, in order
  std::map<BufferId, unsigned> readers;              // number of nests that read it

  void countReads(unsigned i) {
    std::set<BufferId> seen;
    forEachRead(module.nests[i], [&](const Access &access, DType) { seen.insert(access.buffer); });
    for (BufferId b : seen)
      ++readers[b];
  }

  const Nest *producerOf(BufferId buffer, unsigned &index) {
    auto it = writers.find(buffer);
    if (it == writers.end() || it->second.size() != 1 || module.buffers[buffer].kind != Buffer::Temp ||
        module.buffers[buffer].partial)
      return nullptr;
    index = it->second.front();
    const Nest &nest = module.nests[index];
    if (nest.kind != Nest::Pointwise || nest.stores.size() != 1 || !nest.stores[0].access.indirect.empty())
      return nullptr;
    return &nest;
  }

  /// True if what `value` reads is still the same at the consumer, and the consumer does not overwrite it elsewhere.
  bool unchangedBetween(ExprRef value, unsigned producer, unsigned consumer) {
    bool ok = true;
    forEachLoad(value, [&](const Access &access, DType) {
      auto it = writers.find(access.buffer);
      if (it == writers.end())
        return;
      for (unsigned w : it->second) {
        if (w > producer && w < consumer)
          ok = false;
        if (w == consumer && module.nests[consumer].kind != Nest::Pointwise)
          ok = false;
      }
    });
    return ok;
  }

  /// After inlining, a nest that stores into a buffer may read it at the very element it stores, and nowhere else.
  static bool readsOnlyWhatItStores(const Nest &nest, ExprRef value) {
    bool ok = true;
    forEachLoad(value, [&](const Access &access, DType) {
      for (const Store &store : nest.stores)
        if (store.access.buffer == access.buffer)
          ok &= store.access == access;
    });
    return ok;
  }

  /// Does the consumer have points that differ only in dimensions the producer does not have?
  static bool broadcasts(const IndexMap &map, std::span<const SizeExpr> domain) {
    for (unsigned d = 0; d < map.newRank; ++d) {
      bool used = domain[d].isConstant(1);
      for (const auto &row : map.coef)
        used |= !row[d].isConstant(0);
      if (!used)
        return true;
    }
    return false;
  }

  ExprRef tryInline(unsigned consumer, const Access &load, std::span<const SizeExpr> domain) {
    unsigned index = 0;
    const Nest *producer = producerOf(load.buffer, index);
    if (!producer || index >= consumer || !load.indirect.empty())
      return nullptr;
    ExprRef value = producer->stores[0].value;
    unsigned cost = costOf(value);
    bool once = readers[load.buffer] == 1 && !escaping.count(load.buffer);
    if (!once && cost > kCheap)
      return nullptr;
    auto map = solve(producer->stores[0].access, producer->domain, load, domain);
    if (!map) {
      note(consumer, index, "the reader's view is not linear in the producer's indices");
      return nullptr;
    }
    if (cost > kModerate && broadcasts(*map, domain)) {
      note(consumer, index, "it would be computed again for every element of a broadcast");
      return nullptr;
    }
    if (!unchangedBetween(value, index, consumer)) {
      note(consumer, index, "what it reads is overwritten in between");
      return nullptr;
    }
    ExprRef moved = remap(module.pool, value, *map);
    if (!readsOnlyWhatItStores(module.nests[consumer], moved)) {
      note(consumer, index, "the reader overwrites what it reads at another element");
      return nullptr;
    }
    return moved;
  }

  void note(unsigned consumer, unsigned producer, const char *why) {
    decisions.push_back("not inlined: " + module.nests[producer].op + " into " + module.nests[consumer].op + ": " +
                        why);
  }

  ExprRef rewrite(unsigned consumer, ExprRef value, std::span<const SizeExpr> domain) {
    // A load inside an index is rewritten by the same rule: its own loads are leaves too.
    return rewriteLeaves(module.pool, value, [&](ExprRef leaf) -> ExprRef {
      if (leaf->op != ScalarOp::Load)
        return nullptr;
      if (ExprRef moved = tryInline(consumer, leaf->access, domain))
        return moved;
      if (leaf->access.indirect.empty())
        return nullptr;
      Access access = leaf->access;
      for (Access::Indirect &term : access.indirect)
        term.index = rewrite(consumer, term.index, domain);
      return module.pool.load(std::move(access), leaf->type);
    });
  }

  /// A contraction or attention reads strided memory: a plain copy before it can be read through.
  void readThroughCopies(unsigned consumer, Access &access, std::span<const SizeExpr> domain, DType type) {
    if (ExprRef moved = tryInline(consumer, access, domain))
      if (moved->op == ScalarOp::Load && moved->type == type && moved->access.indirect.empty())
        access = moved->access;
  }

  void inlineInto(unsigned consumer) {
    Nest &nest = module.nests[consumer];
    switch (nest.kind) {
    case Nest::Pointwise: {
      for (Store &store : nest.stores)
        store.value = rewrite(consumer, store.value, nest.domain);
      break;
    }
    case Nest::Reduction:
      nest.body = rewrite(consumer, nest.body, nest.domain);
      break;
    case Nest::Contraction: {
      readThroughCopies(consumer, nest.lhs, nest.domain, nest.operandType);
      readThroughCopies(consumer, nest.rhs, nest.domain, nest.operandType);
      std::vector<SizeExpr> parallel(nest.domain.begin(), nest.domain.end() - nest.reduced);
      for (Store &store : nest.stores)
        store.value = rewrite(consumer, store.value, parallel);
      break;
    }
    case Nest::Attention:
    case Nest::External:
    case Nest::Kernel:
      break;
    }
  }
};

} // namespace

void breakSelfOverlap(Module &module) {
  std::vector<Nest> result;
  for (Nest &nest : module.nests) {
    bool overlaps = false;
    if (nest.kind == Nest::Pointwise)
      for (const Store &written : nest.stores)
        for (const Store &read : nest.stores)
          forEachLoad(read.value, [&](const Access &access, DType) {
            overlaps |= access.buffer == written.access.buffer && !(access == written.access);
          });
    if (!overlaps) {
      result.push_back(std::move(nest));
      continue;
    }
    Nest copy = nest;
    for (size_t i = 0; i < nest.stores.size(); ++i) {
      BufferId temp = module.buffers.size();
      Buffer buffer;
      buffer.dtype = nest.stores[i].value->type;
      buffer.elements = productOf(nest.domain);
      module.buffers.push_back(std::move(buffer));
      Access access;
      access.buffer = temp;
      access.coefs = contiguousStrides(nest.domain);
      copy.stores[i].value = module.pool.load(access, nest.stores[i].value->type);
      nest.stores[i].access = access;
    }
    result.push_back(std::move(nest));
    result.push_back(std::move(copy));
  }
  module.nests = std::move(result);
}

void removeDeadNests(Module &module) {
  std::set<BufferId> live = outputBuffers(module);
  for (BufferId b = 0; b < module.buffers.size(); ++b)
    if (module.buffers[b].kind == Buffer::Input)
      live.insert(b);
  std::vector<Nest> kept;
  for (unsigned i = module.nests.size(); i-- > 0;) {
    Nest &nest = module.nests[i];
    std::vector<BufferId> written = writesOf(nest);
    if (nest.kind == Nest::Contraction || nest.kind == Nest::Pointwise)
      std::erase_if(nest.stores, [&](const Store &s) { return !live.count(s.access.buffer); });
    if (nest.kind != Nest::External &&
        std::none_of(written.begin(), written.end(), [&](BufferId b) { return live.count(b); }))
      continue;
    forEachRead(nest, [&](const Access &access, DType) { live.insert(access.buffer); });
    kept.push_back(std::move(nest));
  }
  std::reverse(kept.begin(), kept.end());
  module.nests = std::move(kept);
}

void inlineProducers(Module &module, std::vector<std::string> &decisions) { Inliner(module, decisions).run(); }

} // namespace tilewright::loop
