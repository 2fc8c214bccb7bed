//===- Machine.cpp - memory, values and how a kernel is run ----------------===//

#include "Machine.h"

#include "tilewright/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/SymbolTable.h"

#include <cstring>

using namespace mlir;

namespace tilewright::interpret {

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void Memory::allow(const void *data, size_t bytes) {
  if (!bytes)
    return;
  size_t &extent = extents[reinterpret_cast<uint64_t>(data)];
  extent = std::max(extent, bytes);
}

void Memory::forbid(const void *data) { extents.erase(reinterpret_cast<uint64_t>(data)); }

char *Memory::at(uint64_t address, size_t bytes, const char *verb) const {
  if (address % bytes)
    throw Fault(std::string(verb) + " " + std::to_string(bytes) + " bytes at an address that is no multiple of " +
                std::to_string(bytes));
  auto after = extents.upper_bound(address);
  if (after != extents.begin()) {
    auto [start, size] = *std::prev(after);
    if (address - start + bytes <= size)
      return reinterpret_cast<char *>(address);
  }
  std::string text = std::string(verb) + " " + std::to_string(bytes) + " bytes outside of the kernel's memory";
  if (after != extents.begin()) {
    auto [start, size] = *std::prev(after);
    text += ", " + std::to_string(address - start) + " bytes after the start of a buffer of " + std::to_string(size);
  }
  throw Fault(text);
}

uint64_t Memory::load(uint64_t address, size_t bytes) const {
  uint64_t value = 0;
  std::memcpy(&value, at(address, bytes, "reads"), bytes);
  return value;
}

void Memory::store(uint64_t address, size_t bytes, uint64_t value) {
  std::memcpy(at(address, bytes, "writes"), &value, bytes);
}

//===----------------------------------------------------------------------===//
// Frame
//===----------------------------------------------------------------------===//

Frame::~Frame() {
  for (auto &[owner, data] : allocations)
    memory.forbid(data);
}

uint64_t Frame::allocate(size_t bytes) {
  constexpr size_t kAlignment = 64;
  auto owner = std::make_unique<char[]>(bytes + kAlignment);
  std::memset(owner.get(), 0xff, bytes + kAlignment);
  uint64_t address = (reinterpret_cast<uint64_t>(owner.get()) + kAlignment - 1) / kAlignment * kAlignment;
  allocations.emplace_back(std::move(owner), reinterpret_cast<void *>(address));
  memory.allow(allocations.back().second, bytes);
  return address;
}

const Lanes &Frame::get(Value value) const {
  auto found = values.find(value);
  if (found == values.end())
    throw Unknown("an operand has no value");
  return found->second;
}

int64_t Frame::integer(Value value) const { return signedOf(scalar(value), elementOf(value.getType()).bits); }

Operation *Frame::runBlock(Block &block) {
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      return &op;
    execute(&op);
  }
  return nullptr;
}

namespace {

/// The text of an error with the operation at which it happened; the innermost one is told.
constexpr char kPlace[] = "\n  at ";

std::string placed(const char *text, Operation *op) {
  if (std::strstr(text, kPlace))
    return text;
  std::string result = text;
  llvm::raw_string_ostream out(result);
  out << kPlace;
  op->print(out, OpPrintingFlags().skipRegions().useLocalScope());
  return result;
}

} // namespace

void Frame::execute(Operation *op) {
  if (++machine.operations > machine.options.mostOperations)
    throw Fault("has executed " + std::to_string(machine.operations) + " operations, and no end is in sight");
  try {
    machine.handlerOf(op)(*this, op);
  } catch (const Fault &fault) {
    throw Fault(placed(fault.what(), op));
  } catch (const Unknown &unknown) {
    throw Unknown(placed(unknown.what(), op));
  }
}

//===----------------------------------------------------------------------===//
// Machine
//===----------------------------------------------------------------------===//

static const Table &table() {
  static const Table all = [] {
    Table result;
    for (auto add : {addIntegers, addFloats, addFunctions, addConversions, addVectors, addMemory, addControl, addCalls,
                     addTiles, addMatrices})
      add(result);
    return result;
  }();
  return all;
}

