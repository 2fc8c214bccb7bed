#include "tilewright/Runtime/Allocator.h"
#include "tilewright/Runtime/Device.h"
#include "tilewright/Runtime/Stream.h"
#include "tilewright/Runtime/ThreadPool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <future>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace tilewright;

namespace {

/// Runs a check in a forked child; the index of the first check that failed, 0 if all held. A child that hangs is
/// killed.
template <typename F> int inChild(F &&checks) {
  pid_t child = fork();
  if (child == 0) {
    alarm(30);
    int status = 120;
    try {
      status = checks();
    } catch (...) {
      status = 121;
    }
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int64_t sumOnPool() {
  std::atomic<int64_t> sum{0};
  ThreadPool::instance().parallelFor(1000, 1, [&](int64_t begin, int64_t end, unsigned) {
    for (int64_t i = begin; i < end; ++i)
      sum += i;
  });
  return sum;
}

// The thread sanitizer does not let a child of a process with threads start threads.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SKIP_UNDER_TSAN() GTEST_SKIP() << "the thread sanitizer refuses threads in a forked child"
#endif
#endif
#ifndef SKIP_UNDER_TSAN
#define SKIP_UNDER_TSAN() (void)0
#endif

} // namespace

TEST(Fork, ThePoolIsRebuiltInTheChild) {
  SKIP_UNDER_TSAN();
  unsigned old = ThreadPool::instance().size();
  ThreadPool::instance().resize(4);
  EXPECT_EQ(sumOnPool(), 499500);
  EXPECT_EQ(inChild([] {
              if (sumOnPool() != 499500)
                return 1;
              ThreadPool::instance().resize(2);
              return sumOnPool() == 499500 ? 0 : 2;
            }),
            0);
  EXPECT_EQ(sumOnPool(), 499500);
  ThreadPool::instance().resize(old);
}

TEST(Fork, LoopsOfOtherThreadsDoNotHoldTheChild) {
  SKIP_UNDER_TSAN();
  unsigned old = ThreadPool::instance().size();
  ThreadPool::instance().resize(3);
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 2; ++i)
    busy.emplace_back([&] {
      while (!stop)
        EXPECT_EQ(sumOnPool(), 499500);
    });
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(inChild([] { return sumOnPool() == 499500 ? 0 : 1; }), 0);
  stop = true;
  for (auto &thread : busy)
    thread.join();
  ThreadPool::instance().resize(old);
}

TEST(Fork, AStreamThatWasUsedRefusesInTheChild) {
  SKIP_UNDER_TSAN();
  auto used = Stream::create(1), fresh = Stream::create(2);
  std::promise<void> gate;
  used->enqueue([future = gate.get_future().share()] { future.wait(); });
  EXPECT_EQ(inChild([&] {
              if (!used->query())
                return 1;
              used->synchronize(); // returns at once
              Event event;
              for (auto refused :
                   {+[](Stream &s, Event &) { s.enqueue([] {}); }, +[](Stream &s, Event &e) { s.record(e); },
                    +[](Stream &s, Event &e) { s.wait(e); }}) {
                try {
                  refused(*used, event);
                  return 2;
                } catch (const std::runtime_error &error) {
                  if (std::string(error.what()).find("fork()") == std::string::npos)
                    return 3;
                }
              }
              used.reset(); // does not join the parent's thread
              int ran = 0;
              fresh->enqueue([&] { ran = 1; });
              fresh->synchronize();
              return ran == 1 ? 0 : 4;
            }),
            0);
  gate.set_value();
  used->synchronize();
}

TEST(Fork, MemoryCanBeFreedInTheChild) {
  SKIP_UNDER_TSAN();
  auto stream = Stream::create(1), other = Stream::create(2);
  for (auto make : {Allocator::createCaching, Allocator::createGuard}) {
    auto memory = make(size_t(64) << 20);
    Block *block = memory->allocate(5000, *stream), *recorded = memory->allocate(5000, *stream);
    std::promise<void> gate;
    other->enqueue([future = gate.get_future().share()] { future.wait(); });
    memory->recordStream(recorded, *other);
    // Another thread is in the allocator all the time.
    std::atomic<bool> stop{false};
    std::thread busy([&] {
      while (!stop)
        memory->free(memory->allocate(100, *stream));
    });
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(inChild([&] {
                  memory->free(block);
                  memory->free(recorded); // its stream never passes here
                  memory->emptyCache();
                  return memory->stats().allocation[0].current <= 1 ? 0 : 1;
                }),
                0);
    stop = true;
    busy.join();
    gate.set_value();
    other->synchronize();
    memory->free(block);
    memory->free(recorded);
  }
}

TEST(Fork, TheDeviceKnowsWhetherItWasUsed) {
  SKIP_UNDER_TSAN();
  // In a child of our own, so that what other tests did to the device does not count... unless they ran before.
  bool before =
      Device::instance().allocator().stats().deviceAllocs > 0 || Device::instance().defaultStream().submitted() > 0;
  EXPECT_FALSE(Device::usedBeforeFork());
  if (!before)
    EXPECT_EQ(inChild([] {
                if (Device::usedBeforeFork())
                  return 1;
                Device &device = Device::instance();
                device.allocator().free(device.allocator().allocate(100, device.defaultStream()));
                device.defaultStream().enqueue([] {});
                device.synchronize();
                return Device::usedBeforeFork() ? 2 : 0;
              }),
              0);
  Device::instance().defaultStream().enqueue([] {}, true);
  EXPECT_EQ(inChild([] { return Device::usedBeforeFork() ? 0 : 1; }), 0);
  EXPECT_FALSE(Device::usedBeforeFork()) << "the parent goes on";
}
