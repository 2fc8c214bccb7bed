//===- ThreadPool.h - the one pool of compute threads -------------*- C++ -*-===//
#pragma once

#include <cstdint>

namespace tilewright {

/// Shared by all streams. Size: TILEWRIGHT_THREADS, else the affinity mask. No thread starts before the first parallel loop; idle
/// workers park. In a forked child it is rebuilt at first use.
class ThreadPool {
public:
  static ThreadPool &instance();

  unsigned size() const;
  void resize(unsigned threads); // not while a loop runs

  using Body = void (*)(void *context, int64_t begin, int64_t end, unsigned thread);
  /// Calls body over [0, count) in chunks of at least `grain`; the caller takes part; static split with stealing. `thread` is
  /// 0 .. size()-1 and unique among concurrent bodies of this loop. Runs inline where count <= grain.
  void parallelFor(int64_t count, int64_t grain, Body body, void *context);

private:
  ThreadPool();
  struct Impl;
  Impl *impl;
};

} // namespace tilewright
