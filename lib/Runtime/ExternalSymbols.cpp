//===- ExternalSymbols.cpp - what emitted code may call -------------------===//
#include "tilewright/Runtime/ObjectLoader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

namespace tilewright {

// lgamma writes the global `signgam`, which threads would fight over.
static double lgammaOf(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}
static float lgammafOf(float x) {
  int sign;
  return ::lgammaf_r(x, &sign);
}

using F1 = double (*)(double);
using S1 = float (*)(float);
using F2 = double (*)(double, double);
using S2 = float (*)(float, float);

#define UNARY(fn)                                                                                                      \
  {#fn, reinterpret_cast<const void *>(static_cast<F1>(::fn))},                                                        \
      {#fn "f", reinterpret_cast<const void *>(static_cast<S1>(::fn##f))},
#define BINARY(fn)                                                                                                     \
  {#fn, reinterpret_cast<const void *>(static_cast<F2>(::fn))},                                                        \
      {#fn "f", reinterpret_cast<const void *>(static_cast<S2>(::fn##f))},

std::span<const ExternalSymbol> externalSymbols() {
  static const std::vector<ExternalSymbol> table = [] {
    std::vector<ExternalSymbol> symbols = {
        {"memcmp", reinterpret_cast<const void *>(static_cast<int (*)(const void *, const void *, size_t)>(::memcmp))},
        {"memcpy", reinterpret_cast<const void *>(static_cast<void *(*)(void *, const void *, size_t)>(::memcpy))},
        {"memmove", reinterpret_cast<const void *>(static_cast<void *(*)(void *, const void *, size_t)>(::memmove))},
        {"memset", reinterpret_cast<const void *>(static_cast<void *(*)(void *, int, size_t)>(::memset))},
        {"lgamma", reinterpret_cast<const void *>(static_cast<F1>(lgammaOf))},
        {"lgammaf", reinterpret_cast<const void *>(static_cast<S1>(lgammafOf))},
        UNARY(exp) UNARY(exp2) UNARY(expm1) UNARY(log) UNARY(log2) UNARY(log10) UNARY(log1p) UNARY(cbrt) UNARY(sin)
            UNARY(cos) UNARY(tan) UNARY(asin) UNARY(acos) UNARY(atan) UNARY(sinh) UNARY(cosh) UNARY(tanh) UNARY(asinh)
                UNARY(acosh) UNARY(atanh) UNARY(erf) UNARY(erfc) UNARY(tgamma) UNARY(j0) UNARY(j1) UNARY(y0) UNARY(y1)
                    BINARY(pow) BINARY(atan2) BINARY(fmod) BINARY(remainder) BINARY(hypot) BINARY(nextafter)};
    std::sort(symbols.begin(), symbols.end(), [](auto &a, auto &b) { return a.name < b.name; });
    return symbols;
  }();
  return table;
}

} // namespace tilewright
