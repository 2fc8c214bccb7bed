//===- Scratch.h - a kernel's memory per thread ------------------*- C++ -*-===//
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilewright {

/// At least `bytes` of the running thread's own memory, aligned to 64 bytes, for one scope; what it contains is
/// undefined. It is kept for the next kernel on this thread. With TILEWRIGHT_ALLOC=guard it is fresh, NaN, and ends
/// (but for alignment) at an unreadable page.
class ScratchMemory {
public:
  explicit ScratchMemory(int64_t bytes);
  ~ScratchMemory();
  ScratchMemory(const ScratchMemory &) = delete;
  ScratchMemory &operator=(const ScratchMemory &) = delete;
  void *data() const { return pointer; }

private:
  void *pointer = nullptr;
  void *mapping = nullptr; // guard mode, or the thread's own is in use by an outer scope
  size_t mapped = 0;
};

} // namespace tilewright
