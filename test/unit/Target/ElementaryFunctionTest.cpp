//===- ElementaryFunctionTest.cpp - functions of f32 against double precision ------------------------------------===//
//
// Every exponent with 2,000 mantissas, the neighbours of the formulas' break points, and special values, on every CPU
// level that this machine runs.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "FloatPoints.h"
#include "MatrixRunner.h"

#include "tilewright/Target/Host/HostTarget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

using namespace tilewright;
using namespace tilewright::test;

namespace {

/// y[i] = op(x[i], ...) in vectors of the level, with a partial one at the end.
std::string pointwiseKernel(const std::string &op, unsigned inputs, const std::string &level,
                            const std::string &type = "f32", const std::string &result = "") {
  std::string out = result.empty() ? type : result;
  unsigned lanes = host::HostTarget::get(level).lanes(DType::F32);
  std::string vector = "tensor<" + std::to_string(lanes) + "x", text = "tile.kernel @f(", names;
  for (unsigned i = 0; i < inputs; ++i)
    text += "%x" + std::to_string(i) + ": !tile.buffer<" + type + ">, ";
  text += "%y: !tile.buffer<" + out + ">, %n: index) {\n%c0 = arith.constant 0 : index\n%w = arith.constant " +
          std::to_string(lanes) +
          " : index\ntile.grid () in () {\nscf.for %j = %c0 to %n step %w {\n%left = arith.subi %n, %j : index\n";
  for (unsigned i = 0; i < inputs; ++i) {
    std::string number = std::to_string(i);
    text += "%t" + number + " = tile.load %x" + number + "[%j] strides [1] valid [%left] : !tile.buffer<" + type +
            "> -> " + vector + type + ">\n";
    names += (i ? ", %t" : " %t") + number;
  }
  text += "%r = " + op + names + " : " + vector + type + ">" + (result.empty() ? "" : " to " + vector + result + ">") +
          "\n";
  text +=
      "tile.store %r, %y[%j] strides [1] valid [%left] : " + vector + out + ">, !tile.buffer<" + out + ">\n}\n}\n}\n";
  return text;
}

template <typename In, typename Out = In>
std::vector<Out> compute(const std::string &text, const std::string &level, std::vector<std::vector<In>> inputs) {
  CompiledKernel kernel(text, level);
  std::vector<Out> output(inputs[0].size());
  std::vector<void *> buffers;
  for (std::vector<In> &input : inputs)
    buffers.push_back(input.data());
  buffers.push_back(output.data());
  kernel.run(buffers, {int64_t(output.size())}, 0, 1);
  return output;
}

struct Function {
  const char *op;
  double (*reference)(double);
  double limit; // ULP
  std::vector<double> breaks;
};

std::ostream &operator<<(std::ostream &stream, const Function &f) { return stream << f.op; }

class ElementaryFunction : public testing::TestWithParam<Function> {};

TEST_P(ElementaryFunction, IsWithinTwoUlpOverTheWholeRange) {
  const Function &f = GetParam();
  std::vector<float> points = floatPoints(2000, f.breaks);
  points.push_back(1.0f); // an odd count, so that the last vector is partial
  std::vector<double> wanted(points.size());
  for (size_t i = 0; i < points.size(); ++i)
    wanted[i] = f.reference(points[i]);
  for (const std::string &level : runnableLevels()) {
    std::vector<float> got = compute<float>(pointwiseKernel(f.op, 1, level), level, {points});
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < points.size(); ++i)
      if (double error = ulpError(got[i], wanted[i]); error > worst) {
        worst = error;
        where = i;
      }
    EXPECT_LE(worst, f.limit) << f.op << "(" << std::hexfloat << points[where] << ") = " << got[where] << ", not "
                              << wanted[where] << std::defaultfloat << " (" << points[where] << ") on " << level;
    RecordProperty((std::string("ulp_") + level).c_str(), std::to_string(worst));
    if (std::getenv("TILEWRIGHT_TEST_PRINT"))
      printf("%-12s %-10s %.3f ULP at %.9g\n", f.op, level.c_str(), worst, points[where]);
  }
}

