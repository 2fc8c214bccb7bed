//===- Tiles.cpp - loads, stores and reductions of tiles -------------------===//

#include "Tiles.h"
#include "Combiner.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;

namespace tilewright::interpret {

int64_t numberOf(Frame &frame, OpFoldResult value) {
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return *constant;
  return frame.integer(cast<Value>(value));
}

uint64_t loadElement(Frame &frame, Element element, uint64_t address) {
  uint64_t bits = frame.memory.load(address, element.bytes());
  return element.bits == 1 ? bits != 0 : bits;
}

Element elementOfBuffer(Value buffer) { return elementOf(cast<tile::BufferType>(buffer.getType()).getElementType()); }

namespace {

/// The shape of a tile; a scalar has none.
ArrayRef<int64_t> shapeOf(Type type) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.getShape();
  return {};
}

/// Where the elements of a tile are, in row-major order: fn(lane, index, whether it is valid).
template <typename Fn> void eachElement(Frame &frame, Type tile, ValueRange valid, Fn fn) {
  ArrayRef<int64_t> shape = shapeOf(tile);
  SmallVector<int64_t> index(shape.size(), 0), extents;
  for (Value extent : valid)
    extents.push_back(frame.integer(extent));
  const size_t count = laneCount(tile);
  for (size_t lane = 0; lane < count; ++lane) {
    bool isValid = true;
    for (size_t d = 0; d < extents.size(); ++d)
      isValid &= index[d] < extents[d];
    fn(lane, ArrayRef<int64_t>(index), isValid);
    for (size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];)
      index[d] = 0;
  }
}

/// Element numbers of a load or store.
template <typename Op> auto byStrides(Frame &frame, Op op) {
  SmallVector<int64_t> strides;
  for (OpFoldResult stride : op.getMixedStrides())
    strides.push_back(numberOf(frame, stride));
  return [strides, offset = frame.integer(op.getOffset())](size_t, ArrayRef<int64_t> index) {
    int64_t at = offset;
    for (size_t d = 0; d < index.size(); ++d)
      at += strides[d] * index[d];
    return at;
  };
}

/// Element numbers of a gather or scatter.
template <typename Op> auto byIndices(Frame &frame, Op op) {
  Lanes indices = frame.get(op.getIndices());
  const unsigned bits = elementOf(op.getIndices().getType()).bits;
  return [indices, bits, stride = numberOf(frame, op.getMixedStride()), offset = frame.integer(op.getOffset())](
             size_t lane, ArrayRef<int64_t>) { return offset + signedOf(indices[lane], bits) * stride; };
}

template <typename Op, typename Where> void loadTile(Frame &frame, Op op, Where where) {
  const Element element = elementOfBuffer(op.getBuffer());
  const uint64_t base = frame.scalar(op.getBuffer());
  uint64_t fill = op.getFill() ? decode(*op.getFill(), op.getFill()->getType())[0] : 0;
  Type type = op->getResult(0).getType();
  Lanes lanes(laneCount(type));
  eachElement(frame, type, op.getValid(), [&](size_t lane, ArrayRef<int64_t> index, bool valid) {
    lanes[lane] = valid ? loadElement(frame, element, base + where(lane, index) * element.bytes()) : fill;
  });
  frame.set(op->getResult(0), std::move(lanes));
}

template <typename Op, typename Where> void storeTile(Frame &frame, Op op, Where where) {
  const Element element = elementOfBuffer(op.getBuffer());
  const uint64_t base = frame.scalar(op.getBuffer());
  const Lanes &lanes = frame.get(op.getValue());
  eachElement(frame, op.getValue().getType(), op.getValid(), [&](size_t lane, ArrayRef<int64_t> index, bool valid) {
    if (valid)
      frame.memory.store(base + where(lane, index) * element.bytes(), element.bytes(), lanes[lane]);
  });
}

/// What is in memory and what comes to it, added.
class Addition {
public:
  Addition(Frame &frame, Value buffer)
      : frame(frame), element(elementOfBuffer(buffer)), base(frame.scalar(buffer)),
        add(frame, element.isFloat() ? "arith.addf" : "arith.addi",
            cast<tile::BufferType>(buffer.getType()).getElementType()) {}
  void operator()(int64_t position, uint64_t value) {
    uint64_t address = base + position * element.bytes();
    frame.memory.store(address, element.bytes(), add(loadElement(frame, element, address), value));
  }

private:
  Frame &frame;
  Element element;
  uint64_t base;
  Combiner add;
};

void scatterAdding(Frame &frame, tile::ScatterOp op) {
  Addition add(frame, op.getBuffer());
  auto where = byIndices(frame, op);
  Lanes lanes = frame.get(op.getValue());
  eachElement(frame, op.getValue().getType(), op.getValid(), [&](size_t lane, ArrayRef<int64_t> index, bool valid) {
    if (valid)
      add(where(lane, index), lanes[lane]);
  });
}

