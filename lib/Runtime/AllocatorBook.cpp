//===- AllocatorBook.cpp - what allocators share ---------------------------===//

#include "AllocatorBook.h"

#include "tilewright/Runtime/Stream.h"
#include "tilewright/Runtime/ThreadPool.h"

#include <cstdio>

namespace tilewright {
namespace {

// Starts at 1: 0 means "unknown".
std::atomic<uint64_t> nextEpoch{1};

template <typename... Args> std::string format(const char *pattern, Args... args) {
  char text[256];
  int length = std::snprintf(text, sizeof text, pattern, args...);
  return std::string(text, std::min<size_t>(static_cast<size_t>(std::max(length, 0)), sizeof text - 1));
}

template <typename F> void forEachStat(MemoryStats &book, F &&f) {
  for (auto *stat : {&book.allocation, &book.segment, &book.active, &book.inactiveSplit, &book.allocatedBytes,
                     &book.reservedBytes, &book.activeBytes, &book.inactiveSplitBytes, &book.requestedBytes})
    for (MemoryStat &s : *stat)
      f(s);
  for (MemoryStat &s : book.byPurpose)
    f(s);
  f(book.oversizeAllocations);
  f(book.oversizeSegments);
}

} // namespace

void Block::touch() { epoch.store(nextEpoch.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed); }

std::string_view nameOf(Purpose purpose) {
  constexpr std::string_view names[] = {"tensor", "arena", "packed weights", "pinned"};
  return names[static_cast<size_t>(purpose)];
}

std::string readableBytes(size_t bytes) {
  constexpr const char *units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024)
    return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  return format("%.2f %s", value, units[unit]);
}

bool passed(const StreamUse &use) { return use.stream->completed() >= use.ticket; }

void waitFor(const std::vector<StreamUse> &uses) {
  for (const StreamUse &use : uses)
    use.stream->waitUntil(use.ticket);
}

AllocatorBook::AllocatorBook(size_t limit)
    : limitBytes(limit),
      fork(ForkHooks::Rank::Allocator, [this] { lock.lock(); }, [this] { lock.unlock(); }, [this] { lock.unlock(); }) {}

bool AllocatorBook::mayWait() { return !Stream::insideTask() && !ThreadPool::insideBody(); }

MemoryStats AllocatorBook::stats() const {
  std::lock_guard hold(lock);
  return book;
}

void AllocatorBook::resetPeak() {
  std::lock_guard hold(lock);
  forEachStat(book, [](MemoryStat &s) { s.peak = s.current; });
}

void AllocatorBook::resetAccumulated() {
  std::lock_guard hold(lock);
  forEachStat(book, [](MemoryStat &s) { s.allocated = s.freed = 0; });
  book.allocRetries = book.outOfMemoryCount = book.syncAllStreams = book.deviceAllocs = book.deviceFrees = 0;
}

size_t AllocatorBook::limit() const {
  std::lock_guard hold(lock);
  return limitBytes;
}

void AllocatorBook::setLimit(size_t bytes) {
  std::lock_guard hold(lock);
  limitBytes = bytes;
}

void AllocatorBook::countBlock(const Block &block, bool small, int sign) {
  auto bytes = sign * static_cast<int64_t>(block.bytes);
  count(book.allocation, small, sign);
  count(book.allocatedBytes, small, bytes);
  count(book.requestedBytes, small, sign * static_cast<int64_t>(block.requested));
  MemoryStat &purpose = book.byPurpose[static_cast<size_t>(block.purpose)];
  sign > 0 ? increase(purpose, bytes) : decrease(purpose, -bytes);
}

void AllocatorBook::throwOutOfMemory(size_t asked, Purpose purpose, std::vector<const Block *> live) {
  ++book.outOfMemoryCount;
  auto held = static_cast<size_t>(book.activeBytes[0].current);
  auto reserved = static_cast<size_t>(book.reservedBytes[0].current);
  bool pinned = purpose == Purpose::Pinned;
  std::string text = std::string(pinned ? "out of pinned host memory" : "out of memory on npu") + ": asked " +
                     readableBytes(asked) + " (" + std::string(nameOf(purpose)) + "), held " + readableBytes(held) +
                     " in " + std::to_string(book.active[0].current) + " blocks, reserved " + readableBytes(reserved) +
                     ", limit " + readableBytes(limitBytes) + ".";
  if (reserved > held && asked <= reserved - held)
    text += " The free part of what is reserved is in pieces too small, or belongs to other streams.";
  std::sort(live.begin(), live.end(), [](const Block *a, const Block *b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->purpose < b->purpose;
  });
  const char *separator = " Largest holders: ";
  for (size_t i = 0, lines = 0; i < live.size() && lines < 8; ++lines) {
    size_t same = i;
    while (same < live.size() && live[same]->bytes == live[i]->bytes && live[same]->purpose == live[i]->purpose)
      ++same;
    text += separator + (same - i > 1 ? std::to_string(same - i) + " x " : "") + readableBytes(live[i]->bytes) + " " +
            std::string(nameOf(live[i]->purpose));
    separator = ", ";
    i = same;
  }
  text += live.empty() ? " Nothing is held: " : ". ";
  text += pinned ? "Pin less, or free pinned tensors."
                 : "Use a smaller batch, free tensors, or raise TILEWRIGHT_MEMORY_LIMIT.";
  throw OutOfMemory(text);
}

std::string AllocatorBook::summary() const {
  MemoryStats s = stats();
  std::string out = format("%-26s %14s %14s %14s %14s\n", "npu memory", "current", "peak", "allocated", "freed");
  auto row = [&](const std::string &name, const MemoryStat &stat, bool bytes) {
    auto cell = [&](int64_t v) {
      return bytes ? readableBytes(static_cast<size_t>(std::max<int64_t>(v, 0))) : std::to_string(v);
    };
    out += format("%-26s %14s %14s %14s %14s\n", name.c_str(), cell(stat.current).c_str(), cell(stat.peak).c_str(),
                  cell(stat.allocated).c_str(), cell(stat.freed).c_str());
  };
  auto rows = [&](const char *name, const MemoryStat(&stat)[3], bool bytes) {
    row(name, stat[0], bytes);
    row("  small pool", stat[1], bytes);
    row("  large pool", stat[2], bytes);
  };
  rows("allocated memory", s.allocatedBytes, true);
  rows("requested memory", s.requestedBytes, true);
  rows("active memory", s.activeBytes, true);
  rows("reserved memory", s.reservedBytes, true);
  rows("inactive, split", s.inactiveSplitBytes, true);
  rows("allocations", s.allocation, false);
  rows("active blocks", s.active, false);
  rows("segments", s.segment, false);
  rows("inactive, split blocks", s.inactiveSplit, false);
  for (size_t i = 0; i < std::size(s.byPurpose); ++i)
    row("for " + std::string(nameOf(static_cast<Purpose>(i))), s.byPurpose[i], true);
  out += format("limit %s; retries %lld; out of memory %lld times\n", readableBytes(limit()).c_str(),
                static_cast<long long>(s.allocRetries), static_cast<long long>(s.outOfMemoryCount));
  return out;
}

} // namespace tilewright