double rsqrtOf(double x) { return 1 / std::sqrt(x); }
double roundEvenOf(double x) { return std::nearbyint(x); }

INSTANTIATE_TEST_SUITE_P(
    F32, ElementaryFunction,
    testing::Values(
        Function{"math.exp", std::exp, 2, {0, 0.34657359, 1, 88.722839, 89, 87.336544, 103.97208, 104}},
        Function{"math.exp2", std::exp2, 2, {0, 0.5, 1, 127.5, 128, 126, 149, 149.5, 150, 151}},
        Function{"math.expm1", std::expm1, 2, {0, 0.34657359, 0.69314718, 1.0397208, 17.3, 88.722839, 89, 104}},
        Function{"math.sinh", std::sinh, 2, {0, 0.34657359, 1, 89.41598629, 92}},
        Function{"math.cosh", std::cosh, 2, {0, 0.34657359, 1, 89.41598629, 92}},
        Function{"math.tanh", std::tanh, 2, {0, 0.65, 0.34657359, 1, 8.3, 9.01, 10}},
        Function{"math.erf", std::erf, 2, {0, 1, 0.5, 2, 3, 3.9, 4}},
        Function{"tile.math <erfc>", std::erfc, 2, {0, 0.5, 2, 9.19, 10.05, 10.06, 10.3}},
        Function{"tile.math <tgamma>", std::tgamma, 2, {0.5, 1, 2, 35}},
        Function{"math.log", std::log, 2, {0x1p-126, 0.70710678, 1, 1.41421356, 2}},
        Function{"math.log2", std::log2, 2, {0x1p-126, 0.70710678, 1, 1.41421356, 2}},
        Function{"math.log10", std::log10, 2, {0x1p-126, 0.70710678, 1, 1.41421356, 10, 1000}},
        Function{"math.log1p", std::log1p, 2, {0, 0x1p-24, 0.41421356, 0.29289322, 1}},
        Function{"math.asinh", std::asinh, 2, {0, 1, 0x1p-12}}, Function{"math.acosh", std::acosh, 2, {1, 2, 1.5}},
        Function{"math.atanh", std::atanh, 2, {0, 1, 0.5, 0.17157288}},
        Function{"math.sin", std::sin, 2, {0, 0.78539816, 1.57079633, 3.14159265, 6.28318531, 22, 355, 0x1p20}},
        Function{"math.cos", std::cos, 2, {0, 0.78539816, 1.57079633, 3.14159265, 6.28318531, 22, 355, 0x1p20}},
        Function{"math.tan", std::tan, 2, {0, 0.78539816, 1.57079633, 3.14159265, 6.28318531, 22, 355, 0x1p20}},
        Function{"math.asin", std::asin, 2, {0, 0.5, 1, 0.92387953, 0.38268343}},
        Function{"math.acos", std::acos, 2, {0, 0.5, 1, 0.70710678}},
        Function{"math.atan", std::atan, 2, {0, 0.41421356, 1, 2.41421356}},
        Function{"math.cbrt", std::cbrt, 2, {0, 1, 8}}, Function{"math.sqrt", std::sqrt, 0.5, {0, 1, 4}},
        Function{"math.rsqrt", rsqrtOf, 2, {0, 1, 4}},
        Function{"math.floor", std::floor, 0, {0, 0.5, 1, 1.5, 0x1p22, 0x1p23}},
        Function{"math.ceil", std::ceil, 0, {0, 0.5, 1, 1.5, 0x1p22, 0x1p23}},
        Function{"math.trunc", std::trunc, 0, {0, 0.5, 1, 1.5, 0x1p22, 0x1p23}},
        Function{"math.round", std::round, 0, {0, 0.5, 1, 1.5, 2.5, 0x1p22, 0x1p23}},
        Function{"math.roundeven", roundEvenOf, 0, {0, 0.5, 1, 1.5, 2.5, 0x1p22, 0x1p23}}),
    [](const testing::TestParamInfo<Function> &info) {
      std::string name(info.param.op);
      name = name.substr(name.find_first_of(".<") + 1);
      std::erase_if(name, [](char c) { return !std::isalnum(c); });
      return name;
    });

