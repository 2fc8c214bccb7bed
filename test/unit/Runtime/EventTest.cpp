#include "tilewright/Runtime/Stream.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

using namespace tilewright;

namespace {
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> future = promise.get_future().share();
  Stream::Task task() {
    return [f = future] { f.wait(); };
  }
  void open() { promise.set_value(); }
};
} // namespace

TEST(Event, UnrecordedIsReached) {
  Event event;
  EXPECT_FALSE(event.recorded());
  EXPECT_TRUE(event.query());
  EXPECT_NO_THROW(event.synchronize());
}

TEST(Event, MarksAPlaceInTheQueue) {
  auto stream = Stream::create(1);
  Gate first, second;
  stream->enqueue(first.task());
  Event event;
  stream->record(event);
  stream->enqueue(second.task());
  EXPECT_TRUE(event.recorded());
  EXPECT_FALSE(event.query());
  first.open();
  event.synchronize();
  EXPECT_TRUE(event.query());
  EXPECT_FALSE(stream->query()); // what came after the record is not waited for
  second.open();
  stream->synchronize();
}

TEST(Event, OtherStreamsWaitAndTheCallerDoesNot) {
  auto producer = Stream::create(1), consumer = Stream::create(2);
  Gate gate;
  int value = 0, seen = -1;
  producer->enqueue(gate.task());
  producer->enqueue([&] { value = 42; });
  Event event;
  producer->record(event);
  consumer->wait(event);
  consumer->enqueue([&] { seen = value; }, /*inlineIfIdle=*/true);
  EXPECT_FALSE(consumer->query()); // we got here, and it has not run
  gate.open();
  consumer->synchronize();
  EXPECT_EQ(seen, 42);
}

TEST(Event, TheLastRecordCounts) {
  auto a = Stream::create(1), b = Stream::create(2);
  Gate gate;
  a->enqueue(gate.task());
  Event event;
  a->record(event);
  b->wait(event); // for a's record
  b->enqueue([] {});
  Event other;
  other = std::move(event);
  b->record(other); // recorded again elsewhere: the wait above keeps its own
  EXPECT_FALSE(b->query());
  gate.open();
  other.synchronize();
  EXPECT_TRUE(b->query());
}

TEST(Event, WaitOnTheOwnStreamIsNothing) {
  auto stream = Stream::create(1);
  Gate gate;
  stream->enqueue(gate.task());
  Event event;
  stream->record(event);
  uint64_t before = stream->submitted();
  stream->wait(event);
  EXPECT_EQ(stream->submitted(), before);
  gate.open();
  stream->synchronize();
}

TEST(Event, OutlivesItsStream) {
  Event event(true);
  {
    auto stream = Stream::create(1);
    stream->enqueue([] {});
    stream->record(event);
  }
  EXPECT_TRUE(event.query());
  auto other = Stream::create(2);
  EXPECT_NO_THROW(other->wait(event));
}

TEST(Event, Timing) {
  auto stream = Stream::create(1);
  Event start(true), end(true);
  stream->record(start);
  stream->enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  stream->record(end);
  EXPECT_THROW(start.elapsedMs(end), std::logic_error); // not reached
  end.synchronize();
  EXPECT_GE(start.elapsedMs(end), 19.0);
  EXPECT_LE(end.elapsedMs(start), -19.0);
}

TEST(Event, TimingErrorsSayWhichIsMissing) {
  auto message = [](const Event &a, const Event &b) -> std::string {
    try {
      a.elapsedMs(b);
    } catch (const std::logic_error &error) {
      return error.what();
    }
    return "";
  };
  auto stream = Stream::create(1);
  Event plain, never(true), reached(true);
  stream->record(plain);
  stream->record(reached);
  reached.synchronize();
  EXPECT_NE(message(plain, reached).find("the start event was made without timing"), std::string::npos);
  EXPECT_NE(message(reached, never).find("the end event was never recorded"), std::string::npos);
}

TEST(Event, SynchronizeRaisesTheStreamsError) {
  auto stream = Stream::create(1);
  stream->enqueue([] { throw std::out_of_range("index 7"); });
  Event event;
  stream->record(event);
  EXPECT_THROW(event.synchronize(), std::out_of_range);
  EXPECT_NO_THROW(stream->synchronize());
}
