#include "tilewright/Runtime/Allocator.h"
#include "tilewright/Runtime/HostMemory.h"
#include "tilewright/Runtime/Stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <random>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define TILEWRIGHT_TEST_ASAN 1
#endif
#endif

using namespace tilewright;
using ::testing::HasSubstr;

namespace {

constexpr size_t KiB = 1024, MiB = 1024 * KiB;

struct Gate {
  std::promise<void> promise;
  std::shared_future<void> future = promise.get_future().share();
  Stream::Task task() {
    return [f = future] { f.wait(); };
  }
  void open() { promise.set_value(); }
};

struct CachingAllocatorTest : ::testing::Test {
  std::unique_ptr<Stream> stream = Stream::create(1), other = Stream::create(2);
  std::unique_ptr<Allocator> memory = Allocator::createCaching(256 * MiB);

  Block *get(size_t bytes, Purpose purpose = Purpose::Tensor) { return memory->allocate(bytes, *stream, purpose); }

  /// What must hold of every segment, and that the statistics say the same.
  void check() {
    MemoryStats s = memory->stats();
    int64_t live = 0, liveBytes = 0, active = 0, reserved = 0, inactive = 0, inactiveBytes = 0, requested = 0;
    for (const MemorySegment &segment : memory->snapshot()) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(segment.data) % (2 * MiB), 0u);
      EXPECT_EQ(segment.bytes % (2 * MiB), 0u);
      reserved += static_cast<int64_t>(segment.bytes);
      auto *at = static_cast<const char *>(segment.data);
      bool freeBefore = false;
      for (const auto &piece : segment.pieces) {
        EXPECT_EQ(piece.data, at);
        EXPECT_EQ(piece.bytes % 64, 0u);
        at += piece.bytes;
        bool free = piece.state == MemorySegment::State::Free;
        EXPECT_FALSE(free && freeBefore) << "neighbours were not merged";
        freeBefore = free;
        auto bytes = static_cast<int64_t>(piece.bytes);
        if (free) {
          inactive += segment.pieces.size() > 1;
          inactiveBytes += segment.pieces.size() > 1 ? bytes : 0;
        } else {
          active++;
        }
        if (piece.state == MemorySegment::State::Live) {
          live++;
          liveBytes += bytes;
          requested += static_cast<int64_t>(piece.requested);
        }
      }
      EXPECT_EQ(at, static_cast<const char *>(segment.data) + segment.bytes);
    }
    EXPECT_EQ(s.allocation[0].current, live);
    EXPECT_EQ(s.allocatedBytes[0].current, liveBytes);
    EXPECT_EQ(s.requestedBytes[0].current, requested);
    EXPECT_EQ(s.active[0].current, active);
    EXPECT_EQ(s.reservedBytes[0].current, reserved);
    EXPECT_EQ(s.inactiveSplit[0].current, inactive);
    EXPECT_EQ(s.inactiveSplitBytes[0].current, inactiveBytes);
    for (auto *stat : {&s.allocation, &s.segment, &s.active, &s.inactiveSplit, &s.allocatedBytes, &s.reservedBytes,
                       &s.activeBytes, &s.inactiveSplitBytes, &s.requestedBytes}) {
      EXPECT_EQ((*stat)[0].current, (*stat)[1].current + (*stat)[2].current);
      EXPECT_GE((*stat)[0].peak, (*stat)[0].current);
      EXPECT_GE((*stat)[1].current, 0);
      EXPECT_GE((*stat)[2].current, 0);
    }
  }
};

} // namespace

TEST_F(CachingAllocatorTest, NothingForNothing) {
  EXPECT_EQ(get(0), nullptr);
  EXPECT_NO_THROW(memory->free(nullptr));
  EXPECT_EQ(memory->stats().reservedBytes[0].current, 0);
}

