//===- DeviceGuard.cpp - devices, streams and events for c10 ------------------------------------------------------===//

#include "tilewright/Torch/AutogradExit.h"
#include "tilewright/Torch/DeviceState.h"
#include "tilewright/Torch/Memory.h"

#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace tilewright::npu {
namespace {

struct DeviceGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDeviceType; }

  // There is one device, so the current one never changes.
  c10::Device exchangeDevice(c10::Device device) const override {
    setDevice(device);
    return {kDeviceType, 0};
  }
  c10::Device getDevice() const override { return {kDeviceType, 0}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == kDeviceType, "expected the device npu, got ", device);
    checkDeviceIndex(device.index());
    noteDeviceThread();
  }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return kDeviceCount; }

  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    return {}; // every dtype that the CPU has
  }

  c10::Stream getStream(c10::Device) const override { return currentTorchStream(); }
  c10::Stream getDefaultStream(c10::Device) const override {
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(kDeviceType, 0));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool highPriority) const override {
    return toTorch(streamFromPool(highPriority ? -1 : 0));
  }
  c10::Stream getNewStream(c10::Device, int priority) const override { return toTorch(streamFromPool(priority)); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchangeCurrentStream(stream); }
  bool queryStream(const c10::Stream &stream) const override { return toRuntime(stream).query(); }
  void synchronizeStream(const c10::Stream &stream) const override { synchronize(toRuntime(stream)); }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    checkDeviceIndex(index);
    npu::synchronizeDevice();
  }
  void *getStreamNativeHandle(const c10::Stream stream) const override { return &toRuntime(stream); }

  void record(void **event, const c10::Stream &stream, c10::DeviceIndex, c10::EventFlag flag) const override {
    if (!*event)
      *event = new Event(flag == c10::EventFlag::BACKEND_DEFAULT);
    toRuntime(stream).record(*static_cast<Event *>(*event));
  }
  void block(void *event, const c10::Stream &stream) const override {
    if (event)
      toRuntime(stream).wait(*static_cast<Event *>(event));
  }
  bool queryEvent(void *event) const override { return !event || static_cast<Event *>(event)->query(); }
  void synchronizeEvent(void *event) const override {
    if (event)
      translated([&] { static_cast<Event *>(event)->synchronize(); });
  }
  double elapsedTime(void *start, void *end, c10::DeviceIndex) const override {
    TORCH_CHECK(start && end, "Both events must be recorded before the time between them is asked for.");
    return translated([&] { return static_cast<Event *>(start)->elapsedMs(*static_cast<Event *>(end)); });
  }
  void destroyEvent(void *event, c10::DeviceIndex) const noexcept override { delete static_cast<Event *>(event); }

  void recordDataPtrOnStream(const c10::DataPtr &pointer, const c10::Stream &stream) const override {
    deviceAllocator().recordStream(pointer, stream);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, DeviceGuard)

} // namespace
} // namespace tilewright::npu
