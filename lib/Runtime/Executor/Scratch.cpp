//===- Scratch.cpp - a kernel's memory per thread -------------------------===//
#include "Scratch.h"

#include "ArenaPlan.h"
#include "tilewright/Support/Switches.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace tilewright {

namespace {

struct ThreadScratch {
  void *memory = nullptr;
  size_t bytes = 0;
  bool used = false;
  ~ThreadScratch() { std::free(memory); }
};
thread_local ThreadScratch own;

size_t roundUp(size_t n, size_t to) { return (n + to - 1) / to * to; }

bool guarded() {
  static const bool guard = switches::alloc() == switches::AllocatorKind::Guard;
  return guard;
}

} // namespace

ScratchMemory::ScratchMemory(int64_t wanted) {
  if (wanted <= 0)
    return;
  size_t bytes = roundUp(static_cast<size_t>(wanted), kArenaAlignment);
  if (guarded() || own.used) {
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped = roundUp(bytes, page) + page;
    mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
      throw std::bad_alloc();
    pointer = static_cast<char *>(mapping) + mapped - page - bytes;
    std::memset(pointer, 0xff, bytes);
    mprotect(static_cast<char *>(mapping) + mapped - page, page, PROT_NONE);
    return;
  }
  if (own.bytes < bytes) {
    std::free(own.memory);
    own.bytes = 0;
    own.memory = std::aligned_alloc(kArenaAlignment, roundUp(bytes, 4096));
    if (!own.memory)
      throw std::bad_alloc();
    own.bytes = roundUp(bytes, 4096);
  }
  own.used = true;
  pointer = own.memory;
}

ScratchMemory::~ScratchMemory() {
  if (mapping)
    munmap(mapping, mapped);
  else if (pointer)
    own.used = false;
}

} // namespace tilewright
