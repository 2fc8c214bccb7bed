//===- Tiles.h - what operations on tiles share --------------------*- C++ -*-===//
#pragma once

#include "Machine.h"

#include "tilewright/Dialect/Tile/IR/TileDialect.h"

namespace tilewright::interpret {

/// A static integer or an index value.
int64_t numberOf(Frame &frame, mlir::OpFoldResult value);

Element elementOfBuffer(mlir::Value buffer);
/// Bool is a byte that is not 0.
uint64_t loadElement(Frame &frame, Element element, uint64_t address);

} // namespace tilewright::interpret
