//===- MathLog.cpp - logarithms, powers and inverse hyperbolic functions -----------------------------------------===//

#include "MathCoefficients.h"
#include "MathFunctions.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tilewright::host {

static constexpr double kInf = std::numeric_limits<double>::infinity();
static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
static constexpr double kLn2 = 0x1.62e42fefa39efp-1, kLog2E = 0x1.71547652b82fep+0, kLog10E = 0x1.bcb7b1526e50ep-2;

/// What a logarithm is at 0 and below, at infinity and at NaN.
static Value withSpecialValues(MathEmitter &m, Value x, Value log) {
  Value y = m.select(m.less(x, m.f(kInf)), log, x); // infinity and NaN stay
  y = m.select(m.less(x, m.f(0.0)), m.f(kNan), y);
  return m.select(m.equal(x, m.f(0.0)), m.f(-kInf), y);
}

/// x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); log(1 + f) = f - f^2/2 + f^3 P(f).
Value emitLog(MathEmitter &m, Value x) {
  constexpr double ln2Hi = 0.693359375, ln2Lo = -2.1219444005469057e-4;
  Value denormal = m.less(x, m.f(0x1p-126));
  Value bits = m.bits(m.select(denormal, m.mul(x, m.f(0x1p23)), x));
  Value root = m.i(0x3f3504f3); // sqrt(1/2)
  Value e = m.shiftRightSigned(m.subi(bits, root), 23);
  Value f = m.sub(m.floatOf(m.subi(bits, m.shiftLeft(e, 23))), m.f(1.0));
  e = m.select(denormal, m.subi(e, m.i(23)), e);
  Value exponent = m.b.create<arith::SIToFPOp>(m.f32(), e);
  Value square = m.mul(f, f);
  Value low = m.mulAdd(m.mul(f, square), m.polynomial(f, coefficients::logF32), m.mul(exponent, m.f(ln2Lo)));
  low = m.mulAdd(square, m.f(-0.5), low);
  Value y = m.mulAdd(exponent, m.f(ln2Hi), m.add(f, low));
  return withSpecialValues(m, x, y);
}

namespace {

/// log(x) = e ln(2) + log(1 + f); x is a positive normal f64.
struct SplitLog {
  Value exponent; // f64, an integer
  Value mantissa; // log(1 + f)
};

} // namespace

/// log(1 + f) = 2 atanh(s), s = f / (2 + f).
static SplitLog splitLog(MathEmitter &m, Value x) {
  Type i64 = m.i64();
  Value bits = m.bits(x);
  // The exponent as a number: added below the bits of 2^52, where a unit in the last place is 1. Biased to stay
  // positive.
  constexpr int64_t root = 0x3fe6a09e667f3bcd; // sqrt(1/2)
  Value shifted = m.subi(bits, m.integer(i64, root - (int64_t(1023) << 52)));
  Value biased = m.shiftRight(shifted, 52);
  Value number = m.sub(m.floatOf(m.bitOr(biased, m.integer(i64, 0x4330000000000000))), m.d(0x1p52 + 1023.0));
  Value e = m.shiftLeft(m.subi(biased, m.integer(i64, 1023)), 52);
  Value f = m.sub(m.floatOf(m.subi(bits, e)), m.d(1.0));
  Value s = m.div(f, m.add(f, m.d(2.0)));
  Value u = m.mul(s, s);
  Value log = m.mulAdd(m.mul(u, s), m.polynomial(u, coefficients::logF64), m.add(s, s));
  return {number, log};
}

Value emitLog2(MathEmitter &m, Value x) {
  auto [e, log] = splitLog(m, m.widen(x));
  return withSpecialValues(m, x, m.narrow(m.mulAdd(log, m.d(kLog2E), e)));
}

Value emitLog10(MathEmitter &m, Value x) {
  auto [e, log] = splitLog(m, m.widen(x));
  return withSpecialValues(m, x, m.narrow(m.mul(m.mulAdd(e, m.d(kLn2), log), m.d(kLog10E))));
}

/// log(1 + x) of a finite f64 x > -1. With u = 1 + x rounded, log(1 + x) = log(u) + (x - (u - 1)) / u to second order
/// of what was lost.
static Value log1pF64(MathEmitter &m, Value x) {
  Value u = m.add(x, m.d(1.0));
  auto [e, log] = splitLog(m, u);
  Value lost = m.div(m.sub(x, m.sub(u, m.d(1.0))), u);
  return m.add(m.mulAdd(e, m.d(kLn2), log), lost);
}