TEST_F(CachingAllocatorTest, BlocksAreAlignedDisjointAndWritable) {
  std::vector<Block *> blocks;
  for (size_t bytes :
       {size_t(1), size_t(63), size_t(64), size_t(65), 3 * KiB, 1 * MiB - 1, 1 * MiB, 3 * MiB + 5, 11 * MiB}) {
    Block *block = get(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data) % 64, 0u);
    EXPECT_GE(block->bytes, bytes);
    EXPECT_EQ(block->requested, bytes);
    EXPECT_EQ(block->stream, stream.get());
    std::memset(block->data, static_cast<int>(blocks.size() + 1), bytes);
    blocks.push_back(block);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    auto *data = static_cast<unsigned char *>(blocks[i]->data);
    EXPECT_EQ(data[0], i + 1);
    EXPECT_EQ(data[blocks[i]->requested - 1], i + 1);
  }
  check();
  for (Block *block : blocks)
    memory->free(block);
  check();
  EXPECT_EQ(memory->stats().allocatedBytes[0].current, 0);
  EXPECT_EQ(memory->stats().inactiveSplit[0].current, 0) << "all merged";
}

TEST_F(CachingAllocatorTest, PoolsByTheDeclaredSizes) {
  get(1 * MiB - 32 * KiB);
  EXPECT_EQ(memory->stats().reservedBytes[1].current, int64_t(2 * MiB));
  EXPECT_EQ(memory->stats().reservedBytes[2].current, 0);
  get(1 * MiB);
  EXPECT_EQ(memory->stats().reservedBytes[2].current, int64_t(20 * MiB));
  get(30 * MiB);
  EXPECT_EQ(memory->stats().reservedBytes[2].current, int64_t(50 * MiB));
  EXPECT_EQ(memory->stats().segment[0].current, 3);
}

TEST_F(CachingAllocatorTest, RoundingWastesAtMostThreePercent) {
  for (size_t bytes = 2048; bytes < 40 * MiB; bytes = bytes * 21 / 20 + 1) {
    Block *block = get(bytes);
    EXPECT_LE(static_cast<double>(block->bytes), static_cast<double>(bytes) * 1.033) << bytes;
    memory->free(block);
  }
}

TEST_F(CachingAllocatorTest, FreedOnItsStreamIsReusableAtOnce) {
  Gate gate;
  stream->enqueue(gate.task());
  Block *block = get(5 * MiB);
  void *data = block->data;
  memory->free(block); // the stream has not passed, and need not have
  EXPECT_EQ(get(5 * MiB)->data, data);
  gate.open();
}

TEST_F(CachingAllocatorTest, OtherStreamsGetOtherMemory) {
  Block *block = get(5 * MiB);
  void *data = block->data;
  memory->free(block);
  Block *foreign = memory->allocate(5 * MiB, *other, Purpose::Tensor);
  EXPECT_NE(foreign->data, data);
  EXPECT_EQ(memory->stats().segment[0].current, 2);
}

TEST_F(CachingAllocatorTest, ARecordedStreamHoldsTheBlock) {
  Gate gate;
  other->enqueue(gate.task());
  Block *block = get(5 * MiB);
  void *data = block->data;
  memory->recordStream(block, *other);
  memory->free(block);
  EXPECT_EQ(memory->find(data), nullptr);
  MemoryStats s = memory->stats();
  EXPECT_EQ(s.allocation[0].current, 0);
  EXPECT_EQ(s.active[0].current, 1);
  Block *second = get(5 * MiB);
  EXPECT_NE(second->data, data);
  check();
  gate.open();
  other->synchronize();
  memory->free(second);
  EXPECT_EQ(memory->stats().active[0].current, 0);
  check();
}

TEST_F(CachingAllocatorTest, WorkAfterTheFreeDoesNotHoldTheBlock) {
  Block *block = get(5 * MiB);
  void *data = block->data;
  other->enqueue([] {});
  memory->recordStream(block, *other);
  other->synchronize();
  memory->free(block);
  Gate gate;
  other->enqueue(gate.task());
  EXPECT_EQ(get(5 * MiB)->data, data);
  gate.open();
}

