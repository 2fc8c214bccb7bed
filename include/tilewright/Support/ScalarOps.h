//===- ScalarOps.h - the elementwise operations, in one list ---------*- C++ -*-===//
#pragma once

/// X(enumerator, printed name, number of operands, cost in rough vector instructions)
#define TILEWRIGHT_SCALAR_OPS(X)                                                                                       \
  X(Constant, "const", 0, 0)                                                                                           \
  X(Size, "size", 0, 0)   /* SizeExpr as i64 */                                                                        \
  X(Index, "index", 0, 0) /* index of a domain dimension, i64 */                                                       \
  X(Load, "load", 0, 1)                                                                                                \
  X(Accumulator, "acc", 0, 0) /* a contraction's sum, in its epilogue */                                               \
  X(Cast, "cast", 1, 1)       /* to Expr::type; float to integer truncates, anything to bool is != 0 */                \
  X(Bitcast, "bitcast", 1, 0)                                                                                          \
  X(CheckIndex, "check", 1, 2) /* i64 in [0, size) or a recorded error of data; `site` */                              \
  X(Add, "add", 2, 1)                                                                                                  \
  X(Sub, "sub", 2, 1)                                                                                                  \
  X(Mul, "mul", 2, 1)                                                                                                  \
  X(Div, "div", 2, 4)       /* floats: IEEE; integers: truncating; by zero gives no result: see Builder::divisor */    \
  X(FloorDiv, "fdiv", 2, 8) /* Python's floor division */                                                              \
  X(Mod, "mod", 2, 8)       /* Python's modulo (sign of the divisor) */                                                \
  X(FMod, "fmod", 2, 20)    /* C's remainder (sign of the dividend) */                                                 \
  X(Fma, "fma", 3, 1)                                                                                                  \
  X(Max, "max", 2, 1) /* floats: NaN wins */                                                                           \
  X(Min, "min", 2, 1)                                                                                                  \
  X(FMax, "fmax", 2, 2) /* floats: NaN loses */                                                                        \
  X(FMin, "fmin", 2, 2)                                                                                                \
  X(Pow, "pow", 2, 60)                                                                                                 \
  X(Atan2, "atan2", 2, 40)                                                                                             \
  X(CopySign, "copysign", 2, 1)                                                                                        \
  X(And, "and", 2, 1)                                                                                                  \
  X(Or, "or", 2, 1)                                                                                                    \
  X(Xor, "xor", 2, 1)                                                                                                  \
  X(Shl, "shl", 2, 1)                                                                                                  \
  X(Shr, "shr", 2, 1) /* arithmetic for signed types */                                                                \
  X(Eq, "eq", 2, 1)   /* comparisons give Bool; false with NaN but for Ne */                                           \
  X(Ne, "ne", 2, 1)                                                                                                    \
  X(Lt, "lt", 2, 1)                                                                                                    \
  X(Le, "le", 2, 1)                                                                                                    \
  X(Select, "select", 3, 1) /* condition (Bool), then, else */                                                         \
  X(Not, "not", 1, 1)       /* bitwise; logical for Bool */                                                            \
  X(Neg, "neg", 1, 1)                                                                                                  \
  X(Abs, "abs", 1, 1)                                                                                                  \
  X(Sqrt, "sqrt", 1, 8)                                                                                                \
  X(Rsqrt, "rsqrt", 1, 10)                                                                                             \
  X(Exp, "exp", 1, 15)                                                                                                 \
  X(Exp2, "exp2", 1, 15)                                                                                               \
  X(Expm1, "expm1", 1, 20)                                                                                             \
  X(Log, "log", 1, 20)                                                                                                 \
  X(Log2, "log2", 1, 20)                                                                                               \
  X(Log10, "log10", 1, 20)                                                                                             \
  X(Log1p, "log1p", 1, 25)                                                                                             \
  X(Sin, "sin", 1, 30)                                                                                                 \
  X(Cos, "cos", 1, 30)                                                                                                 \
  X(Tan, "tan", 1, 40)                                                                                                 \
  X(Sinh, "sinh", 1, 30)                                                                                               \
  X(Cosh, "cosh", 1, 30)                                                                                               \
  X(Tanh, "tanh", 1, 20)                                                                                               \
  X(Asin, "asin", 1, 30)                                                                                               \
  X(Acos, "acos", 1, 30)                                                                                               \
  X(Atan, "atan", 1, 30)                                                                                               \
  X(Asinh, "asinh", 1, 40)                                                                                             \
  X(Acosh, "acosh", 1, 40)                                                                                             \
  X(Atanh, "atanh", 1, 40)                                                                                             \
  X(Erf, "erf", 1, 30)                                                                                                 \
  X(Erfc, "erfc", 1, 40)                                                                                               \
  X(Floor, "floor", 1, 1)                                                                                              \
  X(Ceil, "ceil", 1, 1)                                                                                                \
  X(Trunc, "trunc", 1, 1)                                                                                              \
  X(Round, "round", 1, 1) /* half to even */
