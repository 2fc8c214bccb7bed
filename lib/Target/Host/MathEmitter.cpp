//===- MathEmitter.cpp - writing formulas ------------------------------------------------------------------------===//

#include "MathEmitter.h"

using namespace mlir;

namespace tilewright::host {

Type MathEmitter::shaped(Type element) const {
  if (auto vector = dyn_cast<VectorType>(like))
    return VectorType::get(vector.getShape(), element);
  return element;
}

static Value constantOf(ImplicitLocOpBuilder &b, Type type, TypedAttr element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return b.create<arith::ConstantOp>(DenseElementsAttr::get(vector, Attribute(element)));
  return b.create<arith::ConstantOp>(element);
}

Value MathEmitter::constant(Type type, double value) {
  auto element = cast<FloatType>(getElementTypeOrSelf(type));
  return constantOf(b, type, b.getFloatAttr(element, value));
}

Value MathEmitter::integer(Type type, int64_t value) {
  return constantOf(b, type, b.getIntegerAttr(getElementTypeOrSelf(type), value));
}

Value MathEmitter::mulAdd(Value x, Value y, Value z) {
  if (target.fma)
    return b.create<math::FmaOp>(x, y, z);
  return add(mul(x, y), z);
}

Value MathEmitter::polynomial(Value x, ArrayRef<double> coefficients) {
  Value sum = sameType(x, coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = mulAdd(sum, x, sameType(x, coefficient));
  return sum;
}

Value MathEmitter::logicalNot(Value x) { return bitXor(x, integer(x.getType(), 1)); }

Value MathEmitter::shiftLeft(Value x, int64_t bits) { return b.create<arith::ShLIOp>(x, integer(x.getType(), bits)); }
Value MathEmitter::shiftRight(Value x, int64_t bits) { return b.create<arith::ShRUIOp>(x, integer(x.getType(), bits)); }
Value MathEmitter::shiftRightSigned(Value x, int64_t bits) {
  return b.create<arith::ShRSIOp>(x, integer(x.getType(), bits));
}

Value MathEmitter::bits(Value x) {
  unsigned width = getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth();
  return b.create<arith::BitcastOp>(shaped(b.getIntegerType(width)), x);
}

Value MathEmitter::floatOf(Value bits) {
  Type element = getElementTypeOrSelf(bits.getType()).isInteger(64) ? Type(b.getF64Type()) : Type(b.getF32Type());
  return b.create<arith::BitcastOp>(shaped(element), bits);
}

MathEmitter::Rounded MathEmitter::round(Value x) {
  bool wide = getElementTypeOrSelf(x.getType()).isF64();
  Value magic = sameType(x, wide ? 0x1.8p52 : 0x1.8p23);
  Value shifted = add(x, magic);
  return {sub(shifted, magic), subi(bits(shifted), bits(magic))};
}

Value MathEmitter::powerOfTwo(Value n) {
  bool wide = getElementTypeOrSelf(n.getType()).isInteger(64);
  return floatOf(shiftLeft(addi(n, integer(n.getType(), wide ? 1023 : 127)), wide ? 52 : 23));
}

} // namespace tilewright::host
