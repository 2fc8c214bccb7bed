//===- MathTrig.cpp - trigonometric functions and their inverses -------------------------------------------------===//

#include "MathCoefficients.h"
#include "MathFunctions.h"

#include <limits>

using namespace mlir;

namespace tilewright::host {

static constexpr double kPi = 0x1.921fb54442d18p+1, kHalfPi = kPi / 2, kQuarterPi = kPi / 4;

// Up to here the reduction below is exact enough: k has 20 bits, the first part of pi/2 33.
static constexpr double kReductionLimit = 0x1p20;

namespace {

/// |x| = k pi/2 + r, |r| <= pi/4.
struct Reduced {
  Value quadrant; // k, i64
  Value sin, cos; // of r, f64
};

} // namespace

/// With k < 2^20, k times the first part is exact, and the rest of pi/2 is known to 2^-86: relative to the smallest r
/// that an f32 below the limit leaves (about 2^-30) that is below 2^-36.
static Reduced reduceAngle(MathEmitter &m, Value magnitude) {
  constexpr double first = 0x1.921fb54400000p+0, second = 0x1.0b4611a626331p-34;
  Value a = m.widen(magnitude);
  auto [number, k] = m.round(m.mul(a, m.d(0x1.45f306dc9c883p-1)));
  Value r = m.sub(m.sub(a, m.mul(number, m.d(first))), m.mul(number, m.d(second)));
  Value u = m.mul(r, r);
  Value sin = m.mulAdd(m.mul(u, r), m.polynomial(u, coefficients::sinF64), r);
  Value cos = m.mulAdd(m.mul(u, u), m.polynomial(u, coefficients::cosF64), m.mulAdd(u, m.d(-0.5), m.d(1.0)));
  return {k, sin, cos};
}

static Value bit(MathEmitter &m, Value integer, int64_t mask) {
  return m.compare(MathEmitter::CompareInt::ne, m.bitAnd(integer, m.integer(m.i64(), mask)), m.integer(m.i64(), 0));
}

/// Large angles go to libm, lane by lane: reducing them takes hundreds of bits of 2/pi. Infinity comes along and gives
/// NaN.
static Value withLargeAngles(MathEmitter &m, Value x, StringRef function, llvm::function_ref<Value()> fast) {
  Value large = m.greater(m.abs(x), m.f(kReductionLimit));
  return unlessRare(m, large, m.f32(), fast, [&] { return m.narrow(callLibm(m, function, m.widen(x))); });
}

Value emitSin(MathEmitter &m, Value x) {
  return withLargeAngles(m, x, "sin", [&] {
    Reduced r = reduceAngle(m, m.abs(x));
    Value y = m.select(bit(m, r.quadrant, 1), r.cos, r.sin);
    y = m.narrow(m.select(bit(m, r.quadrant, 2), m.neg(y), y));
    return m.select(m.less(m.copySign(m.f(1.0), x), m.f(0.0)), m.neg(y), y);
  });
}

Value emitCos(MathEmitter &m, Value x) {
  return withLargeAngles(m, x, "cos", [&] {
    Reduced r = reduceAngle(m, m.abs(x));
    Value y = m.select(bit(m, r.quadrant, 1), r.sin, r.cos);
    Value next = m.addi(r.quadrant, m.integer(m.i64(), 1));
    return m.narrow(m.select(bit(m, next, 2), m.neg(y), y));
  });
}

Value emitTan(MathEmitter &m, Value x) {
  return withLargeAngles(m, x, "tan", [&] {
    Reduced r = reduceAngle(m, m.abs(x));
    Value odd = bit(m, r.quadrant, 1);
    Value y = m.narrow(m.div(m.select(odd, m.neg(r.cos), r.sin), m.select(odd, r.sin, r.cos)));
    return m.select(m.less(m.copySign(m.f(1.0), x), m.f(0.0)), m.neg(y), y);
  });
}

/// atan of t >= 0 (f64, infinity included): beyond tan(3 pi/8) through -1/t, beyond tan(pi/8) through (t - 1) / (t +
/// 1), with one division.
static Value atanF64(MathEmitter &m, Value t) {
  Value one = m.d(1.0);
  Value far = m.greater(t, m.d(0x1.3504f333f9de6p+1)), middle = m.greater(t, m.d(0x1.a827999fcef32p-2));
  Value numerator = m.select(far, m.d(-1.0), m.select(middle, m.sub(t, one), t));
  Value denominator = m.select(far, t, m.select(middle, m.add(t, one), one));
  Value start = m.select(far, m.d(kHalfPi), m.select(middle, m.d(kQuarterPi), m.d(0.0)));
  Value s = m.div(numerator, denominator);
  Value u = m.mul(s, s);
  return m.add(start, m.mulAdd(m.mul(u, s), m.polynomial(u, coefficients::atanF64), s));
}

Value emitAtan(MathEmitter &m, Value x) { return m.copySign(m.narrow(atanF64(m, m.abs(m.widen(x)))), x); }

/// asin(a) = atan(a / sqrt((1 - a) (1 + a))); beyond 1 the root is NaN.
Value emitAsin(MathEmitter &m, Value x) {
  Value a = m.abs(m.widen(x)), one = m.d(1.0);
  Value t = m.div(a, m.sqrt(m.mul(m.sub(one, a), m.add(one, a))));
  return m.copySign(m.narrow(atanF64(m, t)), x);
}

/// acos(x) = 2 atan(sqrt((1 - x) / (1 + x))).
Value emitAcos(MathEmitter &m, Value x) {
  Value wide = m.widen(x), one = m.d(1.0);
  Value half = atanF64(m, m.sqrt(m.div(m.sub(one, wide), m.add(one, wide))));
  return m.narrow(m.add(half, half));
}

Value emitAtan2(MathEmitter &m, Value y, Value x) {
  Value a = m.abs(m.widen(y)), b = m.abs(m.widen(x));
  Value zero = m.d(0.0), inf = m.d(std::numeric_limits<double>::infinity());
  Value t = m.div(a, b);
  t = m.select(m.equal(a, zero), m.select(m.isNan(b), b, zero), t); // 0/0 is 0
  t = m.select(m.bitAnd(m.equal(a, inf), m.equal(b, inf)), m.d(1.0), t);
  Value angle = atanF64(m, t);
  Value left = m.less(m.copySign(m.f(1.0), x), m.f(0.0)); // -0 counts
  angle = m.select(left, m.sub(m.d(kPi), angle), angle);
  return m.copySign(m.narrow(angle), y);
}

} // namespace tilewright::host
