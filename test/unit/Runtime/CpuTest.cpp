#include "tilewright/Runtime/Cpu.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

using namespace tilewright;

namespace {

constexpr uint32_t bit(unsigned n) { return 1u << n; }

/// A machine with everything, to take features away from.
CpuidRegisters full() {
  CpuidRegisters r;
  r.leaf1Ecx = r.leaf7Ebx = r.leaf7Ecx = r.leaf7Eax1 = r.extended1Ecx = ~0u;
  r.xcr0 = 0xe7;
  return r;
}

CpuLevel without(uint32_t CpuidRegisters::*field, unsigned n) {
  CpuidRegisters r = full();
  r.*field &= ~bit(n);
  return levelOf(r);
}

std::string messageOf(CpuLevel machine, const char *wanted) {
  try {
    resolveCpuLevel(machine, wanted);
  } catch (const std::invalid_argument &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST(Cpu, LevelsNeedAllTheirFeatures) {
  EXPECT_EQ(levelOf(full()), CpuLevel::Avx512Bf16);
  EXPECT_EQ(levelOf({}), CpuLevel::X86_64);
  EXPECT_EQ(without(&CpuidRegisters::leaf7Eax1, 5), CpuLevel::Avx512); // BF16
  EXPECT_EQ(without(&CpuidRegisters::leaf7Ecx, 11), CpuLevel::Avx512); // VNNI
  for (unsigned n : {16, 17, 28, 30, 31})                              // F, DQ, CD, BW, VL
    EXPECT_EQ(without(&CpuidRegisters::leaf7Ebx, n), CpuLevel::Avx2) << n;
  for (unsigned n : {3, 5, 8}) // BMI1, AVX2, BMI2
    EXPECT_EQ(without(&CpuidRegisters::leaf7Ebx, n), CpuLevel::X86_64) << n;
  for (unsigned n : {12, 22, 23, 27, 28, 29}) // FMA, MOVBE, POPCNT, OSXSAVE, AVX, F16C
    EXPECT_EQ(without(&CpuidRegisters::leaf1Ecx, n), CpuLevel::X86_64) << n;
  EXPECT_EQ(without(&CpuidRegisters::extended1Ecx, 5), CpuLevel::X86_64); // LZCNT
}

TEST(Cpu, WhatTheSystemDoesNotSaveIsNotUsed) {
  CpuidRegisters r = full();
  r.xcr0 = 0x7; // no masks, no ZMM
  EXPECT_EQ(levelOf(r), CpuLevel::Avx2);
  r.xcr0 = 0x3; // no YMM
  EXPECT_EQ(levelOf(r), CpuLevel::X86_64);
}

TEST(Cpu, NamesRoundTrip) {
  for (auto level : {CpuLevel::X86_64, CpuLevel::Avx2, CpuLevel::Avx512, CpuLevel::Avx512Bf16})
    EXPECT_EQ(cpuLevelFromName(nameOf(level)), level);
  EXPECT_EQ(cpuLevelFromName("AVX2"), std::nullopt);
}

TEST(Cpu, SwitchLowersTheLevel) {
  EXPECT_EQ(resolveCpuLevel(CpuLevel::Avx512, std::nullopt), CpuLevel::Avx512);
  EXPECT_EQ(resolveCpuLevel(CpuLevel::Avx512, "avx2"), CpuLevel::Avx2);
  EXPECT_EQ(resolveCpuLevel(CpuLevel::Avx512, "x86-64"), CpuLevel::X86_64);
}

TEST(Cpu, WrongSwitchIsAClearError) {
  std::string unknown = messageOf(CpuLevel::Avx512, "sse9");
  EXPECT_NE(unknown.find("TILEWRIGHT_CPU=sse9"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("avx512bf16"), std::string::npos) << unknown;
  std::string above = messageOf(CpuLevel::Avx2, "avx512");
  EXPECT_NE(above.find("above this machine"), std::string::npos) << above;
  EXPECT_NE(above.find("avx2"), std::string::npos) << above;
}

TEST(Cpu, AgreesWithTheKernel) {
  std::ifstream in("/proc/cpuinfo");
  std::string flags;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("flags")) {
      flags = line + " ";
      break;
    }
  ASSERT_FALSE(flags.empty());
  auto has = [&](const char *flag) { return flags.find(std::string(" ") + flag + " ") != std::string::npos; };
  CpuLevel level = levelOf(CpuidRegisters::read());
  if (level >= CpuLevel::Avx2)
    EXPECT_TRUE(has("avx2") && has("fma") && has("f16c"));
  EXPECT_EQ(level >= CpuLevel::Avx512,
            has("avx512f") && has("avx512vl") && has("avx512bw") && has("avx512dq") && has("avx512cd"));
  EXPECT_EQ(level == CpuLevel::Avx512Bf16, has("avx512_bf16") && has("avx512_vnni"));
}
