//===- Stream.h - asynchronous in-order queues and events --------*- C++ -*-===//
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>

namespace tilewright {

class Event;

/// Tasks run one after another on the stream's worker, which is started by the first task that is not run inline. A tiny task
/// (`inlineIfIdle`) runs on the caller when the queue is empty. A task's exception is kept and rethrown at
/// the next wait; the tasks after it run, and the device stays usable.
class Stream {
public:
  using Task = std::function<void()>;
  virtual ~Stream() = default;

  virtual int64_t id() const = 0;
  virtual int priority() const = 0;
  virtual void enqueue(Task task, bool inlineIfIdle = false) = 0;
  /// Blocks until everything queued so far has run. Rethrows the first recorded error once. Callers holding the GIL release it.
  virtual void synchronize() = 0;
  virtual bool query() const = 0; // all done?
  virtual void record(Event &event) = 0;
  virtual void wait(const Event &event) = 0; // later tasks start after the event's last record
  /// Records an error to be raised at the next wait (kernels' errors of data).
  virtual void fail(std::exception_ptr error) = 0;
  /// A monotonic ticket: number of tasks queued so far, and of tasks completed.
  virtual uint64_t submitted() const = 0;
  virtual uint64_t completed() const = 0;
};

class Event {
public:
  explicit Event(bool timing = false);
  ~Event();
  Event(Event &&) noexcept;
  Event &operator=(Event &&) noexcept;
  bool query() const;   // true if never recorded or reached
  void synchronize() const;
  bool recorded() const;
  /// Milliseconds between two reached timing events; throws std::logic_error otherwise (says which is missing).
  double elapsedMs(const Event &end) const;
  struct State;
  std::shared_ptr<State> state;
};

} // namespace tilewright
