//===- AttentionBuild.cpp - attention as a kernel of the tile dialect -----------------------------------------===//

#include "AttentionInts.h"

#include "tilewright/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <limits>

using namespace mlir;

namespace tilewright::host {

namespace {

class Builder {
public:
  Builder(MLIRContext &context, const AttentionKind &kind, const MatrixShape &shape)
      : kind(kind), shape(shape), b(NameLoc::get(StringAttr::get(&context, "attention")), &context),
        tileType(RankedTensorType::get({int64_t(shape.lanes)}, b.getF32Type())) {}

  OwningOpRef<ModuleOp> run(StringRef name);

private:
  using Predicate = arith::CmpIPredicate;

  Value index(int64_t value) { return b.create<arith::ConstantIndexOp>(value); }
  Value integer(unsigned which) { return kernel.getInt(which); }
  Value add(Value x, Value y) { return b.create<arith::AddIOp>(x, y); }
  Value sub(Value x, Value y) { return b.create<arith::SubIOp>(x, y); }
  Value mul(Value x, Value y) { return b.create<arith::MulIOp>(x, y); }
  Value smaller(Value x, Value y) { return b.create<arith::MinSIOp>(x, y); }
  Value number(double value, Type type) {
    auto scalar = b.getF32FloatAttr(static_cast<float>(value));
    if (auto tile = dyn_cast<RankedTensorType>(type))
      return b.create<arith::ConstantOp>(DenseElementsAttr::get(tile, ArrayRef<Attribute>(scalar)));
    return b.create<arith::ConstantOp>(scalar);
  }
  /// The larger one; y where x is NaN. NaN reaches the result through exp.
  Value larger(Value x, Value y) {
    return b.create<arith::SelectOp>(b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, x, y), x, y);
  }
  Value load(Value buffer, Value offset, Type type, ValueRange valid = {}, OpFoldResult stride = {}) {
    SmallVector<OpFoldResult> strides;
    if (isa<RankedTensorType>(type))
      strides.push_back(stride ? stride : OpFoldResult(b.getIndexAttr(1)));
    return b.create<tile::LoadOp>(type, buffer, offset, strides, valid);
  }
  void store(Value value, Value buffer, Value offset, ValueRange valid = {}, OpFoldResult stride = {}) {
    SmallVector<OpFoldResult> strides;
    if (isa<RankedTensorType>(value.getType()))
      strides.push_back(stride ? stride : OpFoldResult(b.getIndexAttr(1)));
    b.create<tile::StoreOp>(value, buffer, offset, strides, valid);
  }
  Value splat(Value scalar) {
    return b.create<tile::SplatOp>(RankedTensorType::get(tileType.getShape(), scalar.getType()), scalar);
  }
  Value scratch(AttentionInt part) {
    return b.create<tile::ScratchOp>(tile::BufferType::get(b.getF32Type()), integer(part));
  }
  void loop(Value from, Value to, Value step, function_ref<void(Value)> body) {
    b.create<scf::ForOp>(from, to, step, ValueRange{}, [&](OpBuilder &, Location, Value i, ValueRange) {
      body(i);
      b.create<scf::YieldOp>();
    });
  }
  /// Carries one tile through a loop over columns.
  Value fold(Value to, Value init, function_ref<Value(Value, Value)> body) {
    return b
        .create<scf::ForOp>(
            index(0), to, index(shape.lanes), init,
            [&](OpBuilder &, Location, Value j, ValueRange carried) { b.create<scf::YieldOp>(body(j, carried[0])); })
        .getResult(0);
  }
  /// offset of [batch, head, row, 0] of an operand
  Value offsetOf(unsigned strides, Value row) {
    Value at = add(mul(batch, integer(strides)), mul(head, integer(strides + 1)));
    return add(at, mul(row, integer(strides + 2)));
  }

  void clear();
  void packKeys(Value firstKey, Value keys);
  void packValues(Value firstKey, Value keys);
  void scores(Value firstKey, Value keys);
  void softmax(Value columns);
  void weigh(Value keys);
  void finish();

