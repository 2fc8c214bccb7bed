//===- Fork.cpp - what holds locks takes part in fork() --------------------===//

#include "Fork.h"

#include <algorithm>
#include <mutex>
#include <pthread.h>
#include <system_error>
#include <vector>

namespace tilewright {
namespace {

struct Registry {
  std::mutex lock;
  std::vector<ForkHooks *> members; // sorted by rank
};

// Never destroyed: objects of static life may leave after everything else.
Registry &registry() {
  static Registry *instance = new Registry;
  return *instance;
}

void beforeFork() {
  Registry &r = registry();
  r.lock.lock();
  for (ForkHooks *member : r.members)
    member->before();
}

void inParent() {
  Registry &r = registry();
  for (auto it = r.members.rbegin(); it != r.members.rend(); ++it)
    (*it)->parent();
  r.lock.unlock();
}

void inChild() {
  Registry &r = registry();
  for (auto it = r.members.rbegin(); it != r.members.rend(); ++it)
    (*it)->child();
  r.lock.unlock();
}

} // namespace

ForkHooks::ForkHooks(Rank rank, Hook before, Hook parent, Hook child)
    : rank(rank), before(std::move(before)), parent(std::move(parent)), child(std::move(child)) {
  static const int status = pthread_atfork(beforeFork, inParent, inChild);
  if (status != 0)
    throw std::system_error(status, std::generic_category(), "pthread_atfork");
  Registry &r = registry();
  std::lock_guard hold(r.lock);
  auto at = std::upper_bound(r.members.begin(), r.members.end(), this,
                             [](const ForkHooks *a, const ForkHooks *b) { return a->rank < b->rank; });
  r.members.insert(at, this);
}

ForkHooks::~ForkHooks() {
  Registry &r = registry();
  std::lock_guard hold(r.lock);
  std::erase(r.members, this);
}

} // namespace tilewright
