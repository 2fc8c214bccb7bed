//===- MathFunctions.h - elementary functions as formulas ----------*- C++ -*-===//
//
// Functions of f32 tiles and scalars, at most 2 ULP from the true value over the whole range; special values as IEEE
// 754 and C's Annex F have them. What runs in inner loops (exp, exp2, log, tanh, erf) is computed in f32; the rest in
// f64 and rounded once, which leaves little to prove and costs twice the registers. Coefficients: coefficients.py.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "MathEmitter.h"

namespace tilewright::host {

// MathExp.cpp
mlir::Value emitExp(MathEmitter &m, mlir::Value x);
mlir::Value emitExp2(MathEmitter &m, mlir::Value x);
mlir::Value emitExpm1(MathEmitter &m, mlir::Value x);
mlir::Value emitSinh(MathEmitter &m, mlir::Value x);
mlir::Value emitCosh(MathEmitter &m, mlir::Value x);
mlir::Value emitTanh(MathEmitter &m, mlir::Value x);
/// e^r - 1 with r = x - n ln(2), |r| <= ln(2)/2, and n; x is f64 with |x| < 1000.
struct ReducedExp {
  mlir::Value n;      // i64
  mlir::Value excess; // f64
};
ReducedExp reduceExp(MathEmitter &m, mlir::Value x);

// MathErf.cpp
mlir::Value emitErf(MathEmitter &m, mlir::Value x);
mlir::Value emitErfc(MathEmitter &m, mlir::Value x);

// MathLog.cpp
mlir::Value emitLog(MathEmitter &m, mlir::Value x);
mlir::Value emitLog2(MathEmitter &m, mlir::Value x);
mlir::Value emitLog10(MathEmitter &m, mlir::Value x);
mlir::Value emitLog1p(MathEmitter &m, mlir::Value x);
mlir::Value emitPow(MathEmitter &m, mlir::Value x, mlir::Value y);
mlir::Value emitAsinh(MathEmitter &m, mlir::Value x);
mlir::Value emitAcosh(MathEmitter &m, mlir::Value x);
mlir::Value emitAtanh(MathEmitter &m, mlir::Value x);

// MathTrig.cpp
mlir::Value emitSin(MathEmitter &m, mlir::Value x);
mlir::Value emitCos(MathEmitter &m, mlir::Value x);
mlir::Value emitTan(MathEmitter &m, mlir::Value x);
mlir::Value emitAsin(MathEmitter &m, mlir::Value x);
mlir::Value emitAcos(MathEmitter &m, mlir::Value x);
mlir::Value emitAtan(MathEmitter &m, mlir::Value x);
mlir::Value emitAtan2(MathEmitter &m, mlir::Value y, mlir::Value x);

// MathRound.cpp: f32 and f64, for levels without SSE4.1's instructions.
mlir::Value emitTrunc(MathEmitter &m, mlir::Value x);
mlir::Value emitFloor(MathEmitter &m, mlir::Value x);
mlir::Value emitCeil(MathEmitter &m, mlir::Value x);
mlir::Value emitRoundEven(MathEmitter &m, mlir::Value x);
/// Half away from zero; for every level.
mlir::Value emitRound(MathEmitter &m, mlir::Value x);
/// x * y + z of f32, rounded once, without the instruction.
mlir::Value emitFma(MathEmitter &m, mlir::Value x, mlir::Value y, mlir::Value z);
/// The remainder of a division that rounds towards zero (C's fmod), f32. Exact.
mlir::Value emitFmod(MathEmitter &m, mlir::Value x, mlir::Value y);

// MathHalf.cpp: conversions of bf16 and f16 on integers, round to nearest even, NaN stays quiet.
mlir::Value emitHalfToFloat(MathEmitter &m, mlir::Value x);                     // f32
mlir::Value emitFloatToHalf(MathEmitter &m, mlir::Value x, mlir::Type element); // from f32

// MathLibm.cpp
/// Calls a double-precision function of libm for every lane, in a loop over memory on the stack.
mlir::Value callLibm(MathEmitter &m, llvm::StringRef function, mlir::ValueRange arguments);
/// Where `rare` holds in some lane, everything is computed by `slow`, else by `fast`.
mlir::Value unlessRare(MathEmitter &m, mlir::Value rare, mlir::Type result, llvm::function_ref<mlir::Value()> fast,
                       llvm::function_ref<mlir::Value()> slow);

} // namespace tilewright::host
