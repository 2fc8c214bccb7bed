//===- Allocator.h - caching allocator of the device -------------*- C++ -*-===//
//
// Segments of multiples of 2 MiB, huge pages requested (measured: 64 MiB of fresh memory fills in 2 ms instead of 12);
// blocks of multiples of 64 bytes, size classes, split and merge. A block freed on its own stream is reusable at once
// in that stream's order; a block that other streams used (recordStream) waits until these have passed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
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
  int64_t allocRetries = 0;     // allocations that had to wait for pending frees or release cached segments
  int64_t outOfMemoryCount = 0; // those that failed even so
  MemoryStat byPurpose[4];      // bytes, indexed by Purpose
  // c10's DeviceStats has these besides. Blocks are split whatever their size, so no block is oversize.
  MemoryStat oversizeAllocations, oversizeSegments;
  int64_t maxSplitSize = -1;
  int64_t syncAllStreams = 0;                // waits for all streams that pending frees needed
  int64_t deviceAllocs = 0, deviceFrees = 0; // segments taken from and given back to the system
};

/// What an allocator holds, for tests, torch.npu.memory_snapshot and messages.
struct MemorySegment {
  enum class State : uint8_t { Live, PendingFree, Free };
  struct Piece {
    const void *data;
    size_t bytes, requested;
    State state;
    Purpose purpose;
  };
  const void *data;
  size_t bytes;
  int64_t stream; // id of the stream whose blocks it holds
  bool small;
  std::vector<Piece> pieces; // in address order, without gaps
};

/// Identity of one allocation. Stable until freed.
struct Block {
  void *data = nullptr;
  size_t bytes = 0;     // taken from the segment
  size_t requested = 0; // asked for; what may be touched
  Stream *stream = nullptr;
  Purpose purpose = Purpose::Tensor;
  /// Process-unique token, replaced whenever the memory is or may have been written. Never 0.
  std::atomic<uint64_t> epoch{0};
  /// Somebody outside (DLPack) holds the address and may write at any time: nothing derived from the contents may be
  /// kept. allocate clears it.
  std::atomic<bool> handedOut{false};
  void touch(); // gives a fresh epoch
};

/// Thread-safe. Where memory is short, allocate waits for streams (see Blocking.h), but never inside a task: there it
/// takes what has passed already.
class Allocator {
public:
  virtual ~Allocator() = default;
  /// bytes == 0 gives nullptr. Data is aligned to 64 bytes (createGuard says how it differs). Throws OutOfMemory.
  virtual Block *allocate(size_t bytes, Stream &stream, Purpose purpose = Purpose::Tensor) = 0;
  /// nullptr is fine. Throws std::logic_error for a block that is not live.
  virtual void free(Block *block) = 0;
  /// The block is used by what `stream` has been given so far; after free it is kept until the stream has passed what
  /// it has then.
  virtual void recordStream(Block *block, Stream &stream) = 0;
  /// The live block that contains the address, or nullptr.
  virtual Block *find(const void *address) = 0;
  /// Before a stream is destroyed: waits for it and gives its blocks and cached memory to another.
  virtual void migrate(Stream &from, Stream &to) = 0;
  virtual MemoryStats stats() const = 0;
  virtual void resetPeak() = 0;
  virtual void resetAccumulated() = 0;
  /// Gives cached memory back to the system, after the streams have passed its last use.
  virtual void emptyCache() = 0;
  virtual size_t limit() const = 0;
  /// May be below what is reserved: then nothing new is reserved until enough is given back.
  virtual void setLimit(size_t bytes) = 0;
  /// Asked where memory is short, before allocate gives up: frees what can be made again, first what is of no use any
  /// more, then (`all`) the rest. Called without the allocator's lock; set before the allocator is used.
  using Reclaim = std::function<void(bool all)>;
  virtual void setReclaim(Reclaim reclaim) = 0;
  virtual std::vector<MemorySegment> snapshot() const = 0;
  /// A readable table; what torch.npu.memory_summary prints.
  virtual std::string summary() const = 0;

  static std::unique_ptr<Allocator> createCaching(size_t limit);
  /// TILEWRIGHT_ALLOC=guard. Each block ends at an unreadable page, fresh memory is NaN (all bits set), freed memory is
  /// unmapped once the stream has passed, and its addresses are not used again soon. For Purpose::Tensor the last byte
  /// asked for is the page's last, so an access one element too far faults whatever the size; the start is then only as
  /// aligned as the size is (a multiple of the element's size, and of 64 where the size is). Arenas and packed weights,
  /// in which the runtime itself lays out 64-byte rows, start at multiples of 64; the up to 63 bytes behind them are
  /// checked at free.
  static std::unique_ptr<Allocator> createGuard(size_t limit);
};

/// Host memory for asynchronous copies: page aligned, cached, outside the device's limit. The host's own memory is the
/// device's, so nothing is locked; what counts is that a freed block waits for the streams that use it.
class PinnedAllocator {
public:
  static PinnedAllocator &instance();
  /// bytes == 0 gives nullptr; page aligned. Throws OutOfMemory.
  Block *allocate(size_t bytes);
  void free(Block *block);
  void recordStream(Block *block, Stream &stream);
  /// The live pinned block that contains the address, or nullptr.
  Block *find(const void *address);
  bool isPinned(const void *address) { return find(address) != nullptr; }
  /// The allocator behind it, for statistics and emptyCache.
  Allocator &memory();

private:
  PinnedAllocator();
  struct Impl;
  Impl *impl;
};

} // namespace tilewright
