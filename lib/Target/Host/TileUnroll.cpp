//===- TileUnroll.cpp - tiles of higher rank become tiles of rank 1 ----------------------------------------------===//
//
// A tile of shape (.., W) becomes its rows, tiles of shape (W), in row-major order of the leading dimensions. Registers
// are rows; what LLVM would make of vectors of vectors (aggregates, taken apart again) costs compile time.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "VectorReduce.h"
#include "tilewright/Target/Host/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tilewright::host {

namespace {

RankedTensorType deepTile(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile && tile.getRank() > 1 ? tile : RankedTensorType();
}

RankedTensorType rowType(RankedTensorType tile) {
  return RankedTensorType::get(tile.getShape().take_back(), tile.getElementType());
}

int64_t rowCount(RankedTensorType tile) { return tile.getNumElements() / tile.getShape().back(); }

class Unroller {
public:
  explicit Unroller(tile::KernelOp kernel) : b(kernel.getLoc(), kernel) {}

  LogicalResult run(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block))
      if (failed(visit(&op)))
        return failure();
    return success();
  }

  /// Operations on whole tiles, users last.
  void eraseReplaced() {
    for (Operation *op : llvm::reverse(replaced))
      op->erase();
  }

private:
  LogicalResult visit(Operation *op);
  LogicalResult visitRegions(Operation *op);
  bool access(Operation *op);
  void reduce(tile::ReduceOp op);
  void constant(arith::ConstantOp op);
  void elementwise(Operation *op);
  LogicalResult loop(scf::ForOp op);
  LogicalResult condition(scf::IfOp op);
  LogicalResult loop(scf::WhileOp op);
  void terminator(Operation *op);

  SmallVector<Value> expand(ValueRange values);
  SmallVector<Type> expand(TypeRange types);
  /// Takes what a rebuilt operation or block gives for values of the old one.
  void adopt(ValueRange old, ValueRange flat);
  void moveBody(Block &from, Block &to);

  /// Offset and valid extent of row r.
  struct Row {
    Value offset;
    SmallVector<Value> valid;
  };
  Row row(RankedTensorType tile, int64_t r, Value offset, ArrayRef<OpFoldResult> strides, ValueRange valid);

  Value index(int64_t value) { return b.create<arith::ConstantIndexOp>(value); }

  ImplicitLocOpBuilder b;
  DenseMap<Value, SmallVector<Value>> rows;
  SmallVector<Operation *> replaced;
};

} // namespace

SmallVector<Value> Unroller::expand(ValueRange values) {
  SmallVector<Value> result;
  for (Value value : values) {
    if (auto found = rows.find(value); found != rows.end())
      llvm::append_range(result, found->second);
    else
      result.push_back(value);
  }
  return result;
}

SmallVector<Type> Unroller::expand(TypeRange types) {
  SmallVector<Type> result;
  for (Type type : types) {
    if (RankedTensorType tile = deepTile(type))
      result.append(rowCount(tile), rowType(tile));
    else
      result.push_back(type);
  }
  return result;
}

void Unroller::adopt(ValueRange old, ValueRange flat) {
  for (Value value : old) {
    RankedTensorType tile = deepTile(value.getType());
    size_t count = tile ? rowCount(tile) : 1;
    if (tile)
      rows[value] = llvm::to_vector(flat.take_front(count));
    else
      value.replaceAllUsesWith(flat.front());
    flat = flat.drop_front(count);
  }
}

void Unroller::moveBody(Block &from, Block &to) {
  to.getOperations().clear();
  adopt(from.getArguments(), to.getArguments());
  to.getOperations().splice(to.end(), from.getOperations());
}

Unroller::Row Unroller::row(RankedTensorType tile, int64_t r, Value offset, ArrayRef<OpFoldResult> strides,
                            ValueRange valid) {
  Row result{offset, {}};
  Value inside; // whether all leading positions are valid; null: known to be
  bool outside = false;
  ArrayRef<int64_t> shape = tile.getShape();
  for (int64_t d = tile.getRank() - 2; d >= 0; --d) {
    int64_t position = r % shape[d];
    r /= shape[d];
    if (!strides.empty() && position != 0) {
      if (std::optional<int64_t> stride = getConstantIntValue(strides[d])) {
        if (*stride != 0)
          result.offset = b.create<arith::AddIOp>(result.offset, index(*stride * position));
      } else {
        Value step = b.create<arith::MulIOp>(cast<Value>(strides[d]), index(position));
        result.offset = b.create<arith::AddIOp>(result.offset, step);
      }
    }
    if (valid.empty())
      continue;
    if (std::optional<int64_t> extent = getConstantIntValue(valid[d])) {
      outside |= position >= *extent;
      continue;
    }
    Value below = b.create<arith::CmpIOp>(arith::CmpIPredicate::sgt, valid[d], index(position));
    inside = inside ? b.create<arith::AndIOp>(inside, below).getResult() : below;
  }
  if (valid.empty())
    return result;
  Value extent = outside ? index(0) : valid.back();
  if (inside && !outside)
    extent = b.create<arith::SelectOp>(inside, extent, index(0));
  result.valid.push_back(extent);
  return result;
}

