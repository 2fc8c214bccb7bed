//===- ExternalLaunch.cpp - runs one external step ------------------------===//
#include "ExternalLaunch.h"

namespace tilewright {

static std::vector<ExternalTensor> tensors(const CallFrame &frame, const std::vector<LoadedView> &views,
                                           const std::vector<BoundView> &bound) {
  std::vector<ExternalTensor> result;
  result.reserve(views.size());
  for (size_t i = 0; i < views.size(); ++i) {
    auto *base = static_cast<char *>(frame.pointer(views[i].spec->buffer));
    result.push_back({base ? base + bound[i].offset : nullptr, views[i].spec->dtype, bound[i].sizes, bound[i].strides});
  }
  return result;
}

void launchExternal(const CallFrame &frame, const LoadedExternalStep &step, const BoundExternalStep &bound) {
  auto inputs = tensors(frame, step.inputs, bound.inputs), outputs = tensors(frame, step.outputs, bound.outputs);
  step.function({step.spec->payload, inputs, outputs, bound.ints});
}

} // namespace tilewright
