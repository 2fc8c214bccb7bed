//===- MemoryOps.cpp - loads, stores and addresses of the LLVM dialect -----===//

#include "Combiner.h"
#include "Elementwise.h"

#include "tilewright/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tilewright::interpret {

namespace {

/// base + index * size of the element, for one index; each may be a vector.
void elementPointer(Frame &frame, Operation *op) {
  auto gep = cast<LLVM::GEPOp>(op);
  if (gep.getRawConstantIndices().size() != 1)
    throw Unknown("the interpreter knows addresses with one index only");
  const int64_t size = elementOf(gep.getElemType()).bytes() * laneCount(gep.getElemType());
  const Lanes &base = frame.get(gep.getBase());
  Lanes index(1, static_cast<uint64_t>(int64_t(gep.getRawConstantIndices()[0])));
  if (!gep.getDynamicIndices().empty()) {
    Value dynamic = gep.getDynamicIndices()[0];
    index = frame.get(dynamic);
    for (uint64_t &lane : index)
      lane = static_cast<uint64_t>(signedOf(lane, elementOf(dynamic.getType()).bits));
  }
  Lanes result(laneCount(op->getResult(0).getType()));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = base[base.size() == 1 ? 0 : i] + index[index.size() == 1 ? 0 : i] * size;
  frame.set(op->getResult(0), std::move(result));
}

void checkAlignment(uint64_t address, uint64_t alignment) {
  if (alignment && address % alignment)
    throw Fault("is at an address that is no multiple of " + std::to_string(alignment));
}

void load(Frame &frame, Operation *op) {
  auto load = cast<LLVM::LoadOp>(op);
  const Element element = elementOf(load.getType());
  const uint64_t address = frame.scalar(load.getAddr());
  checkAlignment(address, load.getAlignment().value_or(0));
  Lanes lanes(laneCount(load.getType()));
  for (size_t i = 0; i < lanes.size(); ++i)
    lanes[i] = cut(frame.memory.load(address + i * element.bytes(), element.bytes()), element.bits);
  frame.set(load.getResult(), std::move(lanes));
}

void store(Frame &frame, Operation *op) {
  auto store = cast<LLVM::StoreOp>(op);
  const size_t bytes = elementOf(store.getValue().getType()).bytes();
  const uint64_t address = frame.scalar(store.getAddr());
  checkAlignment(address, store.getAlignment().value_or(0));
  const Lanes &lanes = frame.get(store.getValue());
  for (size_t i = 0; i < lanes.size(); ++i)
    frame.memory.store(address + i * bytes, bytes, lanes[i]);
}

void atomicAdd(Frame &frame, Operation *op) {
  auto atomic = cast<LLVM::AtomicRMWOp>(op);
  if (atomic.getBinOp() != LLVM::AtomicBinOp::add && atomic.getBinOp() != LLVM::AtomicBinOp::fadd)
    throw Unknown("the interpreter knows atomic additions only");
  Type type = atomic.getVal().getType();
  const size_t bytes = elementOf(type).bytes();
  const uint64_t address = frame.scalar(atomic.getPtr()), before = frame.memory.load(address, bytes);
  Combiner add(frame, isa<FloatType>(type) ? "arith.addf" : "arith.addi", type);
  frame.memory.store(address, bytes, add(before, frame.scalar(atomic.getVal())));
  frame.set(atomic.getRes(), before);
}

/// Lanes that are on; `addressOf(i)` says where lane i is.
template <typename Fn> void loadMasked(Frame &frame, Operation *op, Value mask, ValueRange passThrough, Fn addressOf) {
  Type type = op->getResult(0).getType();
  const Element element = elementOf(type);
  const Lanes &on = frame.get(mask);
  Lanes lanes = passThrough.empty() ? Lanes(laneCount(type), 0) : frame.get(passThrough[0]);
  for (size_t i = 0; i < lanes.size(); ++i)
    if (on[i])
      lanes[i] = cut(frame.memory.load(addressOf(i), element.bytes()), element.bits);
  frame.set(op->getResult(0), std::move(lanes));
}

template <typename Fn> void storeMasked(Frame &frame, Value value, Value mask, Fn addressOf) {
  const size_t bytes = elementOf(value.getType()).bytes();
  const Lanes &lanes = frame.get(value), &on = frame.get(mask);
  for (size_t i = 0; i < lanes.size(); ++i)
    if (on[i])
      frame.memory.store(addressOf(i), bytes, lanes[i]);
}

} // namespace

void addMemory(Table &table) {
  table["llvm.getelementptr"] = elementPointer;
  table["llvm.load"] = load;
  table["llvm.store"] = store;
  table["llvm.alloca"] = [](Frame &frame, Operation *op) {
    auto alloca = cast<LLVM::AllocaOp>(op);
    size_t bytes = elementOf(alloca.getElemType()).bytes() * laneCount(alloca.getElemType());
    frame.set(alloca.getResult(), frame.allocate(frame.integer(alloca.getArraySize()) * bytes));
  };
  table["llvm.atomicrmw"] = atomicAdd;
  table["llvm.intr.prefetch"] = [](Frame &, Operation *) {};
  table["llvm.intr.masked.load"] = [](Frame &frame, Operation *op) {
    auto load = cast<LLVM::MaskedLoadOp>(op);
    const uint64_t start = frame.scalar(load.getData()), bytes = elementOf(load.getType()).bytes();
    loadMasked(frame, op, load.getMask(), load.getPassThru(), [&](size_t i) { return start + i * bytes; });
  };
  table["llvm.intr.masked.store"] = [](Frame &frame, Operation *op) {
    auto store = cast<LLVM::MaskedStoreOp>(op);
    const uint64_t start = frame.scalar(store.getData()), bytes = elementOf(store.getValue().getType()).bytes();
    storeMasked(frame, store.getValue(), store.getMask(), [&](size_t i) { return start + i * bytes; });
  };
  table["llvm.intr.masked.gather"] = [](Frame &frame, Operation *op) {
    auto gather = cast<LLVM::masked_gather>(op);
    const Lanes &addresses = frame.get(gather.getPtrs());
    loadMasked(frame, op, gather.getMask(), gather.getPassThru(), [&](size_t i) { return addresses[i]; });
  };
  table["llvm.intr.masked.scatter"] = [](Frame &frame, Operation *op) {
    auto scatter = cast<LLVM::masked_scatter>(op);
    const Lanes &addresses = frame.get(scatter.getPtrs());
    storeMasked(frame, scatter.getValue(), scatter.getMask(), [&](size_t i) { return addresses[i]; });
  };
}

} // namespace tilewright::interpret
