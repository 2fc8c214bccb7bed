//===- MathLibm.cpp - calls of double-precision functions --------------------------------------------------------===//

#include "MathFunctions.h"
#include "VectorAccess.h"
#include "VectorReduce.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace tilewright::host {

static LLVM::LLVMFuncOp declare(ModuleOp module, StringRef name, size_t arguments) {
  if (auto found = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
    return found;
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  Type f64 = b.getF64Type();
  auto type = LLVM::LLVMFunctionType::get(f64, SmallVector<Type>(arguments, f64));
  return b.create<LLVM::LLVMFuncOp>(module.getLoc(), name, type);
}

Value callLibm(MathEmitter &m, StringRef function, ValueRange arguments) {
  ImplicitLocOpBuilder &b = m.b;
  Operation *here = b.getInsertionBlock()->getParentOp();
  auto callee = declare(here->getParentOfType<ModuleOp>(), function, arguments.size());
  auto type = dyn_cast<VectorType>(arguments[0].getType());
  if (!type)
    return b.create<LLVM::CallOp>(callee, arguments).getResult();
  // Stack memory belongs to the function's entry: inside of loops it would grow.
  auto parent = isa<func::FuncOp>(here) ? cast<func::FuncOp>(here) : here->getParentOfType<func::FuncOp>();
  SmallVector<Value> memory;
  Type f64 = b.getF64Type(), pointer = LLVM::LLVMPointerType::get(b.getContext());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&parent.getBody().front());
    Value lanes = b.create<LLVM::ConstantOp>(b.getI64Type(), b.getI64IntegerAttr(type.getNumElements()));
    for (size_t i = 0; i < arguments.size(); ++i)
      memory.push_back(b.create<LLVM::AllocaOp>(pointer, f64, lanes, /*alignment=*/64));
  }
  for (auto [argument, place] : llvm::zip(arguments, memory))
    b.create<LLVM::StoreOp>(argument, place, 64);
  b.create<scf::ForOp>(
      indexConstant(b, 0), indexConstant(b, type.getNumElements()), indexConstant(b, 1), ValueRange{},
      [&](OpBuilder &, Location, Value lane, ValueRange) {
        Value position = b.create<arith::IndexCastOp>(b.getI64Type(), lane);
        SmallVector<Value> scalars;
        for (Value place : memory)
          scalars.push_back(
              b.create<LLVM::LoadOp>(f64, b.create<LLVM::GEPOp>(pointer, f64, place, ValueRange{position}), 8));
        Value result = b.create<LLVM::CallOp>(callee, scalars).getResult();
        b.create<LLVM::StoreOp>(result, b.create<LLVM::GEPOp>(pointer, f64, memory[0], ValueRange{position}), 8);
        b.create<scf::YieldOp>();
      });
  return b.create<LLVM::LoadOp>(type, memory[0], 64);
}

Value unlessRare(MathEmitter &m, Value rare, Type result, llvm::function_ref<Value()> fast,
                 llvm::function_ref<Value()> slow) {
  ImplicitLocOpBuilder &b = m.b;
  Value any = isa<VectorType>(rare.getType()) ? reduceVector(b, tile::ReduceKind::Or, rare, {}) : rare;
  auto choice = b.create<scf::IfOp>(result, any, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  b.create<scf::YieldOp>(slow());
  b.setInsertionPointToStart(choice.elseBlock());
  b.create<scf::YieldOp>(fast());
  return choice.getResult(0);
}

} // namespace tilewright::host
