//===- Machine.h - memory, values and the table of operations -----*- C++ -*-===//
#pragma once

#include "Lanes.h"

#include "tilewright/Interpret/Interpret.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <functional>
#include <map>
#include <memory>
#include <random>

namespace tilewright::interpret {

/// Bytes at addresses, each checked to be the kernel's own.
class Memory {
public:
  void allow(const void *data, size_t bytes);
  void forbid(const void *data);
  /// Little-endian, at most 8 bytes. Throws Fault, also for an address that is no multiple of the element's size.
  uint64_t load(uint64_t address, size_t bytes) const;
  void store(uint64_t address, size_t bytes, uint64_t value);

private:
  char *at(uint64_t address, size_t bytes, const char *verb) const;
  std::map<uint64_t, size_t> extents; // by address
};

class Frame;
/// Executes one operation: reads its operands from the frame and sets its results there.
using Handler = std::function<void(Frame &, mlir::Operation *)>;
/// By the operation's name.
using Table = llvm::StringMap<Handler>;

/// How kernels end after an error of data, wherever they are.
struct Leave {};

class Machine {
public:
  Machine(mlir::ModuleOp module, const Call &call, const Options &options);

  Outcome run(llvm::StringRef symbol);
  /// The terminator's operands. Memory that the function allocates lives until it returns.
  std::vector<Lanes> callFunction(mlir::Region &body, llvm::ArrayRef<Lanes> arguments);
  const Handler &handlerOf(mlir::Operation *op);
  const Lanes &constant(mlir::Operation *op, mlir::Attribute value);
  void recordError(uint64_t site, int64_t index, int64_t bound);

  /// An integer in [low, high].
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }

  mlir::ModuleOp module;
  const Call &call;
  const Options &options;
  Memory memory;
  uint64_t operations = 0;

private:
  std::mt19937_64 random;
  llvm::DenseMap<void *, const Handler *> handlers; // by OperationName
  llvm::DenseMap<mlir::Operation *, Lanes> constants;
};

/// The values of one call of a function, or of the kernel.
class Frame {
public:
  explicit Frame(Machine &machine) : machine(machine), memory(machine.memory) {}
  ~Frame();

  const Lanes &get(mlir::Value value) const;
  uint64_t scalar(mlir::Value value) const { return get(value).front(); }
  int64_t integer(mlir::Value value) const;
  void set(mlir::Value value, Lanes lanes) { values[value] = std::move(lanes); }
  void set(mlir::Value value, uint64_t scalar) { values[value] = Lanes(1, scalar); }
  void forget(mlir::Value value) { values.erase(value); }

  /// Executes a block up to its terminator, which is returned; nullptr if it has none.
  mlir::Operation *runBlock(mlir::Block &block);
  /// Fresh memory, filled with ones: NaN in every float type.
  uint64_t allocate(size_t bytes);

  Machine &machine;
  Memory &memory;

private:
  void execute(mlir::Operation *op);
  llvm::DenseMap<mlir::Value, Lanes> values;
  std::vector<std::pair<std::unique_ptr<char[]>, void *>> allocations; // and the aligned address in it
};

// Each adds what it knows to the table.
void addIntegers(Table &table);
void addFloats(Table &table);
void addFunctions(Table &table);
void addConversions(Table &table);
void addVectors(Table &table);
void addMemory(Table &table);
void addControl(Table &table);
void addCalls(Table &table);
void addTiles(Table &table);
void addMatrices(Table &table);

} // namespace tilewright::interpret
