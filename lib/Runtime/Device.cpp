//===- Device.cpp - the host as an accelerator -----------------------------===//

#include "tilewright/Runtime/Device.h"

#include "AllocatorBook.h"
#include "Executor/TemporaryMemory.h"
#include "StreamImpl.h"
#include "tilewright/Runtime/Cpu.h"
#include "tilewright/Runtime/HostMemory.h"
#include "tilewright/Runtime/ThreadPool.h"

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <unistd.h>

namespace tilewright {
namespace {

std::atomic<bool> parentUsedIt{false};

/// The C library reads CPUID; where that says nothing (some virtual machines) the kernel may know.
size_t cacheBytes(int name, int index) {
  if (long bytes = sysconf(name); bytes > 0)
    return static_cast<size_t>(bytes);
  std::ifstream in("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
  size_t value = 0;
  char unit = 0;
  if (!(in >> value))
    return 0;
  in >> unit;
  return unit == 'K' ? value << 10 : unit == 'M' ? value << 20 : value;
}

DeviceCapabilities describe() {
  DeviceCapabilities c;
  c.name = "Tilewright host (" + cpuBrand() + ")";
  c.cpuLevel = cpuLevel();
  c.vectorBits = vectorBits(processCpuLevel());
  c.threads = ThreadPool::instance().size();
  c.totalMemory = defaultMemoryLimit();
  c.l1Bytes = cacheBytes(_SC_LEVEL1_DCACHE_SIZE, 0);
  c.l2Bytes = cacheBytes(_SC_LEVEL2_CACHE_SIZE, 2);
  c.l3Bytes = cacheBytes(_SC_LEVEL3_CACHE_SIZE, 3);
  return c;
}

std::vector<std::unique_ptr<StreamImpl>> makeStreams() {
  std::vector<std::unique_ptr<StreamImpl>> streams;
  streams.push_back(std::make_unique<StreamImpl>(0, 0));
  return streams;
}

} // namespace

struct Device::Impl {
  const DeviceCapabilities capabilities = describe();
  std::mutex lock;
  std::unique_ptr<Allocator> allocator = makeAllocator(capabilities.totalMemory);
  std::vector<std::unique_ptr<StreamImpl>> streams = makeStreams(); // by id; null where destroyed
  ForkHooks fork{ForkHooks::Rank::Device, [this] { lock.lock(); }, [this] { lock.unlock(); },
                 [this] {
                   if (used())
                     parentUsedIt.store(true);
                   lock.unlock();
                 }};

  bool used() const {
    if (static_cast<AllocatorBook &>(*allocator).used())
      return true;
    return std::any_of(streams.begin(), streams.end(), [](auto &stream) { return stream && stream->submitted() > 0; });
  }

  StreamImpl &at(int64_t id) { // with the lock held
    if (id < 0 || static_cast<size_t>(id) >= streams.size() || !streams[static_cast<size_t>(id)])
      throw std::out_of_range("npu has no stream " + std::to_string(id));
    return *streams[static_cast<size_t>(id)];
  }

  std::vector<StreamImpl *> all() {
    std::lock_guard hold(lock);
    std::vector<StreamImpl *> result;
    for (auto &stream : streams)
      if (stream)
        result.push_back(stream.get());
    return result;
  }
};

// Never destroyed: tensors of static life may be freed after everything else. What is queued at exit still runs to its
// end, before other static objects, which it may use, go.
Device &Device::instance() {
  static Device *device = [] {
    auto *made = new Device;
    std::atexit([] {
      if (!Stream::insideTask() && !ThreadPool::insideBody())
        for (StreamImpl *stream : instance().impl->all())
          stream->waitUntil(stream->submitted());
    });
    return made;
  }();
  return *device;
}

Device::Device() : impl(std::make_unique<Impl>()) {}

const DeviceCapabilities &Device::capabilities() const { return impl->capabilities; }
Allocator &Device::allocator() { return *impl->allocator; }
Stream &Device::defaultStream() { return *impl->streams.front(); }

Stream &Device::createStream(int priority) {
  int64_t id;
  {
    std::lock_guard hold(impl->lock);
    id = static_cast<int64_t>(impl->streams.size());
    impl->streams.emplace_back();
  }
  // Without the lock: a stream takes part in fork(), and its registration may wait for one that wants the device's
  // lock.
  auto made = std::make_unique<StreamImpl>(id, priority);
  std::lock_guard hold(impl->lock);
  auto &slot = impl->streams[static_cast<size_t>(id)];
  slot = std::move(made);
  return *slot;
}

void Device::destroyStream(int64_t id) {
  if (id == 0)
    throw std::invalid_argument("the default stream of npu cannot be destroyed");
  std::unique_ptr<StreamImpl> gone;
  {
    std::lock_guard hold(impl->lock);
    impl->at(id);
    gone = std::move(impl->streams[static_cast<size_t>(id)]);
  }
  impl->allocator->migrate(*gone, defaultStream());
}

Stream &Device::stream(int64_t id) {
  std::lock_guard hold(impl->lock);
  return impl->at(id);
}

void Device::synchronize() {
  auto streams = impl->all();
  for (StreamImpl *stream : streams)
    stream->core->refuseSelfWait("Device::synchronize");
  for (StreamImpl *stream : streams)
    stream->waitUntil(stream->submitted());
  StreamImpl *first = nullptr;
  uint64_t least = UINT64_MAX;
  for (StreamImpl *stream : streams)
    if (uint64_t order = stream->core->errorOrder(); order && order < least) {
      least = order;
      first = stream;
    }
  if (first)
    if (auto error = first->takeError())
      std::rethrow_exception(error);
}

void Device::setMemoryLimit(size_t bytes) { impl->allocator->setLimit(bytes); }

bool Device::usedBeforeFork() { return parentUsedIt.load(std::memory_order_relaxed); }

} // namespace tilewright
