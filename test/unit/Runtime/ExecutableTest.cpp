#include "tilewright/Runtime/Executable.h"
#include "tilewright/Runtime/Allocator.h"
#include "tilewright/Runtime/Cpu.h"
#include "tilewright/Runtime/Device.h"
#include "tilewright/Runtime/Errors.h"
#include "tilewright/Runtime/ExternalCall.h"
#include "tilewright/Runtime/PackedWeights.h"
#include "tilewright/Runtime/ThreadPool.h"
#include "tilewright/Support/Switches.h"

#include "CompileC.h"

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

SizeExpr e(const char *text) { return SizeExpr::parse(text); }

/// Kernels for all tests: one object, compiled once.
const std::vector<uint8_t> &kernels() {
  static const std::vector<uint8_t> object = compileC(R"(
KERNEL(add) { // c = a + b
  const float *a = buffers[0], *b = buffers[1]; float *c = buffers[2];
  for (int64_t i = begin; i < end; ++i) c[i] = a[i] + b[i];
  return 0;
}
KERNEL(scale) { // y = x * f, f a run-time double
  const float *x = buffers[0]; const double *f = buffers[1]; float *y = buffers[2];
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] * (float)*f;
  return 0;
}
KERNEL(plus) { // y = x + integer argument and integer scalar
  const float *x = buffers[0]; const int64_t *n = buffers[1]; float *y = buffers[2];
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + ints[0] + *n;
  return 0;
}
KERNEL(gather) { // y[i] = x[index[i]], checked
  const float *x = buffers[0]; const int64_t *index = buffers[1]; float *y = buffers[2];
  int64_t status = 0;
  for (int64_t i = begin; i < end; ++i) {
    int64_t at = index[i];
    if (at < 0 || at >= ints[0]) {
      if (!context->errorCode) { context->errorCode = 1; context->errorIndex = at; context->errorBound = ints[0]; }
      status = 1; at = 0;
    }
    y[i] = x[at];
  }
  return status;
}
KERNEL(reverse) { // through scratch: y = x reversed, in blocks of ints[0]
  const float *x = buffers[0]; float *y = buffers[1], *s = context->scratch;
  if ((uintptr_t)s % 64) return 1;
  for (int64_t g = begin; g < end; ++g) {
    for (int64_t i = 0; i < ints[0]; ++i) s[i] = x[g * ints[0] + i];
    for (int64_t i = 0; i < ints[0]; ++i) y[g * ints[0] + i] = s[ints[0] - 1 - i];
  }
  return 0;
}
KERNEL(count) { // adds the number of its grid points to a counter
  __atomic_fetch_add((int64_t *)buffers[0], end - begin, __ATOMIC_RELAXED);
  return 0;
}
KERNEL(fill) { // ints[0] elements, whatever the grid
  for (int64_t i = 0; i < ints[0]; ++i) ((float *)buffers[0])[i] = 1;
  return 0;
}
KERNEL(slow) { // takes ints[0] rounds a point
  for (int64_t g = begin; g < end; ++g)
    for (volatile int64_t i = 0; i < ints[0]; ++i) {}
  return 0;
}
)");
  return object;
}

