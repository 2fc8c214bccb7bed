//===- Combiner.h - two elements combined -------------------------*- C++ -*-===//
#pragma once

#include "Machine.h"

#include "mlir/IR/Block.h"
#include "mlir/IR/Builders.h"

namespace tilewright::interpret {

/// An operation of arith on two scalars, as the table has it: what sums and maxima mean stands there alone.
class Combiner {
public:
  Combiner(Frame &frame, llvm::StringRef name, mlir::Type type) : frame(frame) {
    mlir::OpBuilder b(type.getContext());
    mlir::OperationState state(b.getUnknownLoc(), name);
    block.addArguments({type, type}, {b.getUnknownLoc(), b.getUnknownLoc()});
    state.addOperands(block.getArguments());
    state.addTypes(type);
    op = b.create(state);
    block.push_back(op);
  }
  ~Combiner() {
    for (mlir::Value argument : block.getArguments())
      frame.forget(argument);
    frame.forget(op->getResult(0));
  }
  Combiner(const Combiner &) = delete;

  uint64_t operator()(uint64_t x, uint64_t y) {
    frame.set(block.getArgument(0), x);
    frame.set(block.getArgument(1), y);
    frame.machine.handlerOf(op)(frame, op);
    return frame.scalar(op->getResult(0));
  }

private:
  Frame &frame;
  mlir::Block block;
  mlir::Operation *op;
};

} // namespace tilewright::interpret
