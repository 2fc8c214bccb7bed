//===- Matmul.cpp - products of matrices and vectors ----------------------===//
#include "../Registry.h"
#include "../Views.h"

namespace tilewright::importer {
namespace {

void requireRank(const Tensor &t, unsigned rank, const char *name) {
  if (t.rank() != rank)
    throw Invalid(std::string(name) + " must have " + std::to_string(rank) + " dimensions, got " +
                  std::to_string(t.rank()));
}

void requireNumbers(const Tensor &t) {
  if (t.dtype == DType::Bool)
    throw Invalid("is not implemented for 'Bool'");
}

Ex plain(Ex acc, X) { return acc; }

Tensor product(Builder &b, const Tensor &lhs, const Tensor &rhs) {
  requireNumbers(lhs);
  return b.contraction(lhs, rhs, {}, lhs.dtype, plain);
}

/// beta * self + alpha * (lhs @ rhs). With beta = 0 self is not read, so its NaN do not count.
Tensor scaledProduct(Builder &b, const Tensor &self, const Tensor &lhs, const Tensor &rhs, const Scalar &beta,
                     const Scalar &alpha) {
  requireNumbers(lhs);
  if (self.dtype != lhs.dtype)
    throw Invalid("self and mat1 must have the same dtype, but got " + std::string(nameOf(self.dtype)) + " and " +
                  std::string(nameOf(lhs.dtype)));
  const Sizes shape = [&] {
    Sizes s(lhs.sizes.begin(), lhs.sizes.end() - 1);
    s.push_back(rhs.sizes.back());
    return s;
  }();
  // Integers take the integer part of alpha and beta.
  const bool ignored = beta.isConstant(0);
  std::vector<Operand> extras;
  if (!ignored)
    extras.push_back(expand(b, self, shape));
  return b.contraction(lhs, rhs, extras, lhs.dtype, [&](Ex acc, X x) {
    const Ex scaled = alpha.isConstant(1) ? acc : acc * b.value(alpha, acc.type());
    if (ignored)
      return scaled;
    return scaled + (beta.isConstant(1) ? x[0] : x[0] * b.value(beta, acc.type()));
  });
}

Results mm(Builder &b) {
  const Tensor self = b.tensor("self"), mat2 = b.tensor("mat2");
  requireRank(self, 2, "self");
  requireRank(mat2, 2, "mat2");
  return {product(b, self, mat2)};
}

Results bmm(Builder &b) {
  const Tensor self = b.tensor("self"), mat2 = b.tensor("mat2");
  requireRank(self, 3, "batch1");
  requireRank(mat2, 3, "batch2");
  b.require(self.sizes[0], mat2.sizes[0], "batch1 and batch2 must have same number of batches, got {lhs} and {rhs}");
  return {product(b, self, mat2)};
}

Results addmm(Builder &b, unsigned rank, const char *lhs, const char *rhs) {
  const Tensor mat1 = b.tensor(lhs), mat2 = b.tensor(rhs);
  requireRank(mat1, rank, lhs);
  requireRank(mat2, rank, rhs);
  return {scaledProduct(b, b.tensor("self"), mat1, mat2, b.scalar("beta"), b.scalar("alpha"))};
}

Tensor matrixTimesVector(Builder &b, const Tensor &matrix, const Tensor &vector) {
  Tensor result = product(b, matrix, unsqueeze(vector, 1));
  return dropDimension(result, result.rank() - 1);
}

Results mv(Builder &b) {
  const Tensor self = b.tensor("self"), vec = b.tensor("vec");
  requireRank(self, 2, "self");
  requireRank(vec, 1, "vec");
  return {matrixTimesVector(b, self, vec)};
}

Results addmv(Builder &b) {
  const Tensor self = b.tensor("self"), mat = b.tensor("mat"), vec = b.tensor("vec");
  requireRank(mat, 2, "mat");
  requireRank(vec, 1, "vec");
  const Tensor column = unsqueeze(expand(b, self, {mat.sizes[0]}), 1);
  const Tensor result = scaledProduct(b, column, mat, unsqueeze(vec, 1), b.scalar("beta"), b.scalar("alpha"));
  return {dropDimension(result, 1)};
}

Tensor dot(Builder &b, const Tensor &x, const Tensor &y) {
  if (x.dtype != y.dtype)
    throw Invalid("dot : expected both vectors to have same dtype");
  requireNumbers(x);
  b.require(x.sizes[0], y.sizes[0], "inconsistent tensor size, expected vectors of the same size, got {lhs} and {rhs}");
  const DType acc = isFloat(x.dtype) ? opmathType(x.dtype) : x.dtype;
  return b.convert(b.reduce(ReduceKind::Sum, x.dtype, {x, y}, {0}, false, [&](X v) { return (v[0] * v[1]).to(acc); }),
                   x.dtype);
}

Results dotEntry(Builder &b) {
  const Tensor self = b.tensor("self"), other = b.tensor(b.isNone("tensor") ? "other" : "tensor");
  requireRank(self, 1, "self");
  requireRank(other, 1, "tensor");
  return {dot(b, self, other)};
}

Results outer(Builder &b) {
  const Tensor self = b.tensor("self"), vec2 = b.tensor("vec2");
  requireRank(self, 1, "self");
  requireRank(vec2, 1, "vec2");
  const Tensor column = unsqueeze(self, 1);
  return {b.pointwise(resultType({column, vec2}), {column, vec2}, [](X x) { return x[0] * x[1]; })};
}

/// x[..., k] @ w[k, n]: leading dimensions become rows, so that one packed w serves all.
Tensor rowsTimesMatrix(Builder &b, const Tensor &x, const Tensor &w, const std::vector<Operand> &extras,
                       const std::function<Ex(Ex, X)> &fn) {
  const Tensor rows =
      x.rank() == 2 ? x : reshape(b, x, {loop::productOf(Sizes(x.sizes.begin(), x.sizes.end() - 1)), x.sizes.back()});
  const Tensor out = b.contraction(rows, w, extras, x.dtype, fn);
  Sizes shape(x.sizes.begin(), x.sizes.end() - 1);
  shape.push_back(w.sizes.back());
  return reshape(b, out, shape);
}

Results linear(Builder &b) {
  const Tensor input = b.tensor("input"), weight = b.tensor("weight");
  const std::optional<Tensor> bias = b.optionalTensor("bias");
  requireNumbers(input);
  if (weight.rank() != 2 || input.rank() < 1)
    throw Unsupported("linear with a weight that is no matrix");
  if (bias && bias->dtype != input.dtype)
    throw Invalid("expected bias to have the dtype of the input");
  const Tensor x = input.rank() == 1 ? unsqueeze(input, 0) : input;
  std::vector<Operand> extras;
  if (bias)
    extras.push_back(expand(b, *bias, {1, weight.sizes[0]}));
  Tensor out =
      rowsTimesMatrix(b, x, transpose(weight, 0, 1), extras, [&](Ex acc, X e) { return bias ? acc + e[0] : acc; });
  return {input.rank() == 1 ? dropDimension(out, 0) : out};
}

Results matmul(Builder &b) {
  const Tensor self = b.tensor("self"), other = b.tensor("other");
  if (self.rank() == 0 || other.rank() == 0)
    throw Invalid("both arguments to matmul need to be at least 1D");
  if (self.rank() == 1 && other.rank() == 1)
    return {dot(b, self, other)};
  const Tensor lhs = self.rank() == 1 ? unsqueeze(self, 0) : self;
  const Tensor rhs = other.rank() == 1 ? unsqueeze(other, 1) : other;
  Tensor out = rhs.rank() == 2 && lhs.rank() > 2 ? rowsTimesMatrix(b, lhs, rhs, {}, plain) : product(b, lhs, rhs);
  if (other.rank() == 1)
    out = dropDimension(out, out.rank() - 1);
  if (self.rank() == 1)
    out = dropDimension(out, out.rank() - (other.rank() == 1 ? 1 : 2));
  return {out};
}

} // namespace

void addMatmul(Registry &r) {
  r.add({"aten.mm.default"}, "self, mat2", mm);
  r.add({"aten.bmm.default"}, "self, mat2", bmm);
  r.add({"aten.addmm.default"}, "self, mat1, mat2, beta=1, alpha=1",
        [](Builder &b) { return addmm(b, 2, "mat1", "mat2"); });
  r.add({"aten.baddbmm.default"}, "self, batch1, batch2, beta=1, alpha=1",
        [](Builder &b) { return addmm(b, 3, "batch1", "batch2"); });
  r.add({"aten.mv.default"}, "self, vec", mv);
  r.add({"aten.addmv.default"}, "self, mat, vec, beta=1, alpha=1", addmv);
  r.add({"aten.dot.default"}, "self, tensor", dotEntry);
  r.add({"aten.vdot.default"}, "self, other, tensor=None", dotEntry);
  r.add({"aten.outer.default", "aten.ger.default"}, "self, vec2", outer);
  r.add({"aten.linear.default"}, "input, weight, bias=None", linear);
  r.add({"aten.matmul.default"}, "self, other", matmul);
}

} // namespace tilewright::importer