/// A program in the making.
struct Builder {
  Program p;
  Builder(const char *name, uint32_t symbols = 0) {
    p.name = name;
    p.target = "x86-64";
    p.symbolCount = symbols;
    p.symbols.resize(symbols);
  }
  uint32_t input(const char *name, std::vector<SizeExpr> sizes, std::vector<SizeExpr> strides,
                 DType dtype = DType::F32) {
    p.inputs.push_back({InputSpec::Tensor, dtype, sizes, strides, false, name});
    p.buffers.push_back({BufferSpec::Input, uint32_t(p.inputs.size() - 1), 0});
    return p.buffers.size() - 1;
  }
  uint32_t scalar(InputSpec::Kind kind, const char *name) {
    p.inputs.push_back({kind, kind == InputSpec::ScalarInt ? DType::I64 : DType::F64, {}, {}, false, name});
    p.buffers.push_back({BufferSpec::Input, uint32_t(p.inputs.size() - 1), 8});
    return p.buffers.size() - 1;
  }
  uint32_t output(SizeExpr n, DType dtype = DType::F32) {
    p.outputs.push_back({OutputSpec::Fresh, dtype, {n}, {1}, 0, 0});
    p.buffers.push_back({BufferSpec::Output, uint32_t(p.outputs.size() - 1), n * int64_t(sizeOf(dtype))});
    return p.buffers.size() - 1;
  }
  uint32_t temp(SizeExpr bytes, uint32_t first, uint32_t last) {
    p.buffers.push_back({BufferSpec::Temp, 0, bytes, first, last});
    return p.buffers.size() - 1;
  }
  uint32_t attached(uint32_t input, SizeExpr bytes) {
    p.buffers.push_back({BufferSpec::Attached, 0, bytes, 0, 0, input});
    return p.buffers.size() - 1;
  }
  KernelStep &step(const char *symbol, std::vector<uint32_t> buffers, SizeExpr grid, std::vector<SizeExpr> ints = {}) {
    uint32_t kernel = 0;
    while (kernel < p.kernels.size() && p.kernels[kernel].symbol != symbol)
      ++kernel;
    if (kernel == p.kernels.size())
      p.kernels.push_back({std::string(symbol) + "_kernel", symbol, 1, kernels()});
    KernelStep s;
    s.kernel = kernel;
    s.offsets.assign(buffers.size(), 0);
    s.buffers = std::move(buffers);
    s.ints = std::move(ints);
    s.grid = grid;
    s.source = "model.py:7";
    return std::get<KernelStep>(p.steps.emplace_back(std::move(s)));
  }
  std::shared_ptr<Executable> load() {
    // What is serialised is what runs.
    return Executable::load(Program::deserialize(p.serialize()));
  }
};

/// Argument over a vector, which owns sizes and strides.
struct Tensor {
  std::vector<int64_t> sizes, strides;
  std::vector<float> data;
  uint64_t epoch = 0;
  explicit Tensor(int64_t n, float first = 0) : sizes{n}, strides{1}, data(n) {
    std::iota(data.begin(), data.end(), first);
  }
  Argument argument() {
    Argument a;
    a.data = data.data();
    a.sizes = sizes;
    a.strides = strides;
    a.epoch = epoch;
    return a;
  }
};

Argument scalarInt(int64_t value) {
  Argument a;
  a.scalarInt = value;
  return a;
}
Argument scalarFloat(double value) {
  Argument a;
  a.scalarFloat = value;
  return a;
}

void call(Executable &x, std::vector<Argument> arguments, std::vector<void *> outputs, Stream *stream = nullptr) {
  std::vector<OutputMemory> memory;
  for (void *p : outputs)
    memory.push_back({p});
  x.run(x.bind(arguments), arguments, memory, stream);
}

std::string bindError(Executable &x, std::vector<Argument> arguments) {
  try {
    x.bind(arguments);
  } catch (const std::invalid_argument &error) {
    return error.what();
  }
  return "";
}

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

class OnStreamOrHere : public testing::TestWithParam<bool> {
protected:
  Stream *stream() { return GetParam() ? &Device::instance().defaultStream() : nullptr; }
  void finish() {
    if (GetParam())
      Device::instance().defaultStream().synchronize();
  }
};
INSTANTIATE_TEST_SUITE_P(Executable, OnStreamOrHere, testing::Values(false, true),
                         [](const auto &info) { return info.param ? "OnStream" : "Here"; });

} // namespace

