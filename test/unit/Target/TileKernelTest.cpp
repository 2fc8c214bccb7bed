//===- TileKernelTest.cpp - grids, reductions, checks and tiles of higher rank -----------------------------------===//

#include "MatrixRunner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <thread>

using namespace tilewright;
using namespace tilewright::test;

namespace {

//===----------------------------------------------------------------------===//
// Grid
//===----------------------------------------------------------------------===//

TEST(TileGrid, VisitsEveryPointOfAnyRangeOnceInRowMajorOrder) {
  const char *text = R"(
tile.kernel @f(%y: !tile.buffer<i64>, %a: index, %b: index, %c: index, %counter: index) {
  %one = arith.constant 1 : index
  tile.grid (%i, %u, %j, %k) in (%a, %one, %b, %c) {
    %h = arith.constant 100 : index
    %p = arith.muli %i, %h : index
    %q = arith.addi %p, %j : index
    %r = arith.muli %q, %h : index
    %s = arith.addi %r, %k : index
    %t = arith.addi %s, %u : index
    %bc = arith.muli %b, %c : index
    %o0 = arith.muli %i, %bc : index
    %o1 = arith.muli %j, %c : index
    %o2 = arith.addi %o0, %o1 : index
    %o = arith.addi %o2, %k : index
    %v = arith.index_cast %t : index to i64
    tile.store %v, %y[%o] : i64, !tile.buffer<i64>
  }
})";
  CompiledKernel kernel(text, "x86-64");
  for (auto [a, b, c] : {std::array<int64_t, 3>{2, 3, 4}, {1, 1, 1}, {5, 1, 7}, {1, 9, 1}})
    for (int64_t begin = 0; begin <= a * b * c; ++begin)
      for (int64_t end = begin; end <= a * b * c; ++end) {
        std::vector<int64_t> y(a * b * c, -1);
        kernel.run({y.data()}, {a, b, c, 0}, begin, end);
        for (int64_t p = 0; p < a * b * c; ++p)
          ASSERT_EQ(y[p], p < begin || p >= end ? -1 : (p / (b * c) * 100 + p / c % b) * 100 + p % c);
      }
  std::vector<int64_t> nothing(1, -1); // an empty grid divides by its sizes
  kernel.run({nothing.data()}, {0, 0, 0, 0}, 0, 0);
  EXPECT_EQ(nothing[0], -1);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

template <typename T>
T reduceOnce(const std::string &kind, const std::string &type, int64_t lanes, const std::string &level,
             std::vector<T> input, int64_t valid) {
  std::string buffer = "!tile.buffer<" + type + ">", tile = "tensor<" + std::to_string(lanes) + "x" + type + ">";
  CompiledKernel kernel("tile.kernel @f(%x: " + buffer + ", %y: " + buffer +
                            ", %v: index) {\n%c0 = arith.constant 0 : index\ntile.grid () in () {\n" +
                            "%t = tile.load %x[%c0] strides [1] : " + buffer + " -> " + tile + "\n%r = tile.reduce <" +
                            kind + "> %t" + (valid < lanes ? " valid [%v]" : "") + " : " + tile +
                            "\ntile.store %r, %y[%c0] : " + type + ", " + buffer + "\n}\n}\n",
                        level);
  T result;
  kernel.run({input.data(), &result}, {valid}, 0, 1);
  return result;
}

TEST(TileReduce, CombinesValidElementsOfIntegers) {
  const std::vector<std::string> kinds = {"add", "mul", "max", "min", "umax", "umin", "and", "or", "xor"};
  for (const std::string &level : runnableLevels())
    for (int64_t lanes : {1, 5, 16, 64}) {
      std::string tile = "tensor<" + std::to_string(lanes) + "xi32>";
      std::string text = "tile.kernel @f(%x: !tile.buffer<i32>, %y: !tile.buffer<i32>, %v: index) {\n%c0 = "
                         "arith.constant 0 : index\ntile.grid () in () {\n"
                         "%t = tile.load %x[%c0] strides [1] : !tile.buffer<i32> -> " +
                         tile + "\n";
      for (size_t k = 0; k < kinds.size(); ++k) {
        std::string n = std::to_string(k);
        text += "%r" + n + " = tile.reduce <" + kinds[k] + "> %t valid [%v] : " + tile + "\n%o" + n +
                " = arith.constant " + n + " : index\ntile.store %r" + n + ", %y[%o" + n +
                "] : i32, !tile.buffer<i32>\n";
      }
      CompiledKernel kernel(text + "}\n}\n", level);
      std::vector<int32_t> x(lanes), y(kinds.size());
      std::mt19937 random(lanes);
      for (int32_t &value : x)
        value = int32_t(random());
      for (int64_t valid : {int64_t(0), int64_t(1), lanes - 1, lanes}) {
        kernel.run({x.data(), y.data()}, {valid}, 0, 1);
        auto fold = [&](auto start, auto op) {
          return int32_t(std::accumulate(x.begin(), x.begin() + valid, start, op));
        };
        std::vector<int32_t> wanted = {
            fold(uint32_t(0), [](uint32_t a, int32_t b) { return a + uint32_t(b); }),
            fold(uint32_t(1), [](uint32_t a, int32_t b) { return a * uint32_t(b); }),
            fold(INT32_MIN, [](int32_t a, int32_t b) { return std::max(a, b); }),
            fold(INT32_MAX, [](int32_t a, int32_t b) { return std::min(a, b); }),
            fold(uint32_t(0), [](uint32_t a, int32_t b) { return std::max(a, uint32_t(b)); }),
            fold(UINT32_MAX, [](uint32_t a, int32_t b) { return std::min(a, uint32_t(b)); }),
            fold(int32_t(-1), [](int32_t a, int32_t b) { return a & b; }),
            fold(int32_t(0), [](int32_t a, int32_t b) { return a | b; }),
            fold(int32_t(0), [](int32_t a, int32_t b) { return a ^ b; })};
        for (size_t k = 0; k < kinds.size(); ++k)
          EXPECT_EQ(y[k], wanted[k]) << kinds[k] << " of " << valid << "/" << lanes << " on " << level;
      }
    }
}

TEST(TileReduce, PropagatesOrIgnoresNanAndKeepsInfinity) {
  const float nan = std::nanf(""), inf = INFINITY;
  for (const std::string &level : runnableLevels())
    for (int64_t position : {0, 3, 7}) {
      std::vector<float> x = {1, -2, 3, -4, 5, -6, 7, -8};
      EXPECT_EQ(reduceOnce("max", "f32", 8, level, x, 8), 7);
      EXPECT_EQ(reduceOnce("min", "f32", 8, level, x, 8), -8);
      EXPECT_EQ(reduceOnce("add", "f32", 8, level, x, 5), 3);
      EXPECT_EQ(reduceOnce("mul", "f32", 8, level, x, 3), -6);
      EXPECT_EQ(reduceOnce("max", "f32", 8, level, x, 0), -inf);
      EXPECT_EQ(reduceOnce("min", "f32", 8, level, x, 0), inf);
      x[position] = nan;
      EXPECT_TRUE(std::isnan(reduceOnce("max", "f32", 8, level, x, 8))) << level << position;
      EXPECT_TRUE(std::isnan(reduceOnce("min", "f32", 8, level, x, 8))) << level << position;
      EXPECT_EQ(reduceOnce("maxnum", "f32", 8, level, x, 8), position == 7 - 1 ? 5 : 7) << level << position;
      EXPECT_EQ(reduceOnce("minnum", "f32", 8, level, x, 8), position == 7 ? -6 : -8) << level << position;
      x[position] = -inf;
      EXPECT_EQ(reduceOnce("min", "f32", 8, level, x, 8), -inf);
    }
}

TEST(TileReduce, OfBoolAndHalfTypes) {
  for (const std::string &level : runnableLevels()) {
    for (int64_t lanes : {4, 16, 64}) {
      std::vector<uint8_t> flags(lanes, 1);
      EXPECT_EQ(reduceOnce("and", "i1", lanes, level, flags, lanes), 1);
      flags[lanes - 1] = 0;
      EXPECT_EQ(reduceOnce("and", "i1", lanes, level, flags, lanes), 0);
      EXPECT_EQ(reduceOnce("and", "i1", lanes, level, flags, lanes - 1), 1);
      EXPECT_EQ(reduceOnce("or", "i1", lanes, level, flags, lanes), 1);
      EXPECT_EQ(reduceOnce("or", "i1", lanes, level, std::vector<uint8_t>(lanes, 0), lanes), 0);
    }
    std::vector<uint16_t> ones(16, 0x3f80); // bf16
    EXPECT_EQ(reduceOnce("add", "bf16", 16, level, ones, 16), 0x4180);
    EXPECT_EQ(reduceOnce("add", "bf16", 16, level, ones, 4), 0x4080);
    EXPECT_EQ(reduceOnce("max", "f16", 16, level, std::vector<uint16_t>(16, 0x3c00), 16), 0x3c00);
  }
}

//===----------------------------------------------------------------------===//
// Errors of data
//===----------------------------------------------------------------------===//

int64_t runChecked(const CompiledKernel &kernel, std::vector<int64_t> indices, int64_t valid,
                   std::vector<int64_t> &output, KernelContext &context) {
  output.assign(16, -1);
  indices.resize(16, 1000); // beyond the valid extent: not to be looked at
  void *buffers[] = {indices.data(), output.data()};
  int64_t ints[] = {10, valid};
  return kernel.function(buffers, ints, 0, 1, &context);
}

TEST(TileCheckIndex, RecordsTheFirstWrongIndexAndEndsTheKernel) {
  const char *text = R"(
tile.kernel @f(%x: !tile.buffer<i64>, %y: !tile.buffer<i64>, %bound: index, %v: index) {
  %c0 = arith.constant 0 : index
  tile.grid () in () {
    %i = tile.load %x[%c0] strides [1] valid [%v] : !tile.buffer<i64> -> tensor<16xi64>
    %j = tile.check_index %i below %bound site 4 valid [%v] : tensor<16xi64>
    tile.store %j, %y[%c0] strides [1] : tensor<16xi64>, !tile.buffer<i64>
  }
})";
  for (const std::string &level : runnableLevels()) {
    CompiledKernel kernel(text, level);
    std::vector<int64_t> output;
    KernelContext good{};
    EXPECT_EQ(runChecked(kernel, {0, 9, 5}, 3, output, good), 0);
    EXPECT_EQ(good.errorCode, 0);
    EXPECT_EQ(output[1], 9);
    EXPECT_EQ(output[3], 0);
    for (int64_t wrong : {int64_t(10), int64_t(-1), INT64_MIN, INT64_MAX}) {
      KernelContext context{};
      EXPECT_EQ(runChecked(kernel, {1, wrong, 3, 77}, 4, output, context), 1) << level;
      EXPECT_EQ(context.errorCode, 5);
      EXPECT_EQ(context.errorIndex, wrong);
      EXPECT_EQ(context.errorBound, 10);
      EXPECT_EQ(output[0], -1) << "nothing was stored after the error";
    }
  }
}

