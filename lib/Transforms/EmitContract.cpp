//===- EmitContract.cpp - a contraction as two kernels --------------------===//
//
// The first packs the right operand into panels, the second multiplies blocks and runs the epilogue. Where the right
// operand is a parameter, the first runs only when the parameter changes (an attached buffer, see Runtime/Program.h).
//
//===----------------------------------------------------------------------===//

#include "EmitParts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tilewright::loop {

namespace {

unsigned batchRank(const Nest &nest) { return nest.domain.size() - 3; }
const SizeExpr &extentM(const Nest &nest) { return nest.domain[batchRank(nest)]; }
const SizeExpr &extentN(const Nest &nest) { return nest.domain[batchRank(nest) + 1]; }
const SizeExpr &extentK(const Nest &nest) { return nest.domain[batchRank(nest) + 2]; }

OpFoldResult stride(ExprEmitter &e, const SizeExpr &coef) {
  if (auto value = coef.constant(); value && (*value == 0 || *value == 1))
    return e.b.getIndexAttr(*value);
  return e.sizeValue(coef);
}

/// offset + sum of coefficients times indices over the batch dimensions.
Value batchOffset(ExprEmitter &e, const Access &access, ArrayRef<Value> index) {
  Value sum = e.sizeValue(access.offset);
  for (size_t d = 0; d < index.size(); ++d)
    if (index[d] && !access.coefs[d].isConstant(0))
      sum = e.b.create<arith::AddIOp>(e.loc, sum,
                                      e.b.create<arith::MulIOp>(e.loc, index[d], e.sizeValue(access.coefs[d])));
  return sum;
}

/// Number of the right operand's matrix at a point.
Value matrixNumber(ExprEmitter &e, const Nest &nest, const ContractionPlan &plan, ArrayRef<Value> index) {
  Value linear;
  for (unsigned d : plan.batch)
    linear = linear ? Value(e.b.create<arith::AddIOp>(
                          e.loc, e.b.create<arith::MulIOp>(e.loc, linear, e.sizeValue(nest.domain[d])), index[d]))
                    : index[d];
  return linear;
}

Value mul(ExprEmitter &e, Value x, Value y) { return e.b.create<arith::MulIOp>(e.loc, x, y); }
Value add(ExprEmitter &e, Value x, Value y) { return e.b.create<arith::AddIOp>(e.loc, x, y); }
Value smaller(ExprEmitter &e, Value limit, Value n, Value begin) {
  return e.b.create<arith::MinSIOp>(e.loc, limit, e.b.create<arith::SubIOp>(e.loc, n, begin));
}

/// A block of a product: where it starts and how large it is.
struct Block2D {
  Value row, column, m, n;
};

/// One block with its epilogue; the builder is left inside of the epilogue.
void emitProduct(ExprEmitter &e, const Nest &nest, const host::MatrixShape &shape, const Block2D &block,
                 ArrayRef<Value> batchIndex, Value panelBuffer, Value panels) {
  unsigned mDim = batchRank(nest), nDim = mDim + 1, kDim = mDim + 2;
  Value lhs = add(e, batchOffset(e, nest.lhs, batchIndex), mul(e, block.row, e.sizeValue(nest.lhs.coefs[mDim])));
  OpFoldResult strides[] = {stride(e, nest.lhs.coefs[mDim]), stride(e, nest.lhs.coefs[kDim])};
  auto accumulator = RankedTensorType::get({int64_t(shape.lanes)}, e.elementType(shape.accumulator));

  // What the epilogue needs that is the same for the whole block is computed before it.
  e.vectorDim = nDim;
  e.width = shape.lanes;
  uint64_t inside = (uint64_t(1) << mDim) | (uint64_t(1) << nDim);
  for (const Store &store : nest.stores)
    e.hoist(store.value, inside);
  auto contract = e.b.create<tile::ContractOp>(e.loc, e.operands.buffer(nest.lhs.buffer), lhs, strides, panelBuffer,
                                               panels, block.m, block.n, e.sizeValue(nest.domain[kDim]), accumulator);
  e.b.setInsertionPointToEnd(&contract.getBlock());
  ExprEmitter::Scope inner(e);
  e.index[mDim] = add(e, block.row, contract.getRow());
  e.index[nDim] = add(e, block.column, contract.getColumn());
  e.valid = contract.getValidColumns();
  e.accumulator = contract.getAccumulator();
  for (const Store &store : nest.stores)
    e.store(store.access, e.emit(store.value), store.value->type);
}

} // namespace

