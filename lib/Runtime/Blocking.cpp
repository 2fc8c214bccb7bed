//===- Blocking.cpp - what a room above does around waits ------------------===//

#include "tilewright/Runtime/Blocking.h"

#include <atomic>

namespace tilewright {
namespace {
std::atomic<void *(*)()> enterHook{nullptr};
std::atomic<void (*)(void *)> leaveHook{nullptr};
} // namespace

void setBlockingHooks(BlockingHooks hooks) {
  leaveHook.store(hooks.leave); // first: whoever sees enter must find leave
  enterHook.store(hooks.enter);
}

BlockingScope::BlockingScope() : leave(nullptr), token(nullptr) {
  if (auto enter = enterHook.load(std::memory_order_acquire)) {
    leave = leaveHook.load(std::memory_order_acquire);
    token = enter();
  }
}

BlockingScope::~BlockingScope() {
  if (leave)
    leave(token);
}

} // namespace tilewright
