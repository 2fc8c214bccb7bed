//===- KernelBuilderTest.cpp - kernels built, compiled and run from C++ ----===//

#include "tilewright/Kernel/Kernel.h"

#include "tilewright/Runtime/CompilerLoader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace tilewright;
using namespace tilewright::kernel;

namespace {

std::vector<float> noise(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> result(count);
  for (float &x : result)
    x = normal(generator);
  return result;
}

TEST(KernelBuilder, RowSoftmaxOfAnySizeAndStrides) {
  Builder k("row_softmax");
  Size m = k.symbol("M"), n = k.symbol("N");
  Param x = k.in("X", DType::F32, {m, n}), y = k.out("Y", DType::F32, {m, n});
  k.parallel({m}, [&](std::span<const Axis> grid) {
    Tile row = k.load(x, {grid[0], all});
    Tile e = k.apply("exp", {row - k.reduce("max", row, {1}, true)});
    k.store(y, {grid[0], all}, e / k.reduce("sum", e, {1}, true));
  });
  Compiled f = k.compile();
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{3, 5}, {17, 129}, {1, 1}, {0, 4}, {4, 0}}) {
    const int64_t pitch = columns + 3; // rows apart
    std::vector<float> in = noise(rows * pitch + 1, 1), out(rows * columns + 1, -1);
    f({{in.data(), {rows, columns}, {pitch, 1}}, {out.data(), {rows, columns}}});
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c)
        sum += std::exp(double(in[r * pitch + c]));
      for (int64_t c = 0; c < columns; ++c)
        EXPECT_NEAR(out[r * columns + c], std::exp(double(in[r * pitch + c])) / sum, 1e-6);
    }
    EXPECT_EQ(out.back(), -1) << "written beyond the end";
  }
}

TEST(KernelBuilder, ProductsAccumulateOverALoop) {
  Builder k("product");
  Size m = k.symbol("M"), n = k.symbol("N"), depth = k.symbol("K");
  Param a = k.in("A", DType::F32, {m, depth}), b = k.in("B", DType::F32, {n, depth}),
        c = k.out("C", DType::F32, {m, n});
  Number alpha = k.scalar("alpha");
  k.parallel({m, n}, [&](std::span<const Axis> ij) {
    Tile zero = k.full({ij[0].size(), ij[1].size()}, 0, DType::F32);
    Tile sum = k.loop(depth, {zero}, [&](Axis at, std::span<const Tile> carried) -> std::vector<Tile> {
      return {carried[0] + k.matmul(k.load(a, {ij[0], at}), k.transpose(k.load(b, {ij[1], at})))};
    })[0];
    k.store(c, {ij[0], ij[1]}, sum * alpha);
  });
  Compiled f = k.compile();
  const int64_t rows = 33, columns = 70, inner = 129;
  std::vector<float> x = noise(rows * inner, 2), w = noise(columns * inner, 3), out(rows * columns);
  f({{x.data(), {rows, inner}}, {w.data(), {columns, inner}}, {out.data(), {rows, columns}}, 0.5});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t q = 0; q < inner; ++q)
        sum += double(x[i * inner + q]) * w[j * inner + q];
      EXPECT_NEAR(out[i * columns + j], 0.5 * sum, 1e-4);
    }
}

TEST(KernelBuilder, LoopsCarryValuesInOrder) {
  // Horner's rule: a loop over single indices, whose body depends on the turn before.
  Builder k("horner");
  Size n = k.symbol("N"), d = k.symbol("D");
  Param x = k.in("X", DType::F64, {n}), coefficients = k.in("C", DType::F64, {d}), y = k.out("Y", DType::F64, {n});
  k.parallel({n}, [&](std::span<const Axis> grid) {
    Tile at = k.load(x, {grid[0]});
    Tile value = k.loop(Range(d, 1), {k.full({grid[0].size()}, 0, DType::F64)},
                        [&](Axis turn, std::span<const Tile> carried) -> std::vector<Tile> {
                          return {carried[0] * at + k.load(coefficients, {turn.start()})};
                        })[0];
    k.store(y, {grid[0]}, value);
  });
  Compiled f = k.compile();
  std::vector<double> in = {0, 1, 2, -3}, c = {2, 0, -1, 5}, out(4);
  f({{in.data(), {4}}, {c.data(), {4}}, {out.data(), {4}}});
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(out[i], ((2 * in[i] + 0) * in[i] - 1) * in[i] + 5);
}

TEST(KernelBuilder, RefusesWhatDoesNotFit) {
  Builder k("wrong");
  Size m = k.symbol("M"), n = k.symbol("N");
  Param x = k.in("X", DType::F32, {m, n}), y = k.in("Y", DType::F64, {m, n}), z = k.out("Z", DType::F32, {m});
  EXPECT_THROW(k.load(x, {all}), std::invalid_argument);
  Tile a = k.load(x, {all, all}), b = k.load(y, {all, all});
  EXPECT_THROW(a + b, std::invalid_argument);
  EXPECT_THROW(k.store(z, {all}, a), std::invalid_argument);
  EXPECT_THROW(k.matmul(a, a), std::invalid_argument);
  EXPECT_THROW(k.apply("no_such_operation", {a}), std::invalid_argument);
}

TEST(KernelBuilder, ChecksSizesAtTheCall) {
  Builder k("same_sizes");
  Size n = k.symbol("N");
  Param x = k.in("X", DType::F32, {n}), y = k.out("Y", DType::F32, {n});
  k.parallel({n}, [&](std::span<const Axis> grid) { k.store(y, {grid[0]}, k.load(x, {grid[0]}) * 2.0); });
  Compiled f = k.compile();
  std::vector<float> memory(8);
  EXPECT_THROW(f({{memory.data(), {8}}, {memory.data(), {7}}}), std::invalid_argument);
  EXPECT_THROW(f({{memory.data(), {8}}}), std::invalid_argument);
}

} // namespace
