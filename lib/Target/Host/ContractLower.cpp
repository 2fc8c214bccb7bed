//===- ContractLower.cpp - tile.pack and tile.contract become loops and calls ------------------------------------===//

#include "ContractEmit.h"
#include "ContractTypes.h"

#include "tilewright/Target/Host/ContractKernels.h"
#include "tilewright/Target/Host/Lowering.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tilewright::host {

namespace {

/// Rows whose sums are on the stack at a time (12 KiB in f32): eight and more register blocks share what the caches
/// hold of a panel.
constexpr int64_t kRows = 96;
/// Bytes of a row of A (in panel type) that are multiplied at a time, 2048 k in f32: a longer part of a panel would
/// leave L2 between two register blocks.
constexpr int64_t kDepthBytes = 8192;
/// Stack for rows of A that are copied: 96 rows of k = 1024 in f32, 48 rows of k = 2048. With half of it 2048^3 ran at
/// 0.79 of the peak instead of 0.86, since panels came from L3 for every 24 rows. Only the part that a product needs is
/// ever touched.
constexpr int64_t kCopyBytes = 400 * 1024;
/// Rows whose distance is a multiple of this share one set of L1 (32 KiB in 8 ways), which 12 rows overflow.
constexpr int64_t kConflictBytes = 4096;

/// Clones the operations of a block and folds what has become constant; of a condition that is known one branch stays.
void cloneFolded(OpBuilder &b, Block &block, IRMapping &map) {
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      return;
    if (auto choice = dyn_cast<scf::IfOp>(op)) {
      APInt condition;
      if (matchPattern(map.lookupOrDefault(choice.getCondition()), m_ConstantInt(&condition))) {
        Region &taken = condition.isZero() ? choice.getElseRegion() : choice.getThenRegion();
        if (taken.empty())
          continue;
        cloneFolded(b, taken.front(), map);
        for (auto [result, yielded] : llvm::zip(choice.getResults(), taken.front().getTerminator()->getOperands()))
          map.map(result, map.lookupOrDefault(yielded));
        continue;
      }
    }
    Operation *clone = b.clone(op, map);
    SmallVector<Value> folded;
    // No values after a fold: the operation was changed in place.
    if (clone->getNumResults() == 0 || failed(b.tryFold(clone, folded)) || folded.empty())
      continue;
    for (auto [result, value] : llvm::zip(op.getResults(), folded))
      map.map(result, value);
    clone->erase();
  }
}

/// What one kernel's contractions share: stack memory, allocated where the kernel begins.
struct Stack {
  Value sums, copies;
};

class Lowering {
public:
  Lowering(Operation *op, ModuleOp module, const MatrixTarget &target, const MatrixShape &shape)
      : b(op->getLoc(), op), e(b, op->getLoc()), kernels(module, target, shape), shape(shape) {}

  void pack(tile::PackOp op) {
    auto strides = op.getMixedStrides();
    Value source = address(op.getSource(), op.getOffset(), operandBytes());
    Value panel = address(op.getPanel(), op.getPanelOffset(), panelBytes());
    Value n = op.getN();
    // Nothing to write, and no column to read, where the panel is empty.
    b.create<scf::IfOp>(b.create<arith::CmpIOp>(arith::CmpIPredicate::sgt, n, index(0)), [&](OpBuilder &, Location) {
      e.op<LLVM::CallOp>(kernels.pack(),
                         ValueRange{source, bytes(strides[0], operandBytes()), bytes(strides[1], operandBytes()),
                                    wide(op.getK()), wide(n), panel});
      b.create<scf::YieldOp>();
    });
  }

  void contract(tile::ContractOp op, const Stack &stack);

private:
  using Predicate = arith::CmpIPredicate;

  int64_t operandBytes() const { return sizeOf(shape.operand); }
  int64_t panelBytes() const { return sizeOf(shape.panel); }

