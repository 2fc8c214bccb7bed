//===- Stream.h - asynchronous in-order queues and events --------*- C++ -*-===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>

namespace tilewright {

class Event;

/// Tasks run one after another on the stream's worker, which is started by the first task that is not run inline. A
/// tiny task
/// (`inlineIfIdle`) runs on the caller when the queue is empty. A task's exception is kept and rethrown at
/// the next wait; the tasks after it run, and the device stays usable.
///
/// A task runs under the floating-point control state (MXCSR) that its caller had in enqueue. All functions are
/// thread-safe. In a forked child a stream that was used before the fork has lost its worker and its queue: enqueue,
/// record and wait throw std::runtime_error, waits return at once.
class Stream {
public:
  using Task = std::function<void()>;
  virtual ~Stream() = default;

  /// A stream on its own (the device's come from Device). Its destructor drains it.
  static std::unique_ptr<Stream> create(int64_t id, int priority = 0);

  virtual int64_t id() const = 0;
  /// As given. It has no effect here: the host schedules threads, and raising one needs privileges.
  virtual int priority() const = 0;
  /// Blocks only if thousands of tasks are queued (and never from inside a task).
  virtual void enqueue(Task task, bool inlineIfIdle = false) = 0;
  /// A host callback: runs on the worker, never inline, after everything queued so far, whether or not that failed.
  void addCallback(Task callback) { enqueue(std::move(callback), false); }
  /// Blocks until everything queued so far has run. Rethrows the first recorded error once. Callers holding the GIL
  /// release it (see Blocking.h). From a task of this stream: throws std::logic_error, since it would wait for itself.
  virtual void synchronize() = 0;
  virtual bool query() const = 0; // all done?
  virtual void record(Event &event) = 0;
  virtual void wait(const Event &event) = 0; // later tasks start after the event's last record
  /// Records an error to be raised at the next wait (kernels' errors of data).
  virtual void fail(std::exception_ptr error) = 0;
  /// A monotonic ticket: number of tasks queued so far, and of tasks completed (and their closures destroyed).
  virtual uint64_t submitted() const = 0;
  virtual uint64_t completed() const = 0;
  /// Blocks until `ticket` tasks have completed; raises nothing. std::logic_error as in synchronize.
  virtual void waitUntil(uint64_t ticket) const = 0;
  /// Takes the recorded error, if any, without waiting.
  virtual std::exception_ptr takeError() = 0;
  /// Whether the calling thread is running a task, of any stream. There it must not wait for streams without need.
  static bool insideTask();
};

/// A place in a stream's queue. Copies of `state` share it.
class Event {
public:
  explicit Event(bool timing = false);
  ~Event();
  Event(Event &&) noexcept;
  Event &operator=(Event &&) noexcept;
  bool query() const; // true if never recorded or reached
  /// Blocks until the last record is reached and raises the error recorded on its stream, if any, as
  /// Stream::synchronize does.
  void synchronize() const;
  bool recorded() const;
  /// Milliseconds between two reached timing events; throws std::logic_error otherwise (says which is missing).
  double elapsedMs(const Event &end) const;
  struct State;
  std::shared_ptr<State> state;
};

/// Copies in stream order. Small copies run inline on an idle stream, large ones on the pool. Both sides must stay
/// valid until the stream has passed. Overlapping ranges are copied as by memmove.
void copyAsync(Stream &stream, void *destination, const void *source, size_t bytes);

} // namespace tilewright
