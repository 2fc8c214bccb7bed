//===- ContractEmit.h - writing loops in the LLVM dialect ----------*- C++ -*-===//
//
// The matrix kernels are functions of the LLVM dialect: pointers, byte strides and 64-bit integers. They need no
// conversion, which halves the time to build them, and nothing between here and the machine code rearranges them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

#include <functional>

namespace tilewright::host {

/// An insertion point with short names for what the kernels consist of. Integers are i64, offsets and strides are
/// bytes.
class Emitter {
public:
  using Value = mlir::Value;
  using Type = mlir::Type;
  using ValueRange = mlir::ValueRange;
  using Values = llvm::SmallVector<Value>;
  using Predicate = mlir::LLVM::ICmpPredicate;

  Emitter(mlir::OpBuilder &b, mlir::Location loc);

  mlir::OpBuilder &b;
  mlir::Location loc;
  Type ptr, i1, i16, i32, i64, f32;

  template <typename Op, typename... Args> Op op(Args &&...args) {
    return b.create<Op>(loc, std::forward<Args>(args)...);
  }

  Value constant(int64_t value) { return op<mlir::LLVM::ConstantOp>(i64, b.getI64IntegerAttr(value)); }
  Value zero(Type type) { return op<mlir::LLVM::ZeroOp>(type); }
  Value add(Value x, Value y) { return op<mlir::LLVM::AddOp>(x, y); }
  Value sub(Value x, Value y) { return op<mlir::LLVM::SubOp>(x, y); }
  Value mul(Value x, Value y) { return op<mlir::LLVM::MulOp>(x, y); }
  Value mul(Value x, int64_t y) { return mul(x, constant(y)); }
  Value compare(Predicate p, Value x, Value y) { return op<mlir::LLVM::ICmpOp>(p, x, y); }
  Value select(Value c, Value x, Value y) { return op<mlir::LLVM::SelectOp>(c, x, y); }
  Value min(Value x, Value y) { return select(compare(Predicate::slt, x, y), x, y); }
  Value both(Value x, Value y) { return op<mlir::LLVM::AndOp>(x, y); }

  Value at(Value base, Value bytes);
  Value at(Value base, int64_t bytes);
  /// Loads and stores assume the alignment of an element only: buffers are views.
  Value load(Type type, Value address);
  void store(Value value, Value address);
  /// A vector of one scalar.
  Value splat(Value scalar, mlir::VectorType type);
  Value shuffle(Value x, Value y, llvm::ArrayRef<int32_t> mask) { return op<mlir::LLVM::ShuffleVectorOp>(x, y, mask); }

  /// for (i = from; i < to; i += step): the body gets i and the carried values and gives the next ones.
  Values loop(Value from, Value to, int64_t step, ValueRange init,
              const std::function<Values(Value, ValueRange)> &body);
  void loop(Value from, Value to, int64_t step, const std::function<void(Value)> &body);
  void branch(Value condition, const std::function<void()> &yes, const std::function<void()> &no = {});

  /// A new block after the current one with arguments of these types.
  mlir::Block *block(mlir::TypeRange arguments = {});
  void enter(mlir::Block *to) { b.setInsertionPointToEnd(to); }
  void jump(mlir::Block *to, ValueRange arguments = {}) { op<mlir::LLVM::BrOp>(arguments, to); }
  void jumpIf(Value condition, mlir::Block *yes, ValueRange yesArguments, mlir::Block *no, ValueRange noArguments);

private:
  /// Loops are never unrolled: the unroller hoists broadcasts and spills accumulators.
  mlir::LLVM::LoopAnnotationAttr keepRolled();
};

/// An internal function that is never inlined, with its entry block; nothing if the symbol is there already.
mlir::LLVM::LLVMFuncOp createFunction(mlir::ModuleOp module, llvm::StringRef name,
                                      llvm::ArrayRef<mlir::Type> arguments);

} // namespace tilewright::host
