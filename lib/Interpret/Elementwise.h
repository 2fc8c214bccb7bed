//===- Elementwise.h - operations that work lane by lane ----------*- C++ -*-===//
#pragma once

#include "Machine.h"

#include <cmath>
#include <initializer_list>

namespace tilewright::interpret {

/// The result's lane i of the operands' lanes i; a scalar operand beside vectors (the condition of a select) counts for
/// every lane. `fn(const uint64_t *x, Element operand, Element result)`, where the element is that of the last operand.
template <typename Fn> void elementwise(Frame &frame, mlir::Operation *op, Fn fn) {
  mlir::Value result = op->getResult(0);
  Element from = elementOf(op->getOperands().back().getType()), to = elementOf(result.getType());
  llvm::SmallVector<const Lanes *, 3> operands;
  for (mlir::Value operand : op->getOperands())
    operands.push_back(&frame.get(operand));
  Lanes lanes(laneCount(result.getType()));
  for (size_t i = 0; i < lanes.size(); ++i) {
    uint64_t x[3];
    for (size_t k = 0; k < operands.size(); ++k)
      x[k] = (*operands[k])[operands[k]->size() == 1 ? 0 : i];
    lanes[i] = cut(fn(x, from, to), to.bits);
  }
  frame.set(result, std::move(lanes));
}

/// Adds a handler under several names: an operation of arith or math and what becomes of it in the LLVM dialect.
inline void add(Table &table, std::initializer_list<const char *> names, const Handler &handler) {
  for (const char *name : names)
    table[name] = handler;
}

} // namespace tilewright::interpret
