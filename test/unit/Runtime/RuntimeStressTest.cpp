// Threads x streams x allocations x copies, seeded. Meant to be run under the thread sanitizer, and under the address
// and undefined-behaviour sanitizers; it checks the data as well.

#include "tilewright/Runtime/Allocator.h"
#include "tilewright/Runtime/Stream.h"
#include "tilewright/Runtime/ThreadPool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

using namespace tilewright;

namespace {

constexpr size_t MiB = size_t(1) << 20;

/// One thread's traffic: fills a block on one stream, copies it through others with events in between, and compares at
/// the end, while blocks are freed as soon as they are no longer needed by the host.
struct Worker {
  Allocator &memory;
  std::vector<Stream *> streams;
  std::mt19937_64 random;
  std::atomic<int64_t> &wrong;

  Stream &any() { return *streams[random() % streams.size()]; }

  void round() {
    size_t words = 1 + random() % (random() % 6 == 0 ? 400000 : 3000), bytes = words * sizeof(uint32_t);
    auto seed = static_cast<uint32_t>(random());
    Stream *stream = &any();
    Block *block = memory.allocate(bytes, *stream, Purpose::Tensor);
    auto *data = static_cast<uint32_t *>(block->data);
    stream->enqueue(
        [data, words, seed] {
          ThreadPool::instance().parallelFor(static_cast<int64_t>(words), 4096, [&](int64_t b, int64_t e, unsigned) {
            for (int64_t i = b; i < e; ++i)
              data[i] = seed + static_cast<uint32_t>(i) * 2654435761u;
          });
        },
        words < 1000);
    for (uint64_t hops = random() % 4; hops > 0; --hops) {
      Stream *next = &any();
      Block *copied = memory.allocate(bytes, *next, Purpose::Arena);
      Event filled;
      stream->record(filled);
      next->wait(filled);
      if (next != stream)
        memory.recordStream(block, *next);
      copyAsync(*next, copied->data, block->data, bytes);
      memory.free(block); // `next` still reads it
      block = copied;
      stream = next;
    }
    auto *result = static_cast<const uint32_t *>(block->data);
    if (memory.find(result + words / 2) != block)
      wrong++;
    stream->enqueue([result, words, seed, &wrong = wrong] {
      for (size_t i = 0; i < words; ++i)
        if (result[i] != seed + static_cast<uint32_t>(i) * 2654435761u) {
          wrong++;
          return;
        }
    });
    memory.free(block); // stream order keeps it
    switch (random() % 24) {
    case 0:
      stream->synchronize();
      break;
    case 1:
      memory.emptyCache();
      break;
    case 2:
      (void)memory.stats();
      (void)memory.snapshot();
      break;
    case 3: {
      Event event(true);
      stream->record(event);
      event.synchronize();
      break;
    }
    default:
      break;
    }
  }
};

void stress(Allocator &memory, int threads, int rounds, uint64_t seed) {
  unsigned old = ThreadPool::instance().size();
  ThreadPool::instance().resize(3);
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<Stream *> raw;
  for (int i = 0; i < 3; ++i) {
    streams.push_back(Stream::create(i));
    raw.push_back(streams.back().get());
  }
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      Worker worker{memory, raw, std::mt19937_64(seed + static_cast<uint64_t>(t)), wrong};
      for (int i = 0; i < rounds; ++i)
        worker.round();
    });
  for (auto &worker : workers)
    worker.join();
  for (auto &stream : streams)
    stream->synchronize();
  EXPECT_EQ(wrong, 0);
  memory.emptyCache();
  MemoryStats s = memory.stats();
  EXPECT_EQ(s.allocation[0].current, 0);
  EXPECT_EQ(s.active[0].current, 0);
  EXPECT_EQ(s.reservedBytes[0].current, 0);
  EXPECT_EQ(s.allocation[0].allocated, s.allocation[0].freed);
  ThreadPool::instance().resize(old);
}

} // namespace

TEST(RuntimeStress, Caching) {
  auto memory = Allocator::createCaching(512 * MiB);
  stress(*memory, 4, 400, 1);
}

TEST(RuntimeStress, CachingWhereMemoryIsShort) {
  // Enough for what four threads hold at once, too little for what they would cache: allocation waits and releases.
  auto memory = Allocator::createCaching(96 * MiB);
  stress(*memory, 4, 300, 2);
}

TEST(RuntimeStress, Guard) {
  auto memory = Allocator::createGuard(512 * MiB);
  stress(*memory, 4, 200, 3);
}
