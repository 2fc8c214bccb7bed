//===- SignatureTable.cpp - what is known per signature -------------------===//
#include "SignatureTable.h"

namespace tilewright::ops {

SignatureTable::SignatureTable() : current(new Table(256)) {}

const Known *SignatureTable::find(std::string_view key, uint64_t hash) const {
  const Table &table = *current.load(std::memory_order_acquire);
  for (size_t i = hash & table.mask;; i = (i + 1) & table.mask) {
    const Known *known = table.slots[i].load(std::memory_order_acquire);
    if (!known)
      return nullptr;
    if (known->hash == hash && known->key == key)
      return known;
  }
}

void SignatureTable::place(Table &table, const Known *known) {
  size_t i = known->hash & table.mask;
  while (table.slots[i].load(std::memory_order_relaxed))
    i = (i + 1) & table.mask;
  table.slots[i].store(known, std::memory_order_release);
}

const Known *SignatureTable::insert(std::unique_ptr<const Known> known) {
  std::lock_guard lock(mutex);
  if (const Known *first = find(known->key, known->hash))
    return first;
  Table *table = current.load(std::memory_order_relaxed);
  size_t capacity = table->mask + 1, used = count.load(std::memory_order_relaxed);
  if ((used + 1) * 2 > capacity) {
    auto *larger = new Table(capacity * 2);
    for (size_t i = 0; i < capacity; ++i)
      if (const Known *other = table->slots[i].load(std::memory_order_relaxed))
        place(*larger, other);
    current.store(larger, std::memory_order_release);
    table = larger;
  }
  place(*table, known.get());
  count.store(used + 1, std::memory_order_relaxed);
  return known.release();
}

} // namespace tilewright::ops