//===----------------------------------------------------------------------===//
// Two and three operands
//===----------------------------------------------------------------------===//

/// Random bits, bits near 1, and every pair of special values.
std::pair<std::vector<float>, std::vector<float>> pairs(unsigned count) {
  std::mt19937 random(7);
  std::vector<float> x, y;
  auto add = [&](float a, float b) {
    x.push_back(a);
    y.push_back(b);
  };
  for (unsigned i = 0; i < count; ++i) {
    add(floatOf(random()), floatOf(random()));
    add(floatOf(random() & 0x7fffffff), std::ldexp(float(int32_t(random())), -28)); // results of moderate size
    add(1.0f + std::ldexp(float(int32_t(random())), -36), floatOf(random() % 0x10000000 + 0x42000000));
    add(-floatOf(random() & 0x7fffffff), float(int32_t(random() % 41) - 20)); // integers
    add(floatOf(random()), floatOf(random() % 0x02000000 + 0x3e800000));
  }
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> special = {
      0.0f, 0x1p-149f, 0x1p-126f, 0.5f,           1.0f,    std::nextafterf(1, 2), 2.0f, 3.0f,
      2.5f, 0x1p23f,   0x1p24f,   0x1.000002p24f, 0x1p31f, 0x1.fffffep127f,       inf,  std::nanf("")};
  for (size_t i = special.size(); i-- > 0;)
    special.push_back(-special[i]);
  for (float a : special)
    for (float b : special)
      add(a, b);
  return {x, y};
}

void checkBinary(const std::string &op, double (*reference)(double, double), double limit) {
  auto [x, y] = pairs(200000);
  std::vector<double> wanted(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    wanted[i] = reference(x[i], y[i]);
  for (const std::string &level : runnableLevels()) {
    std::vector<float> got = compute<float>(pointwiseKernel(op, 2, level), level, {x, y});
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < x.size(); ++i)
      if (double error = ulpError(got[i], wanted[i]); error > worst) {
        worst = error;
        where = i;
      }
    EXPECT_LE(worst, limit) << op << std::hexfloat << "(" << x[where] << ", " << y[where] << ") = " << got[where]
                            << ", not " << wanted[where] << " on " << level;
    if (std::getenv("TILEWRIGHT_TEST_PRINT"))
      printf("%-12s %-10s %.3f ULP at %.9g, %.9g\n", op.c_str(), level.c_str(), worst, x[where], y[where]);
  }
}

TEST(ElementaryFunctionOfTwo, PowIsRightOnRandomAndSpecialPairs) { checkBinary("math.powf", std::pow, 2); }
TEST(ElementaryFunctionOfTwo, Atan2IsRightInEveryQuadrant) { checkBinary("math.atan2", std::atan2, 2); }
TEST(ElementaryFunctionOfTwo, RemainderIsExact) { checkBinary("arith.remf", std::fmod, 0); }

TEST(ElementaryFunctionOfTwo, MaximumAndMinimumPropagateOrIgnoreNan) {
  auto [x, y] = pairs(1000);
  for (const std::string &level : runnableLevels())
    for (const char *op : {"arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf"}) {
      std::vector<float> got = compute<float>(pointwiseKernel(op, 2, level), level, {x, y});
      bool propagates = std::string(op).find("imum") != std::string::npos,
           max = std::string(op).find("max") != std::string::npos;
      for (size_t i = 0; i < x.size(); ++i) {
        float wanted = max ? std::fmax(x[i], y[i]) : std::fmin(x[i], y[i]);
        if (propagates && (std::isnan(x[i]) || std::isnan(y[i])))
          wanted = std::nanf("");
        EXPECT_TRUE(got[i] == wanted || (std::isnan(got[i]) && std::isnan(wanted)))
            << op << "(" << x[i] << ", " << y[i] << ") = " << got[i] << " on " << level;
      }
    }
}

