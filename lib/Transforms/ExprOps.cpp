//===- ExprOps.cpp - one scalar operation as arith and math ---------------===//

#include "ExprEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;

namespace tilewright::loop {

Value ExprEmitter::like(Value shape, double floatValue, int64_t intValue) {
  Type element = getElementTypeOrSelf(shape.getType());
  TypedAttr attr = isa<FloatType>(element) ? TypedAttr(b.getFloatAttr(element, floatValue))
                                           : TypedAttr(b.getIntegerAttr(element, intValue));
  if (auto tensor = dyn_cast<RankedTensorType>(shape.getType()))
    attr = DenseElementsAttr::get(tensor, attr);
  return b.create<arith::ConstantOp>(loc, attr);
}

Value ExprEmitter::emitCast(Value x, DType from, DType to) {
  if (from == to)
    return x;
  Type target = elementType(to);
  if (auto tensor = dyn_cast<RankedTensorType>(x.getType()))
    target = RankedTensorType::get(tensor.getShape(), target);
  if (to == DType::Bool) {
    if (isFloat(from))
      return b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::UNE, x, like(x, 0, 0));
    return b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::ne, x, like(x, 0, 0));
  }
  if (isFloat(from) && isFloat(to)) {
    size_t a = sizeOf(from), c = sizeOf(to);
    if (a == c) // bf16 and f16: neither holds the other
      return emitCast(emitCast(x, from, DType::F32), DType::F32, to);
    if (a < c)
      return b.create<arith::ExtFOp>(loc, target, x);
    return b.create<arith::TruncFOp>(loc, target, x);
  }
  if (isFloat(from)) {
    if (sizeOf(from) == 2)
      return emitCast(emitCast(x, from, DType::F32), DType::F32, to);
    // Through 64 bits, as PyTorch's conversions to small integers behave on this machine: they keep the low bits.
    if (sizeOf(to) < 4)
      return emitCast(emitCast(x, from, DType::I32), DType::I32, to);
    return b.create<arith::FPToSIOp>(loc, target, x);
  }
  if (isFloat(to)) {
    if (sizeOf(to) == 2)
      return emitCast(emitCast(x, from, DType::F32), DType::F32, to);
    if (isUnsigned(from))
      return b.create<arith::UIToFPOp>(loc, target, x);
    return b.create<arith::SIToFPOp>(loc, target, x);
  }
  if (from == DType::Bool)
    return b.create<arith::ExtUIOp>(loc, target, x);
  if (sizeOf(from) == sizeOf(to))
    return x; // the same bits
  if (sizeOf(from) > sizeOf(to))
    return b.create<arith::TruncIOp>(loc, target, x);
  if (isUnsigned(from))
    return b.create<arith::ExtUIOp>(loc, target, x);
  return b.create<arith::ExtSIOp>(loc, target, x);
}

Value ExprEmitter::emitIntegerDivision(ScalarOp op, DType type, Value x, Value y) {
  // The processor traps on a zero divisor and on the smallest integer by -1; such lanes divide by 1 instead. (The
  // importer reports a zero divisor as an error of data; -min is min in two's complement, and its remainder 0.)
  Value zero = like(y, 0, 0), one = like(y, 0, 1);
  Value bad = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, y, zero);
  if (!isUnsigned(type)) {
    Value minusOne = like(y, 0, -1);
    Value isMinusOne = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, y, minusOne);
    Value safe = b.create<arith::SelectOp>(loc, b.create<arith::OrIOp>(loc, bad, isMinusOne), one, y);
    if (op == ScalarOp::Mod || op == ScalarOp::FMod) {
      Value r = b.create<arith::RemSIOp>(loc, x, safe);
      if (op == ScalarOp::FMod)
        return r;
      // Python's sign: that of the divisor.
      Value nonzero = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::ne, r, zero);
      Value differ =
          b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, b.create<arith::XOrIOp>(loc, r, safe), zero);
      return b.create<arith::SelectOp>(loc, b.create<arith::AndIOp>(loc, nonzero, differ),
                                       b.create<arith::AddIOp>(loc, r, safe), r);
    }
    Value q = b.create<arith::DivSIOp>(loc, x, safe);
    if (op == ScalarOp::FloorDiv) {
      Value r = b.create<arith::SubIOp>(loc, x, b.create<arith::MulIOp>(loc, q, safe));
      Value nonzero = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::ne, r, zero);
      Value differ =
          b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, b.create<arith::XOrIOp>(loc, r, safe), zero);
      q = b.create<arith::SelectOp>(loc, b.create<arith::AndIOp>(loc, nonzero, differ),
                                    b.create<arith::SubIOp>(loc, q, one), q);
    }
    return b.create<arith::SelectOp>(loc, isMinusOne, b.create<arith::SubIOp>(loc, zero, x), q);
  }
  Value safe = b.create<arith::SelectOp>(loc, bad, one, y);
  if (op == ScalarOp::Mod || op == ScalarOp::FMod)
    return b.create<arith::RemUIOp>(loc, x, safe);
  return b.create<arith::DivUIOp>(loc, x, safe);
}

