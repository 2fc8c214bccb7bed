//===- MathErf.cpp - the error function and its complement -------------------------------------------------------===//

#include "MathAvx512.h"
#include "MathCoefficients.h"
#include "MathFunctions.h"

using namespace mlir;

namespace tilewright::host {

/// |x| < 1: x + x P(x^2). Else 1 - e^(-x Q(x)) with Q fitted to -log(erfc(x)) / x: the error of the exponential is that
/// of erfc, which is small against 1. From 4 on erf is 1 in f32.
Value emitErf(MathEmitter &m, Value x) {
  if (hasWholeAvx512Vectors(m))
    return emitOddByTable(m, x, coefficients::erfTableStep, coefficients::erfTable);
  Value a = m.abs(x);
  Value near = m.mulAdd(a, m.polynomial(m.mul(a, a), coefficients::erfNearF32), a);
  Value top = m.f(4.0);
  Value bounded = m.select(m.greater(a, top), top, a);
  Value exponent = m.mul(bounded, m.polynomial(bounded, coefficients::erfFarF32));
  Value far = m.sub(m.f(1.0), emitExp(m, m.neg(exponent)));
  return m.copySign(m.select(m.less(a, m.f(1.0)), near, far), x);
}

/// In f64: 1 - erf(x) below 1/2, else e^(-x^2) P((x - 2) / (x + 2)), mirrored for negative x. x^2 is exact.
Value emitErfc(MathEmitter &m, Value x) {
  Value wide = m.widen(x), a = m.abs(wide);
  Value near = m.sub(m.d(1.0), m.mul(wide, m.polynomial(m.mul(wide, wide), coefficients::erfF64)));
  Value top = m.d(10.3); // erfc is below half the smallest denormal
  Value bounded = m.select(m.greater(a, top), top, a);
  Value t = m.div(m.sub(bounded, m.d(2.0)), m.add(bounded, m.d(2.0)));
  auto [n, excess] = reduceExp(m, m.neg(m.mul(bounded, bounded)));
  Value e = m.mul(m.add(excess, m.d(1.0)), m.powerOfTwo(n));
  Value far = m.mul(e, m.polynomial(t, coefficients::erfcF64));
  far = m.select(m.less(wide, m.d(0.0)), m.sub(m.d(2.0), far), far);
  return m.narrow(m.select(m.less(a, m.d(0.5)), near, far));
}

} // namespace tilewright::host
