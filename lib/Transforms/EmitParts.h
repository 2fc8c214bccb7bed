//===- EmitParts.h - a group inside of a kernel that is being emitted -*- C++ -*-===//
//
// Private to lib/Transforms. What emitLoops and emitContract do for a whole kernel, at the builder's insertion point:
// grids become loops.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ExprEmitter.h"

namespace tilewright::loop {

/// A Loops group; `scratch` is the byte offset of scratch memory that is free for it (launchOf says how much).
void emitLoopsInside(mlir::OpBuilder &builder, mlir::Location loc, const Group &group, const LoopPlan &plan,
                     const TileTarget &target, KernelOperands &operands, mlir::Value scratch);

/// A Contraction group whose right operand is packed into `panels` first. The panels of one matrix at a time are held.
void emitContractInside(mlir::OpBuilder &builder, mlir::Location loc, const Group &group,
                        const host::MatrixShape &shape, KernelOperands &operands, mlir::Value panels);

} // namespace tilewright::loop
