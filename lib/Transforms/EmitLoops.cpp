//===- EmitLoops.cpp - a group of loops as a kernel of the tile dialect ----===//
//
// A grid point computes one row (or one chunk of a row, or a strip of columns). The row is walked once per phase: a
// phase ends where a reduction's result is needed. Whole tiles first, then single vectors with a valid extent.
//
//===----------------------------------------------------------------------===//

#include "EmitParts.h"

#include "tilewright/Transforms/Domain.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <algorithm>

using namespace mlir;

namespace tilewright::loop {

namespace {

bool isArg(const Nest &nest) { return nest.reduce == ReduceKind::ArgMax || nest.reduce == ReduceKind::ArgMin; }

tile::ReduceKind reduceKind(ReduceKind kind, DType type) {
  bool isUnsignedInt = !isFloat(type) && isUnsigned(type);
  switch (kind) {
  case ReduceKind::Sum:
    return tile::ReduceKind::Add;
  case ReduceKind::Prod:
    return tile::ReduceKind::Mul;
  case ReduceKind::Max:
  case ReduceKind::ArgMax:
    return isUnsignedInt ? tile::ReduceKind::UMax : tile::ReduceKind::Max;
  case ReduceKind::Min:
  case ReduceKind::ArgMin:
    return isUnsignedInt ? tile::ReduceKind::UMin : tile::ReduceKind::Min;
  case ReduceKind::Any:
    return tile::ReduceKind::Or;
  case ReduceKind::All:
    return tile::ReduceKind::And;
  }
  throw EmitError("unknown reduction");
}

/// Summands that are added one after another before a sum starts anew.
constexpr int64_t kSummands = 512;

class LoopEmitter {
public:
  LoopEmitter(OpBuilder &builder, Location loc, const Group &group, const LoopPlan &plan, KernelOperands &operands,
              const TileTarget &target)
      : b(builder), loc(loc), group(group), plan(plan), target(target), e(builder, loc, operands) {
    rank = group.outer.size() + group.row.size();
    unsigned cost = 0;
    for (const Nest &member : group.members) {
      for (const Store &store : member.stores)
        cost += costOf(store.value);
      if (member.body)
        cost += costOf(member.body);
      anyArg |= member.kind == Nest::Reduction && isArg(member);
    }
    // Four vectors a tile hide the latency of sums and loads; long expressions would run out of registers.
    unsigned many = target.matrix.vectorBytes == 64 ? 60 : 12; // 32 registers, or 16
    wide = anyArg ? target.lanes : cost > many ? 2 * target.lanes : 4 * target.lanes;
  }

  /// The group as the kernel's grid.
  void emitGrid() {
    scratchBase = e.constantIndex(0);
    SmallVector<Value> grid = prepare();
    auto gridOp = b.create<tile::GridOp>(loc, grid);
    b.setInsertionPointToStart(&gridOp.getBlock());
    emitPointAt(llvm::to_vector_of<Value>(gridOp.getIndices()));
  }

  /// The group as loops, with scratch from a byte offset on.
  void emitLoopNest(Value scratch) {
    scratchBase = scratch;
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Value> indices;
    for (Value extent : prepare()) {
      auto loop = b.create<scf::ForOp>(loc, e.constantIndex(0), extent, e.constantIndex(1));
      b.setInsertionPointToStart(loop.getBody());
      indices.push_back(loop.getInductionVar());
    }
    emitPointAt(indices);
  }

private:
  OpBuilder &b;
  Location loc;
  const Group &group;
  const LoopPlan &plan;
  const TileTarget &target;
  ExprEmitter e;
  unsigned rank, wide;
  bool anyArg = false;
  bool streaming = false; // whole tiles that are being emitted are aligned and bypass the caches
  Value scratchBase;