/// Loads, stores and what else has valid extents.
bool Unroller::access(Operation *op) {
  auto each = [&](RankedTensorType tile, Value offset, ArrayRef<OpFoldResult> strides, ValueRange valid, auto body) {
    SmallVector<Value> results;
    for (int64_t r = 0; r < rowCount(tile); ++r)
      if (Value result = body(r, row(tile, r, offset, strides, valid)))
        results.push_back(result);
    if (!results.empty())
      rows[op->getResult(0)] = std::move(results);
    return true;
  };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](tile::LoadOp load) {
        auto tile = cast<RankedTensorType>(load.getType());
        SmallVector<OpFoldResult> strides = load.getMixedStrides();
        return each(tile, load.getOffset(), strides, load.getValid(), [&](int64_t, const Row &at) -> Value {
          return b.create<tile::LoadOp>(rowType(tile), load.getBuffer(), at.offset, strides.back(), at.valid,
                                        load.getFillAttr());
        });
      })
      .Case([&](tile::StoreOp store) {
        auto tile = cast<RankedTensorType>(store.getValue().getType());
        SmallVector<OpFoldResult> strides = store.getMixedStrides();
        return each(tile, store.getOffset(), strides, store.getValid(), [&](int64_t r, const Row &at) -> Value {
          b.create<tile::StoreOp>(rows[store.getValue()][r], store.getBuffer(), at.offset, strides.back(), at.valid);
          return {};
        });
      })
      .Case([&](tile::GatherOp gather) {
        RankedTensorType tile = gather.getType();
        return each(tile, gather.getOffset(), {}, gather.getValid(), [&](int64_t r, const Row &at) -> Value {
          return b.create<tile::GatherOp>(rowType(tile), gather.getBuffer(), at.offset, rows[gather.getIndices()][r],
                                          gather.getMixedStride(), at.valid, gather.getFillAttr());
        });
      })
      .Case([&](tile::ScatterOp scatter) {
        RankedTensorType tile = scatter.getValue().getType();
        return each(tile, scatter.getOffset(), {}, scatter.getValid(), [&](int64_t r, const Row &at) -> Value {
          b.create<tile::ScatterOp>(rows[scatter.getValue()][r], scatter.getBuffer(), at.offset,
                                    rows[scatter.getIndices()][r], scatter.getMixedStride(), at.valid,
                                    scatter.getAtomic());
          return {};
        });
      })
      .Case([&](tile::CheckIndexOp check) {
        auto tile = cast<RankedTensorType>(check.getType());
        return each(tile, {}, {}, check.getValid(), [&](int64_t r, const Row &at) -> Value {
          return b.create<tile::CheckIndexOp>(rowType(tile), rows[check.getIndex()][r], check.getBound(), at.valid,
                                              check.getSite());
        });
      })
      .Default(false);
}

/// Rows are combined lane by lane before the lanes of the last one are; with valid extents every row is reduced by
/// itself.
void Unroller::reduce(tile::ReduceOp op) {
  SmallVector<Value> parts = rows[op.getSource()];
  auto tile = op.getSource().getType();
  if (op.getValid().empty()) {
    while (parts.size() > 1) {
      SmallVector<Value> half;
      for (size_t i = 0; i + 1 < parts.size(); i += 2)
        half.push_back(combine(b, op.getKind(), parts[i], parts[i + 1]));
      if (parts.size() % 2)
        half.push_back(parts.back());
      parts = std::move(half);
    }
    op.getResult().replaceAllUsesWith(b.create<tile::ReduceOp>(op.getKind(), parts[0], ValueRange()));
    return;
  }
  Value total;
  for (auto [r, part] : llvm::enumerate(parts)) {
    Value one = b.create<tile::ReduceOp>(op.getKind(), part, row(tile, r, {}, {}, op.getValid()).valid);
    total = total ? combine(b, op.getKind(), total, one) : one;
  }
  op.getResult().replaceAllUsesWith(total);
}

void Unroller::constant(arith::ConstantOp op) {
  auto tile = cast<RankedTensorType>(op.getType());
  auto elements = cast<DenseElementsAttr>(op.getValue());
  SmallVector<Value> &result = rows[op.getResult()];
  int64_t width = tile.getShape().back();
  if (elements.isSplat()) {
    Value one = b.create<arith::ConstantOp>(elements.resizeSplat(rowType(tile)));
    result.assign(rowCount(tile), one);
    return;
  }
  SmallVector<Attribute> values(elements.getValues<Attribute>());
  for (int64_t r = 0; r < rowCount(tile); ++r)
    result.push_back(
        b.create<arith::ConstantOp>(DenseElementsAttr::get(rowType(tile), ArrayRef(values).slice(r * width, width))));
}