  Value index(int64_t value) { return b.create<arith::ConstantIndexOp>(value); }
  template <typename Op> Value fold(Value x, Value y) { return b.createOrFold<Op>(x, y); }
  Value addI(Value x, Value y) { return fold<arith::AddIOp>(x, y); }
  Value subI(Value x, Value y) { return fold<arith::SubIOp>(x, y); }
  Value mulI(Value x, int64_t y) { return fold<arith::MulIOp>(x, index(y)); }
  Value minI(Value x, Value y) { return fold<arith::MinSIOp>(x, y); }
  Value is(Predicate p, Value x, int64_t y) { return b.createOrFold<arith::CmpIOp>(p, x, index(y)); }
  Value select(Value c, Value x, Value y) { return b.createOrFold<arith::SelectOp>(c, x, y); }
  Value flag(bool value) { return b.create<arith::ConstantIntOp>(value, 1); }
  Value wide(Value x) { return b.createOrFold<arith::IndexCastOp>(e.i64, x); }
  Value bytes(OpFoldResult stride, int64_t size) {
    return wide(mulI(getValueOrCreateConstantIndexOp(b, b.getLoc(), stride), size));
  }
  Value address(Value buffer, Value offset, int64_t size) {
    return e.at(b.create<tile::AddressOp>(buffer), wide(mulI(offset, size)));
  }
  void loop(Value from, Value to, Value step, function_ref<void(Value)> body) {
    b.create<scf::ForOp>(from, to, step, ValueRange{}, [&](OpBuilder &, Location, Value i, ValueRange) {
      body(i);
      b.create<scf::YieldOp>();
    });
  }
  void when(Value condition, function_ref<void()> body) {
    b.create<scf::IfOp>(condition, [&](OpBuilder &, Location) {
      body();
      b.create<scf::YieldOp>();
    });
  }
  void epilogue(tile::ContractOp op, Value sums, Value firstRow, Value rows, Value firstColumn, Value columns);

  ImplicitLocOpBuilder b;
  Emitter e;
  ContractKernels kernels;
  const MatrixShape &shape;
};

void Lowering::epilogue(tile::ContractOp op, Value sums, Value firstRow, Value rows, Value firstColumn, Value columns) {
  const int64_t lanes = shape.lanes, lineBytes = int64_t(shape.width) * sizeOf(shape.accumulator);
  auto type = cast<VectorType>(Type(op.getAccumulator().getType()));
  auto instance = [&](Value row, Value column, Value valid) {
    Value from = e.at(sums, wide(addI(mulI(row, lineBytes), mulI(column, sizeOf(shape.accumulator)))));
    IRMapping map;
    map.map(op.getAccumulator(), e.load(type, from));
    map.map(op.getRow(), addI(firstRow, row));
    map.map(op.getColumn(), addI(firstColumn, column));
    map.map(op.getValidColumns(), valid);
    cloneFolded(b, op.getBlock(), map);
  };
  // Whole vectors know that they are whole: no masks, and no loops over elements where the level has none.
  Value rest = fold<arith::RemSIOp>(columns, index(lanes)), whole = subI(columns, rest);
  Value hasRest = is(Predicate::sgt, rest, 0);
  loop(index(0), rows, index(1), [&](Value row) {
    loop(index(0), whole, index(lanes), [&](Value column) { instance(row, column, index(lanes)); });
    when(hasRest, [&] { instance(row, whole, rest); });
  });
}