  /// Extents of the dimensions outside of a point.
  SmallVector<Value> prepare() {
    e.vectorDim = plan.vectorDim;
    e.index.resize(rank);
    e.atHand = [this](ExprRef load) { return known(load); };
    SmallVector<Value> extents;
    for (unsigned d = 0; d < gridDims(); ++d)
      extents.push_back(e.sizeValue(group.outer[d]));
    if (plan.chunked || plan.column) {
      Value n = e.sizeValue(group.outer.back());
      int64_t step = plan.chunked ? plan.chunk : columnTile();
      extents.push_back(b.create<arith::CeilDivUIOp>(loc, n, e.constantIndex(step)));
      if (plan.strips)
        std::swap(extents.back(), *std::prev(extents.end(), 2));
    }
    return extents;
  }

  void emitPointAt(SmallVector<Value> indices) {
    ExprEmitter::Scope scope(e);
    if (plan.strips)
      std::swap(indices.back(), *std::prev(indices.end(), 2));
    for (unsigned d = 0; d < gridDims(); ++d)
      e.index[d] = indices[d];
    if (plan.chunked)
      emitChunk(indices.back());
    else if (plan.column)
      emitStrip(indices.back());
    else
      emitPoint();
  }

  unsigned gridDims() const { return group.outer.size() - (plan.chunked || plan.column); }

  std::map<BufferId, Value> results;   // per point: reductions and members over outer
  std::map<BufferId, Value> rowValues; // in the loop body that is being emitted
  std::map<BufferId, Value> scratch;   // row values kept for later phases: buffers

  int64_t columnTile() const { return 4 * target.lanes; }
  unsigned outerRank() const { return group.outer.size(); }
  uint64_t rowMask() const {
    uint64_t mask = 0;
    for (unsigned d = outerRank(); d < rank; ++d)
      mask |= uint64_t(1) << d;
    return mask;
  }

  /// A load of something that this group made at the same point.
  Value known(ExprRef load) {
    BufferId buffer = load->access.buffer;
    if (auto it = results.find(buffer); it != results.end())
      return it->second;
    if (auto it = rowValues.find(buffer); it != rowValues.end())
      return it->second;
    if (auto it = scratch.find(buffer); it != scratch.end())
      return loadScratch(it->second, load->type);
    return nullptr;
  }

  //===--- Scratch ---===//

  /// Element number of the current point of the row in scratch.
  Value scratchOffset() {
    Value linear;
    for (unsigned d = outerRank(); d < rank; ++d) {
      Value i = e.index[d];
      linear = linear ? b.create<arith::AddIOp>(
                            loc, b.create<arith::MulIOp>(loc, linear, e.sizeValue(group.row[d - outerRank()])), i)
                      : i;
    }
    if (!linear)
      linear = e.constantIndex(0);
    if (plan.column)
      linear = b.create<arith::MulIOp>(loc, linear, e.constantIndex(columnTile()));
    return linear;
  }

  Value loadScratch(Value buffer, DType type) {
    OpFoldResult one = b.getIndexAttr(1);
    return b.create<tile::LoadOp>(loc, e.tileType(type), buffer, scratchOffset(), one,
                                  e.valid ? ValueRange(e.valid) : ValueRange());
  }

  void storeScratch(Value buffer, Value value) {
    OpFoldResult one = b.getIndexAttr(1);
    b.create<tile::StoreOp>(loc, e.splat(value), buffer, scratchOffset(), one,
                            e.valid ? ValueRange(e.valid) : ValueRange());
  }

  bool isRowMember(const Nest &nest) const { return nest.domain.size() == rank && !group.row.empty(); }

  /// True if a phase after the one that makes the buffer reads it.
  bool readLater(BufferId buffer, unsigned phase) const {
    for (size_t i = 0; i < group.members.size(); ++i)
      if (plan.phaseOf[i] > phase && reads(group.members[i], buffer))
        return true;
    return false;
  }

