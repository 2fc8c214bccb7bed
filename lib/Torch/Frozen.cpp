//===- Frozen.cpp - CPU tensors whose packed copies may be kept ---------------------------------------------------===//

#include "tilewright/Torch/Frozen.h"

#include "tilewright/Runtime/PackedWeights.h"

#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace tilewright::npu {
namespace {

struct Entry {
  // Keeps the StorageImpl's address from being given to another storage.
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  uint64_t token;
  std::vector<uint64_t> handedOut; // tokens of the versions seen, the latest last
};

/// A frozen storage is looked up for each weight of each call: most processes freeze nothing and pay one load.
struct Registry {
  std::atomic<size_t> count{0};
  std::shared_mutex mutex;
  std::unordered_map<const c10::StorageImpl *, Entry> entries;
  uint64_t next = 1;

  static Registry &instance() {
    static auto *registry = new Registry; // calls may outlive static destructors
    return *registry;
  }

  /// Entries of storages that are gone. Returns the tokens that were derived from them.
  std::vector<uint64_t> prune() {
    std::vector<uint64_t> tokens;
    std::erase_if(entries, [&](const auto &item) {
      if (!item.second.storage.expired())
        return false;
      tokens.insert(tokens.end(), item.second.handedOut.begin(), item.second.handedOut.end());
      return true;
    });
    count = entries.size();
    return tokens;
  }
};

/// Block epochs count up from 1; the top bit keeps tokens apart from them. The rest is a mix (SplitMix64) of storage
/// and version, so that neither has a limit.
uint64_t tokenOf(uint64_t storage, uint64_t version) {
  uint64_t x = storage * 0x9e3779b97f4a7c15ULL + version;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return (x ^ (x >> 31)) | (uint64_t(1) << 63);
}

uint64_t versionOf(const at::Tensor &tensor) {
  return tensor.is_inference() ? 0 : tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

} // namespace

void freezeStorage(const at::Tensor &tensor) {
  TORCH_CHECK_VALUE(tensor.has_storage() && tensor.layout() == c10::kStrided, "freeze: a tensor without plain storage");
  TORCH_CHECK_VALUE(tensor.device().is_cpu(), "freeze: a tensor on ", tensor.device(),
                    "; only cpu tensors need it (on npu writes are noticed)");
  Registry &registry = Registry::instance();
  std::vector<uint64_t> gone;
  {
    std::unique_lock lock(registry.mutex);
    gone = registry.prune();
    const c10::StorageImpl *storage = tensor.storage().unsafeGetStorageImpl();
    if (!registry.entries.contains(storage))
      registry.entries.emplace(storage, Entry{tensor.storage().getWeakStorageImpl(), registry.next++, {}});
    registry.count = registry.entries.size();
  }
  releasePackedWeights(gone);
}

bool thawStorage(const at::Tensor &tensor) {
  if (!tensor.has_storage())
    return false;
  Registry &registry = Registry::instance();
  std::vector<uint64_t> gone;
  bool found = false;
  {
    std::unique_lock lock(registry.mutex);
    gone = registry.prune();
    auto it = registry.entries.find(tensor.storage().unsafeGetStorageImpl());
    if (it != registry.entries.end()) {
      gone.insert(gone.end(), it->second.handedOut.begin(), it->second.handedOut.end());
      registry.entries.erase(it);
      found = true;
    }
    registry.count = registry.entries.size();
  }
  releasePackedWeights(gone);
  return found;
}

bool isFrozen(const at::Tensor &tensor) {
  Registry &registry = Registry::instance();
  if (registry.count.load(std::memory_order_relaxed) == 0 || !tensor.has_storage())
    return false;
  std::shared_lock lock(registry.mutex);
  return registry.entries.contains(tensor.storage().unsafeGetStorageImpl());
}

uint64_t frozenEpoch(const at::Tensor &tensor) {
  Registry &registry = Registry::instance();
  if (registry.count.load(std::memory_order_acquire) == 0 || !tensor.has_storage())
    return 0;
  const c10::StorageImpl *storage = tensor.storage().unsafeGetStorageImpl();
  uint64_t token;
  {
    std::shared_lock lock(registry.mutex);
    auto it = registry.entries.find(storage);
    if (it == registry.entries.end())
      return 0;
    token = tokenOf(it->second.token, versionOf(tensor));
    if (!it->second.handedOut.empty() && it->second.handedOut.back() == token)
      return token;
  }
  std::unique_lock lock(registry.mutex);
  auto it = registry.entries.find(storage);
  if (it == registry.entries.end())
    return 0;
  std::vector<uint64_t> &seen = it->second.handedOut;
  if (std::find(seen.begin(), seen.end(), token) == seen.end())
    seen.push_back(token);
  return token;
}

} // namespace tilewright::npu
