//===- StridedMemory.cpp - copy and fill of strided memory --------------------------------------------------------===//

#include "tilewright/Torch/StridedMemory.h"

#include "tilewright/Runtime/ThreadPool.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tilewright::npu {
namespace {

struct alignas(16) Bytes16 {
  uint64_t low, high;
  friend Bytes16 operator^(Bytes16 a, Bytes16 b) { return {a.low ^ b.low, a.high ^ b.high}; }
};

// One row with any strides. memcpy's for the loads and stores: a view of a dtype may lie at any address.
template <typename T>
void copyRow(char *to, int64_t toStride, const char *from, int64_t fromStride, int64_t count, T flip) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * fromStride, sizeof(T));
    value = static_cast<T>(value ^ flip);
    std::memcpy(to + i * toStride, &value, sizeof(T));
  }
}

template <typename T> void fillRow(char *to, const char *from, int64_t count) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
}

// A plane whose rows are dense in one memory only (a transpose): in tiles, so that each cache line is used while it is
// there.
template <typename T>
void copyPlane(char *to, const char *from, const StridedCopy::Dim &a, const StridedCopy::Dim &b, T flip) {
  constexpr int64_t kTile = 64 / sizeof(T) > 8 ? 64 / sizeof(T) : 8;
  for (int64_t i = 0; i < a.size; i += kTile)
    for (int64_t j = 0; j < b.size; j += kTile)
      for (int64_t ii = i, end = std::min(i + kTile, a.size); ii < end; ++ii)
        copyRow<T>(to + ii * a.toStride + j * b.toStride, b.toStride, from + ii * a.fromStride + j * b.fromStride,
                   b.fromStride, std::min(kTile, b.size - j), flip);
}

template <typename T> struct Runner {
  using Dim = StridedCopy::Dim;
  const StridedCopy &copy;
  size_t inner; // dimensions that one work item covers: 0 (a single element), 1 (a row) or 2 (a plane)
  T flip{};
  bool flips = false;

  // One item, cut to [begin, end) of its leading dimension.
  void item(char *to, const char *from, int64_t begin, int64_t end) const {
    constexpr auto size = static_cast<int64_t>(sizeof(T));
    if (inner == 0)
      return copyRow<T>(to, 0, from, 0, 1, flip);
    Dim lead = copy.dims[copy.dims.size() - inner];
    lead.size = end - begin;
    to += begin * lead.toStride;
    from += begin * lead.fromStride;
    if (inner == 2)
      return copyPlane<T>(to, from, lead, copy.dims.back(), flip);
    if (!flips && lead.toStride == size && lead.fromStride == size)
      std::memcpy(to, from, lead.size * size);
    else if (!flips && lead.toStride == size && lead.fromStride == 0)
      fillRow<T>(to, from, lead.size);
    else
      copyRow<T>(to, lead.toStride, from, lead.fromStride, lead.size, flip);
  }

  // Whole items [begin, end), counted over the outer dimensions.
  void range(int64_t begin, int64_t end) const {
    size_t outer = copy.dims.size() - inner;
    int64_t leadSize = inner ? copy.dims[outer].size : 1;
    std::vector<int64_t> index(outer);
    char *to = copy.to;
    const char *from = copy.from;
    int64_t rest = begin;
    for (size_t d = outer; d-- > 0;) {
      index[d] = rest % copy.dims[d].size;
      rest /= copy.dims[d].size;
      to += index[d] * copy.dims[d].toStride;
      from += index[d] * copy.dims[d].fromStride;
    }
    for (int64_t i = begin; i < end; ++i) {
      item(to, from, 0, leadSize);
      for (size_t d = outer; d-- > 0;) {
        const Dim &dim = copy.dims[d];
        to += dim.toStride;
        from += dim.fromStride;
        if (++index[d] < dim.size)
          break;
        index[d] = 0;
        to -= dim.size * dim.toStride;
        from -= dim.size * dim.fromStride;
      }
    }
  }
};

template <typename T> void runTyped(const StridedCopy &copy) {
  constexpr auto size = static_cast<int64_t>(sizeof(T));
  const auto &dims = copy.dims;
  size_t rank = dims.size();
  Runner<T> runner{copy, std::min<size_t>(rank, 1)};
  runner.flips = copy.flip != decltype(copy.flip){};
  std::memcpy(&runner.flip, copy.flip.data(), sizeof(T));
  // Rows that are not dense in the source, beside a dimension that is: a transpose.
  if (rank >= 2 && dims.back().fromStride != 0 && dims.back().fromStride != size && dims[rank - 2].fromStride == size)
    runner.inner = 2;
  int64_t items = 1;
  for (size_t d = 0; d + runner.inner < rank; ++d)
    items *= dims[d].size;
  // A thread is woken for at least 256 KiB: a wake costs 1-5 us, in which one thread copies some 50 KB.
  auto grain = [](int64_t bytes) { return std::max<int64_t>(1, (256 << 10) / std::max<int64_t>(1, bytes)); };
  int64_t itemBytes = copy.elements() / items * size;
  if (items > 1 || runner.inner == 0)
    ThreadPool::instance().parallelFor(items, grain(itemBytes),
                                       [&](int64_t begin, int64_t end, unsigned) { runner.range(begin, end); });
  else
    ThreadPool::instance().parallelFor(
        dims[0].size, grain(itemBytes / dims[0].size),
        [&](int64_t begin, int64_t end, unsigned) { runner.item(copy.to, copy.from, begin, end); });
}

} // namespace

StridedCopy::StridedCopy(void *to, std::span<const int64_t> toStrides, const void *from,
                         std::span<const int64_t> fromStrides, std::span<const int64_t> sizes, size_t elementBytes)
    : to(static_cast<char *>(to)), from(static_cast<const char *>(from)), elementBytes(elementBytes) {
  auto width = static_cast<int64_t>(elementBytes);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1)
      dims.push_back({sizes[d], toStrides[d] * width, fromStrides[d] * width});
  // Innermost: where the destination is densest (writes cost more than reads).
  std::stable_sort(dims.begin(), dims.end(), [](const Dim &a, const Dim &b) { return a.toStride > b.toStride; });
  std::vector<Dim> merged;
  for (const Dim &dim : dims) {
    if (!merged.empty() && merged.back().toStride == dim.size * dim.toStride &&
        merged.back().fromStride == dim.size * dim.fromStride)
      merged.back() = {merged.back().size * dim.size, dim.toStride, dim.fromStride};
    else
      merged.push_back(dim);
  }
  dims = std::move(merged);
}

int64_t StridedCopy::elements() const {
  int64_t count = 1;
  for (const Dim &dim : dims)
    count *= dim.size;
  return count;
}

void StridedCopy::run() const {
  if (elements() == 0)
    return;
  switch (elementBytes) {
  case 1:
    return runTyped<uint8_t>(*this);
  case 2:
    return runTyped<uint16_t>(*this);
  case 4:
    return runTyped<uint32_t>(*this);
  case 8:
    return runTyped<uint64_t>(*this);
  case 16:
    return runTyped<Bytes16>(*this);
  }
  throw std::logic_error("a strided copy of elements of " + std::to_string(elementBytes) + " bytes");
}

} // namespace tilewright::npu
