//===- ExprEmitter.cpp - addresses, loads, stores, hoisting ---------------===//

#include "ExprEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tilewright/Dialect/Tile/IR/ElementTypes.h"

using namespace mlir;

namespace tilewright::loop {

Type elementType(OpBuilder &b, DType type) {
  if (Type result = tile::elementType(b.getContext(), type))
    return result;
  throw EmitError("element type " + std::string(nameOf(type)) + " has no code on this target");
}

Value ExprEmitter::constantIndex(int64_t value) { return b.create<arith::ConstantIndexOp>(loc, value); }

Value ExprEmitter::sizeValue(const SizeExpr &value) { return operands.size(b, loc, value); }

OwningOpRef<ModuleOp> startKernel(OpBuilder &builder, Location loc, const KernelKey &key, llvm::StringRef name) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> types;
  for (DType type : key.arguments().bufferTypes)
    types.push_back(tile::BufferType::get(elementType(builder, type)));
  auto kernel = builder.create<tile::KernelOp>(loc, name, types, unsigned(key.arguments().ints.size()));
  builder.setInsertionPointToEnd(&kernel.getBlock());
  return module;
}

KeyOperands::KeyOperands(const KernelKey &key, Block &kernel) : key(key) {
  size_t count = key.arguments().buffers.size();
  for (BlockArgument argument : kernel.getArguments())
    (buffers.size() < count ? buffers : ints).push_back(argument);
}

Value KeyOperands::buffer(BufferId id) { return buffers[key.buffer(id)]; }

Value KeyOperands::size(OpBuilder &b, Location loc, const SizeExpr &value) {
  int position = key.integer(value);
  return position < 0 ? Value(b.create<arith::ConstantIndexOp>(loc, *value.constant())) : ints[position];
}

Value ExprEmitter::constant(DType type, double floatValue, int64_t intValue, bool tile) {
  Type element = elementType(type);
  TypedAttr attr = isFloat(type) ? TypedAttr(b.getFloatAttr(element, floatValue))
                                 : TypedAttr(b.getIntegerAttr(element, type == DType::Bool ? intValue != 0 : intValue));
  if (tile)
    attr = DenseElementsAttr::get(RankedTensorType::get({int64_t(width)}, element), attr);
  return b.create<arith::ConstantOp>(loc, attr);
}

Value ExprEmitter::splat(Value value) {
  if (isa<RankedTensorType>(value.getType()))
    return value;
  return b.create<tile::SplatOp>(loc, RankedTensorType::get({int64_t(width)}, value.getType()), value);
}

uint64_t ExprEmitter::dims(ExprRef e) {
  auto it = dimsOf.find(e);
  if (it != dimsOf.end())
    return it->second;
  uint64_t mask = 0;
  if (e->op == ScalarOp::Index)
    mask = uint64_t(1) << e->intValue;
  if (e->op == ScalarOp::Accumulator)
    mask = ~uint64_t(0);
  for (ExprRef arg : e->args)
    mask |= dims(arg);
  if (e->op == ScalarOp::Load) {
    for (size_t d = 0; d < e->access.coefs.size(); ++d)
      if (!e->access.coefs[d].isConstant(0))
        mask |= uint64_t(1) << d;
    for (const Access::Indirect &term : e->access.indirect)
      mask |= dims(term.index);
  }
  return dimsOf[e] = mask;
}

bool ExprEmitter::dependsOn(ExprRef e, uint64_t mask) { return dims(e) & mask; }

bool ExprEmitter::varies(ExprRef e) { return width && vectorDim >= 0 && dependsOn(e, uint64_t(1) << vectorDim); }

bool ExprEmitter::varies(const Access &access) {
  if (!width || vectorDim < 0)
    return false;
  if (size_t(vectorDim) < access.coefs.size() && !access.coefs[vectorDim].isConstant(0))
    return true;
  for (const Access::Indirect &term : access.indirect)
    if (varies(term.index))
      return true;
  return false;
}