Value emitLog1p(MathEmitter &m, Value x) {
  Value y = m.copySign(m.narrow(log1pF64(m, m.widen(x))), x);
  y = m.select(m.less(x, m.f(kInf)), y, x);
  y = m.select(m.less(x, m.f(-1.0)), m.f(kNan), y);
  return m.select(m.equal(x, m.f(-1.0)), m.f(-kInf), y);
}

/// asinh(a) = log1p(a + a^2 / (1 + sqrt(a^2 + 1))): nothing cancels, and f64 holds the square of every f32.
Value emitAsinh(MathEmitter &m, Value x) {
  Value a = m.abs(m.widen(x)), square = m.mul(a, a);
  Value argument = m.add(a, m.div(square, m.add(m.sqrt(m.add(square, m.d(1.0))), m.d(1.0))));
  Value y = m.copySign(m.narrow(log1pF64(m, argument)), x);
  return m.select(m.less(m.abs(x), m.f(kInf)), y, x);
}

/// With t = x - 1: acosh(x) = log1p(t + sqrt(t (t + 2))).
Value emitAcosh(MathEmitter &m, Value x) {
  Value t = m.sub(m.widen(x), m.d(1.0));
  Value y = m.narrow(log1pF64(m, m.add(t, m.sqrt(m.mul(t, m.add(t, m.d(2.0)))))));
  y = m.select(m.less(x, m.f(1.0)), m.f(kNan), y);
  return m.select(m.less(x, m.f(kInf)), y, x);
}

/// atanh(a) = log1p(2 a / (1 - a)) / 2.
Value emitAtanh(MathEmitter &m, Value x) {
  Value a = m.abs(m.widen(x));
  Value argument = m.div(m.add(a, a), m.sub(m.d(1.0), a));
  Value y = m.narrow(m.mul(log1pF64(m, argument), m.d(0.5)));
  Value magnitude = m.abs(x);
  y = m.select(m.equal(magnitude, m.f(1.0)), m.f(kInf), y);
  y = m.select(m.greater(magnitude, m.f(1.0)), m.f(kNan), y);
  return m.copySign(y, x);
}

/// |x|^y = 2^(y log2 |x|) in f64, where the product's error is below 2^-42: the result is off by little more than half
/// an ULP. Then the sign and C's list of special values.
Value emitPow(MathEmitter &m, Value x, Value y) {
  Value base = m.abs(x), exponent = m.widen(y);
  auto [e, log] = splitLog(m, m.widen(base));
  Value t = m.mul(exponent, m.mulAdd(log, m.d(kLog2E), e));
  Value limit = m.d(200.0), bottom = m.d(-200.0);
  t = m.select(m.greater(t, limit), limit, t);
  t = m.select(m.less(t, bottom), bottom, t);
  auto [number, n] = m.round(t);
  Value r = m.mul(m.sub(t, number), m.d(kLn2));
  Value excess = m.mulAdd(m.mul(r, r), m.polynomial(r, coefficients::expF64), r);
  Value power = m.narrow(m.mul(m.add(excess, m.d(1.0)), m.powerOfTwo(n)));

  Value zero = m.f(0.0), one = m.f(1.0), inf = m.f(kInf);
  Value yMagnitude = m.abs(y), yNegative = m.less(y, zero);
  // 0 and infinity to a power; |x| = 1 to any, infinite ones included.
  Value inverse = m.select(yNegative, inf, zero);
  power = m.select(m.equal(base, zero), inverse, power);
  power = m.select(m.equal(base, inf), m.select(yNegative, zero, inf), power);
  power = m.select(m.bitAnd(m.equal(base, one), m.equal(yMagnitude, inf)), one, power);
  // Integers of f32 above 2^24 are even.
  auto [whole, integer] = m.round(exponent);
  Value small = m.less(yMagnitude, m.f(0x1p24));
  Value isInteger = m.bitOr(m.logicalNot(small), m.equal(whole, exponent));
  Value lowBit =
      m.compare(MathEmitter::CompareInt::ne, m.bitAnd(integer, m.integer(m.i64(), 1)), m.integer(m.i64(), 0));
  Value odd = m.bitAnd(m.bitAnd(small, isInteger), lowBit);
  power = m.select(odd, m.copySign(power, x), power);
  Value finiteNegative = m.bitAnd(m.less(x, zero), m.less(base, inf));
  power = m.select(m.bitAnd(finiteNegative, m.logicalNot(isInteger)), m.f(kNan), power);
  // NaN in one operand, unless the other one decides.
  power = m.select(m.compare(MathEmitter::Compare::UNO, x, y), m.f(kNan), power);
  Value decided = m.bitOr(m.equal(y, zero), m.equal(x, one));
  return m.select(decided, one, power);
}

} // namespace tilewright::host
