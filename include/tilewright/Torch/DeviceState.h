//===- DeviceState.h - the device as this process and this thread see it -*- C++ -*-===//
//
// Between c10 and the runtime: current device and stream, the pool of streams, waiting, and what a fork does.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Runtime/Device.h"
#include "tilewright/Runtime/Stream.h"

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <utility>

namespace tilewright::npu {

inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;
inline constexpr c10::DeviceIndex kDeviceCount = 1;

/// The runtime device, for use. Throws c10::Error in a child process that was forked after the parent had used the
/// device: its workers and locks did not come along.
Device &device();

/// True once device() has been called in this process (or in the parent before a fork).
bool deviceUsed();
/// True in a child forked after use. Nothing but refusing is possible then.
bool inBadFork();

/// Throws c10::Error unless the index is 0 or -1 (the current device).
void checkDeviceIndex(c10::DeviceIndex index);

/// The stream that operators of the calling thread go to. Device default unless a guard or `torch.npu.stream` says
/// otherwise.
Stream &currentStream();
c10::Stream currentTorchStream();
/// Returns the stream that was current.
c10::Stream exchangeCurrentStream(c10::Stream stream);

c10::Stream toTorch(Stream &stream);
/// Throws c10::Error for a stream of another device type or an unknown id.
Stream &toRuntime(c10::Stream stream);

/// Streams are handed out round robin from a fixed number per priority, as c10::Stream carries no lifetime.
Stream &streamFromPool(int priority);

/// Blocks until the stream is drained and raises errors of earlier work. The GIL is released meanwhile (as in all waits
/// of the runtime: see Runtime/Blocking.h).
void synchronize(Stream &stream);
void synchronizeDevice();

/// Rethrows the exception being handled as c10's type for it: memory, index, or as it is.
[[noreturn]] void rethrowForTorch();

/// Calls f; exceptions of the runtime become c10's.
template <typename F> decltype(auto) translated(F &&f) {
  try {
    return std::forward<F>(f)();
  } catch (...) {
    rethrowForTorch();
  }
}

} // namespace tilewright::npu
