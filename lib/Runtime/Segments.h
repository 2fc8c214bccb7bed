//===- Segments.h - the caching allocator's memory in pieces -----*- C++ -*-===//
//
// A segment is memory from the system: a multiple of 2 MiB, aligned to it, for one stream and one pool. It is cut into
// chunks without gaps; two free chunks are never neighbours.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "AllocatorBook.h"

#include <array>
#include <bit>
#include <deque>
#include <memory>
#include <vector>

namespace tilewright {

inline constexpr size_t kSegmentUnit = size_t(2) << 20;
/// Blocks below it come from the small pool, in segments of one unit.
inline constexpr size_t kSmallBelow = size_t(1) << 20;

struct Segment;

struct Chunk : Block {
  MemorySegment::State state = MemorySegment::State::Free;
  Segment *segment = nullptr;
  Chunk *before = nullptr, *after = nullptr;      // neighbours in address order
  Chunk *lastFree = nullptr, *nextFree = nullptr; // in the list of its size class
  std::vector<StreamUse> users;                   // other streams (recordStream)
  char *begin() const { return static_cast<char *>(data); }
  char *end() const { return begin() + bytes; }
  bool isFree() const { return state == MemorySegment::State::Free; }
};

struct Segment {
  char *base = nullptr;
  size_t bytes = 0;
  Stream *stream = nullptr;
  bool small = false;
  Chunk *first = nullptr;
  uint64_t lastUse = 0; // the stream's ticket at the last free: unmapped only after it has passed
  /// For each granule the chunk that holds its first byte, so that an address is found after a
  /// short walk: at most 64 blocks of 64 bytes in a small segment, and blocks of 1 MiB in a large one.
  std::unique_ptr<Chunk *[]> starts;
  size_t granule() const { return small ? size_t(4) << 10 : size_t(1) << 20; }

  void own(Chunk &chunk, const Chunk &range); // enters it into `starts` for the range of bytes
  Chunk *find(const char *address) const;
  bool unused() const { return first->isFree() && !first->after; }
};

/// Sizes fall into 32 classes per power of two (one per 64 bytes up to 2 KiB), so a request rounded up to its class
/// wastes 3% at most and any chunk of that class will do.
struct SizeClass {
  static constexpr size_t kGranule = 64, kPerOctave = 32, kCount = 1280;
  static size_t roundUp(size_t bytes) {
    size_t step = std::max(kGranule, std::bit_floor(bytes) / kPerOctave);
    return (bytes + step - 1) / step * step;
  }
  static size_t of(size_t bytes) {
    size_t units = bytes / kGranule;
    if (units < kPerOctave)
      return units;
    unsigned top = static_cast<unsigned>(std::bit_width(units)) - 1;
    return (top - 4) * kPerOctave + (units >> (top - 5)) - kPerOctave;
  }
};

/// Free chunks of one stream and pool, by size class.
class FreeLists {
public:
  void insert(Chunk &chunk);
  void remove(Chunk &chunk);
  /// A chunk of at least `bytes`, of the least class that has one; nullptr if none has. Not removed.
  Chunk *find(size_t bytes) const;

private:
  std::array<Chunk *, SizeClass::kCount> heads{};
  std::array<uint64_t, SizeClass::kCount / 64> occupied{};
};

/// From an address to its segment: two levels over the 47 bits of user addresses, one entry per 2 MiB.
class SegmentTable {
public:
  void set(const Segment &range, Segment *value);
  Segment *find(const void *address) const;

private:
  static constexpr size_t kLeafBits = 13;
  using Leaf = std::array<Segment *, size_t(1) << kLeafBits>;
  std::array<std::unique_ptr<Leaf>, size_t(1) << (47 - 21 - kLeafBits)> root;
};

/// Nodes are recycled: their addresses are the identities of blocks, and allocation is on the hot path.
class ChunkPool {
public:
  Chunk *take();
  void give(Chunk *chunk);

private:
  std::deque<Chunk> storage;
  std::vector<Chunk *> unused;
};

/// nullptr if the system has no more.
char *mapSegment(size_t bytes);
void unmapSegment(char *base, size_t bytes);

/// Under the address sanitizer, free memory is made inaccessible; else nothing.
void poison(const void *data, size_t bytes);
void unpoison(const void *data, size_t bytes);

} // namespace tilewright
