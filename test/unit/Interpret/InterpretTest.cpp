//===- InterpretTest.cpp - kernels at every stage, operation by operation --------------------------------------===//

#include "tilewright/Interpret/Interpret.h"

#include "tilewright/Interpret/Perturb.h"
#include "tilewright/Target/Host/HostTarget.h"

#include "mlir/Parser/Parser.h"

#include <bit>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace tilewright;
using namespace tilewright::interpret;

namespace {

struct Stage {
  std::string name;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// A kernel @f as written and after every pass of a level.
class Stages {
public:
  explicit Stages(const std::string &text, const std::string &level = "x86-64") : target(host::HostTarget::get(level)) {
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
    if (!module)
      throw std::runtime_error("the kernel's text does not parse:\n" + text);
    all.push_back({"tile", mlir::OwningOpRef<mlir::ModuleOp>(module->clone())});
    host::DumpOptions options;
    options.after = [&](llvm::StringRef pass, mlir::ModuleOp now) {
      all.push_back({pass.str(), mlir::OwningOpRef<mlir::ModuleOp>(now.clone())});
    };
    auto code = host::compileKernel(*module, target, options);
    if (!code)
      throw std::runtime_error(llvm::toString(code.takeError()));
  }

  Options options() const { return {host::MatrixTarget{target.vectorBits / 8, target.fma, target.bf16}, {}, 10000000}; }

private:
  const host::HostTarget &target;
  host::PooledContext context;

public:
  std::vector<Stage> all;
};

struct Arguments {
  std::vector<Extent> buffers;
  std::vector<int64_t> ints;
  int64_t begin = 0, end = 1;
  size_t scratchBytes = 0;
};

Outcome runStage(mlir::ModuleOp module, const Arguments &arguments, const Options &options,
                 KernelContext *context = nullptr) {
  KernelContext own{};
  std::vector<char> scratch(arguments.scratchBytes + 64, -1);
  Call call;
  call.context = context ? context : &own;
  call.context->scratch = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  call.scratchBytes = arguments.scratchBytes;
  call.memory = arguments.buffers;
  for (const Extent &extent : arguments.buffers)
    call.buffers.push_back(extent.data);
  call.ints = arguments.ints;
  call.begin = arguments.begin;
  call.end = arguments.end;
  return run(module, "f", call, options);
}

template <typename T> Extent extentOf(std::vector<T> &values) { return {values.data(), values.size() * sizeof(T)}; }

const char *const kLevels[] = {"x86-64", "avx2", "avx512", "avx512bf16"};

//===----------------------------------------------------------------------===//
// Single operations
//===----------------------------------------------------------------------===//

/// f(x[0], x[1]) of one type, as the operation has it.
uint64_t apply(const std::string &operation, const std::string &type, uint64_t x, uint64_t y,
               const std::string &result = "") {
  std::string to = result.empty() ? type : result, in = "!tile.buffer<" + type + ">", out = "!tile.buffer<" + to + ">";
  std::string text = "tile.kernel @f(%b: " + in + ", %y: " + out +
                     ") {\n%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\ntile.grid () in () {\n%0 = "
                     "tile.load %b[%c0] : " +
                     in + " -> " + type + "\n%1 = tile.load %b[%c1] : " + in + " -> " + type + "\n%r = " + operation +
                     "\ntile.store %r, %y[%c0] : " + to + ", " + out + "\n}\n}\n";
  host::PooledContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
  if (!module)
    throw std::runtime_error("does not parse: " + text);
  size_t bytes = type == "f64" || type == "i64" ? 8 : type == "f32" || type == "i32" ? 4 : type == "i8" ? 1 : 2;
  std::vector<uint8_t> memory(2 * bytes);
  std::memcpy(memory.data(), &x, bytes);
  std::memcpy(memory.data() + bytes, &y, bytes);
  std::vector<uint64_t> made(1, 0);
  runStage(*module, {{extentOf(memory), extentOf(made)}, {}}, {});
  return made[0];
}

uint64_t bits(float x) { return std::bit_cast<uint32_t>(x); }
uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }
float single(uint64_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x)); }

