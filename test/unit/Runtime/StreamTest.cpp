#include "tilewright/Runtime/Stream.h"
#include "tilewright/Runtime/Blocking.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>
#include <xmmintrin.h>

using namespace tilewright;

namespace {

/// Holds a stream's worker until it is opened.
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> future = promise.get_future().share();
  Stream::Task task() {
    return [f = future] { f.wait(); };
  }
  void open() { promise.set_value(); }
};

unsigned threadsOfThisProcess() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("Threads:"))
      return static_cast<unsigned>(std::stoul(line.substr(8)));
  return 0;
}

} // namespace

TEST(Stream, TasksRunInOrder) {
  auto stream = Stream::create(1);
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i)
    stream->enqueue([&order, i] { order.push_back(i); }, /*inlineIfIdle=*/i % 3 == 0);
  stream->synchronize();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(order[static_cast<size_t>(i)], i);
  EXPECT_EQ(stream->submitted(), 1000u);
  EXPECT_EQ(stream->completed(), 1000u);
  EXPECT_TRUE(stream->query());
}

TEST(Stream, TheCallerRunsAhead) {
  auto stream = Stream::create(1);
  Gate gate;
  std::atomic<bool> ran{false};
  stream->enqueue(gate.task());
  stream->enqueue([&] { ran = true; });
  EXPECT_FALSE(stream->query());
  EXPECT_FALSE(ran);
  gate.open();
  stream->synchronize();
  EXPECT_TRUE(ran);
}