  const AttentionKind &kind;
  const MatrixShape &shape;
  ImplicitLocOpBuilder b;
  RankedTensorType tileType;
  tile::KernelOp kernel;
  Value q, k, v, mask, out;
  Value batch, head, firstRow, rows; // of the grid point
  Value keyPanels, valuePanels, scoreTile, sums, factors, maxima, totals;
};

void Builder::clear() {
  Value lanes = index(shape.lanes), zeros = number(0, tileType), zero = number(0, b.getF32Type());
  Value lowest = number(-std::numeric_limits<double>::infinity(), b.getF32Type());
  loop(index(0), rows, index(1), [&](Value i) {
    Value line = mul(i, integer(OutLine));
    loop(index(0), integer(OutLine), lanes, [&](Value j) { store(zeros, sums, add(line, j)); });
    store(lowest, maxima, i);
    store(zero, totals, i);
  });
}

/// k[j, d] is element (d, j) of the matrix that q is multiplied with: its transpose is packed.
void Builder::packKeys(Value firstKey, Value keys) {
  Value source = offsetOf(KStride, firstKey);
  loop(index(0), keys, index(shape.width), [&](Value j) {
    Value from = add(source, mul(j, integer(KStride + 2)));
    Value n = smaller(index(shape.width), sub(keys, j));
    b.create<tile::PackOp>(k, from, ArrayRef<OpFoldResult>{integer(KStride + 3), integer(KStride + 2)},
                           integer(HeadSize), n, keyPanels, mul(j, integer(HeadSize)));
  });
}

void Builder::packValues(Value firstKey, Value keys) {
  Value source = offsetOf(VStride, firstKey), width = index(shape.width);
  loop(index(0), integer(ValueSize), width, [&](Value e) {
    Value from = add(source, mul(e, integer(VStride + 3)));
    Value n = smaller(width, sub(integer(ValueSize), e));
    b.create<tile::PackOp>(v, from, ArrayRef<OpFoldResult>{integer(VStride + 2), integer(VStride + 3)}, keys, n,
                           valuePanels, mul(e, keys));
  });
}

void Builder::scores(Value firstKey, Value keys) {
  Value maskAt = mask ? add(offsetOf(MaskStride, firstRow), mul(firstKey, integer(MaskStride + 3))) : Value();
  auto contract = b.create<tile::ContractOp>(q, offsetOf(QStride, firstRow),
                                             ArrayRef<OpFoldResult>{integer(QStride + 2), integer(QStride + 3)},
                                             keyPanels, index(0), rows, keys, integer(HeadSize), tileType);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&contract.getBlock());
  Value row = contract.getRow(), column = contract.getColumn(), valid = contract.getValidColumns();
  Value lowest = number(-std::numeric_limits<double>::infinity(), tileType);
  Value s = b.create<arith::MulFOp>(contract.getAccumulator(), number(kind.scale, tileType));
  if (mask) {
    Value at = add(maskAt, add(mul(row, integer(MaskStride + 2)), mul(column, integer(MaskStride + 3))));
    OpFoldResult step = kind.maskContiguous ? OpFoldResult(b.getIndexAttr(1)) : OpFoldResult(integer(MaskStride + 3));
    bool boolean = kind.mask == AttentionKind::Boolean;
    Value m =
        load(mask, at, boolean ? RankedTensorType::get(tileType.getShape(), b.getI1Type()) : tileType, valid, step);
    s = boolean ? Value(b.create<arith::SelectOp>(m, s, lowest)) : Value(b.create<arith::AddFOp>(s, m));
  }
  // Columns that fill up the vector, and keys after the query, count nothing.
  Value seen = valid;
  if (kind.causal) {
    Value reach = sub(add(add(firstRow, row), index(1)), add(firstKey, column));
    seen = smaller(valid, b.create<arith::MaxSIOp>(reach, index(0)));
  }
  auto integers = RankedTensorType::get(tileType.getShape(), b.getI32Type());
  Value limit = splat(b.create<arith::IndexCastOp>(b.getI32Type(), seen));
  Value inside = b.create<arith::CmpIOp>(Predicate::slt, b.create<tile::IotaOp>(integers), limit);
  s = b.create<arith::SelectOp>(inside, s, lowest);
  store(s, scoreTile, add(mul(row, integer(ScoreLine)), column));
}

void Builder::softmax(Value columns) {
  Type f32 = b.getF32Type();
  double infinity = std::numeric_limits<double>::infinity();
  Value lanes = index(shape.lanes);
  loop(index(0), rows, index(1), [&](Value i) {
    Value line = mul(i, integer(ScoreLine));
    Value lowest = number(-infinity, tileType);
    Value peaks = fold(columns, lowest,
                       [&](Value j, Value peak) { return larger(load(scoreTile, add(line, j), tileType), peak); });
    Value before = load(maxima, i, f32);
    Value now = larger(b.create<tile::ReduceOp>(tile::ReduceKind::Max, peaks, ValueRange{}), before);
    // All masked so far: -inf - -inf would be NaN.
    Value none = b.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, now, number(-infinity, f32));
    Value shift = b.create<arith::SelectOp>(none, number(0, f32), now);
    Value factor = b.create<math::ExpOp>(splat(b.create<arith::SubFOp>(before, shift)));
    Value shifts = splat(shift);
    Value parts = fold(columns, number(0, tileType), [&](Value j, Value sum) -> Value {
      Value at = add(line, j);
      Value p = b.create<math::ExpOp>(b.create<arith::SubFOp>(load(scoreTile, at, tileType), shifts));
      store(p, scoreTile, at);
      return b.create<arith::AddFOp>(sum, p);
    });
    store(factor, factors, mul(i, lanes));
    store(now, maxima, i);
    Value total = b.create<tile::ReduceOp>(tile::ReduceKind::Add, parts, ValueRange{});
    Value factorOfRow = load(factors, mul(i, lanes), f32);
    store(b.create<arith::AddFOp>(b.create<arith::MulFOp>(load(totals, i, f32), factorOfRow), total), totals, i);
  });
}

