//===- StreamCore.cpp - the queue behind a stream --------------------------===//

#include "StreamCore.h"

#include "FloatControl.h"
#include "Threads.h"
#include "tilewright/Runtime/Blocking.h"

#include <new>
#include <stdexcept>
#include <utility>

namespace tilewright {
namespace {

/// So many queued tasks are a caller that runs away from its device: closures would fill memory. CUDA stops at about
/// 1,000; ours are cheaper.
constexpr uint64_t kMostQueued = 16384;

/// The streams whose tasks the thread is running, innermost first: an inline task may enqueue on another stream, inline
/// again.
struct Frame {
  const StreamCore *core;
  Frame *outer;
};
thread_local Frame *frames = nullptr;

struct FrameScope {
  Frame frame;
  explicit FrameScope(const StreamCore *core) : frame{core, frames} { frames = &frame; }
  ~FrameScope() { frames = frame.outer; }
};

std::atomic<uint64_t> errorCount{0};

} // namespace

bool Stream::insideTask() { return frames != nullptr; }

StreamCore::~StreamCore() {
  if (lost) // the closures' owners and the thread are the parent's
    new std::vector<Entry>(std::move(pending));
}

void StreamCore::refuseSelfWait(const char *what) const {
  for (Frame *frame = frames; frame; frame = frame->outer)
    if (frame->core == this)
      throw std::logic_error(std::string(what) + " on stream " + std::to_string(id) +
                             " from one of its own tasks would wait for itself; wait on the thread that enqueues");
}

void StreamCore::refuseAfterFork(const char *what) const {
  if (lost.load(std::memory_order_relaxed))
    throw std::runtime_error(std::string(what) + " on stream " + std::to_string(id) +
                             ": the device was used before fork(), and the child has no copy of its queue; start the "
                             "process with spawn, or use the device in the child only");
}

uint64_t StreamCore::enqueue(Stream::Task task, bool inlineIfIdle) {
  refuseAfterFork("enqueue");
  std::unique_lock hold(lock);
  if (inlineIfIdle && !busy && pending.empty()) {
    busy = true;
    uint64_t ticket = submitted.load(std::memory_order_relaxed) + 1;
    submitted.store(ticket, std::memory_order_release);
    hold.unlock();
    run(task);
    hold.lock();
    busy = false;
    finish();
    bool wake = !pending.empty() && std::exchange(parked, false);
    hold.unlock();
    if (wake)
      workReady.notify_one();
    wakeWaiters();
    return ticket;
  }
  if (!worker)
    worker = std::make_unique<std::thread>(startThread("tw-stream-" + std::to_string(id), [this] { work(); }));
  pending.push_back({std::move(task), floatControl()});
  uint64_t ticket = submitted.load(std::memory_order_relaxed) + 1;
  submitted.store(ticket, std::memory_order_release);
  bool wake = !busy && std::exchange(parked, false); // an inline task that runs now wakes the worker at its end
  hold.unlock();
  if (wake)
    workReady.notify_one();
  if (ticket > kMostQueued && ticket - kMostQueued > completed.load(std::memory_order_acquire) && !Stream::insideTask())
    waitUntil(ticket - kMostQueued / 2);
  return ticket;
}

void StreamCore::run(Stream::Task &task) {
  FrameScope scope(this);
  try {
    task();
  } catch (...) {
    fail(std::current_exception());
  }
  task = nullptr; // what the closure holds is gone before the task counts as completed
}

void StreamCore::finish() {
  // One runner at a time, so no read-modify-write; sequentially consistent against waitUntil's store of `wanted`.
  completed.store(completed.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
}

void StreamCore::wakeWaiters() {
  if (completed.load(std::memory_order_relaxed) < wanted.load(std::memory_order_seq_cst))
    return;
  {
    std::lock_guard hold(lock);
    wanted.store(UINT64_MAX, std::memory_order_seq_cst); // those that wait for more say so again
  }
  progress.notify_all();
}

void StreamCore::work() {
  std::vector<Entry> batch;
  std::unique_lock hold(lock);
  while (true) {
    if (!pending.empty() && !busy) {
      busy = true;
      batch.swap(pending);
      hold.unlock();
      for (Entry &entry : batch) {
        {
          FloatControlScope control(entry.control);
          run(entry.task);
        }
        finish();
        wakeWaiters();
      }
      batch.clear();
      hold.lock();
      busy = false;
      continue;
    }
    if (stopping && pending.empty())
      return;
    uint64_t seen = submitted.load(std::memory_order_relaxed);
    hold.unlock();
    spinBriefly([&] { return submitted.load(std::memory_order_relaxed) != seen; });
    hold.lock();
    while ((pending.empty() || busy) && !stopping) {
      parked = true; // whoever wakes us takes it back, so that a burst of tasks wakes once
      workReady.wait(hold);
    }
    parked = false;
  }
}

void StreamCore::waitUntil(uint64_t ticket) {
  auto done = [&] { return completed.load(std::memory_order_acquire) >= ticket; };
  if (done() || lost.load(std::memory_order_relaxed))
    return;
  refuseSelfWait("a wait");
  if (spinBriefly(done))
    return;
  BlockingScope blocking;
  std::unique_lock hold(lock);
  while (true) {
    if (wanted.load(std::memory_order_relaxed) > ticket)
      wanted.store(ticket, std::memory_order_seq_cst);
    if (completed.load(std::memory_order_seq_cst) >= ticket)
      return;
    progress.wait(hold);
  }
}

void StreamCore::drainAndStop() {
  if (lost) {
    worker.release(); // names a thread of the parent: neither joinable nor destructible here
    return;
  }
  waitUntil(submitted.load(std::memory_order_acquire));
  std::unique_ptr<std::thread> last;
  {
    std::lock_guard hold(lock);
    stopping = true;
    last = std::move(worker);
  }
  workReady.notify_one();
  if (last)
    last->join();
}

void StreamCore::fail(std::exception_ptr e) {
  std::lock_guard hold(lock);
  if (error)
    return; // the first one is the cause
  error = std::move(e);
  errorAt = errorCount.fetch_add(1, std::memory_order_relaxed) + 1;
  failed.store(true, std::memory_order_release);
}

std::exception_ptr StreamCore::takeError() {
  if (!failed.load(std::memory_order_acquire))
    return nullptr;
  std::lock_guard hold(lock);
  failed.store(false, std::memory_order_relaxed);
  return std::exchange(error, nullptr);
}

uint64_t StreamCore::errorOrder() {
  std::lock_guard hold(lock);
  return error ? errorAt : 0;
}

void StreamCore::inChild() {
  if (submitted.load(std::memory_order_relaxed) > 0)
    lost.store(true);
  // Both may count waiters that exist in the parent only.
  new (&workReady) std::condition_variable;
  new (&progress) std::condition_variable;
  lock.unlock();
}

} // namespace tilewright
