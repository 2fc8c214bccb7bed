#include "tilewright/Runtime/ObjectLoader.h"
#include "tilewright/Support/Switches.h"

#include "CompileC.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <elf.h>
#include <random>
#include <sys/wait.h>
#include <thread>

using namespace tilewright;
using namespace tilewright::test;
using testing::HasSubstr;

namespace {

std::string refusalOf(std::span<const uint8_t> object) {
  try {
    loadObject(object, "probe");
  } catch (const std::runtime_error &e) {
    return e.what();
  }
  return "";
}

int64_t call(const LoadedObject &object, const char *name, std::vector<void *> buffers, std::vector<int64_t> ints = {},
             int64_t begin = 0, int64_t end = 1) {
  KernelContext context{};
  return object.function(name)(buffers.data(), ints.data(), begin, end, &context);
}

/// Protection of the mapping that holds an address, as in "r-xp".
std::string protectionOf(const void *address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char flags[8] = {};
    std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, flags);
    if (reinterpret_cast<uintptr_t>(address) >= begin && reinterpret_cast<uintptr_t>(address) < end)
      return flags;
  }
  return "unmapped";
}

} // namespace

TEST(ObjectLoader, RunsCodeWithConstantsTablesAndCalls) {
  auto object = loadObject(compileC(R"(
static const float table[4] = {1, 10, 100, 1000};
const char *const names[3] = {"a", "bb", "ccc"};   // .data.rel.ro: absolute addresses
extern double pow(double, double);
extern float lgammaf(float);
extern void *memset(void *, int, size_t);
__attribute__((noinline)) float scale(float x, int64_t i) { return x * table[i & 3]; }
int64_t jump(int64_t i) {
  switch (i) { case 0: return 7; case 1: return 9; case 2: return -4; case 3: return 11; case 4: return 5; case 5: return 88; }
  return 0;
}
KERNEL(run) {
  float *x = buffers[0]; double *y = buffers[1]; int64_t *z = buffers[2];
  for (int64_t i = begin; i < end; ++i) {
    x[i] = scale(x[i], i);
    y[i] = pow(y[i], 3.5) + lgammaf(x[i]);
    z[i] = jump(i) + names[i % 3][0];
  }
  memset(buffers[3], 1, ints[0]);
  return 0;
}
KERNEL(other) { return 42; }
)"),
                           "sum");
  std::vector<float> x{2, 3, 4, 5, 6, 7};
  std::vector<double> y{1.5, 2.5, 3.5, 4.5, 5.5, 6.5};
  std::vector<int64_t> z(6);
  std::vector<uint8_t> w(8, 0);
  EXPECT_EQ(call(*object, "run", {x.data(), y.data(), z.data(), w.data()}, {5}, 0, 6), 0);
  const float scales[] = {1, 10, 100, 1000};
  const int64_t jumps[] = {7, 9, -4, 11, 5, 88};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(x[i], (i + 2) * scales[i % 4]);
    EXPECT_EQ(y[i], std::pow(i + 1.5, 3.5) + std::lgammaf(x[i]));
    EXPECT_EQ(z[i], jumps[i] + "abc"[i % 3]);
  }
  EXPECT_EQ(w, (std::vector<uint8_t>{1, 1, 1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(call(*object, "other", {}), 42);
  EXPECT_THROW(object->function("absent"), std::runtime_error);
}

TEST(ObjectLoader, MemoryIsNeverWritableAndExecutable) {
  auto object = loadObject(compileC(R"(
const double values[2] = {1, 2};
KERNEL(address) { *(const double **)buffers[0] = values; return 0; }
)"),
                           "protection");
  const double *values = nullptr;
  call(*object, "address", {&values});
  EXPECT_EQ(values[1], 2);
  EXPECT_EQ(protectionOf(object->code().data()), "r-xp");
  EXPECT_EQ(protectionOf(values), "r--p");
}

TEST(ObjectLoader, EqualObjectsAreLoadedOnce) {
  auto bytes = compileC("KERNEL(f) { return 1; }"), others = compileC("KERNEL(f) { return 2; }");
  auto a = loadObject(bytes, "a"), b = loadObject(std::vector<uint8_t>(bytes), "b"), c = loadObject(others, "c");
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  const void *code = a->code().data();
  b.reset();
  EXPECT_EQ(protectionOf(code), "r-xp");
  a.reset();
  EXPECT_NE(protectionOf(code), "r-xp") << "unmapped with its last owner";
  EXPECT_EQ(call(*loadObject(bytes, "again"), "f", {}), 1);
}

TEST(ObjectLoader, LoadsFromManyThreads) {
  std::vector<std::vector<uint8_t>> objects;
  for (int i = 0; i < 4; ++i)
    objects.push_back(compileC("KERNEL(f) { return " + std::to_string(i) + "; }"));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 200; ++round) {
        int i = (round + t) % 4;
        EXPECT_EQ(call(*loadObject(objects[i], "n"), "f", {}), i);
      }
    });
  for (auto &thread : threads)
    thread.join();
}

