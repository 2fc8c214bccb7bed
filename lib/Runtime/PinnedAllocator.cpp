//===- PinnedAllocator.cpp - host memory for asynchronous copies -----------===//

#include "CachingAllocator.h"

#include "tilewright/Runtime/HostMemory.h"
#include "tilewright/Runtime/Stream.h"

namespace tilewright {

struct PinnedAllocator::Impl {
  /// Blocks belong to the host, which is no stream: they are ordered behind this one, which never gets a task, so a
  /// freed block waits for the streams that were recorded and for nothing else.
  std::unique_ptr<Stream> host = Stream::create(-1);
  CachingAllocator memory{usableHostMemory(), /*alignment=*/4096};
};

PinnedAllocator::PinnedAllocator() : impl(new Impl) {}

// Never destroyed: tensors of static life may be freed after everything else.
PinnedAllocator &PinnedAllocator::instance() {
  static PinnedAllocator *allocator = new PinnedAllocator;
  return *allocator;
}

Block *PinnedAllocator::allocate(size_t bytes) { return impl->memory.allocate(bytes, *impl->host, Purpose::Pinned); }
void PinnedAllocator::free(Block *block) { impl->memory.free(block); }
void PinnedAllocator::recordStream(Block *block, Stream &stream) { impl->memory.recordStream(block, stream); }
Block *PinnedAllocator::find(const void *address) { return impl->memory.find(address); }
Allocator &PinnedAllocator::memory() { return impl->memory; }

} // namespace tilewright
