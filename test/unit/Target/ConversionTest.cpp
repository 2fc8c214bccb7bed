//===- ConversionTest.cpp - conversions between numbers, and functions at every width ----------------------------===//

#include "FloatPoints.h"
#include "MatrixRunner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

using namespace tilewright;
using namespace tilewright::test;

namespace {

/// y = op(x) over 16 elements in tiles of `lanes`, or element by element if lanes is 0.
std::string kernel(const std::string &op, const std::string &from, const std::string &to, int64_t lanes) {
  std::string x = "!tile.buffer<" + from + ">", y = "!tile.buffer<" + to + ">";
  std::string in = from, out = to, strides;
  if (lanes) {
    in = "tensor<" + std::to_string(lanes) + "x" + from + ">";
    out = "tensor<" + std::to_string(lanes) + "x" + to + ">";
    strides = " strides [1]";
  }
  std::string types = from == to ? in : in + " to " + out;
  return "tile.kernel @f(%x: " + x + ", %y: " + y +
         ", %n: index) {\n%c0 = arith.constant 0 : index\n%w = arith.constant " +
         std::to_string(std::max<int64_t>(lanes, 1)) +
         " : index\ntile.grid () in () {\nscf.for %i = %c0 to %n step %w {\n%t = tile.load %x[%i]" + strides + " : " +
         x + " -> " + in + "\n%r = " + op + " %t : " + types + "\ntile.store %r, %y[%i]" + strides + " : " + out +
         ", " + y + "\n}\n}\n}\n";
}

double decode(const std::string &type, const void *memory, size_t i, bool isSigned) {
  auto at = [&](auto zero) { return double(static_cast<const decltype(zero) *>(memory)[i]); };
  if (type == "f32")
    return at(float());
  if (type == "f64")
    return at(double());
  if (type == "f16")
    return at(_Float16());
  if (type == "bf16")
    return floatOf(uint32_t(static_cast<const uint16_t *>(memory)[i]) << 16);
  if (type == "i8")
    return isSigned ? at(int8_t()) : at(uint8_t());
  if (type == "i16")
    return isSigned ? at(int16_t()) : at(uint16_t());
  if (type == "i32")
    return isSigned ? at(int32_t()) : at(uint32_t());
  return isSigned ? at(int64_t()) : at(uint64_t());
}

void encode(const std::string &type, void *memory, size_t i, double value) {
  auto put = [&](auto typed) { static_cast<decltype(typed) *>(memory)[i] = typed; };
  if (type == "f32")
    put(float(value));
  else if (type == "f64")
    put(value);
  else if (type == "f16")
    put(_Float16(value));
  else if (type == "bf16") // the values here have few bits
    put(uint16_t(std::bit_cast<uint32_t>(float(value)) >> 16));
  else if (type == "i8")
    put(int8_t(int64_t(value)));
  else if (type == "i16")
    put(int16_t(int64_t(value)));
  else if (type == "i32")
    put(int32_t(int64_t(value)));
  else
    put(int64_t(value));
}

/// Every conversion compiles without a call of a library function on every level, for tiles and scalars, and is right
/// for numbers that both types hold.
TEST(Conversion, BetweenAllTypesOnEveryLevel) {
  const std::vector<std::string> floats = {"f32", "f64", "bf16", "f16"}, integers = {"i8", "i16", "i32", "i64"};
  const double values[16] = {0, 1, 2, 3, 5, 7, 16, 31, 64, 96, 100, 112, 120, 124, 126, 127};
  auto check = [&](const std::string &op, const std::string &from, const std::string &to, bool isSigned) {
    for (const std::string &level : runnableLevels())
      for (int64_t lanes : {16, 0}) {
        alignas(64) uint8_t x[128], y[128];
        for (size_t i = 0; i < 16; ++i)
          encode(from, x, i, isSigned && i % 2 ? -values[i] : values[i]);
        CompiledKernel(kernel(op, from, to, lanes), level).run({x, y}, {16}, 0, 1);
        for (size_t i = 0; i < 16; ++i)
          ASSERT_EQ(decode(to, y, i, isSigned), decode(from, x, i, isSigned))
              << op << " " << from << " to " << to << " on " << level;
      }
  };
  for (const std::string &f : floats)
    for (const std::string &i : integers) {
      check("arith.sitofp", i, f, true);
      check("arith.uitofp", i, f, false);
      check("arith.fptosi", f, i, true);
      check("arith.fptoui", f, i, false);
    }
  for (const char *wide : {"f32", "f64"})
    for (const char *narrow : {"bf16", "f16"}) {
      check("arith.extf", narrow, wide, true);
      check("arith.truncf", wide, narrow, true);
    }
  check("arith.extf", "f32", "f64", true);
  check("arith.truncf", "f64", "f32", true);
}

/// A formula may differ with the width of a tile (AVX-512's tables serve multiples of 16), its error bound does not.
TEST(ElementaryFunctionWidth, ScalarsAndTilesOfAnyWidthAreWithinTwoUlp) {
  struct {
    const char *op;
    double (*reference)(double);
  } functions[] = {{"math.exp", std::exp}, {"math.erf", std::erf},   {"math.tanh", std::tanh}, {"math.log", std::log},
                   {"math.sin", std::sin}, {"math.exp2", std::exp2}, {"math.cos", std::cos}};
  std::vector<float> points = floatPoints(20, {0, 0.5, 1, 89, 104, 4.1, 9.2});
  points.resize(points.size() / 192 * 192); // a multiple of every width
  for (const std::string &level : runnableLevels())
    for (auto &f : functions)
      for (int64_t lanes : {0, 1, 2, 4, 6, 8, 32, 48, 64}) {
        std::vector<float> y(points.size());
        CompiledKernel(kernel(f.op, "f32", "f32", lanes), level)
            .run({points.data(), y.data()}, {int64_t(points.size())}, 0, 1);
        for (size_t i = 0; i < points.size(); ++i)
          ASSERT_LE(ulpError(y[i], f.reference(points[i])), 2)
              << f.op << "(" << points[i] << ") in tiles of " << lanes << " on " << level;
      }
}

/// Rare functions of f64 tiles with several calls in one kernel, between values that must survive the calls.
TEST(ElementaryFunctionWidth, ValuesSurviveCallsOfLibm) {
  const char *text = R"(
tile.kernel @f(%x: !tile.buffer<f64>, %y: !tile.buffer<f64>, %n: index) {
  tile.grid (%i) in (%n) {
    %t = tile.load %x[%i] strides [1] : !tile.buffer<f64> -> tensor<16xf64>
    %a = math.exp %t : tensor<16xf64>
    %b = math.atan2 %t, %a : tensor<16xf64>
    %c = arith.addf %a, %b : tensor<16xf64>
    %d = arith.addf %c, %t : tensor<16xf64>
    tile.store %d, %y[%i] strides [1] : tensor<16xf64>, !tile.buffer<f64>
  }
})";
  for (const std::string &level : runnableLevels()) {
    double x[16], y[16];
    for (int i = 0; i < 16; ++i)
      x[i] = i * 0.37 - 2;
    CompiledKernel(text, level).run({x, y}, {1}, 0, 1);
    for (int i = 0; i < 16; ++i) {
      double e = std::exp(x[i]);
      EXPECT_EQ(y[i], e + std::atan2(x[i], e) + x[i]) << level;
    }
  }
}

} // namespace