ContractionPlan planContraction(Module &module, const Group &group, const TileTarget &target) {
  const Nest &nest = group.members.front();
  auto shape = host::MatrixShape::get(nest.operandType, target.matrix);
  if (!shape)
    throw EmitError(nest.op + ": no matrix product of " + std::string(nameOf(nest.operandType)));
  if (!nest.lhs.indirect.empty() || !nest.rhs.indirect.empty())
    throw EmitError(nest.op + ": an operand of a matrix product is gathered");
  ContractionPlan plan{*shape, {}, 0, {}, 0, 0};
  plan.blocks = host::planContract(*shape, extentM(nest), extentN(nest), extentK(nest), target.threads);
  plan.panelElements = host::panelElements(*shape, extentK(nest));
  plan.packedElements = host::packedElements(*shape, extentK(nest), extentN(nest));
  SizeExpr matrices = 1;
  for (unsigned d = 0; d < batchRank(nest); ++d)
    if (!nest.rhs.coefs[d].isConstant(0)) {
      plan.batch.push_back(d);
      matrices = matrices * nest.domain[d];
    }
  plan.panels = module.buffers.size();
  Buffer buffer;
  buffer.dtype = shape->panel;
  buffer.elements = plan.packedElements * matrices;
  module.buffers.push_back(std::move(buffer));
  return plan;
}

KernelKey packKey(const Group &group, const ContractionPlan &plan) {
  const Nest &nest = group.members.front();
  unsigned n = batchRank(nest) + 1, k = n + 1;
  KernelKey key("pack ");
  key.addBuffer(nest.rhs.buffer, nest.operandType);
  key.addBuffer(plan.panels, plan.shape.panel);
  key.addSize(nest.rhs.offset);
  for (unsigned d : plan.batch) {
    key.addSize(nest.domain[d]);
    key.addSize(nest.rhs.coefs[d]);
  }
  key.addText(" n");
  key.addSize(nest.domain[n]);
  key.addSize(nest.rhs.coefs[n]);
  key.addText(" k");
  key.addSize(nest.domain[k]);
  key.addSize(nest.rhs.coefs[k]);
  key.addSize(plan.panelElements);
  key.addSize(plan.packedElements);
  return key;
}

LaunchPlan packLaunch(const Group &group, const ContractionPlan &plan) {
  const Nest &nest = group.members.front();
  LaunchPlan launch;
  SizeExpr panels = SizeExpr::ceildiv(extentN(nest), int64_t(plan.shape.width));
  launch.grid = panels;
  SizeExpr elements = extentN(nest) * extentK(nest);
  for (unsigned d : plan.batch) {
    launch.grid = launch.grid * nest.domain[d];
    elements = elements * nest.domain[d];
  }
  launch.grain =
      SizeExpr::max(1, SizeExpr::floordiv(16384, SizeExpr::max(1, extentK(nest) * int64_t(plan.shape.width))));
  launch.bytesMoved = elements * int64_t(sizeOf(nest.operandType) + sizeOf(plan.shape.panel));
  return launch;
}