TEST_F(CachingAllocatorTest, SplitAndMerge) {
  Block *a = get(4 * MiB), *b = get(4 * MiB), *c = get(4 * MiB);
  EXPECT_EQ(memory->stats().segment[0].current, 1);
  check();
  memory->free(a);
  memory->free(c);
  check();
  memory->free(b);
  check();
  EXPECT_EQ(memory->stats().inactiveSplit[0].current, 0);
  get(20 * MiB); // whole again
  EXPECT_EQ(memory->stats().segment[0].current, 1);
}

TEST_F(CachingAllocatorTest, TheBestFitIsTaken) {
  std::vector<Block *> keep, holes;
  for (size_t size : {3 * MiB, 2 * MiB, 4 * MiB}) {
    holes.push_back(get(size));
    keep.push_back(get(1 * MiB));
  }
  void *wanted = holes[1]->data;
  for (Block *hole : holes)
    memory->free(hole);
  EXPECT_EQ(get(2 * MiB - 4096)->data, static_cast<char *>(wanted) + 4096);
  check();
}

TEST_F(CachingAllocatorTest, FindsTheBlockOfAnAddress) {
  std::mt19937_64 random(7);
  std::vector<Block *> blocks;
  for (int i = 0; i < 400; ++i)
    blocks.push_back(get(1 + random() % (i % 10 == 0 ? 3 * MiB : 5 * KiB)));
  for (Block *block : blocks) {
    auto *data = static_cast<char *>(block->data);
    EXPECT_EQ(memory->find(data), block);
    EXPECT_EQ(memory->find(data + block->requested / 2), block);
    EXPECT_EQ(memory->find(data + block->requested - 1), block);
  }
  int local;
  EXPECT_EQ(memory->find(&local), nullptr);
  EXPECT_EQ(memory->find(nullptr), nullptr);
  EXPECT_EQ(memory->find(reinterpret_cast<void *>(~uintptr_t(0))), nullptr);
  for (size_t i = 0; i < blocks.size(); i += 2) {
    void *data = blocks[i]->data;
    memory->free(blocks[i]);
    EXPECT_EQ(memory->find(data), nullptr);
  }
  for (size_t i = 1; i < blocks.size(); i += 2)
    EXPECT_EQ(memory->find(blocks[i]->data), blocks[i]);
}

TEST_F(CachingAllocatorTest, EpochsAreUniqueAndFresh) {
  Block *a = get(64), *b = get(64);
  uint64_t first = a->epoch;
  EXPECT_NE(first, 0u);
  EXPECT_NE(first, b->epoch);
  a->touch();
  EXPECT_NE(a->epoch, first);
  EXPECT_NE(a->epoch, b->epoch);
  uint64_t before = a->epoch;
  memory->free(a);
  EXPECT_NE(get(64)->epoch, before) << "new contents at the old address";
}

TEST_F(CachingAllocatorTest, HandedOutIsCleared) {
  Block *a = get(64);
  a->handedOut = true;
  void *data = a->data;
  memory->free(a);
  Block *b = get(64);
  ASSERT_EQ(b->data, data);
  EXPECT_FALSE(b->handedOut);
}

TEST_F(CachingAllocatorTest, StatisticsByPurpose) {
  Block *arena = get(3 * MiB, Purpose::Arena);
  get(64, Purpose::Packed);
  MemoryStats s = memory->stats();
  EXPECT_EQ(s.byPurpose[static_cast<size_t>(Purpose::Arena)].current, int64_t(3 * MiB));
  EXPECT_EQ(s.byPurpose[static_cast<size_t>(Purpose::Packed)].current, 64);
  memory->free(arena);
  s = memory->stats();
  EXPECT_EQ(s.byPurpose[static_cast<size_t>(Purpose::Arena)].current, 0);
  EXPECT_EQ(s.byPurpose[static_cast<size_t>(Purpose::Arena)].peak, int64_t(3 * MiB));
  EXPECT_EQ(s.byPurpose[static_cast<size_t>(Purpose::Arena)].freed, int64_t(3 * MiB));
}

