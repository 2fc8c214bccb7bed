//===- MathCoefficients.h - written by coefficients.py -----------*- C++ -*-===//
#pragma once

namespace tilewright::host::coefficients {

// (e^r - 1 - r) / r^2 on |r| <= ln(2)/2; error relative to e^r
// Largest error 2^-28.3.
inline constexpr double expF32[] = {
    0x1.fffffc0000000p-2,
    0x1.5554900000000p-3,
    0x1.5558f40000000p-5,
    0x1.123a6c0000000p-7,
    0x1.6a23520000000p-10,
};

// (e^r - 1 - r) / r^2 on |r| <= ln(2)/2; error relative to e^r - 1
// Largest error 2^-32.0.
inline constexpr double expm1F32[] = {
    0x1.0000000000000p-1,
    0x1.5555540000000p-3,
    0x1.5554b00000000p-5,
    0x1.11118a0000000p-7,
    0x1.6d72980000000p-10,
    0x1.a032ea0000000p-13,
};

// (e^r - 1 - r) / r^2 on |r| <= ln(2)/2; error relative to e^r - 1
// Largest error 2^-49.4.
inline constexpr double expF64[] = {
    0x1.fffffffffffbep-2,
    0x1.5555555552208p-3,
    0x1.5555555564d67p-5,
    0x1.111111214aab1p-7,
    0x1.6c16c1352f5e4p-10,
    0x1.a0199ba29e59bp-13,
    0x1.a01a79919eae0p-16,
    0x1.72dab49979b9ep-19,
    0x1.27dc40b2cc4fdp-22,
};

// (2^r - 1) / r on |r| <= 1/2; error relative to 2^r
// Largest error 2^-28.9.
inline constexpr double exp2F32[] = {
    0x1.62e4300000000p-1,
    0x1.ebfbdc0000000p-3,
    0x1.c6aee60000000p-5,
    0x1.3b2d520000000p-7,
    0x1.5f400e0000000p-10,
    0x1.41fa800000000p-13,
};

// (log(1 + f) - f + f^2/2) / f^3 on sqrt(1/2) <= 1 + f <= sqrt(2); error relative to log(1 + f)
// Largest error 2^-30.3.
inline constexpr double logF32[] = {
    0x1.5555460000000p-2,
    -0x1.0000060000000p-2,
    0x1.99a4f60000000p-3,
    -0x1.555ccc0000000p-3,
    0x1.23322e0000000p-3,
    -0x1.fc07c20000000p-4,
    0x1.e728820000000p-4,
    -0x1.df00000000000p-4,
    0x1.14ca460000000p-4,
};

// (2 atanh(s) - 2 s) / s^3 as a polynomial of s^2, s^2 <= 0.0296; error relative to 2 atanh(s)
// Largest error 2^-52.2.
inline constexpr double logF64[] = {
    0x1.555555555384fp-1,
    0x1.999999a2ddc71p-2,
    0x1.24924144da2f1p-2,
    0x1.c722961838c62p-3,
    0x1.73282ab544e97p-3,
    0x1.58a95b8dca673p-3,
};

// (tanh(x) - x) / x^3 as a polynomial of x^2, |x| <= 0.65; error relative to tanh(x)
// Largest error 2^-31.8.
inline constexpr double tanhF32[] = {
    -0x1.5555520000000p-2,
    0x1.11101e0000000p-3,
    -0x1.b9e0420000000p-5,
    0x1.62eee80000000p-6,
    -0x1.08f32e0000000p-7,
    0x1.0df4260000000p-9,
};

// erf(x) / x - 1 as a polynomial of x^2, |x| <= 1; error relative to erf(x)
// Largest error 2^-29.6.
inline constexpr double erfNearF32[] = {
    0x1.06eba80000000p-3,
    -0x1.81273e0000000p-2,
    0x1.ce2cf20000000p-4,
    -0x1.b7f8aa0000000p-6,
    0x1.5402760000000p-8,
    -0x1.a3de160000000p-11,
    0x1.49229c0000000p-14,
};

// -log(erfc(x)) / x as a polynomial of x, 1 <= x <= 4; error relative to erf(x)
// Largest error 2^-31.2.
inline constexpr double erfFarF32[] = {
    0x1.20f20a0000000p+0,
    0x1.451b4e0000000p-1,
    0x1.b452660000000p-4,
    -0x1.8949640000000p-6,
    0x1.ec28480000000p-9,
    -0x1.6ef9080000000p-12,
    0x1.d27ec20000000p-17,
};

// erfc(x) exp(x^2) as a polynomial of t = (x - 2) / (x + 2), 0.5 <= x <= 10.3; relative error
// Largest error 2^-43.3.
inline constexpr double erfcF64[] = {
    0x1.058671b52c65ap-2,
    -0x1.b57034efd1e42p-2,
    0x1.eeea7dc8cb844p-3,
    -0x1.437f0b6c64450p-4,
    0x1.e947142b81f38p-9,
    0x1.ca95f49c015dcp-8,
    -0x1.bc2554a59d11cp-11,
    -0x1.016cf6636bd61p-10,
    0x1.6d4367be3e5cdp-15,
    0x1.6e062435e25d6p-13,
    0x1.ce02df55c59f5p-16,
    -0x1.da265c4a694e7p-16,
    -0x1.d00833a3e25bdp-17,
    0x1.7c0e55094152ep-19,
    0x1.b84636614a770p-19,
    -0x1.116dc31e631b3p-22,
};

// erf(x) / x as a polynomial of x^2, |x| <= 1/2; relative error
// Largest error 2^-50.5.
inline constexpr double erfF64[] = {
    0x1.20dd750429b6ap+0,
    -0x1.812746b036044p-2,
    0x1.ce2f219e2ae48p-4,
    -0x1.b82ce2074e51ep-6,
    0x1.565b8b79eb4e6p-8,
    -0x1.c01c2d470d42ap-11,
    0x1.f707de9346dd2p-14,
    -0x1.c09b5d7cc4ffep-17,
};

// (sin(r) - r) / r^3 as a polynomial of r^2; error relative to sin(r)
// Largest error 2^-47.5.
inline constexpr double sinF64[] = {
    -0x1.555555555222cp-3,
    0x1.1111110c863cep-7,
    -0x1.a019f93813d3fp-13,
    0x1.71d76c5f19089p-19,
    -0x1.a9615e3d40bddp-26,
};

// (cos(r) - 1 + r^2/2) / r^4 as a polynomial of r^2; error relative to cos(r)
// Largest error 2^-53.3.
inline constexpr double cosF64[] = {
    0x1.5555555552dd0p-5,
    -0x1.6c16c16720071p-10,
    0x1.a019fa5ed8d7cp-16,
    -0x1.27e00b0d415f9p-22,
    0x1.1bbe63d809ae7p-29,
};

// (atan(x) - x) / x^3 as a polynomial of x^2, |x| <= tan(pi/8); error relative to atan(x)
// Largest error 2^-49.9.
inline constexpr double atanF64[] = {
    -0x1.55555555521c0p-2,
    0x1.99999993a55e3p-3,
    -0x1.2492473ed6e60p-3,
    0x1.c71bd97e2b768p-4,
    -0x1.744f843154f97p-4,
    0x1.3a5700bfeb3edp-4,
    -0x1.0aa885bb8835ap-4,
    0x1.9ca7e46777b33p-5,
    -0x1.a158083b978efp-6,
};

} // namespace tilewright::host::coefficients
