//===- FloatPoints.h - where functions of f32 are tested ----------*- C++ -*-===//
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace tilewright::test {

inline float floatOf(uint32_t bits) { return std::bit_cast<float>(bits); }

/// Both signs of every exponent (denormals, infinity and NaN included) with `mantissas` mantissas each: the ends and a
/// stratified sample. Then the eight neighbours of every given number.
inline std::vector<float> floatPoints(unsigned mantissas, const std::vector<double> &around, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<float> points;
  for (uint32_t sign = 0; sign < 2; ++sign)
    for (uint32_t exponent = 0; exponent < 256; ++exponent) {
      uint32_t base = sign << 31 | exponent << 23;
      for (uint32_t mantissa : {0u, 1u, 2u, 0x3fffffu, 0x400000u, 0x7ffffeu, 0x7fffffu})
        points.push_back(floatOf(base | mantissa));
      for (unsigned i = 0; i < mantissas; ++i) {
        uint64_t low = (uint64_t(1) << 23) * i / mantissas, high = (uint64_t(1) << 23) * (i + 1) / mantissas;
        points.push_back(floatOf(base | uint32_t(low + random() % (high - low))));
      }
    }
  for (double center : around)
    for (float sign : {1.0f, -1.0f}) {
      float point = sign * static_cast<float>(center);
      for (int i = 0; i < 4; ++i)
        point = std::nextafterf(point, -std::numeric_limits<float>::infinity());
      for (int i = 0; i < 9; ++i) {
        points.push_back(point);
        point = std::nextafterf(point, std::numeric_limits<float>::infinity());
      }
    }
  return points;
}

/// Distance of an f32 from the true value in units in the last place of f32 at the true value; infinite where one is
/// NaN or infinite and the other is not, or where zeros differ in sign.
inline double ulpError(float got, double wanted) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (std::isnan(wanted) || std::isnan(got))
    return std::isnan(wanted) && std::isnan(got) ? 0 : inf;
  float rounded = static_cast<float>(wanted);
  if (got == rounded)
    return got == 0 && wanted == 0 && std::signbit(got) != std::signbit(wanted) ? inf
           : std::isinf(got)                                                    ? 0
                                                                                : std::fabs(got - wanted) / [&] {
                                 int exponent;
                                 std::frexp(wanted, &exponent);
                                 return std::ldexp(1.0, std::max(exponent - 24, -149));
                               }();
  if (std::isinf(rounded) || std::isinf(got)) {
    // The largest finite number next to infinity is one unit away.
    double other = std::isinf(got) ? wanted : double(got);
    return std::fabs(other) >= std::numeric_limits<float>::max() * (1 - 0x1p-23) &&
                   std::signbit(got) == std::signbit(wanted)
               ? 1
               : inf;
  }
  int exponent;
  std::frexp(wanted, &exponent);
  return std::fabs(got - wanted) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

} // namespace tilewright::test
