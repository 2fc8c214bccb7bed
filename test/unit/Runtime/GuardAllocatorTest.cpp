#include "tilewright/Runtime/Allocator.h"
#include "tilewright/Runtime/Stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>

using namespace tilewright;

namespace {

struct GuardAllocatorTest : ::testing::Test {
  std::unique_ptr<Stream> stream = Stream::create(1), other = Stream::create(2);
  std::unique_ptr<Allocator> memory = Allocator::createGuard(size_t(256) << 20);
  Block *get(size_t bytes, Purpose purpose = Purpose::Tensor) { return memory->allocate(bytes, *stream, purpose); }
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};
using GuardAllocatorDeathTest = GuardAllocatorTest;

void read(const void *address) { (void)*static_cast<const volatile char *>(address); }

// Sanitizers turn the fault into a report and an exit code of their own.
#define EXPECT_FAULT(statement) EXPECT_EXIT(statement, ([](int status) { return status != 0; }), "")

} // namespace

TEST_F(GuardAllocatorDeathTest, TheByteAfterATensorFaultsForEverySize) {
  for (size_t bytes : {1, 4, 7, 28, 64, 4095, 4096, 4097, 100000}) {
    Block *block = get(bytes);
    auto *end = static_cast<char *>(block->data) + bytes;
    std::memset(block->data, 1, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(end) % 4096, 0u) << bytes;
    memory->free(block);
  }
  auto *floats = static_cast<float *>(get(7 * sizeof(float))->data);
  EXPECT_FAULT(read(floats + 7));
}

TEST_F(GuardAllocatorDeathTest, BeforeTheFirstPageFaults) {
  auto *data = static_cast<char *>(get(4096)->data);
  EXPECT_FAULT(read(data - 1));
}

TEST_F(GuardAllocatorTest, AlignmentFollowsTheSize) {
  for (size_t bytes : {64, 128, 64 * 33, 4096 + 64})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(get(bytes)->data) % 64, 0u);
  for (size_t bytes : {8, 24, 4104})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(get(bytes)->data) % 8, 0u);
  for (size_t bytes : {1, 100, 4100}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(get(bytes, Purpose::Arena)->data) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(get(bytes, Purpose::Packed)->data) % 64, 0u);
  }
}

TEST_F(GuardAllocatorTest, FreshMemoryIsNaN) {
  Block *block = get(1000 * sizeof(float));
  auto *f = static_cast<float *>(block->data);
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(std::isnan(f[i]));
  std::memset(f, 0, 1000 * sizeof(float));
  memory->free(block);
  block = get(1000 * sizeof(float)); // also where addresses come again
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(std::isnan(static_cast<float *>(block->data)[i]));
  auto *d = static_cast<double *>(get(80)->data);
  EXPECT_TRUE(std::isnan(d[9]));
}

TEST_F(GuardAllocatorDeathTest, FreedMemoryFaults) {
  Block *block = get(4096);
  auto *data = static_cast<char *>(block->data);
  memory->free(block);
  EXPECT_FAULT(read(data));
  EXPECT_EQ(memory->stats().reservedBytes[0].current, 0);
}

TEST_F(GuardAllocatorTest, FreedMemoryStaysUntilItsStreamsHavePassed) {
  for (Stream *user : {stream.get(), other.get()}) {
    std::promise<void> promise;
    Block *block = get(4096);
    auto *data = static_cast<char *>(block->data);
    memory->recordStream(block, *user);
    user->enqueue([future = promise.get_future().share()] { future.wait(); });
    char seen = 1;
    user->enqueue([data, &seen] { seen = *data; });
    memory->free(block);
    EXPECT_EQ(memory->find(data), nullptr);
    EXPECT_EQ(memory->stats().active[0].current, 1);
    promise.set_value();
    user->synchronize();
    EXPECT_EQ(seen, static_cast<char>(0xff));
    memory->emptyCache();
    EXPECT_EQ(memory->stats().active[0].current, 0);
    EXPECT_EQ(memory->stats().reservedBytes[0].current, 0);
  }
}

TEST_F(GuardAllocatorDeathTest, WritesIntoTheRestOfThePageAreFoundAtFree) {
  Block *arena = get(100, Purpose::Arena); // 28 bytes of slack
  auto *data = static_cast<char *>(arena->data);
  EXPECT_EXIT(
      {
        data[103] = 0;
        memory->free(arena);
      },
      ::testing::KilledBySignal(SIGABRT), "100 bytes \\(arena\\) was written 4 bytes past its end");
  EXPECT_EXIT(
      {
        data[-2] = 0;
        memory->free(arena);
      },
      ::testing::KilledBySignal(SIGABRT), "written 2 bytes before its start");
  memory->free(arena);
}

TEST_F(GuardAllocatorTest, FindsBlocks) {
  Block *a = get(100), *b = get(5000);
  EXPECT_EQ(memory->find(a->data), a);
  EXPECT_EQ(memory->find(static_cast<char *>(b->data) + 4999), b);
  EXPECT_EQ(memory->find(static_cast<char *>(b->data) + 5000), nullptr);
  EXPECT_EQ(memory->find(static_cast<char *>(b->data) - 1), nullptr);
}

TEST_F(GuardAllocatorTest, LimitAndDoubleFree) {
  memory->setLimit(8192);
  Block *block = get(4097);
  EXPECT_THROW(get(1), OutOfMemory);
  std::promise<void> promise;
  memory->recordStream(block, *other);
  other->enqueue([future = promise.get_future().share()] { future.wait(); });
  memory->free(block);
  EXPECT_THROW(memory->free(block), std::logic_error);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    promise.set_value();
  });
  EXPECT_NO_THROW(get(8192)); // waits for the pending free
  opener.join();
}

TEST_F(GuardAllocatorTest, ManyBlocks) {
  // More than the quarantine holds, and than the kernel's map entries would bear if nothing were given back.
  for (int i = 0; i < 20000; ++i)
    memory->free(get(64));
  MemoryStats s = memory->stats();
  EXPECT_EQ(s.allocation[0].allocated, 20000);
  EXPECT_EQ(s.active[0].current, 0);
  EXPECT_EQ(s.reservedBytes[0].current, 0);
}

TEST_F(GuardAllocatorTest, Snapshot) {
  get(5000, Purpose::Arena);
  auto segments = memory->snapshot();
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].bytes, 8192u);
  EXPECT_EQ(segments[0].pieces[0].requested, 5000u);
  EXPECT_EQ(segments[0].pieces[0].purpose, Purpose::Arena);
}
