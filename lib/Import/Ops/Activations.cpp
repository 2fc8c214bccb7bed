//===- Activations.cpp - activation functions and their gradients ---------===//
#include "../Activations.h"

#include "../Registry.h"

#include <cmath>

namespace tilewright::importer {

Ex sigmoid(Ex x) { return 1.0 / (1.0 + exp(-x)); }

Ex softplus(Ex x, Ex beta, Ex threshold) {
  const Ex scaled = x * beta;
  return select(scaled > threshold, x, log1p(exp(scaled)) / beta);
}

/// log(sigmoid(x)) without overflow.
Ex logSigmoid(Ex x) { return min(x, 0.0) - log1p(exp(-abs(x))); }

namespace {

constexpr double kTanhBeta = M_SQRT2 * M_2_SQRTPI * 0.5; // sqrt(2 / pi)
constexpr double kTanhKappa = 0.044715;

Ex gelu(Ex x, bool tanhForm) {
  if (tanhForm)
    return 0.5 * x * (1.0 + tanh(kTanhBeta * (x + kTanhKappa * (x * x * x))));
  return x * 0.5 * (1.0 + erf(x * M_SQRT1_2));
}

Ex geluGradient(Ex grad, Ex x, bool tanhForm) {
  if (!tanhForm) {
    const Ex cdf = 0.5 * (1.0 + erf(x * M_SQRT1_2));
    const Ex pdf = exp(x * x * -0.5) * (M_2_SQRTPI * M_SQRT1_2 * 0.5);
    return grad * (cdf + x * pdf);
  }
  const Ex square = x * x;
  const Ex t = tanh(kTanhBeta * (x + kTanhKappa * (square * x)));
  const Ex left = 0.5 * x, right = 1.0 + t;
  const Ex inner = kTanhBeta * (1.0 + 3 * kTanhKappa * square);
  return grad * (0.5 * right + left * (1.0 - t * t) * inner);
}

bool isTanhForm(Builder &b) {
  const std::string form = b.text("approximate");
  if (form != "none" && form != "tanh")
    throw Invalid("approximate argument must be either none or tanh.");
  return form == "tanh";
}

/// An activation: floats only, dtype kept. Other arguments are read by name.
template <typename Fn> Entry::Function activation(Fn fn) {
  return [fn](Builder &b) -> Results {
    const Tensor self = b.tensor("self");
    if (!isFloat(self.dtype))
      throw Invalid("is not implemented for '" + std::string(nameOf(self.dtype)) + "'");
    return {b.pointwise(self.dtype, {self}, [&](X x) { return fn(b, x[0]); })};
  };
}

/// A gradient from grad_output and one saved tensor.
template <typename Fn> Entry::Function gradient(const char *grad, const char *saved, Fn fn) {
  return [grad, saved, fn](Builder &b) -> Results {
    const Tensor g = b.tensor(grad), s = b.tensor(saved);
    return {b.pointwise(resultType({g, s}), {g, s}, [&](X x) { return fn(b, x[0], x[1]); })};
  };
}

Ex parameter(Builder &b, const char *name, Ex like) { return b.value(b.scalar(name), like.type()); }

Results relu(Builder &b) {
  const Tensor self = b.tensor("self");
  if (self.dtype == DType::Bool)
    throw Invalid("Boolean inputs not supported for relu");
  return {b.pointwise(self.dtype, {self}, [](X x) { return max(x[0], 0); })};
}

Ex elu(Builder &b, Ex x) {
  const Ex alpha = parameter(b, "alpha", x), scale = parameter(b, "scale", x), input = parameter(b, "input_scale", x);
  return select(x > 0, x * scale, expm1(x * input) * (alpha * scale));
}

Results eluBackward(Builder &b) {
  const Tensor grad = b.tensor("grad_output"), saved = b.tensor("self_or_result");
  const bool isResult = b.flag("is_result");
  return {b.pointwise(resultType({grad, saved}), {grad, saved}, [&](X x) {
    const Ex alpha = parameter(b, "alpha", x[0]), scale = parameter(b, "scale", x[0]);
    const Ex input = parameter(b, "input_scale", x[0]);
    const Ex negative =
        isResult ? x[0] * input * (x[1] + alpha * scale) : x[0] * input * (alpha * scale) * exp(x[1] * input);
    return select(x[1] <= 0, negative, x[0] * scale);
  })};
}

Ex hardSigmoid(Ex x) { return min(max(x + 3.0, 0.0), 6.0) / 6.0; }

Ex siluGradient(Ex grad, Ex x) {
  const Ex s = sigmoid(x);
  return grad * s * (1.0 + x * (1.0 - s));
}

Ex mishGradient(Ex grad, Ex x) {
  const Ex s = sigmoid(x), t = tanh(log1p(exp(x)));
  return grad * (t + x * s * (1.0 - t * t));
}

Ex hardSwishGradient(Ex grad, Ex x) { return select(x < -3.0, 0.0, select(x <= 3.0, grad * (x / 3.0 + 0.5), grad)); }

Ex leakyRelu(Builder &b, Ex x) { return select(x > 0, x, x * parameter(b, "negative_slope", x)); }

Results prelu(Builder &b) {
  const Tensor self = b.tensor("self"), weight = b.tensor("weight");
  return {b.pointwise(self.dtype, {self, weight}, [](X x) { return select(x[0] > 0, x[0], x[0] * x[1]); })};
}

Results threshold(Builder &b) {
  const Tensor self = b.tensor("self");
  return {b.pointwise(self.dtype, {self}, [&](X x) {
    return select(x[0] <= parameter(b, "threshold", x[0]), parameter(b, "value", x[0]), x[0]);
  })};
}

Results hardTanh(Builder &b) {
  const Tensor self = b.tensor("self");
  if (self.dtype == DType::Bool)
    throw Invalid("Bool inputs not supported for hardtanh");
  return {b.pointwise(self.dtype, {self}, [&](X x) {
    return min(max(x[0], parameter(b, "min_val", x[0])), parameter(b, "max_val", x[0]));
  })};
}

Results logSigmoidForward(Builder &b) {
  const Tensor self = b.tensor("self");
  const Tensor out = b.pointwise(self.dtype, {self}, [](X x) { return logSigmoid(x[0]); });
  // The buffer is CPU's private note for its backward pass; ours needs none, and says so with the same shape.
  return {out, b.pointwise(self.dtype, {self}, [](X x) { return exp(-abs(x[0])); })};
}

Results logSigmoidBackward(Builder &b) {
  const Tensor grad = b.tensor("grad_output"), self = b.tensor("self");
  return {b.pointwise(self.dtype, {grad, self}, [](X x) { return x[0] * sigmoid(-x[1]); })};
}

} // namespace

void addActivations(Registry &r) {
  r.add({"aten.relu.default"}, "self", relu);
  r.add({"aten.relu6.default"}, "self", activation([](Builder &, Ex x) { return min(max(x, 0.0), 6.0); }));
  r.add({"aten.gelu.default"}, "self, approximate=\"none\"",
        activation([](Builder &b, Ex x) { return gelu(x, isTanhForm(b)); }));
  r.add({"aten.silu.default"}, "self", activation([](Builder &, Ex x) { return x / (1.0 + exp(-x)); }));
  r.add({"aten.mish.default"}, "self", activation([](Builder &, Ex x) { return x * tanh(log1p(exp(x))); }));
  r.add({"aten.hardsigmoid.default"}, "self", activation([](Builder &, Ex x) { return hardSigmoid(x); }));
  r.add({"aten.hardswish.default"}, "self", activation([](Builder &, Ex x) { return x * hardSigmoid(x); }));
  r.add({"aten.softplus.default"}, "self, beta=1, threshold=20", activation([](Builder &b, Ex x) {
          return softplus(x, parameter(b, "beta", x), parameter(b, "threshold", x));
        }));
  r.add({"aten.elu.default"}, "self, alpha=1, scale=1, input_scale=1", activation(elu));
  r.add({"aten.leaky_relu.default"}, "self, negative_slope=0.01", activation(leakyRelu));
  r.add({"aten._prelu_kernel.default"}, "self, weight", prelu);
  r.add({"aten.hardtanh.default"}, "self, min_val=-1, max_val=1", hardTanh);
  r.add({"aten.threshold.default"}, "self, threshold, value", threshold);
  r.add({"aten.log_sigmoid_forward.default"}, "self", logSigmoidForward);
  r.add({"aten.log_sigmoid.default"}, "self", activation([](Builder &, Ex x) { return logSigmoid(x); }));

  r.add({"aten.threshold_backward.default"}, "grad_output, self, threshold",
        gradient("grad_output", "self",
                 [](Builder &b, Ex g, Ex x) { return select(x <= parameter(b, "threshold", x), g.like(0), g); }));
  r.add({"aten.gelu_backward.default"}, "grad_output, self, approximate=\"none\"",
        gradient("grad_output", "self", [](Builder &b, Ex g, Ex x) { return geluGradient(g, x, isTanhForm(b)); }));
  r.add({"aten.tanh_backward.default"}, "grad_output, output",
        gradient("grad_output", "output", [](Builder &, Ex g, Ex y) { return g * (1.0 - y * y); }));
  r.add({"aten.sigmoid_backward.default"}, "grad_output, output",
        gradient("grad_output", "output", [](Builder &, Ex g, Ex y) { return g * (1.0 - y) * y; }));
  r.add({"aten.silu_backward.default"}, "grad_output, self",
        gradient("grad_output", "self", [](Builder &, Ex g, Ex x) { return siluGradient(g, x); }));
  r.add({"aten.mish_backward.default"}, "grad_output, self",
        gradient("grad_output", "self", [](Builder &, Ex g, Ex x) { return mishGradient(g, x); }));
  r.add({"aten.hardsigmoid_backward.default"}, "grad_output, self",
        gradient("grad_output", "self",
                 [](Builder &, Ex g, Ex x) { return select((x > -3.0) & (x < 3.0), g / 6.0, 0.0); }));
  r.add({"aten.hardswish_backward.default"}, "grad_output, self",
        gradient("grad_output", "self", [](Builder &, Ex g, Ex x) { return hardSwishGradient(g, x); }));
  r.add({"aten.hardtanh_backward.default"}, "grad_output, self, min_val, max_val",
        gradient("grad_output", "self", [](Builder &b, Ex g, Ex x) {
          const Ex outside = (x <= parameter(b, "min_val", x)) | (x >= parameter(b, "max_val", x));
          return select(outside, 0.0, g);
        }));
  r.add({"aten.softplus_backward.default"}, "grad_output, self, beta, threshold",
        gradient("grad_output", "self", [](Builder &b, Ex g, Ex x) {
          const Ex scaled = x * parameter(b, "beta", x), z = exp(scaled);
          return select(scaled > parameter(b, "threshold", x), g, g * z / (z + 1.0));
        }));
  r.add({"aten.leaky_relu_backward.default"}, "grad_output, self, negative_slope, self_is_result",
        gradient("grad_output", "self",
                 [](Builder &b, Ex g, Ex x) { return select(x > 0, g, g * parameter(b, "negative_slope", x)); }));
  r.add({"aten.elu_backward.default"}, "grad_output, alpha, scale, input_scale, is_result, self_or_result",
        eluBackward);
  r.add({"aten.log_sigmoid_backward.default"}, "grad_output, self, buffer", logSigmoidBackward);
}

} // namespace tilewright::importer
