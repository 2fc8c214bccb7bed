//===- CpuView.cpp - device tensors as CPU tensors on the same memory ---------------------------------------------===//

#include "tilewright/Torch/CpuView.h"

#include "tilewright/Torch/DeviceState.h"
#include "tilewright/Torch/Memory.h"

#include <ATen/Parallel.h>

#include <cstring>

namespace tilewright::npu {
namespace {

// What a CPU kernel allocates when it enlarges a viewed storage must be device memory: the storage becomes the device's
// again.
struct ViewAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override { return allocateForCpuKernel(bytes); }
  void copy_data(void *to, const void *from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

ViewAllocator *viewAllocator() {
  static auto *allocator = new ViewAllocator;
  return allocator;
}

void copyGeometry(const at::Tensor &from, at::TensorBase &to) {
  c10::TensorImpl *impl = to.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(from.sizes(), from.strides(), from.storage_offset());
  if (from.is_conj() != to.is_conj())
    impl->_set_conj(from.is_conj());
  if (from.is_neg() != to.is_neg())
    impl->_set_neg(from.is_neg());
}

// Large results are copied by all threads: the copy is page faults and bandwidth.
void copyBytes(void *to, const void *from, size_t bytes) {
  constexpr int64_t kGrain = 1 << 20;
  if (bytes < 4 * kGrain) {
    std::memcpy(to, from, bytes);
    return;
  }
  at::parallel_for(0, static_cast<int64_t>(bytes), kGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char *>(to) + begin, static_cast<const char *>(from) + begin, end - begin);
  });
}

} // namespace

const c10::Storage &CpuViews::cpuStorage(const c10::Storage &device) {
  for (const StoragePair &pair : storages)
    if (pair.device.unsafeGetStorageImpl() == device.unsafeGetStorageImpl())
      return pair.cpu;
  // The view owns a reference to the device storage, so a CPU tensor that escapes is never left dangling.
  auto *owner = new c10::Storage(device);
  void *address = device.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
  c10::DataPtr pointer(
      address, owner, [](void *context) { delete static_cast<c10::Storage *>(context); },
      c10::Device(c10::DeviceType::CPU));
  size_t bytes = device.nbytes();
  c10::Storage cpu(c10::Storage::use_byte_size_t(), bytes, std::move(pointer), viewAllocator(), /*resizable=*/true);
  storages.push_back({device, std::move(cpu), address, bytes});
  return storages.back().cpu;
}

at::Tensor CpuViews::view(const at::Tensor &device) {
  for (const TensorPair &pair : tensors)
    if (pair.device.unsafeGetTensorImpl() == device.unsafeGetTensorImpl())
      return pair.cpu;
  TORCH_CHECK_NOT_IMPLEMENTED(device.layout() == at::kStrided, "npu: only strided tensors are supported, got layout ",
                              device.layout());
  TORCH_INTERNAL_ASSERT(!device._is_zerotensor(), "npu: zeros without memory reached a CPU kernel");
  auto cpu = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(cpuStorage(device.storage())),
                                                      c10::DispatchKeySet(c10::DispatchKey::CPU), device.dtype());
  copyGeometry(device, cpu);
  if (device.unsafeGetTensorImpl()->is_wrapped_number())
    cpu.unsafeGetTensorImpl()->set_wrapped_number(true);
  tensors.push_back({device, cpu});
  return cpu;
}

at::Tensor CpuViews::deviceOf(const at::Tensor &cpu) const {
  for (const TensorPair &pair : tensors)
    if (pair.cpu.unsafeGetTensorImpl() == cpu.unsafeGetTensorImpl())
      return pair.device;
  return {};
}

c10::Storage CpuViews::deviceStorage(const c10::Storage &cpu) {
  for (const StoragePair &pair : storages)
    if (pair.cpu.unsafeGetStorageImpl() == cpu.unsafeGetStorageImpl())
      return pair.device;
  size_t bytes = cpu.nbytes();
  c10::DataPtr memory = deviceAllocator().allocate(bytes);
  if (bytes)
    copyBytes(memory.get(), cpu.data(), bytes);
  c10::Storage fresh(c10::Storage::use_byte_size_t(), bytes, std::move(memory), &deviceAllocator(), true);
  storages.push_back({fresh, cpu, cpu.data(), bytes});
  return fresh;
}

at::Tensor CpuViews::toDevice(const at::Tensor &result) {
  if (at::Tensor same = deviceOf(result); same.defined())
    return same;
  TORCH_CHECK_NOT_IMPLEMENTED(result.layout() == at::kStrided, "npu: a result of layout ", result.layout(),
                              " cannot be held; only strided tensors are supported");
  auto device = at::detail::make_tensor<c10::TensorImpl>(
      deviceStorage(result.storage()), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), result.dtype());
  copyGeometry(result, device);
  if (result.unsafeGetTensorImpl()->is_wrapped_number())
    device.unsafeGetTensorImpl()->set_wrapped_number(true);
  tensors.push_back({device, result}); // a result that comes twice is one tensor
  return device;
}

void CpuViews::carryBack() {
  for (StoragePair &pair : storages) {
    c10::StorageImpl *cpu = pair.cpu.unsafeGetStorageImpl();
    if (cpu->data() == pair.address && cpu->nbytes() == pair.bytes)
      continue;
    size_t bytes = cpu->nbytes();
    if (cpu->data() != pair.address) {
      c10::DataPtr memory = cpu->set_data_ptr(c10::DataPtr());
      memory.unsafe_set_device({kDeviceType, 0});
      pair.device.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(memory));
    }
    pair.device.unsafeGetStorageImpl()->set_nbytes(bytes);
    pair.address = nullptr;
    pair.bytes = bytes;
  }
  for (TensorPair &pair : tensors) {
    const at::Tensor &cpu = pair.cpu;
    bool moved = cpu.storage().unsafeGetStorageImpl() != nullptr &&
                 pair.device.storage().unsafeGetStorageImpl() != deviceStorage(cpu.storage()).unsafeGetStorageImpl();
    if (moved)
      pair.device.unsafeGetTensorImpl()->set_storage_keep_dtype(deviceStorage(cpu.storage()));
    if (moved || cpu.sizes() != pair.device.sizes() || cpu.strides() != pair.device.strides() ||
        cpu.storage_offset() != pair.device.storage_offset())
      copyGeometry(cpu, pair.device);
  }
}

} // namespace tilewright::npu
