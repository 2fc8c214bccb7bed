//===- CachingAllocator.h - keeps memory, per stream and pool ----*- C++ -*-===//
#pragma once

#include "Segments.h"

#include <unordered_map>

namespace tilewright {

class CachingAllocator final : public AllocatorBook {
public:
  /// Blocks start at multiples of `alignment`: a power of two, 64 .. 2 MiB.
  explicit CachingAllocator(size_t limit, size_t alignment = SizeClass::kGranule);
  ~CachingAllocator() override;

  Block *allocate(size_t bytes, Stream &stream, Purpose purpose) override;
  void free(Block *block) override;
  void recordStream(Block *block, Stream &stream) override;
  Block *find(const void *address) override;
  void migrate(Stream &from, Stream &to) override;
  void emptyCache() override;
  std::vector<MemorySegment> snapshot() const override;

private:
  struct Pools {
    FreeLists small, large;
    FreeLists &of(bool isSmall) { return isSmall ? small : large; }
  };
  FreeLists &lists(const Segment &segment);
  size_t blockSize(size_t bytes) const;

  Chunk *takeFree(size_t bytes, Stream &stream);
  Chunk *takeWhereShort(size_t bytes, Stream &stream, std::unique_lock<std::mutex> &hold);
  Chunk *carve(Chunk &free, size_t bytes);
  bool grow(size_t bytes, Stream &stream);
  bool addSegment(size_t bytes, bool small, Stream &stream);
  void makeFree(Chunk &chunk);
  void absorbNext(Chunk &chunk);
  void countInactive(const Chunk &chunk, int sign);
  void freeFinished();
  std::vector<StreamUse> usesOfFreeMemory() const;
  void releaseUnused();

  const size_t alignment;
  std::unordered_map<Stream *, std::unique_ptr<Pools>> pools;
  std::unordered_map<const char *, std::unique_ptr<Segment>> segments; // by base
  SegmentTable table;
  ChunkPool chunks;
  std::vector<Chunk *> waiting; // freed, but other streams have not passed
};

} // namespace tilewright
