//===- ElementTypes.h - dtypes as types of MLIR --------------------*- C++ -*-===//
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "tilewright/Support/DType.h"

#include <optional>

namespace tilewright::tile {

/// Of an element in a tile. bool is i1; integers have no sign of their own, the operations do. Null for complex
/// numbers.
mlir::Type elementType(mlir::MLIRContext *context, DType type);
/// The inverse; integers are taken to be signed.
std::optional<DType> dtypeOf(mlir::Type type);

} // namespace tilewright::tile
