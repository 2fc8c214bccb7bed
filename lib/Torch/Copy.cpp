//===- Copy.cpp - copies to, from and on the device; fill ---------------------------------------------------------===//
//
// Copies within the device, of pinned memory and of little host data are queued and return at once. Other copies
// between host and device wait for the stream and then run on the calling thread: both sides are host memory, so
// PyTorch's CPU copy_ does any strides, dtypes, conj and neg bits in one pass.
//
//===----------------------------------------------------------------------===//

#include "tilewright/Torch/CpuView.h"
#include "tilewright/Torch/DeviceState.h"
#include "tilewright/Torch/Fallback.h"
#include "tilewright/Torch/Memory.h"
#include "tilewright/Torch/NativeCall.h"
#include "tilewright/Torch/StridedMemory.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <torch/library.h>

namespace tilewright::npu {
namespace {

// Below this a copy takes about as long (2 us) as handing it to a worker does (1-5 us).
constexpr int64_t kInlineBytes = 32 << 10;
// Pageable host data up to this size is copied twice, so that the caller need not wait for the stream.
constexpr int64_t kStagedBytes = 64 << 10;

bool sameBits(const at::Tensor &a, const at::Tensor &b) {
  return a.dtype() == b.dtype() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

// The bits to flip where one of the two is lazily conjugated or negated and the other is not. Nothing for integers,
// whose negative is no flip of a bit.
std::optional<std::array<uint8_t, 16>> signFlips(const at::Tensor &a, const at::Tensor &b) {
  bool conj = a.is_conj() != b.is_conj(), neg = a.is_neg() != b.is_neg();
  std::array<uint8_t, 16> flip{};
  if (!a.is_complex() && !a.is_floating_point())
    return neg ? std::nullopt : std::optional(flip);
  size_t bytes = a.element_size(), part = a.is_complex() ? bytes / 2 : bytes;
  // The sign is the last bit of each part (little endian).
  if (neg)
    flip[part - 1] ^= 0x80;
  if (a.is_complex() && neg != conj)
    flip[bytes - 1] ^= 0x80;
  return flip;
}

bool onDevice(const at::Tensor &tensor) { return tensor.device().type() == kDeviceType; }

StridedCopy stridedCopy(const at::Tensor &to, const at::Tensor &from) {
  return {to.mutable_data_ptr(),
          {to.strides().data(), to.strides().size()},
          from.const_data_ptr(),
          {from.strides().data(), from.strides().size()},
          {to.sizes().data(), to.sizes().size()},
          static_cast<size_t>(to.element_size())};
}

void enqueue(StridedCopy copy) {
  bool tiny = copy.elements() * static_cast<int64_t>(copy.elementBytes) <= kInlineBytes;
  currentStream().enqueue([copy = std::move(copy)] { copy.run(); }, tiny);
}

void copyOnDevice(const at::Tensor &from, const at::Tensor &to) {
  at::assert_no_internal_overlap(to);
  at::assert_no_partial_overlap(to, from);
  if (from.dtype() == to.dtype())
    if (auto flip = signFlips(from, to)) {
      StridedCopy copy = stridedCopy(to, from);
      copy.flip = *flip;
      return enqueue(std::move(copy));
    }
  if (convertNatively(from, to))
    return;
  noteFallback("aten::_copy_from");
  synchronize(currentStream());
  CpuViews views;
  at::Tensor target = views.view(to);
  target.copy_(views.view(from));
}

// Host memory that a stream may use after we return: pinned, and the allocator told about the use.
Block *pinnedBlock(const at::Tensor &host) { return findPinned(host.storage().data()); }

void copyBetween(const at::Tensor &from, const at::Tensor &to, bool nonBlocking) {
  const at::Tensor &host = onDevice(from) ? to : from;
  if (nonBlocking && sameBits(from, to))
    if (Block *block = pinnedBlock(host)) {
      at::assert_no_internal_overlap(to);
      enqueue(stridedCopy(to, from));
      recordPinnedUse(block, currentStream());
      return;
    }
  bool toDevice = onDevice(to);
  Stream &stream = currentStream();
  if (toDevice && !stream.query() && to.numel() * static_cast<int64_t>(to.element_size()) <= kStagedBytes &&
      !to.is_conj() && !to.is_neg()) {
    at::assert_no_internal_overlap(to);
    at::Tensor staged = at::empty(to.sizes(), to.options().device(at::kCPU));
    staged.copy_(from);
    // Bytes, not the tensor: a tensor may own a Python object, which a worker must not let go of.
    auto bytes = std::make_shared<std::vector<char>>(staged.nbytes());
    std::memcpy(bytes->data(), staged.const_data_ptr(), bytes->size());
    StridedCopy copy(to.mutable_data_ptr(), {to.strides().data(), to.strides().size()}, bytes->data(),
                     {staged.strides().data(), staged.strides().size()}, {to.sizes().data(), to.sizes().size()},
                     to.element_size());
    stream.enqueue([copy = std::move(copy), bytes] { copy.run(); });
    return;
  }
  synchronize(stream);
  CpuViews views;
  at::Tensor target = toDevice ? views.view(to) : to;
  target.copy_(toDevice ? from : views.view(from));
}

at::Tensor copyFrom(const at::Tensor &self, const at::Tensor &dst, bool nonBlocking) {
  at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor from = self.sizes() == dst.sizes() ? self : self.expand(dst.sizes());
  TORCH_CHECK(self.layout() == at::kStrided && dst.layout() == at::kStrided,
              "npu: copies between strided tensors only, got ", self.layout(), " and ", dst.layout());
  if (dst.numel() == 0 || self.is_same(dst))
    return dst;
  for (const at::Tensor *tensor : {&self, &dst})
    TORCH_CHECK(onDevice(*tensor) || tensor->is_cpu(), "npu: no copies from or to ", tensor->device(),
                "; go through the CPU");
  if (onDevice(from) && onDevice(dst))
    copyOnDevice(from, dst);
  else
    copyBetween(from, dst, nonBlocking);
  touch(dst);
  return dst;
}

at::Tensor copyFromAndResize(const at::Tensor &self, const at::Tensor &dst) {
  dst.resize_(self.sizes());
  return copyFrom(self, dst, false);
}

at::Scalar localScalarDense(const at::Tensor &self) {
  synchronize(currentStream());
  CpuViews views;
  return at::native::_local_scalar_dense_cpu(views.view(self));
}

// One element of the right dtype, read again and again by a copy whose source strides are zero.
at::Tensor &fillWith(at::Tensor &self, const at::Tensor &cpuScalar) {
  if (self.numel() == 0)
    return self;
  std::array<char, 16> element{};
  std::memcpy(element.data(), cpuScalar.const_data_ptr(), self.element_size());
  std::vector<int64_t> zeros(self.dim(), 0);
  StridedCopy fill(self.mutable_data_ptr(), {self.strides().data(), self.strides().size()}, nullptr, zeros,
                   {self.sizes().data(), self.sizes().size()}, self.element_size());
  bool tiny = static_cast<int64_t>(self.nbytes()) <= kInlineBytes;
  currentStream().enqueue(
      [fill = std::move(fill), element]() mutable {
        fill.from = element.data();
        fill.run();
      },
      tiny);
  touch(self);
  return self;
}

at::Tensor &fillScalar(at::Tensor &self, const at::Scalar &value) {
  // A CPU fill_ converts the value, or refuses it, as PyTorch does; conj and neg views never come here.
  at::Tensor element = at::detail::empty_cpu({}, self.scalar_type());
  at::AutoDispatchBelowADInplaceOrView below;
  element.fill_(value);
  return fillWith(self, element);
}

at::Tensor &fillTensor(at::Tensor &self, const at::Tensor &value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  if (value.is_cpu()) {
    at::AutoDispatchBelowADInplaceOrView below;
    return fillWith(self, value.to(self.scalar_type()).resolve_conj().resolve_neg());
  }
  if (self.numel() == 0)
    return self;
  at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor converted = value.to(self.scalar_type()).resolve_conj().resolve_neg();
  // Not copy_: filling through overlapping elements is fine, since all get one value.
  enqueue(stridedCopy(self, converted.expand(self.sizes())));
  touch(self);
  return self;
}

at::Tensor &zero(at::Tensor &self) { return fillScalar(self, 0); }

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", &copyFrom);
  m.impl("_copy_from_and_resize", &copyFromAndResize);
  m.impl("_local_scalar_dense", &localScalarDense);
  m.impl("fill_.Scalar", &fillScalar);
  m.impl("fill_.Tensor", &fillTensor);
  m.impl("zero_", &zero);
}

// The copy handles both bits itself. Without these PyTorch would resolve them by a copy, which would resolve them ...
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

} // namespace tilewright::npu