  void allocateScratch() {
    Value offset = scratchBase;
    for (size_t i = 0; i < group.members.size(); ++i) {
      const Nest &member = group.members[i];
      if (member.kind != Nest::Pointwise || !isRowMember(member))
        continue;
      for (const Store &store : member.stores) {
        BufferId buffer = store.access.buffer;
        if (!group.local.count(buffer) || !readLater(buffer, plan.phaseOf[i]))
          continue;
        DType type = store.value->type;
        scratch[buffer] = b.create<tile::ScratchOp>(loc, tile::BufferType::get(e.elementType(type)), offset);
        Value elements = e.constantIndex(plan.column ? columnTile() : 1);
        for (const SizeExpr &extent : group.row)
          elements = b.create<arith::MulIOp>(loc, elements, e.sizeValue(extent));
        Value bytes = b.create<arith::MulIOp>(loc, elements, e.constantIndex(sizeOf(type)));
        Value blocks = b.create<arith::CeilDivUIOp>(loc, bytes, e.constantIndex(64));
        offset = b.create<arith::AddIOp>(loc, offset, b.create<arith::MulIOp>(loc, blocks, e.constantIndex(64)));
      }
    }
  }

  //===--- Pointwise groups ---===//

  void emitChunk(Value chunk) {
    Value n = e.sizeValue(group.outer.back());
    Value begin = b.create<arith::MulIOp>(loc, chunk, e.constantIndex(plan.chunk));
    Value end = b.create<arith::MinSIOp>(loc, n, b.create<arith::AddIOp>(loc, begin, e.constantIndex(plan.chunk)));
    uint64_t mask = uint64_t(1) << plan.vectorDim;
    e.width = wide;
    for (const Nest &member : group.members)
      for (const Store &store : member.stores)
        e.hoist(store.value, mask);
    SmallVector<const Nest *> members;
    for (const Nest &member : group.members)
      members.push_back(&member);
    storingLoops(plan.vectorDim, begin, end, members, {}, [&](ValueRange, bool) {
      rowValues.clear();
      for (const Nest &member : group.members)
        emitMember(member);
      return SmallVector<Value>{};
    });
  }

  void emitMember(const Nest &member) {
    for (const Store &store : member.stores) {
      Value value = e.emit(store.value);
      rowValues[store.access.buffer] = value;
      if (!group.local.count(store.access.buffer))
        storeResult(store, value);
    }
  }

  void storeResult(const Store &store, Value value) {
    e.store(store, value, streaming && !e.valid && streams(group, store.access, plan.vectorDim));
  }

  //===--- Loops ---===//

  /// Opens a loop over a dimension from begin to end in whole tiles, then one in single vectors with a valid extent.
  /// The body gets the carried values and whether tiles are wide, and gives the next ones. `init` holds wide values
  /// first, then narrow ones.
  using Body = llvm::function_ref<SmallVector<Value>(ValueRange carried, bool isWide)>;
  SmallVector<Value> vectorLoops(unsigned dim, Value begin, Value end, ValueRange init, Body body) {
    size_t half = init.size() / 2;
    Value middle = begin;
    SmallVector<Value> out(init.begin(), init.end());
    auto run = [&](Value from, Value to, unsigned width, bool masked, ValueRange carried) {
      auto loop = b.create<scf::ForOp>(loc, from, to, e.constantIndex(width), carried);
      OpBuilder::InsertionGuard guard(b);
      if (carried.empty()) // the terminator is there already
        b.setInsertionPoint(loop.getBody()->getTerminator());
      else
        b.setInsertionPointToEnd(loop.getBody());
      ExprEmitter::Scope scope(e);
      e.index[dim] = loop.getInductionVar();
      e.width = width;
      e.valid = masked ? Value(b.create<arith::SubIOp>(loc, to, loop.getInductionVar())) : Value();
      SmallVector<Value> next = body(loop.getRegionIterArgs(), !masked);
      if (!carried.empty())
        b.create<scf::YieldOp>(loc, next);
      e.valid = nullptr;
      e.index[dim] = nullptr;
      return SmallVector<Value>(loop.getResults());
    };
    Value whole = b.create<arith::SubIOp>(loc, end, begin);
    whole = b.create<arith::SubIOp>(loc, whole, b.create<arith::RemSIOp>(loc, whole, e.constantIndex(wide)));
    middle = b.create<arith::AddIOp>(loc, begin, whole);
    SmallVector<Value> wideOut = run(begin, middle, wide, false, init.take_front(half));
    SmallVector<Value> narrowOut = run(middle, end, target.lanes, true, init.drop_front(half));
    std::copy(wideOut.begin(), wideOut.end(), out.begin());
    std::copy(narrowOut.begin(), narrowOut.end(), out.begin() + half);
    e.width = wide;
    return out;
  }

