//===- DTypes.h - element types of PyTorch and of graphs -----------*- C++ -*-===//
#pragma once

#include "tilewright/Support/DType.h"

#include <c10/core/ScalarType.h>

#include <optional>

namespace tilewright::npu {

constexpr c10::ScalarType toScalarType(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return c10::ScalarType::Float;
  case DType::F64:
    return c10::ScalarType::Double;
  case DType::BF16:
    return c10::ScalarType::BFloat16;
  case DType::F16:
    return c10::ScalarType::Half;
  case DType::I8:
    return c10::ScalarType::Char;
  case DType::I16:
    return c10::ScalarType::Short;
  case DType::I32:
    return c10::ScalarType::Int;
  case DType::I64:
    return c10::ScalarType::Long;
  case DType::U8:
    return c10::ScalarType::Byte;
  case DType::Bool:
    return c10::ScalarType::Bool;
  case DType::C64:
    return c10::ScalarType::ComplexFloat;
  case DType::C128:
    return c10::ScalarType::ComplexDouble;
  case DType::U16:
    return c10::ScalarType::UInt16;
  case DType::U32:
    return c10::ScalarType::UInt32;
  case DType::U64:
    return c10::ScalarType::UInt64;
  case DType::C32:
    return c10::ScalarType::ComplexHalf;
  }
  return c10::ScalarType::Undefined;
}

/// Nothing for types that graphs do not have (quantised, float8, sub-byte).
constexpr std::optional<DType> toDType(c10::ScalarType type) {
#define X(e, ...)                                                                                                      \
  if (type == toScalarType(DType::e))                                                                                  \
    return DType::e;
  TILEWRIGHT_DTYPES(X)
#undef X
  return std::nullopt;
}

} // namespace tilewright::npu
