//===- ContractEmit.cpp - writing loops in the LLVM dialect ---------------------------------------------------===//

#include "ContractEmit.h"

#include "mlir/Dialect/LLVMIR/LLVMAttrs.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace tilewright::host {

Emitter::Emitter(OpBuilder &b, Location loc)
    : b(b), loc(loc), ptr(LLVM::LLVMPointerType::get(b.getContext())), i1(b.getI1Type()), i16(b.getI16Type()),
      i32(b.getI32Type()), i64(b.getI64Type()), f32(b.getF32Type()) {}

Value Emitter::at(Value base, Value bytes) {
  return op<LLVM::GEPOp>(ptr, b.getI8Type(), base, ArrayRef<LLVM::GEPArg>{bytes});
}

Value Emitter::at(Value base, int64_t bytes) {
  if (bytes == 0)
    return base;
  return op<LLVM::GEPOp>(ptr, b.getI8Type(), base, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(bytes)});
}

static unsigned elementAlignment(Type type) {
  Type element = isa<VectorType>(type) ? cast<VectorType>(type).getElementType() : type;
  return element.getIntOrFloatBitWidth() / 8;
}

Value Emitter::load(Type type, Value address) { return op<LLVM::LoadOp>(type, address, elementAlignment(type)); }

void Emitter::store(Value value, Value address) {
  op<LLVM::StoreOp>(value, address, elementAlignment(value.getType()));
}

Value Emitter::splat(Value scalar, VectorType type) {
  Value first = op<LLVM::InsertElementOp>(op<LLVM::UndefOp>(type), scalar, op<LLVM::ConstantOp>(i32, 0));
  SmallVector<int32_t> zeros(type.getNumElements(), 0);
  return shuffle(first, first, zeros);
}

Block *Emitter::block(TypeRange arguments) {
  OpBuilder::InsertionGuard guard(b);
  Region *region = b.getInsertionBlock()->getParent();
  return b.createBlock(region, region->end(), arguments, SmallVector<Location>(arguments.size(), loc));
}

LLVM::LoopAnnotationAttr Emitter::keepRolled() {
  MLIRContext *context = b.getContext();
  auto unroll = LLVM::LoopUnrollAttr::get(context, b.getBoolAttr(true), {}, {}, {}, {}, {}, {});
  auto vectorize = LLVM::LoopVectorizeAttr::get(context, b.getBoolAttr(true), {}, {}, {}, {}, {}, {});
  return LLVM::LoopAnnotationAttr::get(context, {}, vectorize, {}, unroll, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {});
}

void Emitter::jumpIf(Value condition, Block *yes, ValueRange yesArguments, Block *no, ValueRange noArguments) {
  // Annotations on branches that close no loop are without effect.
  op<LLVM::CondBrOp>(condition, yesArguments, noArguments, DenseI32ArrayAttr{}, keepRolled(), yes, no);
}

Emitter::Values Emitter::loop(Value from, Value to, int64_t step, ValueRange init,
                              const std::function<Values(Value, ValueRange)> &body) {
  SmallVector<Type> types{i64};
  llvm::append_range(types, init.getTypes());
  Block *inside = block(types), *after = block(init.getTypes());
  Values first{from};
  llvm::append_range(first, init);
  jumpIf(compare(Predicate::slt, from, to), inside, first, after, init);
  enter(inside);
  Value i = inside->getArgument(0);
  Values next = body(i, inside->getArguments().drop_front());
  Values again{add(i, constant(step))};
  llvm::append_range(again, next);
  jumpIf(compare(Predicate::slt, again[0], to), inside, again, after, next);
  enter(after);
  return Values(after->getArguments().begin(), after->getArguments().end());
}

void Emitter::loop(Value from, Value to, int64_t step, const std::function<void(Value)> &body) {
  loop(from, to, step, {}, [&](Value i, ValueRange) {
    body(i);
    return Values{};
  });
}

void Emitter::branch(Value condition, const std::function<void()> &yes, const std::function<void()> &no) {
  Block *then = block(), *otherwise = no ? block() : nullptr, *after = block();
  jumpIf(condition, then, {}, no ? otherwise : after, {});
  enter(then);
  yes();
  jump(after);
  if (no) {
    enter(otherwise);
    no();
    jump(after);
  }
  enter(after);
}

LLVM::LLVMFuncOp createFunction(ModuleOp module, StringRef name, ArrayRef<Type> arguments) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(module.getContext()), arguments);
  auto function = b.create<LLVM::LLVMFuncOp>(module.getLoc(), name, type, LLVM::Linkage::Internal);
  function.setPassthroughAttr(b.getStrArrayAttr({"noinline", "nounwind"}));
  function.setDsoLocal(true);
  function.addEntryBlock(b);
  return function;
}

} // namespace tilewright::host
