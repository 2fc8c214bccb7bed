//===- ExprEmitter.h - scalar expressions as arith and math on tiles -*- C++ -*-===//
//
// Private to lib/Transforms. Emits an expression at the builder's insertion point, as a scalar where it does not depend
// on the vector dimension and as a tile of the current width where it does.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Dialect/Tile/IR/TileDialect.h"
#include "tilewright/Transforms/Emit.h"

#include <map>

namespace tilewright::loop {

/// Where an expression's buffers, sizes and error sites are found in the kernel that is being emitted.
class KernelOperands {
public:
  virtual ~KernelOperands() = default;
  virtual mlir::Value buffer(BufferId id) = 0;
  virtual mlir::Value size(mlir::OpBuilder &b, mlir::Location loc, const SizeExpr &value) = 0; // index type
  virtual int64_t site(unsigned moduleSite) = 0;
};

/// Arguments in the order of a key.
class KeyOperands : public KernelOperands {
public:
  KeyOperands(const KernelKey &key, mlir::Block &kernel);
  mlir::Value buffer(BufferId id) override;
  mlir::Value size(mlir::OpBuilder &b, mlir::Location loc, const SizeExpr &value) override;
  int64_t site(unsigned moduleSite) override { return key.site(moduleSite); }

private:
  const KernelKey &key;
  std::vector<mlir::Value> buffers, ints;
};

/// A module with one kernel of the key's arguments, the builder standing in it.
mlir::OwningOpRef<mlir::ModuleOp> startKernel(mlir::OpBuilder &builder, mlir::Location loc, const KernelKey &key,
                                              llvm::StringRef name);
mlir::Type elementType(mlir::OpBuilder &b, DType type);

class ExprEmitter {
public:
  ExprEmitter(mlir::OpBuilder &builder, mlir::Location loc, KernelOperands &operands)
      : b(builder), loc(loc), operands(operands) {}

  mlir::OpBuilder &b;
  mlir::Location loc;
  KernelOperands &operands;

  // The current point.
  std::vector<mlir::Value> index; // per domain dimension, of index type; the vector dimension: of its first element
  int vectorDim = -1;
  unsigned width = 0;      // elements of a tile; 0: no vector dimension is open
  mlir::Value valid;       // valid extent of tiles, or null: all
  mlir::Value accumulator; // a contraction's sum
  /// Asked before a load is emitted: a value that is at hand, or null.
  std::function<mlir::Value(ExprRef)> atHand;

  mlir::Type elementType(DType type) { return loop::elementType(b, type); }
  mlir::Type tileType(DType type) { return mlir::RankedTensorType::get({int64_t(width)}, elementType(type)); }

  mlir::Value constantIndex(int64_t value);
  mlir::Value sizeValue(const SizeExpr &value); // index type
  mlir::Value constant(DType type, double floatValue, int64_t intValue, bool tile);
  mlir::Value splat(mlir::Value value); // of the current width; tiles pass
  /// True if the value of e differs along the vector dimension.
  bool varies(ExprRef e);
  bool varies(const Access &access);
  /// True if e depends on any of the dimensions in the bit mask.
  bool dependsOn(ExprRef e, uint64_t dims);

  mlir::Value emit(ExprRef e);
  /// Emits now what in e does not depend on `dims`, so that it is computed outside of the loops over these.
  void hoist(ExprRef e, uint64_t dims);
  void store(const Access &access, mlir::Value value, DType type, bool streaming = false);
  /// Stores, or adds where the store says so, at every point of the current vector.
  void store(const Store &store, mlir::Value value, bool streaming = false);
  mlir::Value offsetOf(const Access &access); // without the vector dimension's own step

  mlir::Value combine(ReduceKind kind, DType type, mlir::Value x, mlir::Value y);
  mlir::Value identity(ReduceKind kind, DType type, bool tile);

  /// Values emitted inside a scope are forgotten at its end (they would not dominate what follows).
  struct Scope {
    explicit Scope(ExprEmitter &e) : e(e) { e.scopes.emplace_back(); }
    ~Scope() { e.scopes.pop_back(); }
    ExprEmitter &e;
  };

private:
  std::vector<std::map<ExprRef, mlir::Value>> scopes{1};
  std::map<ExprRef, uint64_t> dimsOf; // memo of dependence

  uint64_t dims(ExprRef e);
  mlir::Value lookup(ExprRef e);
  mlir::Value emitLoad(const Access &access, DType type);
  mlir::Value emitOp(ExprRef e, llvm::ArrayRef<mlir::Value> x, bool tile);
  mlir::Value emitCast(mlir::Value x, DType from, DType to);
  mlir::Value emitIntegerDivision(ScalarOp op, DType type, mlir::Value x, mlir::Value y);
  mlir::Value emitFloatModulo(ScalarOp op, DType type, mlir::Value x, mlir::Value y);
  mlir::Value like(mlir::Value shape, double floatValue, int64_t intValue);
};

} // namespace tilewright::loop
