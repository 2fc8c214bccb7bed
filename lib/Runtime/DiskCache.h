//===- DiskCache.h - checksummed files by key --------------------*- C++ -*-===//
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

/// The file layer of ProgramCache (which says what holds). Thread-safe, and safe beside other processes.
class DiskCache {
public:
  DiskCache(std::string directory, uint64_t limitBytes, std::function<void(const std::string &)> warn);

  struct Entry {
    std::string report;
    std::vector<uint8_t> program;
  };
  /// Nothing if there is none, or none that is whole.
  std::optional<Entry> read(std::string_view key);
  /// Errors end the use of the disk for this process, with one warning.
  void write(std::string_view key, std::string_view report, const std::vector<uint8_t> &program);
  void remove(std::string_view key);

  std::atomic<uint64_t> written{0}, evicted{0}, damaged{0};

private:
  /// The open folder, or -1: not usable.
  int folder();
  int openFolder();
  void giveUp(const std::string &why);
  void evict();

  const std::string directory;
  const uint64_t limitBytes;
  const std::function<void(const std::string &)> warn;
  std::once_flag opened;
  int folderFd = -1;
  std::atomic<bool> writable{true}, warned{false};
  std::atomic<uint64_t> sinceEviction{UINT64_MAX}; // bytes written; the first write looks at what is there
};

} // namespace tilewright