TEST(InterpretOperation, IntegersWrapAndHaveSigns) {
  EXPECT_EQ(apply("arith.addi %0, %1 : i8", "i8", 200, 100), 44u);
  EXPECT_EQ(apply("arith.subi %0, %1 : i32", "i32", 1, 2), 0xffffffffu);
  EXPECT_EQ(apply("arith.muli %0, %1 : i64", "i64", ~0ull, 3), ~0ull - 2);
  EXPECT_EQ(apply("arith.divsi %0, %1 : i32", "i32", uint32_t(-7), 2), uint32_t(-3));
  EXPECT_EQ(apply("arith.remsi %0, %1 : i32", "i32", uint32_t(-7), 2), uint32_t(-1));
  EXPECT_EQ(apply("arith.floordivsi %0, %1 : i32", "i32", uint32_t(-7), 2), uint32_t(-4));
  EXPECT_EQ(apply("arith.ceildivsi %0, %1 : i32", "i32", 7, 2), 4u);
  EXPECT_EQ(apply("arith.ceildivsi %0, %1 : i32", "i32", uint32_t(-7), 2), uint32_t(-3));
  EXPECT_EQ(apply("arith.divui %0, %1 : i32", "i32", uint32_t(-7), 2), uint32_t(-7) / 2);
  EXPECT_EQ(apply("arith.maxsi %0, %1 : i8", "i8", 0xff, 1), 1u);
  EXPECT_EQ(apply("arith.maxui %0, %1 : i8", "i8", 0xff, 1), 0xffu);
  EXPECT_EQ(apply("arith.shrsi %0, %1 : i8", "i8", 0x80, 3), 0xf0u);
  EXPECT_EQ(apply("arith.shrui %0, %1 : i8", "i8", 0x80, 3), 0x10u);
  EXPECT_EQ(apply("arith.shli %0, %1 : i8", "i8", 0x81, 8), 0u);
  EXPECT_EQ(apply("math.absi %0 : i16", "i16", 0xfffe, 0), 2u);
  EXPECT_EQ(apply("arith.extsi %0 : i8 to i32", "i8", 0x80, 0, "i32"), 0xffffff80u);
  EXPECT_EQ(apply("arith.extui %0 : i8 to i32", "i8", 0x80, 0, "i32"), 0x80u);
  for (auto [predicate, holds] : {std::pair("slt", true), {"ult", false}, {"sge", false}, {"ugt", true}, {"ne", true}})
    EXPECT_EQ(apply(std::string("arith.cmpi ") + predicate + ", %0, %1 : i32", "i32", uint32_t(-1), 1, "i1"), holds)
        << predicate;
}

TEST(InterpretOperation, FloatsRoundOnceToTheirType) {
  EXPECT_EQ(single(apply("arith.addf %0, %1 : f32", "f32", bits(1.0f), bits(0x1p-24f))), 1.0f);
  EXPECT_EQ(apply("arith.addf %0, %1 : f64", "f64", bits(1.0), bits(0x1p-24)), bits(1.0 + 0x1p-24));
  EXPECT_EQ(single(apply("arith.divf %0, %1 : f32", "f32", bits(1.0f), bits(3.0f))), 1.0f / 3.0f);
  // bf16 has 8 bits: 1 + 2^-8 lies half-way and goes to even, 1 + 3 * 2^-8 up. f16 has 11.
  EXPECT_EQ(apply("arith.addf %0, %1 : bf16", "bf16", 0x3f80, 0x3b80), 0x3f80u);
  EXPECT_EQ(apply("arith.addf %0, %1 : bf16", "bf16", 0x3f81, 0x3b80), 0x3f82u);
  EXPECT_EQ(apply("arith.addf %0, %1 : f16", "f16", 0x3c00, 0x1000), 0x3c00u);
  EXPECT_EQ(apply("arith.addf %0, %1 : f16", "f16", 0x3c01, 0x1000), 0x3c02u);
  EXPECT_EQ(apply("arith.truncf %0 : f64 to f32", "f64", bits(1.0 + 0x1p-24), 0, "f32"), bits(1.0f));
  // From f64 to bf16 over f32, as the dialect has it: 1 + 2^-8 + 2^-40 goes down.
  EXPECT_EQ(apply("arith.truncf %0 : f64 to bf16", "f64", bits(1.0 + 0x1p-8 + 0x1p-40), 0, "bf16"), 0x3f80u);
  EXPECT_EQ(single(apply("arith.extf %0 : f16 to f32", "f16", 0x0001, 0, "f32")), 0x1p-24f);
}