TEST_F(CachingAllocatorTest, PeaksAndTotalsAreReset) {
  memory->free(get(8 * MiB));
  EXPECT_EQ(memory->stats().allocatedBytes[0].peak, int64_t(8 * MiB));
  memory->resetPeak();
  EXPECT_EQ(memory->stats().allocatedBytes[0].peak, 0);
  EXPECT_EQ(memory->stats().allocatedBytes[0].allocated, int64_t(8 * MiB));
  memory->resetAccumulated();
  EXPECT_EQ(memory->stats().allocatedBytes[0].allocated, 0);
  EXPECT_EQ(memory->stats().allocatedBytes[0].freed, 0);
}

TEST_F(CachingAllocatorTest, EmptyCacheGivesUnusedSegmentsBack) {
  Block *keep = get(64), *big = get(30 * MiB);
  memory->free(big);
  EXPECT_EQ(memory->stats().reservedBytes[0].current, int64_t(32 * MiB));
  memory->emptyCache();
  EXPECT_EQ(memory->stats().reservedBytes[0].current, int64_t(2 * MiB));
  EXPECT_EQ(memory->stats().deviceFrees, 1);
  memory->free(keep);
  memory->emptyCache();
  EXPECT_EQ(memory->stats().reservedBytes[0].current, 0);
}

TEST_F(CachingAllocatorTest, MemoryIsNotUnmappedBeforeItsStreamHasPassed) {
  Block *block = get(30 * MiB);
  auto *data = static_cast<char *>(block->data);
  Gate gate;
  stream->enqueue(gate.task());
  stream->enqueue([data] { std::memset(data, 1, 30 * MiB); }); // a fault, if it were
  memory->free(block);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    gate.open();
  });
  memory->emptyCache();
  EXPECT_TRUE(stream->query());
  EXPECT_EQ(memory->stats().reservedBytes[0].current, 0);
  opener.join();
}

TEST_F(CachingAllocatorTest, InsideATaskOnlyWhatHasPassedIsReleased) {
  Block *block = get(30 * MiB);
  int64_t reserved = 0;
  stream->enqueue([&] {
    memory->free(block);
    memory->emptyCache(); // this very task is not over: must neither wait nor unmap
    reserved = memory->stats().reservedBytes[0].current;
  });
  stream->synchronize();
  EXPECT_EQ(reserved, int64_t(30 * MiB));
  memory->emptyCache();
  EXPECT_EQ(memory->stats().reservedBytes[0].current, 0);
}

TEST_F(CachingAllocatorTest, ShortMemoryReleasesWhatOtherStreamsCache) {
  memory->setLimit(64 * MiB);
  memory->free(memory->allocate(40 * MiB, *other, Purpose::Tensor));
  EXPECT_NO_THROW(get(40 * MiB));
  EXPECT_EQ(memory->stats().allocRetries, 1);
  EXPECT_EQ(memory->stats().outOfMemoryCount, 0);
  check();
}

TEST_F(CachingAllocatorTest, ShortMemoryWaitsForPendingFrees) {
  memory->setLimit(64 * MiB);
  Block *block = get(40 * MiB);
  memory->recordStream(block, *other);
  Gate gate;
  other->enqueue(gate.task());
  memory->free(block);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    gate.open();
  });
  EXPECT_NO_THROW(get(40 * MiB));
  EXPECT_EQ(memory->stats().syncAllStreams, 1);
  opener.join();
}

TEST_F(CachingAllocatorTest, ATightLimitStillTakesTheBlockAlone) {
  memory->setLimit(6 * MiB);
  EXPECT_NO_THROW(get(5 * MiB)); // no shared segment of 20 MiB
}

