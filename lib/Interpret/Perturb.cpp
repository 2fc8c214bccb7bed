//===- Perturb.cpp ---------------------------------------------------------===//

#include "tilewright/Interpret/Perturb.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tilewright::interpret {

static APInt changed(const APInt &value) { return value + 1; }

static APFloat changed(APFloat value) {
  value.add(value, APFloat::rmNearestTiesToEven);
  value.add(APFloat(value.getSemantics(), 1), APFloat::rmNearestTiesToEven);
  return value;
}

static Attribute changed(Attribute value) {
  return llvm::TypeSwitch<Attribute, Attribute>(value)
      .Case([](IntegerAttr number) { return IntegerAttr::get(number.getType(), changed(number.getValue())); })
      .Case([](FloatAttr number) { return FloatAttr::get(number.getType(), changed(number.getValue())); })
      .Case([](DenseIntElementsAttr list) {
        return list.mapValues(list.getElementType(), [](const APInt &x) { return changed(x); });
      })
      .Case([](DenseFPElementsAttr list) {
        return list.mapValues(list.getElementType(), [](const APFloat &x) { return changed(x).bitcastToAPInt(); });
      })
      .Default(Attribute());
}

bool perturb(ModuleOp module, unsigned number) {
  auto done = module.walk([&](Operation *op) {
    if (!isa<arith::ConstantOp, LLVM::ConstantOp, arith::CmpIOp, LLVM::ICmpOp>(op) || number-- > 0)
      return WalkResult::advance();
    if (auto compare = dyn_cast<arith::CmpIOp>(op))
      compare.setPredicate(arith::invertPredicate(compare.getPredicate()));
    else if (auto compare = dyn_cast<LLVM::ICmpOp>(op))
      // Both dialects number the predicates alike.
      compare.setPredicate(static_cast<LLVM::ICmpPredicate>(
          arith::invertPredicate(static_cast<arith::CmpIPredicate>(compare.getPredicate()))));
    else if (Attribute value = changed(op->getAttr("value")))
      op->setAttr("value", value);
    return WalkResult::interrupt();
  });
  return done.wasInterrupted();
}

} // namespace tilewright::interpret