  /// vectorLoops in two versions where the kernel may stream: large results are written past the caches. Without
  /// carried values a first step ends where they are aligned; sums must not depend on addresses, so that loops with
  /// carried values stream only what is aligned from the start.
  SmallVector<Value> storingLoops(unsigned dim, Value begin, Value end, ArrayRef<const Nest *> members, ValueRange init,
                                  Body body) {
    SmallVector<const Store *> stores;
    if (plan.streamed)
      for (const Nest *member : members)
        for (const Store &store : member->stores)
          if (!store.atomicAdd && streams(group, store.access, dim))
            stores.push_back(&store);
    if (stores.empty())
      return vectorLoops(dim, begin, end, init, body);
    Value use = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::sgt, e.sizeValue(*plan.streamed),
                                        e.constantIndex(LoopPlan::kStreamingBytes));
    auto demand = [&](arith::CmpIPredicate predicate, Value x, Value y) {
      use = b.create<arith::AndIOp>(loc, use, b.create<arith::CmpIOp>(loc, predicate, x, y));
    };
    Value head = init.empty() ? Value() : e.constantIndex(0);
    e.index[dim] = begin;
    for (const Store *store : stores) {
      Value beyond =
          b.create<tile::MisalignmentOp>(loc, e.operands.buffer(store->access.buffer), e.offsetOf(store->access));
      Value bytes =
          b.create<arith::AndIOp>(loc, b.create<arith::SubIOp>(loc, e.constantIndex(64), beyond), e.constantIndex(63));
      Value elements = b.create<arith::DivUIOp>(loc, bytes, e.constantIndex(sizeOf(store->value->type)));
      if (head)
        demand(arith::CmpIPredicate::eq, elements, head);
      else
        head = elements;
    }
    e.index[dim] = nullptr;
    Value first = b.create<arith::AddIOp>(loc, begin, head);
    demand(arith::CmpIPredicate::sle, b.create<arith::AddIOp>(loc, first, e.constantIndex(wide)), end);
    auto choice = b.create<scf::IfOp>(loc, init.getTypes(), use, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    auto branch = [&](Block *block, bool streamed) {
      b.setInsertionPointToStart(block);
      if (streamed && init.empty())
        alignedStart(dim, begin, first, body);
      streaming = streamed;
      SmallVector<Value> results = vectorLoops(dim, streamed ? first : begin, end, init, body);
      streaming = false;
      if (!init.empty())
        b.create<scf::YieldOp>(loc, results);
    };
    branch(choice.thenBlock(), true);
    branch(choice.elseBlock(), false);
    return choice.getResults();
  }

  /// Single vectors with a valid extent, up to the element from which results are aligned.
  void alignedStart(unsigned dim, Value begin, Value end, Body body) {
    auto loop = b.create<scf::ForOp>(loc, begin, end, e.constantIndex(target.lanes));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    ExprEmitter::Scope scope(e);
    e.index[dim] = loop.getInductionVar();
    e.width = target.lanes;
    e.valid = b.create<arith::SubIOp>(loc, end, loop.getInductionVar());
    body({}, false);
    e.valid = nullptr;
    e.index[dim] = nullptr;
    e.width = wide;
  }