TEST_F(CachingAllocatorTest, OutOfMemorySaysWhatIsHeld) {
  memory->setLimit(64 * MiB);
  Block *a = get(20 * MiB), *b = get(12 * MiB, Purpose::Packed), *c = get(12 * MiB, Purpose::Packed);
  try {
    get(24 * MiB, Purpose::Arena);
    FAIL();
  } catch (const OutOfMemory &error) {
    std::string text = error.what();
    EXPECT_THAT(text, HasSubstr("asked 24.00 MiB (arena)"));
    EXPECT_THAT(text, HasSubstr("held 44.00 MiB in 3 blocks"));
    EXPECT_THAT(text, HasSubstr("reserved 44.00 MiB"));
    EXPECT_THAT(text, HasSubstr("limit 64.00 MiB"));
    EXPECT_THAT(text, HasSubstr("20.00 MiB tensor, 2 x 12.00 MiB packed weights"));
    EXPECT_THAT(text, HasSubstr("TILEWRIGHT_MEMORY_LIMIT"));
  }
  EXPECT_EQ(memory->stats().outOfMemoryCount, 1);
  memory->free(a);
  EXPECT_NO_THROW(get(24 * MiB)); // the device stays usable
  memory->free(b);
  memory->free(c);
  check();
}

TEST_F(CachingAllocatorTest, AbsurdSizesAreOutOfMemory) {
  memory->setLimit(SIZE_MAX);
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 4096, size_t(1) << 63, size_t(1) << 47})
    EXPECT_THROW(get(bytes), OutOfMemory) << bytes;
}

TEST_F(CachingAllocatorTest, LoweringTheLimitHoldsForWhatComes) {
  Block *block = get(40 * MiB);
  memory->setLimit(10 * MiB);
  EXPECT_EQ(memory->limit(), 10 * MiB);
  EXPECT_THROW(get(11 * MiB), OutOfMemory);
  memory->free(block);
  EXPECT_NO_THROW(get(8 * MiB)); // from what is reserved still
}

TEST_F(CachingAllocatorTest, DoubleFreeIsRefused) {
  Block *block = get(5 * MiB);
  get(1 * MiB); // keeps the segment
  memory->free(block);
  EXPECT_THROW(memory->free(block), std::logic_error);
}

TEST_F(CachingAllocatorTest, AStreamThatGoesLeavesItsMemory) {
  Block *live, *recorded = get(3 * MiB);
  void *cached;
  {
    auto passing = Stream::create(3);
    live = memory->allocate(3 * MiB, *passing, Purpose::Tensor);
    Block *freed = memory->allocate(3 * MiB, *passing, Purpose::Tensor);
    cached = freed->data;
    memory->free(freed);
    memory->recordStream(recorded, *passing);
    passing->enqueue([] {});
    memory->migrate(*passing, *stream);
  }
  EXPECT_EQ(live->stream, stream.get());
  EXPECT_EQ(memory->find(live->data), live);
  memory->free(live);
  memory->free(recorded);
  check();
  memory->emptyCache();
  EXPECT_EQ(memory->stats().reservedBytes[0].current, 0);
  (void)cached;
}

