//===- Device.h - the accelerator: capabilities, memory limit ----*- C++ -*-===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tilewright {

class Allocator;
class Stream;

struct DeviceCapabilities {
  std::string name;        // "Tilewright host (AMD EPYC ...)"
  std::string cpuLevel;    // detected, or forced by TILEWRIGHT_CPU: x86-64 | avx2 | avx512 | avx512bf16
  unsigned vectorBits = 0; // of the level
  unsigned threads = 0;    // of the pool, when the device was made
  size_t totalMemory = 0;  // what the device has (TILEWRIGHT_MEMORY_LIMIT), bytes; setMemoryLimit may allow less
  size_t l1Bytes = 0, l2Bytes = 0, l3Bytes = 0; // data cache of a core, second and last level
};

/// The host device (index 0 of `npu`). Constructed at first use; starts no thread by itself.
class Device {
public:
  /// Throws std::invalid_argument for a switch that is wrong (TILEWRIGHT_CPU, _ALLOC, _MEMORY_LIMIT, _THREADS).
  static Device &instance();

  const DeviceCapabilities &capabilities() const;
  Allocator &allocator();

  /// Stream 0 of this device exists always; others are created on request and live until destroyed.
  Stream &defaultStream();
  Stream &createStream(int priority = 0);
  /// Drains it, drops its recorded error and gives its memory to the default stream. Throws std::out_of_range for an
  /// unknown id and std::invalid_argument for the default stream.
  void destroyStream(int64_t id);
  /// Throws std::out_of_range for an unknown id.
  Stream &stream(int64_t id);
  /// Waits for all streams, then rethrows the error that was recorded first, if any; the others stay for the next wait.
  void synchronize();

  /// Bytes that the device may hold; at first capabilities().totalMemory. Less than it holds now is allowed.
  void setMemoryLimit(size_t bytes);

  /// In a child of fork(): whether the parent had used its device (queued a task or allocated memory). Then the child's
  /// device cannot be used; enqueue throws. Does not construct the device.
  static bool usedBeforeFork();

private:
  Device();
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// The CPU level of this process: detection limited by TILEWRIGHT_CPU.
const std::string &cpuLevel();

} // namespace tilewright
