// Matrix products through the whole stack (graph -> compiler -> Program -> thread pool) as a share of the FMA peak: a
// loop of multiply-adds on registers on the same threads, run just before each product. Weights packed ahead (epoch
// known, as for frozen parameters and on npu) and packed in the call.
//
//   gemm [f32|bf16|f64] [m n k]...
//
// Shares are medians over turns, by elapsed time and by CPU time of all threads; on a busy machine only the second
// means anything. bf16 counts against the dot-product peak, twice that of f32, where the CPU has AVX512-BF16.

#include "tilewright/Runtime/CompilerLoader.h"
#include "tilewright/Runtime/Executable.h"
#include "tilewright/Runtime/ThreadPool.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <immintrin.h>
#include <random>
#include <string>
#include <time.h>

using namespace tilewright;

namespace {

/// CPU time of all threads: what others' work on a busy machine leaves alone, but for the caches.
double cpuTime() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Long enough (milliseconds) that waking the other threads does not count.
constexpr int kTurns = 500000;
/// Chains of multiply-adds: 4 cycles of latency times 2 per cycle are 8; with 12 and two operands all stay in the 16
/// registers that AVX2 has.
constexpr int kChains = 12;

/// The sums are in registers because the compiler is told that each is changed in one, and by nothing else.
#define FMA_LOOP(name, features, Vector, set1, code)                                                                   \
  [[gnu::target(features), gnu::noinline]] float name() {                                                              \
    Vector b = set1(0.999f), c = set1(1e-3f);                                                                          \
    Vector s0 = c, s1 = c, s2 = c, s3 = c, s4 = c, s5 = c, s6 = c, s7 = c, s8 = c, s9 = c, s10 = c, s11 = c;           \
    for (int i = 0; i < kTurns; ++i)                                                                                   \
      asm volatile(code(0) code(1) code(2) code(3) code(4) code(5) code(6) code(7) code(8) code(9) code(10) code(11)   \
                   : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3), "+v"(s4), "+v"(s5), "+v"(s6), "+v"(s7), "+v"(s8),         \
                     "+v"(s9), "+v"(s10), "+v"(s11)                                                                    \
                   : "v"(b), "v"(c));                                                                                  \
    return s0[0] + s1[0] + s2[0] + s3[0] + s4[0] + s5[0] + s6[0] + s7[0] + s8[0] + s9[0] + s10[0] + s11[0];            \
  }
#define FMA(sum) "vfmadd213ps %13, %12, %" #sum "\n\t"
FMA_LOOP(registerLoop512, "avx512f", __m512, _mm512_set1_ps, FMA)
FMA_LOOP(registerLoop256, "avx2,fma", __m256, _mm256_set1_ps, FMA)
#undef FMA
#undef FMA_LOOP

/// Operations per second of elapsed time, of all threads together, and per second of CPU time.
struct Rate {
  double elapsed, cpu;
};

template <typename Body> Rate rateOf(double flops, Body &&body) {
  double start = now(), cpuStart = cpuTime();
  body();
  return {flops / (now() - start), flops / (cpuTime() - cpuStart)};
}

/// Multiply-adds in f32, counted twice, on registers.
Rate peak() {
  const bool wide = __builtin_cpu_supports("avx512f");
  ThreadPool &pool = ThreadPool::instance();
  [[maybe_unused]] static volatile double sink;
  return rateOf(double(pool.size()) * kTurns * kChains * (wide ? 32 : 16), [&] {
    pool.parallelFor(pool.size(), 1, [&](int64_t begin, int64_t end, unsigned) {
      for (int64_t i = begin; i < end; ++i)
        sink = wide ? registerLoop512() : registerLoop256();
    });
  });
}

std::string graphOf(const std::string &dtype) {
  auto tensor = [&](const char *rows, const char *cols, const char *name, const char *role) {
    return std::string(R"({"kind": "tensor", "dtype": ")") + dtype + R"(", "sizes": [")" + rows + R"(", ")" + cols +
           R"("], "strides": [")" + cols + R"(", 1], "name": ")" + name + R"(", "role": ")" + role + R"("})";
  };
  std::string symbols;
  for (int i = 0; i < 3; ++i)
    symbols += (i ? ", " : "") + std::string(R"({"name": "s)") + std::to_string(i) + R"(", "min": 2, "hint": 512})";
  return R"({"version": 1, "name": "gemm", "symbols": [)" + symbols + R"(], "inputs": [)" +
         tensor("s0", "s1", "a", "input") + ", " + tensor("s1", "s2", "b", "parameter") +
         R"(], "nodes": [{"op": "aten.mm.default", "args": [{"v": 0}, {"v": 1}], "kwargs": {}}], "outputs": [{"v": 2}], "mutations": []})";
}

