//===- Control.cpp - loops, conditions, the grid and how kernels end -------===//

#include "Elementwise.h"

#include "tilewright/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tilewright::interpret {

namespace {

std::vector<Lanes> valuesOf(Frame &frame, ValueRange values) {
  std::vector<Lanes> lanes;
  for (Value value : values)
    lanes.push_back(frame.get(value));
  return lanes;
}

void assign(Frame &frame, ValueRange targets, const std::vector<Lanes> &values) {
  for (auto [target, lanes] : llvm::zip_equal(targets, values))
    frame.set(target, lanes);
}

void forLoop(Frame &frame, Operation *op) {
  auto loop = cast<scf::ForOp>(op);
  const int64_t end = frame.integer(loop.getUpperBound()), step = frame.integer(loop.getStep());
  if (step <= 0)
    throw Fault("has the step " + std::to_string(step));
  std::vector<Lanes> carried = valuesOf(frame, loop.getInitArgs());
  for (int64_t i = frame.integer(loop.getLowerBound()); i < end; i += step) {
    frame.set(loop.getInductionVar(), static_cast<uint64_t>(i));
    assign(frame, loop.getRegionIterArgs(), carried);
    ++frame.machine.operations;
    carried = valuesOf(frame, frame.runBlock(*loop.getBody())->getOperands());
  }
  assign(frame, loop.getResults(), carried);
}

void condition(Frame &frame, Operation *op) {
  auto choice = cast<scf::IfOp>(op);
  Region &region = frame.scalar(choice.getCondition()) ? choice.getThenRegion() : choice.getElseRegion();
  if (region.empty())
    return;
  Operation *end = frame.runBlock(region.front());
  assign(frame, op->getResults(), valuesOf(frame, end->getOperands()));
}

void whileLoop(Frame &frame, Operation *op) {
  auto loop = cast<scf::WhileOp>(op);
  std::vector<Lanes> carried = valuesOf(frame, loop.getInits());
  for (;;) {
    assign(frame, loop.getBeforeArguments(), carried);
    auto end = cast<scf::ConditionOp>(frame.runBlock(*loop.getBeforeBody()));
    carried = valuesOf(frame, end.getArgs());
    if (!frame.scalar(end.getCondition()))
      break;
    assign(frame, loop.getAfterArguments(), carried);
    if (++frame.machine.operations > frame.machine.options.mostOperations)
      throw Fault("does not come to an end");
    carried = valuesOf(frame, frame.runBlock(*loop.getAfterBody())->getOperands());
  }
  assign(frame, loop.getResults(), carried);
}

/// Points [begin, end) of the call; the last dimension varies fastest.
void grid(Frame &frame, Operation *op) {
  auto grid = cast<tile::GridOp>(op);
  for (int64_t point = frame.machine.call.begin; point < frame.machine.call.end; ++point) {
    int64_t rest = point;
    for (size_t d = grid.getSizes().size(); d-- > 0;) {
      int64_t size = frame.integer(grid.getSizes()[d]);
      if (size <= 0)
        throw Fault("has a point " + std::to_string(point) + " where a dimension has size " + std::to_string(size));
      frame.set(grid.getIndices()[d], static_cast<uint64_t>(rest % size));
      rest /= size;
    }
    if (rest)
      throw Fault("has no point " + std::to_string(point));
    frame.runBlock(grid.getBlock());
  }
}

} // namespace

void addControl(Table &table) {
  table["scf.for"] = forLoop;
  table["scf.if"] = condition;
  table["scf.while"] = whileLoop;
  table["tile.grid"] = grid;
  table["tile.leave"] = [](Frame &, Operation *) { throw Leave(); };
  table["tile.record_error"] = [](Frame &frame, Operation *op) {
    auto error = cast<tile::RecordErrorOp>(op);
    frame.machine.recordError(error.getSite(), frame.integer(error.getIndex()), frame.integer(error.getBound()));
  };
}

} // namespace tilewright::interpret
