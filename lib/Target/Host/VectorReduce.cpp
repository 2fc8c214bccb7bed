//===- VectorReduce.cpp - all lanes of a vector combined ---------------------------------------------------------===//

#include "VectorReduce.h"

#include "VectorAccess.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace tilewright::host {

using tile::ReduceKind;

Value combine(ImplicitLocOpBuilder &b, ReduceKind kind, Value x, Value y) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(x.getType()));
  switch (kind) {
  case ReduceKind::Add:
    return isFloat ? b.create<arith::AddFOp>(x, y).getResult() : b.create<arith::AddIOp>(x, y).getResult();
  case ReduceKind::Mul:
    return isFloat ? b.create<arith::MulFOp>(x, y).getResult() : b.create<arith::MulIOp>(x, y).getResult();
  case ReduceKind::Max:
    return isFloat ? b.create<arith::MaximumFOp>(x, y).getResult() : b.create<arith::MaxSIOp>(x, y).getResult();
  case ReduceKind::Min:
    return isFloat ? b.create<arith::MinimumFOp>(x, y).getResult() : b.create<arith::MinSIOp>(x, y).getResult();
  case ReduceKind::MaxNum:
    return b.create<arith::MaxNumFOp>(x, y);
  case ReduceKind::MinNum:
    return b.create<arith::MinNumFOp>(x, y);
  case ReduceKind::UMax:
    return b.create<arith::MaxUIOp>(x, y);
  case ReduceKind::UMin:
    return b.create<arith::MinUIOp>(x, y);
  case ReduceKind::And:
    return b.create<arith::AndIOp>(x, y);
  case ReduceKind::Or:
    return b.create<arith::OrIOp>(x, y);
  case ReduceKind::Xor:
    return b.create<arith::XOrIOp>(x, y);
  }
  llvm_unreachable("a kind without a case");
}

static Value shuffle(ImplicitLocOpBuilder &b, Value x, Value y, int64_t first, int64_t count) {
  SmallVector<int64_t> lanes(count);
  std::iota(lanes.begin(), lanes.end(), first);
  return b.create<vector::ShuffleOp>(x, y, lanes);
}

Value reduceVector(ImplicitLocOpBuilder &b, ReduceKind kind, Value vector, Value valid) {
  auto type = cast<VectorType>(vector.getType());
  Type element = type.getElementType();
  int64_t lanes = type.getNumElements();
  if (valid) {
    Value neutral = splat(b, tile::identityOf(kind, element), type);
    vector = b.create<arith::SelectOp>(laneMask(b, valid, lanes), vector, neutral);
  }
  if (element.isInteger(1) && lanes > 1 && lanes <= 64 && (kind == ReduceKind::And || kind == ReduceKind::Or)) {
    // Mask registers and movmsk give all lanes as one integer.
    Type bits = b.getIntegerType(lanes);
    Value all = b.create<vector::ExtractOp>(b.create<vector::BitCastOp>(VectorType::get(1, bits), vector), 0);
    bool isAnd = kind == ReduceKind::And;
    Value reference =
        b.create<arith::ConstantOp>(b.getIntegerAttr(bits, isAnd ? APInt::getAllOnes(lanes) : APInt::getZero(lanes)));
    return b.create<arith::CmpIOp>(isAnd ? arith::CmpIPredicate::eq : arith::CmpIPredicate::ne, all, reference);
  }
  if (!llvm::isPowerOf2_64(lanes)) { // Padded up.
    int64_t up = llvm::PowerOf2Ceil(lanes);
    Value neutral = splat(b, tile::identityOf(kind, element), type);
    vector = shuffle(b, vector, neutral, 0, up);
    lanes = up;
  }
  for (; lanes > 1; lanes /= 2)
    vector =
        combine(b, kind, shuffle(b, vector, vector, 0, lanes / 2), shuffle(b, vector, vector, lanes / 2, lanes / 2));
  return b.create<vector::ExtractOp>(vector, 0);
}

} // namespace tilewright::host