struct Matrix {
  Matrix(int64_t rows, int64_t cols, DType type)
      : sizes{rows, cols}, strides{cols, 1}, type(type), bytes(rows * cols * sizeOf(type)),
        data(std::aligned_alloc(64, (bytes + 64) / 64 * 64)) {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < bytes / sizeOf(type); ++i) {
      float value = normal(generator);
      double wide = value;
      if (type == DType::BF16)
        std::memcpy(static_cast<char *>(data) + 2 * i, reinterpret_cast<const char *>(&value) + 2, 2);
      else
        std::memcpy(static_cast<char *>(data) + sizeOf(type) * i,
                    type == DType::F64 ? static_cast<const void *>(&wide) : &value, sizeOf(type));
    }
  }
  ~Matrix() { std::free(data); }
  Matrix(const Matrix &) = delete;
  Argument argument(uint64_t epoch) const { return {data, sizes, strides, type, 0, 0, epoch}; }

  std::array<int64_t, 2> sizes, strides;
  DType type;
  size_t bytes;
  void *data;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(Executable &executable, DType type, int64_t m, int64_t n, int64_t k, double perF32) {
  Matrix a(m, k, type), b(k, n, type), c(m, n, type);
  std::printf("%6ld x %5ld x %5ld", long(m), long(n), long(k));
  for (uint64_t epoch : {1, 0}) { // known: packed once; unknown: packed in every call
    std::array<Argument, 2> arguments{a.argument(epoch), b.argument(epoch)};
    std::array<OutputMemory, 1> outputs{{{c.data}}};
    auto sizes = executable.bind(arguments);
    executable.run(sizes, arguments, outputs, nullptr);
    const double flops = 2.0 * double(m) * double(n) * double(k);
    const int turns = int(std::clamp(8e9 / flops, 7.0, 300.0));
    std::vector<double> shares, cpuShares;
    double best = 0;
    for (int i = 0; i < turns; ++i) {
      Rate limit = peak(), rate = rateOf(flops, [&] { executable.run(sizes, arguments, outputs, nullptr); });
      shares.push_back(rate.elapsed / limit.elapsed / perF32);
      cpuShares.push_back(rate.cpu / limit.cpu / perF32);
      best = std::max(best, rate.elapsed);
    }
    std::printf("   %s: %.3f elapsed, %.3f CPU, best %.1f GFLOP/s", epoch ? "packed ahead" : "packed in the call",
                median(shares), median(cpuShares), best / 1e9);
  }
  std::printf("\n");
}

} // namespace

int main(int argc, char **argv) {
  std::string dtype = argc > 1 ? argv[1] : "f32";
  std::optional<DType> type = dtypeFromName(dtype);
  if (!type || (*type != DType::F32 && *type != DType::F64 && *type != DType::BF16) || (argc > 2 && (argc - 2) % 3)) {
    std::fprintf(stderr, "usage: gemm [f32|bf16|f64] [m n k]...\n");
    return 2;
  }
  std::vector<std::array<int64_t, 3>> shapes{
      {512, 512, 512},   {1024, 1024, 1024}, {2048, 2048, 2048}, {1000, 777, 1111}, {4096, 384, 384}, {4096, 1536, 384},
      {4096, 384, 1536}, {16, 384, 384},     {16, 1536, 384},    {16, 384, 1536},   {16, 4096, 4096}, {1, 4096, 4096}};
  if (argc > 2)
    shapes.clear();
  for (int i = 2; i + 2 < argc; i += 3)
    shapes.push_back({std::atol(argv[i]), std::atol(argv[i + 1]), std::atol(argv[i + 2])});
  CompileOptions options = CompileOptions::current();
  double start = now();
  CompileResult compiled = nativeCompiler().compile(graphOf(dtype), options.json());
  auto executable = Executable::load(Program::deserialize(compiled.program));
  std::printf("%s on %s, %u threads, compiled in %.0f ms; peak of f32 %.1f GFLOP/s\n", dtype.c_str(),
              options.cpu.c_str(), ThreadPool::instance().size(), (now() - start) * 1e3, peak().elapsed / 1e9);
  double perF32 = *type == DType::F64 ? 0.5 : *type == DType::BF16 && options.cpu == "avx512bf16" ? 2 : 1;
  for (auto [m, n, k] : shapes)
    measure(*executable, *type, m, n, k, perF32);
}
