//===- Promotion.cpp - type promotion: c10's rules ------------------------===//
//
// c10/core/ScalarType.h (promoteTypes) and ATen/native/TypeProperties.cpp (result_type).
//
//===----------------------------------------------------------------------===//
#include "Builder.h"

namespace tilewright::importer {

DType Scalar::category() const {
  if (std::holds_alternative<bool>(value))
    return DType::Bool;
  if (std::holds_alternative<double>(value))
    return DType::F64;
  if (const Tensor *t = std::get_if<Tensor>(&value))
    return isFloat(t->dtype) ? DType::F64 : t->dtype == DType::Bool ? DType::Bool : DType::I64;
  return DType::I64;
}

std::optional<double> Scalar::constant() const {
  if (const bool *v = std::get_if<bool>(&value))
    return *v;
  if (const int64_t *v = std::get_if<int64_t>(&value))
    return static_cast<double>(*v);
  if (const double *v = std::get_if<double>(&value))
    return *v;
  return std::nullopt;
}

static DType promoteIntegers(DType a, DType b) {
  if (isUnsigned(a) == isUnsigned(b))
    return sizeOf(a) >= sizeOf(b) ? a : b;
  if (isUnsigned(a))
    std::swap(a, b);
  // a is signed, b unsigned. Of the unsigned types PyTorch promotes only u8 with others.
  if (b != DType::U8)
    throw Unsupported("promotion of " + std::string(nameOf(b)) + " with " + std::string(nameOf(a)) +
                      " is not defined by PyTorch");
  return a == DType::I8 ? DType::I16 : a;
}

DType promoteTypes(DType a, DType b) {
  if (a == b)
    return a;
  if (isComplex(a) || isComplex(b))
    throw Unsupported("complex numbers have no native code");
  if (a == DType::Bool)
    return b;
  if (b == DType::Bool)
    return a;
  if (isFloat(a) && isFloat(b)) {
    if (sizeOf(a) == sizeOf(b))
      return DType::F32; // f16 with bf16
    return sizeOf(a) > sizeOf(b) ? a : b;
  }
  if (isFloat(a))
    return a;
  if (isFloat(b))
    return b;
  return promoteIntegers(a, b);
}

static std::optional<DType> promoteOptional(std::optional<DType> a, DType b) { return a ? promoteTypes(*a, b) : b; }

/// The lower category matters only where it is of a higher kind (bool < integer < float).
static std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher || !lower)
    return higher ? higher : lower;
  if (isFloat(*higher))
    return higher;
  if (*higher == DType::Bool || isFloat(*lower))
    return promoteTypes(*higher, *lower);
  return higher;
}

DType resultType(std::span<const Operand> operands) {
  std::optional<DType> dims, zero, wrapped;
  for (const Operand &operand : operands) {
    if (const Tensor *t = operand.tensor()) {
      std::optional<DType> &state = t->rank() > 0 ? dims : zero;
      state = promoteOptional(state, t->dtype);
    } else {
      const DType category = operand.scalar()->category();
      wrapped = promoteOptional(wrapped, category == DType::F64 ? DType::F32 : category); // the default dtype
    }
  }
  const std::optional<DType> result = combine(dims, combine(zero, wrapped));
  if (!result)
    throw Invalid("an operator needs at least one operand");
  if (isComplex(*result))
    throw Unsupported("complex numbers have no native code");
  return *result;
}

DType floatResultType(std::span<const Operand> operands) {
  const DType type = resultType(operands);
  return isFloat(type) ? type : DType::F32;
}

DType opmathType(DType type) { return type == DType::BF16 || type == DType::F16 ? DType::F32 : type; }

DType accumulateType(DType type) { return isFloat(type) ? opmathType(type) : DType::I64; }

} // namespace tilewright::importer
