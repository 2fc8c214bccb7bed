//===- MathAvx512.cpp - formulas around instructions of AVX-512 --------------------------------------------------===//

#include "MathAvx512.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace mlir;

namespace tilewright::host {

static constexpr int64_t kLanes = 16;

bool hasWholeAvx512Vectors(const MathEmitter &m) {
  auto vector = dyn_cast<VectorType>(m.like);
  return vector && m.target.avx512 && vector.getNumElements() % kLanes == 0;
}

/// Applies `body` to 16 lanes of each operand after another and joins the results.
static Value perVector(MathEmitter &m, ArrayRef<Value> operands, function_ref<Value(ArrayRef<Value>)> body) {
  int64_t lanes = cast<VectorType>(operands[0].getType()).getNumElements();
  if (lanes == kLanes)
    return body(operands);
  SmallVector<Value> parts;
  for (int64_t first = 0; first < lanes; first += kLanes) {
    SmallVector<int64_t> indices(kLanes);
    std::iota(indices.begin(), indices.end(), first);
    SmallVector<Value> pieces;
    for (Value operand : operands)
      pieces.push_back(m.b.create<vector::ShuffleOp>(operand, operand, indices));
    parts.push_back(body(pieces));
  }
  Value joined = parts[0];
  for (Value part : ArrayRef(parts).drop_front()) {
    int64_t width = cast<VectorType>(joined.getType()).getNumElements();
    SmallVector<int64_t> indices(width + kLanes);
    std::iota(indices.begin(), indices.end(), 0);
    joined = m.b.create<vector::ShuffleOp>(joined, part, indices);
  }
  return joined;
}

static Value callIntrinsic(MathEmitter &m, StringRef name, ValueRange arguments) {
  Type type = VectorType::get(kLanes, m.b.getF32Type());
  return m.b.create<LLVM::CallIntrinsicOp>(type, m.b.getStringAttr(name), arguments, LLVM::FastmathFlagsAttr{})
      .getResult(0);
}

Value emitScalef(MathEmitter &m, Value x, Value n) {
  return perVector(m, {x, n}, [&](ArrayRef<Value> operands) {
    Value all = m.b.create<LLVM::ConstantOp>(m.b.getIntegerType(16), m.b.getIntegerAttr(m.b.getIntegerType(16), -1));
    Value currentRounding = m.b.create<LLVM::ConstantOp>(m.b.getI32Type(), m.b.getI32IntegerAttr(4));
    return callIntrinsic(m, "llvm.x86.avx512.mask.scalef.ps.512",
                         {operands[0], operands[1], operands[0], all, currentRounding});
  });
}

Value emitOddByTable(MathEmitter &m, Value x, double step, ArrayRef<float[16]> table) {
  Value a = m.abs(x), top = m.f(15.49 * step);
  Value bounded = m.select(m.greater(a, top), top, a);
  // k = round(a / step), as a float and in the low bits of the sum. Below 2^23 nothing else is in the low four bits
  // that the lookup reads.
  Value magic = m.f(0x1p23);
  Value sum = m.mulAdd(bounded, m.f(1 / step), magic);
  Value k = m.bits(sum);
  Value t = m.mulAdd(m.sub(sum, magic), m.f(-step), bounded);
  auto coefficient = [&](const float(&row)[16]) {
    Value entries = m.b.create<arith::ConstantOp>(
        DenseElementsAttr::get(VectorType::get(kLanes, m.b.getF32Type()), ArrayRef<float>(row)));
    return perVector(m, {k}, [&](ArrayRef<Value> operands) {
      return callIntrinsic(m, "llvm.x86.avx512.permvar.sf.512", {entries, operands[0]});
    });
  };
  // Degree 0 comes last and in two parts, so that neither its rounding nor that of the sum counts.
  Value rest = coefficient(table.back());
  for (const float(&row)[16] : llvm::reverse(table.drop_front().drop_back()))
    rest = m.mulAdd(rest, t, coefficient(row));
  // The large part takes |x| as it is, so that what lies beyond the table grows past 1 and infinity stays itself.
  Value y = m.mulAdd(a, coefficient(table.front()), m.mul(bounded, rest)), one = m.f(1.0);
  return m.copySign(m.select(m.greater(y, one), one, y), x);
}

} // namespace tilewright::host
