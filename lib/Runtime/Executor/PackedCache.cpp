//===- PackedCache.cpp - packed weights that are kept ---------------------===//
#include "PackedCache.h"

#include "../Fork.h"
#include "tilewright/Runtime/PackedWeights.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace tilewright {

namespace {

/// Without its epoch: what a weight packed in one way is found by.
struct Place {
  const void *address;
  Digest recipe;
  const Allocator *memory;
  bool operator==(const Place &) const = default;
};
struct PlaceHash {
  size_t operator()(const Place &p) const {
    return mixBits(reinterpret_cast<uintptr_t>(p.address) ^ p.recipe.low ^ reinterpret_cast<uintptr_t>(p.memory));
  }
};

struct Entry {
  uint64_t epoch = 0;
  std::shared_ptr<PackedBuffer> buffer; // null: seen once
  std::weak_ptr<const void> user;
};

/// Weights seen once are remembered so that the second sight is known. Activations pass through here too; more than
/// this many at a time are forgotten in turn.
constexpr size_t kSeenOnce = 4096;

} // namespace

struct PackedCache::Impl {
  std::mutex mutex;
  std::unordered_map<Place, Entry, PlaceHash> entries;
  std::deque<Place> seenOnce; // oldest first; may name what is kept or gone by now
  size_t bytes = 0, count = 0;
  uint64_t hits = 0, packed = 0;
  ForkHooks fork{ForkHooks::Rank::Device, [this] { mutex.lock(); }, [this] { mutex.unlock(); },
                 [this] { mutex.unlock(); }};

  /// Takes the copy out; it is destroyed by the caller, without the lock: that frees memory.
  std::shared_ptr<PackedBuffer> take(Entry &entry) {
    if (entry.buffer) {
      bytes -= entry.buffer->bytes;
      --count;
    }
    return std::exchange(entry.buffer, nullptr);
  }

  void remember(const Place &place) {
    seenOnce.push_back(place);
    if (seenOnce.size() <= kSeenOnce)
      return;
    auto oldest = entries.find(seenOnce.front());
    if (oldest != entries.end() && !oldest->second.buffer)
      entries.erase(oldest);
    seenOnce.pop_front();
  }

  /// Removes the entries for which pred holds.
  template <class Pred> void removeIf(Pred &&pred) {
    std::vector<std::shared_ptr<PackedBuffer>> dropped; // before the lock, so destroyed after it
    std::lock_guard lock(mutex);
    for (auto it = entries.begin(); it != entries.end();) {
      if (it->second.buffer && pred(it->first, it->second)) {
        dropped.push_back(take(it->second));
        it = entries.erase(it);
      } else {
        ++it;
      }
    }
  }
};

PackedBuffer::PackedBuffer(TemporaryMemory memory, size_t bytes)
    : memory(memory), bytes(bytes), block(memory.allocate(std::max<size_t>(bytes, 1), Purpose::Packed)) {}

PackedBuffer::~PackedBuffer() { memory.allocator->free(block); }

void PackedBuffer::useOn(Stream &stream) {
  if (&stream == memory.stream)
    return;
  stream.wait(filled);
  memory.allocator->recordStream(block, stream);
}

PackedCache::PackedCache() : impl(new Impl) {}

PackedCache &PackedCache::instance() {
  static auto *cache = new PackedCache;
  return *cache;
}

PackedCache::Answer PackedCache::find(const PackedKey &key, const std::weak_ptr<const void> &user) {
  std::shared_ptr<PackedBuffer> outdated; // destroyed without the lock
  std::lock_guard lock(impl->mutex);
  if (key.epoch == 0) {
    ++impl->packed;
    return {};
  }
  auto [it, added] = impl->entries.try_emplace(Place{key.address, key.recipe, key.memory});
  Entry &entry = it->second;
  if (!added && entry.epoch == key.epoch) {
    if (entry.buffer && !entry.buffer->failed.load(std::memory_order_relaxed)) {
      entry.user = user;
      ++impl->hits;
      return {entry.buffer, false};
    }
    outdated = impl->take(entry);
    ++impl->packed;
    return {nullptr, true};
  }
  // First sight of this weight, or of these contents.
  outdated = impl->take(entry);
  entry.epoch = key.epoch;
  ++impl->packed;
  if (added || outdated)
    impl->remember(it->first);
  return {};
}

void PackedCache::publish(const PackedKey &key, std::shared_ptr<PackedBuffer> buffer,
                          const std::weak_ptr<const void> &user) {
  releaseStale();
  std::shared_ptr<PackedBuffer> outdated;
  std::lock_guard lock(impl->mutex);
  // Half of what may be held at all: beyond it new copies are packed in the call. Dropping old ones instead would
  // make a model that does not fit pack all of its weights in each call.
  if (impl->bytes + buffer->bytes > key.memory->limit() / 2)
    return;
  Entry &entry = impl->entries[Place{key.address, key.recipe, key.memory}];
  outdated = impl->take(entry);
  impl->bytes += buffer->bytes;
  ++impl->count;
  entry = {key.epoch, std::move(buffer), user};
}

void PackedCache::releaseStale() {
  Allocator *host = TemporaryMemory::host().allocator;
  impl->removeIf([&](const Place &place, const Entry &entry) {
    if (entry.user.expired() || entry.buffer->failed.load(std::memory_order_relaxed))
      return true;
    if (place.memory == host)
      return false; // a frozen parameter's memory is PyTorch's; whoever unfreezes it says so
    Block *weight = entry.buffer->memory.allocator->find(place.address);
    return !weight || weight->epoch.load(std::memory_order_relaxed) != entry.epoch;
  });
}

void PackedCache::releaseAll() {
  impl->removeIf([](const Place &, const Entry &) { return true; });
}

void PackedCache::releaseEpochs(std::span<const uint64_t> epochs) {
  impl->removeIf([&](const Place &, const Entry &entry) {
    return std::find(epochs.begin(), epochs.end(), entry.epoch) != epochs.end();
  });
}

PackedWeightStats PackedCache::stats() const {
  std::lock_guard lock(impl->mutex);
  return {impl->count, impl->bytes, impl->hits, impl->packed};
}

PackedWeightStats packedWeightStats() { return PackedCache::instance().stats(); }

void releasePackedWeights(bool all) {
  if (all)
    PackedCache::instance().releaseAll();
  else
    PackedCache::instance().releaseStale();
}

void releasePackedWeights(std::span<const uint64_t> epochs) { PackedCache::instance().releaseEpochs(epochs); }

} // namespace tilewright
