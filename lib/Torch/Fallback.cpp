//===- Fallback.cpp - an operator as its CPU kernel on device memory ----------------------------------------------===//

#include "tilewright/Torch/Fallback.h"

#include "tilewright/Torch/CpuView.h"
#include "tilewright/Torch/DeviceState.h"
#include "tilewright/Torch/Generator.h"
#include "tilewright/Torch/Memory.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>

namespace tilewright::npu {
namespace {

using torch::jit::Stack;

std::string nameOf(const c10::OperatorHandle &op) {
  const c10::OperatorName &name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// Arguments that operators take in host memory whatever the device; everything else must be on one device. (Scalars,
// that is CPU tensors without dimensions, may always be mixed in, and so may the index lists of advanced indexing.)
bool mayBeOnHost(std::string_view argument) {
  constexpr std::array<std::string_view, 5> names = {"lengths", "batch_sizes", "input_lengths", "target_lengths",
                                                     "scalars"};
  return std::find(names.begin(), names.end(), argument) != names.end();
}

// Batch norm writes the running statistics that it is given when it trains; these schemas do not say so.
bool writesUnmarked(const c10::OperatorHandle &op, std::string_view argument) {
  const std::string &name = op.operator_name().name;
  return (name == "aten::native_batch_norm" || name == "aten::batch_norm_update_stats") &&
         (argument == "running_mean" || argument == "running_var");
}

// While a random operator without a generator argument runs, the CPU's default generator plays the device's.
class BorrowedCpuGenerator {
public:
  explicit BorrowedCpuGenerator(uint64_t seed) : generator(at::detail::getDefaultCPUGenerator()) {
    std::lock_guard lock(generator.mutex());
    saved = generator.get_state();
    generator.set_current_seed(seed);
  }
  BorrowedCpuGenerator(const BorrowedCpuGenerator &) = delete;
  ~BorrowedCpuGenerator() {
    std::lock_guard lock(generator.mutex());
    generator.set_state(saved);
  }

private:
  at::Generator generator;
  at::Tensor saved;
};

class FallbackCall {
public:
  FallbackCall(const c10::OperatorHandle &op, Stack *stack) : op(op), schema(op.schema()), stack(*stack) {}

  void run() {
    for (size_t i = 0; i < schema.arguments().size(); ++i)
      enter(schema.arguments()[i], torch::jit::peek(stack, i, schema.arguments().size()));
    refuseMixedDevices();
    TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), nameOf(op),
                                " runs neither natively on npu nor on the CPU, so there is nothing to fall back to.");
    noteFallback(nameOf(op));
    synchronize(currentStream());
    bool random = op.hasTag(at::Tag::nondeterministic_seeded);
    if (random && !generatorGiven && onDevice()) {
      // Another thread that draws on the CPU meanwhile would take the device's numbers: one at a time.
      static std::mutex borrowing;
      std::lock_guard lock(borrowing);
      BorrowedCpuGenerator borrowed(drawSeed(defaultGenerator()));
      call();
    } else {
      call();
    }
    size_t results = schema.returns().size();
    for (size_t i = 0; i < results; ++i)
      leave(torch::jit::peek(stack, i, results));
  }

private:
  const c10::OperatorHandle &op;
  const c10::FunctionSchema &schema;
  Stack &stack;
  CpuViews views;
  std::vector<at::Tensor> written; // device tensors
  std::vector<c10::StorageImpl *> hostStorages;
  bool sawDeviceTensor = false;
  bool generatorGiven = false;
  std::optional<c10::Device> askedDevice;
  std::string hostArgument; // a CPU tensor that should be on the device

  // Results belong to the device if an argument does, or if it was asked for by name.
  bool onDevice() const { return askedDevice ? askedDevice->type() == kDeviceType : sawDeviceTensor; }

  void call() {
    // Autograd, views and versions were dealt with above us, on the device tensors.
    at::AutoDispatchBelowADInplaceOrView below;
    try {
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    } catch (...) {
      touchWritten(); // it may have failed half way
      throw;
    }
    views.carryBack();
    touchWritten();
  }

  void touchWritten() const {
    for (const at::Tensor &tensor : written)
      touch(tensor);
  }

  at::Tensor enterTensor(const c10::Argument &argument, const at::Tensor &tensor, bool anyDevice = false) {
    if (!tensor.defined())
      return tensor;
    if (tensor.device().type() == kDeviceType) {
      sawDeviceTensor = true;
      if ((argument.alias_info() && argument.alias_info()->isWrite()) || writesUnmarked(op, argument.name()))
        written.push_back(tensor);
      return views.view(tensor);
    }
    TORCH_CHECK(tensor.is_cpu(), "Expected all tensors to be on the same device, but argument '", argument.name(),
                "' of ", nameOf(op), " is on ", tensor.device(), " and another on npu:0.");
    if (tensor.has_storage())
      hostStorages.push_back(tensor.storage().unsafeGetStorageImpl());
    if (tensor.dim() > 0 && !anyDevice && !mayBeOnHost(argument.name()))
      hostArgument = argument.name();
    return tensor;
  }

  void enter(const c10::Argument &argument, c10::IValue &value) {
    if (value.isTensor()) {
      value = enterTensor(argument, value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor &tensor : value.toTensorVector())
        list.push_back(enterTensor(argument, tensor));
      value = std::move(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorVector())
        list.push_back(tensor ? std::optional<at::Tensor>(enterTensor(argument, *tensor, true)) : std::nullopt);
      value = std::move(list);
    } else if (value.isDevice()) {
      askedDevice = value.toDevice();
      if (askedDevice->type() == kDeviceType)
        value = c10::Device(c10::DeviceType::CPU);
    } else if (value.isGenerator()) {
      // Comes behind the tensors in every schema.
      if (value.toGenerator().defined() && onDevice()) {
        value = cpuGeneratorFor(value.toGenerator());
        generatorGiven = true;
      }
    }
  }

  void refuseMixedDevices() const {
    if (sawDeviceTensor && !hostArgument.empty())
      TORCH_CHECK(
          false,
          "Expected all tensors to be on the same device, but found at least two devices, npu:0 and cpu! (argument '",
          hostArgument, "' of ", nameOf(op), " is on the CPU)");
  }

  at::Tensor leaveTensor(const at::Tensor &tensor) {
    if (!tensor.defined() || !onDevice())
      return views.deviceOf(tensor).defined() ? views.deviceOf(tensor) : tensor;
    bool host = tensor.has_storage() && std::find(hostStorages.begin(), hostStorages.end(),
                                                  tensor.storage().unsafeGetStorageImpl()) != hostStorages.end();
    return host ? tensor : views.toDevice(tensor);
  }

  void leave(c10::IValue &value) {
    if (value.isTensor()) {
      value = leaveTensor(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor &tensor : value.toTensorVector())
        list.push_back(leaveTensor(tensor));
      value = std::move(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorVector())
        list.push_back(tensor ? std::optional<at::Tensor>(leaveTensor(*tensor)) : std::nullopt);
      value = std::move(list);
    }
  }
};

} // namespace

void fallback(const c10::OperatorHandle &op, Stack *stack) { FallbackCall(op, stack).run(); }

} // namespace tilewright::npu
