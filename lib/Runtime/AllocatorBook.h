//===- AllocatorBook.h - what allocators share: statistics, texts -*- C++ -*-===//
#pragma once

#include "Fork.h"
#include "tilewright/Runtime/Allocator.h"

#include <algorithm>
#include <mutex>

namespace tilewright {

inline void increase(MemoryStat &stat, int64_t by) {
  stat.current += by;
  stat.peak = std::max(stat.peak, stat.current);
  stat.allocated += by;
}
inline void decrease(MemoryStat &stat, int64_t by) {
  stat.current -= by;
  stat.freed += by;
}
/// Of the aggregate and one pool; `by` below 0 is a decrease.
inline void count(MemoryStat (&stat)[3], bool small, int64_t by) {
  for (MemoryStat *s : {&stat[0], &stat[small ? 1 : 2]})
    by >= 0 ? increase(*s, by) : decrease(*s, -by);
}

std::string_view nameOf(Purpose purpose);
/// "1.50 GiB"
std::string readableBytes(size_t bytes);

/// A place in a stream's queue that memory waits for.
struct StreamUse {
  Stream *stream;
  uint64_t ticket;
};

/// Lock, statistics and limit. Derived classes hold the lock whenever they touch them.
class AllocatorBook : public Allocator {
public:
  explicit AllocatorBook(size_t limit);

  MemoryStats stats() const override;
  void resetPeak() override;
  void resetAccumulated() override;
  size_t limit() const override;
  void setLimit(size_t bytes) override;
  void setReclaim(Reclaim given) override { reclaim = std::move(given); }
  std::string summary() const override;
  /// Whether anything was ever allocated.
  bool used() const { return everUsed.load(std::memory_order_relaxed); }

protected:
  /// Counts an allocation and its inverse; `bytes` is what the block takes.
  void countBlock(const Block &block, bool small, int sign);
  /// Whether this thread may wait for streams: not in a task or a loop's body, which a stream may be waiting for.
  static bool mayWait();
  /// Repeats `attempt` until it gives something: at first, then after each of the two ways to reclaim. `hold` is the
  /// allocator's lock.
  template <class Attempt> auto reclaiming(std::unique_lock<std::mutex> &hold, Attempt &&attempt) {
    auto result = attempt();
    for (bool all : {false, true}) {
      if (result || !reclaim)
        break;
      hold.unlock(); // it frees memory of this allocator
      reclaim(all);
      hold.lock();
      result = attempt();
    }
    return result;
  }
  /// Counts the failure and throws. `live` are the live blocks, in any order.
  [[noreturn]] void throwOutOfMemory(size_t asked, Purpose purpose, std::vector<const Block *> live);

  mutable std::mutex lock;
  MemoryStats book;
  size_t limitBytes;
  std::atomic<bool> everUsed{false};

private:
  Reclaim reclaim;
  ForkHooks fork; // its hooks touch `lock` alone, so it may be older than what derived classes add
};

/// Blocks until the streams have passed. Not inside a task, and without locks.
void waitFor(const std::vector<StreamUse> &uses);
bool passed(const StreamUse &use);

} // namespace tilewright