TEST(InterpretOperation, SpecialFloats) {
  const float nan = NAN, inf = INFINITY;
  EXPECT_TRUE(std::isnan(single(apply("arith.maximumf %0, %1 : f32", "f32", bits(nan), bits(1.0f)))));
  EXPECT_EQ(single(apply("arith.maxnumf %0, %1 : f32", "f32", bits(nan), bits(1.0f))), 1.0f);
  EXPECT_EQ(apply("arith.maximumf %0, %1 : f32", "f32", bits(-0.0f), bits(0.0f)), bits(0.0f));
  EXPECT_EQ(apply("arith.minimumf %0, %1 : f32", "f32", bits(0.0f), bits(-0.0f)), bits(-0.0f));
  EXPECT_EQ(apply("arith.negf %0 : bf16", "bf16", 0x3f80, 0), 0xbf80u);
  EXPECT_EQ(apply("math.copysign %0, %1 : f32", "f32", bits(1.0f), bits(-inf)), bits(-1.0f));
  EXPECT_EQ(apply("math.roundeven %0 : f32", "f32", bits(2.5f), 0), bits(2.0f));
  EXPECT_EQ(apply("math.round %0 : f32", "f32", bits(2.5f), 0), bits(3.0f));
  for (auto [predicate, holds] :
       {std::pair("olt", false), {"ult", true}, {"one", false}, {"une", true}, {"uno", true}, {"ord", false}})
    EXPECT_EQ(apply(std::string("arith.cmpf ") + predicate + ", %0, %1 : f32", "f32", bits(nan), bits(1.0f), "i1"),
              holds)
        << predicate;
  for (auto [predicate, holds] :
       {std::pair("olt", true), {"ogt", false}, {"ole", true}, {"one", true}, {"oeq", false}, {"uno", false}})
    EXPECT_EQ(apply(std::string("arith.cmpf ") + predicate + ", %0, %1 : f32", "f32", bits(-inf), bits(1.0f), "i1"),
              holds)
        << predicate;
  // What does not fit is the smallest integer, as the processor has it.
  EXPECT_EQ(apply("arith.fptosi %0 : f32 to i32", "f32", bits(-1.9f), 0, "i32"), uint32_t(-1));
  for (float x : {nan, inf, 0x1p31f})
    EXPECT_EQ(apply("arith.fptosi %0 : f32 to i32", "f32", bits(x), 0, "i32"), 0x80000000u);
}

