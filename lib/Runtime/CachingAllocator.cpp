//===- CachingAllocator.cpp - keeps memory, per stream and pool ------------===//

#include "CachingAllocator.h"

#include "tilewright/Runtime/Stream.h"

#include <cstdint>

namespace tilewright {
namespace {

using State = MemorySegment::State;

/// Large blocks below kPackedBelow share segments of kLargeSegment; from there on each gets a segment of its own.
constexpr size_t kPackedBelow = size_t(10) << 20, kLargeSegment = size_t(20) << 20;
/// A rest smaller than a page is left with a large block: it could serve no large request, and a split costs two list
/// operations.
constexpr size_t kLeastLargeRest = 4096;

constexpr size_t alignUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

} // namespace

CachingAllocator::CachingAllocator(size_t limit, size_t alignment) : AllocatorBook(limit), alignment(alignment) {}

CachingAllocator::~CachingAllocator() {
  for (auto &[base, segment] : segments)
    unmapSegment(segment->base, segment->bytes);
}

FreeLists &CachingAllocator::lists(const Segment &segment) {
  auto &entry = pools[segment.stream];
  if (!entry)
    entry = std::make_unique<Pools>();
  return entry->of(segment.small);
}

size_t CachingAllocator::blockSize(size_t bytes) const {
  // In the large pool the search is exact (FreeLists::find), so nothing is rounded up there but to pages.
  return bytes < kSmallBelow ? alignUp(SizeClass::roundUp(bytes), alignment)
                             : alignUp(bytes, std::max(alignment, kLeastLargeRest));
}

Block *CachingAllocator::allocate(size_t bytes, Stream &stream, Purpose purpose) {
  if (bytes == 0)
    return nullptr;
  std::unique_lock hold(lock);
  everUsed.store(true, std::memory_order_relaxed);
  freeFinished();
  // Nothing near the whole address space: the roundings below must not overflow.
  size_t size = bytes < (size_t(1) << 46) ? blockSize(bytes) : SIZE_MAX;
  Chunk *chunk = nullptr;
  if (size != SIZE_MAX) {
    chunk = takeFree(size, stream);
    if (!chunk && grow(size, stream))
      chunk = takeFree(size, stream);
    if (!chunk) {
      ++book.allocRetries;
      chunk = reclaiming(hold, [&] { return takeWhereShort(size, stream, hold); });
    }
  }
  if (!chunk) {
    std::vector<const Block *> live;
    for (auto &[base, segment] : segments)
      for (Chunk *c = segment->first; c; c = c->after)
        if (!c->isFree())
          live.push_back(c);
    throwOutOfMemory(bytes, purpose, std::move(live));
  }
  chunk->state = State::Live;
  chunk->requested = bytes;
  chunk->purpose = purpose;
  chunk->handedOut.store(false, std::memory_order_relaxed);
  chunk->touch();
  unpoison(chunk->data, bytes);
  bool small = chunk->segment->small;
  countBlock(*chunk, small, 1);
  count(book.active, small, 1);
  count(book.activeBytes, small, static_cast<int64_t>(chunk->bytes));
  return chunk;
}

Chunk *CachingAllocator::takeFree(size_t bytes, Stream &stream) {
  auto it = pools.find(&stream);
  if (it == pools.end())
    return nullptr;
  Chunk *chunk = it->second->of(bytes < kSmallBelow).find(bytes);
  return chunk ? carve(*chunk, bytes) : nullptr;
}

/// Takes a piece of a free chunk: the chunk itself, or its end, which leaves the rest's entries in Segment::starts as
/// they are.
Chunk *CachingAllocator::carve(Chunk &free, size_t bytes) {
  Segment &segment = *free.segment;
  FreeLists &list = lists(segment);
  countInactive(free, -1);
  list.remove(free);
  size_t least = segment.small ? SizeClass::kGranule : kLeastLargeRest;
  if (free.bytes - bytes < least)
    return &free;
  Chunk *piece = chunks.take();
  piece->segment = &segment;
  piece->stream = segment.stream;
  piece->data = free.end() - bytes;
  piece->bytes = bytes;
  piece->before = &free;
  piece->after = free.after;
  if (free.after)
    free.after->before = piece;
  free.after = piece;
  free.bytes -= bytes;
  segment.own(*piece, *piece);
  list.insert(free);
  countInactive(free, 1);
  return piece;
}

bool CachingAllocator::grow(size_t bytes, Stream &stream) {
  if (bytes < kSmallBelow)
    return addSegment(kSegmentUnit, true, stream);
  // Under a tight limit a shared segment may be too much where the block alone is not.
  return (bytes < kPackedBelow && addSegment(kLargeSegment, false, stream)) ||
         addSegment(alignUp(bytes, kSegmentUnit), false, stream);
}

bool CachingAllocator::addSegment(size_t bytes, bool small, Stream &stream) {
  auto reserved = static_cast<size_t>(book.reservedBytes[0].current);
  if (reserved > limitBytes || bytes > limitBytes - reserved)
    return false;
  char *base = mapSegment(bytes);
  if (!base)
    return false;
  poison(base, bytes);
  auto segment = std::make_unique<Segment>();
  segment->base = base;
  segment->bytes = bytes;
  segment->stream = &stream;
  segment->small = small;
  segment->starts = std::make_unique<Chunk *[]>((bytes + segment->granule() - 1) / segment->granule());
  Chunk *chunk = chunks.take();
  chunk->segment = segment.get();
  chunk->stream = &stream;
  chunk->data = base;
  chunk->bytes = bytes;
  segment->first = chunk;
  segment->own(*chunk, *chunk);
  table.set(*segment, segment.get());
  lists(*segment).insert(*chunk);
  count(book.segment, small, 1);
  count(book.reservedBytes, small, static_cast<int64_t>(bytes));
  ++book.deviceAllocs;
  segments.emplace(base, std::move(segment));
  return true;
}

/// Pending frees first, then cached segments of any stream, and again. Inside a task nothing is waited for, since what
/// would be waited for may be behind this very task.
Chunk *CachingAllocator::takeWhereShort(size_t bytes, Stream &stream, std::unique_lock<std::mutex> &hold) {
  bool mayWait = this->mayWait();
  auto attempt = [&]() -> Chunk * {
    freeFinished();
    Chunk *chunk = takeFree(bytes, stream);
    return !chunk && grow(bytes, stream) ? takeFree(bytes, stream) : chunk;
  };
  auto wait = [&](const std::vector<StreamUse> &uses) {
    hold.unlock(); // tasks that we wait for may free and allocate
    waitFor(uses);
    hold.lock();
  };
  if (mayWait && !waiting.empty()) {
    std::vector<StreamUse> uses;
    for (Chunk *chunk : waiting)
      uses.insert(uses.end(), chunk->users.begin(), chunk->users.end());
    ++book.syncAllStreams;
    wait(uses);
    if (Chunk *chunk = attempt())
      return chunk;
  }
  if (mayWait)
    wait(usesOfFreeMemory());
  releaseUnused();
  return attempt();
}

void CachingAllocator::free(Block *block) {
  if (!block)
    return;
  std::lock_guard hold(lock);
  auto &chunk = static_cast<Chunk &>(*block);
  if (chunk.state != State::Live)
    throw std::logic_error("Allocator::free: the block is not live; it was freed before");
  countBlock(chunk, chunk.segment->small, -1);
  for (StreamUse &use : chunk.users)
    use.ticket = use.stream->submitted();
  std::erase_if(chunk.users, passed);
  if (chunk.users.empty()) {
    makeFree(chunk);
  } else {
    chunk.state = State::PendingFree;
    waiting.push_back(&chunk);
  }
  freeFinished();
}

void CachingAllocator::makeFree(Chunk &chunk) {
  Segment &segment = *chunk.segment;
  bool small = segment.small;
  count(book.active, small, -1);
  count(book.activeBytes, small, -static_cast<int64_t>(chunk.bytes));
  segment.lastUse = segment.stream->submitted();
  // Tasks in the queue may still use the memory: stream order allows it. Only then is it left accessible.
  if (passed({segment.stream, segment.lastUse}))
    poison(chunk.data, chunk.bytes);
  chunk.state = State::Free;
  chunk.users.clear();
  Chunk *whole = &chunk;
  FreeLists &list = lists(segment);
  if (chunk.after && chunk.after->isFree()) {
    countInactive(*chunk.after, -1);
    list.remove(*chunk.after);
    absorbNext(chunk);
  }
  if (chunk.before && chunk.before->isFree()) {
    whole = chunk.before;
    countInactive(*whole, -1);
    list.remove(*whole);
    absorbNext(*whole);
  }
  list.insert(*whole);
  countInactive(*whole, 1);
}

void CachingAllocator::absorbNext(Chunk &chunk) {
  Chunk *gone = chunk.after;
  chunk.bytes += gone->bytes;
  chunk.after = gone->after;
  if (chunk.after)
    chunk.after->before = &chunk;
  chunk.segment->own(chunk, *gone);
  chunks.give(gone);
}

/// "Inactive, split": free memory that cannot go back to the system because a part of its segment is in use.
void CachingAllocator::countInactive(const Chunk &chunk, int sign) {
  if (!chunk.before && !chunk.after)
    return;
  count(book.inactiveSplit, chunk.segment->small, sign);
  count(book.inactiveSplitBytes, chunk.segment->small, sign * static_cast<int64_t>(chunk.bytes));
}

void CachingAllocator::freeFinished() {
  for (size_t i = 0; i < waiting.size();) {
    Chunk &chunk = *waiting[i];
    std::erase_if(chunk.users, passed);
    if (!chunk.users.empty()) {
      ++i;
      continue;
    }
    waiting[i] = waiting.back();
    waiting.pop_back();
    makeFree(chunk);
  }
}

void CachingAllocator::recordStream(Block *block, Stream &stream) {
  if (!block)
    return;
  std::lock_guard hold(lock);
  auto &chunk = static_cast<Chunk &>(*block);
  if (chunk.stream == &stream)
    return;
  for (const StreamUse &use : chunk.users)
    if (use.stream == &stream)
      return;
  chunk.users.push_back({&stream, 0});
}

Block *CachingAllocator::find(const void *address) {
  std::lock_guard hold(lock);
  Segment *segment = table.find(address);
  Chunk *chunk = segment ? segment->find(static_cast<const char *>(address)) : nullptr;
  return chunk && chunk->state == State::Live ? chunk : nullptr;
}

std::vector<StreamUse> CachingAllocator::usesOfFreeMemory() const {
  std::vector<StreamUse> uses;
  for (auto &[base, segment] : segments)
    if (segment->unused())
      uses.push_back({segment->stream, segment->lastUse});
  return uses;
}

void CachingAllocator::releaseUnused() {
  for (auto it = segments.begin(); it != segments.end();) {
    Segment &segment = *it->second;
    if (!segment.unused() || !passed({segment.stream, segment.lastUse})) {
      ++it;
      continue;
    }
    lists(segment).remove(*segment.first);
    chunks.give(segment.first);
    table.set(segment, nullptr);
    unmapSegment(segment.base, segment.bytes);
    count(book.segment, segment.small, -1);
    count(book.reservedBytes, segment.small, -static_cast<int64_t>(segment.bytes));
    ++book.deviceFrees;
    it = segments.erase(it);
  }
}

void CachingAllocator::emptyCache() {
  std::unique_lock hold(lock);
  freeFinished();
  if (mayWait()) {
    auto uses = usesOfFreeMemory();
    hold.unlock();
    waitFor(uses);
    hold.lock();
  }
  releaseUnused();
}

void CachingAllocator::migrate(Stream &from, Stream &to) {
  from.waitUntil(from.submitted());
  std::lock_guard hold(lock);
  freeFinished();
  for (auto &[base, segment] : segments) {
    for (Chunk *chunk = segment->first; chunk; chunk = chunk->after) {
      std::erase_if(chunk->users, [&](const StreamUse &use) { return use.stream == &from; });
      if (segment->stream != &from)
        continue;
      if (chunk->isFree())
        lists(*segment).remove(*chunk);
      // What `to` uses of it is in its own order from now on.
      std::erase_if(chunk->users, [&](const StreamUse &use) { return use.stream == &to; });
      chunk->stream = &to;
    }
    if (segment->stream != &from)
      continue;
    segment->stream = &to;
    segment->lastUse = to.submitted();
    for (Chunk *chunk = segment->first; chunk; chunk = chunk->after)
      if (chunk->isFree())
        lists(*segment).insert(*chunk);
  }
  pools.erase(&from);
  freeFinished();
}

std::vector<MemorySegment> CachingAllocator::snapshot() const {
  std::lock_guard hold(lock);
  std::vector<MemorySegment> result;
  for (auto &[base, segment] : segments) {
    MemorySegment out{segment->base, segment->bytes, segment->stream->id(), segment->small, {}};
    for (Chunk *chunk = segment->first; chunk; chunk = chunk->after)
      out.pieces.push_back(
          {chunk->data, chunk->bytes, chunk->isFree() ? 0 : chunk->requested, chunk->state, chunk->purpose});
    result.push_back(std::move(out));
  }
  std::sort(result.begin(), result.end(), [](const auto &a, const auto &b) { return a.data < b.data; });
  return result;
}

std::unique_ptr<Allocator> Allocator::createCaching(size_t limit) { return std::make_unique<CachingAllocator>(limit); }

} // namespace tilewright
