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

/// How long a thread looks for new work, or for its end, before it parks. Measured on 2 cores of an EPYC (KVM,
/// bench/runtime): waking a parked thread takes 5-9 us from notify to its first instruction and costs the waker 1.5-2.5
/// us; a spinning one sees the flag after 0.1-0.3 us. So a gap between two kernels is bridged where it is shorter than
/// a wake, and no more: a spinning thread takes half of a hyperthread sibling's issue slots.
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
