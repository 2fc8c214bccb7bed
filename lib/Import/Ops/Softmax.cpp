//===- Softmax.cpp - softmax, its logarithm, their gradients --------------===//
#include "../Reduce.h"
#include "../Registry.h"

#include <limits>

namespace tilewright::importer {
namespace {

struct Exponentials {
  Tensor largest, values, sum;
};

/// exp(x - max) and its sum along a dimension, in f32 (f64 for f64).
Exponentials exponentials(Builder &b, const Tensor &x, unsigned dim) {
  const Tensor largest = maxOf(b, x, {dim}, true);
  const DType acc = largest.dtype;
  const Tensor values = b.pointwise(acc, {x, largest}, [](X v) { return exp(v[0] - v[1]); });
  return {largest, values, sumOf(b, values, {dim}, true)};
}

Tensor softmax(Builder &b, const Tensor &x, unsigned dim, DType result) {
  if (x.rank() == 0)
    return b.pointwise(opmathType(x.dtype), {x}, [](X v) { return exp(v[0] - v[0]); }, result);
  const Exponentials e = exponentials(b, x, dim);
  return b.pointwise(e.sum.dtype, {e.values, e.sum}, [](X v) { return v[0] / v[1]; }, result);
}

Tensor logSoftmax(Builder &b, const Tensor &x, unsigned dim, DType result) {
  if (x.rank() == 0)
    return b.pointwise(opmathType(x.dtype), {x}, [](X v) { return v[0] - v[0]; }, result);
  const Exponentials e = exponentials(b, x, dim);
  return b.pointwise(e.sum.dtype, {x, e.largest, e.sum}, [](X v) { return v[0] - v[1] - log(v[2]); }, result);
}

using Function = Tensor (*)(Builder &, const Tensor &, unsigned, DType);

/// The core form, which AOTAutograd makes.
Entry::Function core(Function fn) {
  return [fn](Builder &b) -> Results {
    const Tensor self = b.tensor("self");
    if (!isFloat(self.dtype))
      throw Invalid("is not implemented for '" + std::string(nameOf(self.dtype)) + "'");
    if (b.flag("half_to_float"))
      throw Invalid("conversion with half to float is not supported on CPU");
    return {b.contiguous(fn(b, self, b.dimension(b.integer("dim"), self.rank()), self.dtype))};
  };
}

/// The user's form, with a dtype to compute in.
Entry::Function withDtype(Function fn) {
  return [fn](Builder &b) -> Results {
    Tensor self = b.tensor("self");
    const DType dtype = b.dtype("dtype").value_or(self.dtype);
    if (!isFloat(dtype))
      throw Invalid("is not implemented for '" + std::string(nameOf(dtype)) + "'");
    return {b.contiguous(fn(b, b.convert(self, dtype), b.dimension(b.integer("dim"), self.rank()), dtype))};
  };
}

/// Rows that are masked out altogether give zeros instead of NaN.
Tensor safeSoftmax(Builder &b, const Tensor &x, unsigned dim, DType result) {
  if (x.rank() == 0)
    return softmax(b, x, dim, result);
  const Exponentials e = exponentials(b, x, dim);
  return b.pointwise(
      e.sum.dtype, {e.values, e.sum, e.largest},
      [](X v) { return select(equal(v[2], -std::numeric_limits<double>::infinity()), 0.0, v[0] / v[1]); }, result);
}

Results softmaxBackward(Builder &b) {
  const Tensor grad = b.tensor("grad_output"), output = b.tensor("output");
  const DType dtype = *b.dtype("input_dtype"), acc = opmathType(grad.dtype);
  if (grad.rank() == 0)
    return {b.pointwise(acc, {grad, output}, [](X v) { return v[0] * v[1] - v[1] * (v[0] * v[1]); }, dtype)};
  const unsigned dim = b.dimension(b.integer("dim"), grad.rank());
  const Tensor products = b.pointwise(acc, {grad, output}, [](X v) { return v[0] * v[1]; });
  const Tensor sum = sumOf(b, products, {dim}, true);
  return {b.contiguous(b.pointwise(acc, {products, output, sum}, [](X v) { return v[0] - v[1] * v[2]; }, dtype))};
}

Results logSoftmaxBackward(Builder &b) {
  const Tensor grad = b.tensor("grad_output"), output = b.tensor("output");
  const DType dtype = *b.dtype("input_dtype"), acc = opmathType(grad.dtype);
  if (grad.rank() == 0)
    return {b.pointwise(acc, {grad, output}, [](X v) { return v[0] - exp(v[1]) * v[0]; }, dtype)};
  const unsigned dim = b.dimension(b.integer("dim"), grad.rank());
  const Tensor sum = sumOf(b, grad, {dim}, true);
  return {b.contiguous(b.pointwise(acc, {grad, output, sum}, [](X v) { return v[0] - exp(v[1]) * v[2]; }, dtype))};
}

} // namespace

void addSoftmax(Registry &r) {
  r.add({"aten._softmax.default"}, "self, dim, half_to_float", core(softmax));
  r.add({"aten._log_softmax.default"}, "self, dim, half_to_float", core(logSoftmax));
  r.add({"aten.softmax.int"}, "self, dim, dtype=None", withDtype(softmax));
  r.add({"aten.log_softmax.int"}, "self, dim, dtype=None", withDtype(logSoftmax));
  r.add({"aten._safe_softmax.default"}, "self, dim, dtype=None", withDtype(safeSoftmax));
  r.add({"aten._softmax_backward_data.default"}, "grad_output, output, dim, input_dtype", softmaxBackward);
  r.add({"aten._log_softmax_backward_data.default"}, "grad_output, output, dim, input_dtype", logSoftmaxBackward);
}

} // namespace tilewright::importer
