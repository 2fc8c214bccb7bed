#include "MatrixRunner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

using namespace tilewright;
using namespace tilewright::test;

namespace {

struct Case {
  DType type;
  std::string level;
};
std::string nameOfCase(const testing::TestParamInfo<Case> &info) {
  std::string text = std::string(nameOf(info.param.type)) + "_" + info.param.level;
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}
std::vector<Case> allCases() {
  std::vector<Case> cases;
  for (const std::string &level : runnableLevels())
    for (DType type : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::I64})
      cases.push_back({type, level});
  return cases;
}

/// One product with random contents in memory that ends at guard pages, compared with double precision (integers:
/// exactly, modulo 2^bits).
class Checker {
public:
  explicit Checker(const Case &c) : product(compiled(c)), type(c.type), generator(7) {}

  /// Compiled once for all tests of a case.
  static const MatrixProduct &compiled(const Case &c) {
    static std::map<std::pair<DType, std::string>, std::unique_ptr<MatrixProduct>> all;
    auto &entry = all[{c.type, c.level}];
    if (!entry)
      entry = std::make_unique<MatrixProduct>(c.type, c.level);
    return *entry;
  }

  struct Layout {
    bool aTransposed = false, bTransposed = false;
    int64_t aExtra = 0, bExtra = 0, cExtra = 0; // elements between rows
    int64_t aStep = 1, bStep = 1;               // elements between neighbours of a row
  };

  void check(int64_t m, int64_t n, int64_t k, const Layout &layout, int64_t mc, int64_t nc) {
    const auto &shape = product.shape;
    const int64_t bytes = sizeOf(type), outBytes = sizeOf(shape.accumulator);
    auto strides = [](int64_t rows, int64_t cols, bool transposed, int64_t extra, int64_t step) {
      int64_t inner = transposed ? rows : cols, outer = inner * step + extra;
      return transposed ? std::pair(step, outer) : std::pair(outer, step);
    };
    auto [sm, sk] = strides(m, k, layout.aTransposed, layout.aExtra, layout.aStep);
    auto [sbk, sbn] = strides(k, n, layout.bTransposed, layout.bExtra, layout.bStep);
    int64_t ldc = n + layout.cExtra;
    auto extent = [](int64_t rows, int64_t cols, int64_t s0, int64_t s1) {
      return rows && cols ? (rows - 1) * s0 + (cols - 1) * s1 + 1 : 0;
    };
    GuardedMemory a(extent(m, k, sm, sk) * bytes), b(extent(k, n, sbk, sbn) * bytes), bias(n * outBytes);
    GuardedMemory panels(product.packedBytes(k, n)), c(extent(m, n, ldc, 1) * outBytes);
    auto fill = [&](GuardedMemory &memory, int64_t rows, int64_t cols, int64_t s0, int64_t s1) {
      std::normal_distribution<double> real;
      std::uniform_int_distribution<int32_t> whole(-1000, 1000);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j)
          fromDouble(type, isFloat(type) ? real(generator) : whole(generator),
                     memory.as<char>() + (i * s0 + j * s1) * bytes);
    };
    fill(a, m, k, sm, sk);
    fill(b, k, n, sbk, sbn);
    for (int64_t j = 0; j < n; ++j)
      fromDouble(shape.accumulator, double(j % 7), bias.as<char>() + j * outBytes);
    product.pack(b.data(), k, n, sbk, sbn, panels.data());
    product.multiply(a.data(), panels.data(), bias.data(), c.data(), m, n, k, sm, sk, ldc, mc, nc);

    // The bound of a sum of k products in any order, twice: a wrong index is far outside.
    const double unit = shape.accumulator == DType::F64 ? 0x1p-53 : isFloat(type) ? 0x1p-24 : 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double want = double(j % 7), size = want;
        for (int64_t q = 0; q < k; ++q) {
          double term = toDouble(type, a.as<char>() + (i * sm + q * sk) * bytes) *
                        toDouble(type, b.as<char>() + (q * sbk + j * sbn) * bytes);
          want += term, size += std::abs(term);
        }
        double got = toDouble(shape.accumulator, c.as<char>() + (i * ldc + j) * outBytes);
        ASSERT_LE(std::abs(got - want), 2 * unit * double(k + 2) * size)
            << "element (" << i << ", " << j << ") of " << m << " x " << n << " x " << k << ": " << got << ", not "
            << want;
      }
    // What lies between the rows of C was not touched (0xff since it was mapped).
    for (int64_t i = 0; n > 0 && i + 1 < m; ++i)
      for (int64_t at = (i * ldc + n) * outBytes; at < (i + 1) * ldc * outBytes; ++at)
        ASSERT_EQ(c.as<uint8_t>()[at], 0xff) << "written beyond row " << i;
  }

  const MatrixProduct &product;
  DType type;
  std::mt19937 generator;
};

class Contract : public testing::TestWithParam<Case> {};

} // namespace

