//===- FallbackOps.cpp - which operators fall back ----------------------------------------------------------------===//

#include "tilewright/Torch/Fallback.h"
#include "tilewright/Torch/NativeOps.h"

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

// For these the CPU has a kernel of its own beside a composite one, which would win over the fallback: less exact
// (layer norm), with statistics of another dtype, or slower. test_device_fallback.py derives this list from the
// dispatcher.
constexpr const char *kBesideComposite[] = {"_stack",
                                            "_stack.out",
                                            "addr",
                                            "addr.out",
                                            "all.dims",
                                            "all.dims_out",
                                            "any.dims",
                                            "any.dims_out",
                                            "linalg__powsum",
                                            "mish_backward",
                                            "native_channel_shuffle",
                                            "native_group_norm",
                                            "native_layer_norm",
                                            "silu_backward"};

// Composite, but they call kernels by device type, of which there are none for this one.
constexpr const char *kByDeviceType[] = {"conj_physical_", "mode.values"};

// Composite, but they choose an algorithm by device, and for this one that would be convolution_overrideable.
constexpr const char *kConvolutions[] = {"convolution", "_convolution", "convolution_backward"};

void registerFallbackOps(const std::set<std::string> &native) {
  static auto *library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  auto add = [&](auto &names) {
    for (const char *name : names)
      if (!native.contains(std::string("aten::") + name))
        library->impl(name, boxedFallback());
  };
  add(kBesideComposite);
  add(kByDeviceType);
  add(kConvolutions);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolutionBackward);
}

} // namespace tilewright::npu
