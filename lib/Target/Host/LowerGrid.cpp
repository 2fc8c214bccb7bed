//===- LowerGrid.cpp - a kernel becomes a function of the kernel ABI ---------------------------------------------===//

#include "tilewright/Runtime/KernelContext.h"
#include "tilewright/Target/Host/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace tilewright::host {

namespace {

class GridLowering {
public:
  explicit GridLowering(tile::KernelOp kernel)
      : kernel(kernel), b(kernel.getLoc(), kernel), pointer(LLVM::LLVMPointerType::get(b.getContext())) {}

  LogicalResult run();

private:
  Value constant(int64_t value) { return b.create<arith::ConstantIndexOp>(value); }
  Value field(size_t offset) {
    return b.create<LLVM::GEPOp>(pointer, b.getI8Type(), context, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
  }
  Value argument(Value array, unsigned i, Type type);
  void replaceMemory();
  void lowerErrors();
  void lowerGridLoop(tile::GridOp grid, Value begin, Value end);

  tile::KernelOp kernel;
  ImplicitLocOpBuilder b;
  Type pointer;
  Value buffers, ints, context;
};

/// Element i of the arrays of pointers and integers. Nobody writes these while the kernel runs.
Value GridLowering::argument(Value array, unsigned i, Type type) {
  Value address = b.create<LLVM::GEPOp>(pointer, type, array, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
  return b.create<LLVM::LoadOp>(type, address, /*alignment=*/8, /*isVolatile=*/false, /*isNonTemporal=*/false,
                                /*isInvariant=*/true);
}

void GridLowering::replaceMemory() {
  SmallVector<Value> pointers;
  for (unsigned i = 0; i < kernel.getNumBuffers(); ++i)
    pointers.push_back(argument(buffers, i, pointer));
  kernel->walk([&](tile::AddressOp op) {
    if (auto source = dyn_cast<BlockArgument>(op.getBuffer())) {
      op.replaceAllUsesWith(pointers[source.getArgNumber()]);
    } else {
      auto scratch = op.getBuffer().getDefiningOp<tile::ScratchOp>();
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(op);
      Value start = b.create<LLVM::LoadOp>(pointer, field(offsetof(KernelContext, scratch)), 8, false, false, true);
      Value bytes = b.create<arith::IndexCastOp>(b.getI64Type(), scratch.getByteOffset());
      op.replaceAllUsesWith(b.create<LLVM::GEPOp>(pointer, b.getI8Type(), start, ValueRange{bytes}).getResult());
    }
    op.erase();
  });
  kernel->walk([](tile::ScratchOp op) {
    if (op->use_empty())
      op.erase();
  });
  for (unsigned i = 0; i < kernel.getNumInts(); ++i) {
    Value wide = argument(ints, i, b.getI64Type());
    kernel.getInt(i).replaceAllUsesWith(b.create<arith::IndexCastOp>(b.getIndexType(), wide));
  }
}

void GridLowering::lowerErrors() {
  kernel->walk([&](tile::RecordErrorOp op) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(op);
    Type i64 = b.getI64Type();
    b.create<LLVM::StoreOp>(b.create<arith::ConstantIntOp>(op.getSite() + 1, 64),
                            field(offsetof(KernelContext, errorCode)), 8);
    b.create<LLVM::StoreOp>(b.create<arith::IndexCastOp>(i64, op.getIndex()),
                            field(offsetof(KernelContext, errorIndex)), 8);
    b.create<LLVM::StoreOp>(b.create<arith::IndexCastOp>(i64, op.getBound()),
                            field(offsetof(KernelContext, errorBound)), 8);
    b.create<tile::LeaveOp>();
    op.erase();
  });
}

/// for (point = begin; point < end; ++point): the indices are found by division once, then counted up like an odometer.
void GridLowering::lowerGridLoop(tile::GridOp grid, Value begin, Value end) {
  SmallVector<unsigned> dims; // those whose size is not 1
  for (auto [d, size] : llvm::enumerate(grid.getSizes()))
    if (getConstantIntValue(size) != 1)
      dims.push_back(d);
  SmallVector<Value> start(dims.size());
  Value rest = begin, one = constant(1), zero = constant(0);
  for (size_t k = dims.size(); k-- > 1;) {
    // An empty grid has no points, but its sizes are divided by.
    Value size = b.create<arith::MaxSIOp>(grid.getSizes()[dims[k]], one);
    start[k] = b.create<arith::RemUIOp>(rest, size);
    rest = b.create<arith::DivUIOp>(rest, size);
  }
  if (!dims.empty())
    start[0] = rest;
  bool counted = dims.size() > 1; // else the point is the index
  auto loop = b.create<scf::ForOp>(begin, end, one, counted ? ValueRange(start) : ValueRange());
  Block *body = loop.getBody();
  if (!counted)
    body->getTerminator()->erase();
  b.setInsertionPointToStart(body);
  SmallVector<Value> now(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  if (dims.size() == 1)
    now = {loop.getInductionVar()};
  for (auto [d, index] : llvm::enumerate(grid.getIndices())) {
    auto found = llvm::find(dims, d);
    index.replaceAllUsesWith(found == dims.end() ? zero : now[found - dims.begin()]);
  }
  body->getOperations().splice(body->end(), grid.getBlock().getOperations());
  b.setInsertionPointToEnd(body);
  SmallVector<Value> next(counted ? dims.size() : 0);
  Value carry = one;
  for (size_t k = next.size(); k-- > 0;) {
    next[k] = b.create<arith::AddIOp>(now[k], carry);
    if (k == 0)
      break;
    Value wraps = b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, next[k], grid.getSizes()[dims[k]]);
    next[k] = b.create<arith::SelectOp>(wraps, zero, next[k]);
    carry = b.create<arith::SelectOp>(wraps, one, zero);
  }
  b.create<scf::YieldOp>(next);
}

LogicalResult GridLowering::run() {
  Type i64 = b.getI64Type();
  auto function =
      b.create<func::FuncOp>(kernel.getSymName(), b.getFunctionType({pointer, pointer, i64, i64, pointer}, i64));
  Block *entry = function.addEntryBlock();
  buffers = entry->getArgument(0);
  ints = entry->getArgument(1);
  context = entry->getArgument(4);
  b.setInsertionPointToStart(entry);
  lowerErrors();
  replaceMemory();
  for (BlockArgument left : kernel.getBlock().getArguments())
    if (!left.use_empty())
      return left.getUsers().begin()->emitOpError(
          "still uses a buffer where a kernel becomes a function: its lowering has not run");
  tile::GridOp grid = kernel.getGrid();
  entry->getOperations().splice(entry->end(), kernel.getBlock().getOperations());
  b.setInsertionPoint(grid);
  lowerGridLoop(grid, b.create<arith::IndexCastOp>(b.getIndexType(), entry->getArgument(2)),
                b.create<arith::IndexCastOp>(b.getIndexType(), entry->getArgument(3)));
  grid.erase();
  b.setInsertionPointToEnd(entry);
  bool streams = false;
  function->walk([&](LLVM::StoreOp op) { streams |= op.getNontemporal(); });
  if (streams) // weakly ordered: they must be seen before the end of the kernel is
    b.create<LLVM::CallIntrinsicOp>(TypeRange{}, b.getStringAttr("llvm.x86.sse.sfence"), ValueRange{});
  b.create<func::ReturnOp>(Value(b.create<arith::ConstantIntOp>(0, 64)));
  kernel.erase();
  return success();
}

} // namespace

LogicalResult lowerGrid(tile::KernelOp kernel) { return GridLowering(kernel).run(); }

} // namespace tilewright::host