TEST(Stream, TinyTasksRunInlineOnlyWhenIdle) {
  auto stream = Stream::create(1);
  unsigned threads = threadsOfThisProcess();
  std::thread::id where;
  stream->enqueue([&] { where = std::this_thread::get_id(); }, true);
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_EQ(threadsOfThisProcess(), threads) << "an inline task needs no worker";
  Gate gate;
  stream->enqueue(gate.task());
  stream->enqueue([&] { where = std::this_thread::get_id(); }, true);
  gate.open();
  stream->synchronize();
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(Stream, CallbacksNeverRunInline) {
  auto stream = Stream::create(1);
  std::thread::id where;
  stream->addCallback([&] { where = std::this_thread::get_id(); });
  stream->synchronize();
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(Stream, TheFirstErrorIsRaisedOnceAndTheStreamGoesOn) {
  auto stream = Stream::create(1);
  bool after = false;
  stream->enqueue([] { throw std::runtime_error("first"); });
  stream->enqueue([] { throw std::runtime_error("second"); });
  stream->enqueue([&] { after = true; });
  try {
    stream->synchronize();
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_TRUE(after);
  EXPECT_NO_THROW(stream->synchronize());
  stream->enqueue([] { throw std::runtime_error("inline"); }, true); // kept, like any other
  EXPECT_THROW(stream->synchronize(), std::runtime_error);
  stream->fail(std::make_exception_ptr(std::out_of_range("index")));
  EXPECT_THROW(stream->synchronize(), std::out_of_range);
  EXPECT_EQ(stream->takeError(), nullptr);
}

TEST(Stream, ClosuresAreGoneWhenTheWaitReturns) {
  auto stream = Stream::create(1);
  auto token = std::make_shared<int>(0);
  for (int i = 0; i < 100; ++i)
    stream->enqueue([token] {}, i % 2 == 0);
  stream->synchronize();
  EXPECT_EQ(token.use_count(), 1);
}

TEST(Stream, WaitingForItselfIsRefused) {
  auto stream = Stream::create(1), other = Stream::create(2);
  stream->enqueue([&] { stream->synchronize(); });
  EXPECT_THROW(stream->synchronize(), std::logic_error);
  // Also through another stream's inline task.
  stream->enqueue([&] { other->enqueue([&] { stream->synchronize(); }, true); });
  stream->synchronize();
  EXPECT_THROW(other->synchronize(), std::logic_error);
}

TEST(Stream, InsideTaskKnowsWhereItIs) {
  auto stream = Stream::create(1);
  EXPECT_FALSE(Stream::insideTask());
  bool inlined = false, queued = false;
  stream->enqueue([&] { inlined = Stream::insideTask(); }, true);
  stream->enqueue([&] { queued = Stream::insideTask(); });
  stream->synchronize();
  EXPECT_TRUE(inlined);
  EXPECT_TRUE(queued);
  EXPECT_FALSE(Stream::insideTask());
}

TEST(Stream, TasksRunUnderTheCallersFloatControl) {
  auto stream = Stream::create(1);
  volatile float tiny = 1e-39f;
  float withFlush = 1, without = 0, afterwards = 0;
  unsigned own = _mm_getcsr();
  _mm_setcsr(own | 0x8040);
  stream->enqueue([&] { withFlush = tiny * 0.5f; });
  _mm_setcsr(own);
  stream->enqueue([&] { without = tiny * 0.5f; });
  stream->enqueue([&] { _mm_setcsr(own | 0x8040); }); // a task that leaves its state behind
  stream->enqueue([&] { afterwards = tiny * 0.5f; });
  stream->synchronize();
  EXPECT_EQ(withFlush, 0);
  EXPECT_NE(without, 0);
  EXPECT_NE(afterwards, 0);
}

TEST(Stream, ManyProducers) {
  auto stream = Stream::create(1);
  int64_t sum = 0; // tasks are in order, so it needs no atomic
  std::vector<std::thread> producers;
  for (int t = 0; t < 4; ++t)
    producers.emplace_back([&] {
      for (int i = 0; i < 2000; ++i)
        stream->enqueue([&sum] { ++sum; }, i % 2 == 0);
    });
  for (auto &producer : producers)
    producer.join();
  stream->synchronize();
  EXPECT_EQ(sum, 8000);
}

TEST(Stream, AFullQueueHoldsTheCallerBack) {
  auto stream = Stream::create(1);
  Gate gate;
  std::atomic<int64_t> queued{0};
  stream->enqueue(gate.task());
  std::thread producer([&] {
    for (int i = 0; i < 40000; ++i) {
      stream->enqueue([] {});
      queued++;
    }
  });
  int64_t seen = -1;
  while (queued != seen) { // until it stands still
    seen = queued;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_LT(seen, 40000);
  EXPECT_GT(seen, 10000);
  gate.open();
  producer.join();
  stream->synchronize();
  EXPECT_EQ(queued, 40000);
}

TEST(Stream, WaitUntilATicket) {
  auto stream = Stream::create(1);
  Gate first, second;
  stream->enqueue(first.task());
  uint64_t ticket = stream->submitted();
  stream->enqueue(second.task());
  first.open();
  stream->waitUntil(ticket);
  EXPECT_GE(stream->completed(), ticket);
  EXPECT_FALSE(stream->query());
  second.open();
  stream->synchronize();
}

TEST(Stream, DestructionDrains) {
  std::atomic<int> ran{0};
  {
    auto stream = Stream::create(1);
    for (int i = 0; i < 100; ++i)
      stream->enqueue([&] { ran++; });
  }
  EXPECT_EQ(ran, 100);
}

TEST(Stream, BlockingHooksSurroundParkedWaits) {
  static std::atomic<int> entered{0}, left{0};
  entered = left = 0;
  setBlockingHooks({[]() -> void * {
                      entered++;
                      return &entered;
                    },
                    [](void *token) {
                      EXPECT_EQ(token, &entered);
                      left++;
                    }});
  auto stream = Stream::create(1);
  stream->enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  stream->synchronize();
  setBlockingHooks({});
  EXPECT_EQ(entered, 1);
  EXPECT_EQ(left, 1);
}

TEST(Copy, InOrderAndComplete) {
  auto stream = Stream::create(1);
  for (size_t bytes : {size_t(0), size_t(1), size_t(4097), size_t(300000), (size_t(9) << 20) + 3}) {
    std::vector<char> a(bytes), b(bytes), c(bytes);
    for (size_t i = 0; i < bytes; ++i)
      a[i] = static_cast<char>(i * 7 + i / 251);
    copyAsync(*stream, b.data(), a.data(), bytes);
    copyAsync(*stream, c.data(), b.data(), bytes);
    stream->synchronize();
    EXPECT_TRUE(bytes == 0 || std::memcmp(a.data(), c.data(), bytes) == 0) << bytes;
  }
}

TEST(Copy, OverlapIsLikeMemmove) {
  auto stream = Stream::create(1);
  size_t bytes = size_t(4) << 20;
  for (bool up : {false, true}) {
    std::vector<char> a(bytes + 100), wanted;
    for (size_t i = 0; i < a.size(); ++i)
      a[i] = static_cast<char>(i * 13 + i / 255);
    wanted = a;
    std::memmove(wanted.data() + (up ? 100 : 0), wanted.data() + (up ? 0 : 100), bytes);
    copyAsync(*stream, a.data() + (up ? 100 : 0), a.data() + (up ? 0 : 100), bytes);
    stream->synchronize();
    EXPECT_EQ(a, wanted);
  }
}