void Lowering::contract(tile::ContractOp op, const Stack &stack) {
  auto strides = op.getMixedStrides();
  const int64_t width = shape.width, rowsPerBlock = shape.rows, depth = shape.depth,
                kDepth = kDepthBytes / panelBytes();
  Value m = op.getM(), n = op.getN(), k = op.getK(), zero = index(0);
  Value sm = bytes(strides[0], operandBytes()), sk = bytes(strides[1], operandBytes());
  Value lhs = address(op.getLhs(), op.getLhsOffset(), operandBytes());
  Value panels = address(op.getPanels(), op.getPanelOffset(), panelBytes());
  auto is64 = [&](Predicate p, Value x, int64_t y) { return b.createOrFold<arith::CmpIOp>(p, x, e.constant(y)); };

  // Panels hold k rounded up to the depth of a step.
  Value padded = depth == 1 ? k : mulI(fold<arith::DivSIOp>(addI(k, index(depth - 1)), index(depth)), depth);

  // A is copied to the stack once for all panels where it cannot be read in place (other type, pairs that do not lie
  // together) or reads badly: k not contiguous, or rows that fall into one set of the cache. With one panel a copy
  // saves nothing.
  Value contiguous = is64(Predicate::eq, sk, operandBytes());
  Value several = is(Predicate::sgt, n, width), mustCopy = flag(shape.widens());
  if (depth > 1) {
    Value odd = is(Predicate::ne, fold<arith::RemSIOp>(k, index(depth)), 0);
    mustCopy = fold<arith::OrIOp>(fold<arith::XOrIOp>(contiguous, flag(true)), odd);
  }
  Value conflict = fold<arith::AndIOp>(is64(Predicate::eq, fold<arith::RemSIOp>(sm, e.constant(kConflictBytes)), 0),
                                       is(Predicate::sgt, m, 8));
  Value better =
      fold<arith::AndIOp>(several, fold<arith::OrIOp>(fold<arith::XOrIOp>(contiguous, flag(true)), conflict));
  Value copy = fold<arith::OrIOp>(mustCopy, better);
  // Columns of A that lie together are copied as rows of the transpose: whole vectors, and the register blocks take any
  // strides.
  Value flip = flag(false);
  if (depth == 1)
    flip = fold<arith::AndIOp>(fold<arith::XOrIOp>(contiguous, flag(true)), is64(Predicate::eq, sm, operandBytes()));

  // One cache line more than a row keeps rows of a copy out of each other's set.
  Value line = addI(mulI(padded, panelBytes()), index(64));
  Value fit = mulI(fold<arith::DivSIOp>(index(kCopyBytes), mulI(line, rowsPerBlock)), rowsPerBlock);
  Value once = is(Predicate::sgt, fit, 0); // k is short enough for a register block of rows
  Value rowStep = select(copy, select(once, minI(fit, index(kRows)), index(rowsPerBlock * 2)), index(kRows));
  Value copyAll = fold<arith::AndIOp>(copy, once),
        copyParts = fold<arith::AndIOp>(copy, fold<arith::XOrIOp>(once, flag(true)));
  Value kStep = select(copyAll, fold<arith::MaxSIOp>(k, index(1)), index(kDepth));
  Value kEnd = fold<arith::MaxSIOp>(k, index(1)); // k = 0 takes one step, which stores zeros
  Value rowBytes = select(copyAll, line, index(kDepthBytes + 64));
  Value copySm = wide(select(flip, index(panelBytes()), rowBytes));
  Value copySk = wide(select(flip, mulI(rowStep, panelBytes()), index(panelBytes() * depth)));
  Value stepSk = depth == 1 ? sk : e.mul(sk, depth);
  Value useSm = select(copy, copySm, sm), useSk = select(copy, copySk, stepSk);
  const int64_t panelRow = width * panelBytes(); // per k; pairs of rows take twice of it
  const int64_t sumLine = width * sizeOf(shape.accumulator);

  auto copyRows = [&](Value from, Value rows, Value count) {
    Value target = stack.copies;
    if (depth > 1) {
      e.op<LLVM::CallOp>(kernels.copyRows(), ValueRange{from, sm, sk, wide(rows), wide(count), target, copySm});
      return;
    }
    // Flipped: rows and columns change places, and the target's rows are those of k.
    e.op<LLVM::CallOp>(kernels.copyRows(),
                       ValueRange{from, select(flip, sk, sm), select(flip, sm, sk), wide(select(flip, count, rows)),
                                  wide(select(flip, rows, count)), target, select(flip, copySk, copySm)});
  };

  loop(zero, m, rowStep, [&](Value row) {
    Value rows = minI(rowStep, subI(m, row));
    Value a = e.at(lhs, e.mul(wide(row), sm));
    when(copyAll, [&] { copyRows(a, rows, k); });
    loop(zero, n, index(width), [&](Value column) {
      // The first column of panel q is q * NR, so that column * k is its offset.
      Value panel = e.at(panels, wide(mulI(fold<arith::MulIOp>(column, padded), panelBytes())));
      loop(zero, kEnd, kStep, [&](Value depthDone) {
        Value count = minI(kStep, subI(k, depthDone));
        Value from = e.at(a, e.mul(wide(depthDone), sk));
        when(copyParts, [&] { copyRows(from, rows, count); });
        Value steps = depth == 1 ? count : fold<arith::DivSIOp>(addI(count, index(depth - 1)), index(depth));
        Value more = is(Predicate::sgt, depthDone, 0);
        e.op<LLVM::CallOp>(kernels.panelProduct(),
                           ValueRange{select(copy, stack.copies, from), useSm, useSk,
                                      e.at(panel, wide(mulI(depthDone, panelRow))), e.constant(panelRow * depth),
                                      wide(rows), wide(steps), stack.sums, e.constant(sumLine), more});
      });
      epilogue(op, stack.sums, row, rows, column, minI(index(width), subI(n, column)));
    });
  });
}