void Unroller::elementwise(Operation *op) {
  auto tile = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<Value> result;
  for (int64_t r = 0; r < rowCount(tile); ++r) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(deepTile(operand.getType()) ? rows[operand][r] : operand);
    OperationState state(op->getLoc(), op->getName(), operands, rowType(tile), op->getAttrs());
    result.push_back(b.create(state)->getResult(0));
  }
  rows[op->getResult(0)] = std::move(result);
}

LogicalResult Unroller::visitRegions(Operation *op) {
  for (Region &region : op->getRegions())
    for (Block &block : region)
      if (failed(run(block)))
        return failure();
  return success();
}

LogicalResult Unroller::loop(scf::ForOp op) {
  auto fresh = b.create<scf::ForOp>(op.getLowerBound(), op.getUpperBound(), op.getStep(), expand(op.getInitArgs()));
  moveBody(*op.getBody(), *fresh.getBody());
  adopt(op.getResults(), fresh.getResults());
  replaced.push_back(op);
  return run(*fresh.getBody());
}

LogicalResult Unroller::condition(scf::IfOp op) {
  auto fresh = b.create<scf::IfOp>(expand(op.getResultTypes()), op.getCondition(), /*withElseRegion=*/true);
  moveBody(*op.thenBlock(), *fresh.thenBlock());
  moveBody(*op.elseBlock(), *fresh.elseBlock());
  adopt(op.getResults(), fresh.getResults());
  replaced.push_back(op);
  return success(succeeded(run(*fresh.thenBlock())) && succeeded(run(*fresh.elseBlock())));
}

LogicalResult Unroller::loop(scf::WhileOp op) {
  auto fresh = b.create<scf::WhileOp>(expand(op.getResultTypes()), expand(op.getInits()));
  for (auto [from, to] : llvm::zip(op->getRegions(), fresh->getRegions())) {
    SmallVector<Type> types = expand(from.getArgumentTypes());
    Block &block = to.emplaceBlock();
    block.addArguments(types, SmallVector<Location>(types.size(), op.getLoc()));
    moveBody(from.front(), block);
  }
  adopt(op.getResults(), fresh.getResults());
  replaced.push_back(op);
  return visitRegions(fresh);
}

void Unroller::terminator(Operation *op) { op->setOperands(expand(op->getOperands())); }

LogicalResult Unroller::visit(Operation *op) {
  auto isDeep = [](Type type) { return static_cast<bool>(deepTile(type)); };
  if (!llvm::any_of(op->getOperandTypes(), isDeep) && !llvm::any_of(op->getResultTypes(), isDeep))
    return visitRegions(op);
  b.setInsertionPoint(op);
  b.setLoc(op->getLoc());
  if (auto loopOp = dyn_cast<scf::ForOp>(op))
    return loop(loopOp);
  if (auto choice = dyn_cast<scf::IfOp>(op))
    return condition(choice);
  if (auto loopOp = dyn_cast<scf::WhileOp>(op))
    return loop(loopOp);
  if (isa<scf::YieldOp, scf::ConditionOp>(op))
    return terminator(op), success();
  if (auto splat = dyn_cast<tile::SplatOp>(op)) {
    auto tile = cast<RankedTensorType>(splat.getType());
    rows[splat.getResult()].assign(rowCount(tile), b.create<tile::SplatOp>(rowType(tile), splat.getSource()));
  } else if (auto iota = dyn_cast<tile::IotaOp>(op)) {
    auto tile = cast<RankedTensorType>(iota.getType());
    rows[iota.getResult()].assign(rowCount(tile), b.create<tile::IotaOp>(rowType(tile)));
  } else if (auto reduction = dyn_cast<tile::ReduceOp>(op)) {
    reduce(reduction);
  } else if (auto dense = dyn_cast<arith::ConstantOp>(op); dense && isa<DenseElementsAttr>(dense.getValue())) {
    constant(dense);
  } else if (OpTrait::hasElementwiseMappableTraits(op) && op->getNumResults() == 1) {
    elementwise(op);
  } else if (!access(op)) {
    return op->emitOpError("cannot work on a tile of rank 2 or more on the host");
  }
  replaced.push_back(op);
  return success();
}

LogicalResult unrollTiles(tile::KernelOp kernel) {
  bool deep = false;
  kernel->walk([&](Operation *op) {
    deep |= llvm::any_of(op->getResultTypes(), [](Type type) { return static_cast<bool>(deepTile(type)); });
  });
  if (!deep)
    return success();
  Unroller unroller(kernel);
  if (failed(unroller.run(kernel.getBlock())))
    return failure();
  unroller.eraseReplaced();
  return success();
}

} // namespace tilewright::host