Value ExprEmitter::emitFloatModulo(ScalarOp op, DType type, Value x, Value y) {
  Value r = b.create<arith::RemFOp>(loc, x, y);
  if (op == ScalarOp::FMod)
    return r;
  Value zero = like(x, 0, 0);
  Value nonzero = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::UNE, r, zero);
  Value negativeR = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::OLT, r, zero);
  Value negativeY = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::OLT, y, zero);
  Value adjust = b.create<arith::AndIOp>(loc, nonzero, b.create<arith::XOrIOp>(loc, negativeR, negativeY));
  if (op == ScalarOp::Mod)
    return b.create<arith::SelectOp>(loc, adjust, b.create<arith::AddFOp>(loc, r, y), r);
  // Floor division as Python defines it for floats: (x - mod) / y is close to an integer; round it to that one. A
  // zero divisor gives x / y.
  Value quotient = b.create<arith::DivFOp>(loc, b.create<arith::SubFOp>(loc, x, r), y);
  quotient = b.create<arith::SelectOp>(loc, adjust, b.create<arith::SubFOp>(loc, quotient, like(x, 1, 1)), quotient);
  Value floored = b.create<math::FloorOp>(loc, quotient);
  Value far = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::OGT, b.create<arith::SubFOp>(loc, quotient, floored),
                                      like(x, 0.5, 0));
  floored = b.create<arith::SelectOp>(loc, far, b.create<arith::AddFOp>(loc, floored, like(x, 1, 1)), floored);
  Value plain = b.create<arith::DivFOp>(loc, x, y);
  Value isZero = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::OEQ, quotient, zero);
  floored = b.create<arith::SelectOp>(loc, isZero, b.create<math::CopySignOp>(loc, zero, plain), floored);
  Value byZero = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::OEQ, y, zero);
  (void)type;
  return b.create<arith::SelectOp>(loc, byZero, plain, floored);
}

