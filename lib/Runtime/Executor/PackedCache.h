//===- PackedCache.h - packed weights that are kept --------------*- C++ -*-===//
//
// See Runtime/PackedWeights.h. On a stream a copy is published when the task that fills it is queued, with an event
// that users on other streams wait for; on the calling thread it is published once it is filled.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "TemporaryMemory.h"
#include "tilewright/Runtime/PackedWeights.h"
#include "tilewright/Support/Hash.h"

#include <atomic>
#include <memory>

namespace tilewright {

struct PackedKey {
  const void *address;
  uint64_t epoch;
  Digest recipe;
  const Allocator *memory; // device or host: copies do not cross
  bool operator==(const PackedKey &) const = default;
};

class PackedBuffer {
public:
  PackedBuffer(TemporaryMemory memory, size_t bytes);
  ~PackedBuffer();
  PackedBuffer(const PackedBuffer &) = delete;
  PackedBuffer &operator=(const PackedBuffer &) = delete;

  void *data() const { return block->data; }
  /// Makes `stream` wait for the filling task and tells the allocator of the use.
  void useOn(Stream &stream);

  const TemporaryMemory memory;
  const size_t bytes;
  Event filled;
  std::atomic<bool> failed{false}; // the filling task ended with an error

private:
  Block *block;
};

class PackedCache {
public:
  static PackedCache &instance();

  struct Answer {
    std::shared_ptr<PackedBuffer> kept; // use it
    bool keep = false;                  // else: pack, and publish the copy if true
  };
  Answer find(const PackedKey &key, const std::weak_ptr<const void> &user);
  void publish(const PackedKey &key, std::shared_ptr<PackedBuffer> buffer, const std::weak_ptr<const void> &user);

  PackedWeightStats stats() const;
  void releaseStale();
  void releaseAll();
  void releaseEpochs(std::span<const uint64_t> epochs);

private:
  PackedCache();
  struct Impl;
  Impl *impl;
};

} // namespace tilewright
