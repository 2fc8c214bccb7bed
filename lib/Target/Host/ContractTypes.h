//===- ContractTypes.h - the vectors of a matrix shape ------------*- C++ -*-===//
#pragma once

#include "ContractEmit.h"
#include "tilewright/Dialect/Tile/IR/ElementTypes.h"
#include "tilewright/Target/Host/ContractPlan.h"

namespace tilewright::host {

/// The types of a register block and the operations on them.
struct VectorTypes {
  VectorTypes(mlir::OpBuilder &b, const MatrixShape &shape);

  mlir::VectorType accumulator; // W lanes
  mlir::VectorType panelVector; // the same bytes of a panel
  mlir::VectorType pairs;       // 32-bit words, for depth 2
  bool dot;

  /// The element (pair of elements) at the address in every lane.
  mlir::Value broadcast(Emitter &e, mlir::Value address) const;
  mlir::Value multiplyAdd(Emitter &e, const MatrixTarget &target, mlir::Value a, mlir::Value b, mlir::Value sum) const;
  mlir::Value add(Emitter &e, mlir::Value x, mlir::Value y) const;
};

/// A scalar or vector of `from` elements, loaded as integers where the type has no arithmetic, as `to` elements. bf16
/// and f16 to f32 are integer code, exact on every level (no library call): bf16 is the upper half of an f32; f16's
/// exponent is moved by a product with 2^112.
mlir::Value loadAs(Emitter &e, DType from, DType to, unsigned lanes, mlir::Value address);

} // namespace tilewright::host