TEST(ElementaryFunctionOfThree, FusedMultiplyAddRoundsOnce) {
  auto [x, y] = pairs(200000);
  std::vector<float> z(x.size());
  std::mt19937 random(11);
  for (size_t i = 0; i < z.size(); ++i) {
    float product = x[i] * y[i];
    // Random sums; sums that nearly cancel; sums that are decided by what is far below.
    z[i] = i % 3 == 0 ? floatOf(random()) : i % 3 == 1 ? -std::nextafterf(product, 0) : product * 0x1p-25f;
  }
  for (const std::string &level : runnableLevels()) {
    std::vector<float> got = compute<float>(pointwiseKernel("math.fma", 3, level), level, {x, y, z});
    for (size_t i = 0; i < x.size(); ++i) {
      float wanted = std::fmaf(x[i], y[i], z[i]);
      ASSERT_TRUE((std::isnan(got[i]) && std::isnan(wanted)) ||
                  std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(wanted))
          << std::hexfloat << "fma(" << x[i] << ", " << y[i] << ", " << z[i] << ") = " << got[i] << ", not " << wanted
          << " on " << level;
    }
  }
}

TEST(ElementaryFunctionOfF64, RefusesAFusedMultiplyAddWithoutTheInstruction) {
  try {
    CompiledKernel kernel(pointwiseKernel("math.fma", 3, "x86-64", "f64"), "x86-64");
    FAIL() << "compiled";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find("on f64 needs the instruction, which CPU level x86-64 lacks"),
              std::string::npos)
        << error.what();
  }
}

TEST(AllowedSymbols, AreInTheRuntimesTable) {
  std::set<std::string_view> table;
  for (const ExternalSymbol &symbol : externalSymbols())
    table.insert(symbol.name);
  for (llvm::StringRef name : host::allowedSymbols())
    EXPECT_TRUE(table.count(std::string_view(name.data(), name.size()))) << name.str();
}

//===----------------------------------------------------------------------===//
// Double precision and half types
//===----------------------------------------------------------------------===//

TEST(ElementaryFunctionOfF64, GivesWhatLibmGives) {
  std::vector<double> points;
  std::mt19937_64 random(3);
  for (int i = 0; i < 1001; ++i)
    points.push_back(std::ldexp(double(int64_t(random())), int(random() % 40) - 60));
  struct {
    const char *op;
    double (*reference)(double);
  } functions[] = {{"math.exp", std::exp},     {"math.log", std::log},         {"math.sin", std::sin},
                   {"math.tanh", std::tanh},   {"math.erf", std::erf},         {"math.sqrt", std::sqrt},
                   {"math.floor", std::floor}, {"math.roundeven", roundEvenOf}};
  for (const std::string &level : runnableLevels())
    for (auto &f : functions) {
      std::vector<double> got = compute<double>(pointwiseKernel(f.op, 1, level, "f64"), level, {points});
      for (size_t i = 0; i < points.size(); ++i) {
        double wanted = f.reference(points[i]);
        ASSERT_TRUE(got[i] == wanted || (std::isnan(got[i]) && std::isnan(wanted)))
            << f.op << "(" << points[i] << ") on " << level;
      }
    }
}

