//===- LoopScalars.h - values of scalar expressions ---------------*- C++ -*-===//
#pragma once

#include "tilewright/Import/LoopIR.h"

#include <cstdint>

namespace tilewright::loop {

/// A scalar of any type: floats in `f` (rounded to their type), the others in `i`.
struct Value {
  double f = 0;
  int64_t i = 0;
};

double rounded(double x, DType type);
int64_t wrapped(int64_t x, DType type);
Value read(const uint8_t *p, DType type);
void write(uint8_t *p, DType type, Value v);
double floatUnary(ScalarOp op, double x);
double floatBinary(ScalarOp op, double a, double b);
int64_t intBinary(ScalarOp op, int64_t a, int64_t b, DType type);
Value cast(Value x, DType from, DType to);
bool compare(ScalarOp op, Value a, Value b, DType type);

} // namespace tilewright::loop
