#include "MatrixRunner.h"

#include "tilewright/Target/Host/Attention.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <random>

using namespace tilewright;
using namespace tilewright::test;
using host::AttentionKind;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Shape {
  int64_t batch, heads, queries, keys, headSize, valueSize;
};

/// Elements of a [B, H, M, N] operand with strides, in guarded memory.
struct Operand {
  Operand(std::array<int64_t, 4> sizes, std::array<int64_t, 4> strides, int64_t bytes)
      : sizes(sizes), strides(strides), memory(extent(sizes, strides) * bytes) {}

  static int64_t extent(std::array<int64_t, 4> sizes, std::array<int64_t, 4> strides) {
    int64_t last = 1;
    for (int d = 0; d < 4; ++d) {
      if (sizes[d] == 0)
        return 0;
      last += (sizes[d] - 1) * strides[d];
    }
    return last;
  }
  int64_t at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3];
  }
  template <typename Fn> void each(Fn &&fn) const {
    for (int64_t b = 0; b < sizes[0]; ++b)
      for (int64_t h = 0; h < sizes[1]; ++h)
        for (int64_t i = 0; i < sizes[2]; ++i)
          for (int64_t j = 0; j < sizes[3]; ++j)
            fn(at(b, h, i, j));
  }
  std::array<SizeExpr, 4> expressions() const { return {strides[0], strides[1], strides[2], strides[3]}; }

  std::array<int64_t, 4> sizes, strides;
  GuardedMemory memory;
};

/// Heads between rows ([B, M, H, D] in memory, as projections give them) or heads before rows, or columns before rows.
std::array<int64_t, 4> layout(int which, std::array<int64_t, 4> s) {
  switch (which) {
  case 0:
    return {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
  case 1:
    return {s[1] * s[2] * s[3], s[3], s[1] * s[3], 1};
  default:
    return {s[1] * s[2] * s[3], s[2] * s[3], 1, s[2]};
  }
}

class Checker {
public:
  explicit Checker(std::string level) : level(std::move(level)), target(*host::MatrixTarget::forLevel(this->level)) {}

  void check(const AttentionKind &kind, const Shape &s, int qLayout = 1, int outLayout = 1, bool maskBroadcast = false,
             float special = 0) {
    std::array<int64_t, 4> qs{s.batch, s.heads, s.queries, s.headSize}, ks{s.batch, s.heads, s.keys, s.headSize};
    std::array<int64_t, 4> vs{s.batch, s.heads, s.keys, s.valueSize}, os{s.batch, s.heads, s.queries, s.valueSize};
    std::array<int64_t, 4> ms{s.batch, s.heads, s.queries, s.keys};
    Operand q(qs, layout(qLayout, qs), 4), k(ks, layout(qLayout, ks), 4), v(vs, layout(qLayout, vs), 4);
    Operand out(os, layout(outLayout, os), 4);
    const bool boolean = kind.mask == AttentionKind::Boolean;
    std::array<int64_t, 4> maskStrides = layout(kind.maskContiguous ? 0 : 2, ms);
    if (maskBroadcast)
      maskStrides = {s.keys, 0, 0, 1};
    Operand mask(ms, maskStrides, boolean ? 1 : 4);
    std::normal_distribution<float> real;
    for (Operand *operand : {&q, &k, &v})
      operand->each([&](int64_t at) { operand->memory.as<float>()[at] = real(generator); });
    if (special != 0)
      q.memory.as<float>()[q.at(0, 0, s.queries - 1, 0)] = special;
    std::bernoulli_distribution hidden(0.3);
    mask.each([&](int64_t at) {
      bool hide = hidden(generator);
      if (boolean)
        mask.memory.as<uint8_t>()[at] = !hide;
      else
        mask.memory.as<float>()[at] = hide ? -kInfinity : real(generator);
    });
    if (kind.mask != AttentionKind::None && s.queries && s.keys) // one row without any key
      for (int64_t j = 0; j < s.keys; ++j) {
        int64_t at = mask.at(0, 0, s.queries / 2, j);
        if (boolean)
          mask.memory.as<uint8_t>()[at] = 0;
        else
          mask.memory.as<float>()[at] = -kInfinity;
      }

    host::AttentionSizes sizes{s.batch,          s.heads,         s.queries,       s.keys,          s.headSize,
                               s.valueSize,      q.expressions(), k.expressions(), v.expressions(), mask.expressions(),
                               out.expressions()};
    host::AttentionLaunch launch = host::planAttention(kind, sizes, target, 2);
    std::vector<int64_t> ints;
    for (const SizeExpr &e : launch.ints)
      ints.push_back(e.evaluate({}));
    std::vector<void *> buffers{q.memory.data(), k.memory.data(), v.memory.data()};
    if (kind.mask != AttentionKind::None)
      buffers.push_back(mask.memory.data());
    buffers.push_back(out.memory.data());
    kernel(kind).run(buffers, ints, 0, launch.grid.evaluate({}), launch.scratchBytes.evaluate({}));
    compare(kind, s, q, k, v, mask, out);
  }

private:
  const CompiledKernel &kernel(const AttentionKind &kind) {
    auto &entry = kernels[kind.key()];
    if (!entry)
      entry = std::make_unique<CompiledKernel>(
          [&](mlir::MLIRContext &context) { return host::buildAttention(context, kind, target, "attention"); }, level);
    return *entry;
  }

  void compare(const AttentionKind &kind, const Shape &s, Operand &q, Operand &k, Operand &v, Operand &mask,
               Operand &out) {
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t i = 0; i < s.queries; ++i) {
          std::vector<double> p(s.keys);
          double peak = -INFINITY, total = 0, reach = 0;
          for (int64_t j = 0; j < s.keys; ++j) {
            double score = 0;
            for (int64_t d = 0; d < s.headSize; ++d)
              score += double(q.memory.as<float>()[q.at(b, h, i, d)]) * k.memory.as<float>()[k.at(b, h, j, d)];
            score *= kind.scale;
            if (kind.mask == AttentionKind::Additive)
              score += mask.memory.as<float>()[mask.at(b, h, i, j)];
            if (kind.mask == AttentionKind::Boolean && !mask.memory.as<uint8_t>()[mask.at(b, h, i, j)])
              score = -INFINITY;
            if (kind.causal && j > i)
              score = -INFINITY;
            p[j] = score;
            peak = score > peak || std::isnan(score) ? score : peak;
            if (std::isfinite(score))
              reach = std::max(reach, std::abs(score));
          }
          for (double &x : p)
            total += x = peak == -INFINITY ? 0 : std::exp(x - peak);
          for (int64_t e = 0; e < s.valueSize; ++e) {
            double want = 0, size = 0;
            for (int64_t j = 0; j < s.keys; ++j) {
              double term = p[j] / total * v.memory.as<float>()[v.at(b, h, j, e)];
              if (total == 0)
                term = 0;
              want += term, size += std::abs(term);
            }
            float got = out.memory.as<float>()[out.at(b, h, i, e)];
            // Scores are off by some ULP of the largest; sums by some ULP.
            double bound = 0x1p-23 * (8 + 4 * reach + 0.5 * std::sqrt(double(s.keys))) * size;
            if (std::isnan(want))
              ASSERT_TRUE(std::isnan(got)) << "row " << i;
            else
              ASSERT_LE(std::abs(got - want), bound)
                  << "b " << b << " h " << h << " row " << i << " column " << e << " of M " << s.queries << " N "
                  << s.keys << " D " << s.headSize << " E " << s.valueSize << ": " << got << ", not " << want;
          }
        }
  }

  std::string level;
  host::MatrixTarget target;
  std::mt19937 generator{11};
  std::map<std::string, std::unique_ptr<CompiledKernel>> kernels;
};

