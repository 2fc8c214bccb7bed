//===- TemporaryMemory.cpp - where a call's own memory comes from ---------===//
#include "TemporaryMemory.h"

#include "tilewright/Runtime/Device.h"
#include "tilewright/Runtime/HostMemory.h"
#include "tilewright/Runtime/PackedWeights.h"
#include "tilewright/Support/Switches.h"

#include <algorithm>

namespace tilewright {

std::unique_ptr<Allocator> makeAllocator(size_t limit) {
  bool guard = switches::alloc() == switches::AllocatorKind::Guard;
  auto allocator = guard ? Allocator::createGuard(limit) : Allocator::createCaching(limit);
  allocator->setReclaim([](bool all) { releasePackedWeights(all); });
  return allocator;
}

namespace {

/// Never destroyed: executables may outlive static destructors. No task is ever queued on the stream, so it has no
/// thread.
struct HostTemporaries {
  std::unique_ptr<Stream> stream = Stream::create(-1);
  std::unique_ptr<Allocator> allocator = makeAllocator(usableHostMemory());
  /// What stays reserved between calls. Fresh pages cost 0.2 us per KiB (12 ms for 64 MiB), several times the work on
  /// them, so arenas are kept; but memory of one large call must not be held for ever.
  size_t kept = std::min<size_t>(usableHostMemory() / 8, size_t(1) << 30);
};

HostTemporaries &hostTemporaries() {
  static auto *instance = new HostTemporaries;
  return *instance;
}

} // namespace

TemporaryMemory TemporaryMemory::device(Stream &stream) { return {&Device::instance().allocator(), &stream}; }

TemporaryMemory TemporaryMemory::host() {
  HostTemporaries &t = hostTemporaries();
  return {t.allocator.get(), t.stream.get()};
}

Block *TemporaryMemory::allocate(size_t bytes, Purpose purpose) const {
  return allocator->allocate(bytes, *stream, purpose);
}

TemporaryBlocks::~TemporaryBlocks() {
  for (Block *block : blocks)
    memory.allocator->free(block);
  // Asking for statistics is worth it only where the call was not short.
  constexpr size_t kLargeCall = 1 << 20;
  if (bytes >= kLargeCall && memory.allocator == hostTemporaries().allocator.get() &&
      memory.allocator->stats().reservedBytes[0].current > int64_t(hostTemporaries().kept))
    memory.allocator->emptyCache();
}

void *TemporaryBlocks::allocate(size_t size, Purpose purpose) {
  if (size == 0)
    return nullptr;
  blocks.push_back(nullptr);
  blocks.back() = memory.allocate(size, purpose);
  bytes += size;
  return blocks.back()->data;
}

} // namespace tilewright
