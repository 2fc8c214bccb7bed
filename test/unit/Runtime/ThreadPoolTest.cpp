#include "tilewright/Runtime/ThreadPool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <set>
#include <thread>
#include <vector>
#include <xmmintrin.h>

using namespace tilewright;

namespace {

ThreadPool &pool() { return ThreadPool::instance(); }

/// The pool with another size for the life of the object.
struct Sized {
  explicit Sized(unsigned threads) : old(pool().size()) { pool().resize(threads); }
  ~Sized() { pool().resize(old); }
  unsigned old;
};

} // namespace

TEST(ThreadPool, EveryIndexOnce) {
  for (unsigned threads : {1u, 2u, 3u, 8u}) {
    Sized sized(threads);
    for (int64_t count : {0, 1, 2, 7, 64, 1000, 4099})
      for (int64_t grain : {0, 1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
        std::atomic<int> calls{0};
        pool().parallelFor(count, grain, [&](int64_t begin, int64_t end, unsigned) {
          calls++;
          EXPECT_LT(begin, end);
          for (int64_t i = begin; i < end; ++i)
            seen[static_cast<size_t>(i)]++;
        });
        for (auto &s : seen)
          ASSERT_EQ(s, 1) << count << " " << grain;
        if (count > 0 && count <= grain)
          EXPECT_EQ(calls, 1);
      }
  }
}

TEST(ThreadPool, ChunksAreMultiplesOfGrain) {
  Sized sized(4);
  constexpr int64_t count = 1003, grain = 10;
  std::atomic<int> ragged{0};
  pool().parallelFor(count, grain, [&](int64_t begin, int64_t end, unsigned) {
    EXPECT_EQ(begin % grain, 0);
    if (end % grain != 0) {
      EXPECT_EQ(end, count);
      ragged++;
    }
  });
  EXPECT_EQ(ragged, 1);
}

TEST(ThreadPool, ThreadNumbersAreUniqueWithinALoop) {
  Sized sized(4);
  std::array<std::atomic<int>, 4> busy{};
  for (int round = 0; round < 50; ++round)
    pool().parallelFor(256, 1, [&](int64_t, int64_t, unsigned thread) {
      ASSERT_LT(thread, 4u);
      EXPECT_EQ(busy[thread].fetch_add(1), 0);
      for (int i = 0; i < 100; ++i)
        _mm_pause();
      busy[thread].fetch_sub(1);
    });
}

TEST(ThreadPool, WorkersTakePart) {
  Sized sized(2);
  std::mutex lock;
  std::set<std::thread::id> ids;
  // A loop whose first body waits for a second thread: would hang, but for the bound, if the caller were alone.
  std::atomic<int> inside{0};
  pool().parallelFor(2, 1, [&](int64_t, int64_t, unsigned) {
    inside++;
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (inside < 2 && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    std::lock_guard hold(lock);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 2u);
}

TEST(ThreadPool, AShareThatIsHeldUpIsStolen) {
  Sized sized(2);
  // Index 0 (of the caller's share) ends only when all others have run: the others of its share must be stolen, but for
  // its chunk.
  constexpr int64_t count = 64;
  std::atomic<int64_t> others{0};
  std::atomic<bool> stuck{false};
  pool().parallelFor(count, 1, [&](int64_t begin, int64_t end, unsigned) {
    if (begin != 0) {
      others += end - begin;
      return;
    }
    auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (others + (end - begin) < count)
      if (std::chrono::steady_clock::now() > limit) {
        stuck = true;
        return;
      }
  });
  EXPECT_FALSE(stuck);
}

TEST(ThreadPool, NestedLoopsRunInline) {
  Sized sized(4);
  std::atomic<int64_t> sum{0};
  EXPECT_FALSE(ThreadPool::insideBody());
  pool().parallelFor(8, 1, [&](int64_t begin, int64_t end, unsigned) {
    EXPECT_TRUE(ThreadPool::insideBody());
    for (int64_t i = begin; i < end; ++i) {
      auto self = std::this_thread::get_id();
      pool().parallelFor(100, 1, [&](int64_t b, int64_t e, unsigned thread) {
        EXPECT_EQ(std::this_thread::get_id(), self);
        EXPECT_EQ(thread, 0u);
        sum += e - b;
      });
    }
  });
  EXPECT_EQ(sum, 800);
  EXPECT_FALSE(ThreadPool::insideBody());
}

TEST(ThreadPool, ExceptionsReachTheCallerAndThePoolGoesOn) {
  Sized sized(3);
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(pool().parallelFor(1000, 1,
                                    [&](int64_t begin, int64_t, unsigned) {
                                      if (begin >= 500)
                                        throw std::range_error("bad row");
                                    }),
                 std::range_error);
    std::atomic<int64_t> sum{0};
    pool().parallelFor(1000, 1, [&](int64_t b, int64_t e, unsigned) { sum += e - b; });
    EXPECT_EQ(sum, 1000);
  }
  EXPECT_THROW(pool().parallelFor(1, 1, [](int64_t, int64_t, unsigned) { throw std::range_error("alone"); }),
               std::range_error);
}

TEST(ThreadPool, BodiesRunUnderTheCallersFloatControl) {
  Sized sized(2);
  volatile float tiny = 1e-39f; // a denormal
  auto scaledSum = [&] {
    std::atomic<int> kept{0}, flushed{0};
    std::atomic<int> inside{0};
    pool().parallelFor(2, 1, [&](int64_t, int64_t, unsigned) {
      inside++;
      auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (inside < 2 && std::chrono::steady_clock::now() < limit) // one body on each thread
        std::this_thread::yield();
      (tiny * 0.5f != 0 ? kept : flushed)++;
    });
    return std::pair(kept.load(), flushed.load());
  };
  unsigned own = _mm_getcsr();
  EXPECT_EQ(scaledSum(), std::pair(2, 0));
  _mm_setcsr(own | 0x8040); // flush to zero, denormals are zero
  EXPECT_EQ(scaledSum(), std::pair(0, 2));
  _mm_setcsr(own);
  EXPECT_EQ(scaledSum(), std::pair(2, 0));
}

TEST(ThreadPool, SeveralCallersAtOnce) {
  Sized sized(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> total{0};
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        std::atomic<int64_t> sum{0};
        pool().parallelFor(97, 2, [&](int64_t b, int64_t e, unsigned) {
          for (int64_t i = b; i < e; ++i)
            sum += i;
        });
        total += sum;
      }
    });
  for (auto &caller : callers)
    caller.join();
  EXPECT_EQ(total, int64_t(4) * 200 * (96 * 97 / 2));
}

TEST(ThreadPool, ResizeIsRefusedInsideALoop) {
  Sized sized(2);
  EXPECT_THROW(pool().parallelFor(4, 1, [](int64_t, int64_t, unsigned) { pool().resize(3); }), std::logic_error);
  EXPECT_THROW(pool().resize(5000), std::invalid_argument);
  EXPECT_EQ(pool().size(), 2u);
}

TEST(ThreadPool, HugeCountsDoNotOverflow) {
  Sized sized(2);
  std::atomic<int64_t> covered{0};
  constexpr int64_t count = INT64_MAX - 5, grain = int64_t(1) << 60;
  pool().parallelFor(count, grain, [&](int64_t begin, int64_t end, unsigned) {
    EXPECT_LT(begin, end);
    covered += end - begin;
  });
  EXPECT_EQ(covered, count);
}
