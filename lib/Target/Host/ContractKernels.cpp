//===- ContractKernels.cpp - register blocks and the product of rows with one panel -------------------------------===//

#include "tilewright/Target/Host/ContractKernels.h"

#include "ContractEmit.h"
#include "ContractTypes.h"

using namespace mlir;

namespace tilewright::host {

namespace {

/// k steps that are summed in registers before they are added to the tile: bounds the rounding error of long sums (a
/// chain of 2048 terms has a maximal error of 2e-6 of max |C| in f32, four chains of 512 less than half of it) for 1%
/// of the time.
constexpr int64_t kChain = 512;

/// Rows of A whose addresses share a pointer: base, base + sm, base + 2 sm. Twelve pointers would not fit the
/// registers.
constexpr unsigned kRowsPerPointer = 3;

} // namespace

std::string ContractKernels::name(StringRef what) const {
  std::string text = ("tw_" + what + "_" + nameOf(shape.operand)).str();
  if (shape.widens())
    text += "_" + std::string(nameOf(shape.panel));
  return text;
}

LLVM::LLVMFuncOp ContractKernels::block(unsigned rows) {
  std::string symbol = name("block") + "_" + std::to_string(rows);
  if (auto existing = module.lookupSymbol<LLVM::LLVMFuncOp>(symbol))
    return existing;
  OpBuilder builder(module.getContext());
  Emitter e(builder, module.getLoc());
  auto function = createFunction(module, symbol, {e.ptr, e.i64, e.i64, e.ptr, e.i64, e.i64, e.ptr, e.i64, e.i1});
  Block *entry = &function.getBody().front();
  auto arg = [&](unsigned i) { return entry->getArgument(i); };
  Value sm = arg(1), sk = arg(2), sb = arg(4), ldc = arg(7);

  const VectorTypes types(builder, shape);
  const unsigned vectors = shape.width / shape.lanes, vectorBytes = target.vectorBytes;
  const unsigned pointers = (rows + kRowsPerPointer - 1) / kRowsPerPointer;
  const unsigned accumulators = rows * vectors;
  SmallVector<Type> sums(accumulators, types.accumulator);

  // Chunks of k: A, B, steps left, accumulate.
  SmallVector<Type> bodyTypes{e.i64, e.ptr};
  bodyTypes.append(pointers, e.ptr);
  llvm::append_range(bodyTypes, sums);
  e.enter(entry);
  Block *chunk = e.block({e.ptr, e.ptr, e.i64, e.i1}), *body = e.block(bodyTypes), *done = e.block(sums);
  Block *accumulate = e.block(), *overwrite = e.block(), *next = e.block(), *leave = e.block();
  Value sm2 = e.add(sm, sm), sm3 = e.add(sm2, sm);
  e.jump(chunk, {arg(0), arg(3), arg(5), arg(8)});

  e.enter(chunk);
  Value a = chunk->getArgument(0), panel = chunk->getArgument(1), left = chunk->getArgument(2);
  Value steps = e.min(left, e.constant(kChain)), none = e.constant(0);
  Value zero = e.zero(types.accumulator);
  SmallVector<Value> zeros(accumulators, zero), init{steps, panel, a};
  for (unsigned i = 1; i < pointers; ++i)
    init.push_back(e.at(init.back(), sm3));
  llvm::append_range(init, zeros);
  e.jumpIf(e.compare(Emitter::Predicate::sgt, steps, none), body, init, done, zeros);

  // One step: the vectors of a row of B, then for each row of A one broadcast and its products.
  e.enter(body);
  Value count = body->getArgument(0), row = body->getArgument(1);
  SmallVector<Value> b, again{e.sub(count, e.constant(1)), e.at(row, sb)}, next_;
  for (unsigned j = 0; j < vectors; ++j)
    b.push_back(e.load(types.panelVector, e.at(row, int64_t(j) * vectorBytes)));
  for (unsigned i = 0; i < rows; ++i) {
    Value base = body->getArgument(2 + i / kRowsPerPointer);
    unsigned within = i % kRowsPerPointer;
    Value address = within == 0 ? base : e.at(base, within == 1 ? sm : sm2);
    Value x = types.broadcast(e, address);
    for (unsigned j = 0; j < vectors; ++j)
      next_.push_back(types.multiplyAdd(e, target, x, b[j], body->getArgument(2 + pointers + i * vectors + j)));
  }
  for (unsigned i = 0; i < pointers; ++i)
    again.push_back(e.at(body->getArgument(2 + i), sk));
  llvm::append_range(again, next_);
  e.jumpIf(e.compare(Emitter::Predicate::ne, again[0], none), body, again, done, next_);

  e.enter(done);
  e.jumpIf(chunk->getArgument(3), accumulate, {}, overwrite, {});
  for (Block *into : {accumulate, overwrite}) {
    e.enter(into);
    Value c = arg(6);
    for (unsigned i = 0; i < rows; ++i) {
      for (unsigned j = 0; j < vectors; ++j) {
        Value sum = done->getArgument(i * vectors + j), address = e.at(c, int64_t(j) * vectorBytes);
        e.store(into == accumulate ? types.add(e, e.load(types.accumulator, address), sum) : sum, address);
      }
      if (i + 1 < rows)
        c = e.at(c, ldc);
    }
    e.jump(next);
  }

  e.enter(next);
  Value rest = e.sub(left, steps), yes = e.op<LLVM::ConstantOp>(e.i1, builder.getBoolAttr(true));
  e.jumpIf(e.compare(Emitter::Predicate::sgt, rest, none), chunk,
           {e.at(a, e.mul(steps, sk)), e.at(panel, e.mul(steps, sb)), rest, yes}, leave, {});
  e.enter(leave);
  e.op<LLVM::ReturnOp>(ValueRange{});
  return function;
}

LLVM::LLVMFuncOp ContractKernels::panelProduct() {
  std::string symbol = name("panel_product");
  if (auto existing = module.lookupSymbol<LLVM::LLVMFuncOp>(symbol))
    return existing;
  OpBuilder builder(module.getContext());
  Emitter e(builder, module.getLoc());
  auto function = createFunction(module, symbol, {e.ptr, e.i64, e.i64, e.ptr, e.i64, e.i64, e.i64, e.ptr, e.i64, e.i1});
  Block *entry = &function.getBody().front();
  e.enter(entry);
  auto arg = [&](unsigned i) { return entry->getArgument(i); };
  Value m = arg(5), i = e.constant(0);
  for (unsigned rows : shape.blockRows()) {
    // while (i + rows <= m) { block; i += rows }
    auto callee = block(rows);
    Value last = e.sub(m, e.constant(rows - 1));
    Block *inside = e.block({e.i64}), *after = e.block({e.i64});
    e.jumpIf(e.compare(Emitter::Predicate::slt, i, last), inside, {i}, after, {i});
    e.enter(inside);
    Value at = inside->getArgument(0);
    e.op<LLVM::CallOp>(callee, ValueRange{e.at(arg(0), e.mul(at, arg(1))), arg(1), arg(2), arg(3), arg(4), arg(6),
                                          e.at(arg(7), e.mul(at, arg(8))), arg(8), arg(9)});
    Value next = e.add(at, e.constant(rows));
    e.jumpIf(e.compare(Emitter::Predicate::slt, next, last), inside, {next}, after, {next});
    e.enter(after);
    i = after->getArgument(0);
  }
  e.op<LLVM::ReturnOp>(ValueRange{});
  return function;
}

} // namespace tilewright::host