Value ExprEmitter::lookup(ExprRef e) {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (auto it = scope->find(e); it != scope->end())
      return it->second;
  return nullptr;
}

void ExprEmitter::hoist(ExprRef e, uint64_t mask) {
  if (!dependsOn(e, mask)) {
    // A tile that is the same in every iteration stays in registers only if it is worth one.
    if (!varies(e) || e->op == ScalarOp::Load || !e->args.empty())
      emit(e);
    return;
  }
  for (ExprRef arg : e->args)
    hoist(arg, mask);
  if (e->op == ScalarOp::Load)
    for (const Access::Indirect &term : e->access.indirect)
      hoist(term.index, mask);
}

Value ExprEmitter::offsetOf(const Access &access) {
  Value sum;
  auto add = [&](Value term) { sum = sum ? b.create<arith::AddIOp>(loc, sum, term) : term; };
  auto scaled = [&](Value value, const SizeExpr &factor) {
    return factor.isConstant(1) ? value : Value(b.create<arith::MulIOp>(loc, value, sizeValue(factor)));
  };
  if (!access.offset.isConstant(0))
    add(sizeValue(access.offset));
  for (size_t d = 0; d < access.coefs.size(); ++d)
    if (!access.coefs[d].isConstant(0) && index[d])
      add(scaled(index[d], access.coefs[d]));
  for (const Access::Indirect &term : access.indirect)
    if (!varies(term.index))
      add(scaled(b.create<arith::IndexCastOp>(loc, b.getIndexType(), emit(term.index)), term.stride));
  return sum ? sum : constantIndex(0);
}

namespace {
OpFoldResult strideOf(ExprEmitter &e, const SizeExpr &coef) {
  if (auto value = coef.constant(); value && (*value == 0 || *value == 1))
    return e.b.getIndexAttr(*value);
  return e.sizeValue(coef);
}
} // namespace

/// Element numbers, along the vector dimension and in elements, that an access with indices per element reads.
static Value elementOffsets(ExprEmitter &e, const Access &access) {
  OpBuilder &b = e.b;
  Value sum;
  auto times = [&](Value tile, const SizeExpr &factor) -> Value {
    if (factor.isConstant(1))
      return tile;
    Value f = b.create<arith::IndexCastOp>(e.loc, b.getI64Type(), e.sizeValue(factor));
    return b.create<arith::MulIOp>(e.loc, tile, e.splat(f));
  };
  auto add = [&](Value term) { sum = sum ? b.create<arith::AddIOp>(e.loc, sum, term) : term; };
  for (const Access::Indirect &term : access.indirect)
    if (e.varies(term.index))
      add(times(e.splat(e.emit(term.index)), term.stride));
  if (size_t(e.vectorDim) < access.coefs.size() && !access.coefs[e.vectorDim].isConstant(0))
    add(times(b.create<tile::IotaOp>(e.loc, e.tileType(DType::I64)), access.coefs[e.vectorDim]));
  return sum;
}

static bool gathers(ExprEmitter &e, const Access &access) {
  for (const Access::Indirect &term : access.indirect)
    if (e.varies(term.index))
      return true;
  return false;
}

Value ExprEmitter::emitLoad(const Access &access, DType type) {
  Value buffer = operands.buffer(access.buffer);
  ValueRange valids = valid && width ? ValueRange(valid) : ValueRange();
  if (!varies(access))
    return b.create<tile::LoadOp>(loc, elementType(type), buffer, offsetOf(access), ArrayRef<OpFoldResult>{});
  if (gathers(*this, access)) {
    Value indices = elementOffsets(*this, access);
    return b.create<tile::GatherOp>(loc, tileType(type), buffer, offsetOf(access), indices, b.getIndexAttr(1), valids);
  }
  OpFoldResult stride = strideOf(*this, access.coefs[vectorDim]);
  return b.create<tile::LoadOp>(loc, tileType(type), buffer, offsetOf(access), stride, valids);
}

