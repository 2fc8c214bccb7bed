//===- TileToVector.cpp - tiles become vectors -------------------------------------------------------------------===//

#include "VectorAccess.h"
#include "VectorReduce.h"
#include "tilewright/Target/Host/Lowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tilewright::host {

static Type vectorOf(Type type) {
  if (auto tile = dyn_cast<RankedTensorType>(type))
    return VectorType::get(tile.getShape(), tile.getElementType());
  return type;
}

/// Gives every tile the vector type of its shape. arith, math and scf mean the same on vectors, so that their
/// operations stay as they are; only constants hold their type twice.
static LogicalResult retype(tile::KernelOp kernel) {
  WalkResult result = kernel->walk([&](Operation *op) -> WalkResult {
    bool hasTiles = llvm::any_of(op->getResultTypes(), [](Type type) { return isa<TensorType>(type); });
    if (hasTiles && !isa<arith::ArithDialect, math::MathDialect, scf::SCFDialect, tile::TileDialect>(op->getDialect()))
      return op->emitOpError("cannot work on tiles on the host: tiles are for tile, arith, math and scf operations");
    for (Value value : op->getResults()) {
      auto tile = dyn_cast<RankedTensorType>(value.getType());
      if (tile && tile.getRank() != 1)
        return op->emitOpError() << "has a tile of rank " << tile.getRank() << ": run tile-unroll first";
      value.setType(vectorOf(value.getType()));
    }
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          argument.setType(vectorOf(argument.getType()));
    if (auto constant = dyn_cast<arith::ConstantOp>(op); constant && hasTiles) {
      auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (!elements)
        return op->emitOpError("has a value that is not a dense list of elements");
      constant.setValueAttr(cast<TypedAttr>(cast<Attribute>(elements.reshape(cast<ShapedType>(constant.getType())))));
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

namespace {

/// Replaces one tile operation after another; operands and results are vectors already.
class Lowering {
public:
  Lowering(Operation *op, const HostTarget &target) : b(op->getLoc(), op), target(target) {}

  bool run(Operation *op) {
    return llvm::TypeSwitch<Operation *, bool>(op)
        .Case<tile::LoadOp, tile::StoreOp, tile::GatherOp, tile::ScatterOp, tile::ReduceOp, tile::SplatOp, tile::IotaOp,
              tile::CheckIndexOp, tile::MisalignmentOp, tile::AtomicAddOp>([&](auto typed) {
          lower(typed);
          return true;
        })
        .Default(false);
  }

private:
  static Value firstOf(ValueRange valid) { return valid.empty() ? Value() : valid.front(); }

  void lower(tile::LoadOp op) {
    VectorAccess memory(b, target, op.getBuffer(), op.getOffset());
    auto type = dyn_cast<VectorType>(op.getType());
    op.getResult().replaceAllUsesWith(type ? memory.load(type, op.getMixedStrides().front(), firstOf(op.getValid()),
                                                         op.getFill().value_or(TypedAttr()))
                                           : memory.loadScalar());
  }

  void lower(tile::StoreOp op) {
    VectorAccess memory(b, target, op.getBuffer(), op.getOffset());
    if (isa<VectorType>(op.getValue().getType()))
      memory.store(op.getValue(), op.getMixedStrides().front(), firstOf(op.getValid()), op.getStreaming());
    else
      memory.storeScalar(op.getValue());
  }

  void lower(tile::GatherOp op) {
    VectorAccess memory(b, target, op.getBuffer(), op.getOffset());
    op.getResult().replaceAllUsesWith(memory.gather(cast<VectorType>(Type(op.getResult().getType())), op.getIndices(),
                                                    op.getMixedStride(), firstOf(op.getValid()),
                                                    op.getFill().value_or(TypedAttr())));
  }

  void lower(tile::ScatterOp op) {
    VectorAccess memory(b, target, op.getBuffer(), op.getOffset());
    if (op.getAtomic())
      memory.atomicAdd(op.getValue(), op.getIndices(), op.getMixedStride(), firstOf(op.getValid()));
    else
      memory.scatter(op.getValue(), op.getIndices(), op.getMixedStride(), firstOf(op.getValid()));
  }

  void lower(tile::AtomicAddOp op) { VectorAccess(b, target, op.getBuffer(), op.getOffset()).atomicAdd(op.getValue()); }

  void lower(tile::ReduceOp op) {
    op.getResult().replaceAllUsesWith(reduceVector(b, op.getKind(), op.getSource(), firstOf(op.getValid())));
  }

  void lower(tile::SplatOp op) {
    Value result = op.getResult();
    result.replaceAllUsesWith(splat(b, op.getSource(), cast<VectorType>(result.getType())));
  }

  void lower(tile::IotaOp op) {
    Value result = op.getResult();
    result.replaceAllUsesWith(iota(b, cast<VectorType>(result.getType())));
  }

  void lower(tile::MisalignmentOp op) {
    int64_t bytes = (cast<tile::BufferType>(op.getBuffer().getType()).getElementType().getIntOrFloatBitWidth() + 7) / 8;
    Type i64 = b.getI64Type();
    Value base = b.create<LLVM::PtrToIntOp>(i64, b.create<tile::AddressOp>(op.getBuffer()));
    Value offset = b.create<arith::IndexCastOp>(i64, op.getOffset());
    Value address = b.create<arith::AddIOp>(
        base, b.create<arith::MulIOp>(offset, b.create<arith::ConstantOp>(b.getI64IntegerAttr(bytes))));
    Value beyond = b.create<arith::AndIOp>(address, b.create<arith::ConstantOp>(b.getI64IntegerAttr(63)));
    op.getResult().replaceAllUsesWith(b.create<arith::IndexCastOp>(b.getIndexType(), beyond).getResult());
  }

  void lower(tile::CheckIndexOp op);

  ImplicitLocOpBuilder b;
  const HostTarget &target;
};

/// The check of a vector is one compare; which lane was wrong is looked for on the way to the error only.
void Lowering::lower(tile::CheckIndexOp op) {
  Value result = op.getResult(), index = op.getIndex(), valid = firstOf(op.getValid());
  auto vector = dyn_cast<VectorType>(index.getType());
  Type element = vector ? vector.getElementType() : index.getType();
  Value bound = op.getBound();
  // Compared unsigned: one compare finds negative indices too. The bound may not fit 32 bits, so i32 is widened.
  Type wideElement = element.isInteger(32) ? b.getI64Type() : element;
  Type wideType = vector ? Type(VectorType::get(vector.getShape(), wideElement)) : wideElement;
  Value wide = index;
  if (wideElement != element)
    wide = b.create<arith::ExtSIOp>(wideType, index);
  Value limit = wideElement.isIndex() ? bound : b.create<arith::IndexCastOp>(wideElement, bound);
  Value good = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, wide,
                                       vector ? splat(b, limit, cast<VectorType>(wideType)) : limit);
  Value checked = good;
  if (valid) { // Invalid lanes are neither wrong nor used.
    Value mask = laneMask(b, valid, vector.getNumElements());
    Value on = splat(b, b.getBoolAttr(true), cast<VectorType>(mask.getType()));
    checked = b.create<arith::OrIOp>(good, b.create<arith::XOrIOp>(mask, on));
    good = b.create<arith::AndIOp>(good, mask);
  }
  Value allGood = vector ? reduceVector(b, tile::ReduceKind::And, checked, {}) : checked;
  Value wrong = b.create<arith::XOrIOp>(allGood, b.create<arith::ConstantOp>(b.getBoolAttr(true)));
  auto report = b.create<scf::IfOp>(wrong, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(report.thenBlock());
    Value offender = wide;
    if (vector) { // From the last lane to the first, so that the first wrong one stays.
      offender = b.create<vector::ExtractOp>(wide, vector.getNumElements() - 1);
      for (int64_t lane = vector.getNumElements() - 2; lane >= 0; --lane)
        offender = b.create<arith::SelectOp>(Value(b.create<vector::ExtractOp>(checked, lane)), offender,
                                             Value(b.create<vector::ExtractOp>(wide, lane)));
    }
    if (!offender.getType().isIndex())
      offender = b.create<arith::IndexCastOp>(b.getIndexType(), offender);
    b.create<tile::RecordErrorOp>(offender, bound, op.getSite());
  }
  Value zero = b.create<arith::ConstantOp>(cast<TypedAttr>(b.getZeroAttr(index.getType())));
  result.replaceAllUsesWith(b.create<arith::SelectOp>(good, index, zero));
}

} // namespace

LogicalResult tileToVector(tile::KernelOp kernel, const HostTarget &target) {
  if (failed(retype(kernel)))
    return failure();
  SmallVector<Operation *> work;
  kernel->walk([&](Operation *op) {
    if (isa<tile::TileDialect>(op->getDialect()))
      work.push_back(op);
  });
  for (Operation *op : work)
    if (Lowering(op, target).run(op))
      op->erase();
  return success();
}

} // namespace tilewright::host
