//===- ThreadPool.cpp - the one pool of compute threads --------------------===//

#include "tilewright/Runtime/ThreadPool.h"

#include "FloatControl.h"
#include "Fork.h"
#include "Threads.h"
#include "tilewright/Support/Switches.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <sched.h>
#include <stdexcept>
#include <vector>

namespace tilewright {
namespace {

/// Each thread's share of a loop is cut into so many chunks: what a thread that was held up leaves can be stolen but
/// for one chunk, so threads end within 1/8 of a share of each other, and a chunk's cost of some 20 ns is paid 8 times.
constexpr int64_t kChunksPerShare = 8;

/// A thread's share: chunks are claimed from the front, by the owner and by thieves alike.
struct alignas(64) Share {
  std::atomic<int64_t> next{0}; // in grains
  int64_t end = 0;
};

struct Loop {
  ThreadPool::Body body;
  void *context;
  int64_t count, grain, grains; // grains = count / grain, rounded up
  int64_t chunk;                // in grains
  Share *shares;
  unsigned slots; // threads that may take part, the caller included
  uint32_t control;
  std::atomic<bool> cancelled{false};
  std::atomic<unsigned> inside{0}; // workers at work on it; written under the pool's lock
  // Guarded by the pool's lock:
  unsigned joined = 1; // slot 0 is the caller's
  bool exhausted = false;
  std::exception_ptr error;
  std::condition_variable left;
};

thread_local bool insideLoop = false;

/// Claims and runs chunks until none is left: the thread's own share first, then the others'.
void takePart(Loop &loop, unsigned slot) {
  for (unsigned k = 0; k < loop.slots; ++k) {
    Share &share = loop.shares[slot + k < loop.slots ? slot + k : slot + k - loop.slots];
    while (share.next.load(std::memory_order_relaxed) < share.end) {
      if (loop.cancelled.load(std::memory_order_relaxed))
        return;
      int64_t first = share.next.fetch_add(loop.chunk, std::memory_order_relaxed);
      if (first >= share.end)
        break;
      int64_t last = std::min(first + loop.chunk, share.end);
      // The last grain may be cut, and as a whole may be past the range of integers.
      loop.body(loop.context, first * loop.grain, last == loop.grains ? loop.count : last * loop.grain, slot);
    }
  }
}

unsigned defaultSize() {
  if (unsigned asked = switches::threads())
    return asked;
  // The mask may be wider than cpu_set_t on machines with more than 1024 CPUs.
  for (int cpus = 1024; cpus <= (1 << 20); cpus *= 2) {
    cpu_set_t *set = CPU_ALLOC(cpus);
    size_t bytes = CPU_ALLOC_SIZE(cpus);
    int status = sched_getaffinity(0, bytes, set);
    int found = status == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (found > 0)
      return static_cast<unsigned>(found);
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

/// What a fork loses. The child gets a new one; the old stays reachable, as its threads' handles must not be destroyed.
struct Crew {
  std::mutex lock;
  std::condition_variable work;
  std::vector<Loop *> loops; // those that a worker may join
  std::vector<std::thread> workers;
  unsigned parked = 0;
  bool stopping = false;
  std::atomic<uint64_t> posted{0}; // loops so far: what spinning workers watch
  Crew *before = nullptr;
};

Loop *joinable(Crew &crew) {
  Loop *best = nullptr; // the one with the fewest threads
  for (Loop *loop : crew.loops)
    if (!loop->exhausted && loop->joined < loop->slots && (!best || loop->joined < best->joined))
      best = loop;
  return best;
}

void workOn(Loop &loop, unsigned slot, std::unique_lock<std::mutex> &hold) {
  hold.unlock();
  std::exception_ptr error;
  {
    FloatControlScope control(loop.control);
    try {
      takePart(loop, slot);
    } catch (...) {
      error = std::current_exception();
      loop.cancelled.store(true, std::memory_order_relaxed);
    }
  }
  hold.lock();
  loop.exhausted = true; // this thread found nothing more, so nobody will
  if (error && !loop.error)
    loop.error = error;
  // Under the lock: the caller, which takes it before it leaves, keeps the loop alive until we are done with it.
  if (loop.inside.fetch_sub(1, std::memory_order_release) == 1)
    loop.left.notify_one();
}

void workerMain(Crew &crew) {
  insideLoop = true;
  std::unique_lock hold(crew.lock);
  while (!crew.stopping) {
    if (Loop *loop = joinable(crew)) {
      unsigned slot = loop->joined++;
      loop->inside.fetch_add(1, std::memory_order_relaxed);
      workOn(*loop, slot, hold);
      continue;
    }
    uint64_t seen = crew.posted.load(std::memory_order_relaxed);
    hold.unlock();
    spinBriefly([&] { return crew.posted.load(std::memory_order_relaxed) != seen; });
    hold.lock();
    while (!crew.stopping && !joinable(crew)) {
      ++crew.parked;
      crew.work.wait(hold);
      --crew.parked;
    }
  }
}

} // namespace

struct ThreadPool::Impl {
  std::atomic<unsigned> size;
  Crew *crew = new Crew;
  ForkHooks fork{ForkHooks::Rank::Pool, [this] { crew->lock.lock(); }, [this] { crew->lock.unlock(); },
                 [this] {
                   Crew *fresh = new Crew;
                   fresh->before = crew;
                   crew->lock.unlock();
                   crew = fresh;
                 }};

  explicit Impl(unsigned size) : size(size) {}
  void run(Loop &loop);
  void hire(unsigned wanted);
};

// Never destroyed: at exit workers may still be parked, and ending them would only take time.
ThreadPool &ThreadPool::instance() {
  static ThreadPool *pool = new ThreadPool;
  return *pool;
}

ThreadPool::ThreadPool() : impl(new Impl(defaultSize())) {}

bool ThreadPool::insideBody() { return insideLoop; }

unsigned ThreadPool::size() const { return impl->size.load(std::memory_order_relaxed); }

void ThreadPool::resize(unsigned threads) {
  unsigned wanted = threads ? threads : defaultSize();
  if (wanted > 1024)
    throw std::invalid_argument("ThreadPool::resize: " + std::to_string(wanted) + " threads; at most 1024");
  Crew &crew = *impl->crew;
  std::unique_lock hold(crew.lock);
  if (insideLoop || !crew.loops.empty() || crew.stopping)
    throw std::logic_error("ThreadPool::resize while a loop runs; wait for the streams first");
  std::vector<std::thread> leaving = std::move(crew.workers);
  crew.workers.clear();
  impl->size.store(wanted, std::memory_order_relaxed);
  if (leaving.empty())
    return;
  crew.stopping = true; // loops that start meanwhile run with their caller alone
  hold.unlock();
  crew.work.notify_all();
  for (std::thread &worker : leaving)
    worker.join();
  hold.lock();
  crew.stopping = false;
}

void ThreadPool::Impl::hire(unsigned wanted) {
  if (crew->stopping)
    return;
  while (crew->workers.size() < wanted)
    crew->workers.push_back(
        startThread("tw-pool-" + std::to_string(crew->workers.size() + 1), [crew = crew] { workerMain(*crew); }));
}

void ThreadPool::Impl::run(Loop &loop) {
  unsigned helpers = loop.slots - 1;
  std::unique_lock hold(crew->lock);
  hire(helpers);
  crew->loops.push_back(&loop);
  crew->posted.fetch_add(1, std::memory_order_relaxed);
  unsigned wake = std::min(helpers, crew->parked);
  bool everyone = wake == crew->parked;
  hold.unlock();
  if (wake > 1 && everyone)
    crew->work.notify_all();
  else
    for (; wake > 0; --wake)
      crew->work.notify_one();

  insideLoop = true;
  std::exception_ptr error;
  try {
    takePart(loop, 0);
  } catch (...) {
    error = std::current_exception();
    loop.cancelled.store(true, std::memory_order_relaxed);
  }
  insideLoop = false;

  hold.lock();
  crew->loops.erase(std::find(crew->loops.begin(), crew->loops.end(), &loop)); // nobody joins any more
  if (loop.inside.load(std::memory_order_relaxed) > 0) {
    hold.unlock();
    spinBriefly([&] { return loop.inside.load(std::memory_order_acquire) == 0; });
    hold.lock();
    loop.left.wait(hold, [&] { return loop.inside.load(std::memory_order_relaxed) == 0; });
  }
  if (!error)
    error = loop.error;
  hold.unlock();
  if (error)
    std::rethrow_exception(error);
}

void ThreadPool::parallelFor(int64_t count, int64_t grain, Body body, void *context) {
  if (count <= 0)
    return;
  grain = std::max<int64_t>(grain, 1);
  int64_t grains = count / grain + (count % grain != 0);
  unsigned slots = static_cast<unsigned>(std::min<int64_t>(size(), grains));
  if (slots == 1 || insideLoop) {
    body(context, 0, count, 0);
    return;
  }

  // One loop a thread at a time, so its shares can be kept from call to call.
  thread_local std::unique_ptr<Share[]> shares;
  thread_local unsigned capacity = 0;
  if (capacity < slots) {
    shares = std::make_unique<Share[]>(slots);
    capacity = slots;
  }
  int64_t each = grains / slots, rest = grains % slots, at = 0;
  for (unsigned slot = 0; slot < slots; ++slot) {
    shares[slot].next.store(at, std::memory_order_relaxed);
    at += each + (slot < rest);
    shares[slot].end = at;
  }
  Loop loop{.body = body,
            .context = context,
            .count = count,
            .grain = grain,
            .grains = grains,
            .chunk = std::max<int64_t>(1, each / kChunksPerShare),
            .shares = shares.get(),
            .slots = slots,
            .control = floatControl(),
            .error = nullptr,
            .left = {}};
  impl->run(loop);
}

} // namespace tilewright
