//===- ExpandMath.cpp - what no instruction does becomes formulas ------------------------------------------------===//
//
// Three steps: arithmetic on bf16 and f16 becomes arithmetic on f32 between conversions; functions become formulas; and
// what is left of bf16 and f16, moving bits about, moves 16-bit integers, since LLVM makes calls of library functions
// of half the types' operations.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "MathFunctions.h"
#include "tilewright/Dialect/Tile/IR/TileDialect.h"
#include "tilewright/Target/Host/Lowering.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tilewright::host {

static Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }
static bool isHalf(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isBF16() || element.isF16();
}

//===----------------------------------------------------------------------===//
// bf16 and f16 compute in f32
//===----------------------------------------------------------------------===//

/// Operations that move or name bits and compute nothing.
static bool movesOnly(Operation *op) {
  return isa<arith::ConstantOp, arith::SelectOp, arith::BitcastOp, arith::ExtFOp, arith::TruncFOp>(op);
}

static void computeInFloat(Operation *op) {
  bool halves = llvm::any_of(op->getOperandTypes(), isHalf) || llvm::any_of(op->getResultTypes(), isHalf);
  if (!halves || movesOnly(op))
    return;
  ImplicitLocOpBuilder b(op->getLoc(), op);
  auto single = [&](Type like) -> Type {
    if (auto vector = dyn_cast<VectorType>(like))
      return VectorType::get(vector.getShape(), b.getF32Type());
    return b.getF32Type();
  };
  for (OpOperand &operand : op->getOpOperands())
    if (isHalf(operand.get().getType()))
      operand.set(b.create<arith::ExtFOp>(single(operand.get().getType()), operand.get()));
  Value result = op->getResult(0);
  Type type = result.getType();
  if (!isHalf(type))
    return;
  result.setType(single(type));
  b.setInsertionPointAfter(op);
  Value rounded = b.create<arith::TruncFOp>(type, result);
  result.replaceAllUsesExcept(rounded, rounded.getDefiningOp());
}

/// Between bf16 or f16 and anything but f32 a conversion goes through f32. (From f64 that rounds twice, as PyTorch
/// does.)
static Value convertFloat(MathEmitter &m, Operation *op) {
  Value x = op->getOperand(0);
  Type from = elementOf(x), to = elementOf(op->getResult(0));
  if (isHalf(from)) {
    Value single = emitHalfToFloat(m, x);
    return to.isF64() ? m.widen(single) : single;
  }
  if (isHalf(to))
    return emitFloatToHalf(m, from.isF64() ? m.narrow(x) : x, to);
  return {};
}