TEST(TileCheckIndex, OfScalarsOf32Bits) {
  const char *text = R"(
tile.kernel @f(%x: !tile.buffer<i32>, %y: !tile.buffer<i32>, %bound: index, %v: index) {
  tile.grid (%p) in (%v) {
    %i = tile.load %x[%p] : !tile.buffer<i32> -> i32
    %j = tile.check_index %i below %bound site 0 : i32
    tile.store %j, %y[%p] : i32, !tile.buffer<i32>
  }
})";
  CompiledKernel kernel(text, "x86-64");
  std::vector<int32_t> x = {3, -1, 200}, y(3);
  void *buffers[] = {x.data(), y.data()};
  int64_t ints[] = {int64_t(1) << 33, 3}; // a bound beyond 32 bits
  KernelContext context{};
  EXPECT_EQ(kernel.function(buffers, ints, 0, 3, &context), 1);
  EXPECT_EQ(context.errorCode, 1);
  EXPECT_EQ(context.errorIndex, -1);
  EXPECT_EQ(y, (std::vector<int32_t>{3, 0, 0})) << "what came before the error stands, nothing comes after";
}

//===----------------------------------------------------------------------===//
// Rank, loops, scratch
//===----------------------------------------------------------------------===//

/// A transposing copy with a sum carried through a loop, all in tiles of rank 2 with tails in both dimensions.
TEST(TileOfRankTwo, HonoursValidExtentsOfBothDimensions) {
  const char *text = R"(
tile.kernel @f(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %s: !tile.buffer<f32>, %m: index, %n: index) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  tile.grid () in () {
    %zero = arith.constant dense<0.0> : tensor<4x8xf32>
    %total = scf.for %i = %c0 to %m step %c4 iter_args(%outer = %zero) -> tensor<4x8xf32> {
      %rows = arith.subi %m, %i : index
      %next = scf.for %j = %c0 to %n step %c8 iter_args(%sum = %outer) -> tensor<4x8xf32> {
        %cols = arith.subi %n, %j : index
        %row = arith.muli %i, %n : index
        %o = arith.addi %row, %j : index
        %t = tile.load %x[%o] strides [%n, 1] valid [%rows, %cols] : !tile.buffer<f32> -> tensor<4x8xf32>
        %two = arith.constant 2.0 : f32
        %twos = tile.splat %two : f32 -> tensor<4x8xf32>
        %d = arith.mulf %t, %twos : tensor<4x8xf32>
        %column = arith.muli %j, %m : index
        %q = arith.addi %column, %i : index
        tile.store %d, %y[%q] strides [1, %m] valid [%rows, %cols] : tensor<4x8xf32>, !tile.buffer<f32>
        %a = arith.addf %sum, %t : tensor<4x8xf32>
        scf.yield %a : tensor<4x8xf32>
      }
      scf.yield %next : tensor<4x8xf32>
    }
    %whole = tile.reduce <add> %total : tensor<4x8xf32>
    %part = tile.reduce <add> %total valid [%c4, %c8] : tensor<4x8xf32>
    tile.store %whole, %s[%c0] : f32, !tile.buffer<f32>
    tile.store %part, %s[%c4] : f32, !tile.buffer<f32>
  }
})";
  for (const std::string &level : runnableLevels()) {
    CompiledKernel kernel(text, level);
    for (int64_t m : {0, 1, 3, 4, 9})
      for (int64_t n : {0, 1, 7, 8, 16, 21}) {
        GuardedMemory x(m * n * 4), y(m * n * 4);
        double sum = 0;
        for (int64_t i = 0; i < m * n; ++i)
          sum += x.as<float>()[i] = float(i % 17);
        float totals[8] = {};
        kernel.run({x.data(), y.data(), totals}, {m, n}, 0, 1);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j)
            ASSERT_EQ(y.as<float>()[j * m + i], 2 * x.as<float>()[i * n + j]) << m << "x" << n << " on " << level;
        EXPECT_EQ(totals[0], sum);
        EXPECT_EQ(totals[4], sum);
      }
  }
}