Machine::Machine(ModuleOp module, const Call &call, const Options &options)
    : module(module), call(call), options(options), random(options.freedom.seed) {
  for (const Extent &extent : call.memory)
    memory.allow(extent.data, extent.bytes);
  memory.allow(call.buffers.data(), call.buffers.size() * sizeof(void *));
  memory.allow(call.ints.data(), call.ints.size() * sizeof(int64_t));
  memory.allow(call.context, sizeof(KernelContext));
  memory.allow(call.context->scratch, call.scratchBytes);
}

const Handler &Machine::handlerOf(Operation *op) {
  const Handler *&handler = handlers[op->getName().getAsOpaquePointer()];
  if (!handler) {
    auto found = table().find(op->getName().getStringRef());
    if (found == table().end())
      throw Unknown("the interpreter does not know the operation " + op->getName().getStringRef().str());
    handler = &found->second;
  }
  return *handler;
}

const Lanes &Machine::constant(Operation *op, Attribute value) {
  auto found = constants.find(op);
  if (found == constants.end())
    found = constants.try_emplace(op, decode(value, op->getResult(0).getType())).first;
  return found->second;
}

void Machine::recordError(uint64_t site, int64_t index, int64_t bound) {
  call.context->errorCode = static_cast<int64_t>(site) + 1;
  call.context->errorIndex = index;
  call.context->errorBound = bound;
  throw Leave();
}

std::vector<Lanes> Machine::callFunction(Region &body, ArrayRef<Lanes> arguments) {
  Frame frame(*this);
  std::vector<Lanes> values(arguments.begin(), arguments.end());
  for (Block *block = &body.front();;) {
    for (auto [argument, value] : llvm::zip_equal(block->getArguments(), values))
      frame.set(argument, value);
    Operation *end = frame.runBlock(*block);
    ++operations;
    unsigned taken = 0;
    if (end->getNumSuccessors() == 2)
      taken = frame.scalar(end->getOperand(0)) ? 0 : 1;
    values.clear();
    if (end->getNumSuccessors() == 0) {
      for (Value operand : end->getOperands())
        values.push_back(frame.get(operand));
      return values;
    }
    auto branch = dyn_cast<BranchOpInterface>(end);
    if (!branch)
      throw Unknown("the interpreter does not know the branch " + end->getName().getStringRef().str());
    for (Value operand : branch.getSuccessorOperands(taken).getForwardedOperands())
      values.push_back(frame.get(operand));
    block = end->getSuccessor(taken);
  }
}

Outcome Machine::run(StringRef symbol) {
  Operation *root = SymbolTable::lookupSymbolIn(module, symbol);
  auto address = [](const void *pointer) { return Lanes(1, reinterpret_cast<uint64_t>(pointer)); };
  auto number = [](int64_t value) { return Lanes(1, static_cast<uint64_t>(value)); };
  try {
    if (auto kernel = dyn_cast_if_present<tile::KernelOp>(root)) {
      Frame frame(*this);
      if (kernel.getNumBuffers() != call.buffers.size() || kernel.getNumInts() != call.ints.size())
        throw Unknown("the kernel takes " + std::to_string(kernel.getNumBuffers()) + " buffers and " +
                      std::to_string(kernel.getNumInts()) + " integers, the call has others");
      for (size_t i = 0; i < call.buffers.size(); ++i)
        frame.set(kernel.getBuffer(i), address(call.buffers[i]));
      for (size_t i = 0; i < call.ints.size(); ++i)
        frame.set(kernel.getInt(i), number(call.ints[i]));
      frame.runBlock(kernel.getBlock()); // its last operation is the grid
      return {0, operations};
    }
    auto function = dyn_cast_if_present<FunctionOpInterface>(root);
    if (!function || function.isExternal())
      throw Unknown("the module has no kernel " + symbol.str());
    std::vector<Lanes> results =
        callFunction(function.getFunctionBody(), {address(call.buffers.data()), address(call.ints.data()),
                                                  number(call.begin), number(call.end), address(call.context)});
    return {static_cast<int64_t>(results.at(0).front()), operations};
  } catch (const Leave &) {
    return {1, operations};
  }
}

Outcome run(ModuleOp module, StringRef symbol, const Call &call, const Options &options) {
  return Machine(module, call, options).run(symbol);
}

} // namespace tilewright::interpret
