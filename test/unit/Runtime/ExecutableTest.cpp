#include "tilewright/Runtime/Executable.h"
#include "tilewright/Runtime/Allocator.h"
#include "tilewright/Runtime/Cpu.h"
#include "tilewright/Runtime/Device.h"
#include "tilewright/Runtime/Errors.h"
#include "tilewright/Runtime/ExternalCall.h"
#include "tilewright/Runtime/PackedWeights.h"
#include "tilewright/Runtime/ThreadPool.h"
#include "tilewright/Support/Switches.h"

#include "TestPrograms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <mutex>
#include <numeric>
#include <thread>

using namespace tilewright;
using namespace tilewright::test;
using testing::HasSubstr;

namespace {

/// y = (a + b) + a, through a temporary.
Builder twoAdds() {
  Builder b("two_adds", 1);
  b.p.symbols[0] = {SymbolBinding::InputSize, 0, 0};
  uint32_t x = b.input("a", {e("s0")}, {1}), y = b.input("b", {e("s0")}, {1}), out = b.output(e("s0"));
  uint32_t t = b.temp(e("s0*4"), 0, 1);
  b.step("add", {x, y, t}, e("s0")).grain = 64;
  b.step("add", {t, x, out}, e("s0")).grain = 64;
  return b;
}

using ExecutableRuns = OnStreamOrHere;
INSTANTIATE_TEST_SUITE_P(Both, ExecutableRuns, testing::Values(false, true),
                         [](const auto &info) { return info.param ? "OnStream" : "Here"; });

} // namespace

TEST_P(ExecutableRuns, RunsStepsThroughTemporariesForManySizes) {
  auto x = twoAdds().load();
  for (int64_t n : {0, 1, 63, 64, 65, 1000, 100000, 7, 1000}) {
    Tensor a(n, 1), b(n, 5);
    std::vector<float> out(n, -1);
    call(*x, {a.argument(), b.argument()}, {out.data()}, stream());
    finish();
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(out[i], 2 * (i + 1) + i + 5) << n;
  }
}

TEST_P(ExecutableRuns, ScalarsAreReadAtRunTime) {
  Builder b("scalars", 2);
  uint32_t x = b.input("x", {e("s0")}, {1}), f = b.scalar(InputSpec::ScalarFloat, "lr"),
           n = b.scalar(InputSpec::ScalarInt, "n"), m = b.scalar(InputSpec::ScalarInt, "m");
  (void)m;
  b.p.symbols = {{SymbolBinding::InputSize, 0, 0}, {SymbolBinding::ScalarInput, 3, 0}};
  uint32_t out = b.output(e("s0")), t = b.temp(e("s0*4"), 0, 1);
  b.step("scale", {x, f, t}, e("s0"));
  b.step("plus", {t, n, out}, e("s0"), {e("s1*100")});
  auto exe = b.load();
  Tensor t5(5);
  for (int64_t k = 0; k < 3; ++k) {
    std::vector<float> out5(5);
    call(*exe, {t5.argument(), scalarFloat(0.5 + k), scalarInt(-k), scalarInt(k + 2)}, {out5.data()}, stream());
    finish();
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(out5[i], float(i * (0.5 + k)) + (k + 2) * 100 - k);
  }
  EXPECT_THAT(bindError(*exe, {t5.argument(), scalarFloat(1), scalarInt(1), scalarInt(-1)}), HasSubstr("(m)"));
}