TEST(TileKernel, KeepsRowsInScratchAndBranchesOnScalars) {
  const char *text = R"(
tile.kernel @softmax(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %rows: index, %cols: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  tile.grid (%i) in (%rows) {
    %row = arith.muli %i, %cols : index
    %tmp = tile.scratch [%c0] : !tile.buffer<f32>
    %low = arith.constant dense<0xFF800000> : tensor<8xf32>
    %m = scf.for %j = %c0 to %cols step %c8 iter_args(%a = %low) -> tensor<8xf32> {
      %left = arith.subi %cols, %j : index
      %o = arith.addi %row, %j : index
      %t = tile.load %x[%o] strides [1] valid [%left] fill 0xFF800000 : f32 : !tile.buffer<f32> -> tensor<8xf32>
      %n = arith.maximumf %a, %t : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    %max = tile.reduce <max> %m : tensor<8xf32>
    %maxs = tile.splat %max : f32 -> tensor<8xf32>
    %zero = arith.constant dense<0.0> : tensor<8xf32>
    %s = scf.for %j = %c0 to %cols step %c8 iter_args(%a = %zero) -> tensor<8xf32> {
      %left = arith.subi %cols, %j : index
      %o = arith.addi %row, %j : index
      %t = tile.load %x[%o] strides [1] valid [%left] fill 0xFF800000 : f32 : !tile.buffer<f32> -> tensor<8xf32>
      %d = arith.subf %t, %maxs : tensor<8xf32>
      %e = math.exp %d : tensor<8xf32>
      tile.store %e, %tmp[%j] strides [1] valid [%left] : tensor<8xf32>, !tile.buffer<f32>
      %n = arith.addf %a, %e : tensor<8xf32>
      scf.yield %n : tensor<8xf32>
    }
    %sum = tile.reduce <add> %s : tensor<8xf32>
    %one = arith.constant 1.0 : f32
    %f = arith.divf %one, %sum : f32
    %fs = tile.splat %f : f32 -> tensor<8xf32>
    scf.for %j = %c0 to %cols step %c8 {
      %left = arith.subi %cols, %j : index
      %o = arith.addi %row, %j : index
      %e = tile.load %tmp[%j] strides [1] valid [%left] : !tile.buffer<f32> -> tensor<8xf32>
      %p = arith.mulf %e, %fs : tensor<8xf32>
      tile.store %p, %y[%o] strides [1] valid [%left] : tensor<8xf32>, !tile.buffer<f32>
    }
  }
})";
  for (const std::string &level : runnableLevels()) {
    CompiledKernel kernel(text, level);
    for (int64_t cols : {1, 7, 8, 9, 100}) {
      const int64_t rows = 3;
      GuardedMemory x(rows * cols * 4), y(rows * cols * 4);
      for (int64_t i = 0; i < rows * cols; ++i)
        x.as<float>()[i] = std::sin(float(i)) * 20;
      kernel.run({x.data(), y.data()}, {rows, cols}, 0, rows, cols * 4 + 64);
      for (int64_t r = 0; r < rows; ++r) {
        double max = -INFINITY, sum = 0;
        for (int64_t c = 0; c < cols; ++c)
          max = std::max<double>(max, x.as<float>()[r * cols + c]);
        for (int64_t c = 0; c < cols; ++c)
          sum += std::exp(x.as<float>()[r * cols + c] - max);
        for (int64_t c = 0; c < cols; ++c)
          ASSERT_NEAR(y.as<float>()[r * cols + c], std::exp(x.as<float>()[r * cols + c] - max) / sum, 2e-7) << level;
      }
    }
  }
}

