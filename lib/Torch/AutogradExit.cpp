//===- AutogradExit.cpp - a backward pass just before the process ends --------------------------------------------===//
//
// PyTorch runs the backward pass of a device on a thread of its own. When the pass is complete the caller goes on, and
// only then does that thread drop the pass's state, Python objects included. If the caller ends the interpreter
// meanwhile, the thread finds it finalising; CPython ends such a thread by unwinding it, which libstdc++ turns into
// std::terminate (seen in one of two runs on two CPUs, with torch 2.13 and Python 3.11). So before the interpreter
// ends, that thread is given one more task: when it is at that, it has dropped what came before.
//
//===----------------------------------------------------------------------===//

#include "tilewright/Torch/AutogradExit.h"

#include "tilewright/Torch/DeviceState.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>
#include <thread>

namespace tilewright::npu {
namespace {

std::atomic<bool> otherThreads{false};
const std::thread::id loadingThread = std::this_thread::get_id();

} // namespace

void noteDeviceThread() {
  if (std::this_thread::get_id() != loadingThread)
    otherThreads.store(true, std::memory_order_relaxed);
}

void settleAutograd() {
  if (!otherThreads.load() || inBadFork())
    return;
  // From a thread that Python does not know, so that this pass has no Python objects to drop.
  std::thread([] {
    at::Tensor input = at::empty({0}, at::TensorOptions(c10::Device(kDeviceType, 0))).requires_grad_();
    torch::autograd::grad({input.view({0, 1})}, {input}, {at::empty({0, 1}, input.options().requires_grad(false))});
  }).join();
}

} // namespace tilewright::npu