TEST_F(CachingAllocatorTest, RandomSequencesKeepTheBooks) {
  std::mt19937_64 random(2024);
  std::vector<std::pair<Block *, unsigned char>> live;
  Stream *streams[] = {stream.get(), other.get()};
  for (int step = 0; step < 4000; ++step) {
    if (live.size() < 60 && random() % 2) {
      size_t bytes = 1 + random() % (random() % 8 == 0 ? 4 * MiB : 20 * KiB);
      Block *block = memory->allocate(bytes, *streams[random() % 2], static_cast<Purpose>(random() % 3));
      auto mark = static_cast<unsigned char>(random());
      std::memset(block->data, mark, bytes);
      live.push_back({block, mark});
    } else if (!live.empty()) {
      size_t i = random() % live.size();
      auto [block, mark] = live[i];
      auto *data = static_cast<unsigned char *>(block->data);
      ASSERT_EQ(data[0], mark);
      ASSERT_EQ(data[block->requested / 2], mark);
      ASSERT_EQ(data[block->requested - 1], mark);
      if (random() % 4 == 0) {
        memory->recordStream(block, *streams[random() % 2]);
        streams[random() % 2]->enqueue([] {});
      }
      memory->free(block);
      live[i] = live.back();
      live.pop_back();
    }
    if (random() % 500 == 0)
      memory->emptyCache();
    if (step % 200 == 0)
      check();
  }
  for (auto [block, mark] : live)
    memory->free(block);
  memory->emptyCache();
  check();
}

#ifdef TILEWRIGHT_TEST_ASAN
TEST_F(CachingAllocatorTest, FreeMemoryIsPoisonedUnderTheAddressSanitizer) {
  Block *a = get(1000), *b = get(1000);
  auto *data = static_cast<char *>(a->data);
  EXPECT_FALSE(__asan_address_is_poisoned(data));
  EXPECT_FALSE(__asan_address_is_poisoned(data + 999));
  EXPECT_TRUE(__asan_address_is_poisoned(data + 1000)) << "behind what was asked for";
  memory->free(a);
  EXPECT_TRUE(__asan_address_is_poisoned(data));
  EXPECT_FALSE(__asan_address_is_poisoned(b->data));
  // While tasks are queued that may use it in stream order, it stays accessible.
  Gate gate;
  stream->enqueue(gate.task());
  auto *other = static_cast<char *>(b->data);
  stream->enqueue([other] { std::memset(other, 1, 1000); });
  memory->free(b);
  EXPECT_FALSE(__asan_address_is_poisoned(other));
  gate.open();
  stream->synchronize();
}
#endif

TEST_F(CachingAllocatorTest, SummaryIsATable) {
  get(3 * MiB, Purpose::Arena);
  std::string text = memory->summary();
  EXPECT_THAT(text, HasSubstr("reserved memory"));
  EXPECT_THAT(text, HasSubstr("20.00 MiB"));
  EXPECT_THAT(text, HasSubstr("for arena"));
  EXPECT_THAT(text, HasSubstr("limit 256.00 MiB"));
}

TEST(PinnedAllocator, PageAlignedCachedAndKnown) {
  PinnedAllocator &pinned = PinnedAllocator::instance();
  EXPECT_EQ(pinned.allocate(0), nullptr);
  std::vector<Block *> blocks;
  for (size_t bytes : {size_t(1), size_t(4096), size_t(5000), 3 * MiB + 1}) {
    Block *block = pinned.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data) % 4096, 0u);
    EXPECT_EQ(block->purpose, Purpose::Pinned);
    EXPECT_TRUE(pinned.isPinned(static_cast<char *>(block->data) + bytes - 1));
    blocks.push_back(block);
  }
  int local;
  EXPECT_FALSE(pinned.isPinned(&local));
  void *data = blocks[1]->data;
  for (Block *block : blocks)
    pinned.free(block);
  EXPECT_FALSE(pinned.isPinned(data));
}

TEST(PinnedAllocator, AFreedBlockWaitsForItsStreams) {
  PinnedAllocator &pinned = PinnedAllocator::instance();
  auto stream = Stream::create(1);
  Gate gate;
  Block *block = pinned.allocate(3 * MiB);
  void *data = block->data;
  stream->enqueue(gate.task());
  pinned.recordStream(block, *stream);
  pinned.free(block);
  Block *second = pinned.allocate(3 * MiB);
  EXPECT_NE(second->data, data);
  gate.open();
  stream->synchronize();
  pinned.free(second);
  pinned.memory().emptyCache();
  EXPECT_EQ(pinned.memory().stats().reservedBytes[0].current, 0);
}
