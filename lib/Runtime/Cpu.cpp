//===- Cpu.cpp - the CPU's features as four levels -------------------------===//

#include "tilewright/Runtime/Cpu.h"

#include "tilewright/Support/Switches.h"

#include <array>
#include <cpuid.h>
#include <cstring>
#include <stdexcept>

namespace tilewright {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"x86-64", "avx2", "avx512", "avx512bf16"};

constexpr uint32_t bit(unsigned n) { return 1u << n; }
constexpr bool all(uint64_t value, uint64_t mask) { return (value & mask) == mask; }

// CPUID.1:ECX
constexpr uint32_t kV2Leaf1 =
    bit(0) | bit(9) | bit(13) | bit(19) | bit(20) | bit(23); // SSE3, SSSE3, CX16, SSE4.1, 4.2, POPCNT
constexpr uint32_t kV3Leaf1 =
    kV2Leaf1 | bit(12) | bit(22) | bit(27) | bit(28) | bit(29); // FMA, MOVBE, OSXSAVE, AVX, F16C
// CPUID.7.0:EBX
constexpr uint32_t kV3Leaf7 = bit(3) | bit(5) | bit(8);                        // BMI1, AVX2, BMI2
constexpr uint32_t kV4Leaf7 = bit(16) | bit(17) | bit(28) | bit(30) | bit(31); // F, DQ, CD, BW, VL
constexpr uint32_t kVnni = bit(11);                                            // CPUID.7.0:ECX
constexpr uint32_t kBf16 = bit(5);                                             // CPUID.7.1:EAX
constexpr uint32_t kLzcnt = bit(5);                                            // CPUID.80000001:ECX
// XCR0: what the system saves at a context switch
constexpr uint64_t kYmm = 0b110;      // XMM, YMM
constexpr uint64_t kZmm = 0b11100110; // and masks, upper halves of ZMM0-15, ZMM16-31

} // namespace

std::string_view nameOf(CpuLevel level) { return kNames[static_cast<size_t>(level)]; }

std::optional<CpuLevel> cpuLevelFromName(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name)
      return static_cast<CpuLevel>(i);
  return std::nullopt;
}

CpuidRegisters CpuidRegisters::read() {
  CpuidRegisters r;
  uint32_t a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d))
    r.leaf1Ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    r.leaf7Ebx = b;
    r.leaf7Ecx = c;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d))
      r.leaf7Eax1 = a;
  }
  if (__get_cpuid(0x80000001, &a, &b, &c, &d))
    r.extended1Ecx = c;
  if (r.leaf1Ecx & bit(27)) { // OSXSAVE: xgetbv may be executed
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    r.xcr0 = (static_cast<uint64_t>(high) << 32) | low;
  }
  return r;
}

CpuLevel levelOf(const CpuidRegisters &r) {
  if (!all(r.leaf1Ecx, kV3Leaf1) || !all(r.leaf7Ebx, kV3Leaf7) || !all(r.extended1Ecx, kLzcnt) || !all(r.xcr0, kYmm))
    return CpuLevel::X86_64;
  if (!all(r.leaf7Ebx, kV4Leaf7) || !all(r.xcr0, kZmm))
    return CpuLevel::Avx2;
  return all(r.leaf7Eax1, kBf16) && all(r.leaf7Ecx, kVnni) ? CpuLevel::Avx512Bf16 : CpuLevel::Avx512;
}

CpuLevel resolveCpuLevel(CpuLevel machine, const std::optional<std::string> &wanted) {
  if (!wanted)
    return machine;
  auto level = cpuLevelFromName(*wanted);
  if (!level)
    throw std::invalid_argument("TILEWRIGHT_CPU=" + *wanted +
                                " is no CPU level; it takes x86-64, avx2, avx512 or avx512bf16");
  if (*level > machine)
    throw std::invalid_argument("TILEWRIGHT_CPU=" + *wanted + " is above this machine, which has " +
                                std::string(nameOf(machine)) + "; ask for that or a lower level");
  return *level;
}

CpuLevel processCpuLevel() {
  static const CpuLevel level = resolveCpuLevel(levelOf(CpuidRegisters::read()), switches::cpu());
  return level;
}

const std::string &cpuLevel() {
  static const std::string name(nameOf(processCpuLevel()));
  return name;
}

std::string cpuBrand() {
  uint32_t r[12] = {};
  if (__get_cpuid_max(0x80000000, nullptr) >= 0x80000004)
    for (uint32_t leaf = 0; leaf < 3; ++leaf)
      __get_cpuid(0x80000002 + leaf, &r[4 * leaf], &r[4 * leaf + 1], &r[4 * leaf + 2], &r[4 * leaf + 3]);
  char text[sizeof r + 1] = {};
  std::memcpy(text, r, sizeof r);
  std::string brand;
  for (const char *c = text; *c; ++c) // runs of spaces are padding
    if (*c != ' ' || (!brand.empty() && brand.back() != ' '))
      brand += *c;
  while (!brand.empty() && brand.back() == ' ')
    brand.pop_back();
  return brand.empty() ? "x86-64 CPU" : brand;
}

unsigned vectorBits(CpuLevel level) { return level >= CpuLevel::Avx512 ? 512 : level == CpuLevel::Avx2 ? 256 : 128; }

} // namespace tilewright
