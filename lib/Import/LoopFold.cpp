//===- LoopFold.cpp - exact simplification of scalar expressions ----------===//
//
// Constants are folded where a double gives the correctly rounded result of the type: + - * / and sqrt of f32 may be
// computed in double and rounded (53 >= 2*24+2 bits). Elementary functions are left to the code generator: one
// definition only.
//
//===----------------------------------------------------------------------===//
#include "LoopFold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tilewright::loop::fold {

bool isCommutative(ScalarOp op) {
  switch (op) {
  case ScalarOp::Add:
  case ScalarOp::Mul:
  case ScalarOp::Max:
  case ScalarOp::Min:
  case ScalarOp::FMax:
  case ScalarOp::FMin:
  case ScalarOp::And:
  case ScalarOp::Or:
  case ScalarOp::Xor:
  case ScalarOp::Eq:
  case ScalarOp::Ne:
    return true;
  default:
    return false;
  }
}

static double roundToBF16(float value) {
  if (std::isnan(value))
    return std::numeric_limits<double>::quiet_NaN();
  uint32_t bits = std::bit_cast<uint32_t>(value);
  bits += 0x7fff + ((bits >> 16) & 1);
  return std::bit_cast<float>(bits & 0xffff0000u);
}

static double roundToF16(float value) {
  if (std::isnan(value) || std::isinf(value) || value == 0)
    return value;
  int exponent;
  std::frexp(value, &exponent);
  // The distance of neighbours: 2^-10 of the leading bit, and 2^-24 below the smallest normal number.
  double unit = std::ldexp(1.0, std::max(exponent - 11, -24));
  double rounded = std::nearbyint(value / unit) * unit;
  return std::fabs(rounded) > 65504.0 ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

double roundTo(double value, DType type) {
  switch (type) {
  case DType::F32:
    return static_cast<float>(value);
  case DType::BF16:
    return roundToBF16(static_cast<float>(value));
  case DType::F16:
    return roundToF16(static_cast<float>(value));
  default:
    return value;
  }
}

int64_t wrapTo(int64_t value, DType type) {
  switch (type) {
  case DType::Bool:
    return value != 0;
  case DType::I8:
    return static_cast<int8_t>(value);
  case DType::I16:
    return static_cast<int16_t>(value);
  case DType::I32:
    return static_cast<int32_t>(value);
  case DType::U8:
    return static_cast<uint8_t>(value);
  case DType::U16:
    return static_cast<uint16_t>(value);
  case DType::U32:
    return static_cast<uint32_t>(value);
  default:
    return value;
  }
}

bool isExactlyRepresentable(DType from, DType to) {
  if (from == to)
    return true;
  if (isComplex(from) || isComplex(to))
    return false;
  if (from == DType::Bool)
    return true; // 0 and 1
  if (to == DType::Bool)
    return false;
  if (isFloat(from))
    return isFloat(to) && (to == DType::F64 || (to == DType::F32 && from != DType::F64));
  const unsigned bits = 8 * sizeOf(from) - (isUnsigned(from) ? 0 : 1); // of magnitude
  if (isFloat(to)) {
    const unsigned mantissa = to == DType::F64 ? 53 : to == DType::F32 ? 24 : to == DType::F16 ? 11 : 8;
    return bits <= mantissa;
  }
  return (!isUnsigned(to) || isUnsigned(from)) && bits <= 8 * sizeOf(to) - (isUnsigned(to) ? 0 : 1);
}

static bool isConstant(ExprRef e) { return e->op == ScalarOp::Constant; }
static bool isFloatConstant(ExprRef e, double value) {
  return isConstant(e) && isFloat(e->type) && std::bit_cast<uint64_t>(e->floatValue) == std::bit_cast<uint64_t>(value);
}
static bool isIntConstant(ExprRef e, int64_t value) {
  return isConstant(e) && !isFloat(e->type) && e->intValue == value;
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

static ExprRef simplifyCast(ExprPool &pool, DType type, ExprRef x) {
  if (x->type == type)
    return x;
  if (isConstant(x)) {
    if (isFloat(x->type) && isFloat(type))
      return pool.constantFloat(x->floatValue, type);
    if (isFloat(x->type)) {
      if (type == DType::Bool)
        return pool.constantInt(x->floatValue != 0, type);
      // Beyond 64 bits the result is the machine's business.
      if (!(std::fabs(x->floatValue) < 9.2e18))
        return nullptr;
      return pool.constantInt(static_cast<int64_t>(x->floatValue), type);
    }
    if (x->type == DType::U64 && x->intValue < 0)
      return nullptr;
    // An integer beyond 2^53 would be rounded twice on its way to a narrow float.
    if (isFloat(type) && std::abs(static_cast<double>(x->intValue)) > 9007199254740992.0)
      return nullptr;
    return pool.constantInt(x->intValue, type);
  }
  if (x->op == ScalarOp::Cast) {
    ExprRef inner = x->args[0];
    if (isExactlyRepresentable(inner->type, x->type)) {
      if (inner->type == type)
        return inner;
      const bool floats = isFloat(inner->type) && isFloat(x->type) && isFloat(type);
      const bool integers = isInteger(inner->type) && isInteger(x->type) && isInteger(type);
      if (floats || integers || type == DType::Bool)
        return pool.cast(inner, type);
    }
  }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

static std::optional<double> foldFloat(ScalarOp op, const std::vector<ExprRef> &args) {
  const double a = args[0]->floatValue, b = args.size() > 1 ? args[1]->floatValue : 0;
  const bool nan = std::isnan(a) || (args.size() > 1 && std::isnan(b));
  switch (op) {
  case ScalarOp::Add:
    return a + b;
  case ScalarOp::Sub:
    return a - b;
  case ScalarOp::Mul:
    return a * b;
  case ScalarOp::Div:
    return a / b;
  case ScalarOp::Neg:
    return -a;
  case ScalarOp::Abs:
    return std::fabs(a);
  case ScalarOp::Sqrt:
    return std::sqrt(a);
  case ScalarOp::Floor:
    return std::floor(a);
  case ScalarOp::Ceil:
    return std::ceil(a);
  case ScalarOp::Trunc:
    return std::trunc(a);
  case ScalarOp::Max:
  case ScalarOp::Min:
    if (nan || (a == 0 && b == 0))
      return std::nullopt;
    return op == ScalarOp::Max ? std::max(a, b) : std::min(a, b);
  default:
    return std::nullopt;
  }
}

static std::optional<int64_t> foldInt(ScalarOp op, DType type, const std::vector<ExprRef> &args) {
  const int64_t a = args[0]->intValue, b = args.size() > 1 ? args[1]->intValue : 0;
  const auto wrapped = [](uint64_t value) { return static_cast<int64_t>(value); };
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  const bool logical = type == DType::Bool;
  switch (op) {
  case ScalarOp::Add:
    return logical ? std::nullopt : std::optional(wrapped(x + y));
  case ScalarOp::Sub:
    return logical ? std::nullopt : std::optional(wrapped(x - y));
  case ScalarOp::Mul:
    return logical ? std::nullopt : std::optional(wrapped(x * y));
  case ScalarOp::Neg:
    return logical ? std::nullopt : std::optional(wrapped(0 - x));
  case ScalarOp::And:
    return a & b;
  case ScalarOp::Or:
    return a | b;
  case ScalarOp::Xor:
    return a ^ b;
  case ScalarOp::Not:
    return logical ? !a : ~a;
  case ScalarOp::Max:
  case ScalarOp::Min:
    if (type == DType::U64)
      return std::nullopt;
    return op == ScalarOp::Max ? std::max(a, b) : std::min(a, b);
  case ScalarOp::FloorDiv:
  case ScalarOp::Mod: {
    if (type == DType::U64 || b == 0 || (a == std::numeric_limits<int64_t>::min() && b == -1))
      return std::nullopt;
    const int64_t quotient = a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
    return op == ScalarOp::FloorDiv ? quotient : a - quotient * b;
  }
  default:
    return std::nullopt;
  }
}

static std::optional<bool> foldCompare(ScalarOp op, const std::vector<ExprRef> &args) {
  const auto compare = [&](auto a, auto b) -> std::optional<bool> {
    switch (op) {
    case ScalarOp::Eq:
      return a == b;
    case ScalarOp::Ne:
      return a != b;
    case ScalarOp::Lt:
      return a < b;
    case ScalarOp::Le:
      return a <= b;
    default:
      return std::nullopt;
    }
  };
  if (isFloat(args[0]->type))
    return compare(args[0]->floatValue, args[1]->floatValue);
  if (args[0]->type == DType::U64)
    return compare(static_cast<uint64_t>(args[0]->intValue), static_cast<uint64_t>(args[1]->intValue));
  return compare(args[0]->intValue, args[1]->intValue);
}

/// Arithmetic of sizes stays a size expression, where equal values meet.
static ExprRef foldSizes(ExprPool &pool, ScalarOp op, const std::vector<ExprRef> &args) {
  std::vector<SizeExpr> values;
  for (ExprRef arg : args) {
    if (arg->type != DType::I64 || (arg->op != ScalarOp::Size && !isConstant(arg)))
      return nullptr;
    values.push_back(arg->op == ScalarOp::Size ? arg->size : SizeExpr(arg->intValue));
  }
  switch (op) {
  case ScalarOp::Neg:
    return pool.size(SizeExpr(0) - values[0]);
  case ScalarOp::Add:
    return pool.size(values[0] + values[1]);
  case ScalarOp::Sub:
    return pool.size(values[0] - values[1]);
  case ScalarOp::Mul:
    return pool.size(values[0] * values[1]);
  case ScalarOp::Max:
    return pool.size(SizeExpr::max(values[0], values[1]));
  case ScalarOp::Min:
    return pool.size(SizeExpr::min(values[0], values[1]));
  default:
    return nullptr;
  }
}

//===----------------------------------------------------------------------===//
// Identities
//===----------------------------------------------------------------------===//

static ExprRef simplifyIdentity(ExprPool &pool, ScalarOp op, DType type, const std::vector<ExprRef> &args) {
  ExprRef x = args[0], y = args.size() > 1 ? args[1] : nullptr;
  switch (op) {
  case ScalarOp::Add: // x + 0.0 is not x for x = -0.0
    return isIntConstant(y, 0) || isFloatConstant(y, -0.0) ? x : nullptr;
  case ScalarOp::Sub:
    return isIntConstant(y, 0) || isFloatConstant(y, 0.0) ? x : nullptr;
  case ScalarOp::Mul:
    if (isIntConstant(y, 1) || isFloatConstant(y, 1.0))
      return x;
    return isIntConstant(y, 0) ? y : nullptr;
  case ScalarOp::Div:
  case ScalarOp::FloorDiv:
    return isIntConstant(y, 1) || (op == ScalarOp::Div && isFloatConstant(y, 1.0)) ? x : nullptr;
  case ScalarOp::Max:
  case ScalarOp::Min:
  case ScalarOp::FMax:
  case ScalarOp::FMin:
    return x == y ? x : nullptr;
  case ScalarOp::And:
    if (x == y || (type == DType::Bool && isIntConstant(y, 1)))
      return x;
    return isIntConstant(y, 0) ? y : nullptr;
  case ScalarOp::Or:
    if (x == y || isIntConstant(y, 0))
      return x;
    return type == DType::Bool && isIntConstant(y, 1) ? y : nullptr;
  case ScalarOp::Xor:
    return isIntConstant(y, 0) ? x : nullptr;
  case ScalarOp::Shl:
  case ScalarOp::Shr:
    return isIntConstant(y, 0) ? x : nullptr;
  case ScalarOp::Select:
    if (isConstant(x))
      return x->intValue ? args[1] : args[2];
    return args[1] == args[2] ? args[1] : nullptr;
  case ScalarOp::Not:
  case ScalarOp::Neg:
    return x->op == op ? x->args[0] : nullptr;
  case ScalarOp::Abs:
    return x->op == ScalarOp::Abs                    ? x
           : x->op == ScalarOp::Neg && isFloat(type) ? pool.make(op, type, {x->args[0]})
                                                     : nullptr;
  case ScalarOp::Floor:
  case ScalarOp::Ceil:
  case ScalarOp::Trunc:
  case ScalarOp::Round:
    return !isFloat(type) ? x : nullptr;
  default:
    return nullptr;
  }
}

ExprRef simplify(ExprPool &pool, ScalarOp op, DType type, const std::vector<ExprRef> &args) {
  if (op == ScalarOp::Cast)
    return simplifyCast(pool, type, args[0]);
  if (args.empty() || op == ScalarOp::Bitcast)
    return nullptr;
  if (std::all_of(args.begin(), args.end(), isConstant) && args.size() <= 2) {
    if (op == ScalarOp::Eq || op == ScalarOp::Ne || op == ScalarOp::Lt || op == ScalarOp::Le) {
      if (std::optional<bool> value = foldCompare(op, args))
        return pool.constantInt(*value, DType::Bool);
    } else if (type == DType::F32 || type == DType::F64) {
      if (std::optional<double> value = foldFloat(op, args))
        return pool.constantFloat(*value, type);
    } else if (!isFloat(type)) {
      if (std::optional<int64_t> value = foldInt(op, type, args))
        return pool.constantInt(*value, type);
    }
  }
  if (type == DType::I64)
    if (ExprRef size = foldSizes(pool, op, args))
      return size;
  return simplifyIdentity(pool, op, type, args);
}

} // namespace tilewright::loop::fold
