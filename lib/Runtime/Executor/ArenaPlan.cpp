//===- ArenaPlan.cpp - temporaries that share memory ----------------------===//
#include "ArenaPlan.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace tilewright {

ArenaPlan planArena(std::span<const Lifetime> lifetimes) {
  auto rounded = [](size_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; };
  size_t sum = 0;
  for (const Lifetime &l : lifetimes) {
    if (l.bytes > size_t(INT64_MAX) - sum - kArenaAlignment)
      throw std::overflow_error("the temporaries of a program exceed the address space");
    sum += rounded(l.bytes);
  }

  std::vector<uint32_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return lifetimes[a].bytes != lifetimes[b].bytes ? lifetimes[a].bytes > lifetimes[b].bytes : a < b;
  });

  ArenaPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<uint32_t> byOffset; // those placed, in order of their offsets
  for (uint32_t i : order) {
    const Lifetime &l = lifetimes[i];
    size_t bytes = rounded(l.bytes);
    if (bytes == 0)
      continue;
    size_t end = 0, best = SIZE_MAX, bestGap = SIZE_MAX;
    for (uint32_t j : byOffset) {
      const Lifetime &other = lifetimes[j];
      if (other.last < l.first || other.first > l.last)
        continue;
      size_t begin = plan.offsets[j];
      if (begin > end && begin - end >= bytes && begin - end < bestGap) {
        best = end;
        bestGap = begin - end;
      }
      end = std::max(end, begin + rounded(other.bytes));
    }
    plan.offsets[i] = best == SIZE_MAX ? end : best;
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + bytes);
    auto at = std::upper_bound(byOffset.begin(), byOffset.end(), plan.offsets[i],
                               [&](size_t offset, uint32_t j) { return offset < plan.offsets[j]; });
    byOffset.insert(at, i);
  }
  return plan;
}

} // namespace tilewright