TEST(InterpretOperation, FunctionsAreLibmsRounded) {
  EXPECT_EQ(single(apply("math.exp %0 : f32", "f32", bits(1.5f), 0)), float(std::exp(1.5)));
  EXPECT_EQ(apply("math.exp %0 : f64", "f64", bits(1.5), 0), bits(std::exp(1.5)));
  EXPECT_EQ(single(apply("tile.math <erfc> %0 : f32", "f32", bits(0.5f), 0)), float(std::erfc(0.5)));
  EXPECT_EQ(single(apply("math.powf %0, %1 : f32", "f32", bits(2.5f), bits(1.5f))), float(std::pow(2.5, 1.5)));
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

std::string failureOf(const std::string &text, Arguments arguments, uint64_t mostOperations = 1000000) {
  host::PooledContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
  if (!module)
    return "does not parse";
  Options options;
  options.mostOperations = mostOperations;
  try {
    runStage(*module, arguments, options);
  } catch (const Fault &fault) {
    return std::string("fault: ") + fault.what();
  } catch (const Unknown &unknown) {
    return std::string("unknown: ") + unknown.what();
  }
  return "";
}

TEST(InterpretError, AnOperationThatIsNotKnownIsNamed) {
  EXPECT_THAT(failureOf("tile.kernel @f() {\ntile.grid () in () {\n%0 = arith.constant 1 : i32\n%1 = math.ctlz %0 : "
                        "i32\n}\n}",
                        {}),
              testing::HasSubstr("does not know the operation math.ctlz"));
}

TEST(InterpretError, AccessOutsideOfTheBuffersIsToldWithTheOperation) {
  std::vector<float> x(4, 1.0f);
  std::string load = failureOf("tile.kernel @f(%x: !tile.buffer<f32>) {\n%c1 = arith.constant 1 : index\ntile.grid () "
                               "in () {\n%0 = tile.load %x[%c1] strides [1] : !tile.buffer<f32> -> tensor<4xf32>\n}\n}",
                               {{extentOf(x)}, {}});
  EXPECT_THAT(load, testing::StartsWith("fault: reads 4 bytes outside of the kernel's memory, 16 bytes after"));
  EXPECT_THAT(load, testing::HasSubstr("tile.load"));
  EXPECT_EQ(failureOf("tile.kernel @f(%x: !tile.buffer<f32>) {\n%c1 = arith.constant 1 : index\n%c3 = arith.constant 3 "
                      ": index\ntile.grid () in () {\n%0 = tile.load %x[%c1] strides [1] valid [%c3] : "
                      "!tile.buffer<f32> -> tensor<4xf32>\n}\n}",
                      {{extentOf(x)}, {}}),
            "");
}

TEST(InterpretError, DivisionsThatTrapAndLoopsWithoutEnd) {
  EXPECT_THAT(failureOf("tile.kernel @f() {\n%c0 = arith.constant 0 : i32\ntile.grid () in () {\n%0 = arith.divsi %c0, "
                        "%c0 : i32\n}\n}",
                        {}),
              testing::StartsWith("fault: divides by zero"));
  EXPECT_THAT(failureOf("tile.kernel @f() {\n%t = arith.constant true\ntile.grid () in () {\nscf.while : () -> () "
                        "{\nscf.condition(%t)\n} do {\nscf.yield\n}\n}\n}",
                        {}, 10000),
              testing::HasSubstr("end"));
}

//===----------------------------------------------------------------------===//
// Kernels after every pass of every level
//===----------------------------------------------------------------------===//

constexpr char kGelu[] = R"(
tile.kernel @f(%x: !tile.buffer<f32>, %b: !tile.buffer<bf16>, %y: !tile.buffer<f32>, %rows: index, %cols: index) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  tile.grid (%i) in (%rows) {
    %row = arith.muli %i, %cols : index
    scf.for %j = %c0 to %cols step %c16 {
      %left = arith.subi %cols, %j : index
      %o = arith.addi %row, %j : index
      %xt = tile.load %x[%o] strides [1] valid [%left] : !tile.buffer<f32> -> tensor<16xf32>
      %bt = tile.load %b[%j] strides [1] valid [%left] : !tile.buffer<bf16> -> tensor<16xbf16>
      %bw = arith.extf %bt : tensor<16xbf16> to tensor<16xf32>
      %s  = arith.addf %xt, %bw : tensor<16xf32>
      %e  = math.erf %s : tensor<16xf32>
      tile.store %e, %y[%o] strides [1] valid [%left] : tensor<16xf32>, !tile.buffer<f32>
    }
  }
})";

