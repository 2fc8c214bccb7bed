//===- Ex.h - scalar expressions with operators ------------------*- C++ -*-===//
//
// What entries write their formulas with. Both operands of an operator have one type; a C++ number takes the type of
// the expression it meets.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Import/LoopIR.h"

#include <concepts>
#include <stdexcept>

namespace tilewright::importer {

using loop::ExprPool;
using loop::ExprRef;
using loop::ScalarOp;

class Ex {
public:
  Ex() = default;
  Ex(ExprPool &pool, ExprRef ref) : pool(&pool), ref(ref) {}

  DType type() const { return ref->type; }
  ExprRef get() const { return ref; }

  /// A constant of this expression's type.
  template <typename T>
    requires std::integral<T> || std::floating_point<T>
  Ex like(T value) const {
    if constexpr (std::floating_point<T>)
      return {*pool, pool->constantFloat(value, type())};
    else
      return {*pool, pool->constantInt(static_cast<int64_t>(value), type())};
  }
  /// Conversion as PyTorch does it: to bf16 and f16 by way of f32.
  Ex to(DType type) const {
    ExprRef x = ref;
    if ((type == DType::BF16 || type == DType::F16) && x->type != type)
      x = pool->cast(x, DType::F32);
    else if ((x->type == DType::BF16 || x->type == DType::F16) && !isFloat(type) && type != DType::Bool)
      x = pool->cast(x, DType::F32);
    return {*pool, pool->cast(x, type)};
  }
  Ex bitcast(DType type) const { return {*pool, pool->make(ScalarOp::Bitcast, type, {ref})}; }
  Ex unary(ScalarOp op) const { return {*pool, pool->make(op, type(), {ref})}; }
  Ex binary(ScalarOp op, Ex other) const { return {*pool, pool->make(op, sameType(other), {ref, other.ref})}; }
  Ex compare(ScalarOp op, Ex other) const {
    sameType(other);
    return {*pool, pool->make(op, DType::Bool, {ref, other.ref})};
  }
  /// this (a Bool) ? a : b
  Ex select(Ex a, Ex b) const { return {*pool, pool->make(ScalarOp::Select, a.sameType(b), {ref, a.ref, b.ref})}; }

private:
  DType sameType(Ex other) const {
    if (type() != other.type())
      throw std::logic_error("operands of type " + std::string(nameOf(type())) + " and " +
                             std::string(nameOf(other.type())));
    return type();
  }

  ExprPool *pool = nullptr;
  ExprRef ref = nullptr;
};

template <typename T>
concept Number = std::integral<T> || std::floating_point<T>;

#define TILEWRIGHT_EX_BINARY(op, how, code)                                                                            \
  inline Ex operator op(Ex a, Ex b) { return a.how(ScalarOp::code, b); }                                               \
  template <Number T> Ex operator op(Ex a, T b) { return a.how(ScalarOp::code, a.like(b)); }                           \
  template <Number T> Ex operator op(T a, Ex b) { return b.like(a).how(ScalarOp::code, b); }
TILEWRIGHT_EX_BINARY(+, binary, Add)
TILEWRIGHT_EX_BINARY(-, binary, Sub)
TILEWRIGHT_EX_BINARY(*, binary, Mul)
TILEWRIGHT_EX_BINARY(/, binary, Div)
TILEWRIGHT_EX_BINARY(&, binary, And)
TILEWRIGHT_EX_BINARY(|, binary, Or)
TILEWRIGHT_EX_BINARY(^, binary, Xor)
TILEWRIGHT_EX_BINARY(<, compare, Lt)
TILEWRIGHT_EX_BINARY(<=, compare, Le)
#undef TILEWRIGHT_EX_BINARY

inline Ex operator>(Ex a, Ex b) { return b < a; }
inline Ex operator>=(Ex a, Ex b) { return b <= a; }
template <Number T> Ex operator>(Ex a, T b) { return a.like(b) < a; }
template <Number T> Ex operator>=(Ex a, T b) { return a.like(b) <= a; }
inline Ex operator-(Ex a) { return a.unary(ScalarOp::Neg); }
inline Ex operator~(Ex a) { return a.unary(ScalarOp::Not); }

inline Ex equal(Ex a, Ex b) { return a.compare(ScalarOp::Eq, b); }
inline Ex notEqual(Ex a, Ex b) { return a.compare(ScalarOp::Ne, b); }
template <Number T> Ex equal(Ex a, T b) { return equal(a, a.like(b)); }
template <Number T> Ex notEqual(Ex a, T b) { return notEqual(a, a.like(b)); }
inline Ex isNaN(Ex a) { return notEqual(a, a); }
inline Ex select(Ex condition, Ex a, Ex b) { return condition.select(a, b); }
template <Number T> Ex select(Ex condition, Ex a, T b) { return condition.select(a, a.like(b)); }
template <Number T> Ex select(Ex condition, T a, Ex b) { return condition.select(b.like(a), b); }
inline Ex max(Ex a, Ex b) { return a.binary(ScalarOp::Max, b); }
inline Ex min(Ex a, Ex b) { return a.binary(ScalarOp::Min, b); }
template <Number T> Ex max(Ex a, T b) { return max(a, a.like(b)); }
template <Number T> Ex min(Ex a, T b) { return min(a, a.like(b)); }

#define TILEWRIGHT_EX_UNARY(name, code)                                                                                \
  inline Ex name(Ex a) { return a.unary(ScalarOp::code); }
TILEWRIGHT_EX_UNARY(abs, Abs)
TILEWRIGHT_EX_UNARY(sqrt, Sqrt)
TILEWRIGHT_EX_UNARY(rsqrt, Rsqrt)
TILEWRIGHT_EX_UNARY(exp, Exp)
TILEWRIGHT_EX_UNARY(exp2, Exp2)
TILEWRIGHT_EX_UNARY(expm1, Expm1)
TILEWRIGHT_EX_UNARY(log, Log)
TILEWRIGHT_EX_UNARY(log1p, Log1p)
TILEWRIGHT_EX_UNARY(tanh, Tanh)
TILEWRIGHT_EX_UNARY(erf, Erf)
TILEWRIGHT_EX_UNARY(floor, Floor)
TILEWRIGHT_EX_UNARY(trunc, Trunc)
#undef TILEWRIGHT_EX_UNARY

} // namespace tilewright::importer
