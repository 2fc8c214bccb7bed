//===- Memory.cpp - c10 allocators over the runtime's ------------------------------------------------------------===//

#include "tilewright/Torch/Memory.h"

#include "tilewright/Torch/DeviceState.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <limits>

namespace tilewright::npu {
namespace {

void freeBlock(void *context) {
  if (!context || inBadFork()) // the parent's locks may be held forever here; the child owns none of this memory
    return;
  Device::instance().allocator().free(static_cast<Block *>(context));
}

c10::DataPtr allocateOn(size_t bytes, c10::Device where) {
  Device &npu = device();
  if (bytes == 0)
    return {nullptr, nullptr, &freeBlock, where};
  TORCH_CHECK_WITH(OutOfMemoryError, bytes <= static_cast<size_t>(std::numeric_limits<int64_t>::max()),
                   "npu: asked for ", bytes, " bytes, more than any address space holds");
  Block *block = translated([&] { return npu.allocator().allocate(bytes, currentStream(), Purpose::Tensor); });
  block->touch();
  return {block->data, block, &freeBlock, where};
}

c10::CachingAllocator::Stat toTorch(const MemoryStat &stat) {
  c10::CachingAllocator::Stat result;
  result.current = stat.current;
  result.peak = stat.peak;
  result.allocated = stat.allocated;
  result.freed = stat.freed;
  return result;
}

c10::CachingAllocator::StatArray toTorch(const MemoryStat (&stats)[3]) {
  return {toTorch(stats[0]), toTorch(stats[1]), toTorch(stats[2])};
}

class DeviceMemory final : public c10::DeviceAllocator {
public:
  c10::DataPtr allocate(size_t bytes) override { return allocateOn(bytes, {kDeviceType, 0}); }

  void copy_data(void *to, const void *from, size_t bytes) const override {
    synchronize(currentStream());
    std::memcpy(to, from, bytes);
  }

  bool initialized() override { return true; }

  void emptyCache(c10::MempoolId_t) override {
    if (deviceUsed())
      device().allocator().emptyCache();
  }

  void recordStream(const c10::DataPtr &pointer, c10::Stream stream) override {
    if (Block *block = blockOf(pointer))
      device().allocator().recordStream(block, toRuntime(stream));
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    checkDeviceIndex(index);
    c10::CachingDeviceAllocator::DeviceStats result;
    if (!deviceUsed())
      return result;
    MemoryStats stats = device().allocator().stats();
    result.allocation = toTorch(stats.allocation);
    result.segment = toTorch(stats.segment);
    result.active = toTorch(stats.active);
    result.inactive_split = toTorch(stats.inactiveSplit);
    result.allocated_bytes = toTorch(stats.allocatedBytes);
    result.reserved_bytes = toTorch(stats.reservedBytes);
    result.active_bytes = toTorch(stats.activeBytes);
    result.inactive_split_bytes = toTorch(stats.inactiveSplitBytes);
    result.requested_bytes = toTorch(stats.requestedBytes);
    result.num_alloc_retries = stats.allocRetries;
    result.num_ooms = stats.outOfMemoryCount;
    result.oversize_allocations = toTorch(stats.oversizeAllocations);
    result.oversize_segments = toTorch(stats.oversizeSegments);
    result.max_split_size = stats.maxSplitSize;
    result.num_sync_all_streams = stats.syncAllStreams;
    result.num_device_alloc = stats.deviceAllocs;
    result.num_device_free = stats.deviceFrees;
    return result;
  }

  void resetAccumulatedStats(c10::DeviceIndex index) override {
    checkDeviceIndex(index);
    if (deviceUsed())
      device().allocator().resetAccumulated();
  }

  void resetPeakStats(c10::DeviceIndex index) override {
    checkDeviceIndex(index);
    if (deviceUsed())
      device().allocator().resetPeak();
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    checkDeviceIndex(index);
    tilewright::Allocator &allocator = device().allocator();
    size_t limit = allocator.limit();
    size_t reserved = allocator.stats().reservedBytes[0].current;
    return {limit > reserved ? limit - reserved : 0, limit};
  }
};

std::atomic<bool> pinnedUsed{false};

PinnedAllocator &pinned() {
  (void)device(); // refuses after a fork
  pinnedUsed.store(true, std::memory_order_release);
  return PinnedAllocator::instance();
}

struct PinnedMemory final : c10::Allocator {
  static void release(void *context) {
    if (context && !inBadFork())
      PinnedAllocator::instance().free(static_cast<Block *>(context));
  }

  c10::DataPtr allocate(size_t bytes) override {
    Block *block = translated([&] { return pinned().allocate(bytes); });
    return {block ? block->data : nullptr, block, &release, c10::Device(c10::DeviceType::CPU)};
  }

  void copy_data(void *to, const void *from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

} // namespace

c10::DeviceAllocator &deviceAllocator() {
  static auto *allocator = new DeviceMemory;
  return *allocator;
}

c10::Allocator &pinnedAllocator() {
  static auto *allocator = new PinnedMemory;
  return *allocator;
}

Block *findPinned(const void *address) {
  if (!address || !pinnedUsed.load(std::memory_order_acquire) || inBadFork())
    return nullptr;
  return PinnedAllocator::instance().find(address);
}

void recordPinnedUse(Block *block, Stream &stream) { PinnedAllocator::instance().recordStream(block, stream); }

c10::DataPtr allocateForCpuKernel(size_t bytes) { return allocateOn(bytes, c10::Device(c10::DeviceType::CPU)); }

Block *blockOf(const c10::DataPtr &pointer) {
  return pointer.get_deleter() == &freeBlock ? static_cast<Block *>(pointer.get_context()) : nullptr;
}

void touch(const c10::DataPtr &pointer) {
  if (Block *block = blockOf(pointer))
    block->touch();
}

void touch(const at::TensorBase &tensor) {
  if (tensor.defined() && tensor.has_storage())
    touch(tensor.storage().data_ptr());
}

uint64_t writeEpoch(const at::TensorBase &tensor) {
  Block *block = tensor.has_storage() ? blockOf(tensor) : nullptr;
  return block && !block->handedOut.load(std::memory_order_relaxed) ? block->epoch.load(std::memory_order_acquire) : 0;
}

void handOut(const void *address, bool forGood) {
  if (Block *block = device().allocator().find(address)) {
    block->touch();
    if (forGood)
      block->handedOut.store(true, std::memory_order_relaxed);
  }
}

void resizeStorage(c10::StorageImpl &storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  c10::DataPtr fresh = deviceAllocator().allocate(bytes);
  size_t kept = std::min(bytes, storage.nbytes());
  if (kept) {
    // The old memory is freed in its stream's order; where that is another stream it waits for this copy.
    Stream &stream = currentStream();
    void *to = fresh.get();
    const void *from = storage.data();
    copyAsync(stream, to, from, kept);
    if (Block *old = blockOf(storage.data_ptr()); old && old->stream != &stream)
      device().allocator().recordStream(old, stream);
  }
  storage.set_data_ptr_noswap(std::move(fresh));
  storage.set_nbytes(bytes);
}

} // namespace tilewright::npu
