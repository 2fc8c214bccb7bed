//===- KernelObserver.cpp - times of kernels for those who ask ------------===//
#include "KernelObserver.h"

#include "tilewright/Support/Switches.h"

#include <atomic>
#include <cstdio>
#include <mutex>

namespace tilewright {

namespace {

using Observer = std::function<void(const KernelRecord &)>;
std::atomic<bool> observed{false};
std::mutex observerMutex;
std::shared_ptr<const Observer> observer; // guarded by observerMutex

void print(const KernelRecord &r) {
  double gigabytes = r.seconds > 0 ? r.bytes / r.seconds * 1e-9 : 0;
  double gigaflops = r.seconds > 0 ? r.flops / r.seconds * 1e-9 : 0;
  std::fprintf(stderr, "tilewright: %10.1f us %8.1f GB/s %8.1f GFLOP/s  %s  %s\n", r.seconds * 1e6, gigabytes,
               gigaflops, r.name, r.source);
}

} // namespace

void setKernelObserver(Observer next) {
  std::lock_guard lock(observerMutex);
  observed.store(static_cast<bool>(next), std::memory_order_relaxed);
  observer = next ? std::make_shared<const Observer>(std::move(next)) : nullptr;
}

KernelTimer::KernelTimer(const KernelCode &code, const KernelStep &step, int64_t bytes, int64_t flops)
    : code(code), step(step), bytes(bytes), flops(flops),
      wanted(observed.load(std::memory_order_relaxed) || switches::debugLevel() >= 1) {
  if (wanted)
    begin = std::chrono::steady_clock::now();
}

void KernelTimer::stop() {
  if (!wanted)
    return;
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  KernelRecord record{code.name.c_str(), step.source.c_str(), time.count(), bytes, flops};
  std::shared_ptr<const Observer> current;
  {
    std::lock_guard lock(observerMutex);
    current = observer;
  }
  if (current)
    (*current)(record);
  if (switches::debugLevel() >= 1)
    print(record);
}

} // namespace tilewright