  /// Loops over dimensions [dim, end) one element at a time, around `body`.
  SmallVector<Value> scalarLoops(unsigned dim, unsigned end, ValueRange init,
                                 llvm::function_ref<SmallVector<Value>(ValueRange)> body) {
    if (dim == end)
      return body(init);
    return scalarLoop(dim, e.constantIndex(0), e.sizeValue(group.row[dim - outerRank()]), init,
                      [&](ValueRange carried) { return scalarLoops(dim + 1, end, carried, body); });
  }

  SmallVector<Value> scalarLoop(unsigned dim, Value begin, Value end, ValueRange init,
                                llvm::function_ref<SmallVector<Value>(ValueRange)> body) {
    auto loop = b.create<scf::ForOp>(loc, begin, end, e.constantIndex(1), init);
    OpBuilder::InsertionGuard guard(b);
    if (init.empty())
      b.setInsertionPoint(loop.getBody()->getTerminator());
    else
      b.setInsertionPointToEnd(loop.getBody());
    ExprEmitter::Scope scope(e);
    e.index[dim] = loop.getInductionVar();
    SmallVector<Value> next = body(loop.getRegionIterArgs());
    if (!init.empty())
      b.create<scf::YieldOp>(loc, next);
    e.index[dim] = nullptr;
    return SmallVector<Value>(loop.getResults());
  }

  //===--- Groups with reductions ---===//

  /// A strip of columns: whole if it fits, else vector by vector.
  void emitStrip(Value strip) {
    unsigned dim = plan.vectorDim;
    Value n = e.sizeValue(group.outer.back());
    Value begin = b.create<arith::MulIOp>(loc, strip, e.constantIndex(columnTile()));
    Value end = b.create<arith::MinSIOp>(loc, n, b.create<arith::AddIOp>(loc, begin, e.constantIndex(columnTile())));
    unsigned saved = wide;
    if (anyArg || wide != columnTile())
      wide = target.lanes; // then the whole strip goes in single vectors
    else
      wide = columnTile();
    vectorLoops(dim, begin, end, {}, [&](ValueRange, bool) {
      results.clear();
      rowValues.clear();
      scratch.clear();
      emitPoint();
      return SmallVector<Value>{};
    });
    wide = saved;
  }

  struct Accumulator {
    const Nest *nest;
    DType type;
    SmallVector<Value> values; // one, or value and index
  };

  void emitPoint() {
    if (!plan.column)
      e.width = plan.vectorDim < 0 ? 0 : wide;
    allocateScratch();
    unsigned last = 0;
    for (unsigned phase : plan.phaseOf)
      last = std::max(last, phase);
    for (unsigned phase = 0; phase <= last; ++phase) {
      emitPointMembers(phase);
      emitPhase(phase);
    }
    emitPointMembers(last + 1);
  }

  /// Members over the outer dimensions alone whose operands are there by `phase`, in order.
  void emitPointMembers(unsigned phase) {
    for (size_t i = 0; i < group.members.size(); ++i) {
      const Nest &member = group.members[i];
      if (member.kind != Nest::Pointwise || isRowMember(member) || plan.phaseOf[i] != phase)
        continue;
      for (const Store &store : member.stores) {
        Value value = e.emit(store.value);
        results[store.access.buffer] = value;
        if (!group.local.count(store.access.buffer))
          e.store(store, value);
      }
    }
  }

  void emitPhase(unsigned phase) {
    SmallVector<const Nest *> rowMembers;
    SmallVector<Accumulator> sums;
    for (size_t i = 0; i < group.members.size(); ++i) {
      const Nest &member = group.members[i];
      if (plan.phaseOf[i] != phase)
        continue;
      if (member.kind == Nest::Reduction) {
        rowMembers.push_back(&member);
        sums.push_back({&member, member.body->type, {}});
      } else if (isRowMember(member)) {
        rowMembers.push_back(&member);
      }
    }
    if (rowMembers.empty())
      return;
    for (const Nest *member : rowMembers) {
      for (const Store &store : member->stores)
        e.hoist(store.value, rowMask());
      if (member->body)
        e.hoist(member->body, rowMask());
    }
    if (plan.column || plan.vectorDim < 0)
      columnPhase(phase, rowMembers, sums);
    else
      rowPhase(phase, rowMembers, sums);
    for (Accumulator &sum : sums) {
      Value value = sum.values.front();
      BufferId buffer = sum.nest->target.buffer;
      if (isArg(*sum.nest))
        value = sum.values.back();
      results[buffer] = value;
      if (!group.local.count(buffer))
        e.store(sum.nest->target, value, isArg(*sum.nest) ? DType::I64 : sum.type);
    }
  }

