//===- LoopIR.cpp - hash-consed scalar expressions ------------------------===//
#include "tilewright/Import/LoopIR.h"

#include "LoopFold.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

namespace tilewright::loop {

const char *nameOf(ScalarOp op) {
  static constexpr const char *table[] = {
#define X(e, name, operands, cost) name,
      TILEWRIGHT_SCALAR_OPS(X)
#undef X
  };
  return table[static_cast<size_t>(op)];
}

unsigned operandsOf(ScalarOp op) {
  static constexpr uint8_t table[] = {
#define X(e, name, operands, cost) operands,
      TILEWRIGHT_SCALAR_OPS(X)
#undef X
  };
  return table[static_cast<size_t>(op)];
}

unsigned costOf(ScalarOp op) {
  static constexpr uint8_t table[] = {
#define X(e, name, operands, cost) cost,
      TILEWRIGHT_SCALAR_OPS(X)
#undef X
  };
  return table[static_cast<size_t>(op)];
}

const char *nameOf(ReduceKind kind) {
  static constexpr const char *table[] = {"sum", "prod", "max", "min", "argmax", "argmin", "any", "all"};
  return table[static_cast<size_t>(kind)];
}

//===----------------------------------------------------------------------===//
// ExprPool
//===----------------------------------------------------------------------===//

namespace {

void mix(size_t &seed, size_t value) { seed ^= value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2); }

/// Symbolic parts take part by being symbolic only: they are compared on a hit.
void mix(size_t &seed, const SizeExpr &e) { mix(seed, static_cast<size_t>(e.constant().value_or(-0x5bd1e995))); }

struct Hash {
  size_t operator()(const Expr *e) const {
    size_t seed = static_cast<size_t>(e->op) * 64 + static_cast<size_t>(e->type);
    for (ExprRef arg : e->args)
      mix(seed, std::hash<const void *>()(arg));
    mix(seed, std::bit_cast<uint64_t>(e->floatValue));
    mix(seed, static_cast<size_t>(e->intValue));
    mix(seed, e->size);
    if (e->op == ScalarOp::Load) {
      mix(seed, e->access.buffer);
      mix(seed, e->access.offset);
      for (const SizeExpr &coef : e->access.coefs)
        mix(seed, coef);
      for (const Access::Indirect &term : e->access.indirect)
        mix(seed, std::hash<const void *>()(term.index));
    }
    return seed;
  }
};

struct Equal {
  bool operator()(const Expr *a, const Expr *b) const {
    return a->op == b->op && a->type == b->type && a->args == b->args &&
           std::bit_cast<uint64_t>(a->floatValue) == std::bit_cast<uint64_t>(b->floatValue) &&
           a->intValue == b->intValue && a->size == b->size && a->access == b->access;
  }
};

} // namespace

struct ExprPool::Impl {
  std::deque<Expr> nodes; // stable addresses
  std::unordered_set<const Expr *, Hash, Equal> known;
};

ExprPool::ExprPool() : impl(std::make_unique<Impl>()) {}
ExprPool::~ExprPool() = default;
ExprPool::ExprPool(ExprPool &&) noexcept = default;
ExprPool &ExprPool::operator=(ExprPool &&) noexcept = default;

ExprRef ExprPool::intern(Expr e) {
  if (auto found = impl->known.find(&e); found != impl->known.end())
    return *found;
  for (ExprRef arg : e.args)
    e.depth = std::max(e.depth, arg->depth + 1);
  for (const Access::Indirect &term : e.access.indirect)
    e.depth = std::max(e.depth, term.index->depth + 1);
  impl->nodes.push_back(std::move(e));
  impl->known.insert(&impl->nodes.back());
  return &impl->nodes.back();
}

ExprRef ExprPool::constantFloat(double value, DType type) {
  if (!isFloat(type))
    return constantInt(static_cast<int64_t>(value), type);
  Expr e{ScalarOp::Constant, type};
  e.floatValue = fold::roundTo(value, type);
  return intern(std::move(e));
}

ExprRef ExprPool::constantInt(int64_t value, DType type) {
  if (isFloat(type))
    return constantFloat(static_cast<double>(value), type);
  Expr e{ScalarOp::Constant, type};
  e.intValue = fold::wrapTo(value, type);
  return intern(std::move(e));
}

ExprRef ExprPool::size(const SizeExpr &value) {
  if (std::optional<int64_t> c = value.constant())
    return constantInt(*c, DType::I64);
  Expr e{ScalarOp::Size, DType::I64};
  e.size = value;
  return intern(std::move(e));
}

