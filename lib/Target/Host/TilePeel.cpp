//===- TilePeel.cpp - whole tiles without masks, then the rest ---------------------------------------------------===//

#include "tilewright/Target/Host/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace tilewright::host {

/// Valid extents of an operation with the shape of the tile they belong to.
static std::pair<MutableOperandRange, RankedTensorType> validOf(Operation *op) {
  auto tileOf = [](Type type) { return dyn_cast<RankedTensorType>(type); };
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return {load.getValidMutable(), tileOf(load.getType())};
  if (auto store = dyn_cast<tile::StoreOp>(op))
    return {store.getValidMutable(), tileOf(store.getValue().getType())};
  if (auto gather = dyn_cast<tile::GatherOp>(op))
    return {gather.getValidMutable(), gather.getType()};
  if (auto scatter = dyn_cast<tile::ScatterOp>(op))
    return {scatter.getValidMutable(), scatter.getValue().getType()};
  if (auto check = dyn_cast<tile::CheckIndexOp>(op))
    return {check.getValidMutable(), tileOf(check.getType())};
  if (auto reduce = dyn_cast<tile::ReduceOp>(op))
    return {reduce.getValidMutable(), reduce.getSource().getType()};
  return {MutableOperandRange(op, 0, 0), {}};
}

/// `bound - index` of this loop, computed in its body, where it serves as valid extent of tiles that a step holds.
/// Other uses of the value do not stand in the way: only valid extents are replaced.
static SmallVector<arith::SubIOp> remainders(scf::ForOp loop, int64_t step) {
  SmallVector<arith::SubIOp> found;
  for (auto left : loop.getBody()->getOps<arith::SubIOp>())
    if (left.getLhs() == loop.getUpperBound() && left.getRhs() == loop.getInductionVar())
      found.push_back(left);
  auto used = [&](arith::SubIOp left) {
    return llvm::any_of(left->getUsers(), [&](Operation *user) {
      auto [valid, tile] = validOf(user);
      for (auto [d, extent] : llvm::enumerate(OperandRange(valid)))
        if (extent == left.getResult() && tile.getShape()[d] <= step)
          return true;
      return false;
    });
  };
  llvm::erase_if(found, [&](arith::SubIOp left) { return !used(left); });
  return found;
}

/// A loop that starts where another one of the same block ended handles the rest already.
static bool isTail(scf::ForOp loop) {
  return llvm::any_of(loop.getLowerBound().getUsers(), [&](Operation *user) {
    auto other = dyn_cast<scf::ForOp>(user);
    return other && other != loop && other->getBlock() == loop->getBlock() &&
           other.getUpperBound() == loop.getLowerBound();
  });
}

static void dropValid(arith::SubIOp left, int64_t step) {
  OpBuilder b(left);
  Value whole = b.create<arith::ConstantIndexOp>(left.getLoc(), step);
  for (Operation *user : llvm::make_early_inc_range(left->getUsers())) {
    auto [valid, tile] = validOf(user);
    if (valid.empty())
      continue;
    bool all = true;
    for (unsigned d = 0; d < valid.size(); ++d) {
      int64_t size = tile.getShape()[d];
      if (valid[d].get() == left.getResult() && size <= step)
        valid[d].set(whole);
      std::optional<int64_t> extent = getConstantIntValue(valid[d].get());
      all &= extent && *extent >= size;
    }
    if (!all)
      continue;
    valid.clear();
    // Without a valid extent nothing is filled.
    if (auto load = dyn_cast<tile::LoadOp>(user))
      load.removeFillAttr();
    if (auto gather = dyn_cast<tile::GatherOp>(user))
      gather.removeFillAttr();
  }
}

static void peel(scf::ForOp loop, int64_t step) {
  ImplicitLocOpBuilder b(loop.getLoc(), loop);
  Value length = b.create<arith::SubIOp>(loop.getUpperBound(), loop.getLowerBound());
  Value wholes = b.create<arith::MulIOp>(b.create<arith::DivSIOp>(length, loop.getStep()), loop.getStep());
  Value end = b.create<arith::AddIOp>(loop.getLowerBound(), wholes);
  Value bound = loop.getUpperBound();

  b.setInsertionPointAfter(loop);
  Value rest = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, end, bound);
  auto tail = b.create<scf::IfOp>(loop.getResultTypes(), rest, /*withElseRegion=*/loop.getNumResults() != 0);
  IRMapping map;
  map.map(loop.getInductionVar(), end);
  map.map(loop.getRegionIterArgs(), loop.getResults());
  Block *then = tail.thenBlock();
  if (!then->empty())
    then->getTerminator()->erase();
  b.setInsertionPointToEnd(then);
  for (Operation &op : *loop.getBody())
    b.clone(op, map);
  loop->getResults().replaceUsesWithIf(tail.getResults(),
                                       [&](OpOperand &use) { return !tail->isAncestor(use.getOwner()); });
  if (loop.getNumResults() != 0) {
    b.setInsertionPointToEnd(tail.elseBlock());
    b.create<scf::YieldOp>(loop.getResults());
  }
  for (arith::SubIOp left : remainders(loop, step))
    dropValid(left, step);
  loop.setUpperBound(end);
}

void peelTails(tile::KernelOp kernel) {
  SmallVector<std::pair<scf::ForOp, int64_t>> loops;
  kernel->walk([&](scf::ForOp loop) {
    std::optional<int64_t> step = getConstantIntValue(loop.getStep());
    // Only innermost loops: a copied loop would be peeled in both copies.
    bool inner = !loop.getBody()
                      ->walk([](Operation *op) {
                        return isa<scf::ForOp, scf::WhileOp, tile::ContractOp>(op) ? WalkResult::interrupt()
                                                                                   : WalkResult::advance();
                      })
                      .wasInterrupted();
    if (step && *step > 1 && inner && !isTail(loop) && !remainders(loop, *step).empty())
      loops.emplace_back(loop, *step);
  });
  for (auto [loop, step] : loops)
    peel(loop, step);
}

} // namespace tilewright::host
