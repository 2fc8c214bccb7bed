//===- TemporaryMemory.h - where a call's own memory comes from --*- C++ -*-===//
#pragma once

#include "tilewright/Runtime/Allocator.h"
#include "tilewright/Runtime/Stream.h"

#include <vector>

namespace tilewright {

/// The kind that TILEWRIGHT_ALLOC names. Where its memory is short, packed weights are dropped.
std::unique_ptr<Allocator> makeAllocator(size_t limit);

/// An allocator and the stream in whose order its memory is used: the device's with a stream of the caller, or, for
/// calls on the calling thread, a host allocator of our own that counts nothing against the device.
struct TemporaryMemory {
  Allocator *allocator;
  Stream *stream;

  static TemporaryMemory device(Stream &stream);
  static TemporaryMemory host();

  /// Throws OutOfMemory.
  Block *allocate(size_t bytes, Purpose purpose) const;
};

/// Blocks of one call. They are given back when this goes, which with a stream may be right after the last task was
/// queued: a block freed on its own stream is reused in that stream's order.
class TemporaryBlocks {
public:
  explicit TemporaryBlocks(TemporaryMemory memory) : memory(memory) {}
  ~TemporaryBlocks();
  TemporaryBlocks(const TemporaryBlocks &) = delete;
  TemporaryBlocks &operator=(const TemporaryBlocks &) = delete;

  void *allocate(size_t bytes, Purpose purpose);

  const TemporaryMemory memory;

private:
  std::vector<Block *> blocks;
  size_t bytes = 0;
};

} // namespace tilewright
