//===- DeviceState.cpp - current device and stream, waiting, fork ------------------------------------------------===//

#include "tilewright/Torch/DeviceState.h"

#include "tilewright/Runtime/Allocator.h"
#include "tilewright/Runtime/Blocking.h"
#include "tilewright/Runtime/Errors.h"

#include <Python.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <mutex>
#include <pthread.h>

namespace tilewright::npu {
namespace {

std::atomic<bool> used{false};
std::atomic<bool> badFork{false}; // a child inherits memory but no threads: its queues would never drain

thread_local Stream *threadStream = nullptr;

constexpr int kStreamsPerPriority = 8; // each costs a worker thread once it has work; the host has few cores

struct StreamPool {
  std::mutex mutex;
  std::array<Stream *, kStreamsPerPriority> streams{};
  unsigned next = 0;

  Stream &take(int priority) {
    std::lock_guard lock(mutex);
    Stream *&slot = streams[next++ % kStreamsPerPriority];
    if (!slot)
      slot = &device().createStream(priority);
    return *slot;
  }
};

// A stream's task may need the GIL (a host function), and other Python threads may want to go on: it is given up while
// the runtime waits.
void *releaseGil() { return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr; }
void takeGil(void *state) {
  if (state)
    PyEval_RestoreThread(static_cast<PyThreadState *>(state));
}

void beginUse() {
  static const bool begun = [] {
    pthread_atfork(nullptr, nullptr, [] { badFork.store(used.load()); });
    setBlockingHooks({&releaseGil, &takeGil});
    used.store(true);
    return true;
  }();
  (void)begun;
}

} // namespace

Device &device() {
  TORCH_CHECK(!badFork.load(std::memory_order_relaxed),
              "Cannot use the device npu in a forked subprocess after the parent used it. To use npu with "
              "multiprocessing, start processes with the 'spawn' method, or use npu only in the children.");
  if (!used.load(std::memory_order_acquire))
    beginUse();
  return Device::instance();
}

bool deviceUsed() { return used.load(); }
bool inBadFork() { return badFork.load(); }

void checkDeviceIndex(c10::DeviceIndex index) {
  TORCH_CHECK(index >= -1 && index < kDeviceCount,
              "npu has one device with index 0; there is no npu:", static_cast<int>(index), ".");
}

Stream &currentStream() { return threadStream ? *threadStream : device().defaultStream(); }

c10::Stream toTorch(Stream &stream) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, 0), stream.id());
}

Stream &toRuntime(c10::Stream stream) {
  TORCH_CHECK(stream.device_type() == kDeviceType, "expected a stream of the device npu, got one of ", stream.device());
  if (stream.id() == 0)
    return device().defaultStream();
  return translated([&]() -> Stream & { return device().stream(stream.id()); });
}

c10::Stream currentTorchStream() {
  // The default stream's id is known without touching the device, so that asking for it does not count as use.
  if (!threadStream)
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, 0), 0);
  return toTorch(*threadStream);
}

c10::Stream exchangeCurrentStream(c10::Stream stream) {
  c10::Stream previous = currentTorchStream();
  threadStream = stream.id() == 0 ? nullptr : &toRuntime(stream);
  return previous;
}

Stream &streamFromPool(int priority) {
  static StreamPool normal, high;
  return priority < 0 ? high.take(priority) : normal.take(0);
}

void rethrowForTorch() {
  try {
    throw;
  } catch (const OutOfMemory &error) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
  } catch (const DataError &error) {
    TORCH_CHECK_INDEX(error.kind != DataErrorKind::Index, error.what());
    TORCH_CHECK(false, error.what());
  } catch (const std::out_of_range &error) {
    TORCH_CHECK_INDEX(false, error.what());
  } catch (const std::invalid_argument &error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

void synchronize(Stream &stream) {
  translated([&] { stream.synchronize(); });
}

void synchronizeDevice() {
  if (!deviceUsed())
    return;
  translated([] { device().synchronize(); });
}

} // namespace tilewright::npu