TEST(InterpretStages, ElementwiseKernelGivesTheSameAfterEveryPass) {
  const int64_t rows = 3, cols = 37;
  std::vector<float> x(rows * cols);
  std::vector<uint16_t> b(cols);
  std::mt19937 random(1);
  for (float &value : x)
    value = std::normal_distribution<float>()(random);
  for (uint16_t &value : b)
    value = static_cast<uint16_t>(0x3f00 + random() % 256);
  for (const char *level : kLevels) {
    Stages stages(kGelu, level);
    ASSERT_EQ(stages.all.size(), 8u);
    for (const Stage &stage : stages.all) {
      std::vector<float> y(rows * cols, NAN);
      Arguments arguments{{extentOf(x), extentOf(b), extentOf(y)}, {rows, cols}};
      // The last row alone, then the others.
      for (auto [begin, end] : {std::pair<int64_t, int64_t>(2, 3), {0, 2}}) {
        arguments.begin = begin;
        arguments.end = end;
        EXPECT_EQ(runStage(*stage.module, arguments, stages.options()).status, 0);
      }
      for (int64_t i = 0; i < rows * cols; ++i) {
        float bias = std::bit_cast<float>(uint32_t(b[i % cols]) << 16);
        float right = std::erf(double(x[i] + bias));
        ASSERT_NEAR(y[i], right, 2 * std::fabs(right) * 0x1p-23) << stage.name << " on " << level << " at " << i;
      }
    }
  }
}

TEST(InterpretStages, ReductionsWithTailsAndErrorsOfData) {
  const char *text = R"(
tile.kernel @f(%x: !tile.buffer<i32>, %idx: !tile.buffer<i64>, %y: !tile.buffer<i32>, %n: index, %bound: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  tile.grid () in () {
    %i = tile.load %idx[%c0] strides [1] valid [%n] : !tile.buffer<i64> -> tensor<16xi64>
    %j = tile.check_index %i below %bound site 2 valid [%n] : tensor<16xi64>
    %v = tile.gather %x[%c0] indices %j stride 1 valid [%n] : tensor<16xi64>, !tile.buffer<i32> -> tensor<16xi32>
    %s = tile.reduce <add> %v valid [%n] : tensor<16xi32>
    %m = tile.reduce <min> %v valid [%n] : tensor<16xi32>
    tile.store %s, %y[%c0] : i32, !tile.buffer<i32>
    tile.store %m, %y[%c1] : i32, !tile.buffer<i32>
    tile.scatter %v, %y[%c2] indices %j stride 1 valid [%n] : tensor<16xi32>, tensor<16xi64>, !tile.buffer<i32>
  }
})";
  std::vector<int32_t> x(10);
  std::iota(x.begin(), x.end(), 5);
  for (const char *level : kLevels) {
    Stages stages(text, level);
    for (const Stage &stage : stages.all) {
      std::vector<int64_t> idx(16, 99); // beyond what is valid
      idx[0] = 3, idx[1] = 9, idx[2] = 3;
      std::vector<int32_t> y(12, -1);
      Arguments arguments{{extentOf(x), extentOf(idx), extentOf(y)}, {3, 10}};
      KernelContext context{};
      EXPECT_EQ(runStage(*stage.module, arguments, stages.options(), &context).status, 0) << stage.name;
      EXPECT_EQ(y[0], 8 + 14 + 8) << stage.name << " on " << level;
      EXPECT_EQ(y[1], 8) << stage.name << " on " << level;
      EXPECT_EQ(y[2 + 3], 8);
      EXPECT_EQ(y[2 + 9], 14);
      idx[1] = 10;
      std::fill(y.begin(), y.end(), -1);
      EXPECT_EQ(runStage(*stage.module, arguments, stages.options(), &context).status, 1) << stage.name;
      EXPECT_EQ(context.errorCode, 3);
      EXPECT_EQ(context.errorIndex, 10);
      EXPECT_EQ(context.errorBound, 10);
      EXPECT_EQ(y[0], -1) << "nothing is stored after the error";
    }
  }
}

