//===- Fork.h - what holds locks takes part in fork() ------------*- C++ -*-===//
//
// A child of fork() has one thread and a copy of all memory, locks included. So every object with a lock takes it
// before the fork, which makes its data whole, and gives it back on both sides: the child's one thread is the one that
// took it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <functional>

namespace tilewright {

/// Declare it as the last member of an object, so that hooks run only while the object is whole. Construct and destroy
/// it with no lock held that another participant takes.
class ForkHooks {
public:
  /// Locks are taken in this order, in which they nest elsewhere, and given back in the reverse order.
  enum class Rank : uint8_t { Device, Allocator, Stream, Pool };
  using Hook = std::function<void()>;
  /// before: take the lock; parent: give it back; child: give it back, forget threads that are no more (a condition
  /// variable may count waiters among these, so construct a new one over it).
  ForkHooks(Rank rank, Hook before, Hook parent, Hook child);
  ~ForkHooks();
  ForkHooks(const ForkHooks &) = delete;
  ForkHooks &operator=(const ForkHooks &) = delete;

  const Rank rank;
  const Hook before, parent, child;
};

} // namespace tilewright
