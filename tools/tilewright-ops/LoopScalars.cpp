//===- LoopScalars.cpp - values of scalar expressions ----------------------===//
#include "LoopScalars.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace tilewright::loop {

static float fromBF16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

static float fromF16(uint16_t h) {
  _Float16 value;
  std::memcpy(&value, &h, 2);
  return static_cast<float>(value);
}

static uint16_t toBF16(float x) {
  if (std::isnan(x))
    return 0x7fc0;
  uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static uint16_t toF16(float x) {
  _Float16 value = static_cast<_Float16>(x);
  uint16_t h;
  std::memcpy(&h, &value, 2);
  return h;
}

double rounded(double x, DType type) {
  switch (type) {
  case DType::F32:
    return static_cast<float>(x);
  case DType::BF16:
    return fromBF16(toBF16(static_cast<float>(x)));
  case DType::F16:
    return fromF16(toF16(static_cast<float>(x)));
  default:
    return x;
  }
}

int64_t wrapped(int64_t x, DType type) {
  switch (type) {
  case DType::Bool:
    return x != 0;
  case DType::I8:
    return static_cast<int8_t>(x);
  case DType::I16:
    return static_cast<int16_t>(x);
  case DType::I32:
    return static_cast<int32_t>(x);
  case DType::U8:
    return static_cast<uint8_t>(x);
  case DType::U16:
    return static_cast<uint16_t>(x);
  case DType::U32:
    return static_cast<uint32_t>(x);
  default:
    return x;
  }
}

Value read(const uint8_t *p, DType type) {
  const auto as = [&](auto zero) {
    std::memcpy(&zero, p, sizeof zero);
    return zero;
  };
  switch (type) {
  case DType::F32:
    return {as(0.0f), 0};
  case DType::F64:
    return {as(0.0), 0};
  case DType::BF16:
    return {fromBF16(as(uint16_t())), 0};
  case DType::F16:
    return {fromF16(as(uint16_t())), 0};
  case DType::I8:
    return {0, as(int8_t())};
  case DType::I16:
    return {0, as(int16_t())};
  case DType::I32:
    return {0, as(int32_t())};
  case DType::I64:
  case DType::U64:
    return {0, as(int64_t())};
  case DType::U8:
    return {0, as(uint8_t())};
  case DType::Bool:
    return {0, as(uint8_t()) != 0};
  case DType::U16:
    return {0, as(uint16_t())};
  case DType::U32:
    return {0, as(uint32_t())};
  default:
    throw std::runtime_error("the interpreter reads no " + std::string(nameOf(type)));
  }
}

void write(uint8_t *p, DType type, Value v) {
  const auto put = [&](auto x) { std::memcpy(p, &x, sizeof x); };
  switch (type) {
  case DType::F32:
    return put(static_cast<float>(v.f));
  case DType::F64:
    return put(v.f);
  case DType::BF16:
    return put(toBF16(static_cast<float>(v.f)));
  case DType::F16:
    return put(toF16(static_cast<float>(v.f)));
  default:
    std::memcpy(p, &v.i, sizeOf(type)); // little-endian
  }
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

double floatUnary(ScalarOp op, double x) {
  switch (op) {
  case ScalarOp::Neg:
    return -x;
  case ScalarOp::Abs:
    return std::fabs(x);
  case ScalarOp::Sqrt:
    return std::sqrt(x);
  case ScalarOp::Rsqrt:
    return 1 / std::sqrt(x);
  case ScalarOp::Exp:
    return std::exp(x);
  case ScalarOp::Exp2:
    return std::exp2(x);
  case ScalarOp::Expm1:
    return std::expm1(x);
  case ScalarOp::Log:
    return std::log(x);
  case ScalarOp::Log2:
    return std::log2(x);
  case ScalarOp::Log10:
    return std::log10(x);
  case ScalarOp::Log1p:
    return std::log1p(x);
  case ScalarOp::Sin:
    return std::sin(x);
  case ScalarOp::Cos:
    return std::cos(x);
  case ScalarOp::Tan:
    return std::tan(x);
  case ScalarOp::Sinh:
    return std::sinh(x);
  case ScalarOp::Cosh:
    return std::cosh(x);
  case ScalarOp::Tanh:
    return std::tanh(x);
  case ScalarOp::Asin:
    return std::asin(x);
  case ScalarOp::Acos:
    return std::acos(x);
  case ScalarOp::Atan:
    return std::atan(x);
  case ScalarOp::Asinh:
    return std::asinh(x);
  case ScalarOp::Acosh:
    return std::acosh(x);
  case ScalarOp::Atanh:
    return std::atanh(x);
  case ScalarOp::Erf:
    return std::erf(x);
  case ScalarOp::Erfc:
    return std::erfc(x);
  case ScalarOp::Floor:
    return std::floor(x);
  case ScalarOp::Ceil:
    return std::ceil(x);
  case ScalarOp::Trunc:
    return std::trunc(x);
  case ScalarOp::Round:
    return std::nearbyint(x);
  default:
    throw std::runtime_error(std::string("no float operator ") + nameOf(op));
  }
}

double floatBinary(ScalarOp op, double a, double b) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const bool anyNaN = std::isnan(a) || std::isnan(b);
  switch (op) {
  case ScalarOp::Add:
    return a + b;
  case ScalarOp::Sub:
    return a - b;
  case ScalarOp::Mul:
    return a * b;
  case ScalarOp::Div:
    return a / b;
  case ScalarOp::FMod:
    return std::fmod(a, b);
  case ScalarOp::Max:
    return anyNaN ? nan : std::max(a, b);
  case ScalarOp::Min:
    return anyNaN ? nan : std::min(a, b);
  case ScalarOp::FMax:
    return std::fmax(a, b);
  case ScalarOp::FMin:
    return std::fmin(a, b);
  case ScalarOp::Pow:
    return std::pow(a, b);
  case ScalarOp::Atan2:
    return std::atan2(a, b);
  case ScalarOp::CopySign:
    return std::copysign(a, b);
  default:
    throw std::runtime_error(std::string("no float operator ") + nameOf(op));
  }
}

int64_t intBinary(ScalarOp op, int64_t a, int64_t b, DType type) {
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  if ((op == ScalarOp::Div || op == ScalarOp::FloorDiv || op == ScalarOp::Mod || op == ScalarOp::FMod) && b == 0)
    throw std::runtime_error("integer division by zero");
  switch (op) {
  case ScalarOp::Add:
    return static_cast<int64_t>(x + y);
  case ScalarOp::Sub:
    return static_cast<int64_t>(x - y);
  case ScalarOp::Mul:
    return static_cast<int64_t>(x * y);
  case ScalarOp::Div:
    return a / b;
  case ScalarOp::FloorDiv:
    return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
  case ScalarOp::Mod:
    return (a % b != 0 && ((a < 0) != (b < 0))) ? a % b + b : a % b;
  case ScalarOp::FMod:
    return a % b;
  case ScalarOp::Max:
    return std::max(a, b);
  case ScalarOp::Min:
    return std::min(a, b);
  case ScalarOp::And:
    return a & b;
  case ScalarOp::Or:
    return a | b;
  case ScalarOp::Xor:
    return a ^ b;
  case ScalarOp::Shl:
  case ScalarOp::Shr:
    if (b < 0 || b >= static_cast<int64_t>(8 * sizeOf(type)))
      throw std::runtime_error("a shift by " + std::to_string(b) + " has no meaning");
    return op == ScalarOp::Shl ? static_cast<int64_t>(x << b) : a >> b;
  default:
    throw std::runtime_error(std::string("no integer operator ") + nameOf(op));
  }
}

template <typename T> static bool compare(ScalarOp op, T a, T b) {
  return op == ScalarOp::Eq ? a == b : op == ScalarOp::Ne ? a != b : op == ScalarOp::Lt ? a < b : a <= b;
}

bool compare(ScalarOp op, Value a, Value b, DType type) {
  return isFloat(type) ? compare(op, a.f, b.f) : compare(op, a.i, b.i);
}

Value cast(Value x, DType from, DType to) {
  if (isFloat(from)) {
    if (isFloat(to))
      return {rounded(x.f, to), 0};
    if (to == DType::Bool)
      return {0, x.f != 0};
    if (!(std::fabs(x.f) < 9.2e18))
      return {0, wrapped(std::numeric_limits<int64_t>::min(), to)};
    return {0, wrapped(static_cast<int64_t>(x.f), to)};
  }
  if (!isFloat(to))
    return {0, wrapped(x.i, to)};
  // One rounding: a double in between would be a second one.
  const bool isU64 = from == DType::U64;
  if (to == DType::F32)
    return {isU64 ? static_cast<float>(static_cast<uint64_t>(x.i)) : static_cast<float>(x.i), 0};
  return {rounded(isU64 ? static_cast<double>(static_cast<uint64_t>(x.i)) : static_cast<double>(x.i), to), 0};
}

} // namespace tilewright::loop