TEST(InterpretStages, AtomicAdditions) {
  const char *text = R"(
tile.kernel @f(%x: !tile.buffer<f32>, %idx: !tile.buffer<i64>, %y: !tile.buffer<f32>, %total: !tile.buffer<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  tile.grid () in () {
    %i = tile.load %idx[%c0] strides [1] valid [%n] : !tile.buffer<i64> -> tensor<8xi64>
    %v = tile.load %x[%c0] strides [1] valid [%n] : !tile.buffer<f32> -> tensor<8xf32>
    tile.scatter %v, %y[%c0] indices %i stride 1 valid [%n] {atomic} : tensor<8xf32>, tensor<8xi64>, !tile.buffer<f32>
    %s = tile.reduce <add> %v valid [%n] : tensor<8xf32>
    tile.atomic_add %s, %total[%c0] : f32, !tile.buffer<f32>
  }
})";
  std::vector<float> x = {1, 2, 4, 8, 16, 99, 99, 99};
  std::vector<int64_t> idx = {2, 0, 2, 2, 1, 99, 99, 99};
  for (const char *level : kLevels) {
    Stages stages(text, level);
    for (const Stage &stage : stages.all) {
      std::vector<float> y = {100, 200, 300}, total = {1000};
      runStage(*stage.module, {{extentOf(x), extentOf(idx), extentOf(y), extentOf(total)}, {5}}, stages.options());
      EXPECT_THAT(y, testing::ElementsAre(102, 216, 313)) << stage.name << " on " << level;
      EXPECT_EQ(total[0], 1031) << stage.name << " on " << level;
    }
  }
}

TEST(InterpretStages, TilesOfRankTwo) {
  const char *text = R"(
tile.kernel @f(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %ld: index, %m: index, %n: index) {
  %c0 = arith.constant 0 : index
  tile.grid () in () {
    %t = tile.load %x[%c0] strides [%ld, 1] valid [%m, %n] fill 2.0 : f32 : !tile.buffer<f32> -> tensor<3x8xf32>
    %two = arith.constant dense<2.0> : tensor<3x8xf32>
    %u = arith.mulf %t, %two : tensor<3x8xf32>
    tile.store %u, %y[%c0] strides [8, 1] : tensor<3x8xf32>, !tile.buffer<f32>
  }
})";
  std::vector<float> x = {1, 2, 3, -1, 5, 6, 7}; // rows of 3, distance 4
  for (const char *level : kLevels) {
    Stages stages(text, level);
    for (const Stage &stage : stages.all) {
      std::vector<float> y(24, NAN), right(24, 4);
      for (int i : {0, 1, 2, 8, 9, 10})
        right[i] = 2 * x[i % 8 + i / 8 * 4];
      runStage(*stage.module, {{extentOf(x), extentOf(y)}, {4, 2, 3}}, stages.options());
      EXPECT_EQ(y, right) << stage.name << " on " << level;
    }
  }
}

/// Packs b and multiplies: c[m, n] = a[m, k] b[k, n].
std::string productText(const host::MatrixShape &shape) {
  std::string t(nameOf(shape.operand)), p(nameOf(shape.panel)), c(nameOf(shape.accumulator));
  std::string vector = "tensor<" + std::to_string(shape.lanes) + "x" + c + ">";
  auto buffer = [](const std::string &type) { return "!tile.buffer<" + type + ">"; };
  return "tile.kernel @f(%a: " + buffer(t) + ", %b: " + buffer(t) + ", %c: " + buffer(c) +
         ", %m: index, %n: index, %k: index, %panel: index) {\n  %c0 = arith.constant 0 : index\n  %c1 = "
         "arith.constant "
         "1 : index\n  %nr = arith.constant " +
         std::to_string(shape.width) + " : index\n  tile.grid () in () {\n    %p = tile.scratch [%c0] : " + buffer(p) +
         "\n    %panels = arith.ceildivsi %n, %nr : index\n    scf.for %q = %c0 to %panels step %c1 {\n      %j = "
         "arith.muli %q, %nr : index\n      %left = arith.subi %n, %j : index\n      %count = arith.minsi %left, %nr : "
         "index\n      %poff = arith.muli %q, %panel : index\n      tile.pack %b[%j] strides [%n, 1] shape [%k, "
         "%count], %p[%poff] : " +
         buffer(t) + ", " + buffer(p) +
         "\n    }\n    tile.contract %a[%c0] strides [%k, 1], %p[%c0] shape [%m, %n, %k] : " + buffer(t) + ", " +
         buffer(p) + " {\n    ^bb0(%acc: " + vector +
         ", %i: index, %j: index, %valid: index):\n      %row = arith.muli %i, %n : index\n      %at = arith.addi "
         "%row, %j : index\n      tile.store %acc, %c[%at] strides [1] valid [%valid] : " +
         vector + ", " + buffer(c) + "\n    }\n  }\n}\n";
}