uint16_t toHalf(float x, bool bf16) {
  if (bf16) {
    uint32_t bits = std::bit_cast<uint32_t>(x);
    if (std::isnan(x))
      return uint16_t(bits >> 16 | 0x40);
    // Decided by comparing distances, not by the formula under test.
    uint32_t low = bits & 0xffff0000u, rest = bits & 0xffffu;
    bool up = rest > 0x8000 || (rest == 0x8000 && (low & 0x10000));
    return uint16_t((low >> 16) + up);
  }
  return std::bit_cast<uint16_t>(static_cast<_Float16>(x));
}

float fromHalf(uint16_t bits, bool bf16) {
  return bf16 ? floatOf(uint32_t(bits) << 16) : static_cast<float>(std::bit_cast<_Float16>(bits));
}

TEST(HalfTypes, AreConvertedExactlyAndRoundedToNearestEven) {
  std::vector<uint16_t> halves(65536);
  for (unsigned i = 0; i < 65536; ++i)
    halves[i] = uint16_t(i);
  std::vector<float> floats =
      floatPoints(500, {65504, 65519.996, 65520, 0x1p-14, 0x1p-24, 0x1p-25, 0x1.8p-25, 0x1.fffffep127});
  for (unsigned i = 0; i < 65536; i += 7) // halfway between neighbours
    floats.push_back((fromHalf(uint16_t(i), false) + fromHalf(uint16_t(i + 1), false)) / 2);
  for (const std::string &level : runnableLevels())
    for (bool bf16 : {true, false}) {
      std::string type = bf16 ? "bf16" : "f16";
      auto up = compute<uint16_t, float>(pointwiseKernel("arith.extf", 1, level, type, "f32"), level, {halves});
      for (unsigned i = 0; i < 65536; ++i) {
        float wanted = fromHalf(uint16_t(i), bf16);
        ASSERT_TRUE(std::bit_cast<uint32_t>(up[i]) == std::bit_cast<uint32_t>(wanted) ||
                    (std::isnan(up[i]) && std::isnan(wanted)))
            << type << " " << std::hex << i << " on " << level;
      }
      auto down = compute<float, uint16_t>(pointwiseKernel("arith.truncf", 1, level, "f32", type), level, {floats});
      for (size_t i = 0; i < floats.size(); ++i) {
        uint16_t wanted = toHalf(floats[i], bf16);
        bool bothNan = std::isnan(floats[i]) && std::isnan(fromHalf(down[i], bf16));
        ASSERT_TRUE(down[i] == wanted || bothNan) << std::hexfloat << floats[i] << " to " << type << " gives "
                                                  << std::hex << down[i] << ", not " << wanted << " on " << level;
      }
    }
}

TEST(HalfTypes, ComputeInF32AndRoundOnce) {
  std::vector<uint16_t> x, y;
  std::mt19937 random(5);
  for (int i = 0; i < 100003; ++i) {
    x.push_back(uint16_t(random()));
    y.push_back(uint16_t(random()));
  }
  for (const std::string &level : runnableLevels())
    for (bool bf16 : {true, false}) {
      auto got = compute<uint16_t>(pointwiseKernel("arith.addf", 2, level, bf16 ? "bf16" : "f16"), level, {x, y});
      for (size_t i = 0; i < x.size(); ++i) {
        float sum = fromHalf(x[i], bf16) + fromHalf(y[i], bf16);
        ASSERT_TRUE(got[i] == toHalf(sum, bf16) || (std::isnan(sum) && std::isnan(fromHalf(got[i], bf16))))
            << i << " on " << level;
      }
      auto roots = compute<uint16_t>(pointwiseKernel("math.exp", 1, level, bf16 ? "bf16" : "f16"), level, {x});
      for (size_t i = 0; i < x.size(); ++i) {
        double wanted = std::exp(double(fromHalf(x[i], bf16)));
        float f = fromHalf(roots[i], bf16);
        uint16_t nearest = toHalf(float(wanted), bf16);
        ASSERT_TRUE(std::abs(int(roots[i]) - int(nearest)) <= 1 || (std::isnan(f) && std::isnan(wanted)))
            << i << " on " << level;
      }
    }
}

} // namespace
