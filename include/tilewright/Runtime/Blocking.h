//===- Blocking.h - what a room above does around waits ----------*- C++ -*-===//
//
// The runtime waits in few places: Stream::synchronize and waitUntil, Event::synchronize, a full queue, an allocator
// that is out of memory. A room whose callers may hold a lock that tasks need (Python's GIL) gives it up around these.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace tilewright {

struct BlockingHooks {
  /// Called on the thread that is about to block; what it returns is handed to leave. Must not throw.
  void *(*enter)() = nullptr;
  void (*leave)(void *token) = nullptr;
};

/// Process wide, once, before the first wait; both functions or neither.
void setBlockingHooks(BlockingHooks hooks);

class BlockingScope {
public:
  BlockingScope();
  ~BlockingScope();
  BlockingScope(const BlockingScope &) = delete;
  BlockingScope &operator=(const BlockingScope &) = delete;

private:
  void (*leave)(void *);
  void *token;
};

} // namespace tilewright
