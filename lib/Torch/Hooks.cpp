//===- Hooks.cpp - what ATen asks of an accelerator ---------------------------------------------------------------===//

#include "tilewright/Torch/Hooks.h"

#include "tilewright/Torch/DeviceState.h"
#include "tilewright/Torch/Generator.h"
#include "tilewright/Torch/Memory.h"
#include "tilewright/Torch/NativeOps.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>

namespace tilewright::npu {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; } // the host is always there
  bool hasPrimaryContext(c10::DeviceIndex) const override { return deviceUsed() && !inBadFork(); }
  void init() const override {}

  c10::DeviceIndex deviceCount() const override { return kDeviceCount; }
  void setCurrentDevice(c10::DeviceIndex index) const override { checkDeviceIndex(index); }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    checkDeviceIndex(index);
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }

  bool isPinnedPtr(const void *data) const override { return findPinned(data) != nullptr; }
  c10::Allocator *getPinnedMemoryAllocator() const override { return &pinnedAllocator(); }
  at::Device getDeviceFromPtr(void *data) const override {
    TORCH_CHECK(device().allocator().find(data), "the address ", data, " is not memory of the device npu");
    return {kDeviceType, 0};
  }

  const at::Generator &getDefaultGenerator(c10::DeviceIndex index) const override {
    checkDeviceIndex(index);
    return defaultGenerator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    checkDeviceIndex(index);
    return at::make_generator<PhiloxGenerator>();
  }

  void resizePrivateUse1Bytes(const c10::Storage &storage, size_t bytes) const override {
    resizeStorage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

} // namespace

void registerWithTorch() {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::SetAllocator(kDeviceType, &deviceAllocator(), 0);
  registerFallbackOps(registerNativeOps());
}

} // namespace tilewright::npu
