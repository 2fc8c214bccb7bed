//===- Allocator.h - caching allocator of the device -------------*- C++ -*-===//
//
// Segments of multiples of 2 MiB, huge pages requested (measured: 64 MiB of fresh memory fills in 2 ms instead of 12);
// blocks of multiples of 64 bytes, size classes, split and merge. A block freed on its own stream is reusable at once in that
// stream's order; a block that other streams used (recordStream) waits for events on these.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright {

class Stream;

enum class Purpose : uint8_t { Tensor, Arena, Packed, Pinned };

/// Thrown by allocate: what() says asked, held, reserved, limit and the largest holders.
class OutOfMemory : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Current, peak, total allocated, total freed; as in c10::CachingAllocator::Stat.
struct MemoryStat {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};

struct MemoryStats {
  // [0] aggregate, [1] small pool, [2] large pool
  MemoryStat allocation[3], segment[3], active[3], inactiveSplit[3];
  MemoryStat allocatedBytes[3], reservedBytes[3], activeBytes[3], inactiveSplitBytes[3], requestedBytes[3];
  int64_t allocRetries = 0, outOfMemoryCount = 0;
  MemoryStat byPurpose[4]; // bytes, indexed by Purpose
};

/// Identity of one allocation. Stable until freed.
struct Block {
  void *data = nullptr;
  size_t bytes = 0;     // usable
  size_t requested = 0; // asked for
  Stream *stream = nullptr;
  Purpose purpose = Purpose::Tensor;
  /// Process-unique token, replaced whenever the memory is or may have been written. Never 0.
  std::atomic<uint64_t> epoch{0};
  void touch(); // gives a fresh epoch
};

class Allocator {
public:
  virtual ~Allocator() = default;
  /// bytes == 0 gives nullptr. Throws OutOfMemory.
  virtual Block *allocate(size_t bytes, Stream &stream, Purpose purpose = Purpose::Tensor) = 0;
  virtual void free(Block *block) = 0;
  virtual void recordStream(Block *block, Stream &stream) = 0;
  /// The live block that contains the address, or nullptr.
  virtual Block *find(const void *address) = 0;
  virtual MemoryStats stats() const = 0;
  virtual void resetPeak() = 0;
  virtual void resetAccumulated() = 0;
  virtual void emptyCache() = 0;
  virtual size_t limit() const = 0;
  virtual void setLimit(size_t bytes) = 0;
  /// A readable table; what torch.npu.memory_summary prints.
  virtual std::string summary() const = 0;
  /// TILEWRIGHT_ALLOC=guard: each block ends at an unreadable page, fresh memory is NaN, freed memory is unmapped.
  static std::unique_ptr<Allocator> createCaching(size_t limit);
  static std::unique_ptr<Allocator> createGuard(size_t limit);
};

} // namespace tilewright
