//===- Copy.cpp - copies in stream order -----------------------------------===//

#include "tilewright/Runtime/Stream.h"
#include "tilewright/Runtime/ThreadPool.h"

#include <algorithm>
#include <cstring>

namespace tilewright {
namespace {

/// Waking the worker costs the caller 2-7 us and the task begins 8-20 us later (see Threads.h); 256 KiB in cache are
/// copied in 5-8 us. So below it nobody gains from the hand-over.
constexpr size_t kInlineBytes = 256 << 10;
/// One thread copies 2 MiB in 60-200 us, so that a second one is worth its wake from two such pieces on.
constexpr size_t kGrainBytes = 2 << 20;

void copy(void *destination, const void *source, size_t bytes) {
  auto *to = static_cast<char *>(destination);
  auto *from = static_cast<const char *>(source);
  bool overlap = to < from + bytes && from < to + bytes;
  if (overlap || bytes < 2 * kGrainBytes) {
    std::memmove(to, from, bytes);
    return;
  }
  ThreadPool::instance().parallelFor(static_cast<int64_t>(bytes), kGrainBytes,
                                     [&](int64_t begin, int64_t end, unsigned) {
                                       std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
                                     });
}

} // namespace

void copyAsync(Stream &stream, void *destination, const void *source, size_t bytes) {
  if (bytes == 0 || destination == source)
    return;
  stream.enqueue([=] { copy(destination, source, bytes); }, /*inlineIfIdle=*/bytes <= kInlineBytes);
}

} // namespace tilewright