TEST_P(OnStreamOrHere, RunsStepsThroughTemporariesForManySizes) {
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

TEST_P(OnStreamOrHere, ScalarsAreReadAtRunTime) {
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

TEST_P(OnStreamOrHere, ErrorsOfDataNameTheFirstIndex) {
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

TEST_P(OnStreamOrHere, ScratchBelongsToOneThread) {
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

TEST_P(OnStreamOrHere, ExternalStepsRunOnTheCallingThreadInOrder) {
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

//===----------------------------------------------------------------------===//
// Packed weights
//===----------------------------------------------------------------------===//

namespace {
/// y = x + packed(w), where packing is w + w.
Builder withPackedWeight() {
  Builder b("packed", 1);
  b.p.symbols = {{SymbolBinding::InputSize, 0, 0}};
  uint32_t x = b.input("x", {e("s0")}, {1}), w = b.input("w", {e("s0")}, {1}), out = b.output(e("s0"));
  uint32_t packed = b.attached(1, e("s0*4"));
  b.step("add", {w, w, packed}, e("s0")).attachedBuffer = packed;
  b.step("add", {x, packed, out}, e("s0"));
  return b;
}
} // namespace

TEST_P(OnStreamOrHere, PackedWeightsAreKeptWhileTheEpochStands) {
  releasePackedWeights(true);
  auto exe = withPackedWeight().load();
  Tensor x(100), seen(100);
  // On the device the weight's block is asked whether it is still alive.
  Block *block = GetParam() ? Device::instance().allocator().allocate(400, *stream()) : nullptr;
  std::vector<float> host(100);
  auto *w = block ? static_cast<float *>(block->data) : host.data();
  std::vector<int64_t> sizes{100}, strides{1};
  std::vector<float> out(100);
  auto step = [&](float value, uint64_t epoch) {
    std::fill(w, w + 100, value);
    Argument weight{w, sizes, strides, DType::F32};
    weight.epoch = epoch;
    call(*exe, {x.argument(), weight}, {out.data()}, stream());
    finish();
    return out[0];
  };
  auto epoch = [&](uint64_t n) -> uint64_t {
    if (!block)
      return n;
    block->touch();
    return block->epoch;
  };
  uint64_t hits = packedWeightStats().hits;
  uint64_t first = epoch(1);
  EXPECT_EQ(step(1, first), 2);
  EXPECT_EQ(packedWeightStats().count, 0u) << "seen once: it may be an activation";
  EXPECT_EQ(step(1, first), 2);
  EXPECT_EQ(packedWeightStats().count, 1u);
  EXPECT_EQ(packedWeightStats().bytes, 400u);
  EXPECT_EQ(step(1, first), 2);
  EXPECT_EQ(packedWeightStats().hits, hits + 1);
  EXPECT_EQ(step(9, first), 2) << "written without a new epoch: the kept copy is what is used";
  EXPECT_EQ(packedWeightStats().hits, hits + 2);
  uint64_t second = epoch(2);
  EXPECT_EQ(step(3, second), 6) << "a new epoch";
  EXPECT_EQ(step(4, 0), 8) << "unknown: packed in the call";
  EXPECT_EQ(step(3, second), 6);
  EXPECT_EQ(step(3, second), 6);
  EXPECT_EQ(packedWeightStats().count, 1u);

  // A second program that packs alike shares the copy.
  auto other = withPackedWeight().load();
  hits = packedWeightStats().hits;
  Argument weight{w, sizes, strides, DType::F32};
  weight.epoch = second;
  call(*other, {x.argument(), weight}, {out.data()}, stream());
  finish();
  EXPECT_EQ(packedWeightStats().hits, hits + 1);

  if (block) {
    Device::instance().allocator().free(block);
    releasePackedWeights();
    EXPECT_EQ(packedWeightStats().count, 0u) << "its weight is gone";
  } else {
    std::vector<uint64_t> epochs{second};
    releasePackedWeights(epochs);
    EXPECT_EQ(packedWeightStats().count, 0u);
  }
}

TEST(Executable, PackedWeightsGoWithTheLastProgram) {
  releasePackedWeights(true);
  Tensor x(10), w(10);
  w.epoch = 5;
  std::vector<float> out(10);
  auto a = withPackedWeight().load(), b = withPackedWeight().load();
  for (auto &exe : {a, b, a})
    call(*exe, {x.argument(), w.argument()}, {out.data()});
  EXPECT_EQ(packedWeightStats().count, 1u);
  b.reset();
  EXPECT_EQ(packedWeightStats().count, 1u);
  a.reset();
  EXPECT_EQ(packedWeightStats().count, 0u);
}

TEST(Executable, PackedWeightsAreSharedAcrossStreams) {
  releasePackedWeights(true);
  auto exe = withPackedWeight().load();
  Stream &s1 = Device::instance().createStream(), &s2 = Device::instance().createStream();
  Block *w = Device::instance().allocator().allocate(400000, s1);
  w->touch();
  std::fill_n(static_cast<float *>(w->data), 100000, 1.5f);
  Tensor x(100000);
  std::vector<int64_t> sizes{100000}, strides{1};
  Argument weight{w->data, sizes, strides, DType::F32};
  weight.epoch = w->epoch;
  std::vector<std::vector<float>> outs(20, std::vector<float>(100000));
  for (size_t i = 0; i < outs.size(); ++i)
    call(*exe, {x.argument(), weight}, {outs[i].data()}, i % 2 ? &s1 : &s2);
  s1.synchronize();
  s2.synchronize();
  EXPECT_EQ(packedWeightStats().count, 1u);
  for (auto &out : outs)
    for (int i = 0; i < 100000; i += 777)
      ASSERT_EQ(out[i], i + 3.0f);
  Device::instance().allocator().free(w);
  releasePackedWeights(true);
}