TEST(ObjectLoader, SymbolsOutsideTheTableAreRefusedByName) {
  EXPECT_THAT(refusalOf(compileC("extern int system(const char *); KERNEL(f) { return system(\"true\"); }")),
              HasSubstr("symbol system"));
  EXPECT_THAT(
      refusalOf(compileC(
          "extern float floorf(float); KERNEL(f) { *(float *)buffers[0] = floorf(*(float *)buffers[1]); return 0; }")),
      HasSubstr("symbol floorf"))
      << "a rounding that became a call";
  EXPECT_THAT(refusalOf(compileC("extern int64_t state; KERNEL(f) { return state; }")), HasSubstr("symbol state"));
  EXPECT_THAT(
      refusalOf(compileC("__attribute__((weak)) void maybe(void); KERNEL(f) { if (maybe) maybe(); return 0; }")),
      HasSubstr("symbol maybe"));
}

TEST(ObjectLoader, StateIsRefused) {
  EXPECT_THAT(refusalOf(compileC("static int64_t count; KERNEL(f) { return ++count; }")), HasSubstr("keep no state"));
  EXPECT_THAT(refusalOf(compileC("int64_t count = 3; KERNEL(f) { return ++count; }")), HasSubstr("section .data"));
  EXPECT_THAT(refusalOf(compileC("static __thread int64_t count; KERNEL(f) { return ++count; }")),
              HasSubstr("thread-local"));
  EXPECT_THAT(refusalOf(compileC(
                  "__attribute__((constructor)) void start(void) { asm volatile(\"nop\"); } KERNEL(f) { return 1; }")),
              HasSubstr(".init_array"));
}

TEST(ObjectLoader, PositionDependentCodeIsRefused) {
  EXPECT_THAT(refusalOf(compileC("static const int64_t t[9] = {1,2,3,4,5,6,7,8,9}; KERNEL(f) { return t[ints[0]]; }",
                                 "-fno-pic -mcmodel=small")),
              HasSubstr("R_X86_64_32S"));
}

TEST(ObjectLoader, OtherFilesAreRefused) {
  EXPECT_THAT(refusalOf(std::vector<uint8_t>{1, 2, 3}), HasSubstr("truncated"));
  EXPECT_THAT(refusalOf(std::vector<uint8_t>(200, 'x')), HasSubstr("no ELF"));
  EXPECT_THAT(refusalOf(readFile("/proc/self/exe")), HasSubstr("no relocatable object"));
  EXPECT_THAT(refusalOf(compileC("KERNEL(f) { return 1; }", "--target=aarch64-linux-gnu -ffreestanding")),
              HasSubstr("x86-64"));
}

