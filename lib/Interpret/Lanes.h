//===- Lanes.h - values of the interpreter ------------------------*- C++ -*-===//
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

#include <cstdint>

namespace tilewright::interpret {

/// The bits of each element, in row-major order: of a tile, of a vector, or of one scalar. Bits above the element's
/// width are zero. Pointers, buffers (their address) and index have 64 bits.
using Lanes = llvm::SmallVector<uint64_t, 16>;

struct Element {
  enum Kind : uint8_t { Integer, F32, F64, BF16, F16 } kind = Integer;
  unsigned bits = 64;

  bool isFloat() const { return kind != Integer; }
  /// In memory. Bool takes one byte.
  size_t bytes() const { return (bits + 7) / 8; }
};

/// Of a scalar, a vector or a tile. Throws Unknown.
Element elementOf(mlir::Type type);
size_t laneCount(mlir::Type type);

uint64_t cut(uint64_t value, unsigned bits);
int64_t signedOf(uint64_t value, unsigned bits);

/// A float as a number: exact.
float singleOf(Element element, uint64_t bits); // F32, BF16, F16
double doubleOf(Element element, uint64_t bits);
/// To nearest even. BF16 and F16 are rounded from f32, which is what the dialect says of conversions from f64, too.
uint64_t bitsOf(Element element, float value);
uint64_t bitsOf(Element element, double value);

/// The value of a constant: a number, or elements of a dense list.
Lanes decode(mlir::Attribute value, mlir::Type type);

} // namespace tilewright::interpret
