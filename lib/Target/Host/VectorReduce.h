//===- VectorReduce.h - all lanes of a vector combined -------------*- C++ -*-===//
#pragma once

#include "tilewright/Dialect/Tile/IR/TileDialect.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright::host {

/// Two scalars or vectors combined, lane by lane.
mlir::Value combine(mlir::ImplicitLocOpBuilder &b, tile::ReduceKind kind, mlir::Value x, mlir::Value y);

/// All lanes of a vector combined to a scalar by halving: log2(lanes) steps, and sums whose rounding error grows with
/// that. Lanes at or beyond `valid` (may be null) take no part.
mlir::Value reduceVector(mlir::ImplicitLocOpBuilder &b, tile::ReduceKind kind, mlir::Value vector, mlir::Value valid);

} // namespace tilewright::host
