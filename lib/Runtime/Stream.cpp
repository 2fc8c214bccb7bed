//===- Stream.cpp - streams and events -------------------------------------===//

#include "tilewright/Runtime/Stream.h"

#include "Fork.h"
#include "StreamCore.h"
#include "StreamImpl.h"

#include <chrono>
#include <stdexcept>

namespace tilewright {

StreamImpl::StreamImpl(int64_t id, int priority)
    : core(std::make_shared<StreamCore>(id, priority)), fork(
                                                            ForkHooks::Rank::Stream, [this] { core->beforeFork(); },
                                                            [this] { core->inParent(); }, [this] { core->inChild(); }) {
}

StreamImpl::~StreamImpl() { core->drainAndStop(); }

std::unique_ptr<Stream> Stream::create(int64_t id, int priority) { return std::make_unique<StreamImpl>(id, priority); }

void StreamImpl::enqueue(Task task, bool inlineIfIdle) { core->enqueue(std::move(task), inlineIfIdle); }

void StreamImpl::synchronize() {
  core->refuseSelfWait("synchronize");
  core->waitUntil(core->submitted.load(std::memory_order_acquire));
  if (auto error = core->takeError())
    std::rethrow_exception(error);
}

bool StreamImpl::query() const {
  // completed first: what was queued between the two reads then counts as not done.
  uint64_t done = core->completed.load(std::memory_order_acquire);
  return done >= core->submitted.load(std::memory_order_acquire) || core->lost.load(std::memory_order_relaxed);
}

void StreamImpl::record(Event &event) {
  core->refuseAfterFork("record");
  if (!event.state)
    throw std::logic_error("record: the event was moved from");
  auto recording = std::make_shared<EventRecording>();
  recording->core = core;
  if (event.state->timing) {
    recording->ticket = core->enqueue(
        [recording] {
          recording->nanoseconds.store(std::chrono::steady_clock::now().time_since_epoch().count(),
                                       std::memory_order_relaxed);
        },
        /*inlineIfIdle=*/true);
  } else {
    recording->ticket = core->submitted.load(std::memory_order_acquire);
  }
  event.state->set(std::move(recording));
}

void StreamImpl::wait(const Event &event) {
  core->refuseAfterFork("wait");
  if (!event.state)
    throw std::logic_error("wait: the event was moved from");
  auto recording = event.state->current();
  if (!recording || recording->core == core || recording->reached())
    return;
  core->enqueue([recording] { recording->core->waitUntil(recording->ticket); }, /*inlineIfIdle=*/false);
}

void StreamImpl::fail(std::exception_ptr error) { core->fail(std::move(error)); }
void StreamImpl::waitUntil(uint64_t ticket) const { core->waitUntil(ticket); }
std::exception_ptr StreamImpl::takeError() { return core->takeError(); }

Event::Event(bool timing) : state(std::make_shared<State>(timing)) {}
Event::~Event() = default;
Event::Event(Event &&) noexcept = default;
Event &Event::operator=(Event &&) noexcept = default;

bool Event::recorded() const { return state && state->current() != nullptr; }

bool Event::query() const {
  auto recording = state ? state->current() : nullptr;
  return !recording || recording->reached();
}

void Event::synchronize() const {
  auto recording = state ? state->current() : nullptr;
  if (!recording)
    return;
  recording->core->waitUntil(recording->ticket);
  if (auto error = recording->core->takeError())
    std::rethrow_exception(error);
}

double Event::elapsedMs(const Event &end) const {
  auto timeOf = [](const Event &event, const char *which) {
    auto recording = event.state ? event.state->current() : nullptr;
    std::string text = std::string("elapsedMs: the ") + which + " event ";
    if (!event.state || !event.state->timing)
      throw std::logic_error(text + "was made without timing; make it with timing on");
    if (!recording)
      throw std::logic_error(text + "was never recorded");
    if (!recording->reached())
      throw std::logic_error(text + "is not reached yet; synchronize it first");
    return recording->nanoseconds.load(std::memory_order_relaxed);
  };
  int64_t first = timeOf(*this, "start"), last = timeOf(end, "end");
  return static_cast<double>(last - first) * 1e-6;
}

} // namespace tilewright