TEST_P(ExecutableRuns, ErrorsOfDataNameTheFirstIndex) {
  Builder b("gather", 2);
  b.p.symbols = {{SymbolBinding::InputSize, 0, 0}, {SymbolBinding::InputSize, 1, 0}};
  uint32_t x = b.input("table", {e("s0")}, {1}), index = b.input("index", {e("s1")}, {1}, DType::I64),
           out = b.output(e("s1")), done = b.output(1, DType::I64);
  KernelStep &step = b.step("gather", {x, index, out}, e("s1"), {e("s0")});
  step.grain = 8;
  step.errorSites = {{"aten.index_select.default", "model.py:12", "index {index} is out of range for size {bound}"}};
  b.step("count", {done}, 1);
  auto exe = b.load();
  Tensor table(10);
  std::vector<int64_t> indices(4000), sizes{4000}, strides{1};
  for (size_t i = 0; i < indices.size(); ++i)
    indices[i] = i % 10;
  Argument a{indices.data(), sizes, strides, DType::I64};
  std::vector<float> out4000(4000);
  int64_t counter = 0;
  call(*exe, {table.argument(), a}, {out4000.data(), &counter}, stream());
  finish();
  EXPECT_EQ(out4000[3999], 9);
  EXPECT_EQ(counter, 1);

  indices[3000] = 77;
  indices[1001] = -3;
  for (int round = 0; round < 5; ++round) {
    try {
      call(*exe, {table.argument(), a}, {out4000.data(), &counter}, stream());
      finish();
      FAIL() << "no error";
    } catch (const DataError &error) {
      EXPECT_EQ(error.index, -3);
      EXPECT_EQ(error.bound, 10);
      EXPECT_EQ(error.op, "aten.index_select.default");
      EXPECT_EQ(error.source, "model.py:12");
      EXPECT_STREQ(error.what(), "aten.index_select.default: index -3 is out of range for size 10 (model.py:12)");
    }
    EXPECT_EQ(counter, 1) << "the rest of the call is skipped";
  }
  indices[3000] = indices[1001] = 4; // the device stays usable
  call(*exe, {table.argument(), a}, {out4000.data(), &counter}, stream());
  finish();
  EXPECT_EQ(out4000[3000], 4);
  EXPECT_EQ(counter, 2);
}

TEST_P(ExecutableRuns, ScratchBelongsToOneThread) {
  Builder b("reverse", 1);
  b.p.symbols = {{SymbolBinding::InputSize, 0, 0}};
  uint32_t x = b.input("x", {e("s0")}, {1}), out = b.output(e("s0"));
  KernelStep &step = b.step("reverse", {x, out}, e("s0//50"), {50});
  step.scratchBytes = 200;
  auto exe = b.load();
  Tensor t(50 * 999);
  std::vector<float> y(t.data.size());
  call(*exe, {t.argument()}, {y.data()}, stream());
  finish();
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_EQ(y[i], t.data[i / 50 * 50 + 49 - i % 50]);
}

static std::atomic<int> externalCalls;
static std::thread::id externalThread;

static void doubleIt(const ExternalArguments &arguments) {
  ++externalCalls;
  externalThread = std::this_thread::get_id();
  ASSERT_EQ(arguments.payload, "twice");
  ASSERT_EQ(arguments.ints[0], arguments.inputs[0].sizes[0]);
  auto *x = static_cast<float *>(arguments.inputs[0].data), *y = static_cast<float *>(arguments.outputs[0].data);
  for (int64_t i = 0; i < arguments.inputs[0].sizes[0]; ++i)
    if (x[i] < 0)
      throw std::runtime_error("negative");
    else
      y[i] = 2 * x[i];
}

/// y = twice(a + a) + a
static Builder island() {
  registerExternalFunction("test.twice", doubleIt);
  Builder b("island", 1);
  b.p.symbols = {{SymbolBinding::InputSize, 0, 0}};
  uint32_t x = b.input("x", {e("s0")}, {1}), out = b.output(e("s0"));
  uint32_t t = b.temp(e("s0*4"), 0, 1), u = b.temp(e("s0*4"), 1, 2);
  b.step("add", {x, x, t}, e("s0"));
  ExternalStep step;
  step.function = "test.twice";
  step.payload = "twice";
  step.inputs = {{t, 0, DType::F32, {e("s0")}, {1}}};
  step.outputs = {{u, 0, DType::F32, {e("s0")}, {1}}};
  step.ints = {e("s0")};
  step.op = "aten.twice";
  b.p.steps.push_back(step);
  b.step("add", {u, x, out}, e("s0"));
  return b;
}

TEST_P(ExecutableRuns, ExternalStepsRunOnTheCallingThreadInOrder) {
  auto exe = island().load();
  Tensor t(1000, 0);
  std::vector<float> y(1000);
  int before = externalCalls;
  call(*exe, {t.argument()}, {y.data()}, stream());
  EXPECT_EQ(externalCalls, before + 1) << "it has run when the call returns";
  EXPECT_EQ(externalThread, std::this_thread::get_id());
  finish();
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(y[i], 5 * i);
  t.data[5] = -1;
  EXPECT_THROW(call(*exe, {t.argument()}, {y.data()}, stream()), std::runtime_error);
  finish();
}

TEST(Executable, UnknownExternalFunctionsAreRefusedAtLoad) {
  Builder b = island();
  std::get<ExternalStep>(b.p.steps[1]).function = "torch.nobody";
  try {
    b.load();
    FAIL();
  } catch (const std::runtime_error &error) {
    EXPECT_THAT(error.what(), HasSubstr("torch.nobody for aten.twice"));
  }
  EXPECT_THROW(registerExternalFunction("test.twice", [](const ExternalArguments &) {}), std::logic_error);
  EXPECT_NO_THROW(registerExternalFunction("test.twice", doubleIt));
}

