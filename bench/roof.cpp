//===- roof.cpp - what this machine can do, measured beside what runs on it -------------------===//
//
// A shared library for bench/*.py: loops written by hand with the read and write streams of the operation they stand
// for, on the very buffers, and loops of fused multiply-adds on registers alone. A kernel's time means something only
// as a share of these, taken in turns in one process: bandwidth and clock change from minute to minute.
//
//===------------------------------------------------------------------------------------------===//

#include <immintrin.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace {

/// Threads that wait for work between calls; part 0 runs on the caller.
class Team {
public:
  void run(unsigned parts, const std::function<void(unsigned)> &work) {
    while (threads.size() + 1 < parts)
      start(threads.size() + 1);
    std::unique_lock lock(mutex);
    job = &work;
    active = parts;
    left = parts - 1;
    ++turn;
    wake.notify_all();
    lock.unlock();
    work(0);
    lock.lock();
    done.wait(lock, [&] { return left == 0; });
  }

private:
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable wake, done;
  const std::function<void(unsigned)> *job = nullptr;
  unsigned active = 0, left = 0;
  uint64_t turn = 0;

  void start(unsigned part) {
    uint64_t seen = turn;
    threads.emplace_back([this, part, seen]() mutable {
      for (;;) {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return turn != seen; });
        seen = turn;
        if (part >= active)
          continue;
        const auto &work = *job;
        lock.unlock();
        work(part);
        lock.lock();
        if (--left == 0)
          done.notify_one();
      }
    });
    threads.back().detach();
  }
};

Team &team() {
  static Team *instance = new Team; // its threads outlive static destruction
  return *instance;
}

constexpr int64_t kBlock = 64 << 10; // bytes of each stream that a thread takes in turn

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,fma")))
#define AVX512BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,fma")))
#define AVX2 __attribute__((target("avx2,fma")))

const bool hasAvx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");

/// The same loops for vectors of 64 and of 32 bytes.
#define STREAM(NAME, TARGET, VECTOR, BYTES, ZERO, LOAD, ADD, STORE, STREAM_STORE)                                      \
  TARGET void NAME(const char *const *reads, int readCount, char *const *writes, int writeCount, int64_t begin,        \
                   int64_t end, bool past) {                                                                           \
    for (int64_t at = begin; at + 4 * (BYTES) <= end; at += 4 * (BYTES)) {                                             \
      VECTOR v[4];                                                                                                     \
      for (int u = 0; u < 4; ++u)                                                                                      \
        v[u] = readCount ? LOAD(reinterpret_cast<const float *>(reads[0] + at + (BYTES) * u)) : ZERO();                \
      for (int r = 1; r < readCount; ++r)                                                                              \
        for (int u = 0; u < 4; ++u)                                                                                    \
          v[u] = ADD(v[u], LOAD(reinterpret_cast<const float *>(reads[r] + at + (BYTES) * u)));                        \
      for (int w = 0; w < writeCount; ++w)                                                                             \
        for (int u = 0; u < 4; ++u) {                                                                                  \
          float *to = reinterpret_cast<float *>(writes[w] + at + (BYTES) * u);                                         \
          if (past)                                                                                                    \
            STREAM_STORE(to, v[u]);                                                                                    \
          else                                                                                                         \
            STORE(to, v[u]);                                                                                           \
        }                                                                                                              \
      if (!writeCount)                                                                                                 \
        asm volatile("" ::"v"(v[0]), "v"(v[1]), "v"(v[2]), "v"(v[3]));                                                 \
    }                                                                                                                  \
  }
STREAM(stream512, AVX512, __m512, 64, _mm512_setzero_ps, _mm512_loadu_ps, _mm512_add_ps, _mm512_storeu_ps,
       _mm512_stream_ps)
STREAM(stream256, AVX2, __m256, 32, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_add_ps, _mm256_storeu_ps,
       _mm256_stream_ps)

/// COUNT independent sums hide the latency of the multiply-add.
#define FMA_LOOP(NAME, TARGET, VECTOR, COUNT, FLOPS, INIT, STEP)                                                       \
  TARGET double NAME(int64_t turns) {                                                                                  \
    VECTOR acc[COUNT];                                                                                                 \
    INIT;                                                                                                              \
    asm volatile("" : "+v"(x), "+v"(y));                                                                               \
    for (auto &a : acc)                                                                                                \
      a = VECTOR{};                                                                                                    \
    for (int64_t i = 0; i < turns; ++i) {                                                                              \
      _Pragma("clang loop unroll(full)") for (int j = 0; j < (COUNT); ++j) acc[j] = STEP;                              \
    }                                                                                                                  \
    for (auto &a : acc)                                                                                                \
      asm volatile("" ::"v"(a));                                                                                       \
    return double(turns) * (COUNT) * (FLOPS);                                                                          \
  }
FMA_LOOP(fmaF32x16, AVX512, __m512, 24, 32, __m512 x = _mm512_set1_ps(1.0f);
         __m512 y = _mm512_set1_ps(1e-20f), _mm512_fmadd_ps(x, y, acc[j]))
FMA_LOOP(fmaF32x8, AVX2, __m256, 12, 16, __m256 x = _mm256_set1_ps(1.0f);
         __m256 y = _mm256_set1_ps(1e-20f), _mm256_fmadd_ps(x, y, acc[j]))
FMA_LOOP(fmaBF16, AVX512BF16, __m512, 24, 64, __m512bh x = (__m512bh)_mm512_set1_epi16(0x3f80);
         __m512bh y = (__m512bh)_mm512_set1_epi16(0x3c00), _mm512_dpbf16_ps(acc[j], x, y))

} // namespace

extern "C" {

/// Reads `bytes` (a multiple of 256 that the buffers hold) of each input and writes their sum to each output with
/// `threads` threads; `past`: with stores that bypass the caches (outputs aligned to 64).
void roof_stream(const void *const *reads, int readCount, void *const *writes, int writeCount, int64_t bytes,
                 int threads, int past) {
  int64_t blocks = (bytes + kBlock - 1) / kBlock, share = (blocks + threads - 1) / threads * kBlock;
  team().run(threads, [&](unsigned part) {
    int64_t begin = part * share, end = std::min<int64_t>(bytes, begin + share);
    for (int64_t at = begin; at < end; at += kBlock)
      (hasAvx512 ? stream512 : stream256)(reinterpret_cast<const char *const *>(reads), readCount,
                                          reinterpret_cast<char *const *>(writes), writeCount, at,
                                          std::min(end, at + kBlock), past);
    if (past)
      _mm_sfence();
  });
}

/// GFLOP/s of fused multiply-adds on registers, all threads together, over about `seconds`. `bf16`: pairs of bf16
/// products; 0 where the CPU has no AVX512-BF16.
double roof_fma(int threads, int bf16, double seconds) {
  if (bf16 && !__builtin_cpu_supports("avx512bf16"))
    return 0;
  auto once = [&](int64_t turns) { return bf16 ? fmaBF16(turns) : hasAvx512 ? fmaF32x16(turns) : fmaF32x8(turns); };
  int64_t turns = 1000;
  for (;; turns *= 2) {
    auto start = std::chrono::steady_clock::now();
    double flops = 0;
    std::mutex mutex;
    team().run(threads, [&](unsigned) {
      double mine = once(turns);
      std::lock_guard lock(mutex);
      flops += mine;
    });
    double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (took >= seconds)
      return flops / took / 1e9;
  }
}

} // extern "C"
