//===- ExprPoolTest.cpp - hash-consing and exact folding --------------------===//
#include "tilewright/Import/LoopIR.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace tilewright;
using namespace tilewright::loop;

struct ExprPoolTest : testing::Test {
  ExprPool pool;
  ExprRef load(BufferId buffer, DType type = DType::F32) { return pool.load({buffer, 0, {1}, {}}, type); }
  ExprRef make(ScalarOp op, ExprRef a, ExprRef b) { return pool.make(op, a->type, {a, b}); }
};

TEST_F(ExprPoolTest, EqualExpressionsAreOnePointer) {
  EXPECT_EQ(make(ScalarOp::Add, load(1), load(2)), make(ScalarOp::Add, load(1), load(2)));
  EXPECT_NE(make(ScalarOp::Sub, load(1), load(2)), make(ScalarOp::Sub, load(2), load(1)));
  const SizeExpr s0 = SizeExpr::symbol(0), s1 = SizeExpr::symbol(1);
  EXPECT_EQ(pool.load({1, 0, {s0 * s1}, {}}, DType::F32), pool.load({1, 0, {s1 * s0}, {}}, DType::F32));
  EXPECT_NE(pool.load({1, 0, {s0}, {}}, DType::F32), pool.load({1, 0, {s1}, {}}, DType::F32));
}

TEST_F(ExprPoolTest, ZerosOfBothSignsAndNaNAreConstantsOfTheirOwn) {
  EXPECT_NE(pool.constantFloat(0.0, DType::F32), pool.constantFloat(-0.0, DType::F32));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(pool.constantFloat(nan, DType::F32), pool.constantFloat(nan, DType::F32));
}

TEST_F(ExprPoolTest, ConstantsAreRoundedToTheirType) {
  EXPECT_EQ(pool.constantFloat(0.1, DType::F32)->floatValue, static_cast<double>(0.1f));
  EXPECT_EQ(pool.constantFloat(257, DType::BF16)->floatValue, 256); // a tie goes to the even neighbour
  EXPECT_EQ(pool.constantFloat(259, DType::BF16)->floatValue, 260);
  EXPECT_EQ(pool.constantFloat(65519, DType::F16)->floatValue, 65504);
  EXPECT_TRUE(std::isinf(pool.constantFloat(65520, DType::F16)->floatValue));
  EXPECT_EQ(pool.constantFloat(0x1p-25, DType::F16)->floatValue, 0); // half the smallest subnormal, a tie
  EXPECT_EQ(pool.constantFloat(0x1.8p-24, DType::F16)->floatValue, 0x1p-23);
  EXPECT_EQ(pool.constantInt(300, DType::U8)->intValue, 44);
  EXPECT_EQ(pool.constantInt(200, DType::I8)->intValue, -56);
}

TEST_F(ExprPoolTest, OnlyExactIdentitiesAreApplied) {
  ExprRef x = load(1), zero = pool.constantFloat(0.0, DType::F32), one = pool.constantFloat(1, DType::F32);
  EXPECT_NE(make(ScalarOp::Add, x, zero), x); // -0.0 + 0.0 is 0.0
  EXPECT_EQ(make(ScalarOp::Add, x, pool.constantFloat(-0.0, DType::F32)), x);
  EXPECT_EQ(make(ScalarOp::Sub, x, zero), x);
  EXPECT_EQ(make(ScalarOp::Mul, one, x), x);
  EXPECT_NE(make(ScalarOp::Mul, x, zero), zero); // NaN, infinity
  ExprRef i = load(2, DType::I64), izero = pool.constantInt(0, DType::I64);
  EXPECT_EQ(make(ScalarOp::Add, izero, i), i);
  EXPECT_EQ(make(ScalarOp::Mul, i, izero), izero);
  EXPECT_EQ(make(ScalarOp::Max, x, x), x);
}

