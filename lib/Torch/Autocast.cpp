//===- Autocast.cpp - torch.autocast("npu") -----------------------------------------------------------------------===//
//
// The operator lists are PyTorch's own, those that CUDA uses.
//
//===----------------------------------------------------------------------===//

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace {

at::Tensor binaryCrossEntropyBanned(const at::Tensor &, const at::Tensor &, const std::optional<at::Tensor> &,
                                    int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
              "Many models use a sigmoid layer right before the binary cross entropy layer. In this case, combine "
              "the two layers using torch.nn.functional.binary_cross_entropy_with_logits or "
              "torch.nn.BCEWithLogitsLoss, which are safe to autocast.");
}

} // namespace

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

using namespace at; // the lists name types of PyTorch without it

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define TILEWRIGHT_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define TILEWRIGHT_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define TILEWRIGHT_FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define TILEWRIGHT_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(TILEWRIGHT_LOWER)
  AT_FORALL_FP32(TILEWRIGHT_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(TILEWRIGHT_FP32_SET_OPT_DTYPE)
  AT_FORALL_PROMOTE(TILEWRIGHT_PROMOTE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  m.impl("binary_cross_entropy", &binaryCrossEntropyBanned);
}
