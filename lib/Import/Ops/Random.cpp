//===- Random.cpp - dropout where nothing is random, and its gradient -----===//
#include "../Registry.h"
#include "../Views.h"

namespace tilewright::importer {
namespace {

Results nativeDropout(Builder &b) {
  const Tensor input = b.tensor("input");
  const double p = b.number("p");
  const bool trains = b.optionalFlag("train").value_or(true);
  if (p < 0 || p > 1)
    throw Invalid("dropout probability has to be between 0 and 1, but got " + std::to_string(p));
  if (trains && p != 0 && p != 1)
    throw Unsupported("random numbers");
  const bool keeps = !trains || p == 0;
  const Sizes strides = likeStrides(b.state, input);
  const Tensor mask = b.allocate(DType::Bool, input.sizes, &strides);
  b.store(mask, [&] { return b.constantInt(keeps, DType::Bool); });
  if (keeps)
    return {b.copy(input, &strides), mask};
  return {b.pointwise(input.dtype, {input}, [](X x) { return x[0].like(0); }), mask};
}

Results nativeDropoutBackward(Builder &b) {
  const Tensor grad = b.tensor("grad_output"), mask = b.tensor("mask");
  const Scalar scale = b.scalar("scale");
  if (!isFloat(grad.dtype))
    throw Unsupported("gradients of integers");
  return {b.pointwise(grad.dtype, {grad, mask}, [&](X x) { return x[0] * x[1] * b.value(scale, x[0].type()); })};
}

} // namespace

void addRandom(Registry &r) {
  r.add({"aten.native_dropout.default"}, "input, p, train", nativeDropout);
  r.add({"aten.native_dropout_backward.default"}, "grad_output, mask, scale", nativeDropoutBackward);
}

} // namespace tilewright::importer
