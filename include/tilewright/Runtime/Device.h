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
  unsigned vectorBits = 0;
  unsigned threads = 0;    // of the pool
  size_t totalMemory = 0;  // the limit, bytes
  size_t l1Bytes = 0, l2Bytes = 0, l3Bytes = 0;
};

/// The host device (index 0 of `npu`). Constructed at first use; starts no thread by itself.
class Device {
public:
  static Device &instance();

  const DeviceCapabilities &capabilities() const;
  Allocator &allocator();

  /// Stream 0 of this device exists always; others are created on request and live until destroyed.
  Stream &defaultStream();
  Stream &createStream(int priority = 0);
  /// Throws std::out_of_range for an unknown id.
  Stream &stream(int64_t id);
  void synchronize(); // all streams; rethrows the first recorded error

  /// Fraction of the machine's memory that the device may hold; default TILEWRIGHT_MEMORY_LIMIT (bytes, or 60%), else 75%.
  void setMemoryLimit(size_t bytes);

private:
  Device();
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// The CPU level of this process: detection limited by TILEWRIGHT_CPU.
const std::string &cpuLevel();

} // namespace tilewright
