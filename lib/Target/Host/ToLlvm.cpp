//===- ToLlvm.cpp - everything left becomes the LLVM dialect ----------------------------------------------------===//

#include "tilewright/Target/Host/Lowering.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;

namespace tilewright::host {

/// tile.leave becomes the end of its block.
static void lowerLeaves(ModuleOp module) {
  SmallVector<tile::LeaveOp> leaves;
  module.walk([&](tile::LeaveOp op) { leaves.push_back(op); });
  for (tile::LeaveOp op : leaves) {
    Block *block = op->getBlock();
    while (&block->back() != op)
      block->back().erase();
    OpBuilder b(op);
    Value failed = b.create<LLVM::ConstantOp>(op.getLoc(), b.getI64IntegerAttr(1));
    b.create<LLVM::ReturnOp>(op.getLoc(), failed);
    op.erase();
  }
}

LogicalResult convertToLlvm(ModuleOp module) {
  MLIRContext *context = module.getContext();
  LowerToLLVMOptions options(context);
  LLVMTypeConverter converter(context, options);
  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns, /*reassociateFPReductions=*/false,
                                         /*force32BitVectorIndices=*/true);
  populateFuncToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp, tile::LeaveOp>();
  if (failed(applyFullConversion(module, target, std::move(patterns))))
    return failure();
  lowerLeaves(module);
  // Block arguments that were converted before their branches leave casts that nobody reads.
  module.walk([](UnrealizedConversionCastOp cast) {
    if (cast->use_empty())
      cast->erase();
  });
  return success();
}

} // namespace tilewright::host
