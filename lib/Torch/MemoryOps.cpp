//===- MemoryOps.cpp - operators that make, resize and re-address tensors -----------------------------------------===//
//
// None of them reads or writes an element. Views that PyTorch composes from as_strided are not listed.
//
//===----------------------------------------------------------------------===//

#include "tilewright/Torch/DeviceState.h"
#include "tilewright/Torch/Memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

namespace tilewright::npu {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

void checkOptions(std::optional<at::Layout> layout, std::optional<at::Device> where, std::optional<bool> pinned) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == at::kStrided,
                              "npu: only strided tensors are supported, got layout ", *layout);
  TORCH_CHECK(!pinned || !*pinned, "Only dense CPU tensors can be pinned");
  if (where)
    checkDeviceIndex(where->index());
}

// torch.use_deterministic_algorithms: fresh memory must not show old contents.
at::Tensor filledIfDeterministic(at::Tensor tensor) {
  if (at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory())
    at::native::fill_empty_deterministic_(tensor);
  return tensor;
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> where, std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  checkOptions(layout, where, pinned);
  return filledIfDeterministic(
      at::detail::empty_generic(size, &deviceAllocator(), kKeys, c10::dtype_or_default(dtype), format));
}

at::Tensor emptyStrided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> where, std::optional<bool> pinned) {
  checkOptions(layout, where, pinned);
  return filledIfDeterministic(
      at::detail::empty_strided_generic(size, stride, &deviceAllocator(), kKeys, c10::dtype_or_default(dtype)));
}

// Zeros without memory, which autograd makes: other operators get them materialised.
at::Tensor efficientZero(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> where, std::optional<bool> pinned) {
  checkOptions(layout, where, pinned);
  at::native::ZeroTensorAllocator nothing(at::Device(kDeviceType, 0));
  return at::detail::empty_generic(size, &nothing, kKeys.add(c10::DispatchKey::ZeroTensor),
                                   c10::dtype_or_default(dtype), std::nullopt);
}

// Enlarges the storage in stream order, so that what follows, written for the CPU, finds it large enough.
void grow(const at::Tensor &self, size_t bytes) {
  c10::StorageImpl *storage = self.storage().unsafeGetStorageImpl();
  if (bytes > storage->nbytes())
    resizeStorage(*storage, bytes);
}

const at::Tensor &resize(const at::Tensor &self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  if (c10::multiply_integers(size) > 0)
    grow(self, at::detail::computeStorageNbytesContiguous(size, self.dtype().itemsize(), self.storage_offset()));
  return at::native::resize_(self, size, format);
}

at::Tensor &setStorage(at::Tensor &self, at::Storage source, int64_t offset, at::IntArrayRef size,
                       at::IntArrayRef stride) {
  TORCH_CHECK(source.device_type() == kDeviceType,
              "Attempted to set the storage of a tensor on device \"npu:0\" to a "
              "storage on different device \"",
              source.device(), "\".");
  size_t bytes = stride.data() ? at::detail::computeStorageNbytes(size, stride, self.dtype().itemsize(), offset)
                               : at::detail::computeStorageNbytesContiguous(size, self.dtype().itemsize(), offset);
  if (c10::multiply_integers(size) > 0 && bytes > source.nbytes())
    resizeStorage(*source.unsafeGetStorageImpl(), bytes);
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}

at::Tensor &setEmpty(at::Tensor &self) {
  at::Storage nothing(at::Storage::use_byte_size_t(), 0, deviceAllocator().allocate(0), &deviceAllocator(), true);
  return at::native::set_storage_cpu_(self, std::move(nothing), 0, {0}, {});
}

void recordStream(at::Tensor &self, at::Stream stream) {
  deviceAllocator().recordStream(self.storage().data_ptr(), stream);
}

// Lets `param.data = device_tensor` and Module.to keep the parameter object, and with it ties between parameters.
bool hasCompatibleShallowCopyType(const at::Tensor &self, const at::Tensor &from) {
  auto plain = [](const at::Tensor &tensor) {
    return (tensor.is_cpu() || tensor.is_privateuseone()) && tensor.layout() == at::kStrided && !tensor.is_nested() &&
           !tensor.is_quantized() && !tensor.key_set().has(c10::DispatchKey::Python);
  };
  return self.key_set() == from.key_set() || (plain(self) && plain(from)) ||
         self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &emptyStrided);
  m.impl("_efficientzerotensor", &efficientZero);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("resize_", &resize);
  m.impl("set_", &setEmpty);
  m.impl("set_.source_Tensor", &at::native::set_tensor_);
  m.impl("set_.source_Storage", static_cast<at::Tensor &(*)(at::Tensor &, at::Storage)>(&at::native::set_));
  m.impl("set_.source_Storage_storage_offset", &setStorage);
  m.impl("is_set_to", &at::native::is_set_to);
  m.impl("record_stream", &recordStream);
  m.impl("_has_compatible_shallow_copy_type", &hasCompatibleShallowCopyType);
}

} // namespace tilewright::npu
