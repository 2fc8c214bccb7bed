//===- StreamCore.h - the queue behind a stream ------------------*- C++ -*-===//
//
// Kept apart from Stream because events outlive streams: a recorded event holds the core and a ticket, so recording
// costs two loads and no task.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Runtime/Stream.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace tilewright {

class StreamCore {
public:
  StreamCore(int64_t id, int priority) : id(id), priority(priority) {}
  ~StreamCore();

  /// Returns the task's ticket: it has run once completed >= ticket.
  uint64_t enqueue(Stream::Task task, bool inlineIfIdle);
  void waitUntil(uint64_t ticket);
  void drainAndStop(); // no task may be queued after it
  void fail(std::exception_ptr error);
  std::exception_ptr takeError();
  /// When the error that takeError would give was recorded, counted over all streams; 0: none.
  uint64_t errorOrder();
  /// Throws std::logic_error if the calling thread runs a task of this stream.
  void refuseSelfWait(const char *what) const;
  void refuseAfterFork(const char *what) const;

  void beforeFork() { lock.lock(); }
  void inParent() { lock.unlock(); }
  void inChild();

  const int64_t id;
  const int priority;
  std::atomic<uint64_t> submitted{0}, completed{0};
  /// In a forked child, of a stream that was used: worker and queue are gone.
  std::atomic<bool> lost{false};

private:
  struct Entry {
    Stream::Task task;
    uint32_t control; // MXCSR of the caller
  };
  void run(Stream::Task &task);
  void finish();
  void work();
  void wakeWaiters();

  std::mutex lock;
  std::condition_variable workReady, progress;
  // Guarded by lock:
  std::vector<Entry> pending;
  bool busy = false; // a task runs, on the worker or inline
  bool parked = false, stopping = false;
  std::exception_ptr error;
  uint64_t errorAt = 0;
  std::unique_ptr<std::thread> worker;
  std::atomic<bool> failed{false}; // error is set
  /// The least ticket that a parked thread waits for: without it each task of a long queue would wake every waiter.
  std::atomic<uint64_t> wanted{UINT64_MAX};
};

struct EventRecording {
  std::shared_ptr<StreamCore> core;
  uint64_t ticket = 0;
  std::atomic<int64_t> nanoseconds{0}; // timing events: when it was reached
  bool reached() const {
    return core->completed.load(std::memory_order_acquire) >= ticket || core->lost.load(std::memory_order_relaxed);
  }
};

struct Event::State {
  explicit State(bool timing) : timing(timing) {}
  const bool timing;
  std::shared_ptr<EventRecording> current() const {
    std::lock_guard hold(lock);
    return recording;
  }
  void set(std::shared_ptr<EventRecording> next) {
    std::lock_guard hold(lock);
    recording.swap(next);
  }

private:
  mutable std::mutex lock;
  std::shared_ptr<EventRecording> recording; // null: never recorded
};

} // namespace tilewright