TEST(InterpretStages, MatrixProducts) {
  for (const char *level : kLevels)
    for (DType type : {DType::F32, DType::BF16, DType::I32}) {
      const host::HostTarget &target = host::HostTarget::get(level);
      host::MatrixShape shape =
          *host::MatrixShape::get(type, host::MatrixTarget{target.vectorBits / 8, target.fma, target.bf16});
      const int64_t m = 5, k = 7, n = shape.width + 3;
      const int64_t panel = (k + shape.depth - 1) / shape.depth * shape.depth * shape.width;
      // Small integers: sums are exact in every order and type.
      auto element = [&](int64_t value) -> uint32_t {
        return type == DType::I32   ? uint32_t(value)
               : type == DType::F32 ? bits(float(value))
                                    : bits(float(value)) >> 16;
      };
      std::vector<uint8_t> a(m * k * sizeOf(type)), b(k * n * sizeOf(type));
      auto fill = [&](std::vector<uint8_t> &memory, int64_t factor) {
        for (size_t i = 0; i < memory.size() / sizeOf(type); ++i) {
          uint32_t value = element(int64_t(i) * factor % 9 - 4);
          std::memcpy(&memory[i * sizeOf(type)], &value, sizeOf(type));
        }
      };
      fill(a, 5);
      fill(b, 7);
      Stages stages(productText(shape), level);
      for (const Stage &stage : stages.all) {
        std::vector<uint32_t> c(m * n, 0xffffffff);
        Arguments arguments{{extentOf(a), extentOf(b), extentOf(c)}, {m, n, k, panel}};
        arguments.scratchBytes = 2 * panel * sizeOf(shape.panel);
        runStage(*stage.module, arguments, stages.options());
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            int64_t sum = 0;
            for (int64_t p = 0; p < k; ++p)
              sum += ((i * k + p) * 5 % 9 - 4) * ((p * n + j) * 7 % 9 - 4);
            ASSERT_EQ(c[i * n + j], type == DType::I32 ? uint32_t(sum) : bits(float(sum)))
                << stage.name << " on " << level << " of " << nameOf(type) << " at " << i << ", " << j;
          }
      }
    }
}

//===----------------------------------------------------------------------===//
// Freedom and faults
//===----------------------------------------------------------------------===//

TEST(InterpretFreedom, FunctionsMoveByTwoUnitsAtMostAndOnlyWhereAllowed) {
  std::vector<float> x(64), first(64), second(64);
  std::vector<uint16_t> b(64, 0);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = 0.03f * float(i + 1);
  Stages stages(kGelu);
  auto run = [&](std::vector<float> &y, const Freedom &freedom) {
    Options options = stages.options();
    options.freedom = freedom;
    runStage(*stages.all[0].module, {{extentOf(x), extentOf(b), extentOf(y)}, {1, 64}}, options);
  };
  run(first, {});
  Freedom functions;
  functions.functions = true;
  functions.seed = 3;
  run(second, functions);
  int moved = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(std::abs(int32_t(bits(first[i])) - int32_t(bits(second[i]))), 2);
    moved += first[i] != second[i];
  }
  EXPECT_GT(moved, 20);
  Freedom sums;
  sums.sums = true; // there are none
  run(second, sums);
  EXPECT_EQ(first, second);
}

TEST(InterpretPerturb, ChangesOneConstantOrComparison) {
  Stages stages(kGelu);
  auto text = [](mlir::ModuleOp module) {
    std::string result;
    llvm::raw_string_ostream(result) << module;
    return result;
  };
  for (Stage &stage : stages.all) {
    std::string before = text(*stage.module);
    EXPECT_TRUE(perturb(*stage.module, 1)) << stage.name;
    EXPECT_NE(text(*stage.module), before) << stage.name;
    EXPECT_FALSE(perturb(*stage.module, 100000));
  }
}

} // namespace