OwningOpRef<ModuleOp> emitPack(MLIRContext &context, const Group &group, const ContractionPlan &plan,
                               const KernelKey &key, llvm::StringRef name) {
  const Nest &nest = group.members.front();
  OpBuilder b(&context);
  Location loc = NameLoc::get(b.getStringAttr(name));
  OwningOpRef<ModuleOp> module = startKernel(b, loc, key, name);
  KeyOperands operands(key, *b.getInsertionBlock());
  ExprEmitter e(b, loc, operands);
  unsigned nDim = batchRank(nest) + 1, kDim = nDim + 1;
  Value width = e.constantIndex(plan.shape.width), n = e.sizeValue(nest.domain[nDim]);
  SmallVector<Value> grid;
  for (unsigned d : plan.batch)
    grid.push_back(e.sizeValue(nest.domain[d]));
  grid.push_back(b.create<arith::CeilDivUIOp>(e.loc, n, width));
  auto gridOp = b.create<tile::GridOp>(e.loc, grid);
  b.setInsertionPointToStart(&gridOp.getBlock());
  SmallVector<Value> index(batchRank(nest));
  for (size_t i = 0; i < plan.batch.size(); ++i)
    index[plan.batch[i]] = gridOp.getIndices()[i];
  Value panel = gridOp.getIndices().back();
  Value column = mul(e, panel, width);
  Value source = batchOffset(e, nest.rhs, index);
  source = add(e, source, mul(e, column, e.sizeValue(nest.rhs.coefs[nDim])));
  Value target = mul(e, panel, e.sizeValue(plan.panelElements));
  if (Value matrix = matrixNumber(e, nest, plan, index))
    target = add(e, target, mul(e, matrix, e.sizeValue(plan.packedElements)));
  OpFoldResult strides[] = {stride(e, nest.rhs.coefs[kDim]), stride(e, nest.rhs.coefs[nDim])};
  b.create<tile::PackOp>(e.loc, operands.buffer(nest.rhs.buffer), source, strides, e.sizeValue(nest.domain[kDim]),
                         smaller(e, width, n, column), operands.buffer(plan.panels), target);
  return module;
}

KernelKey contractKey(const Group &group, const Module &module, const ContractionPlan &plan) {
  KernelKey key(group, module);
  key.addText("contract ");
  key.addBuffer(plan.panels, plan.shape.panel);
  for (const SizeExpr *value : {&plan.panelElements, &plan.packedElements, &plan.blocks.mc, &plan.blocks.nc,
                                &plan.blocks.rowBlocks, &plan.blocks.colBlocks})
    key.addSize(*value);
  return key;
}

LaunchPlan contractLaunch(const Group &group, const ContractionPlan &plan) {
  const Nest &nest = group.members.front();
  LaunchPlan launch;
  SizeExpr matrices = 1;
  for (unsigned d = 0; d < batchRank(nest); ++d)
    matrices = matrices * nest.domain[d];
  launch.grid = matrices * plan.blocks.rowBlocks * plan.blocks.colBlocks;
  launch.flops = matrices * extentM(nest) * extentN(nest) * extentK(nest) * 2;
  // Some 20 us of work at a hundred operations a nanosecond.
  SizeExpr perPoint = plan.blocks.mc * plan.blocks.nc * extentK(nest) * 2;
  launch.grain = SizeExpr::max(1, SizeExpr::floordiv(2'000'000, SizeExpr::max(1, perPoint)));
  launch.bytesMoved =
      (matrices * (extentM(nest) * extentK(nest) + extentM(nest) * extentN(nest)) + plan.packedElements) *
      int64_t(sizeOf(nest.operandType));
  return launch;
}

