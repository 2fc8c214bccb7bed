//===- Attention.cpp - eager attention as one kernel --------------------------------------------------------------===//
//
// PyTorch's scaled_dot_product_attention asks which of its ways a device has. Where nothing is differentiated and ours
// covers the call it runs as one kernel; everything else takes PyTorch's math, whose parts are native.
//
//===----------------------------------------------------------------------===//

#include "tilewright/Torch/NativeCall.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include <cmath>

namespace at::native {

static int64_t tilewrightSdpChoice(const Tensor &query, const Tensor &key, const Tensor &value,
                                   const std::optional<Tensor> &mask, double dropout, bool, std::optional<double>,
                                   bool grouped) {
  auto plain = [](const Tensor &t) {
    // Fake tensors and those of functorch are traced, and a trace is to see PyTorch's own operators.
    return t.dim() == 4 && t.scalar_type() == kFloat && !t.key_set().has_any(c10::functorch_transforms_ks) &&
           !t.key_set().has_any(c10::python_ks);
  };
  auto differentiated = [](const Tensor &t) { return GradMode::is_enabled() && t.requires_grad(); };
  bool ours = globalContext().userEnabledOverrideableSDP() && dropout == 0 && plain(query) && plain(key) &&
              plain(value) && !differentiated(query) && !differentiated(key) && !differentiated(value) &&
              !(mask && mask->defined() && (differentiated(*mask) || mask->dim() > 4)) &&
              (!grouped || query.size(1) == key.size(1));
  return static_cast<int64_t>(ours ? SDPBackend::overrideable : SDPBackend::math);
}

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &tilewrightSdpChoice)

} // namespace at::native

namespace tilewright::npu {
namespace {

using Results = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
                           at::Tensor, at::Tensor>;

/// The results beside the first serve the backward pass, for which this way is never chosen.
Results attention(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
                  const std::optional<at::Tensor> &mask, double dropout, bool causal, bool debugMask,
                  std::optional<double> scale) {
  TORCH_CHECK(dropout == 0 && !debugMask,
              "_scaled_dot_product_fused_attention_overrideable on npu: dropout_p and return_debug_mask have no code; "
              "call torch.nn.functional.scaled_dot_product_attention");
  NativeArguments arguments;
  std::vector<ops::OpArgument> positional;
  for (const at::Tensor &t : {query, key, value, mask.value_or(at::Tensor())}) {
    std::optional<ops::TensorArgument> converted = t.defined() ? arguments.tensor(t) : std::nullopt;
    positional.push_back(converted ? ops::OpArgument(*converted) : ops::OpArgument());
  }
  positional.emplace_back(0.0);
  positional.emplace_back(causal);
  double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  ops::NamedArgument named[] = {{"scale", factor}};
  std::optional<std::vector<at::Tensor>> results;
  if (!arguments.refused)
    results = runNatively({"aten.scaled_dot_product_attention.default", positional, named});
  at::Tensor result = results ? std::move(results->front())
                              : std::get<0>(at::_scaled_dot_product_attention_math(query, key, value, mask, 0.0, causal,
                                                                                   std::nullopt, scale));
  at::Tensor none;
  return {result, none, none, none, query.sym_size(-2), key.sym_size(-2), none, none, none};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_scaled_dot_product_fused_attention_overrideable", &attention); }

} // namespace tilewright::npu
