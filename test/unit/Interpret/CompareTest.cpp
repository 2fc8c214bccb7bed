//===- CompareTest.cpp - when two runs are the same --------------------------------------------------------------===//

#include "tilewright/Interpret/Compare.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace tilewright;
using namespace tilewright::interpret;

namespace {

template <typename T> Contents contentsOf(std::vector<T> values) {
  Contents all(1);
  all[0].resize(values.size() * sizeof(T));
  std::memcpy(all[0].data(), values.data(), all[0].size());
  return all;
}

TEST(Compare, BitsMustAgreeWhereNothingIsFree) {
  const std::map<size_t, DType> f32 = {{0, DType::F32}};
  EXPECT_TRUE(compare(contentsOf<float>({1, NAN}), contentsOf<float>({1, -NAN}), f32, {}).sameBits);
  Comparison one =
      compare(contentsOf<float>({1, 2, 3}), contentsOf<float>({1, std::nextafter(2.0f, 3.0f), 4}), f32, {});
  ASSERT_TRUE(one.difference);
  EXPECT_EQ(one.difference->element, 1u);
  EXPECT_EQ(one.difference->count, 2u);
  EXPECT_EQ(one.difference->before, "2");
  EXPECT_TRUE(compare(contentsOf<float>({0.0f}), contentsOf<float>({-0.0f}), f32, {}).difference);
  EXPECT_FALSE(compare(contentsOf<float>({1}), contentsOf<float>({2}), {}, {}).difference) << "no buffer was named";
}

/// Samples around a run that gave `plain`.
template <typename Fn> Samples around(const Contents &plain, Fn other) { return {&plain, other}; }

TEST(Compare, FloatsMayBeAsFarApartAsSamplesAre) {
  const std::map<size_t, DType> f32 = {{0, DType::F32}};
  const Contents plain = contentsOf<float>({1, 1});
  Samples far = around(plain, [](uint64_t seed) { return contentsOf<float>({seed % 2 ? 1.01f : 1.0f, 1.0f}); });
  EXPECT_FALSE(compare(contentsOf<float>({1, 1}), contentsOf<float>({1.05f, 1}), f32, far).difference);
  Comparison second = compare(contentsOf<float>({1, 1}), contentsOf<float>({1, 1.05f}), f32, far);
  ASSERT_TRUE(second.difference) << "the samples say nothing of the second element";
  EXPECT_EQ(second.difference->element, 1u);
  EXPECT_TRUE(compare(contentsOf<float>({1, 1}), contentsOf<float>({1.2f, 1}), f32, far).difference);
  EXPECT_TRUE(compare(contentsOf<float>({1, 1}), contentsOf<float>({NAN, 1}), f32, far).difference);
  EXPECT_FALSE(compare(contentsOf<float>({1, 1}), contentsOf<float>({1.0000001f, 1}), f32, far).sameBits);
  EXPECT_TRUE(compare(contentsOf<float>({5, 1}), contentsOf<float>({1, 1}), f32, far).difference)
      << "how far samples are from what is wrong says nothing";
}

TEST(Compare, IntegersMustLieBetweenSamples) {
  const std::map<size_t, DType> i32 = {{0, DType::I32}};
  const Contents plain = contentsOf<int32_t>({5});
  Samples near = around(plain, [](uint64_t seed) { return contentsOf<int32_t>({seed % 2 ? 5 : 7}); });
  EXPECT_FALSE(compare(contentsOf<int32_t>({5}), contentsOf<int32_t>({7}), i32, near).difference);
  EXPECT_TRUE(compare(contentsOf<int32_t>({5}), contentsOf<int32_t>({8}), i32, near).difference);
  EXPECT_TRUE(compare(contentsOf<int32_t>({5}), contentsOf<int32_t>({-5}), i32, near).difference);
  EXPECT_TRUE(compare(contentsOf<int32_t>({-5}), contentsOf<int32_t>({5}), i32, near).difference);
}

TEST(Compare, MoreSamplesAreMadeBeforeADifferenceIsTold) {
  unsigned made = 0;
  const Contents plain = contentsOf<int64_t>({0});
  Samples rare = around(plain, [&](uint64_t seed) -> std::optional<Contents> {
    ++made;
    if (seed % 5 == 0)
      return std::nullopt; // a run that ended with an error of data
    return contentsOf<int64_t>({seed == 12 ? 1 : 0});
  });
  EXPECT_FALSE(compare(contentsOf<int64_t>({0}), contentsOf<int64_t>({1}), {{0, DType::I64}}, rare).difference);
  EXPECT_EQ(made, 24u);
}

} // namespace
