//===- ExpandMath.cpp - what no instruction does becomes formulas ------------------------------------------------===//

#include "MathFunctions.h"
#include "tilewright/Target/Host/Lowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tilewright::host {

namespace {



/// Replaces single operations. A formula's own operations are plain arithmetic and are not visited again, but for those that a
/// level lacks (`again`).
class Expansion {
public:
  Expansion(Operation *root, const HostTarget &target) : root(root), target(target) {}
  LogicalResult run();

private:
  LogicalResult visit(Operation *op);
  LogicalResult callLibm(Operation *op, StringRef function);

  Operation *root;
  const HostTarget &target;
};

} // namespace

/// NaN wins; of two zeros the second operand (as the instruction has it, and PyTorch with it).
static Value propagatingExtremum(MathEmitter &m, MathEmitter::Compare better, Value x, Value y) {
  Value one = m.select(m.compare(better, x, y), x, y); // a NaN in y stays
  return m.select(m.isNan(x), x, one);
}

/// NaN loses.
static Value ignoringExtremum(MathEmitter &m, MathEmitter::Compare better, Value x, Value y) {
  Value one = m.select(m.compare(better, x, y), x, y); // a NaN in x is gone
  return m.select(m.isNan(y), x, one);
}

static Value expandExtremum(MathEmitter &m, Operation *op) {
  using Compare = MathEmitter::Compare;
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](arith::MaximumFOp max) { return propagatingExtremum(m, Compare::OGT, max.getLhs(), max.getRhs()); })
      .Case([&](arith::MinimumFOp min) { return propagatingExtremum(m, Compare::OLT, min.getLhs(), min.getRhs()); })
      .Case([&](arith::MaxNumFOp max) { return ignoringExtremum(m, Compare::OGT, max.getLhs(), max.getRhs()); })
      .Case([&](arith::MinNumFOp min) { return ignoringExtremum(m, Compare::OLT, min.getLhs(), min.getRhs()); })
      .Default(Value());
}

LogicalResult Expansion::visit(Operation *op) {
  if (op->getNumResults() != 1 || !isa<arith::ArithDialect, math::MathDialect>(op->getDialect()))
    return success();
  ImplicitLocOpBuilder b(op->getLoc(), op);
  MathEmitter m(b, target, op->getResult(0).getType());
  Value result = expandExtremum(m, op);
  if (result) {
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
  return success();
}

LogicalResult Expansion::run() {
  SmallVector<Operation *> work;
  root->walk([&](Operation *op) { work.push_back(op); });
  for (Operation *op : work)
    if (failed(visit(op)))
      return failure();
  return success();
}

LogicalResult expandMath(Operation *root, const HostTarget &target) { return Expansion(root, target).run(); }

} // namespace tilewright::host