TEST(CompileKernel, RunsInSeveralThreadsAtOnce) {
  const char *text = R"(
tile.kernel @f(%y: !tile.buffer<f32>, %n: index) {
  tile.grid (%i) in (%n) {
    %x = arith.constant dense<0.5> : tensor<8xf32>
    %e = math.tanh %x : tensor<8xf32>
    tile.store %e, %y[%i] strides [1] : tensor<8xf32>, !tile.buffer<f32>
  }
})";
  std::vector<std::thread> threads;
  std::vector<float> results(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        CompiledKernel kernel(text, "x86-64");
        float y[8];
        kernel.run({y}, {1}, 0, 1);
        results[t] = y[0];
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (float result : results)
    EXPECT_NEAR(result, std::tanh(0.5), 1e-7);
}

TEST(CompileKernel, NamesWhatItCannotLower) {
  auto message = [](const std::string &text) {
    try {
      CompiledKernel kernel(text, "avx2");
    } catch (const std::runtime_error &error) {
      return std::string(error.what());
    }
    return std::string("compiled");
  };
  EXPECT_NE(message("module {}").find("has one tile.kernel, this one has 0"), std::string::npos);
  std::string wide = message(R"(
tile.kernel @f(%y: !tile.buffer<f32>, %n: index) {
  tile.grid (%i) in (%n) {
    %x = arith.constant dense<0.5> : tensor<2x2x2xf32>
    %z = arith.constant 0 : index
    %r = scf.execute_region -> tensor<2x2x2xf32> {
      scf.yield %x : tensor<2x2x2xf32>
    }
    tile.store %r, %y[%z] strides [4, 2, 1] : tensor<2x2x2xf32>, !tile.buffer<f32>
  }
})");
  EXPECT_NE(wide.find("cannot work on a tile of rank 2 or more on the host"), std::string::npos) << wide;
}

} // namespace
