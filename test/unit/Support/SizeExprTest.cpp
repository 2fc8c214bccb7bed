#include "tilewright/Support/SizeExpr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>

using namespace tilewright;

namespace {

SizeExpr s(unsigned i) { return SizeExpr::symbol(i); }

/// The reference: an expression tree that is evaluated as it was written, without any simplification.
struct Tree {
  enum Op { Constant, Symbol, Add, Sub, Mul, FloorDiv, Mod, Min, Max } op;
  int64_t value = 0;
  std::unique_ptr<Tree> a, b;

  static std::unique_ptr<Tree> random(std::mt19937_64 &rng, int depth) {
    auto tree = std::make_unique<Tree>();
    unsigned pick = rng() % 100;
    if (depth == 0 || pick < 12) {
      tree->op = rng() % 3 ? Symbol : Constant;
      tree->value = tree->op == Symbol ? int64_t(rng() % 4) : int64_t(rng() % 13) - 4;
      return tree;
    }
    tree->op = static_cast<Op>(Add + rng() % (Max - Add + 1));
    tree->a = random(rng, depth - 1);
    tree->b = random(rng, depth - 1);
    return tree;
  }

  /// Nothing where a divisor is zero or the result is large.
  std::optional<int64_t> evaluate(const std::vector<int64_t> &symbols) const {
    if (op == Constant)
      return value;
    if (op == Symbol)
      return symbols[value];
    auto x = a->evaluate(symbols), y = b->evaluate(symbols);
    if (!x || !y || std::abs(*x) > (1 << 30) || std::abs(*y) > (1 << 30))
      return std::nullopt;
    switch (op) {
    case Add:
      return *x + *y;
    case Sub:
      return *x - *y;
    case Mul:
      return *x * *y;
    case Min:
      return std::min(*x, *y);
    case Max:
      return std::max(*x, *y);
    default:
      break;
    }
    if (*y == 0)
      return std::nullopt;
    int64_t q = *x / *y, r = *x % *y;
    if (r != 0 && (r < 0) != (*y < 0))
      --q, r += *y;
    return op == FloorDiv ? q : r;
  }

  SizeExpr build() const {
    switch (op) {
    case Constant:
      return value;
    case Symbol:
      return SizeExpr::symbol(value);
    case Add:
      return a->build() + b->build();
    case Sub:
      return a->build() - b->build();
    case Mul:
      return a->build() * b->build();
    case FloorDiv:
      return SizeExpr::floordiv(a->build(), b->build());
    case Mod:
      return SizeExpr::mod(a->build(), b->build());
    case Min:
      return SizeExpr::min(a->build(), b->build());
    case Max:
      return SizeExpr::max(a->build(), b->build());
    }
    return 0;
  }

  std::string text() const {
    if (op == Constant)
      return std::to_string(value);
    if (op == Symbol)
      return "s" + std::to_string(value);
    if (op == Min || op == Max)
      return (op == Min ? "min(" : "max(") + a->text() + "," + b->text() + ")";
    const char *sign[] = {"", "", "+", "-", "*", "//", "%"};
    return "(" + a->text() + ")" + sign[op] + "(" + b->text() + ")";
  }
};

std::vector<int64_t> randomSizes(std::mt19937_64 &rng) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < 4; ++i)
    sizes.push_back(rng() % 4 ? 1 + rng() % 9 : rng() % 200);
  return sizes;
}

} // namespace

TEST(SizeExpr, AgreesWithUnsimplifiedEvaluation) {
  std::mt19937_64 rng(1);
  size_t compared = 0;
  for (int round = 0; round < 20000; ++round) {
    auto tree = Tree::random(rng, 1 + round % 4);
    SizeExpr e = tree->build();
    for (int sample = 0; sample < 8; ++sample) {
      auto sizes = randomSizes(rng);
      auto wanted = tree->evaluate(sizes);
      if (!wanted)
        continue;
      ASSERT_EQ(e.evaluate(sizes), *wanted) << tree->text() << " became " << e.str();
      ++compared;
    }
  }
  EXPECT_GT(compared, 50000u);
}