LogicalResult check(Operation *op, Type operand, Type panel, const HostTarget &target, const MatrixTarget &matrix,
                    std::optional<MatrixShape> &shape) {
  std::optional<DType> type = tile::dtypeOf(operand);
  if (type)
    shape = MatrixShape::get(*type, matrix);
  if (!shape)
    return op->emitOpError() << "cannot multiply matrices of " << operand
                             << " on the host; there are f32, f64, bf16, f16, "
                             << "i32 and i64: convert the operands";
  if (tile::dtypeOf(panel) != shape->panel)
    return op->emitOpError() << "has panels of " << panel << ": operands of " << operand << " are packed as "
                             << nameOf(shape->panel).data() << " on " << target.level;
  return success();
}

Type elementOf(Value buffer) { return cast<tile::BufferType>(buffer.getType()).getElementType(); }

} // namespace

LogicalResult lowerContract(tile::KernelOp kernel, const HostTarget &target) {
  const MatrixTarget matrix{target.vectorBits / 8, target.fma, target.bf16};
  SmallVector<tile::PackOp> packs;
  SmallVector<tile::ContractOp> contracts;
  kernel->walk([&](Operation *op) {
    if (auto pack = dyn_cast<tile::PackOp>(op))
      packs.push_back(pack);
    else if (auto contract = dyn_cast<tile::ContractOp>(op))
      contracts.push_back(contract);
  });
  auto module = kernel->getParentOfType<ModuleOp>();
  for (tile::PackOp op : packs) {
    std::optional<MatrixShape> shape;
    if (failed(check(op, elementOf(op.getSource()), elementOf(op.getPanel()), target, matrix, shape)))
      return failure();
    Lowering(op, module, matrix, *shape).pack(op);
    op.erase();
  }
  if (contracts.empty())
    return success();

  // Stack memory of all contractions: they do not overlap in time, since an epilogue holds no contraction.
  OpBuilder b = OpBuilder::atBlockBegin(&kernel.getBlock());
  Emitter e(b, kernel.getLoc());
  auto allocate = [&](int64_t bytes) -> Value {
    return e.op<LLVM::AllocaOp>(e.ptr, b.getI8Type(), e.constant(bytes), 64u);
  };
  Stack stack{allocate(kRows * 2 * matrix.vectorBytes), allocate(kCopyBytes)};
  for (tile::ContractOp op : contracts) {
    std::optional<MatrixShape> shape;
    if (failed(check(op, elementOf(op.getLhs()), elementOf(op.getPanels()), target, matrix, shape)))
      return failure();
    auto accumulator = dyn_cast<VectorType>(Type(op.getAccumulator().getType()));
    if (!accumulator)
      return op.emitOpError("still holds tiles: run tile-to-vector first");
    OpBuilder types(op);
    if (accumulator != VectorTypes(types, *shape).accumulator)
      return op.emitOpError() << "accumulates in " << accumulator << ": operands of " << elementOf(op.getLhs())
                              << " are summed in " << VectorTypes(types, *shape).accumulator << " on " << target.level;
    Lowering(op, module, matrix, *shape).contract(op, stack);
    op.erase();
  }
  return success();
}

} // namespace tilewright::host
