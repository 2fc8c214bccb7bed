//===- ThreadPool.h - the one pool of compute threads -------------*- C++ -*-===//
#pragma once

#include <cstdint>
#include <type_traits>

namespace tilewright {

/// Shared by all streams. Size: TILEWRIGHT_THREADS, else the affinity mask. No thread starts before the first parallel
/// loop; idle workers park. In a forked child it is rebuilt at first use.
class ThreadPool {
public:
  /// Throws std::invalid_argument for a wrong TILEWRIGHT_THREADS.
  static ThreadPool &instance();

  /// Threads of a loop, the caller included; at least 1.
  unsigned size() const;
  /// Not while a loop runs, which is std::logic_error. 0: the size that the environment asks for.
  void resize(unsigned threads);

  using Body = void (*)(void *context, int64_t begin, int64_t end, unsigned thread);

  /// Calls body over [0, count) in chunks of at least `grain` (multiples of it, but for the last); the caller takes
  /// part; static split with stealing. `thread` is 0 .. size()-1 and unique among concurrent bodies of this loop. Runs
  /// inline where count <= grain, and inside another loop's body. Bodies run under the caller's floating-point control
  /// state (MXCSR). An exception of a body ends the loop early and is rethrown here, the first of several. Several
  /// threads may call it at once.
  ///
  /// What a loop costs (2 cores of an EPYC, KVM): 3 ns inline; 0.1-0.25 us where workers still spin from the loop
  /// before; 2-4 us of the caller's time where one must be woken, which begins 8-20 us later. So a grain should be 5 us
  /// of work or more.
  void parallelFor(int64_t count, int64_t grain, Body body, void *context);

  /// The same for a callable (begin, end, thread).
  template <typename Callable> void parallelFor(int64_t count, int64_t grain, Callable &&callable) {
    parallelFor(
        count, grain,
        [](void *context, int64_t begin, int64_t end, unsigned thread) {
          (*static_cast<std::remove_reference_t<Callable> *>(context))(begin, end, thread);
        },
        const_cast<void *>(static_cast<const void *>(&callable)));
  }

  /// Whether the calling thread runs a body of a parallel loop.
  static bool insideBody();

private:
  ThreadPool();
  struct Impl;
  Impl *impl;
};

} // namespace tilewright
