//===- Perturb.h - a wrong pass, for tests ------------------------*- C++ -*-===//
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tilewright::interpret {

/// Changes constant or comparison `number` of a module, counted as it is printed: an integer is one more, a float twice
/// as much and one more, a comparison is turned into its opposite. False if there are not so many.
bool perturb(mlir::ModuleOp module, unsigned number);

} // namespace tilewright::interpret
