//===- MathRound.cpp - rounding, fused products and remainders ---------------------------------------------------===//

#include "MathFunctions.h"

#include <limits>

using namespace mlir;

namespace tilewright::host {

/// From here on every number is an integer.
static double wholeFrom(Value x) { return getElementTypeOrSelf(x.getType()).isF64() ? 0x1p52 : 0x1p23; }

/// |x| rounded to nearest even by adding and subtracting where a unit in the last place is 1; large numbers, infinity
/// and NaN stay.
static Value roundMagnitude(MathEmitter &m, Value a) {
  Value whole = m.sameType(a, wholeFrom(a));
  return m.select(m.less(a, whole), m.sub(m.add(a, whole), whole), a);
}

Value emitRoundEven(MathEmitter &m, Value x) { return m.copySign(roundMagnitude(m, m.abs(x)), x); }

Value emitTrunc(MathEmitter &m, Value x) {
  Value a = m.abs(x), r = roundMagnitude(m, a);
  r = m.select(m.greater(r, a), m.sub(r, m.sameType(x, 1.0)), r);
  return m.copySign(r, x);
}

Value emitFloor(MathEmitter &m, Value x) {
  Value r = emitRoundEven(m, x);
  r = m.select(m.greater(r, x), m.sub(r, m.sameType(x, 1.0)), r);
  return m.copySign(r, x); // only zeros change
}

Value emitCeil(MathEmitter &m, Value x) {
  Value r = emitRoundEven(m, x);
  r = m.select(m.less(r, x), m.add(r, m.sameType(x, 1.0)), r);
  return m.copySign(r, x);
}

/// Adding the number just below 1/2 carries exactly the halves and more over the next integer.
Value emitRound(MathEmitter &m, Value x) {
  double belowHalf = getElementTypeOrSelf(x.getType()).isF64() ? 0x1.fffffffffffffp-2 : 0x1.fffffep-2;
  Value moved = m.add(x, m.copySign(m.sameType(x, belowHalf), x));
  return m.target.roundInsn ? Value(m.b.create<math::TruncOp>(moved)) : emitTrunc(m, moved);
}

/// In f64 the product is exact and the sum s is rounded; what it lost is known exactly (Knuth's two-sum). Setting the
/// last bit of s where something was lost (rounding to odd) keeps the second rounding, to f32, from being misled (Boldo
/// and Melquiond 2008).
Value emitFma(MathEmitter &m, Value x, Value y, Value z) {
  Value p = m.mul(m.widen(x), m.widen(y)), c = m.widen(z);
  Value s = m.add(p, c);
  Value back = m.sub(s, p);
  Value lost = m.add(m.sub(p, m.sub(s, back)), m.sub(c, back));
  Type i64 = m.i64();
  Value bits = m.bits(s), zero = m.d(0.0);
  using Compare = MathEmitter::Compare;
  Value inexact =
      m.bitAnd(m.compare(Compare::ONE, lost, zero), m.less(m.abs(s), m.d(std::numeric_limits<double>::infinity())));
  Value even = m.compare(MathEmitter::CompareInt::eq, m.bitAnd(bits, m.integer(i64, 1)), m.integer(i64, 0));
  // Away from zero if the lost part has the sum's sign, else towards it.
  Value outward = m.compare(MathEmitter::CompareInt::eq, m.less(lost, zero), m.less(s, zero));
  Value moved = m.select(outward, m.addi(bits, m.integer(i64, 1)), m.subi(bits, m.integer(i64, 1)));
  return m.narrow(m.floatOf(m.select(m.bitAnd(inexact, even), moved, bits)));
}

/// |x| - q |y| with q = trunc(|x| / |y|) in f64: exact while q has no more than 29 bits, which with the 24 of y fit 53.
/// The quotient may have been rounded up to an integer; then the remainder is negative. Larger quotients go to libm.
Value emitFmod(MathEmitter &m, Value x, Value y) {
  Value a = m.abs(m.widen(x)), b = m.abs(m.widen(y));
  Value quotient = m.div(a, b);
  Value large = m.compare(MathEmitter::Compare::OGE, quotient, m.d(0x1p29));
  return unlessRare(
      m, large, m.f32(),
      [&] {
        Value q = m.target.roundInsn ? Value(m.b.create<math::TruncOp>(quotient)) : emitTrunc(m, quotient);
        Value r = m.sub(a, m.mul(q, b));
        r = m.select(m.less(r, m.d(0.0)), m.add(r, b), r);
        r = m.select(m.equal(b, m.d(std::numeric_limits<double>::infinity())), a, r);
        return m.copySign(m.narrow(r), x);
      },
      [&] { return m.narrow(callLibm(m, "fmod", {m.widen(x), m.widen(y)})); });
}

} // namespace tilewright::host
