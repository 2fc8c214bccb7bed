//===- Reductions.cpp - sums, extrema, moments, norms ---------------------===//
#include "../Reduce.h"

#include "../Registry.h"
#include "../Views.h"

#include <cmath>
#include <limits>

namespace tilewright::importer {

Ex first(X x) { return x[0]; }

SizeExpr countOf(const Tensor &t, const std::vector<unsigned> &dims) {
  SizeExpr count = 1;
  for (unsigned d : dims)
    count = count * t.sizes[d];
  return count;
}

Tensor sumOf(Builder &b, const Tensor &t, const std::vector<unsigned> &dims, bool keepDim) {
  const DType acc = accumulateType(t.dtype);
  return b.reduce(ReduceKind::Sum, t.dtype, {t}, dims, keepDim, [&](X x) { return x[0].to(acc); });
}

Tensor meanOf(Builder &b, const Tensor &t, const std::vector<unsigned> &dims, bool keepDim) {
  const Tensor sum = sumOf(b, t, dims, keepDim);
  const SizeExpr count = countOf(t, dims);
  return b.pointwise(sum.dtype, {sum}, [&](X x) { return x[0] / b.sizeValue(count).to(sum.dtype); });
}

Tensor maxOf(Builder &b, const Tensor &t, const std::vector<unsigned> &dims, bool keepDim) {
  return b.reduce(ReduceKind::Max, t.dtype, {t}, dims, keepDim, first);
}

std::pair<Tensor, Tensor> varianceOf(Builder &b, const Tensor &t, const std::vector<unsigned> &dims,
                                     double correction) {
  const Tensor mean = meanOf(b, t, dims, true);
  const Tensor squares = b.reduce(ReduceKind::Sum, mean.dtype, {t, mean}, dims, true, [](X x) {
    const Ex difference = x[0] - x[1];
    return difference * difference;
  });
  const SizeExpr count = countOf(t, dims);
  const Tensor variance = b.pointwise(squares.dtype, {squares}, [&](X x) {
    return x[0] / max(b.sizeValue(count).to(squares.dtype) - correction, 0.0);
  });
  return {variance, mean};
}

Tensor withoutDimensions(Tensor t, const std::vector<unsigned> &dims) {
  for (size_t i = dims.size(); i-- > 0;)
    t = dropDimension(std::move(t), dims[i]);
  return t;
}

namespace {

std::vector<unsigned> dimsArgument(Builder &b, const char *name, unsigned rank, bool emptyIsAll = true) {
  return b.dimensions(name ? b.integers(name) : std::vector<int64_t>{}, rank, emptyIsAll);
}

Results sum(Builder &b, const char *dim, bool keepDim) {
  const Tensor self = b.tensor("self");
  const DType dtype = b.dtype("dtype").value_or(isFloat(self.dtype) ? self.dtype : DType::I64);
  const DType acc = accumulateType(dtype);
  const std::vector<unsigned> dims = dimsArgument(b, dim, self.rank());
  const Tensor total = b.reduce(ReduceKind::Sum, dtype, {self}, dims, keepDim, [&](X x) { return x[0].to(acc); });
  return {b.convert(total, dtype)};
}

Results mean(Builder &b, const char *dim, bool keepDim) {
  Tensor self = b.tensor("self");
  const DType dtype = b.dtype("dtype").value_or(self.dtype);
  if (!isFloat(dtype))
    throw Invalid(
        "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype.");
  const std::vector<unsigned> dims = dimsArgument(b, dim, self.rank());
  return {b.convert(meanOf(b, b.convert(self, dtype), dims, keepDim), dtype)};
}

Results product(Builder &b, const char *dim, bool keepDim) {
  const Tensor self = b.tensor("self");
  const DType dtype = b.dtype("dtype").value_or(isFloat(self.dtype) ? self.dtype : DType::I64);
  const DType acc = accumulateType(dtype);
  const std::vector<unsigned> dims =
      dim ? b.dimensions({b.integer(dim)}, self.rank(), false) : dimsArgument(b, nullptr, self.rank());
  const Tensor total = b.reduce(ReduceKind::Prod, dtype, {self}, dims, keepDim, [&](X x) { return x[0].to(acc); });
  return {b.convert(total, dtype)};
}

//===----------------------------------------------------------------------===//
// Extrema
//===----------------------------------------------------------------------===//

void requireElements(Builder &b, const Tensor &t, const std::vector<unsigned> &dims) {
  for (unsigned d : dims)
    b.require(loop::Check::Less, 0, t.sizes[d],
              "Expected reduction dim " + std::to_string(d) + " to have non-zero size.");
}

Tensor extremumOf(Builder &b, const Tensor &t, bool isMax, const std::vector<unsigned> &dims, bool keepDim) {
  requireElements(b, t, dims);
  if (t.dtype == DType::Bool)
    return b.reduce(isMax ? ReduceKind::Any : ReduceKind::All, DType::Bool, {t}, dims, keepDim, first);
  return b.convert(b.reduce(isMax ? ReduceKind::Max : ReduceKind::Min, t.dtype, {t}, dims, keepDim, first), t.dtype);
}

Tensor argExtremumOf(Builder &b, const Tensor &t, bool isMax, const std::vector<unsigned> &dims, bool keepDim) {
  requireElements(b, t, dims);
  return b.reduce(isMax ? ReduceKind::ArgMax : ReduceKind::ArgMin, t.dtype, {t}, dims, keepDim,
                  [&](X x) { return t.dtype == DType::Bool ? x[0].to(DType::U8) : x[0]; });
}

Entry::Function extremum(bool isMax) {
  return [isMax](Builder &b) -> Results {
    const Tensor self = b.tensor("self");
    return {extremumOf(b, self, isMax, dimsArgument(b, "dim", self.rank()), b.flag("keepdim"))};
  };
}

Entry::Function extremumOfAll(bool isMax) {
  return [isMax](Builder &b) -> Results {
    const Tensor self = b.tensor("self");
    return {extremumOf(b, self, isMax, dimsArgument(b, nullptr, self.rank()), false)};
  };
}

Entry::Function extremumWithIndex(bool isMax) {
  return [isMax](Builder &b) -> Results {
    const Tensor self = b.tensor("self");
    const std::vector<unsigned> dims = b.dimensions({b.integer("dim")}, self.rank(), false);
    const bool keepDim = b.flag("keepdim");
    return {extremumOf(b, self, isMax, dims, keepDim), argExtremumOf(b, self, isMax, dims, keepDim)};
  };
}

Entry::Function argExtremum(bool isMax) {
  return [isMax](Builder &b) -> Results {
    const Tensor self = b.tensor("self");
    const bool keepDim = b.flag("keepdim");
    if (!b.isNone("dim"))
      return {argExtremumOf(b, self, isMax, b.dimensions({b.integer("dim")}, self.rank(), false), keepDim)};
    Tensor index = argExtremumOf(b, self.rank() == 1 ? self : reshape(b, self, {-1}), isMax, {0}, false);
    for (unsigned d = 0; keepDim && d < self.rank(); ++d)
      index = unsqueeze(std::move(index), 0);
    return {index};
  };
}

Entry::Function logicalReduction(ReduceKind kind, bool one) {
  return [kind, one](Builder &b) -> Results {
    const Tensor self = b.tensor("self");
    std::vector<unsigned> dims;
    bool keepDim = false;
    if (one) {
      dims = dimsArgument(b, "dim", self.rank(), b.isNone("dim"));
      keepDim = b.flag("keepdim");
    } else {
      dims = dimsArgument(b, nullptr, self.rank());
    }
    const Tensor result =
        b.reduce(kind, DType::Bool, {raw(self)}, dims, keepDim, [](X x) { return x[0].to(DType::Bool); });
    return {self.dtype == DType::U8 ? b.convert(result, DType::U8) : result}; // a relic of bool's youth
  };
}

//===----------------------------------------------------------------------===//
// Moments and norms
//===----------------------------------------------------------------------===//

/// want: 'v' variance, 's' standard deviation, 'b' variance and mean, 'd' deviation and mean.
Entry::Function moments(char want, bool unbiasedForm, bool hasDim) {
  return [=](Builder &b) -> Results {
    const Tensor self = b.tensor("self");
    if (!isFloat(self.dtype))
      throw Invalid("std and var only support floating point and complex dtypes");
    const std::vector<unsigned> dims = dimsArgument(b, hasDim ? "dim" : nullptr, self.rank());
    const bool keepDim = hasDim && b.flag("keepdim");
    const double correction = unbiasedForm ? double(b.flag("unbiased")) : b.optionalNumber("correction").value_or(1);
    auto [variance, mean] = varianceOf(b, self, dims, correction);
    if (!keepDim) {
      variance = withoutDimensions(variance, dims);
      mean = withoutDimensions(mean, dims);
    }
    const bool isDeviation = want == 's' || want == 'd';
    const Tensor spread = isDeviation ? b.pointwise(
                                            variance.dtype, {variance}, [](X x) { return sqrt(x[0]); }, self.dtype)
                                      : b.convert(variance, self.dtype);
    if (want == 'v' || want == 's')
      return {spread};
    return {spread, b.convert(mean, self.dtype)};
  };
}

Results logSumExp(Builder &b) {
  const Tensor self = b.tensor("self");
  const DType dtype = isFloat(self.dtype) ? self.dtype : DType::F32;
  const std::vector<unsigned> dims = dimsArgument(b, "dim", self.rank());
  const bool keepDim = b.flag("keepdim");
  const Tensor input = b.convert(self, dtype);
  const Tensor largest = b.pointwise(
      dtype, {raw(maxOf(b, input, dims, true))},
      [](X x) { return select(equal(abs(x[0]), std::numeric_limits<double>::infinity()), 0.0, x[0]); },
      opmathType(dtype));
  Tensor sum =
      b.reduce(ReduceKind::Sum, largest.dtype, {input, largest}, dims, true, [](X x) { return exp(x[0] - x[1]); });
  Tensor out = b.pointwise(largest.dtype, {sum, largest}, [](X x) { return log(x[0]) + x[1]; }, dtype);
  return {keepDim ? out : withoutDimensions(out, dims)};
}

Results vectorNorm(Builder &b) {
  const Tensor self = b.tensor("self");
  const double order = b.number("ord");
  const DType dtype = b.dtype("dtype").value_or(self.dtype);
  if (!isFloat(dtype))
    throw Invalid("linalg.vector_norm: Expected a floating point or complex tensor as input.");
  const std::vector<unsigned> dims = dimsArgument(b, "dim", self.rank());
  const bool keepDim = b.flag("keepdim");
  const auto reduceBy = [&](ReduceKind kind, auto body) {
    return b.reduce(kind, dtype, {self}, dims, keepDim, [&](X x) { return order == 2 ? body(x[0]) : body(abs(x[0])); });
  };
  const auto same = [](Ex x) { return x; };
  Tensor result;
  if (std::isinf(order)) {
    requireElements(b, self, dims);
    result = reduceBy(order > 0 ? ReduceKind::Max : ReduceKind::Min, same);
  } else if (order == 0) {
    result = reduceBy(ReduceKind::Sum, [](Ex x) { return notEqual(x, 0).to(x.type()); });
  } else if (order == 1) {
    result = reduceBy(ReduceKind::Sum, same);
  } else if (order == 2) {
    result = reduceBy(ReduceKind::Sum, [](Ex x) { return x * x; });
    result = b.pointwise(result.dtype, {result}, [](X x) { return sqrt(x[0]); });
  } else {
    result = reduceBy(ReduceKind::Sum, [&](Ex x) { return x.binary(ScalarOp::Pow, x.like(order)); });
    result = b.pointwise(result.dtype, {result}, [&](X x) { return x[0].binary(ScalarOp::Pow, x[0].like(1 / order)); });
  }
  return {b.convert(result, dtype)};
}

Results countNonzero(Builder &b) {
  const Tensor self = b.tensor("self");
  return {b.reduce(ReduceKind::Sum, DType::I64, {raw(self)}, dimsArgument(b, "dim", self.rank()), false,
                   [](X x) { return x[0].to(DType::Bool).to(DType::I64); })};
}

Results nanSum(Builder &b) {
  const Tensor self = b.tensor("self");
  const DType dtype = b.dtype("dtype").value_or(isFloat(self.dtype) ? self.dtype : DType::I64);
  const DType acc = accumulateType(dtype);
  const Tensor total = b.reduce(ReduceKind::Sum, dtype, {self}, dimsArgument(b, "dim", self.rank()), b.flag("keepdim"),
                                [&](X x) { return (isFloat(dtype) ? select(isNaN(x[0]), 0.0, x[0]) : x[0]).to(acc); });
  return {b.convert(total, dtype)};
}

} // namespace

void addReductions(Registry &r) {
  r.add({"aten.sum.default"}, "self, dtype=None", [](Builder &b) { return sum(b, nullptr, false); });
  r.add({"aten.sum.dim_IntList"}, "self, dim, keepdim=False, dtype=None",
        [](Builder &b) { return sum(b, "dim", b.flag("keepdim")); });
  r.add({"aten.mean.default"}, "self, dtype=None", [](Builder &b) { return mean(b, nullptr, false); });
  r.add({"aten.mean.dim"}, "self, dim, keepdim=False, dtype=None",
        [](Builder &b) { return mean(b, "dim", b.flag("keepdim")); });
  r.add({"aten.prod.default"}, "self, dtype=None", [](Builder &b) { return product(b, nullptr, false); });
  r.add({"aten.prod.dim_int"}, "self, dim, keepdim=False, dtype=None",
        [](Builder &b) { return product(b, "dim", b.flag("keepdim")); });
  r.add({"aten.nansum.default"}, "self, dim=None, keepdim=False, dtype=None", nanSum);
  r.add({"aten.count_nonzero.default", "aten.count_nonzero.dim_IntList"}, "self, dim=None", countNonzero);

  r.add({"aten.amax.default"}, "self, dim=[], keepdim=False", extremum(true));
  r.add({"aten.amin.default"}, "self, dim=[], keepdim=False", extremum(false));
  r.add({"aten.max.default"}, "self", extremumOfAll(true));
  r.add({"aten.min.default"}, "self", extremumOfAll(false));
  r.add({"aten.max.dim"}, "self, dim, keepdim=False", extremumWithIndex(true));
  r.add({"aten.min.dim"}, "self, dim, keepdim=False", extremumWithIndex(false));
  r.add({"aten.argmax.default"}, "self, dim=None, keepdim=False", argExtremum(true));
  r.add({"aten.argmin.default"}, "self, dim=None, keepdim=False", argExtremum(false));
  r.add({"aten.any.default"}, "self", logicalReduction(ReduceKind::Any, false));
  r.add({"aten.any.dim", "aten.any.dims"}, "self, dim=None, keepdim=False", logicalReduction(ReduceKind::Any, true));
  r.add({"aten.all.default"}, "self", logicalReduction(ReduceKind::All, false));
  r.add({"aten.all.dim", "aten.all.dims"}, "self, dim=None, keepdim=False", logicalReduction(ReduceKind::All, true));

  r.add({"aten.var.default"}, "self, unbiased=True", moments('v', true, false));
  r.add({"aten.var.dim"}, "self, dim, unbiased=True, keepdim=False", moments('v', true, true));
  r.add({"aten.var.correction"}, "self, dim=None, correction=None, keepdim=False", moments('v', false, true));
  r.add({"aten.std.default"}, "self, unbiased=True", moments('s', true, false));
  r.add({"aten.std.dim"}, "self, dim, unbiased=True, keepdim=False", moments('s', true, true));
  r.add({"aten.std.correction"}, "self, dim=None, correction=None, keepdim=False", moments('s', false, true));
  r.add({"aten.var_mean.default"}, "self, unbiased=True", moments('b', true, false));
  r.add({"aten.var_mean.dim"}, "self, dim, unbiased=True, keepdim=False", moments('b', true, true));
  r.add({"aten.var_mean.correction"}, "self, dim=None, correction=None, keepdim=False", moments('b', false, true));
  r.add({"aten.std_mean.correction"}, "self, dim=None, correction=None, keepdim=False", moments('d', false, true));
  r.add({"aten.logsumexp.default"}, "self, dim, keepdim=False", logSumExp);
  r.add({"aten.linalg_vector_norm.default"}, "self, ord=2, dim=None, keepdim=False, dtype=None", vectorNorm);
}

} // namespace tilewright::importer
