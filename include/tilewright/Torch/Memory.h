//===- Memory.h - device memory as c10 sees it --------------------*- C++ -*-===//
//
// A storage's DataPtr carries the runtime's Block as its context: one allocation, one identity, one write epoch.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Runtime/Allocator.h"

#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>

namespace tilewright::npu {

/// The allocator of device tensors. Memory belongs to the calling thread's current stream.
c10::DeviceAllocator &deviceAllocator();
/// The allocator of pinned host memory: CPU memory whose reuse waits for the streams that copy from or to it.
c10::Allocator &pinnedAllocator();
/// The pinned block that holds the address, or nullptr. False for everything before the first pinned allocation.
Block *findPinned(const void *address);
/// The pinned block's memory is not reused before what is queued on the stream now has run.
void recordPinnedUse(Block *block, Stream &stream);

/// Device memory that a CPU kernel may use: same memory, but the DataPtr says cpu. For resizing inside a fallback.
c10::DataPtr allocateForCpuKernel(size_t bytes);

/// The block behind a DataPtr of one of the allocators above, else nullptr (no bytes, or memory of somebody else).
Block *blockOf(const c10::DataPtr &pointer);
inline Block *blockOf(const at::TensorBase &tensor) { return blockOf(tensor.storage().data_ptr()); }

/// Says that the tensor's memory has been or may be written: gives its block a fresh epoch.
void touch(const at::TensorBase &tensor);
void touch(const c10::DataPtr &pointer);

/// A token that changes whenever the tensor's memory may have been written; 0 if that cannot be known.
uint64_t writeEpoch(const at::TensorBase &tensor);

/// The address, anywhere in a block, leaves PyTorch's hands. Once (a pointer that was asked for): a fresh epoch. For
/// good (an alias that others may write through at any time, as DLPack makes): the epoch is unknown from now on.
void handOut(const void *address, bool forGood);

/// Replaces the storage's memory by `bytes` bytes that begin with the old contents, in the order of the current stream.
void resizeStorage(c10::StorageImpl &storage, size_t bytes);

} // namespace tilewright::npu