void checkIndex(Frame &frame, Operation *op) {
  auto check = cast<tile::CheckIndexOp>(op);
  const unsigned bits = elementOf(check.getType()).bits;
  const int64_t bound = frame.integer(check.getBound());
  Lanes lanes = frame.get(check.getIndex());
  eachElement(frame, check.getType(), check.getValid(), [&](size_t lane, ArrayRef<int64_t>, bool valid) {
    int64_t index = signedOf(lanes[lane], bits);
    if (valid && (index < 0 || index >= bound))
      frame.machine.recordError(check.getSite(), index, bound);
    if (!valid)
      lanes[lane] = 0;
  });
  frame.set(check.getResult(), std::move(lanes));
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// The operation that combines two elements; its semantics stand in one place, the table.
const char *combination(tile::ReduceKind kind, bool isFloat) {
  switch (kind) {
  case tile::ReduceKind::Add:
    return isFloat ? "arith.addf" : "arith.addi";
  case tile::ReduceKind::Mul:
    return isFloat ? "arith.mulf" : "arith.muli";
  case tile::ReduceKind::Max:
    return isFloat ? "arith.maximumf" : "arith.maxsi";
  case tile::ReduceKind::Min:
    return isFloat ? "arith.minimumf" : "arith.minsi";
  case tile::ReduceKind::MaxNum:
    return "arith.maxnumf";
  case tile::ReduceKind::MinNum:
    return "arith.minnumf";
  case tile::ReduceKind::UMax:
    return "arith.maxui";
  case tile::ReduceKind::UMin:
    return "arith.minui";
  case tile::ReduceKind::And:
    return "arith.andi";
  case tile::ReduceKind::Or:
    return "arith.ori";
  case tile::ReduceKind::Xor:
    return "arith.xori";
  }
  llvm_unreachable("a kind without a case");
}

/// A balanced tree: element i with element i + n/2, the count rounded up to a power of two with identities.
void reduce(Frame &frame, Operation *op) {
  auto reduction = cast<tile::ReduceOp>(op);
  Type scalar = reduction.getResult().getType();
  const uint64_t identity = decode(tile::identityOf(reduction.getKind(), scalar), scalar)[0];
  Lanes lanes = frame.get(reduction.getSource());
  eachElement(frame, reduction.getSource().getType(), reduction.getValid(),
              [&](size_t lane, ArrayRef<int64_t>, bool valid) { lanes[lane] = valid ? lanes[lane] : identity; });
  if (frame.machine.options.freedom.sums && isa<FloatType>(scalar))
    for (size_t i = lanes.size(); i-- > 1;)
      std::swap(lanes[i], lanes[frame.machine.pick(0, static_cast<int64_t>(i))]);
  lanes.resize(llvm::PowerOf2Ceil(lanes.size()), identity);
  Combiner combiner(frame, combination(reduction.getKind(), isa<FloatType>(scalar)), scalar);
  for (size_t half = lanes.size() / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i)
      lanes[i] = combiner(lanes[i], lanes[i + half]);
  frame.set(reduction.getResult(), lanes[0]);
}

void iota(Frame &frame, Operation *op) {
  auto type = cast<ShapedType>(op->getResult(0).getType());
  Lanes lanes(laneCount(type));
  for (size_t i = 0; i < lanes.size(); ++i)
    lanes[i] = i % type.getShape().back();
  frame.set(op->getResult(0), std::move(lanes));
}

} // namespace

void addTiles(Table &table) {
  table["tile.load"] = [](Frame &frame, Operation *op) {
    auto load = cast<tile::LoadOp>(op);
    loadTile(frame, load, byStrides(frame, load));
  };
  table["tile.store"] = [](Frame &frame, Operation *op) {
    auto store = cast<tile::StoreOp>(op);
    const size_t bytes = elementOfBuffer(store.getBuffer()).bytes();
    if (store.getStreaming() && (frame.scalar(store.getBuffer()) + frame.integer(store.getOffset()) * bytes) % 64)
      throw Fault("writes past the caches at an address that is no multiple of 64");
    storeTile(frame, store, byStrides(frame, store));
  };
  table["tile.gather"] = [](Frame &frame, Operation *op) {
    auto gather = cast<tile::GatherOp>(op);
    loadTile(frame, gather, byIndices(frame, gather));
  };
  table["tile.scatter"] = [](Frame &frame, Operation *op) {
    auto scatter = cast<tile::ScatterOp>(op);
    if (scatter.getAtomic())
      scatterAdding(frame, scatter);
    else
      storeTile(frame, scatter, byIndices(frame, scatter));
  };
  table["tile.atomic_add"] = [](Frame &frame, Operation *op) {
    auto add = cast<tile::AtomicAddOp>(op);
    Addition(frame, add.getBuffer())(frame.integer(add.getOffset()), frame.scalar(add.getValue()));
  };
  table["tile.check_index"] = checkIndex;
  table["tile.reduce"] = reduce;
  table["tile.iota"] = iota;
  table["tile.scratch"] = [](Frame &frame, Operation *op) {
    auto scratch = cast<tile::ScratchOp>(op);
    frame.set(scratch.getResult(), reinterpret_cast<uint64_t>(frame.machine.call.context->scratch) +
                                       static_cast<uint64_t>(frame.integer(scratch.getByteOffset())));
  };
  table["tile.address"] = [](Frame &frame, Operation *op) {
    frame.set(op->getResult(0), frame.scalar(op->getOperand(0)));
  };
  table["tile.misalignment"] = [](Frame &frame, Operation *op) {
    auto misalignment = cast<tile::MisalignmentOp>(op);
    const size_t bytes = elementOfBuffer(misalignment.getBuffer()).bytes();
    frame.set(misalignment.getResult(),
              (frame.scalar(misalignment.getBuffer()) + frame.integer(misalignment.getOffset()) * bytes) % 64);
  };
}

} // namespace tilewright::interpret
