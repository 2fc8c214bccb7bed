//===- Normalisation.cpp - layer, group, batch and RMS normalisation ------===//
#include "../Reduce.h"
#include "../Registry.h"
#include "../Views.h"

#include <numeric>

namespace tilewright::importer {
namespace {

/// The trailing dimensions that `normalized_shape` names.
std::vector<unsigned> normalizedDims(Builder &b, const Tensor &input) {
  const Sizes shape = b.sizes("normalized_shape");
  if (shape.empty() || shape.size() > input.rank())
    throw Invalid("Expected normalized_shape to be at least 1-dimensional and at most of the input's rank " +
                  std::to_string(input.rank()) + ", but got " + std::to_string(shape.size()) + " sizes");
  std::vector<unsigned> dims(shape.size());
  std::iota(dims.begin(), dims.end(), input.rank() - shape.size());
  for (size_t i = 0; i < dims.size(); ++i)
    b.require(shape[i], input.sizes[dims[i]],
              "Given normalized_shape with size {lhs}, expected input with size {rhs} at dimension " +
                  std::to_string(dims[i]));
  return dims;
}

/// The dtype of the saved statistics: on CPU the input's, but f32 beside f32 weights (mixed precision). Where the graph
/// says which, it is right: other devices differ.
DType statisticsType(Builder &b, const Tensor &input, const std::optional<Tensor> &weight, size_t result) {
  if (const graph::OutputInfo *info = b.described(result))
    return info->dtype;
  return weight && weight->dtype != input.dtype ? DType::F32 : input.dtype;
}

void requireFloat(const Tensor &input) {
  if (!isFloat(input.dtype))
    throw Invalid("is not implemented for '" + std::string(nameOf(input.dtype)) + "'");
}

/// y * weight + bias with what is there of the two.
Ex affine(Ex y, X x, size_t next, bool hasWeight, bool hasBias) {
  if (hasWeight)
    y = y * x[next++].to(y.type());
  if (hasBias)
    y = y + x[next].to(y.type());
  return y;
}

Results layerNorm(Builder &b) {
  const Tensor input = b.tensor("input");
  const std::optional<Tensor> weight = b.optionalTensor("weight"), bias = b.optionalTensor("bias");
  const double eps = b.number("eps");
  requireFloat(input);
  const std::vector<unsigned> dims = normalizedDims(b, input);
  auto [variance, mean] = varianceOf(b, input, dims, 0);
  const DType acc = mean.dtype;
  const Tensor rstd = b.pointwise(acc, {variance}, [&](X x) { return rsqrt(x[0] + eps); });
  std::vector<Operand> operands = {input, mean, rstd};
  for (const std::optional<Tensor> &t : {weight, bias})
    if (t)
      operands.push_back(*t);
  const Tensor out = b.pointwise(
      acc, operands, [&](X x) { return affine((x[0] - x[1]) * x[2], x, 3, weight.has_value(), bias.has_value()); },
      input.dtype);
  const DType saved = statisticsType(b, input, weight, 1);
  return {b.contiguous(out), b.convert(mean, saved), b.convert(rstd, saved)};
}

Results layerNormBackward(Builder &b) {
  const Tensor grad = b.tensor("grad_out"), input = b.tensor("input");
  const Tensor mean = b.tensor("mean"), rstd = b.tensor("rstd");
  const std::optional<Tensor> weight = b.optionalTensor("weight"), bias = b.optionalTensor("bias");
  const std::vector<bool> mask = b.flags("output_mask");
  const std::vector<unsigned> inner = normalizedDims(b, input);
  std::vector<unsigned> outer(input.rank() - inner.size());
  std::iota(outer.begin(), outer.end(), 0);
  const DType acc = opmathType(input.dtype);
  const Tensor normal = b.pointwise(acc, {input, mean, rstd}, [](X x) { return (x[0] - x[1]) * x[2]; });
  Results results(3);
  if (mask.at(0)) {
    std::vector<Operand> operands = {grad};
    if (weight)
      operands.push_back(*weight);
    const Tensor g = b.pointwise(acc, operands, [&](X x) { return weight ? x[0] * x[1] : x[0]; });
    const Tensor meanG = meanOf(b, g, inner, true);
    const Tensor products = b.pointwise(acc, {g, normal}, [](X x) { return x[0] * x[1]; });
    const Tensor meanProduct = meanOf(b, products, inner, true);
    results[0] = b.contiguous(b.pointwise(
        acc, {g, meanG, normal, meanProduct, rstd}, [](X x) { return (x[0] - x[1] - x[2] * x[3]) * x[4]; },
        input.dtype));
  }
  if (mask.at(1) && weight) {
    const Tensor sum = b.reduce(ReduceKind::Sum, acc, {grad, normal}, outer, false, [](X x) { return x[0] * x[1]; });
    results[1] = b.convert(sum, weight->dtype);
  }
  if (mask.at(2) && bias)
    results[2] = b.convert(sumOf(b, b.convert(grad, acc), outer, false), bias->dtype);
  return results;
}

Results rmsNorm(Builder &b) {
  const Tensor input = b.tensor("input");
  const std::optional<Tensor> weight = b.optionalTensor("weight");
  requireFloat(input);
  // PyTorch's default is the epsilon of the type it computes in.
  const double eps = b.optionalNumber("eps").value_or(input.dtype == DType::F64 ? 0x1p-52 : 0x1p-23);
  const std::vector<unsigned> dims = normalizedDims(b, input);
  const Tensor squares = b.reduce(ReduceKind::Sum, input.dtype, {input}, dims, true, [](X x) { return x[0] * x[0]; });
  const SizeExpr count = countOf(input, dims);
  const DType acc = squares.dtype;
  const Tensor rstd = b.pointwise(acc, {squares}, [&](X x) { return rsqrt(x[0] / b.sizeValue(count).to(acc) + eps); });
  std::vector<Operand> operands = {input, rstd};
  if (weight)
    operands.push_back(*weight);
  const Tensor out = b.pointwise(
      acc, operands, [&](X x) { return affine(x[0] * x[1], x, 2, weight.has_value(), false); }, input.dtype);
  return {b.contiguous(out), b.convert(rstd, b.described(1) ? b.described(1)->dtype : acc)};
}

/// A [channels] tensor beside an input [batch, channels, ...].
Tensor perChannel(Tensor t, unsigned rank) {
  for (unsigned d = 2; d < rank; ++d)
    t = unsqueeze(t, t.rank());
  return t;
}

Results batchNormInference(Builder &b) {
  const Tensor input = b.tensor("input");
  const std::optional<Tensor> weight = b.optionalTensor("weight"), bias = b.optionalTensor("bias");
  const Tensor mean = b.tensor("running_mean"), variance = b.tensor("running_var");
  const double eps = b.number("eps");
  requireFloat(input);
  const DType acc = opmathType(input.dtype);
  std::vector<Operand> operands = {input, perChannel(mean, input.rank()), perChannel(variance, input.rank())};
  for (const std::optional<Tensor> &t : {weight, bias})
    if (t)
      operands.push_back(perChannel(*t, input.rank()));
  const Tensor out = b.pointwise(
      acc, operands,
      [&](X x) { return affine((x[0] - x[1]) * (1.0 / sqrt(x[2] + eps)), x, 3, weight.has_value(), bias.has_value()); },
      input.dtype);
  // Without training nothing is saved.
  const Tensor none = b.allocate(mean.dtype, {0});
  b.store(none, [&] { return b.constant(0, mean.dtype); });
  const Tensor none2 = b.allocate(mean.dtype, {0});
  b.store(none2, [&] { return b.constant(0, mean.dtype); });
  return {out, none, none2};
}

Results groupNorm(Builder &b) {
  const Tensor input = b.tensor("input");
  const std::optional<Tensor> weight = b.optionalTensor("weight"), bias = b.optionalTensor("bias");
  const SizeExpr batch = b.size("N"), channels = b.size("C"), spatial = b.size("HxW"), groups = b.size("group");
  const double eps = b.number("eps");
  requireFloat(input);
  const SizeExpr perGroup =
      b.divide(channels, groups, "Expected number of channels in input to be divisible by num_groups, but got {lhs}");
  const Tensor grouped = reshape(b, input, {batch, groups, perGroup, spatial});
  auto [variance, mean] = varianceOf(b, grouped, {2, 3}, 0);
  const DType acc = mean.dtype;
  const Tensor rstd = b.pointwise(acc, {variance}, [&](X x) { return rsqrt(x[0] + eps); });
  std::vector<Operand> operands = {grouped, mean, rstd};
  for (const std::optional<Tensor> &t : {weight, bias})
    if (t)
      operands.push_back(reshape(b, *t, {1, groups, perGroup, 1}));
  const Tensor out = b.pointwise(
      acc, operands, [&](X x) { return affine((x[0] - x[1]) * x[2], x, 3, weight.has_value(), bias.has_value()); },
      input.dtype);
  const DType saved = statisticsType(b, input, weight, 1);
  const auto statistics = [&](const Tensor &t) { return b.convert(withoutDimensions(t, {2, 3}), saved); };
  return {reshape(b, b.contiguous(out), input.sizes), statistics(mean), statistics(rstd)};
}

} // namespace

void addNormalisation(Registry &r) {
  r.add({"aten.native_layer_norm.default"}, "input, normalized_shape, weight, bias, eps", layerNorm);
  r.add({"aten.native_layer_norm_backward.default"},
        "grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask", layerNormBackward);
  r.add({"aten._fused_rms_norm.default"}, "input, normalized_shape, weight, eps", rmsNorm);
  r.add({"aten._native_batch_norm_legit_no_training.default"},
        "input, weight, bias, running_mean, running_var, momentum, eps", batchNormInference);
  r.add({"aten.native_group_norm.default"}, "input, weight, bias, N, C, HxW, group, eps", groupNorm);
}

} // namespace tilewright::importer