TEST_P(Contract, AllRowCountsOfOneBlock) {
  Checker checker(GetParam());
  for (int64_t m = 0; m <= 2 * int64_t(checker.product.shape.rows) + 1; ++m)
    checker.check(m, checker.product.shape.width + 3, 9, {}, 96, 2 * checker.product.shape.width);
}

TEST_P(Contract, AllColumnCountsOfTwoPanels) {
  Checker checker(GetParam());
  for (int64_t n = 0; n <= 2 * int64_t(checker.product.shape.width); ++n) {
    checker.check(5, n, 6, {.cExtra = 3}, 96, 4 * checker.product.shape.width);
    checker.check(5, n, 6, {.bTransposed = true}, 96, 4 * checker.product.shape.width);
  }
}

TEST_P(Contract, DepthsAroundBlocksAndNone) {
  Checker checker(GetParam());
  for (int64_t k : {0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 511, 512, 513, 1025})
    for (bool transposed : {false, true})
      checker.check(7, 2 * checker.product.shape.width + 1, k, {.bTransposed = transposed}, 96,
                    4 * checker.product.shape.width);
}

TEST_P(Contract, LongSumsAreSplit) {
  Checker checker(GetParam());
  const int64_t width = checker.product.shape.width;
  for (int64_t k : {2047, 2049, 4099, 5001})
    for (bool transposed : {false, true})
      checker.check(13, 2 * width + 1, k, {.aTransposed = transposed}, 96, 4 * width);
}

TEST_P(Contract, RowsInOneSetOfTheCache) {
  Checker checker(GetParam());
  const int64_t width = checker.product.shape.width, perLine = 4096 / sizeOf(checker.type);
  for (int64_t k : {int64_t(40), perLine})
    checker.check(53, 2 * width + 5, k, {.aExtra = perLine - k % perLine}, 96, 4 * width);
}

TEST_P(Contract, RandomSizesAndStrides) {
  Checker checker(GetParam());
  std::mt19937 &g = checker.generator;
  auto pick = [&](int64_t limit) { return std::uniform_int_distribution<int64_t>(0, limit)(g); };
  const int64_t primes[] = {1, 2, 3, 5, 7, 11, 13, 17, 31, 37, 61, 67, 97, 101, 127};
  for (int run = 0; run < 60; ++run) {
    auto size = [&]() -> int64_t { return pick(2) ? primes[pick(14)] : pick(100); };
    Checker::Layout layout{pick(1) == 1, pick(1) == 1, pick(5), pick(5), pick(3), 1 + pick(1), 1 + pick(1)};
    checker.check(size(), size(), size(), layout, (1 + pick(8)) * 4, (1 + pick(3)) * checker.product.shape.width);
    if (HasFatalFailure())
      return;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Contract, testing::ValuesIn(allCases()), nameOfCase);

TEST(ContractCode, RegisterBlocksDoNotSpill) {
  // The assembly of the largest block: no vector register goes to or comes from the stack.
  for (std::string level : {"avx512", "avx2", "x86-64"}) {
    auto shape = host::MatrixShape::get(DType::F32, *host::MatrixTarget::forLevel(level)).value();
    std::string text = CompiledKernel(productKernel(shape), level, /*assembly=*/true).assembly;
    size_t begin = text.find("tw_block_f32_" + std::to_string(shape.rows) + ":");
    ASSERT_NE(begin, std::string::npos);
    size_t end = text.find("retq", begin);
    ASSERT_NE(end, std::string::npos);
    std::string block = text.substr(begin, end - begin);
    EXPECT_NE(block.find(shape.lanes == 4 ? "mulps" : "vfmadd"), std::string::npos);
    for (size_t at = 0; at < block.size();) {
      size_t stop = std::min(block.find('\n', at), block.size());
      std::string line = block.substr(at, stop - at);
      EXPECT_FALSE(line.find("mm") != std::string::npos && line.find("(%rsp") != std::string::npos)
          << level << ": " << line;
      at = stop + 1;
    }
  }
}

TEST(ContractErrors, NameWhatIsWrong) {
  auto messageOf = [](std::string text, const char *level) {
    try {
      CompiledKernel kernel(text, level);
    } catch (const std::runtime_error &error) {
      return std::string(error.what());
    }
    return std::string();
  };
  auto shape = host::MatrixShape::get(DType::BF16, *host::MatrixTarget::forLevel("avx512bf16")).value();
  EXPECT_NE(messageOf(productKernel(shape), "avx512").find("operands of 'bf16' are packed as f32 on avx512"),
            std::string::npos)
      << messageOf(productKernel(shape), "avx512");
  auto narrow = host::MatrixShape::get(DType::F32, *host::MatrixTarget::forLevel("avx2")).value();
  EXPECT_NE(messageOf(productKernel(narrow), "avx512").find("are summed in 'vector<16xf32>' on avx512"),
            std::string::npos)
      << messageOf(productKernel(narrow), "avx512");
}