void ExprEmitter::store(const Store &target, Value value, bool streaming) {
  const Access &access = target.access;
  if (!target.atomicAdd)
    return store(access, value, target.value->type, streaming);
  Value buffer = operands.buffer(access.buffer);
  bool inVector = width && vectorDim >= 0 && size_t(vectorDim) < index.size() && index[vectorDim];
  if (!inVector) {
    b.create<tile::AtomicAddOp>(loc, value, buffer, offsetOf(access));
    return;
  }
  ValueRange valids = valid ? ValueRange(valid) : ValueRange();
  value = splat(value); // one addition for each element
  if (varies(access)) {
    Value indices = elementOffsets(*this, access);
    b.create<tile::ScatterOp>(loc, value, buffer, offsetOf(access), indices, b.getIndexAttr(1), valids,
                              /*atomic=*/true);
    return;
  }
  Value sum = b.create<tile::ReduceOp>(loc, tile::ReduceKind::Add, value, valids);
  b.create<tile::AtomicAddOp>(loc, sum, buffer, offsetOf(access));
}

void ExprEmitter::store(const Access &access, Value value, DType, bool streaming) {
  Value buffer = operands.buffer(access.buffer);
  ValueRange valids = valid && width ? ValueRange(valid) : ValueRange();
  if (!varies(access)) {
    if (isa<RankedTensorType>(value.getType()))
      throw EmitError("a value that differs along the vector is stored to one element");
    b.create<tile::StoreOp>(loc, value, buffer, offsetOf(access), ArrayRef<OpFoldResult>{});
    return;
  }
  value = splat(value);
  if (gathers(*this, access)) {
    Value indices = elementOffsets(*this, access);
    b.create<tile::ScatterOp>(loc, value, buffer, offsetOf(access), indices, b.getIndexAttr(1), valids);
    return;
  }
  b.create<tile::StoreOp>(loc, value, buffer, offsetOf(access), strideOf(*this, access.coefs[vectorDim]), valids,
                          streaming);
}

Value ExprEmitter::emit(ExprRef e) {
  if (Value known = lookup(e))
    return known;
  Value result;
  switch (e->op) {
  case ScalarOp::Constant:
    return constant(e->type, e->floatValue, e->intValue, false);
  case ScalarOp::Size:
    result = b.create<arith::IndexCastOp>(loc, b.getI64Type(), sizeValue(e->size));
    break;
  case ScalarOp::Index: {
    result = b.create<arith::IndexCastOp>(loc, b.getI64Type(), index[e->intValue]);
    if (varies(e))
      result = b.create<arith::AddIOp>(loc, splat(result), b.create<tile::IotaOp>(loc, tileType(DType::I64)));
    break;
  }
  case ScalarOp::Accumulator:
    result = accumulator;
    break;
  case ScalarOp::Load:
    if (atHand)
      result = atHand(e);
    if (!result)
      result = emitLoad(e->access, e->type);
    break;
  case ScalarOp::CheckIndex: {
    Value x = emit(e->args[0]);
    bool tile = isa<RankedTensorType>(x.getType());
    result = b.create<tile::CheckIndexOp>(loc, x.getType(), x, sizeValue(e->size),
                                          tile && valid ? ValueRange(valid) : ValueRange(),
                                          b.getI64IntegerAttr(operands.site(e->intValue)));
    break;
  }
  default: {
    bool tile = varies(e);
    SmallVector<Value, 3> x;
    for (ExprRef arg : e->args)
      x.push_back(emit(arg));
    for (Value v : x)
      tile |= isa<RankedTensorType>(v.getType());
    if (tile)
      for (Value &v : x)
        v = splat(v);
    result = emitOp(e, x, tile);
  }
  }
  return scopes.back()[e] = result;
}

} // namespace tilewright::loop