  SmallVector<Value> initial(const Accumulator &sum, bool tile) {
    if (!isArg(*sum.nest))
      return {e.identity(sum.nest->reduce, sum.type, tile)};
    // Index -1 says that nothing has been seen: the first element always wins.
    return {e.identity(sum.nest->reduce, sum.type, tile), e.constant(DType::I64, 0, -1, tile)};
  }

  /// Row members of a phase at the current point; gives the next accumulators.
  SmallVector<Value> body(unsigned phase, ArrayRef<const Nest *> members, ValueRange carried) {
    rowValues.clear();
    SmallVector<Value> next;
    size_t at = 0;
    for (const Nest *member : members) {
      if (member->kind == Nest::Pointwise) {
        for (const Store &store : member->stores) {
          BufferId buffer = store.access.buffer;
          Value value = e.emit(store.value);
          if (auto it = scratch.find(buffer); it != scratch.end())
            storeScratch(it->second, value);
          else if (!group.local.count(buffer))
            storeResult(store, value);
          rowValues[buffer] = value;
        }
        continue;
      }
      Value value = e.emit(member->body);
      bool tile = isa<RankedTensorType>(carried[at].getType());
      if (tile)
        value = e.splat(value);
      // In a strip of columns every lane is a sum of its own, and what lies beyond the strip is never stored.
      bool masked = e.valid && !plan.column;
      if (isArg(*member)) {
        auto [best, index] = updateArg(*member, value, carried[at], carried[at + 1], masked);
        next.append({best, index});
        at += 2;
        continue;
      }
      Value updated = e.combine(member->reduce, member->body->type, carried[at], value);
      if (masked)
        updated = b.create<arith::SelectOp>(loc, maskTile(), updated, carried[at]);
      next.push_back(updated);
      ++at;
    }
    (void)phase;
    return next;
  }

  Value maskTile() {
    Value lanes = b.create<tile::IotaOp>(loc, RankedTensorType::get({int64_t(e.width)}, b.getI32Type()));
    Value limit = b.create<arith::MinSIOp>(loc, e.valid, e.constantIndex(e.width));
    limit = b.create<arith::IndexCastOp>(loc, b.getI32Type(), limit);
    return b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, lanes, e.splat(limit));
  }