TEST(SizeExpr, TextRoundTrip) {
  std::mt19937_64 rng(2);
  for (int round = 0; round < 20000; ++round) {
    auto tree = Tree::random(rng, 1 + round % 4);
    SizeExpr e = tree->build();
    ASSERT_EQ(SizeExpr::parse(e.str()), e) << e.str();
    ASSERT_EQ(SizeExpr::parse(tree->text()), e) << tree->text();
  }
}

TEST(SizeExpr, SubstituteIsEvaluationOfReplacements) {
  std::mt19937_64 rng(3);
  size_t compared = 0;
  for (int round = 0; round < 5000; ++round) {
    auto tree = Tree::random(rng, 3);
    std::vector<std::unique_ptr<Tree>> inner;
    std::vector<SizeExpr> with;
    for (int i = 0; i < 4; ++i) {
      inner.push_back(Tree::random(rng, 1));
      with.push_back(inner.back()->build());
    }
    auto sizes = randomSizes(rng);
    std::vector<int64_t> values;
    for (auto &t : inner)
      values.push_back(t->evaluate(sizes).value_or(-1));
    if (std::any_of(values.begin(), values.end(), [](int64_t v) { return v < 0; }))
      continue; // a symbol is a size
    if (auto wanted = tree->evaluate(values)) {
      SizeExpr replaced = tree->build().substitute(with);
      ASSERT_EQ(replaced.evaluate(sizes), *wanted) << tree->text();
      ++compared;
    }
  }
  EXPECT_GT(compared, 500u);
}

TEST(SizeExpr, EqualPolynomialsAreEqual) {
  SizeExpr b = s(0), t = s(1);
  EXPECT_EQ(b * t * 384, (b * t) * 384);
  EXPECT_EQ((b + t) * (b - t), b * b - t * t);
  EXPECT_EQ(b - b, 0);
  EXPECT_TRUE((b - b + 7).isConstant(7));
  std::mt19937_64 rng(4);
  for (int round = 0; round < 2000; ++round) {
    SizeExpr x = Tree::random(rng, 2)->build(), y = Tree::random(rng, 2)->build(), z = Tree::random(rng, 2)->build();
    ASSERT_EQ((x + y) * z, x * z + y * z);
    ASSERT_EQ(x + y, y + x);
    ASSERT_FALSE(x < y && y < x);
    ASSERT_EQ(x == y, !(x < y) && !(y < x));
    ASSERT_EQ(SizeExpr::min(x, SizeExpr::min(y, z)), SizeExpr::min(SizeExpr::min(z, x), y));
  }
}

TEST(SizeExpr, ExactDivisionFindsTheQuotient) {
  std::mt19937_64 rng(5);
  for (int round = 0; round < 3000; ++round) {
    SizeExpr x = Tree::random(rng, 2)->build(), y = Tree::random(rng, 2)->build();
    if (y == 0)
      continue;
    auto q = SizeExpr::divideExactly(x * y, y);
    ASSERT_TRUE(q) << (x * y).str() << " / " << y.str();
    ASSERT_EQ(*q, x);
    if (auto r = SizeExpr::divideExactly(x, y)) {
      ASSERT_EQ(*r * y, x);
    }
  }
  EXPECT_FALSE(SizeExpr::divideExactly(s(0) * 3, 2));
  EXPECT_FALSE(SizeExpr::divideExactly(s(0), s(1)));
  EXPECT_FALSE(SizeExpr::divideExactly(s(0), 0));
  EXPECT_EQ(SizeExpr::divideExactly(s(0) * s(1) * 384, s(1) * 384), s(0));
}

TEST(SizeExpr, FloorDivisionSimplifies) {
  auto text = [](const char *e) { return SizeExpr::parse(e).str(); };
  EXPECT_EQ(text("(s0*s1*384) // (s1*384)"), "s0");
  EXPECT_EQ(text("(s0*8 + 5) // 4"), "s0*2 + 1");
  EXPECT_EQ(text("(s0*s1 + s2) // s1"), "s2//s1 + s0");
  EXPECT_EQ(text("(s0*4) // 6"), "(s0*2)//3");
  EXPECT_EQ(text("(s0 // 4) // 8"), "s0//32");
  EXPECT_EQ(text("(s0 + s0 - 1) // s0"), "1"); // ceildiv(s0, s0)
  EXPECT_EQ(text("(s0 // 4)*4 + s0 % 4"), "s0");
  EXPECT_EQ(text("(s0*6) % 3"), "0");
  EXPECT_EQ(text("(s0*s1 + 1) % s1"), SizeExpr::mod(1, s(1)).str());
  EXPECT_EQ(text("min(s0, s0 + 1)"), "s0");
  EXPECT_EQ(text("max(max(s0, 0), s0 + s1)"), "s1 + s0");
  EXPECT_EQ(SizeExpr::ceildiv(s(0) * 64, 16), s(0) * 4);
}

