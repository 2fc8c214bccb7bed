//===- TileDialect.h - the tile dialect ----------------------------*- C++ -*-===//
//
// What fused groups become: static tiles with a valid extent on a parallel grid. docs/tile-dialect.md is the reference;
// the operations are defined in TileOps.td.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "tilewright/Dialect/Tile/IR/TileDialect.h.inc"
#include "tilewright/Dialect/Tile/IR/TileEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "tilewright/Dialect/Tile/IR/TileAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "tilewright/Dialect/Tile/IR/TileTypes.h.inc"

namespace tilewright::tile {
class GridOp;
} // namespace tilewright::tile

#define GET_OP_CLASSES
#include "tilewright/Dialect/Tile/IR/TileOps.h.inc"

namespace tilewright::tile {

/// The neutral element of a reduction: what invalid elements count as. Float max starts at -inf, maxnum at NaN.
mlir::TypedAttr identityOf(ReduceKind kind, mlir::Type elementType);

/// Whether integers or floats of this type can be combined by the kind.
bool supports(ReduceKind kind, mlir::Type elementType);

} // namespace tilewright::tile
