//===- LoopFold.h - exact simplification of scalar expressions ---*- C++ -*-===//
//
// Private to lib/Import. Every rule keeps the value bit for bit (NaN payloads apart), for every input.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Import/LoopIR.h"

namespace tilewright::loop::fold {

bool isCommutative(ScalarOp op);
/// The value of `type` nearest to `value` (ties to even). bf16 and f16 round through f32, as conversions in PyTorch do.
double roundTo(double value, DType type);
/// The value modulo two to the width of `type`, sign or zero extended; Bool: != 0.
int64_t wrapTo(int64_t value, DType type);
/// Whether every value of `from` is a value of `to`.
bool isExactlyRepresentable(DType from, DType to);
/// What op(args) is, if a rule applies; else nullptr.
ExprRef simplify(ExprPool &pool, ScalarOp op, DType type, const std::vector<ExprRef> &args);

} // namespace tilewright::loop::fold