  /// Is x a better extremum than y (both of the nest's type)? NaN is the best of all; equal ones are not better.
  Value better(const Nest &nest, Value x, Value y) {
    bool max = nest.reduce == ReduceKind::ArgMax;
    DType type = nest.body->type;
    if (!isFloat(type)) {
      bool u = isUnsigned(type);
      auto predicate = max ? (u ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt)
                           : (u ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt);
      return b.create<arith::CmpIOp>(loc, predicate, x, y);
    }
    Value beats = b.create<arith::CmpFOp>(loc, max ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT, x, y);
    Value xNaN = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::UNO, x, x);
    Value yNumber = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::ORD, y, y);
    return b.create<arith::OrIOp>(loc, beats, b.create<arith::AndIOp>(loc, xNaN, yNumber));
  }

  std::pair<Value, Value> updateArg(const Nest &nest, Value value, Value best, Value bestIndex, bool masked) {
    Value position;
    unsigned dim = rank - 1;
    // A reduced dimension of extent 1 was dropped: its only index is 0.
    position = group.row.empty() ? e.constant(DType::I64, 0, 0, false)
                                 : Value(b.create<arith::IndexCastOp>(loc, b.getI64Type(), e.index[dim]));
    bool tile = isa<RankedTensorType>(best.getType());
    if (tile) {
      position = e.splat(position);
      if (!group.row.empty() && int(dim) == plan.vectorDim)
        position = b.create<arith::AddIOp>(loc, position, b.create<tile::IotaOp>(loc, e.tileType(DType::I64)));
    }
    Value none = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, bestIndex, e.constant(DType::I64, 0, 0, tile));
    Value take = b.create<arith::OrIOp>(loc, none, better(nest, value, best));
    if (masked)
      take = b.create<arith::AndIOp>(loc, take, maskTile());
    return {b.create<arith::SelectOp>(loc, take, value, best),
            b.create<arith::SelectOp>(loc, take, position, bestIndex)};
  }

  /// [0, n) in pieces of at most `piece`: sums of floats start anew in each, at what `init` holds for them, so that
  /// their error grows with n / piece + piece and not with n.
  SmallVector<Value> inPieces(const SizeExpr &n, int64_t piece, const SmallVector<Accumulator> &sums, ValueRange init,
                              ValueRange carried,
                              llvm::function_ref<SmallVector<Value>(Value begin, Value end, ValueRange)> loop) {
    Value end = e.sizeValue(n);
    SmallVector<DType> types;          // of a value that is the sum of floats; Bool for others
    while (types.size() < init.size()) // the row's values come twice: of wide tiles, and of narrow ones
      for (const Accumulator &sum : sums)
        types.append(isArg(*sum.nest) ? 2 : 1,
                     sum.nest->reduce == ReduceKind::Sum && isFloat(sum.type) ? sum.type : DType::Bool);
    auto isSum = [](DType type) { return type != DType::Bool; };
    if (llvm::none_of(types, isSum) || n.constant().value_or(INT64_MAX) <= piece)
      return loop(e.constantIndex(0), end, carried);
    auto pieces = b.create<scf::ForOp>(loc, e.constantIndex(0), end, e.constantIndex(piece), carried);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(pieces.getBody());
    ExprEmitter::Scope scope(e);
    Value begin = pieces.getInductionVar();
    Value to = b.create<arith::MinSIOp>(loc, end, b.create<arith::AddIOp>(loc, begin, e.constantIndex(piece)));
    SmallVector<Value> values(pieces.getRegionIterArgs());
    for (size_t i = 0; i < values.size(); ++i)
      if (isSum(types[i]))
        values[i] = init[i];
    values = loop(begin, to, values);
    for (size_t i = 0; i < values.size(); ++i)
      if (isSum(types[i]))
        values[i] = e.combine(ReduceKind::Sum, types[i], pieces.getRegionIterArg(i), values[i]);
    b.create<scf::YieldOp>(loc, values);
    return SmallVector<Value>(pieces.getResults());
  }

  void columnPhase(unsigned phase, ArrayRef<const Nest *> members, SmallVector<Accumulator> &sums) {
    SmallVector<Value> init;
    for (Accumulator &sum : sums)
      init.append(initial(sum, plan.column));
    auto point = [&](ValueRange carried) { return body(phase, members, carried); };
    SmallVector<Value> done;
    if (group.row.empty())
      done = point(init);
    else
      done = scalarLoops(outerRank(), rank - 1, init, [&](ValueRange carried) {
        return inPieces(
            group.row.back(), kSummands, sums, init, carried,
            [&](Value begin, Value end, ValueRange inner) { return scalarLoop(rank - 1, begin, end, inner, point); });
      });
    size_t at = 0;
    for (Accumulator &sum : sums)
      for (int i = 0; i < (isArg(*sum.nest) ? 2 : 1); ++i)
        sum.values.push_back(done[at++]);
  }

  void rowPhase(unsigned phase, ArrayRef<const Nest *> members, SmallVector<Accumulator> &sums) {
    unsigned lastDim = rank - 1;
    SmallVector<Value> init;
    for (unsigned width : {wide, target.lanes}) {
      e.width = width;
      for (Accumulator &sum : sums)
        init.append(initial(sum, true));
    }
    e.width = wide;
    SmallVector<Value> done = scalarLoops(outerRank(), lastDim, init, [&](ValueRange carried) {
      return inPieces(group.row.back(), kSummands * wide, sums, init, carried,
                      [&](Value begin, Value end, ValueRange values) {
                        return storingLoops(lastDim, begin, end, members, values,
                                            [&](ValueRange inner, bool) { return body(phase, members, inner); });
                      });
    });
    size_t half = init.size() / 2, at = 0;
    for (Accumulator &sum : sums) {
      if (isArg(*sum.nest)) {
        sum.values = finishArg(*sum.nest, done[at], done[at + 1], done[half + at], done[half + at + 1]);
        at += 2;
        continue;
      }
      tile::ReduceKind kind = reduceKind(sum.nest->reduce, sum.type);
      Value a = b.create<tile::ReduceOp>(loc, kind, done[at], ValueRange());
      Value c = b.create<tile::ReduceOp>(loc, kind, done[half + at], ValueRange());
      sum.values = {e.combine(sum.nest->reduce, sum.type, a, c)};
      ++at;
    }
  }

  /// The first index among the lanes that hold the extremum, of both tiles (of equal width here: index reductions are
  /// not widened).
  SmallVector<Value> finishArg(const Nest &nest, Value x, Value xIndex, Value y, Value yIndex) {
    Value zero = e.constant(DType::I64, 0, 0, true);
    unsigned saved = e.width;
    e.width = target.lanes;
    auto seen = [&](Value index) { return b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::sge, index, zero); };
    Value xSeen = seen(xIndex), ySeen = seen(yIndex);
    // Lane by lane first: y's elements come after all of x's.
    Value take = b.create<arith::AndIOp>(
        loc, ySeen,
        b.create<arith::OrIOp>(loc, better(nest, y, x),
                               b.create<arith::XOrIOp>(loc, xSeen, e.constant(DType::Bool, 0, 1, true))));
    Value value = b.create<arith::SelectOp>(loc, take, y, x),
          index = b.create<arith::SelectOp>(loc, take, yIndex, xIndex);
    Value extremum = b.create<tile::ReduceOp>(loc, reduceKind(nest.reduce, nest.body->type), value, ValueRange());
    Value same;
    if (isFloat(nest.body->type)) {
      Value all = e.splat(extremum);
      same = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::OEQ, value, all);
      Value bothNaN =
          b.create<arith::AndIOp>(loc, b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::UNO, value, value),
                                  b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::UNO, all, all));
      same = b.create<arith::OrIOp>(loc, same, bothNaN);
    } else {
      same = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, value, e.splat(extremum));
    }
    same = b.create<arith::AndIOp>(loc, same, seen(index));
    Value candidate = b.create<arith::SelectOp>(loc, same, index, e.constant(DType::I64, 0, INT64_MAX, true));
    Value first = b.create<tile::ReduceOp>(loc, tile::ReduceKind::Min, candidate, ValueRange());
    e.width = saved;
    return {extremum, first};
  }
};

} // namespace

OwningOpRef<ModuleOp> emitLoops(MLIRContext &context, const Group &group, const LoopPlan &plan, const KernelKey &key,
                                const TileTarget &target, llvm::StringRef name) {
  OpBuilder builder(&context);
  Location loc = NameLoc::get(builder.getStringAttr(name));
  OwningOpRef<ModuleOp> module = startKernel(builder, loc, key, name);
  KeyOperands operands(key, *builder.getInsertionBlock());
  LoopEmitter(builder, loc, group, plan, operands, target).emitGrid();
  return module;
}

void emitLoopsInside(OpBuilder &builder, Location loc, const Group &group, const LoopPlan &plan,
                     const TileTarget &target, KernelOperands &operands, Value scratch) {
  LoopEmitter(builder, loc, group, plan, operands, target).emitLoopNest(scratch);
}

} // namespace tilewright::loop