TEST(Executable, WrongArgumentsAreNamed) {
  Builder b("shapes", 2);
  b.p.symbols = {{SymbolBinding::InputSize, 0, 0}, {SymbolBinding::InputSize, 0, 1}};
  b.input("x", {e("s0"), e("s1")}, {e("s1"), 1});
  b.input("w", {e("s1"), 3}, {3, 1});
  b.p.checks = {{SizeCheck::LessEqual, e("s0"), 100, "batch {lhs} is above {rhs}"}};
  b.output(e("s0 - 2"));
  auto exe = b.load();
  std::vector<float> data(10000);
  auto tensor = [&](std::vector<int64_t> &sizes, std::vector<int64_t> &strides) {
    return Argument{data.data(), sizes, strides, DType::F32};
  };
  std::vector<int64_t> xs{4, 5}, xt{5, 1}, ws{5, 3}, wt{3, 1};
  EXPECT_EQ(bindError(*exe, {tensor(xs, xt), tensor(ws, wt)}), "");
  EXPECT_THAT(bindError(*exe, {tensor(xs, xt)}), HasSubstr("shapes: 1 arguments came, 2 are wanted"));
  ws[0] = 6;
  EXPECT_THAT(bindError(*exe, {tensor(xs, xt), tensor(ws, wt)}),
              HasSubstr("argument 1 (w) has the size 6 in dimension 0; wanted is 5 (s1 with s1 = 5)"));
  ws = {5, 4};
  EXPECT_THAT(bindError(*exe, {tensor(xs, xt), tensor(ws, wt)}), HasSubstr("size 4 in dimension 1; wanted is 3"));
  ws = {5, 3};
  xt[0] = 7;
  EXPECT_THAT(bindError(*exe, {tensor(xs, xt), tensor(ws, wt)}), HasSubstr("stride 7 in dimension 0; wanted is 5"));
  xt[0] = 5;
  Argument other = tensor(ws, wt);
  other.dtype = DType::BF16;
  EXPECT_THAT(bindError(*exe, {tensor(xs, xt), other}), HasSubstr("(w) has the dtype bf16; wanted is f32"));
  ws = {5};
  EXPECT_THAT(bindError(*exe, {tensor(xs, xt), tensor(ws, wt)}), HasSubstr("1 dimensions"));
  ws = {5, 3};
  xs[0] = 101;
  EXPECT_THAT(bindError(*exe, {tensor(xs, xt), tensor(ws, wt)}), HasSubstr("batch 101 is above 100"));
  xs[0] = 1;
  EXPECT_THAT(bindError(*exe, {tensor(xs, xt), tensor(ws, wt)}), HasSubstr("result 0 would have the size -1"));

  // Strides do not matter where nothing is stepped over.
  xs = {3, 0}, xt = {17, 9}, ws = {0, 3}, wt = {9, 9};
  EXPECT_EQ(bindError(*exe, {tensor(xs, xt), tensor(ws, wt)}), "");
  xs = {2, 1}, xt = {1, 77}, ws = {1, 3}, wt = {99, 1};
  EXPECT_EQ(bindError(*exe, {tensor(xs, xt), tensor(ws, wt)}), "");
}

TEST(Executable, BindIsCachedPerSizes) {
  auto exe = twoAdds().load();
  Tensor a(5), b(5), c(6), d(6);
  auto first = exe->bind(std::vector{a.argument(), b.argument()});
  auto second = exe->bind(std::vector{c.argument(), d.argument()});
  EXPECT_EQ(exe->bind(std::vector{a.argument(), b.argument()}), first);
  EXPECT_EQ(exe->bind(std::vector{c.argument(), d.argument()}), second);
  EXPECT_NE(first, second);
  EXPECT_EQ(second->outputSizes[0], std::vector<int64_t>{6});
  EXPECT_GE(second->arenaBytes, 24u);
  EXPECT_EQ(second->temporaryBytes, 24u);
  auto other = twoAdds().load();
  EXPECT_THROW(
      other->run(first, std::vector{a.argument(), b.argument()}, std::vector<OutputMemory>{{c.data.data()}}, nullptr),
      std::invalid_argument);
  EXPECT_THROW(exe->run(first, std::vector{a.argument()}, {}, nullptr), std::invalid_argument);
  EXPECT_THROW(exe->run(first, std::vector{a.argument(), b.argument()}, std::vector<OutputMemory>{{nullptr}}, nullptr),
               std::invalid_argument);
}

