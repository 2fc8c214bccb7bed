//===- MathHalf.cpp - bf16 and f16 -------------------------------------------------------------------------------===//
//
// The CPU's instruction for bf16 (AVX512-BF16) takes denormals for zero, so bf16 is converted on integers on every
// level. F16C converts as IEEE 754 says.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "MathFunctions.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tilewright::host {

static Value halfBits(MathEmitter &m, Value x) { return m.b.create<arith::BitcastOp>(m.i16(), x); }

static Value halfOf(MathEmitter &m, Value bits32, Type element) {
  Value bits = m.b.create<arith::TruncIOp>(m.i16(), bits32);
  return m.b.create<arith::BitcastOp>(m.shaped(element), bits);
}

/// The exponent moves by 112; as a product with 2^112, which makes denormals normal by itself.
static Value f16ToFloat(MathEmitter &m, Value bits) {
  Value magnitude = m.bitAnd(bits, m.i(0x7fff));
  Value scaled = m.bits(m.mul(m.floatOf(m.shiftLeft(magnitude, 13)), m.f(0x1p112)));
  Value special = m.compare(MathEmitter::CompareInt::uge, magnitude, m.i(0x7c00)); // infinity and NaN
  scaled = m.select(special, m.bitOr(scaled, m.i(0x7f800000)), scaled);
  Value isNan = m.compare(MathEmitter::CompareInt::ugt, magnitude, m.i(0x7c00));
  scaled = m.select(isNan, m.bitOr(scaled, m.i(0x00400000)), scaled);
  return m.floatOf(m.bitOr(scaled, m.shiftLeft(m.bitAnd(bits, m.i(0x8000)), 16)));
}

Value emitHalfToFloat(MathEmitter &m, Value x) {
  Type element = getElementTypeOrSelf(x.getType());
  if (element.isBF16())
    return m.floatOf(m.shiftLeft(m.b.create<arith::ExtUIOp>(m.i32(), halfBits(m, x)), 16));
  if (m.target.f16c) {
    Value half = m.b.create<LLVM::BitcastOp>(m.shaped(element), halfBits(m, x));
    return m.b.create<arith::ExtFOp>(m.f32(), half);
  }
  return f16ToFloat(m, m.b.create<arith::ExtUIOp>(m.i32(), halfBits(m, x)));
}

/// Round to nearest even: add half a unit less one, and one more if the kept part is odd; the carry may go up to
/// infinity.
static Value floatToBf16(MathEmitter &m, Value x) {
  Value bits = m.bits(x);
  Value odd = m.bitAnd(m.shiftRight(bits, 16), m.i(1));
  Value rounded = m.shiftRight(m.addi(bits, m.addi(odd, m.i(0x7fff))), 16);
  Value quiet = m.bitOr(m.shiftRight(bits, 16), m.i(0x40));
  return m.select(m.isNan(x), quiet, rounded);
}

static Value floatToF16(MathEmitter &m, Value x) {
  Value bits = m.bits(x);
  Value magnitude = m.bitAnd(bits, m.i(0x7fffffff)), a = m.floatOf(magnitude);
  Value odd = m.bitAnd(m.shiftRight(magnitude, 13), m.i(1));
  Value rebased = m.subi(magnitude, m.i(112 << 23));
  Value normal = m.shiftRight(m.addi(rebased, m.addi(odd, m.i(0xfff))), 13);
  // A unit in the last place of 1/2 is that of f16's denormals: the addition rounds.
  Value denormal = m.subi(m.bits(m.add(a, m.f(0.5))), m.i(0x3f000000));
  Value half = m.select(m.less(a, m.f(0x1p-14)), denormal, normal);
  half = m.select(m.compare(MathEmitter::Compare::OGE, a, m.f(65520.0)), m.i(0x7c00), half);
  Value payload = m.bitOr(m.bitAnd(m.shiftRight(magnitude, 13), m.i(0x3ff)), m.i(0x7e00));
  half = m.select(m.isNan(x), payload, half);
  return m.bitOr(half, m.bitAnd(m.shiftRight(bits, 16), m.i(0x8000)));
}

Value emitFloatToHalf(MathEmitter &m, Value x, Type element) {
  if (element.isBF16())
    return halfOf(m, floatToBf16(m, x), element);
  if (m.target.f16c) {
    Value half = m.b.create<arith::TruncFOp>(m.shaped(element), x);
    Value bits = m.b.create<LLVM::BitcastOp>(m.i16(), half);
    return m.b.create<arith::BitcastOp>(m.shaped(element), bits);
  }
  return halfOf(m, floatToF16(m, x), element);
}

} // namespace tilewright::host
