//===- DomainTest.cpp - index spaces of nests ------------------------------===//

#include "tilewright/Transforms/Domain.h"

#include <gtest/gtest.h>

using namespace tilewright;
using namespace tilewright::loop;

namespace {

const SizeExpr b = SizeExpr::symbol(0), s = SizeExpr::symbol(1);

Access access(BufferId buffer, std::vector<SizeExpr> coefs, SizeExpr offset = 0) {
  Access result;
  result.buffer = buffer;
  result.coefs = std::move(coefs);
  result.offset = std::move(offset);
  return result;
}

Nest copyOf(ExprPool &pool, std::vector<SizeExpr> domain, Access from, Access to) {
  Nest nest;
  nest.domain = std::move(domain);
  nest.stores.push_back({std::move(to), pool.load(std::move(from), DType::F32)});
  return nest;
}

TEST(Solve, FindsEachIndexOfAContiguousProducer) {
  std::vector<SizeExpr> domain = {b, s, 384};
  auto map = solve(access(0, {s * 384, 384, 1}), domain, access(0, {s * 384, 384, 1}), domain);
  ASSERT_TRUE(map);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j)
      EXPECT_TRUE(map->coef[i][j].isConstant(i == j));
}

TEST(Solve, SeesThroughMergedAndPermutedViews) {
  // Producer over (b*s, 384), read as (b, 12, s, 32): heads of attention.
  std::vector<SizeExpr> made = {b * s, 384}, read = {b, 12, s, 32};
  auto map = solve(access(0, {384, 1}), made, access(0, {s * 384, 32, 384, 1}), read);
  ASSERT_TRUE(map);
  EXPECT_TRUE(map->coef[0][0] == s);
  EXPECT_TRUE(map->coef[0][2].isConstant(1));
  EXPECT_TRUE(map->coef[1][1].isConstant(32));
  EXPECT_TRUE(map->coef[1][3].isConstant(1));
}

TEST(Solve, RefusesAFlatReaderOfSeparateRows) {
  // The flat index would need a division to give row and column.
  std::vector<SizeExpr> made = {b, 384}, read = {b * 384};
  EXPECT_FALSE(solve(access(0, {384, 1}), made, access(0, {1}), read));
}

TEST(Solve, RefusesIndicesThatMayLeaveTheDomain) {
  // Overlapping windows of 3 over a vector of s elements: the last window is not shown to fit.
  std::vector<SizeExpr> made = {s}, read = {s, 3};
  EXPECT_FALSE(solve(access(0, {1}), made, access(0, {1, 1}), read));
}

TEST(Solve, TakesOffsetsOfWholeRows) {
  std::vector<SizeExpr> made = {8, 16}, read = {16};
  auto map = solve(access(0, {16, 1}), made, access(0, {1}, 48), read);
  ASSERT_TRUE(map);
  EXPECT_TRUE(map->offset[0].isConstant(3));
  EXPECT_FALSE(solve(access(0, {16, 1}), made, access(0, {1}, 128), read)) << "row 8 does not exist";
}

TEST(Reshape, SplitsFreelyAndMergesOnlyContiguousDimensions) {
  ExprPool pool;
  Nest flat = copyOf(pool, {b * s, 384}, access(0, {384, 1}), access(1, {384, 1}));
  ASSERT_TRUE(reshapeDimensions(pool, flat, 0, 2, {b, s, 384}));
  EXPECT_TRUE(flat.stores[0].access.coefs[0] == s * 384);
  ASSERT_TRUE(reshapeDimensions(pool, flat, 0, 3, {b * s, 384}));
  EXPECT_TRUE(flat.stores[0].access == access(1, {384, 1}));

  Nest broadcast = copyOf(pool, {b, s}, access(0, {0, 1}), access(1, {s, 1}));
  Nest before = broadcast;
  EXPECT_FALSE(reshapeDimensions(pool, broadcast, 0, 2, {b * s}));
  EXPECT_EQ(str(broadcast), str(before)) << "a refused reshape changed the nest";
}

TEST(Reshape, KeepsReducedDimensionsApart) {
  ExprPool pool;
  Nest sum;
  sum.kind = Nest::Reduction;
  sum.domain = {b, s};
  sum.reduced = 1;
  sum.body = pool.load(access(0, {s, 1}), DType::F32);
  sum.target = access(1, {1});
  EXPECT_FALSE(mergeable(sum, 0));
}

TEST(DropUnitDimensions, KeepsWhatIsReadAndWritten) {
  ExprPool pool;
  Nest nest = copyOf(pool, {b, 1, s}, access(0, {s, 0, 1}, 5), access(1, {s, s, 1}));
  dropUnitDimensions(pool, nest);
  ASSERT_EQ(nest.domain.size(), 2u);
  EXPECT_TRUE(nest.stores[0].access == access(1, {s, 1}));
}

} // namespace
