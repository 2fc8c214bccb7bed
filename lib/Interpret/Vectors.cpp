//===- Vectors.cpp - elements of vectors -----------------------------------===//

#include "Elementwise.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tilewright::interpret {

namespace {

void splat(Frame &frame, Operation *op) {
  Value result = op->getResult(0);
  frame.set(result, Lanes(laneCount(result.getType()), frame.scalar(op->getOperand(0))));
}

void extractAt(Frame &frame, Operation *op, Value vector, int64_t position) {
  const Lanes &lanes = frame.get(vector);
  if (position < 0 || position >= static_cast<int64_t>(lanes.size()))
    throw Fault("takes element " + std::to_string(position) + " of a vector of " + std::to_string(lanes.size()));
  frame.set(op->getResult(0), lanes[position]);
}

void insertAt(Frame &frame, Operation *op, Value vector, Value element, int64_t position) {
  Lanes lanes = frame.get(vector);
  if (position < 0 || position >= static_cast<int64_t>(lanes.size()))
    throw Fault("sets element " + std::to_string(position) + " of a vector of " + std::to_string(lanes.size()));
  lanes[position] = frame.scalar(element);
  frame.set(op->getResult(0), std::move(lanes));
}

/// The one position of an operation on vectors of rank 1, static or not.
template <typename Op> int64_t positionOf(Frame &frame, Op op) {
  ArrayRef<int64_t> position = op.getStaticPosition();
  if (position.size() != 1)
    throw Unknown("the interpreter knows single elements of vectors of rank 1 only");
  return ShapedType::isDynamic(position[0]) ? frame.integer(op.getDynamicPosition()[0]) : position[0];
}

template <typename Mask> void shuffle(Frame &frame, Operation *op, const Mask &mask) {
  const Lanes &x = frame.get(op->getOperand(0)), &y = frame.get(op->getOperand(1));
  Lanes result;
  for (int64_t lane : mask)
    result.push_back(lane < 0 ? 0 : lane < static_cast<int64_t>(x.size()) ? x[lane] : y[lane - x.size()]);
  frame.set(op->getResult(0), std::move(result));
}

} // namespace

void addVectors(Table &table) {
  add(table, {"vector.splat", "vector.broadcast", "tile.splat"}, splat);
  table["vector.extract"] = [](Frame &frame, Operation *op) {
    auto extract = cast<vector::ExtractOp>(op);
    extractAt(frame, op, extract.getVector(), positionOf(frame, extract));
  };
  table["vector.insert"] = [](Frame &frame, Operation *op) {
    auto insert = cast<vector::InsertOp>(op);
    insertAt(frame, op, insert.getDest(), insert.getSource(), positionOf(frame, insert));
  };
  table["vector.extractelement"] = [](Frame &frame, Operation *op) {
    auto extract = cast<vector::ExtractElementOp>(op);
    extractAt(frame, op, extract.getVector(), frame.integer(extract.getPosition()));
  };
  table["vector.insertelement"] = [](Frame &frame, Operation *op) {
    auto insert = cast<vector::InsertElementOp>(op);
    insertAt(frame, op, insert.getDest(), insert.getSource(), frame.integer(insert.getPosition()));
  };
  table["llvm.extractelement"] = [](Frame &frame, Operation *op) {
    auto extract = cast<LLVM::ExtractElementOp>(op);
    extractAt(frame, op, extract.getVector(), frame.integer(extract.getPosition()));
  };
  table["llvm.insertelement"] = [](Frame &frame, Operation *op) {
    auto insert = cast<LLVM::InsertElementOp>(op);
    insertAt(frame, op, insert.getVector(), insert.getValue(), frame.integer(insert.getPosition()));
  };
  table["vector.shuffle"] = [](Frame &frame, Operation *op) {
    SmallVector<int64_t> mask;
    for (Attribute lane : cast<vector::ShuffleOp>(op).getMask())
      mask.push_back(cast<IntegerAttr>(lane).getInt());
    shuffle(frame, op, mask);
  };
  table["llvm.shufflevector"] = [](Frame &frame, Operation *op) {
    shuffle(frame, op, cast<LLVM::ShuffleVectorOp>(op).getMask());
  };
}

} // namespace tilewright::interpret
