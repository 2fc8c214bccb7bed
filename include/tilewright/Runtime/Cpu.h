//===- Cpu.h - the CPU's features as four levels ------------------*- C++ -*-===//
//
// Levels are named as programs name their target. What each promises:
//   x86-64      SSE2, nothing else (the psABI's x86-64-v1)
//   avx2        x86-64-v3: AVX2, FMA, F16C, BMI1, BMI2, LZCNT, MOVBE, POPCNT, SSE4.2; the system saves YMM
//   avx512      x86-64-v4: AVX-512 F, BW, CD, DQ, VL besides; the system saves ZMM and masks
//   avx512bf16  AVX512-BF16 and AVX512-VNNI besides
// Source: x86-64 psABI, "micro-architecture levels"; Intel SDM volume 2A, CPUID and XGETBV.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tilewright {

enum class CpuLevel : uint8_t { X86_64, Avx2, Avx512, Avx512Bf16 };

std::string_view nameOf(CpuLevel level);
std::optional<CpuLevel> cpuLevelFromName(std::string_view name);

/// The registers that decide the level, so that machines other than this one can be tested.
struct CpuidRegisters {
  uint32_t leaf1Ecx = 0;                              // leaf 1
  uint32_t leaf7Ebx = 0, leaf7Ecx = 0, leaf7Eax1 = 0; // leaf 7, subleaf 0, and eax of subleaf 1
  uint32_t extended1Ecx = 0;                          // leaf 0x80000001
  uint64_t xcr0 = 0;                                  // 0 where OSXSAVE is off
  static CpuidRegisters read();
};

CpuLevel levelOf(const CpuidRegisters &registers);

/// `wanted` (the text of TILEWRIGHT_CPU) if the machine can run it, else the machine's level if nothing is wanted.
/// Throws std::invalid_argument for an unknown name and for a level above the machine's.
CpuLevel resolveCpuLevel(CpuLevel machine, const std::optional<std::string> &wanted);

/// The level of this process: the machine's, limited by TILEWRIGHT_CPU. Read once; throws as resolveCpuLevel does.
CpuLevel processCpuLevel();
/// Its name, as Program::target has it.
const std::string &cpuLevel();

/// "AMD EPYC" etc., from CPUID; "x86-64 CPU" where it has no name.
std::string cpuBrand();
unsigned vectorBits(CpuLevel level); // 128, 256, 512

} // namespace tilewright