Value ExprEmitter::emitOp(ExprRef e, ArrayRef<Value> x, bool) {
  DType type = e->args.empty() ? e->type : e->args[0]->type; // of the operands
  bool floating = isFloat(type), isSigned = !isUnsigned(type);
  auto unary = [&]<typename Op>() -> Value { return b.create<Op>(loc, x[0]); };
  auto binary = [&]<typename Op>() -> Value { return b.create<Op>(loc, x[0], x[1]); };
  auto floatOnly = [&] {
    if (!floating)
      throw EmitError(std::string(nameOf(e->op)) + " of " + std::string(nameOf(type)) + " has no code");
  };
  auto compare = [&](arith::CmpFPredicate f, arith::CmpIPredicate s, arith::CmpIPredicate u) -> Value {
    if (floating)
      return b.create<arith::CmpFOp>(loc, f, x[0], x[1]);
    return b.create<arith::CmpIOp>(loc, isSigned ? s : u, x[0], x[1]);
  };
#define FLOAT_INT(f, i) floating ? binary.template operator()<f>() : binary.template operator()<i>()
#define MATH(op)                                                                                                       \
  floatOnly();                                                                                                         \
  return unary.template operator()<op>()
  switch (e->op) {
  case ScalarOp::Cast:
    return emitCast(x[0], type, e->type);
  case ScalarOp::Bitcast: {
    Type target = elementType(e->type);
    if (auto tensor = dyn_cast<RankedTensorType>(x[0].getType()))
      target = RankedTensorType::get(tensor.getShape(), target);
    return target == x[0].getType() ? x[0] : Value(b.create<arith::BitcastOp>(loc, target, x[0]));
  }
  case ScalarOp::Add:
    if (type == DType::Bool)
      return binary.template operator()<arith::OrIOp>();
    return FLOAT_INT(arith::AddFOp, arith::AddIOp);
  case ScalarOp::Sub:
    return FLOAT_INT(arith::SubFOp, arith::SubIOp);
  case ScalarOp::Mul:
    if (type == DType::Bool)
      return binary.template operator()<arith::AndIOp>();
    return FLOAT_INT(arith::MulFOp, arith::MulIOp);
  case ScalarOp::Div:
    if (floating)
      return binary.template operator()<arith::DivFOp>();
    return emitIntegerDivision(e->op, type, x[0], x[1]);
  case ScalarOp::FloorDiv:
  case ScalarOp::Mod:
  case ScalarOp::FMod:
    return floating ? emitFloatModulo(e->op, type, x[0], x[1]) : emitIntegerDivision(e->op, type, x[0], x[1]);
  case ScalarOp::Fma:
    floatOnly();
    return b.create<math::FmaOp>(loc, x[0], x[1], x[2]);
  case ScalarOp::Max:
  case ScalarOp::Min:
    return combine(e->op == ScalarOp::Max ? ReduceKind::Max : ReduceKind::Min, type, x[0], x[1]);
  case ScalarOp::FMax:
    return floating ? binary.template operator()<arith::MaxNumFOp>() : combine(ReduceKind::Max, type, x[0], x[1]);
  case ScalarOp::FMin:
    return floating ? binary.template operator()<arith::MinNumFOp>() : combine(ReduceKind::Min, type, x[0], x[1]);
  case ScalarOp::Pow:
    floatOnly();
    return binary.template operator()<math::PowFOp>();
  case ScalarOp::Atan2:
    floatOnly();
    return binary.template operator()<math::Atan2Op>();
  case ScalarOp::CopySign:
    floatOnly();
    return binary.template operator()<math::CopySignOp>();
  case ScalarOp::And:
    return binary.template operator()<arith::AndIOp>();
  case ScalarOp::Or:
    return binary.template operator()<arith::OrIOp>();
  case ScalarOp::Xor:
    return binary.template operator()<arith::XOrIOp>();
  case ScalarOp::Shl:
  case ScalarOp::Shr: {
    // A shift by the width or more is undefined in hardware terms; in PyTorch it gives 0 (or the sign).
    int64_t bits = sizeOf(type) * 8;
    Value width = like(x[1], 0, bits);
    Value big = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::uge, x[1], width);
    Value amount = b.create<arith::SelectOp>(loc, big, like(x[1], 0, bits - 1), x[1]);
    if (e->op == ScalarOp::Shr && isSigned)
      return b.create<arith::ShRSIOp>(loc, x[0], amount);
    Value shifted = e->op == ScalarOp::Shl ? Value(b.create<arith::ShLIOp>(loc, x[0], amount))
                                           : Value(b.create<arith::ShRUIOp>(loc, x[0], amount));
    return b.create<arith::SelectOp>(loc, big, like(x[0], 0, 0), shifted);
  }
  case ScalarOp::Eq:
    return compare(arith::CmpFPredicate::OEQ, arith::CmpIPredicate::eq, arith::CmpIPredicate::eq);
  case ScalarOp::Ne:
    return compare(arith::CmpFPredicate::UNE, arith::CmpIPredicate::ne, arith::CmpIPredicate::ne);
  case ScalarOp::Lt:
    return compare(arith::CmpFPredicate::OLT, arith::CmpIPredicate::slt, arith::CmpIPredicate::ult);
  case ScalarOp::Le:
    return compare(arith::CmpFPredicate::OLE, arith::CmpIPredicate::sle, arith::CmpIPredicate::ule);
  case ScalarOp::Select:
    return b.create<arith::SelectOp>(loc, x[0], x[1], x[2]);
  case ScalarOp::Not:
    return b.create<arith::XOrIOp>(loc, x[0], like(x[0], 0, type == DType::Bool ? 1 : -1));
  case ScalarOp::Neg:
    return floating ? Value(b.create<arith::NegFOp>(loc, x[0]))
                    : Value(b.create<arith::SubIOp>(loc, like(x[0], 0, 0), x[0]));
  case ScalarOp::Abs:
    if (floating)
      return unary.template operator()<math::AbsFOp>();
    return isSigned ? unary.template operator()<math::AbsIOp>() : x[0];
  case ScalarOp::Floor:
    MATH(math::FloorOp);
  case ScalarOp::Ceil:
    MATH(math::CeilOp);
  case ScalarOp::Trunc:
    MATH(math::TruncOp);
  case ScalarOp::Round:
    MATH(math::RoundEvenOp);
  case ScalarOp::Sqrt:
    MATH(math::SqrtOp);
  case ScalarOp::Rsqrt:
    MATH(math::RsqrtOp);
  case ScalarOp::Exp:
    MATH(math::ExpOp);
  case ScalarOp::Exp2:
    MATH(math::Exp2Op);
  case ScalarOp::Expm1:
    MATH(math::ExpM1Op);
  case ScalarOp::Log:
    MATH(math::LogOp);
  case ScalarOp::Log2:
    MATH(math::Log2Op);
  case ScalarOp::Log10:
    MATH(math::Log10Op);
  case ScalarOp::Log1p:
    MATH(math::Log1pOp);
  case ScalarOp::Sin:
    MATH(math::SinOp);
  case ScalarOp::Cos:
    MATH(math::CosOp);
  case ScalarOp::Tan:
    MATH(math::TanOp);
  case ScalarOp::Sinh:
    MATH(math::SinhOp);
  case ScalarOp::Cosh:
    MATH(math::CoshOp);
  case ScalarOp::Tanh:
    MATH(math::TanhOp);
  case ScalarOp::Asin:
    MATH(math::AsinOp);
  case ScalarOp::Acos:
    MATH(math::AcosOp);
  case ScalarOp::Atan:
    MATH(math::AtanOp);
  case ScalarOp::Asinh:
    MATH(math::AsinhOp);
  case ScalarOp::Acosh:
    MATH(math::AcoshOp);
  case ScalarOp::Atanh:
    MATH(math::AtanhOp);
  case ScalarOp::Erf:
    MATH(math::ErfOp);
  case ScalarOp::Erfc:
    floatOnly();
    return b.create<tile::MathOp>(loc, x[0].getType(), tile::Function::Erfc, x[0]);
  default:
    break;
  }
