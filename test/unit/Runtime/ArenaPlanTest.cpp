#include "../../../lib/Runtime/Executor/ArenaPlan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace tilewright;

namespace {
size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// The most that lives at one step: no plan can take less.
size_t lowerBound(const std::vector<Lifetime> &lifetimes) {
  size_t peak = 0;
  for (uint32_t step = 0; step < 64; ++step) {
    size_t sum = 0;
    for (const Lifetime &l : lifetimes)
      if (l.first <= step && step <= l.last)
        sum += rounded(l.bytes);
    peak = std::max(peak, sum);
  }
  return peak;
}
} // namespace

TEST(ArenaPlan, BuffersThatLiveTogetherNeverOverlap) {
  std::mt19937_64 rng(1);
  double worst = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<Lifetime> lifetimes;
    for (size_t n = rng() % 40; n--;) {
      uint32_t first = rng() % 30;
      lifetimes.push_back({rng() % 5 ? rng() % 5000 : 0, first, first + uint32_t(rng() % 8)});
    }
    ArenaPlan plan = planArena(lifetimes);
    ASSERT_EQ(plan.offsets.size(), lifetimes.size());
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      ASSERT_EQ(plan.offsets[i] % kArenaAlignment, 0u);
      ASSERT_LE(plan.offsets[i] + lifetimes[i].bytes, plan.bytes);
      for (size_t j = 0; j < i; ++j) {
        bool together = lifetimes[i].first <= lifetimes[j].last && lifetimes[j].first <= lifetimes[i].last;
        bool disjoint = plan.offsets[i] + lifetimes[i].bytes <= plan.offsets[j] ||
                        plan.offsets[j] + lifetimes[j].bytes <= plan.offsets[i];
        ASSERT_TRUE(!together || disjoint);
      }
    }
    if (size_t bound = lowerBound(lifetimes))
      worst = std::max(worst, double(plan.bytes) / bound);
  }
  EXPECT_LT(worst, 1.6) << "the greedy plan is usually within a few percent of what lives at once";
}

TEST(ArenaPlan, ChainsShareTwoSlots) {
  std::vector<Lifetime> chain;
  for (uint32_t i = 0; i < 50; ++i)
    chain.push_back({1000, i, i + 1});
  EXPECT_EQ(planArena(chain).bytes, 2048u);
}

TEST(ArenaPlan, ImpossibleSizesAreRefused) {
  std::vector<Lifetime> huge(3, {size_t(1) << 62, 0, 0});
  EXPECT_THROW(planArena(huge), std::overflow_error);
}
