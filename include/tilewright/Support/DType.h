//===- DType.h - element types, the one table ------------------*- C++ -*-===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tilewright {

/// X(enumerator, name in graph descriptions, bytes, is float, is complex, is signed integer, is unsigned integer)
#define TILEWRIGHT_DTYPES(X)                                                                                           \
  X(F32, "f32", 4, true, false, false, false)                                                                          \
  X(F64, "f64", 8, true, false, false, false)                                                                          \
  X(BF16, "bf16", 2, true, false, false, false)                                                                        \
  X(F16, "f16", 2, true, false, false, false)                                                                          \
  X(I8, "i8", 1, false, false, true, false)                                                                            \
  X(I16, "i16", 2, false, false, true, false)                                                                          \
  X(I32, "i32", 4, false, false, true, false)                                                                          \
  X(I64, "i64", 8, false, false, true, false)                                                                          \
  X(U8, "u8", 1, false, false, false, true)                                                                            \
  X(Bool, "bool", 1, false, false, false, false)                                                                       \
  X(C64, "c64", 8, false, true, false, false)                                                                          \
  X(C128, "c128", 16, false, true, false, false)                                                                       \
  X(U16, "u16", 2, false, false, false, true)                                                                          \
  X(U32, "u32", 4, false, false, false, true)                                                                          \
  X(U64, "u64", 8, false, false, false, true)                                                                          \
  X(C32, "c32", 4, false, true, false, false)

/// The numeric values are part of Program's serialised form: append, never reorder.
enum class DType : uint8_t {
#define X(e, ...) e,
  TILEWRIGHT_DTYPES(X)
#undef X
};

constexpr size_t sizeOf(DType t) {
  constexpr size_t table[] = {
#define X(e, n, b, ...) b,
      TILEWRIGHT_DTYPES(X)
#undef X
  };
  return table[static_cast<size_t>(t)];
}

constexpr std::string_view nameOf(DType t) {
  constexpr std::string_view table[] = {
#define X(e, n, ...) n,
      TILEWRIGHT_DTYPES(X)
#undef X
  };
  return table[static_cast<size_t>(t)];
}

constexpr std::optional<DType> dtypeFromName(std::string_view name) {
#define X(e, n, ...)                                                                                                   \
  if (name == n)                                                                                                       \
    return DType::e;
  TILEWRIGHT_DTYPES(X)
#undef X
  return std::nullopt;
}

constexpr bool isFloat(DType t) {
  constexpr bool table[] = {
#define X(e, n, b, f, ...) f,
      TILEWRIGHT_DTYPES(X)
#undef X
  };
  return table[static_cast<size_t>(t)];
}

constexpr bool isComplex(DType t) {
  constexpr bool table[] = {
#define X(e, n, b, f, c, ...) c,
      TILEWRIGHT_DTYPES(X)
#undef X
  };
  return table[static_cast<size_t>(t)];
}

constexpr bool isUnsigned(DType t) {
  constexpr bool table[] = {
#define X(e, n, b, f, c, s, u) u,
      TILEWRIGHT_DTYPES(X)
#undef X
  };
  return table[static_cast<size_t>(t)] || t == DType::Bool;
}

constexpr bool isInteger(DType t) { return !isFloat(t) && !isComplex(t) && t != DType::Bool; }

} // namespace tilewright
