//===- Nests.cpp - how entries emit loop nests ----------------------------===//
#include "Builder.h"
#include "Views.h"

#include <algorithm>
#include <numeric>

namespace tilewright::importer {

Operand raw(Tensor t) {
  Operand operand(std::move(t));
  operand.raw = true;
  return operand;
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

static std::string replaceAll(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

void Builder::require(loop::Check::Op op, const SizeExpr &a, const SizeExpr &b, const std::string &message) {
  const SizeExpr difference = b - a;
  if (std::optional<int64_t> d = difference.constant()) {
    const bool holds = op == loop::Check::Equal       ? *d == 0
                       : op == loop::Check::NotEqual  ? *d != 0
                       : op == loop::Check::LessEqual ? *d >= 0
                                                      : *d > 0;
    if (!holds)
      throw Invalid(replaceAll(replaceAll(message, "{lhs}", a.str()), "{rhs}", b.str()));
    return;
  }
  if ((op == loop::Check::LessEqual && provenNonNegative(difference)) ||
      (op == loop::Check::Less && provenNonNegative(difference - 1)))
    return;
  state.check({op, a, b, node.op + ": " + message});
}

void Builder::require(const SizeExpr &a, const SizeExpr &b, const std::string &message) {
  require(loop::Check::Equal, a, b, message);
}

SizeExpr Builder::divide(const SizeExpr &a, const SizeExpr &b, const std::string &message) {
  const SizeExpr quotient = SizeExpr::floordiv(a, b);
  require(a, quotient * b, message);
  return quotient;
}

SizeExpr Builder::minOf(const SizeExpr &a, const SizeExpr &b) {
  if (provenNonNegative(b - a))
    return a;
  if (provenNonNegative(a - b))
    return b;
  return SizeExpr::min(a, b);
}

SizeExpr Builder::maxOf(const SizeExpr &a, const SizeExpr &b) {
  if (provenNonNegative(a - b))
    return a;
  if (provenNonNegative(b - a))
    return b;
  return SizeExpr::max(a, b);
}

Sizes Builder::broadcast(const Sizes &a, const Sizes &b) {
  const Sizes &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
  const size_t shift = longer.size() - shorter.size();
  Sizes result = longer;
  for (size_t d = shift; d < longer.size(); ++d) {
    const SizeExpr &x = longer[d], &y = shorter[d - shift];
    if (x == y || y.isConstant(1))
      continue;
    if (x.isConstant(1)) {
      result[d] = y;
      continue;
    }
    const SizeExpr &first = a.size() >= b.size() ? x : y, &second = a.size() >= b.size() ? y : x;
    require(first, second,
            "The size of tensor a ({lhs}) must match the size of tensor b ({rhs}) at non-singleton dimension " +
                std::to_string(d));
    if (y.constant()) // a known size makes better code
      result[d] = y;
  }
  return result;
}

Sizes Builder::broadcast(std::span<const Operand> operands) {
  Sizes sizes;
  for (const Operand &operand : operands)
    if (const Tensor *t = operand.tensor())
      sizes = broadcast(sizes, t->sizes);
  return sizes;
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

Ex Builder::value(const Scalar &scalar, DType type) {
  if (const bool *v = std::get_if<bool>(&scalar.value))
    return constantInt(*v, type);
  if (const int64_t *v = std::get_if<int64_t>(&scalar.value))
    return constantInt(*v, type);
  if (const double *v = std::get_if<double>(&scalar.value)) {
    if (type == DType::Bool)
      return constantInt(*v != 0, type);
    return constant(*v, type);
  }
  if (const SizeExpr *v = std::get_if<SizeExpr>(&scalar.value))
    return sizeValue(*v).to(type);
  const Tensor &t = std::get<Tensor>(scalar.value);
  // Coefficients are left out: a 0-d load is the same in every domain once the nest pads it.
  return Ex(pool(), pool().load({t.buffer, t.offset, {}, {}}, t.dtype)).to(type);
}

loop::Access Builder::access(const Tensor &t, std::span<const unsigned> dims, unsigned rank) {
  loop::Access result{t.buffer, t.offset, Sizes(rank), {}};
  for (unsigned d = 0; d < t.rank(); ++d)
    if (!t.sizes[d].isConstant(1))
      result.coefs[dims[d]] = result.coefs[dims[d]] + t.strides[d];
  return result;
}

Ex Builder::load(const Tensor &t, std::span<const unsigned> dims, unsigned rank) {
  return {pool(), pool().load(access(t, dims, rank), t.dtype)};
}

Ex Builder::loadAligned(const Tensor &t, unsigned rank) {
  std::vector<unsigned> dims(t.rank());
  std::iota(dims.begin(), dims.end(), rank - t.rank());
  return load(t, dims, rank);
}

/// What PyTorch raises on the CPU where a value is wrong: IndexError but for these.
static DataErrorKind dataErrorOf(std::string_view op) {
  for (std::string_view name :
       {"aten.gather.", "aten.one_hot.", "aten.div.", "aten.floor_divide.", "aten.remainder.", "aten.fmod."})
    if (op.starts_with(name))
      return DataErrorKind::Runtime;
  return DataErrorKind::Index;
}

Ex Builder::checked(Ex index, const SizeExpr &bound, const std::string &message) {
  const unsigned site = state.module.sites.size();
  state.module.sites.push_back({node.op, node.source, message, dataErrorOf(node.op)});
  return {pool(), pool().checkIndex(index.to(DType::I64).get(), bound, site)};
}

Ex Builder::checkedFromEnd(Ex index, const SizeExpr &bound, const std::string &message) {
  const Ex i = index.to(DType::I64);
  return checked(select(i < 0, i + sizeValue(bound), i), bound, message);
}

Ex Builder::divisor(Ex x) {
  if (isFloat(x.type()))
    return x;
  // 0 where x may be divided by, else an index beyond a single element; it folds away where x is a constant.
  return x + checked(equal(x, 0).to(DType::I64), 1, "ZeroDivisionError").to(x.type());
}

Ex Builder::read(const Operand &operand, DType common, std::span<const unsigned> dims, unsigned rank) {
  const DType compute = opmathType(common);
  if (const Scalar *scalar = operand.scalar())
    return value(*scalar, compute);
  const Tensor &t = *operand.tensor();
  const Ex x = load(t, dims.subspan(dims.size() - t.rank()), rank);
  if (operand.raw)
    return x;
  // TensorIterator hands a 0-d operand to a reduced-precision kernel unrounded (original_scalar_value).
  return t.rank() == 0 && isFloat(common) ? x.to(compute) : x.to(common).to(compute);
}

//===----------------------------------------------------------------------===//
// Nests
//===----------------------------------------------------------------------===//

void Builder::addNest(Nest nest) {
  nest.op = node.op;
  nest.source = node.source;
  // Loads of run-time scalars were made without knowing the domain.
  const unsigned parallel = nest.domain.size() - nest.reduced;
  const auto pad = [&](ExprRef e, unsigned rank) {
    return loop::rewriteLeaves(pool(), e, [&](ExprRef leaf) -> ExprRef {
      if (leaf->op != ScalarOp::Load || !leaf->access.coefs.empty() || rank == 0 || !leaf->access.indirect.empty())
        return nullptr;
      loop::Access access = leaf->access;
      access.coefs.assign(rank, 0);
      return pool().load(std::move(access), leaf->type);
    });
  };
  for (loop::Store &store : nest.stores)
    store.value = pad(store.value, parallel);
  if (nest.body)
    nest.body = pad(nest.body, nest.domain.size());
  state.module.nests.push_back(std::move(nest));
}

Tensor Builder::allocate(DType dtype, const Sizes &sizes, const Sizes *strides, bool partial) {
  loop::Buffer buffer;
  buffer.dtype = dtype;
  buffer.partial = partial;
  SizeExpr last = 0; // position of the last element
  for (size_t d = 0; strides && d < sizes.size(); ++d)
    last = last + (sizes[d] - 1) * (*strides)[d];
  Tensor t{dtype, static_cast<loop::BufferId>(state.module.buffers.size()), sizes,
           strides ? *strides : loop::contiguousStrides(sizes), 0};
  buffer.elements = strides && !isNonOverlappingAndDense(t) ? SizeExpr::max(last + 1, 0) : loop::productOf(sizes);
  state.module.buffers.push_back(std::move(buffer));
  return t;
}

void Builder::store(const Tensor &out, const std::function<Ex()> &fn) {
  Nest nest;
  nest.domain = out.sizes;
  std::vector<unsigned> dims(out.rank());
  std::iota(dims.begin(), dims.end(), 0);
  nest.stores.push_back({access(out, dims, out.rank()), fn().to(out.dtype).get()});
  addNest(std::move(nest));
}

Tensor Builder::pointwise(DType common, const std::vector<Operand> &operands, const PointFn &fn,
                          std::optional<DType> result) {
  const Sizes sizes = broadcast(operands);
  std::vector<Tensor> tensors;
  for (const Operand &operand : operands)
    if (const Tensor *t = operand.tensor())
      tensors.push_back(*t);
  const Sizes strides = elementwiseStrides(state, tensors, sizes);
  const Tensor out = allocate(result.value_or(common), sizes, &strides);
  std::vector<unsigned> dims(sizes.size());
  std::iota(dims.begin(), dims.end(), 0);
  store(out, [&] {
    std::vector<Ex> values;
    for (const Operand &operand : operands)
      values.push_back(read(operand, common, dims, sizes.size()));
    return fn(values);
  });
  return out;
}

/// Elements that one thread reduces at a time. Fixed, so that results depend neither on the number of threads nor on
/// the machine.
static constexpr int64_t kChunk = 16384;

std::optional<Tensor> Builder::splitReduction(ReduceKind kind, DType common, const std::vector<Operand> &operands,
                                              const Sizes &sizes, const PointFn &body) {
  const SizeExpr total = loop::productOf(sizes);
  const std::optional<int64_t> known = total.constant() ? total.constant() : state.hint(total);
  if (kind == ReduceKind::ArgMax || kind == ReduceKind::ArgMin || (known && *known <= 2 * kChunk))
    return std::nullopt;
  std::vector<Operand> flat;
  for (const Operand &operand : operands) {
    flat.push_back(operand);
    const Tensor *t = operand.tensor();
    if (!t || t->rank() == 0)
      continue;
    Tensor view = *t;
    if (std::all_of(t->sizes.begin(), t->sizes.end(), [](const SizeExpr &s) { return s.isConstant(1); })) {
      view.sizes = view.strides = {};
    } else {
      if (t->sizes != sizes || !isContiguous(*t))
        return std::nullopt;
      view.sizes = {total};
      view.strides = {1};
    }
    flat.back().value = view;
  }
  const SizeExpr chunks = SizeExpr::floordiv(total, kChunk), rest = total - chunks * kChunk;
  const auto partOf = [&](const SizeExpr &offset, const Sizes &domain) {
    std::vector<Ex> values;
    const unsigned dims[] = {0, 1};
    for (Operand operand : flat) {
      if (const Tensor *t = operand.tensor(); t && t->rank() == 1) {
        Tensor part = *t;
        part.offset = part.offset + offset;
        part.sizes = domain;
        part.strides = {kChunk, 1};
        operand.value = part;
      }
      values.push_back(read(operand, common, dims, 2));
    }
    return body(values);
  };
  const bool even = rest.isConstant(0);
  Tensor partial;
  const auto emit = [&](const SizeExpr &offset, const SizeExpr &slot, const Sizes &domain) {
    Nest nest;
    nest.kind = Nest::Reduction;
    nest.reduce = kind;
    nest.domain = domain;
    nest.reduced = 1;
    nest.body = partOf(offset, domain).get();
    if (partial.sizes.empty())
      partial = allocate(nest.body->type, {even ? chunks : chunks + 1}, nullptr, !even);
    nest.target = {partial.buffer, slot, {domain[0].isConstant(1) ? 0 : 1}, {}};
    addNest(std::move(nest));
  };
  emit(0, 0, {chunks, kChunk});
  if (!even)
    emit(chunks * kChunk, chunks, {1, rest});
  combining = true;
  Tensor out = reduce(kind, partial.dtype, {raw(partial)}, {0}, false, [](std::span<const Ex> x) { return x[0]; });
  combining = false;
  return out;
}

/// Where the dimensions of a reduction's operands go.
struct ReductionLayout {
  Sizes parallel, reduced;           // of the nest's domain
  Sizes shape;                       // of the result
  std::vector<unsigned> place;       // of each operand dimension in the domain
  std::vector<unsigned> resultPlace; // of each result dimension in the domain

  ReductionLayout(const Sizes &sizes, const std::vector<unsigned> &dims, bool keepDim) : place(sizes.size()) {
    for (unsigned d = 0; d < sizes.size(); ++d) {
      const bool isReduced = std::binary_search(dims.begin(), dims.end(), d);
      if (!isReduced) {
        place[d] = parallel.size();
        resultPlace.push_back(parallel.size());
        parallel.push_back(sizes[d]);
      } else if (keepDim) {
        resultPlace.push_back(0); // of size 1: takes no part
      }
      if (!isReduced || keepDim)
        shape.push_back(isReduced ? SizeExpr(1) : sizes[d]);
    }
    for (unsigned d : dims)
      if (!sizes[d].isConstant(1)) { // a single element takes no loop
        place[d] = parallel.size() + reduced.size();
        reduced.push_back(sizes[d]);
      }
  }
};

Tensor Builder::reduce(ReduceKind kind, DType common, const std::vector<Operand> &operands,
                       const std::vector<unsigned> &dims, bool keepDim, const PointFn &body) {
  const Sizes sizes = broadcast(operands);
  const ReductionLayout layout(sizes, dims, keepDim);
  if (layout.parallel.empty() && !layout.reduced.empty() && !combining)
    if (std::optional<Tensor> split = splitReduction(kind, common, operands, sizes, body)) {
      split->sizes = layout.shape;
      split->strides = loop::contiguousStrides(layout.shape);
      return *split;
    }
  Nest nest;
  nest.domain = layout.parallel;
  nest.domain.insert(nest.domain.end(), layout.reduced.begin(), layout.reduced.end());
  std::vector<Ex> values;
  for (const Operand &operand : operands)
    values.push_back(read(operand, common, layout.place, nest.domain.size()));
  const Ex element = body(values);
  const bool isArg = kind == ReduceKind::ArgMax || kind == ReduceKind::ArgMin;
  const Tensor out = allocate(isArg ? DType::I64 : element.type(), layout.shape);
  const loop::Access target = access(out, layout.resultPlace, layout.parallel.size());
  if (layout.reduced.empty()) { // an element is its own sum
    nest.stores.push_back({target, isArg ? constantInt(0, DType::I64).get() : element.get()});
  } else {
    nest.kind = Nest::Reduction;
    nest.reduce = kind;
    nest.reduced = layout.reduced.size();
    nest.body = element.get();
    nest.target = target;
  }
  addNest(std::move(nest));
  return out;
}

Tensor Builder::contraction(const Tensor &lhs, const Tensor &rhs, const std::vector<Operand> &extras, DType result,
                            const std::function<Ex(Ex, std::span<const Ex>)> &fn) {
  if (lhs.dtype != rhs.dtype)
    throw Invalid("expected m1 and m2 to have the same dtype, but got: " + std::string(nameOf(lhs.dtype)) +
                  " != " + std::string(nameOf(rhs.dtype)));
  const SizeExpr m = lhs.sizes[lhs.rank() - 2], k = lhs.sizes.back(), n = rhs.sizes.back();
  require(k, rhs.sizes[rhs.rank() - 2], "mat1 and mat2 shapes cannot be multiplied: inner sizes {lhs} and {rhs}");
  const Sizes batch =
      broadcast(Sizes(lhs.sizes.begin(), lhs.sizes.end() - 2), Sizes(rhs.sizes.begin(), rhs.sizes.end() - 2));
  const unsigned rank = batch.size() + 3;

  Nest nest;
  nest.kind = isFloat(lhs.dtype) ? Nest::Contraction : Nest::Reduction;
  nest.domain = batch;
  nest.domain.insert(nest.domain.end(), {m, n, k});
  nest.reduced = 1;
  nest.operandType = lhs.dtype;
  const auto dimsOf = [&](const Tensor &t, unsigned row, unsigned col) {
    std::vector<unsigned> dims(t.rank());
    std::iota(dims.begin(), dims.end(), batch.size() - (t.rank() - 2));
    dims[t.rank() - 2] = row;
    dims[t.rank() - 1] = col;
    return dims;
  };
  nest.lhs = access(lhs, dimsOf(lhs, rank - 3, rank - 1), rank);
  nest.rhs = access(rhs, dimsOf(rhs, rank - 1, rank - 2), rank);

  Sizes shape = batch;
  shape.insert(shape.end(), {m, n});
  const DType accType = isFloat(lhs.dtype) ? opmathType(lhs.dtype) : lhs.dtype;
  std::vector<unsigned> dims(rank - 1);
  std::iota(dims.begin(), dims.end(), 0);
  const auto epilogue = [&](Ex acc) {
    std::vector<Ex> values;
    for (const Operand &extra : extras)
      values.push_back(extra.scalar() ? value(*extra.scalar(), accType)
                                      : loadAligned(*extra.tensor(), rank - 1).to(accType));
    return fn(acc, values).to(result).get();
  };
  if (nest.kind == Nest::Reduction) {
    // Integers: the sum of products, then the rest.
    nest.body =
        pool().make(ScalarOp::Mul, accType, {pool().load(nest.lhs, lhs.dtype), pool().load(nest.rhs, rhs.dtype)});
    const Tensor sum = allocate(accType, shape), out = allocate(result, shape);
    nest.target = access(sum, dims, rank - 1);
    addNest(std::move(nest));
    store(out, [&] { return Ex(pool(), epilogue(loadAligned(sum, rank - 1))); });
    return out;
  }
  const Tensor out = allocate(result, shape);
  loop::Access target = access(out, dims, rank - 1);
  target.coefs.back() = 1; // of n, even where n is 1: sums lie side by side
  nest.stores.push_back({std::move(target), epilogue(Ex(pool(), pool().accumulator(accType)))});
  addNest(std::move(nest));
  return out;
}

Tensor Builder::convert(const Tensor &t, DType dtype) {
  if (t.dtype == dtype)
    return t;
  return pointwise(dtype, {raw(t)}, [&](std::span<const Ex> x) { return x[0].to(dtype); });
}

Tensor Builder::copy(const Tensor &t, const Sizes *strides, std::optional<DType> dtype) {
  const Tensor out = allocate(dtype.value_or(t.dtype), t.sizes, strides);
  assign(out, t);
  return out;
}

Tensor Builder::contiguous(const Tensor &t) { return isContiguous(t) ? t : copy(t); }

void Builder::assign(const Tensor &dst, const Tensor &src) {
  store(dst, [&] { return loadAligned(src, dst.rank()); });
}

} // namespace tilewright::importer
