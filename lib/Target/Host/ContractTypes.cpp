//===- ContractTypes.cpp - the vectors of a matrix shape ------------------------------------------------------===//

#include "ContractTypes.h"

using namespace mlir;

namespace tilewright::host {

using tile::elementType;

VectorTypes::VectorTypes(OpBuilder &b, const MatrixShape &shape) : dot(shape.depth == 2) {
  accumulator = VectorType::get(shape.lanes, elementType(b.getContext(), shape.accumulator));
  panelVector = VectorType::get(shape.lanes * shape.depth, elementType(b.getContext(), shape.panel));
  pairs = VectorType::get(shape.lanes, b.getI32Type());
}

Value VectorTypes::broadcast(Emitter &e, Value address) const {
  if (!dot)
    return e.splat(e.load(panelVector.getElementType(), address), panelVector);
  // A pair is read as bf16 vectors are aligned: by 2 bytes.
  Value word = e.op<LLVM::LoadOp>(e.i32, address, 2u);
  return e.op<LLVM::BitcastOp>(panelVector, e.splat(word, pairs));
}

Value VectorTypes::multiplyAdd(Emitter &e, const MatrixTarget &target, Value a, Value b, Value sum) const {
  if (dot)
    return e
        .op<LLVM::CallIntrinsicOp>(TypeRange{accumulator}, "llvm.x86.avx512bf16.dpbf16ps.512", ValueRange{sum, a, b})
        .getResult(0);
  if (isa<IntegerType>(accumulator.getElementType()))
    return e.add(sum, e.mul(a, b));
  if (target.fma)
    return e.op<LLVM::FMAOp>(a, b, sum);
  return e.op<LLVM::FAddOp>(sum, e.op<LLVM::FMulOp>(a, b));
}

Value VectorTypes::add(Emitter &e, Value x, Value y) const {
  return isa<IntegerType>(accumulator.getElementType()) ? e.add(x, y) : e.op<LLVM::FAddOp>(x, y).getResult();
}

Value loadAs(Emitter &e, DType from, DType to, unsigned lanes, Value address) {
  auto shaped = [&](Type element) -> Type { return lanes == 1 ? element : VectorType::get(lanes, element); };
  if (from == to)
    return e.load(shaped(from == DType::BF16 || from == DType::F16 ? e.i16 : elementType(e.b.getContext(), from)),
                  address);
  auto bits = [&](int32_t value) -> Value {
    Type type = shaped(e.i32);
    if (lanes == 1)
      return e.op<LLVM::ConstantOp>(type, e.b.getI32IntegerAttr(value));
    return e.op<LLVM::ConstantOp>(type, DenseElementsAttr::get(cast<VectorType>(type), value));
  };
  Value word = e.op<LLVM::ZExtOp>(shaped(e.i32), e.load(shaped(e.i16), address));
  Type f32 = shaped(e.f32);
  if (from == DType::BF16)
    return e.op<LLVM::BitcastOp>(f32, e.op<LLVM::ShlOp>(word, bits(16)));
  Value sign = e.op<LLVM::ShlOp>(e.both(word, bits(0x8000)), bits(16));
  Value magnitude = e.op<LLVM::ShlOp>(e.both(word, bits(0x7fff)), bits(13));
  Value scale = e.op<LLVM::BitcastOp>(f32, bits(0x77800000)); // 2^112
  Value finite = e.op<LLVM::BitcastOp>(shaped(e.i32), e.op<LLVM::FMulOp>(e.op<LLVM::BitcastOp>(f32, magnitude), scale));
  Value special = e.op<LLVM::OrOp>(magnitude, bits(0x7f800000));
  Value isSpecial = e.compare(Emitter::Predicate::eq, e.both(word, bits(0x7c00)), bits(0x7c00));
  return e.op<LLVM::BitcastOp>(f32, e.op<LLVM::OrOp>(e.select(isSpecial, special, finite), sign));
}

} // namespace tilewright::host
