//===- FallbackOps.cpp - which operators fall back ----------------------------------------------------------------===//

#include "tilewright/Torch/Fallback.h"

#include <ATen/Functions.h>
#include <torch/library.h>

namespace tilewright::npu {
namespace {

auto boxedFallback() { return torch::CppFunction::makeFromBoxedFunction<&fallback>(); }

// PyTorch sends convolutions of other devices here. They are PyTorch's own convolution, which falls back as a whole.
at::Tensor convolution(const at::Tensor &input, const at::Tensor &weight, const std::optional<at::Tensor> &bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef outputPadding, int64_t groups) {
  return at::convolution(input, weight, bias, stride, padding, dilation, transposed, outputPadding, groups);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolutionBackward(const at::Tensor &grad, const at::Tensor &input,
                                                                   const at::Tensor &weight, at::IntArrayRef stride,
                                                                   at::IntArrayRef padding, at::IntArrayRef dilation,
                                                                   bool transposed, at::IntArrayRef outputPadding,
                                                                   int64_t groups, std::array<bool, 3> mask) {
  int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  return at::convolution_backward(grad, input, weight, at::IntArrayRef(channels), stride, padding, dilation, transposed,
                                  outputPadding, groups, mask);
}

} // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(boxedFallback()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  // For these the CPU has a kernel of its own beside a composite one, which would win over the fallback: less exact
  // (layer norm), with statistics of another dtype, or slower. test_device_fallback.py derives this list from the
  // dispatcher.
  for (const char *name : {"_stack", "_stack.out", "addr", "addr.out", "all.dims", "all.dims_out", "any.dims",
                           "any.dims_out", "linalg__powsum", "mish_backward", "native_channel_shuffle",
                           "native_group_norm", "native_layer_norm", "silu_backward"})
    m.impl(name, boxedFallback());
  // Composite, but they call kernels by device type, of which there are none for this one.
  for (const char *name : {"conj_physical_", "mode.values"})
    m.impl(name, boxedFallback());
  // Composite, but they choose an algorithm by device, and for this one that would be convolution_overrideable.
  for (const char *name : {"convolution", "_convolution", "convolution_backward"})
    m.impl(name, boxedFallback());
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolutionBackward);
}

} // namespace tilewright::npu