OwningOpRef<ModuleOp> emitContract(MLIRContext &context, const Group &group, const ContractionPlan &plan,
                                   const KernelKey &key, llvm::StringRef name) {
  const Nest &nest = group.members.front();
  OpBuilder b(&context);
  Location loc = NameLoc::get(b.getStringAttr(name));
  OwningOpRef<ModuleOp> module = startKernel(b, loc, key, name);
  KeyOperands operands(key, *b.getInsertionBlock());
  ExprEmitter e(b, loc, operands);
  unsigned batch = batchRank(nest), mDim = batch, nDim = batch + 1, kDim = batch + 2;
  SmallVector<Value> grid;
  for (unsigned d = 0; d < batch; ++d)
    grid.push_back(e.sizeValue(nest.domain[d]));
  grid.push_back(e.sizeValue(plan.blocks.rowBlocks));
  grid.push_back(e.sizeValue(plan.blocks.colBlocks));
  auto gridOp = b.create<tile::GridOp>(e.loc, grid);
  b.setInsertionPointToStart(&gridOp.getBlock());
  ExprEmitter::Scope scope(e);
  auto indices = gridOp.getIndices();
  e.index.resize(batch + 2);
  SmallVector<Value> batchIndex;
  for (unsigned d = 0; d < batch; ++d)
    batchIndex.push_back(e.index[d] = indices[d]);

  Value mc = e.sizeValue(plan.blocks.mc), nc = e.sizeValue(plan.blocks.nc);
  Value row = mul(e, indices[batch], mc), column = mul(e, indices[batch + 1], nc);
  Value m = smaller(e, mc, e.sizeValue(nest.domain[mDim]), row),
        n = smaller(e, nc, e.sizeValue(nest.domain[nDim]), column);
  Value panel = b.create<arith::DivUIOp>(e.loc, column, e.constantIndex(plan.shape.width));
  Value panels = mul(e, panel, e.sizeValue(plan.panelElements));
  if (Value matrix = matrixNumber(e, nest, plan, batchIndex))
    panels = add(e, panels, mul(e, matrix, e.sizeValue(plan.packedElements)));
  emitProduct(e, nest, plan.shape, {row, column, m, n}, batchIndex, operands.buffer(plan.panels), panels);
  return module;
}

void emitContractInside(OpBuilder &b, Location loc, const Group &group, const host::MatrixShape &shape,
                        KernelOperands &operands, Value panels) {
  const Nest &nest = group.members.front();
  OpBuilder::InsertionGuard guard(b);
  ExprEmitter e(b, loc, operands);
  ExprEmitter::Scope scope(e);
  unsigned batch = batchRank(nest), nDim = batch + 1, kDim = batch + 2;
  e.index.resize(batch + 2);
  SmallVector<Value> batchIndex;
  Value zero = e.constantIndex(0), one = e.constantIndex(1);
  for (unsigned d = 0; d < batch; ++d) {
    auto loop = b.create<scf::ForOp>(loc, zero, e.sizeValue(nest.domain[d]), one);
    b.setInsertionPointToStart(loop.getBody());
    batchIndex.push_back(e.index[d] = loop.getInductionVar());
  }
  Value width = e.constantIndex(shape.width), n = e.sizeValue(nest.domain[nDim]), k = e.sizeValue(nest.domain[kDim]);
  Value source = batchOffset(e, nest.rhs, batchIndex);
  OpFoldResult strides[] = {stride(e, nest.rhs.coefs[kDim]), stride(e, nest.rhs.coefs[nDim])};
  {
    OpBuilder::InsertionGuard inner(b);
    auto loop = b.create<scf::ForOp>(loc, zero, n, width);
    b.setInsertionPointToStart(loop.getBody());
    Value column = loop.getInductionVar();
    Value panel = b.create<arith::DivUIOp>(loc, column, width);
    Value from = add(e, source, mul(e, column, e.sizeValue(nest.rhs.coefs[nDim])));
    Value to = mul(e, panel, e.sizeValue(host::panelElements(shape, nest.domain[kDim])));
    b.create<tile::PackOp>(loc, operands.buffer(nest.rhs.buffer), from, strides, k, smaller(e, width, n, column),
                           panels, to);
  }
  emitProduct(e, nest, shape, {zero, zero, e.sizeValue(nest.domain[batch]), n}, batchIndex, panels, zero);
}

} // namespace tilewright::loop
