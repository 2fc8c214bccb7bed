//===- MathAvx512.h - formulas around instructions of AVX-512 ------*- C++ -*-===//
//
// Two instructions shorten elementary functions a great deal: vpermps looks 16 floats up in a register, and vscalefps
// multiplies by a power of two with all the cases at the ends of the range.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "MathEmitter.h"

namespace tilewright::host {

/// Whether the emitter's shape is vectors of a multiple of 16 f32 on a level with AVX-512.
bool hasWholeAvx512Vectors(const MathEmitter &m);

/// x * 2^n, rounded once; n is an f32 with an integral value. NaN and infinity as IEEE 754 has them.
mlir::Value emitScalef(MathEmitter &m, mlir::Value x, mlir::Value n);

/// x g(|x|), at most 1 in magnitude, with the sign of x; g(k step + t) = table[0][k] + table[1][k] + table[2][k] t +
/// table[3][k] t^2 + ... |x| beyond 15 1/2 steps gives 1.
mlir::Value emitOddByTable(MathEmitter &m, mlir::Value x, double step, llvm::ArrayRef<float[16]> table);

} // namespace tilewright::host
