//===- SignatureTable.h - what is known per signature ------------*- C++ -*-===//
#pragma once

#include "tilewright/Runtime/Executable.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace tilewright::ops {

/// What a signature led to. Immutable once in the table; lives for ever, as the number of signatures is small.
struct Known {
  std::string key;
  uint64_t hash = 0;
  std::shared_ptr<Executable> executable;
  std::shared_ptr<const std::string> reason; // of "unsupported"
  bool inlineNumbers = false;                // look again, with the numbers in the key
};

/// Look-ups take no lock: an eager call makes one each. Slots are filled once and never changed; a table that grows is
/// replaced, and the old one stays for those who still read it (all old ones together are smaller than the new one).
class SignatureTable {
public:
  SignatureTable();
  const Known *find(std::string_view key, uint64_t hash) const;
  /// Keeps the first of several for one key, which is returned.
  const Known *insert(std::unique_ptr<const Known> known);
  size_t size() const { return count.load(std::memory_order_relaxed); }

private:
  struct Table {
    explicit Table(size_t capacity) : mask(capacity - 1), slots(new std::atomic<const Known *>[capacity]()) {}
    size_t mask;
    std::unique_ptr<std::atomic<const Known *>[]> slots;
  };
  static void place(Table &table, const Known *known);
  std::atomic<Table *> current;
  std::atomic<size_t> count{0};
  std::mutex mutex; // writers
};

} // namespace tilewright::ops