TEST_F(ExprPoolTest, CastsCollapseOnlyWhereNothingIsRounded) {
  ExprRef half = load(1, DType::BF16), wide = pool.cast(half, DType::F32);
  EXPECT_EQ(pool.cast(wide, DType::BF16), half);
  EXPECT_EQ(pool.cast(wide, DType::F64), pool.cast(half, DType::F64));
  ExprRef x = load(2, DType::F64), narrow = pool.cast(x, DType::F32);
  EXPECT_NE(pool.cast(narrow, DType::F64), x);
  ExprRef i = load(3, DType::I64);
  EXPECT_NE(pool.cast(pool.cast(i, DType::F32), DType::F64), pool.cast(i, DType::F64));
  EXPECT_EQ(pool.cast(pool.constantFloat(2.9, DType::F32), DType::I32)->intValue, 2);
  EXPECT_EQ(pool.cast(pool.constantFloat(std::nan(""), DType::F32), DType::Bool)->intValue, 1);
}

TEST_F(ExprPoolTest, SizesAreComputedAsSizes) {
  const SizeExpr s0 = SizeExpr::symbol(0);
  ExprRef sum = make(ScalarOp::Add, pool.size(s0), pool.constantInt(3, DType::I64));
  EXPECT_EQ(sum->op, ScalarOp::Size);
  EXPECT_EQ(sum->size, s0 + 3);
  EXPECT_EQ(make(ScalarOp::Sub, sum, pool.size(s0)), pool.constantInt(3, DType::I64));
}

TEST_F(ExprPoolTest, IntegersWrapAndDivideAsPythonDoes) {
  ExprRef a = pool.constantInt(-7, DType::I32), b = pool.constantInt(2, DType::I32);
  EXPECT_EQ(make(ScalarOp::FloorDiv, a, b)->intValue, -4);
  EXPECT_EQ(make(ScalarOp::Mod, a, b)->intValue, 1);
  ExprRef big = pool.constantInt(std::numeric_limits<int32_t>::max(), DType::I32);
  EXPECT_EQ(make(ScalarOp::Add, big, pool.constantInt(1, DType::I32))->intValue, std::numeric_limits<int32_t>::min());
  ExprRef zero = pool.constantInt(0, DType::I32);
  EXPECT_EQ(make(ScalarOp::FloorDiv, a, zero)->op, ScalarOp::FloorDiv); // an error of data, at run time
}

TEST_F(ExprPoolTest, RewritingReachesIndicesOfGathers) {
  ExprRef index = pool.checkIndex(pool.load({2, 0, {1}, {}}, DType::I64), 10, 0);
  ExprRef gather = pool.load({1, 0, {0}, {{index, 4}}}, DType::F32);
  ExprRef twice = make(ScalarOp::Mul, gather, gather);
  unsigned asked = 0;
  ExprRef rewritten = rewriteLeaves(pool, twice, [&](ExprRef leaf) -> ExprRef {
    ++asked;
    return leaf->op == ScalarOp::Load && leaf->access.buffer == 2 ? pool.constantInt(3, DType::I64) : nullptr;
  });
  EXPECT_EQ(asked, 2u); // each distinct leaf once
  ASSERT_EQ(rewritten->args[0]->access.indirect.size(), 1u);
  EXPECT_EQ(rewritten->args[0]->access.indirect[0].index, pool.constantInt(3, DType::I64)); // the check is decided
  EXPECT_EQ(rewritten->args[0], rewritten->args[1]);
}

TEST_F(ExprPoolTest, SharedNodesAreVisitedAndCountedOnce) {
  ExprRef x = load(1), e = pool.make(ScalarOp::Exp, DType::F32, {x}), sum = make(ScalarOp::Add, e, e);
  unsigned visited = 0;
  visit(sum, [&](ExprRef) { ++visited; });
  EXPECT_EQ(visited, 3u);
  EXPECT_EQ(costOf(sum), costOf(ScalarOp::Load) + costOf(ScalarOp::Exp) + costOf(ScalarOp::Add));
}