#undef MATH
#undef FLOAT_INT
  throw EmitError(std::string("no code for ") + nameOf(e->op));
}

Value ExprEmitter::combine(ReduceKind kind, DType type, Value x, Value y) {
  bool floating = isFloat(type), isSigned = !isUnsigned(type);
  switch (kind) {
  case ReduceKind::Sum:
    if (floating)
      return b.create<arith::AddFOp>(loc, x, y);
    return b.create<arith::AddIOp>(loc, x, y);
  case ReduceKind::Prod:
    if (floating)
      return b.create<arith::MulFOp>(loc, x, y);
    return b.create<arith::MulIOp>(loc, x, y);
  case ReduceKind::Max:
    if (floating)
      return b.create<arith::MaximumFOp>(loc, x, y);
    return isSigned ? Value(b.create<arith::MaxSIOp>(loc, x, y)) : Value(b.create<arith::MaxUIOp>(loc, x, y));
  case ReduceKind::Min:
    if (floating)
      return b.create<arith::MinimumFOp>(loc, x, y);
    return isSigned ? Value(b.create<arith::MinSIOp>(loc, x, y)) : Value(b.create<arith::MinUIOp>(loc, x, y));
  case ReduceKind::Any:
    return b.create<arith::OrIOp>(loc, x, y);
  case ReduceKind::All:
    return b.create<arith::AndIOp>(loc, x, y);
  case ReduceKind::ArgMax:
  case ReduceKind::ArgMin:
    break;
  }
  throw EmitError("an index reduction combines pairs");
}

Value ExprEmitter::identity(ReduceKind kind, DType type, bool tile) {
  double inf = std::numeric_limits<double>::infinity();
  int64_t bits = sizeOf(type) * 8;
  int64_t smallest = isUnsigned(type) ? 0 : bits == 64 ? INT64_MIN : -(int64_t(1) << (bits - 1));
  int64_t largest = type == DType::Bool ? 1
                    : isUnsigned(type)  ? -1
                    : bits == 64        ? INT64_MAX
                                        : (int64_t(1) << (bits - 1)) - 1;
  switch (kind) {
  case ReduceKind::Sum:
    return constant(type, 0, 0, tile);
  case ReduceKind::Prod:
    return constant(type, 1, 1, tile);
  case ReduceKind::Max:
  case ReduceKind::ArgMax:
    return constant(type, -inf, smallest, tile);
  case ReduceKind::Min:
  case ReduceKind::ArgMin:
    return constant(type, inf, largest, tile);
  case ReduceKind::Any:
    return constant(type, 0, 0, tile);
  case ReduceKind::All:
    return constant(type, 1, 1, tile);
  }
  throw EmitError("unknown reduction");
}

} // namespace tilewright::loop
