//===- Lowering.h - the steps from tiles to the LLVM dialect -------*- C++ -*-===//
//
// Each step is a function over one kernel; Passes.td wraps them for tilewright-opt. lib/Target/Host/Lower.cpp calls
// them in order. Errors are diagnostics at the operation's location.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Dialect/Tile/IR/TileDialect.h"
#include "tilewright/Target/Host/HostTarget.h"

namespace tilewright::host {

/// Before: tiles of any rank. After: tiles of rank 1; loops and conditions carry the rows of a tile as values of their
/// own.
mlir::LogicalResult unrollTiles(tile::KernelOp kernel);

/// Before: loops over the elements of a row whose last step may be partial: valid extents `bound - index`. After: a
/// loop over whole tiles without valid extents, and one step with them for the rest.
void peelTails(tile::KernelOp kernel);

/// Before: tiles of rank 1. After: vectors; no tile operation but kernel, grid, address, scratch, check_index's remains
/// and what belongs to contractions, whose accumulator is a vector.
mlir::LogicalResult tileToVector(tile::KernelOp kernel, const HostTarget &target);

/// Before: tile.pack and tile.contract on vectors. After: loops and calls of micro-kernels.
mlir::LogicalResult lowerContract(tile::KernelOp kernel, const HostTarget &target);

/// Before: tile.kernel. After: a func.func of the kernel ABI whose loop runs grid points [begin, end).
mlir::LogicalResult lowerGrid(tile::KernelOp kernel);

/// Before: elementary functions, conversions and arithmetic of bf16 and f16 in arith and math. After: only operations
/// that the level has instructions for, and calls of double-precision libm functions.
mlir::LogicalResult expandMath(mlir::Operation *root, const HostTarget &target);

/// Before: func, scf, cf, arith, math, vector, memref. After: the LLVM dialect.
mlir::LogicalResult convertToLlvm(mlir::ModuleOp module);

/// Registers the passes of Passes.td.
void registerPasses();

} // namespace tilewright::host
