//===- GuardAllocator.cpp - every wrong access faults ----------------------===//

#include "AllocatorBook.h"

#include "tilewright/Runtime/Stream.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <sys/mman.h>

namespace tilewright {
namespace {

constexpr size_t kPage = 4096;
/// All bits set is a NaN in f64, f32, bf16 and f16, -1 in integers, and no valid index.
constexpr unsigned char kFill = 0xff;
/// Address ranges of freed blocks that stay unreadable before they go back to the system: a late access finds nobody
/// else's block there. Each costs a map entry of the kernel, of which a process has 65,530.
constexpr size_t kQuarantine = 4096;

constexpr size_t alignUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

struct Range {
  char *base;
  size_t bytes;
};

/// One block: an unreadable page, whole pages that end with the block, an unreadable page.
struct Guarded : Block {
  Range range{}; // guard pages included
  bool live = true;
  std::vector<StreamUse> users;
  char *pages() const { return range.base + kPage; }
  size_t pageBytes() const { return range.bytes - 2 * kPage; }
};

class GuardAllocator final : public AllocatorBook {
public:
  using AllocatorBook::AllocatorBook;
  ~GuardAllocator() override;

  Block *allocate(size_t bytes, Stream &stream, Purpose purpose) override;
  void free(Block *block) override;
  void recordStream(Block *block, Stream &stream) override;
  Block *find(const void *address) override;
  void migrate(Stream &from, Stream &to) override;
  void emptyCache() override;
  std::vector<MemorySegment> snapshot() const override;

private:
  std::unique_ptr<Guarded> map(size_t bytes, Purpose purpose);
  void freeFinished();
  void retire(Guarded &block);
  bool fits(size_t bytes) const {
    auto reserved = static_cast<size_t>(book.reservedBytes[0].current);
    return reserved <= limitBytes && bytes <= limitBytes - reserved;
  }
  static bool isSmall(const Guarded &block) { return block.requested < (size_t(1) << 20); }