TEST(SizeExpr, PrecedenceAndSignsFollowPython) {
  std::vector<int64_t> at{7, 3};
  auto value = [&](const char *e) { return SizeExpr::parse(e).evaluate(at); };
  EXPECT_EQ(value("10 - s0//2"), 7);
  EXPECT_EQ(value("-s0//2"), -4);
  EXPECT_EQ(value("-(s0//2)"), -3);
  EXPECT_EQ(value("s0 - s1 - 1"), 3);
  EXPECT_EQ(value("s0*s1//2*2"), 20);
  EXPECT_EQ(value("-s0 % s1"), 2);
  EXPECT_EQ(value("s0 % -s1"), -2);
  EXPECT_EQ(value("  ( s0+ 1 )*2 "), 16);
}

TEST(SizeExpr, LimitsOf64Bits) {
  for (int64_t limit : {INT64_MAX, INT64_MIN, INT64_MIN + 1}) {
    EXPECT_EQ(SizeExpr::parse(SizeExpr(limit).str()), SizeExpr(limit));
    SizeExpr e = s(0) * limit + limit;
    EXPECT_EQ(SizeExpr::parse(e.str()), e) << e.str();
  }
  std::vector<int64_t> large{int64_t(1) << 62, 4};
  EXPECT_THROW((s(0) * s(1)).evaluate(large), std::overflow_error);
  EXPECT_THROW((s(0) + s(0) * s(0)).evaluate(large), std::overflow_error);
  EXPECT_EQ((s(0) * 1 + s(0) - s(1)).evaluate(std::vector<int64_t>{int64_t(1) << 61, 4}), (int64_t(1) << 62) - 4);
  EXPECT_EQ((s(0) * s(0) * s(1)).evaluate(std::vector<int64_t>{int64_t(1) << 62, 0}), 0) << "an empty tensor";
  EXPECT_THROW(SizeExpr(INT64_MAX) + 1, std::overflow_error);
  EXPECT_THROW(SizeExpr::floordiv(INT64_MIN, -1), std::overflow_error);
  EXPECT_THROW(SizeExpr::floordiv(s(0), s(1)).evaluate(std::vector<int64_t>{1, 0}), std::domain_error);
  EXPECT_THROW(SizeExpr::floordiv(s(0), 0).evaluate(large), std::domain_error);
  EXPECT_THROW(SizeExpr::mod(s(0), 0).evaluate(large), std::domain_error);
  EXPECT_THROW(s(5).evaluate(large), std::out_of_range);
}

TEST(SizeExpr, WrongTextIsRefusedWithItsPosition) {
  for (const char *text : {"", "s", "s0 +", "s0 s1", "(s0", "s0)", "min(s0)", "min s0, 1", "foo", "1.5", "s0 / 2",
                           "s-1", "9223372036854775808", "s99999999999", "9223372036854775807 + 1", "s0**2"}) {
    try {
      SizeExpr e = SizeExpr::parse(text);
      ADD_FAILURE() << "\"" << text << "\" was read as " << e.str();
    } catch (const std::invalid_argument &e) {
      EXPECT_NE(std::string(e.what()).find("position"), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(SizeExpr::parse(std::string(100000, '(')), std::invalid_argument);
  std::string product = "s0";
  for (int i = 1; i < 40; ++i)
    product = "(" + product + ")*(s" + std::to_string(i) + "+1)";
  EXPECT_THROW(SizeExpr::parse(product), std::invalid_argument) << "2^39 terms";
}

TEST(SizeExpr, SymbolsAreFoundInside) {
  EXPECT_EQ(SizeExpr::parse("min(s7, s2//s3)*s2 + 1").symbols(), (std::vector<unsigned>{2, 3, 7}));
  EXPECT_TRUE(SizeExpr(5).symbols().empty());
}
