//===- Threads.h - starting, naming and briefly spinning ---------*- C++ -*-===//
#pragma once

#include <chrono>
#include <functional>
#include <immintrin.h>
#include <string>
#include <thread>

namespace tilewright {

/// A thread that takes no signals but those of its own faults, so that an interrupt reaches the main thread. The name
/// is cut to 15 characters. Throws std::system_error if the system has no more threads.
std::thread startThread(const std::string &name, std::function<void()> body);

/// How long a thread looks for new work, or for its end, before it parks. Measured on 2 cores of an EPYC (KVM;
/// bench/runtime_overheads.cpp --pin): a spinning thread begins 0.25 us after its work is posted, a parked one 8-20 us
/// after, and waking it costs the waker 2-7 us. Consecutive kernels of a program are 0.5-2 us apart, which this
/// bridges; longer gaps are left to the system, since a spinning thread takes half of a hyperthread sibling's issue
/// slots.
inline constexpr std::chrono::microseconds kSpin{5};

/// Waits until ready() or for kSpin at most; returns ready().
template <typename Ready> bool spinBriefly(Ready &&ready) {
  if (ready())
    return true;
  auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 8; ++i) {
      if (ready())
        return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return ready();
}

} // namespace tilewright
