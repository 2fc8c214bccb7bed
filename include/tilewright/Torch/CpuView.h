//===- CpuView.h - device tensors as CPU tensors on the same memory -*- C++ -*-===//
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace tilewright::npu {

/// CPU tensors over the memory of device tensors, for code that runs on the calling thread while the stream is drained.
/// Tensors that share a device storage share a CPU storage, and one tensor gives one view, so that CPU kernels see
/// every alias and overlap. Sizes, strides, offset, conj and neg bits carry over.
class CpuViews {
public:
  CpuViews() = default;
  CpuViews(const CpuViews &) = delete;

  /// The CPU tensor for a defined strided device tensor.
  at::Tensor view(const at::Tensor &device);

  /// The device tensor whose view this is, or an undefined tensor.
  at::Tensor deviceOf(const at::Tensor &cpu) const;

  /// A device tensor for a result of a CPU kernel: an alias where it lies in a viewed storage, else fresh device memory
  /// with the result's contents. Results that share a storage share it on the device too.
  at::Tensor toDevice(const at::Tensor &result);

  /// Carries back what CPU kernels did to the viewed tensors themselves: storages that were enlarged, sizes, strides
  /// and offsets that changed.
  void carryBack();

private:
  struct StoragePair {
    c10::Storage device, cpu;
    const void *address; // of the CPU storage when it was made
    size_t bytes;
  };
  struct TensorPair {
    at::Tensor device, cpu;
  };
  std::vector<StoragePair> storages;
  std::vector<TensorPair> tensors;

  const c10::Storage &cpuStorage(const c10::Storage &device);
  c10::Storage deviceStorage(const c10::Storage &cpu);
};

} // namespace tilewright::npu
