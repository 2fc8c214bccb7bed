// What the runtime's own machinery costs: launches, hand-overs, parallel loops, allocations. The thresholds in
// lib/Runtime quote it. Times are in microseconds; the least and the 10% quantile say what the machine can do, the
// median what a busy one does.
//
//   clang++-19 -std=c++20 -O3 -Iinclude bench/runtime_overheads.cpp -Lbuild/release/python/tilewright
//   -ltilewright_runtime \
//     -Wl,-rpath,build/release/python/tilewright -o build/runtime_overheads && build/runtime_overheads [--pin]

#include "tilewright/Runtime/Allocator.h"
#include "tilewright/Runtime/Stream.h"
#include "tilewright/Runtime/ThreadPool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <sched.h>
#include <thread>
#include <vector>

using namespace tilewright;
using Clock = std::chrono::steady_clock;

namespace {

double now() { return std::chrono::duration<double, std::micro>(Clock::now().time_since_epoch()).count(); }

void report(const char *what, std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  std::printf("%-64s %8.3f %8.3f %8.3f\n", what, samples.front(), samples[samples.size() / 10],
              samples[samples.size() / 2]);
}

/// Time of one call, measured over `batch` calls.
template <typename F> void repeat(const char *what, int batch, F &&f) {
  std::vector<double> samples;
  for (int i = 0; i < 300; ++i) {
    double start = now();
    for (int k = 0; k < batch; ++k)
      f();
    samples.push_back((now() - start) / batch);
  }
  report(what, std::move(samples));
}

/// Each sample after a pause, so that workers are parked; f returns the time of what it measures.
template <typename F> void afterPause(const char *what, F &&f) {
  std::vector<double> samples;
  for (int i = 0; i < 1000; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    samples.push_back(f());
  }
  report(what, std::move(samples));
}

void empty(void *, int64_t, int64_t, unsigned) {}

void pinTo(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

} // namespace

int main(int argc, char **argv) {
  // On a machine with other work a woken thread may be put on its waker's CPU, and two threads that spin for each other
  // there measure the scheduler: --pin keeps the caller and the others apart.
  bool pin = argc > 1 && std::strcmp(argv[1], "--pin") == 0;
  std::printf("%-64s %8s %8s %8s\n", "microseconds", "least", "10%", "median");
  auto stream = Stream::create(1), second = Stream::create(2);
  auto memory = Allocator::createCaching(size_t(1) << 30);
  ThreadPool &pool = ThreadPool::instance();
  int64_t sink = 0;
  if (pin) {
    stream->enqueue([] { pinTo(1); });
    second->enqueue([] { pinTo(1); });
    pool.parallelFor(64, 1, [&](int64_t, int64_t, unsigned thread) {
      pinTo(thread);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    stream->synchronize();
    second->synchronize();
  }

  repeat("enqueue, run inline", 1000, [&] { stream->enqueue([&sink] { ++sink; }, true); });
  stream->enqueue([] {});
  stream->synchronize();
  int queued = 0;
  repeat("enqueue to the worker and run there, per task of a full queue", 1000, [&] {
    stream->enqueue([&sink] { ++sink; });
    if (++queued % 1000 == 0)
      stream->synchronize();
  });
  repeat("enqueue and synchronize, the worker still spins", 1, [&] {
    stream->enqueue([&sink] { ++sink; });
    stream->synchronize();
  });
  std::atomic<double> began{0};
  afterPause("parked worker: from enqueue to the task's first instruction", [&] {
    double start = now();
    stream->enqueue([&] { began = now(); });
    stream->synchronize();
    return began - start;
  });
  afterPause("parked worker: what the caller spends in enqueue", [&] {
    double start = now();
    stream->enqueue([&] {});
    double spent = now() - start;
    stream->synchronize();
    return spent;
  });
  afterPause("parked worker: enqueue and synchronize", [&] {
    double start = now();
    stream->enqueue([&] {});
    stream->synchronize();
    return now() - start;
  });
  Event event;
  repeat("record an event", 1000, [&] { stream->record(event); });
  afterPause("two streams: record, wait, task, synchronize", [&] {
    double start = now();
    stream->enqueue([] {});
    stream->record(event);
    second->wait(event);
    second->enqueue([] {});
    second->synchronize();
    return now() - start;
  });

  std::printf("pool of %u\n", pool.size());
  repeat("parallelFor, one grain (inline)", 1000, [&] { pool.parallelFor(1, 1, empty, nullptr); });
  pool.parallelFor(1000, 1, empty, nullptr);
  repeat("parallelFor, empty, the workers still spin", 50, [&] { pool.parallelFor(16, 1, empty, nullptr); });
  afterPause("parallelFor, empty, parked workers", [&] {
    double start = now();
    pool.parallelFor(16, 1, empty, nullptr);
    return now() - start;
  });
  afterPause("parked worker: from parallelFor to a second thread's body", [&] {
    double start = now();
    std::atomic<double> arrived{0};
    auto body = [&](int64_t begin, int64_t, unsigned thread) {
      if (thread != 0)
        arrived = now();
      else if (begin == 0)
        while (arrived == 0 && now() - start < 1000)
          ;
    };
    pool.parallelFor(2, 1, body);
    return arrived == 0 ? 1000 : arrived - start;
  });
  for (size_t kib : {64, 256, 1024, 4096}) {
    // Work in L2 or L3: when is a second thread worth its wake?
    size_t count = kib * 1024 / 8;
    std::vector<float> a(count, 1), b(count, 2);
    auto add = [&](int64_t begin, int64_t end, unsigned) {
      for (int64_t i = begin; i < end; ++i)
        a[static_cast<size_t>(i)] += b[static_cast<size_t>(i)];
    };
    char name[96];
    std::snprintf(name, sizeof name, "a += b, %zu KiB in all, one thread", kib);
    afterPause(name, [&] {
      double start = now();
      add(0, static_cast<int64_t>(count), 0);
      return now() - start;
    });
    std::snprintf(name, sizeof name, "a += b, %zu KiB in all, the pool, parked before", kib);
    afterPause(name, [&] {
      double start = now();
      pool.parallelFor(static_cast<int64_t>(count), 1024, add);
      return now() - start;
    });
  }
  for (size_t kib : {16, 64, 256}) {
    std::vector<char> from(kib * 1024, 1), to(kib * 1024);
    char name[96];
    std::snprintf(name, sizeof name, "memcpy of %zu KiB in cache", kib);
    repeat(name, 20, [&] { std::memcpy(to.data(), from.data(), from.size()); });
  }

  Block *keep = memory->allocate(100, *stream);
  repeat("allocate and free 1 KiB", 1000, [&] { memory->free(memory->allocate(1024, *stream)); });
  repeat("allocate and free 4 MiB", 1000, [&] { memory->free(memory->allocate(size_t(4) << 20, *stream)); });
  std::vector<Block *> blocks;
  for (int i = 0; i < 1000; ++i)
    blocks.push_back(memory->allocate(64 + static_cast<size_t>(i) * 8, *stream));
  size_t at = 0;
  repeat("find the block of an address among 1000", 1000,
         [&] { sink += memory->find(static_cast<char *>(blocks[at++ % 1000]->data) + 40)->bytes > 0; });
  for (Block *block : blocks)
    memory->free(block);
  memory->free(keep);
  std::printf("(%lld)\n", static_cast<long long>(sink));
}