class Attention : public testing::TestWithParam<std::string> {};

} // namespace

TEST_P(Attention, SizesAroundBlocks) {
  Checker checker(GetParam());
  for (auto [m, n] : {std::pair<int64_t, int64_t>{1, 1},
                      {0, 5},
                      {5, 0},
                      {16, 16},
                      {47, 31},
                      {48, 33},
                      {193, 255},
                      {191, 257},
                      {13, 600}})
    for (int64_t d : {1, 7, 32, 64, 65})
      checker.check({.scale = 1 / std::sqrt(double(d))}, {1, 2, m, n, d, d});
}

TEST_P(Attention, CausalSkipsLaterKeys) {
  Checker checker(GetParam());
  for (auto [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {17, 17}, {300, 300}, {40, 600}, {300, 20}, {100, 257}})
    checker.check({.causal = true, .scale = 0.2}, {1, 2, m, n, 24, 24});
}

TEST_P(Attention, MasksWithRowsWithoutKeys) {
  Checker checker(GetParam());
  for (AttentionKind::Mask mask : {AttentionKind::Additive, AttentionKind::Boolean})
    for (bool contiguous : {true, false})
      for (bool causal : {false, true})
        for (int64_t n : {1, 19, 300})
          checker.check({.mask = mask, .maskContiguous = contiguous, .causal = causal, .scale = 0.25},
                        {2, 2, 21, n, 16, 16});
}

TEST_P(Attention, MaskBroadcastOverHeadsAndRows) {
  Checker checker(GetParam());
  for (AttentionKind::Mask mask : {AttentionKind::Additive, AttentionKind::Boolean})
    checker.check({.mask = mask, .scale = 0.2}, {3, 4, 20, 37, 32, 32}, 1, 1, /*maskBroadcast=*/true);
}

TEST_P(Attention, StridesOfEveryKind) {
  Checker checker(GetParam());
  for (int qLayout : {0, 1, 2})
    for (int outLayout : {0, 1, 2})
      checker.check({.outContiguous = outLayout != 2, .scale = 0.2}, {2, 3, 37, 45, 20, 24}, qLayout, outLayout);
}

TEST_P(Attention, NanAndInfinityReachTheirRowOnly) {
  Checker checker(GetParam());
  for (float special : {std::numeric_limits<float>::quiet_NaN(), kInfinity})
    checker.check({.scale = 0.5}, {1, 1, 9, 20, 8, 8}, 1, 1, false, special);
}

INSTANTIATE_TEST_SUITE_P(Levels, Attention, testing::ValuesIn([] {
                           std::vector<std::string> levels = runnableLevels();
                           if (levels.back() == "avx512bf16") // the same code for f32
                             levels.pop_back();
                           return levels;
                         }()),
                         [](const testing::TestParamInfo<std::string> &info) {
                           return info.param == "x86-64" ? std::string("baseline") : info.param;
                         });