  std::map<const char *, std::unique_ptr<Guarded>> blocks; // by the first byte
  std::vector<Guarded *> waiting;                          // freed, but a stream has not passed
  std::deque<Range> quarantine;
};

GuardAllocator::~GuardAllocator() {
  for (auto &[data, block] : blocks)
    munmap(block->range.base, block->range.bytes);
  for (Range range : quarantine)
    munmap(range.base, range.bytes);
}

std::unique_ptr<Guarded> GuardAllocator::map(size_t bytes, Purpose purpose) {
  size_t taken = purpose == Purpose::Tensor ? bytes : alignUp(bytes, purpose == Purpose::Pinned ? kPage : 64);
  size_t pages = alignUp(taken, kPage);
  void *memory = mmap(nullptr, pages + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return nullptr;
  auto block = std::make_unique<Guarded>();
  block->range = {static_cast<char *>(memory), pages + 2 * kPage};
  if (mprotect(block->pages(), pages, PROT_READ | PROT_WRITE) != 0) {
    munmap(memory, block->range.bytes);
    return nullptr;
  }
  std::memset(block->pages(), kFill, pages);
  block->data = block->pages() + pages - taken;
  block->bytes = pages;
  block->requested = bytes;
  block->purpose = purpose;
  return block;
}

Block *GuardAllocator::allocate(size_t bytes, Stream &stream, Purpose purpose) {
  if (bytes == 0)
    return nullptr;
  std::unique_lock hold(lock);
  everUsed.store(true, std::memory_order_relaxed);
  freeFinished();
  bool sane = bytes < (size_t(1) << 46);
  size_t pages = sane ? alignUp(bytes, kPage) : 0;
  std::unique_ptr<Guarded> block = sane && fits(pages) ? map(bytes, purpose) : nullptr;
  auto attempt = [&] {
    if (mayWait() && !waiting.empty()) {
      std::vector<StreamUse> uses;
      for (Guarded *freed : waiting)
        uses.insert(uses.end(), freed->users.begin(), freed->users.end());
      ++book.syncAllStreams;
      hold.unlock();
      waitFor(uses);
      hold.lock();
    }
    freeFinished();
    return fits(pages) ? map(bytes, purpose) : nullptr;
  };
  if (!block && sane) {
    ++book.allocRetries;
    block = reclaiming(hold, attempt);
  }
  if (!block) {
    std::vector<const Block *> live;
    for (auto &[data, held] : blocks)
      live.push_back(held.get());
    throwOutOfMemory(bytes, purpose, std::move(live));
  }
  block->stream = &stream;
  block->touch();
  bool small = isSmall(*block);
  auto size = static_cast<int64_t>(block->bytes);
  countBlock(*block, small, 1);
  count(book.active, small, 1);
  count(book.activeBytes, small, size);
  count(book.segment, small, 1);
  count(book.reservedBytes, small, size);
  ++book.deviceAllocs;
  Guarded *raw = block.get();
  blocks.emplace(static_cast<const char *>(raw->data), std::move(block));
  return raw;
}

void GuardAllocator::free(Block *block) {
  if (!block)
    return;
  std::lock_guard hold(lock);
  auto &guarded = static_cast<Guarded &>(*block);
  if (!guarded.live)
    throw std::logic_error("Allocator::free: the block is not live; it was freed before");
  guarded.live = false;
  countBlock(guarded, isSmall(guarded), -1);
  for (StreamUse &use : guarded.users)
    use.ticket = use.stream->submitted();
  guarded.users.push_back({guarded.stream, guarded.stream->submitted()});
  waiting.push_back(&guarded);
  freeFinished();
}

/// What lies between the block and its guard pages must be as it was filled.
void checkSurroundings(const Guarded &block) {
  auto *begin = static_cast<const unsigned char *>(block.data), *end = begin + block.requested;
  auto *first = reinterpret_cast<const unsigned char *>(block.pages()), *last = first + block.pageBytes();
  auto complain = [&](size_t distance, const char *where) {
    std::fprintf(stderr, "tilewright guard: a block of %zu bytes (%s) was written %zu bytes %s\n", block.requested,
                 std::string(nameOf(block.purpose)).c_str(), distance, where);
    std::abort();
  };
  for (auto *byte = end; byte < last; ++byte)
    if (*byte != kFill)
      complain(static_cast<size_t>(byte - end) + 1, "past its end");
  for (auto *byte = begin; byte > first;)
    if (*--byte != kFill)
      complain(static_cast<size_t>(begin - byte), "before its start");
}

/// The memory goes back at once; its addresses stay taken and unreadable for a while.
void GuardAllocator::retire(Guarded &block) {
  checkSurroundings(block);
  bool small = isSmall(block);
  auto size = static_cast<int64_t>(block.bytes);
  count(book.active, small, -1);
  count(book.activeBytes, small, -size);
  count(book.segment, small, -1);
  count(book.reservedBytes, small, -size);
  ++book.deviceFrees;
  Range range = block.range;
  void *again =
      mmap(range.base, range.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (again == MAP_FAILED)
    munmap(range.base, range.bytes); // out of map entries: unmapped is unreadable as well
  else
    quarantine.push_back(range);
  if (quarantine.size() > kQuarantine) {
    munmap(quarantine.front().base, quarantine.front().bytes);
    quarantine.pop_front();
  }
  blocks.erase(static_cast<const char *>(block.data));
}

void GuardAllocator::freeFinished() {
  for (size_t i = 0; i < waiting.size();) {
    Guarded &block = *waiting[i];
    std::erase_if(block.users, passed);
    if (!block.users.empty()) {
      ++i;
      continue;
    }
    waiting[i] = waiting.back();
    waiting.pop_back();
    retire(block);
  }
}

void GuardAllocator::recordStream(Block *block, Stream &stream) {
  if (!block || block->stream == &stream)
    return;
  std::lock_guard hold(lock);
  auto &users = static_cast<Guarded *>(block)->users;
  if (std::none_of(users.begin(), users.end(), [&](const StreamUse &use) { return use.stream == &stream; }))
    users.push_back({&stream, 0});
}

Block *GuardAllocator::find(const void *address) {
  std::lock_guard hold(lock);
  auto it = blocks.upper_bound(static_cast<const char *>(address));
  if (it == blocks.begin())
    return nullptr;
  Guarded &block = *std::prev(it)->second;
  bool inside = static_cast<const char *>(address) < static_cast<const char *>(block.data) + block.requested;
  return inside && block.live ? &block : nullptr;
}

void GuardAllocator::migrate(Stream &from, Stream &to) {
  from.waitUntil(from.submitted());
  std::lock_guard hold(lock);
  for (auto &[data, block] : blocks) {
    std::erase_if(block->users, [&](const StreamUse &use) { return use.stream == &from; });
    if (block->stream == &from)
      block->stream = &to;
  }
  freeFinished();
}

void GuardAllocator::emptyCache() {
  std::lock_guard hold(lock);
  freeFinished();
}

std::vector<MemorySegment> GuardAllocator::snapshot() const {
  std::lock_guard hold(lock);
  std::vector<MemorySegment> result;
  for (auto &[data, block] : blocks) {
    auto state = block->live ? MemorySegment::State::Live : MemorySegment::State::PendingFree;
    result.push_back({block->pages(),
                      block->pageBytes(),
                      block->stream->id(),
                      isSmall(*block),
                      {{block->pages(), block->pageBytes(), block->requested, state, block->purpose}}});
  }
  return result;
}

} // namespace

std::unique_ptr<Allocator> Allocator::createGuard(size_t limit) { return std::make_unique<GuardAllocator>(limit); }

} // namespace tilewright