ExprRef ExprPool::index(unsigned dim) {
  Expr e{ScalarOp::Index, DType::I64};
  e.intValue = dim;
  return intern(std::move(e));
}

ExprRef ExprPool::load(Access access, DType type) {
  Expr e{ScalarOp::Load, type};
  e.access = std::move(access);
  return intern(std::move(e));
}

ExprRef ExprPool::accumulator(DType type) { return intern(Expr{ScalarOp::Accumulator, type}); }

ExprRef ExprPool::cast(ExprRef x, DType type) { return make(ScalarOp::Cast, type, {x}); }

ExprRef ExprPool::checkIndex(ExprRef x, const SizeExpr &bound, unsigned site) {
  std::optional<int64_t> limit = bound.constant();
  if (x->op == ScalarOp::Constant && limit && x->intValue >= 0 && x->intValue < *limit)
    return x;
  Expr e{ScalarOp::CheckIndex, DType::I64, {x}};
  e.intValue = site;
  e.size = bound;
  return intern(std::move(e));
}

ExprRef ExprPool::make(ScalarOp op, DType type, std::vector<ExprRef> args) {
  // A constant comes second where order does not matter, so that equal expressions meet and rules look in one place.
  if (fold::isCommutative(op) && args[0]->op == ScalarOp::Constant && args[1]->op != ScalarOp::Constant)
    std::swap(args[0], args[1]);
  if (ExprRef folded = fold::simplify(*this, op, type, args))
    return folded;
  return intern(Expr{op, type, std::move(args)});
}

//===----------------------------------------------------------------------===//
// Walking
//===----------------------------------------------------------------------===//

namespace {

class Rewriter {
public:
  Rewriter(ExprPool &pool, const std::function<ExprRef(ExprRef)> &leaf) : pool(pool), leaf(leaf) {}

  ExprRef operator()(ExprRef e) {
    if (auto found = done.find(e); found != done.end())
      return found->second;
    ExprRef result = rewrite(e);
    done.emplace(e, result);
    return result;
  }

private:
  ExprRef rewrite(ExprRef e) {
    if (e->op == ScalarOp::Load || e->op == ScalarOp::Index || e->op == ScalarOp::Accumulator) {
      if (ExprRef replaced = leaf(e))
        return replaced;
      if (e->access.indirect.empty())
        return e;
      Access access = e->access;
      for (Access::Indirect &term : access.indirect)
        term.index = (*this)(term.index);
      return pool.load(std::move(access), e->type);
    }
    if (e->args.empty())
      return e;
    std::vector<ExprRef> args;
    args.reserve(e->args.size());
    for (ExprRef arg : e->args)
      args.push_back((*this)(arg));
    if (args == e->args)
      return e;
    if (e->op == ScalarOp::CheckIndex)
      return pool.checkIndex(args[0], e->size, static_cast<unsigned>(e->intValue));
    return pool.make(e->op, e->type, std::move(args));
  }

  ExprPool &pool;
  const std::function<ExprRef(ExprRef)> &leaf;
  std::unordered_map<ExprRef, ExprRef> done;
};

void visit(ExprRef e, std::unordered_set<ExprRef> &seen, const std::function<void(ExprRef)> &fn) {
  if (!seen.insert(e).second)
    return;
  for (ExprRef arg : e->args)
    visit(arg, seen, fn);
  for (const Access::Indirect &term : e->access.indirect)
    visit(term.index, seen, fn);
  fn(e);
}

} // namespace

ExprRef rewriteLeaves(ExprPool &pool, ExprRef e, const std::function<ExprRef(ExprRef)> &leaf) {
  return Rewriter(pool, leaf)(e);
}

void visit(ExprRef e, const std::function<void(ExprRef)> &fn) {
  std::unordered_set<ExprRef> seen;
  visit(e, seen, fn);
}

unsigned costOf(ExprRef e) {
  unsigned cost = 0;
  visit(e, [&](ExprRef node) { cost += costOf(node->op); });
  return cost;
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

std::vector<SizeExpr> contiguousStrides(const std::vector<SizeExpr> &sizes) {
  std::vector<SizeExpr> strides(sizes.size());
  SizeExpr stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    // A size of 0 counts as 1, as in PyTorch: strides of empty tensors stay positive.
    if (!sizes[d].isConstant(0))
      stride = stride * sizes[d];
  }
  return strides;
}

SizeExpr productOf(const std::vector<SizeExpr> &sizes) {
  SizeExpr product = 1;
  for (const SizeExpr &size : sizes)
    product = product * size;
  return product;
}

} // namespace tilewright::loop