static void moveHalvesAsIntegers(Operation *root) {
  auto integerOf = [](Type type) -> Type {
    if (!isHalf(type))
      return type;
    Type integer = IntegerType::get(type.getContext(), 16);
    if (auto vector = dyn_cast<VectorType>(type))
      return VectorType::get(vector.getShape(), integer);
    return integer;
  };
  SmallVector<arith::BitcastOp> casts;
  root->walk([&](Operation *op) {
    // The LLVM dialect's values are the native conversions' own, and matrix kernels'.
    if (isa<arith::ExtFOp, arith::TruncFOp>(op) || isa<LLVM::LLVMDialect>(op->getDialect()))
      return;
    for (Value result : op->getResults())
      result.setType(integerOf(result.getType()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          argument.setType(integerOf(argument.getType()));
    if (auto constant = dyn_cast<arith::ConstantOp>(op);
        constant && constant.getType() != constant.getValue().getType()) {
      Type i16 = IntegerType::get(op->getContext(), 16);
      if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
        constant.setValueAttr(IntegerAttr::get(i16, number.getValue().bitcastToAPInt()));
      else
        constant.setValueAttr(cast<TypedAttr>(Attribute(cast<DenseElementsAttr>(constant.getValue()).bitcast(i16))));
    }
    if (auto cast = dyn_cast<arith::BitcastOp>(op); cast && cast.getIn().getType() == cast.getType())
      casts.push_back(cast);
  });
  for (arith::BitcastOp cast : casts) {
    cast.replaceAllUsesWith(cast.getIn());
    cast.erase();
  }
}

//===----------------------------------------------------------------------===//
// Maximum and minimum
//===----------------------------------------------------------------------===//

/// NaN wins; of two zeros the second operand (as the instruction has it, and PyTorch with it).
static Value propagatingExtremum(MathEmitter &m, MathEmitter::Compare better, Value x, Value y) {
  Value one = m.select(m.compare(better, x, y), x, y); // a NaN in y stays
  return m.select(m.isNan(x), x, one);
}

/// NaN loses.
static Value ignoringExtremum(MathEmitter &m, MathEmitter::Compare better, Value x, Value y) {
  Value one = m.select(m.compare(better, x, y), x, y); // a NaN in x is gone
  return m.select(m.isNan(y), x, one);
}

//===----------------------------------------------------------------------===//
// One operation
//===----------------------------------------------------------------------===//

/// Formulas that serve f32 and f64.
static Value expandAnyFloat(MathEmitter &m, Operation *op) {
  using Compare = MathEmitter::Compare;
  bool round = m.target.roundInsn;
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<arith::ExtFOp, arith::TruncFOp>([&](auto) { return convertFloat(m, op); })
      .Case([&](arith::MaximumFOp max) { return propagatingExtremum(m, Compare::OGT, max.getLhs(), max.getRhs()); })
      .Case([&](arith::MinimumFOp min) { return propagatingExtremum(m, Compare::OLT, min.getLhs(), min.getRhs()); })
      .Case([&](arith::MaxNumFOp max) { return ignoringExtremum(m, Compare::OGT, max.getLhs(), max.getRhs()); })
      .Case([&](arith::MinNumFOp min) { return ignoringExtremum(m, Compare::OLT, min.getLhs(), min.getRhs()); })
      .Case([&](math::RsqrtOp f) { return m.div(m.sameType(f.getOperand(), 1.0), m.sqrt(f.getOperand())); })
      .Case([&](math::TruncOp f) { return round ? Value() : emitTrunc(m, f.getOperand()); })
      .Case([&](math::FloorOp f) { return round ? Value() : emitFloor(m, f.getOperand()); })
      .Case([&](math::CeilOp f) { return round ? Value() : emitCeil(m, f.getOperand()); })
      .Case([&](math::RoundEvenOp f) { return round ? Value() : emitRoundEven(m, f.getOperand()); })
      .Case([&](math::RoundOp f) { return emitRound(m, f.getOperand()); })
      .Default(Value());
}

static Value expandF32(MathEmitter &m, Operation *op) {
  auto x = [&] { return op->getOperand(0); };
  auto y = [&] { return op->getOperand(1); };
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::ExpOp) { return emitExp(m, x()); })
      .Case([&](math::Exp2Op) { return emitExp2(m, x()); })
      .Case([&](math::ExpM1Op) { return emitExpm1(m, x()); })
      .Case([&](math::SinhOp) { return emitSinh(m, x()); })
      .Case([&](math::CoshOp) { return emitCosh(m, x()); })
      .Case([&](math::TanhOp) { return emitTanh(m, x()); })
      .Case([&](math::ErfOp) { return emitErf(m, x()); })
      .Case([&](math::LogOp) { return emitLog(m, x()); })
      .Case([&](math::Log2Op) { return emitLog2(m, x()); })
      .Case([&](math::Log10Op) { return emitLog10(m, x()); })
      .Case([&](math::Log1pOp) { return emitLog1p(m, x()); })
      .Case([&](math::PowFOp) { return emitPow(m, x(), y()); })
      .Case([&](math::AsinhOp) { return emitAsinh(m, x()); })
      .Case([&](math::AcoshOp) { return emitAcosh(m, x()); })
      .Case([&](math::AtanhOp) { return emitAtanh(m, x()); })
      .Case([&](math::SinOp) { return emitSin(m, x()); })
      .Case([&](math::CosOp) { return emitCos(m, x()); })
      .Case([&](math::TanOp) { return emitTan(m, x()); })
      .Case([&](math::AsinOp) { return emitAsin(m, x()); })
      .Case([&](math::AcosOp) { return emitAcos(m, x()); })
      .Case([&](math::AtanOp) { return emitAtan(m, x()); })
      .Case([&](math::Atan2Op) { return emitAtan2(m, x(), y()); })
      .Case([&](tile::MathOp f) {
        if (f.getFunction() == tile::Function::Erfc)
          return emitErfc(m, x());
        return m.narrow(callLibm(m, stringifyFunction(f.getFunction()), m.widen(x())));
      })
      .Case([&](math::CbrtOp) { return m.narrow(callLibm(m, "cbrt", m.widen(x()))); })
      .Case([&](math::FmaOp f) { return m.target.fma ? Value() : emitFma(m, x(), y(), f.getC()); })
      .Case([&](arith::RemFOp) { return emitFmod(m, x(), y()); })
      .Default(Value());
}