TEST(Executable, EmptyLoopsDoNotEvaluateTheirIntegers) {
  Builder b("empty", 2);
  b.p.symbols = {{SymbolBinding::InputSize, 0, 0}, {SymbolBinding::InputSize, 0, 1}};
  uint32_t x = b.input("x", {e("s0"), e("s1")}, {e("s1"), 1}), out = b.output(e("s0*s1"));
  b.step("slow", {x, out}, e("s0*s1"), {e("(s0 + 5)//s1")});
  auto exe = b.load();
  std::vector<int64_t> sizes{3, 0}, strides{1, 1};
  float nothing;
  EXPECT_NO_THROW(call(*exe, {Argument{&nothing, sizes, strides, DType::F32}}, {nullptr}));
}

TEST(Executable, TargetAboveThisCpuIsRefused) {
  Builder b = twoAdds();
  b.p.target = "avx9000";
  EXPECT_THROW(b.load(), std::runtime_error);
  if (processCpuLevel() < CpuLevel::Avx512Bf16) {
    b.p.target = "avx512bf16";
    EXPECT_THROW(b.load(), std::runtime_error);
  }
  b.p.target = std::string(cpuLevel());
  EXPECT_NO_THROW(b.load());
}

TEST(Executable, TheObserverSeesEachKernel) {
  auto exe = twoAdds().load();
  std::mutex mutex;
  std::vector<std::string> seen;
  setKernelObserver([&](const KernelRecord &r) {
    std::lock_guard lock(mutex);
    EXPECT_GE(r.seconds, 0);
    seen.push_back(std::string(r.name) + " " + r.source);
  });
  Tensor a(100), b(100);
  std::vector<float> out(100);
  call(*exe, {a.argument(), b.argument()}, {out.data()});
  setKernelObserver({});
  call(*exe, {a.argument(), b.argument()}, {out.data()});
  EXPECT_EQ(seen, (std::vector<std::string>{"add_kernel model.py:7", "add_kernel model.py:7"}));
}

TEST(Executable, CallersRunAheadOfTheDevice) {
  Builder b("slow", 1);
  b.p.symbols = {{SymbolBinding::InputSize, 0, 0}};
  uint32_t x = b.input("x", {e("s0")}, {1}), counter = b.input("counter", {1}, {1}, DType::I64);
  KernelStep &slow = b.step("slow", {x}, 1, {20000000});
  slow.bytesMoved = int64_t(1) << 40; // not tiny: must not run inline
  b.step("count", {counter}, 1);
  auto exe = b.load();
  Tensor t(4);
  int64_t count = 0;
  std::vector<int64_t> one{1};
  Stream &stream = Device::instance().createStream();
  call(*exe, {t.argument(), Argument{&count, one, one, DType::I64}}, {}, &stream);
  EXPECT_FALSE(stream.query()) << "20 million rounds were over before the call returned";
  stream.synchronize();
  EXPECT_EQ(count, 1);
}

TEST(Executable, OneExecutableFromManyThreadsAndStreams) {
  auto exe = twoAdds().load();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Stream *stream = t % 2 ? &Device::instance().createStream() : nullptr;
      for (int round = 0; round < 50; ++round) {
        int64_t n = 1 + (round * 37 + t * 11) % 700;
        Tensor a(n, t), b(n, round);
        std::vector<float> out(n);
        call(*exe, {a.argument(), b.argument()}, {out.data()}, stream);
        if (stream)
          stream->synchronize();
        for (int64_t i = 0; i < n; ++i)
          ASSERT_EQ(out[i], 2 * (i + t) + i + round);
      }
    });
  for (auto &thread : threads)
    thread.join();
}

TEST(ExecutableDeathTest, AnOverrunOfATemporaryFaultsUnderTheGuardAllocator) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto die = [] {
    signal(SIGSEGV, SIG_DFL); // sanitizers have handlers of their own
    setSwitch("TILEWRIGHT_ALLOC", "guard");
    Builder b("overrun");
    uint32_t t = b.temp(256, 0, 0);
    b.temp(4096, 0, 0); // in an arena, this would be hit
    b.step("fill", {t}, 1, {65});
    auto exe = b.load();
    call(*exe, {}, {});
  };
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGSEGV),
              "SIGSEGV.*in compiled code fill_kernel.*\n.*kernel fill_kernel of program overrun, source: model.py:7");
}
