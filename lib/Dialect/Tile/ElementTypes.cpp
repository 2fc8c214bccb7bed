//===- ElementTypes.cpp - dtypes as types of MLIR --------------------------===//

#include "tilewright/Dialect/Tile/IR/ElementTypes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tilewright::tile {

Type elementType(MLIRContext *context, DType type) {
  Builder b(context);
  switch (type) {
  case DType::F32:
    return b.getF32Type();
  case DType::F64:
    return b.getF64Type();
  case DType::BF16:
    return b.getBF16Type();
  case DType::F16:
    return b.getF16Type();
  case DType::Bool:
    return b.getI1Type();
  default:
    return isInteger(type) ? Type(b.getIntegerType(unsigned(sizeOf(type)) * 8)) : Type();
  }
}

std::optional<DType> dtypeOf(Type type) {
  for (DType t :
       {DType::F32, DType::F64, DType::BF16, DType::F16, DType::Bool, DType::I8, DType::I16, DType::I32, DType::I64})
    if (elementType(type.getContext(), t) == type)
      return t;
  return std::nullopt;
}

} // namespace tilewright::tile
