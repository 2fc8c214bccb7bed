//===- MathExp.cpp - exponential and hyperbolic functions --------------------------------------------------------===//

#include "MathAvx512.h"
#include "MathCoefficients.h"
#include "MathFunctions.h"

#include <limits>

using namespace mlir;

namespace tilewright::host {

// ln(2) in two parts: the first has 9 bits, so that its products with exponents are exact in f32 with or without fma.
static constexpr double kLn2Hi = 0.693359375, kLn2Lo = -2.1219444005469057e-4;
static constexpr double kLog2E = 1.4426950408889634;

namespace {

/// 2^n y, n near x / unit.
struct Quotient {
  Value number;  // n, f32
  Value integer; // n, i32; only where there is no instruction that scales by a float
};

} // namespace

static Quotient roundQuotient(MathEmitter &m, Value x) {
  if (hasWholeAvx512Vectors(m))
    return {m.b.create<math::RoundEvenOp>(x), {}};
  auto [number, integer] = m.round(x);
  return {number, integer};
}

/// y * 2^n for -252 <= n <= 254: in two factors, since 2^n alone may be no normal number. The first product is exact,
/// the second one rounds once, also to a denormal.
static Value scale(MathEmitter &m, Value y, Quotient quotient) {
  Value n = quotient.integer;
  if (!n)
    return emitScalef(m, y, quotient.number);
  Value half = m.shiftRightSigned(n, 1);
  return m.mul(m.mul(y, m.powerOfTwo(half)), m.powerOfTwo(m.subi(n, half)));
}

/// NaN passes: comparisons with it are false.
static Value clamp(MathEmitter &m, Value x, double low, double high) {
  Value top = m.sameType(x, high), bottom = m.sameType(x, low);
  Value y = m.select(m.greater(x, top), top, x);
  return m.select(m.less(y, bottom), bottom, y);
}

/// e^x = 2^n e^r. Beyond the limits the result is infinity or zero anyway.
Value emitExp(MathEmitter &m, Value x) {
  x = clamp(m, x, -104.0, 89.0);
  Quotient n = roundQuotient(m, m.mul(x, m.f(kLog2E)));
  Value r = m.mulAdd(n.number, m.f(-kLn2Hi), x);
  r = m.mulAdd(n.number, m.f(-kLn2Lo), r);
  Value p = m.polynomial(r, coefficients::expF32);
  Value y = m.add(m.mulAdd(m.mul(r, r), p, r), m.f(1.0));
  return scale(m, y, n);
}

Value emitExp2(MathEmitter &m, Value x) {
  x = clamp(m, x, -151.0, 129.0);
  Quotient n = roundQuotient(m, x);
  Value r = m.sub(x, n.number); // exact
  Value y = m.mulAdd(r, m.polynomial(r, coefficients::exp2F32), m.f(1.0));
  return scale(m, y, n);
}

ReducedExp reduceExp(MathEmitter &m, Value x) {
  // 33 bits of ln(2), and the rest.
  constexpr double hi = 0x1.62e42fee00000p-1, lo = 0x1.a39ef35793c76p-33;
  auto [number, n] = m.round(m.mul(x, m.d(kLog2E)));
  Value r = m.sub(m.sub(x, m.mul(number, m.d(hi))), m.mul(number, m.d(lo)));
  return {n, m.mulAdd(m.mul(r, r), m.polynomial(r, coefficients::expF64), r)};
}

/// e^x - 1 = 2^n (e^r - 1) + (2^n - 1) in f64, for |x| < 700. For small x n is 0 and nothing cancels.
static Value expm1F64(MathEmitter &m, Value x) {
  auto [n, excess] = reduceExp(m, x);
  Value power = m.powerOfTwo(n);
  return m.mulAdd(power, excess, m.sub(power, m.d(1.0)));
}

Value emitExpm1(MathEmitter &m, Value x) {
  Value y = m.narrow(expm1F64(m, m.widen(clamp(m, x, -104.0, 89.0))));
  return m.copySign(y, x);
}

Value emitSinh(MathEmitter &m, Value x) {
  Value e = expm1F64(m, m.widen(clamp(m, m.abs(x), 0.0, 92.0)));
  Value y = m.add(e, m.div(e, m.add(e, m.d(1.0))));
  return m.copySign(m.narrow(m.mul(y, m.d(0.5))), x);
}

Value emitCosh(MathEmitter &m, Value x) {
  Value e = m.add(expm1F64(m, m.widen(clamp(m, m.abs(x), 0.0, 92.0))), m.d(1.0));
  return m.narrow(m.mul(m.add(e, m.div(m.d(1.0), e)), m.d(0.5)));
}

/// Near zero a polynomial, elsewhere 1 - 2 / (e^2|x| + 1), where the error of exp weighs at most half.
Value emitTanh(MathEmitter &m, Value x) {
  if (hasWholeAvx512Vectors(m))
    return emitOddByTable(m, x, coefficients::tanhTableStep, coefficients::tanhTable);
  Value a = m.abs(x);
  Value u = m.mul(x, x);
  Value near = m.mulAdd(m.mul(u, a), m.polynomial(u, coefficients::tanhF32), a);
  Value e = emitExp(m, m.add(a, a));
  Value far = m.sub(m.f(1.0), m.div(m.f(2.0), m.add(e, m.f(1.0))));
  return m.copySign(m.select(m.less(a, m.f(0.65)), near, far), x);
}

} // namespace tilewright::host