TEST(ObjectLoader, DamagedObjectsNeverCrash) {
  auto bytes = compileC(R"(
extern double exp(double); const char *const names[2] = {"x", "y"};
KERNEL(f) { *(double *)buffers[0] = exp(*(double *)buffers[1]) + names[ints[0]][0]; return 0; }
)");
  std::mt19937_64 rng(1);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  size_t refused = 0;
  for (int round = 0; round < 4000; ++round) {
    auto damaged = bytes;
    for (unsigned n = 1 + rng() % 3; n--;) {
      // Most damage goes into the headers and tables, which the loader believes most.
      size_t at = rng() % 2 ? header.e_shoff + rng() % (header.e_shnum * sizeof(Elf64_Shdr)) : rng() % bytes.size();
      damaged[at] = rng() % 2 ? rng() : damaged[at] ^ (1 << (rng() % 8));
    }
    if (rng() % 8 == 0)
      damaged.resize(rng() % damaged.size());
    refused += !refusalOf(damaged).empty();
  }
  EXPECT_GT(refused, 500u);
}

TEST(ObjectLoader, ExternalTableIsSortedAndCallable) {
  auto table = externalSymbols();
  ASSERT_GT(table.size(), 40u);
  for (size_t i = 1; i < table.size(); ++i)
    EXPECT_LT(table[i - 1].name, table[i].name);
  for (const ExternalSymbol &symbol : table)
    EXPECT_NE(symbol.address, nullptr) << symbol.name;
}

TEST(ObjectLoaderDeathTest, AFaultNamesTheKernel) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto die = [] {
    signal(SIGSEGV, SIG_DFL); // sanitizers have handlers of their own
    setSwitch("TILEWRIGHT_DEBUG", "1");
    auto object = loadObject(compileC("KERNEL(f) { *(volatile int *)buffers[0] = 1; return 0; }"), "stray_store");
    call(*object, "f", {nullptr});
  };
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGSEGV), "SIGSEGV at address 0x0 in compiled code stray_store");
}

TEST(ObjectLoaderDeathTest, AnEarlierHandlerStillRuns) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto die = [] {
    struct sigaction action = {};
    action.sa_handler = [](int) {
      [[maybe_unused]] auto n = write(2, "earlier handler\n", 16);
      _exit(3);
    };
    sigaction(SIGILL, &action, nullptr);
    setSwitch("TILEWRIGHT_DEBUG", "1");
    auto object = loadObject(compileC("KERNEL(f) { __builtin_trap(); }"), "trap");
    call(*object, "f", {nullptr});
  };
  EXPECT_EXIT(die(), testing::ExitedWithCode(3), "SIGILL.*trap.*\n.*earlier handler");
}

// The layout is GDB's.
struct JitEntry {
  JitEntry *next, *previous;
  const char *file;
  uint64_t size;
};
extern "C" struct {
  uint32_t version, action;
  JitEntry *relevant, *first;
} __jit_debug_descriptor;

TEST(ObjectLoader, DebuggersSeeObjectsWithAddresses) {
  setSwitch("TILEWRIGHT_GDB", "1");
  auto object = loadObject(compileC("KERNEL(f) { return 78; }"), "debugged_kernel");
  setSwitch("TILEWRIGHT_GDB", std::nullopt);
  const JitEntry *entry = __jit_debug_descriptor.first;
  ASSERT_NE(entry, nullptr);
  Elf64_Ehdr header;
  std::memcpy(&header, entry->file, sizeof(header));
  bool found = false;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, entry->file + header.e_shoff + i * sizeof(section), sizeof(section));
    found |= section.sh_addr == reinterpret_cast<uint64_t>(object->code().data());
  }
  EXPECT_TRUE(found);
  object.reset();
  EXPECT_EQ(__jit_debug_descriptor.first, nullptr);
}

TEST(ObjectLoader, PerfMapListsKernels) {
  setSwitch("TILEWRIGHT_PERF", "1");
  auto object = loadObject(compileC("KERNEL(f) { return 77; }"), "profiled_kernel");
  setSwitch("TILEWRIGHT_PERF", std::nullopt);
  std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  auto bytes = readFile(path);
  unlink(path.c_str());
  char wanted[100];
  std::snprintf(wanted, sizeof(wanted), "%lx %zx tilewright:profiled_kernel\n",
                reinterpret_cast<unsigned long>(object->code().data()), object->code().size());
  EXPECT_THAT(std::string(bytes.begin(), bytes.end()), HasSubstr(wanted));
}