void Builder::weigh(Value keys) {
  auto contract =
      b.create<tile::ContractOp>(scoreTile, index(0), ArrayRef<OpFoldResult>{integer(ScoreLine), b.getIndexAttr(1)},
                                 valuePanels, index(0), rows, integer(ValueSize), keys, tileType);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&contract.getBlock());
  Value at = add(mul(contract.getRow(), integer(OutLine)), contract.getColumn());
  Value factor = load(factors, mul(contract.getRow(), index(shape.lanes)), tileType);
  Value older = b.create<arith::MulFOp>(load(sums, at, tileType), factor);
  store(b.create<arith::AddFOp>(older, contract.getAccumulator()), sums, at);
}

void Builder::finish() {
  Type f32 = b.getF32Type();
  Value target = offsetOf(OutStride, firstRow), lanes = index(shape.lanes);
  OpFoldResult step = kind.outContiguous ? OpFoldResult(b.getIndexAttr(1)) : OpFoldResult(integer(OutStride + 3));
  loop(index(0), rows, index(1), [&](Value i) {
    Value total = load(totals, i, f32), zero = number(0, f32);
    Value empty = b.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, total, zero);
    Value divisor = b.create<arith::SelectOp>(empty, number(1, f32), total);
    Value inverse = splat(b.create<arith::DivFOp>(number(1, f32), divisor));
    Value from = mul(i, integer(OutLine)), to = add(target, mul(i, integer(OutStride + 2)));
    Value columns = integer(ValueSize);
    loop(index(0), columns, lanes, [&](Value j) {
      Value left = sub(columns, j);
      Value y = b.create<arith::MulFOp>(load(sums, add(from, j), tileType), inverse);
      store(y, out, add(to, mul(j, integer(OutStride + 3))), left, step);
    });
  });
}

OwningOpRef<ModuleOp> Builder::run(StringRef name) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(b.getLoc());
  b.setInsertionPointToEnd(module->getBody());
  Type f32 = tile::BufferType::get(b.getF32Type());
  SmallVector<Type> buffers(3, f32);
  if (kind.mask != AttentionKind::None)
    buffers.push_back(kind.mask == AttentionKind::Boolean ? Type(tile::BufferType::get(b.getI1Type())) : f32);
  buffers.push_back(f32);
  kernel = b.create<tile::KernelOp>(name, buffers, unsigned(kAttentionInts));
  b.setInsertionPointToEnd(&kernel.getBlock());
  q = kernel.getBuffer(0), k = kernel.getBuffer(1), v = kernel.getBuffer(2);
  if (kind.mask != AttentionKind::None)
    mask = kernel.getBuffer(3);
  out = kernel.getBuffer(buffers.size() - 1);

  Value rowBlock = integer(RowBlock), keyBlock = integer(KeyBlock);
  Value blocks = b.create<arith::CeilDivUIOp>(integer(Queries), rowBlock);
  auto grid = b.create<tile::GridOp>(ValueRange{integer(Batch), integer(Heads), blocks});
  b.setInsertionPointToStart(&grid.getBlock());
  batch = grid.getIndices()[0], head = grid.getIndices()[1];
  firstRow = mul(grid.getIndices()[2], rowBlock);
  rows = smaller(rowBlock, sub(integer(Queries), firstRow));
  keyPanels = scratch(KeyPanels), valuePanels = scratch(ValuePanels), scoreTile = scratch(Scores), sums = scratch(Sums);
  factors = scratch(Statistics);
  auto statistic = [&](int64_t columns) -> Value {
    Value bytes = add(integer(Statistics), mul(rowBlock, index(columns * 4)));
    return b.create<tile::ScratchOp>(f32, bytes);
  };
  maxima = statistic(shape.lanes), totals = statistic(shape.lanes + 1);

  clear();
  // No query of the block sees a key after its last row.
  Value keyEnd = integer(Keys);
  if (kind.causal)
    keyEnd = smaller(keyEnd, add(firstRow, rows));
  loop(index(0), keyEnd, keyBlock, [&](Value firstKey) {
    Value keys = smaller(keyBlock, sub(keyEnd, firstKey));
    packKeys(firstKey, keys);
    scores(firstKey, keys);
    Value lanes = index(shape.lanes);
    softmax(mul(b.create<arith::CeilDivUIOp>(keys, lanes), lanes));
    packValues(firstKey, keys);
    weigh(keys);
  });
  finish();
  return module;
}

} // namespace

OwningOpRef<ModuleOp> buildAttention(MLIRContext &context, const AttentionKind &kind, const MatrixTarget &target,
                                     StringRef name) {
  const MatrixShape shape = *MatrixShape::get(DType::F32, target);
  return Builder(context, kind, shape).run(name);
}

} // namespace tilewright::host
