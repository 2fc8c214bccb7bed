//===- MathEmitter.h - writing formulas over f32, f64 and integers -*- C++ -*-===//
//
// Values are scalars or vectors; constants take the shape of the emitter. Every operation is one of arith, so that a
// formula reads like its derivation.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Target/Host/HostTarget.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright::host {

class MathEmitter {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;
  using Compare = mlir::arith::CmpFPredicate;
  using CompareInt = mlir::arith::CmpIPredicate;

  /// `like` gives the shape: a scalar or a vector type.
  MathEmitter(mlir::ImplicitLocOpBuilder &b, const HostTarget &target, Type like) : b(b), target(target), like(like) {}

  mlir::ImplicitLocOpBuilder &b;
  const HostTarget &target;
  Type like;

  Type shaped(Type element) const;
  Type f32() const { return shaped(b.getF32Type()); }
  Type f64() const { return shaped(b.getF64Type()); }
  Type i16() const { return shaped(b.getIntegerType(16)); }
  Type i32() const { return shaped(b.getI32Type()); }
  Type i64() const { return shaped(b.getI64Type()); }
  Type i1() const { return shaped(b.getI1Type()); }

  /// Constants. A float constant is rounded to the type of `of`.
  Value constant(Type type, double value);
  Value f(double value) { return constant(f32(), value); }
  Value d(double value) { return constant(f64(), value); }
  Value i(int64_t value) { return integer(i32(), value); }
  Value integer(Type type, int64_t value);
  Value sameType(Value of, double value) { return constant(of.getType(), value); }

  Value add(Value x, Value y) { return b.create<mlir::arith::AddFOp>(x, y); }
  Value sub(Value x, Value y) { return b.create<mlir::arith::SubFOp>(x, y); }
  Value mul(Value x, Value y) { return b.create<mlir::arith::MulFOp>(x, y); }
  Value div(Value x, Value y) { return b.create<mlir::arith::DivFOp>(x, y); }
  Value neg(Value x) { return b.create<mlir::arith::NegFOp>(x); }
  Value abs(Value x) { return b.create<mlir::math::AbsFOp>(x); }
  Value sqrt(Value x) { return b.create<mlir::math::SqrtOp>(x); }
  Value copySign(Value magnitude, Value sign) { return b.create<mlir::math::CopySignOp>(magnitude, sign); }
  /// x * y + z: fused where the level has the instruction, else rounded twice. For formulas whose error bound allows
  /// either.
  Value mulAdd(Value x, Value y, Value z);
  /// coefficients[0] + x * (coefficients[1] + ...), Horner's scheme.
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients);

  Value less(Value x, Value y) { return compare(Compare::OLT, x, y); }
  Value greater(Value x, Value y) { return compare(Compare::OGT, x, y); }
  Value equal(Value x, Value y) { return compare(Compare::OEQ, x, y); }
  Value isNan(Value x) { return compare(Compare::UNO, x, x); }
  Value compare(Compare p, Value x, Value y) { return b.create<mlir::arith::CmpFOp>(p, x, y); }
  Value compare(CompareInt p, Value x, Value y) { return b.create<mlir::arith::CmpIOp>(p, x, y); }
  Value select(Value c, Value x, Value y) { return b.create<mlir::arith::SelectOp>(c, x, y); }

  Value addi(Value x, Value y) { return b.create<mlir::arith::AddIOp>(x, y); }
  Value subi(Value x, Value y) { return b.create<mlir::arith::SubIOp>(x, y); }
  Value bitAnd(Value x, Value y) { return b.create<mlir::arith::AndIOp>(x, y); }
  Value bitOr(Value x, Value y) { return b.create<mlir::arith::OrIOp>(x, y); }
  Value bitXor(Value x, Value y) { return b.create<mlir::arith::XOrIOp>(x, y); }
  Value logicalNot(Value x);
  Value shiftLeft(Value x, int64_t bits);
  Value shiftRight(Value x, int64_t bits);       // zeros come in
  Value shiftRightSigned(Value x, int64_t bits); // the sign comes in
  Value bits(Value x);                           // the integer of the same width
  Value floatOf(Value bits);

  Value widen(Value x) { return b.create<mlir::arith::ExtFOp>(f64(), x); }
  Value narrow(Value x) { return b.create<mlir::arith::TruncFOp>(f32(), x); }

  /// Round to nearest, ties to even, for |x| < 2^22 (f32) or 2^51 (f64), by adding and subtracting 1.5 * 2^23 or 2^52:
  /// the sum's low bits are the integer. NaN gives NaN and some integer, which float-to-integer conversion does not
  /// promise.
  struct Rounded {
    Value number;  // a float
    Value integer; // i32 or i64
  };
  Rounded round(Value x);
  /// 2^n for n in the range of normal numbers; n is i32 (f32) or i64 (f64).
  Value powerOfTwo(Value n);
};

} // namespace tilewright::host