/// Double precision is libm's.
static StringRef libmName(Operation *op) {
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case<tile::MathOp>([](tile::MathOp f) { return stringifyFunction(f.getFunction()); })
      .Case<math::ExpOp>([](auto) { return "exp"; })
      .Case<math::Exp2Op>([](auto) { return "exp2"; })
      .Case<math::ExpM1Op>([](auto) { return "expm1"; })
      .Case<math::SinhOp>([](auto) { return "sinh"; })
      .Case<math::CoshOp>([](auto) { return "cosh"; })
      .Case<math::TanhOp>([](auto) { return "tanh"; })
      .Case<math::ErfOp>([](auto) { return "erf"; })
      .Case<math::LogOp>([](auto) { return "log"; })
      .Case<math::Log2Op>([](auto) { return "log2"; })
      .Case<math::Log10Op>([](auto) { return "log10"; })
      .Case<math::Log1pOp>([](auto) { return "log1p"; })
      .Case<math::PowFOp>([](auto) { return "pow"; })
      .Case<math::AsinhOp>([](auto) { return "asinh"; })
      .Case<math::AcoshOp>([](auto) { return "acosh"; })
      .Case<math::AtanhOp>([](auto) { return "atanh"; })
      .Case<math::SinOp>([](auto) { return "sin"; })
      .Case<math::CosOp>([](auto) { return "cos"; })
      .Case<math::TanOp>([](auto) { return "tan"; })
      .Case<math::AsinOp>([](auto) { return "asin"; })
      .Case<math::AcosOp>([](auto) { return "acos"; })
      .Case<math::AtanOp>([](auto) { return "atan"; })
      .Case<math::Atan2Op>([](auto) { return "atan2"; })
      .Case<math::CbrtOp>([](auto) { return "cbrt"; })
      .Case<arith::RemFOp>([](auto) { return "fmod"; })
      .Default(StringRef());
}

static LogicalResult expand(Operation *op, const HostTarget &target) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0)
    return success();
  ImplicitLocOpBuilder b(op->getLoc(), op);
  MathEmitter m(b, target, op->getResult(0).getType());
  Value result = expandAnyFloat(m, op);
  if (!result && elementOf(op->getResult(0)).isF32())
    result = expandF32(m, op);
  if (!result && elementOf(op->getResult(0)).isF64())
    if (StringRef name = libmName(op); !name.empty())
      result = callLibm(m, name, op->getOperands());
  if (!result && isa<math::FmaOp>(op) && !target.fma)
    return op->emitOpError() << "on f64 needs the instruction, which CPU level " << target.level
                             << " lacks: multiply and add, or use f32";
  if (!result)
    return success();
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
  return success();
}

LogicalResult expandMath(Operation *root, const HostTarget &target) {
  // Formulas consist of what needs no expansion, so each step collects its operations first.
  auto collect = [&] {
    SmallVector<Operation *> found;
    root->walk([&](Operation *op) {
      if (isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) || isa<tile::MathOp>(op))
        found.push_back(op);
    });
    return found;
  };
  bool halves = false;
  for (Operation *op : collect()) {
    halves |= llvm::any_of(op->getOperandTypes(), isHalf) || llvm::any_of(op->getResultTypes(), isHalf);
    if (op->getNumResults() == 1)
      computeInFloat(op);
  }
  for (Operation *op : collect())
    if (failed(expand(op, target)))
      return failure();
  if (halves)
    moveHalvesAsIntegers(root);
  return success();
}

} // namespace tilewright::host
