//===- Segments.cpp - the caching allocator's memory in pieces -------------===//

#include "Segments.h"

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define TILEWRIGHT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TILEWRIGHT_ASAN 1
#endif
#endif
#ifdef TILEWRIGHT_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace tilewright {

void Segment::own(Chunk &chunk, const Chunk &range) {
  size_t step = granule();
  size_t from = static_cast<size_t>(range.begin() - base), to = from + range.bytes;
  for (size_t i = (from + step - 1) / step; i * step < to; ++i)
    starts[i] = &chunk;
}

Chunk *Segment::find(const char *address) const {
  Chunk *chunk = starts[static_cast<size_t>(address - base) / granule()];
  while (chunk && address >= chunk->end())
    chunk = chunk->after;
  return chunk;
}

void FreeLists::insert(Chunk &chunk) {
  size_t c = SizeClass::of(chunk.bytes);
  chunk.lastFree = nullptr;
  chunk.nextFree = heads[c];
  if (heads[c])
    heads[c]->lastFree = &chunk;
  heads[c] = &chunk;
  occupied[c / 64] |= uint64_t(1) << (c % 64);
}

void FreeLists::remove(Chunk &chunk) {
  size_t c = SizeClass::of(chunk.bytes);
  (chunk.lastFree ? chunk.lastFree->nextFree : heads[c]) = chunk.nextFree;
  if (chunk.nextFree)
    chunk.nextFree->lastFree = chunk.lastFree;
  if (!heads[c])
    occupied[c / 64] &= ~(uint64_t(1) << (c % 64));
}

Chunk *FreeLists::find(size_t bytes) const {
  size_t c = SizeClass::of(bytes);
  // In the class of the request itself some chunks may be too small, if the request is not a class's least size.
  Chunk *best = nullptr;
  for (Chunk *chunk = heads[c]; chunk; chunk = chunk->nextFree)
    if (chunk->bytes >= bytes && (!best || chunk->bytes < best->bytes)) {
      best = chunk;
      if (best->bytes == bytes)
        break;
    }
  if (best || ++c == SizeClass::kCount)
    return best;
  for (size_t word = c / 64; word < occupied.size(); ++word) {
    uint64_t bits = occupied[word];
    if (word == c / 64)
      bits &= ~uint64_t(0) << (c % 64);
    if (bits)
      return heads[word * 64 + static_cast<size_t>(std::countr_zero(bits))];
  }
  return nullptr;
}

void SegmentTable::set(const Segment &range, Segment *value) {
  size_t first = reinterpret_cast<uintptr_t>(range.base) / kSegmentUnit;
  for (size_t i = first; i < first + range.bytes / kSegmentUnit; ++i) {
    auto &leaf = root.at(i >> kLeafBits);
    if (!leaf)
      leaf = std::make_unique<Leaf>();
    (*leaf)[i & ((size_t(1) << kLeafBits) - 1)] = value;
  }
}

Segment *SegmentTable::find(const void *address) const {
  size_t i = reinterpret_cast<uintptr_t>(address) / kSegmentUnit;
  size_t high = i >> kLeafBits;
  if (high >= root.size() || !root[high])
    return nullptr;
  return (*root[high])[i & ((size_t(1) << kLeafBits) - 1)];
}

Chunk *ChunkPool::take() {
  if (unused.empty())
    return &storage.emplace_back();
  Chunk *chunk = unused.back();
  unused.pop_back();
  return chunk;
}

void ChunkPool::give(Chunk *chunk) {
  chunk->before = chunk->after = nullptr;
  chunk->segment = nullptr;
  chunk->state = MemorySegment::State::Free;
  chunk->users.clear();
  unused.push_back(chunk);
}

char *mapSegment(size_t bytes) {
  // One unit more than asked, to cut an aligned piece out of it: a huge page needs its alignment.
  size_t span = bytes + kSegmentUnit;
  void *memory = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return nullptr;
  auto address = reinterpret_cast<uintptr_t>(memory);
  uintptr_t aligned = (address + kSegmentUnit - 1) / kSegmentUnit * kSegmentUnit;
  if (aligned > address)
    munmap(memory, aligned - address);
  if (size_t tail = address + span - (aligned + bytes))
    munmap(reinterpret_cast<void *>(aligned + bytes), tail);
  auto *base = reinterpret_cast<char *>(aligned);
  madvise(base, bytes, MADV_HUGEPAGE); // a wish: kernels without transparent huge pages say no
  return base;
}

void unmapSegment(char *base, size_t bytes) {
  unpoison(base, bytes); // whoever gets these addresses next
  munmap(base, bytes);
}

#ifdef TILEWRIGHT_ASAN
void poison(const void *data, size_t bytes) { __asan_poison_memory_region(data, bytes); }
void unpoison(const void *data, size_t bytes) { __asan_unpoison_memory_region(data, bytes); }
#else
void poison(const void *, size_t) {}
void unpoison(const void *, size_t) {}
#endif

} // namespace tilewright
