//===- VectorAccess.h - loads and stores of vectors ----------------*- C++ -*-===//
//
// What tile.load, store, gather and scatter become. Three questions decide: the stride (1, 0, other), whether there is
// a valid extent, and whether the CPU level has masked access for the element's width.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Dialect/Tile/IR/TileDialect.h"
#include "tilewright/Target/Host/HostTarget.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright::host {

/// Memory of one buffer around an offset, in elements. bool elements are bytes in memory; bf16 and f16 travel as 16-bit
/// integers, since not every level can move them otherwise.
class VectorAccess {
public:
  VectorAccess(mlir::ImplicitLocOpBuilder &b, const HostTarget &target, mlir::Value buffer, mlir::Value offset);

  mlir::Value loadScalar(mlir::Value position = {});
  void storeScalar(mlir::Value value, mlir::Value position = {});

  /// `valid` may be null: everything is valid. `fill` may be null: zero.
  mlir::Value load(mlir::VectorType type, mlir::OpFoldResult stride, mlir::Value valid, mlir::TypedAttr fill);
  void store(mlir::Value vector, mlir::OpFoldResult stride, mlir::Value valid, bool streaming = false);
  mlir::Value gather(mlir::VectorType type, mlir::Value indices, mlir::OpFoldResult stride, mlir::Value valid,
                     mlir::TypedAttr fill);
  /// Adds each valid lane to its element, one after another.
  void atomicAdd(mlir::Value vector, mlir::Value indices, mlir::OpFoldResult stride, mlir::Value valid);
  /// Adds a number to the element at `position` elements from the start.
  void atomicAdd(mlir::Value value, mlir::Value position = {});
  void scatter(mlir::Value vector, mlir::Value indices, mlir::OpFoldResult stride, mlir::Value valid);

private:
  mlir::Value loadContiguous(mlir::VectorType type, mlir::Value valid, mlir::Value fill);
  mlir::Value loadBroadcast(mlir::VectorType type, mlir::Value valid, mlir::Value fill);
  /// Elements at the given positions (a vector of index).
  mlir::Value loadAt(mlir::VectorType type, mlir::Value positions, mlir::Value valid, mlir::Value fill);
  void storeContiguous(mlir::Value vector, mlir::Value valid, bool streaming);
  void storeAt(mlir::Value vector, mlir::Value positions, mlir::Value valid);

  mlir::Value pointer(mlir::Value position);
  mlir::Value pointers(mlir::Value positions);
  mlir::Value positionsOf(mlir::OpFoldResult stride, int64_t lanes);
  mlir::Value scaled(mlir::Value indices, mlir::OpFoldResult stride);
  /// Between the elements of tiles and what lies in memory.
  mlir::Value toMemory(mlir::Value value);
  mlir::Value fromMemory(mlir::Value value);
  mlir::Value fillVector(mlir::VectorType type, mlir::TypedAttr fill);

  mlir::ImplicitLocOpBuilder &b;
  const HostTarget &target;
  mlir::Type element, stored; // of the tile, in memory
  mlir::Value base;           // at `offset`
};

/// An index constant.
mlir::Value indexConstant(mlir::ImplicitLocOpBuilder &b, int64_t value);
/// 0, 1, 2, ... as a vector of index, i64 or i32.
mlir::Value iota(mlir::ImplicitLocOpBuilder &b, mlir::VectorType type);
/// The valid extent limited to 0 .. lanes.
mlir::Value clampValid(mlir::ImplicitLocOpBuilder &b, mlir::Value valid, int64_t lanes);
/// Lane i is set if i < valid.
mlir::Value laneMask(mlir::ImplicitLocOpBuilder &b, mlir::Value valid, int64_t lanes);
/// All lanes one scalar.
mlir::Value splat(mlir::ImplicitLocOpBuilder &b, mlir::Value scalar, mlir::VectorType type);
mlir::Value splat(mlir::ImplicitLocOpBuilder &b, mlir::TypedAttr value, mlir::VectorType type);

} // namespace tilewright::host
