//===- VectorAccess.cpp - loads and stores of vectors -----------------------------------------------------------===//

#include "VectorAccess.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace mlir;

namespace tilewright::host {

Value indexConstant(ImplicitLocOpBuilder &b, int64_t value) { return b.create<arith::ConstantIndexOp>(value); }

Value iota(ImplicitLocOpBuilder &b, VectorType type) {
  SmallVector<Attribute> lanes;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    lanes.push_back(b.getIntegerAttr(type.getElementType(), i));
  return b.create<arith::ConstantOp>(DenseElementsAttr::get(type, lanes));
}

Value clampValid(ImplicitLocOpBuilder &b, Value valid, int64_t lanes) {
  Value above = b.create<arith::MaxSIOp>(valid, indexConstant(b, 0));
  return b.create<arith::MinSIOp>(above, indexConstant(b, lanes));
}

Value laneMask(ImplicitLocOpBuilder &b, Value valid, int64_t lanes) {
  // Compared in 32 bits, which has one instruction on every level; hence clamped first.
  auto type = VectorType::get(lanes, b.getI32Type());
  Value count = b.create<arith::IndexCastOp>(b.getI32Type(), clampValid(b, valid, lanes));
  return b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, iota(b, type), splat(b, count, type));
}

Value splat(ImplicitLocOpBuilder &b, Value scalar, VectorType type) { return b.create<vector::SplatOp>(scalar, type); }

Value splat(ImplicitLocOpBuilder &b, TypedAttr value, VectorType type) {
  return b.create<arith::ConstantOp>(DenseElementsAttr::get(type, Attribute(value)));
}

static Type withElement(Type like, Type element) {
  if (auto vector = dyn_cast<VectorType>(like))
    return VectorType::get(vector.getShape(), element);
  return element;
}

static Type storedType(Type element) {
  if (element.isInteger(1))
    return IntegerType::get(element.getContext(), 8);
  if (element.isBF16() || element.isF16())
    return IntegerType::get(element.getContext(), 16);
  return element;
}

VectorAccess::VectorAccess(ImplicitLocOpBuilder &b, const HostTarget &target, Value buffer, Value offset)
    : b(b), target(target), element(cast<tile::BufferType>(buffer.getType()).getElementType()),
      stored(storedType(element)), base(b.create<tile::AddressOp>(buffer)) {
  base = pointer(offset);
}

Value VectorAccess::pointer(Value position) {
  if (!position || getConstantIntValue(position) == 0)
    return base;
  Value wide = b.create<arith::IndexCastOp>(b.getI64Type(), position);
  return b.create<LLVM::GEPOp>(base.getType(), stored, base, ValueRange{wide});
}

Value VectorAccess::pointers(Value positions) {
  auto type = cast<VectorType>(positions.getType());
  Value wide = b.create<arith::IndexCastOp>(withElement(type, b.getI64Type()), positions);
  return b.create<LLVM::GEPOp>(LLVM::getFixedVectorType(base.getType(), type.getNumElements()), stored, base,
                               ValueRange{wide});
}

Value VectorAccess::toMemory(Value value) {
  if (element.isInteger(1))
    return b.create<arith::ExtUIOp>(withElement(value.getType(), stored), value);
  if (element != stored)
    return b.create<arith::BitcastOp>(withElement(value.getType(), stored), value);
  return value;
}

Value VectorAccess::fromMemory(Value value) {
  if (element.isInteger(1)) {
    auto zero = cast<TypedAttr>(b.getZeroAttr(value.getType()));
    return b.create<arith::CmpIOp>(arith::CmpIPredicate::ne, value, b.create<arith::ConstantOp>(zero));
  }
  if (element != stored)
    return b.create<arith::BitcastOp>(withElement(value.getType(), element), value);
  return value;
}

Value VectorAccess::fillVector(VectorType type, TypedAttr fill) {
  auto memory = cast<VectorType>(withElement(type, stored));
  if (!fill)
    return b.create<arith::ConstantOp>(cast<TypedAttr>(b.getZeroAttr(memory)));
  if (auto number = dyn_cast<FloatAttr>(fill); number && stored != element)
    fill = b.getIntegerAttr(stored, number.getValue().bitcastToAPInt());
  else if (auto flag = dyn_cast<IntegerAttr>(fill); flag && stored != element)
    fill = b.getIntegerAttr(stored, flag.getValue().zext(8));
  return splat(b, fill, memory);
}

static unsigned alignmentOf(Type stored) { return stored.getIntOrFloatBitWidth() / 8; }

Value VectorAccess::loadScalar(Value position) {
  return fromMemory(b.create<LLVM::LoadOp>(stored, pointer(position), alignmentOf(stored)));
}

void VectorAccess::storeScalar(Value value, Value position) {
  b.create<LLVM::StoreOp>(toMemory(value), pointer(position), alignmentOf(stored));
}

Value VectorAccess::positionsOf(OpFoldResult stride, int64_t lanes) {
  return scaled(iota(b, VectorType::get(lanes, b.getIndexType())), stride);
}

Value VectorAccess::scaled(Value indices, OpFoldResult stride) {
  auto type = cast<VectorType>(withElement(indices.getType(), b.getIndexType()));
  if (indices.getType() != type)
    indices = b.create<arith::IndexCastOp>(type, indices);
  if (getConstantIntValue(stride) == 1)
    return indices;
  return b.create<arith::MulIOp>(indices, splat(b, getValueOrCreateConstantIndexOp(b, b.getLoc(), stride), type));
}

//===----------------------------------------------------------------------===//
// Loads
//===----------------------------------------------------------------------===//

Value VectorAccess::load(VectorType type, OpFoldResult stride, Value valid, TypedAttr fill) {
  Value filler = valid ? fillVector(type, fill) : Value();
  auto memory = cast<VectorType>(withElement(type, stored));
  std::optional<int64_t> constant = getConstantIntValue(stride);
  if (constant == 1)
    return fromMemory(loadContiguous(memory, valid, filler));
  if (constant == 0)
    return fromMemory(loadBroadcast(memory, valid, filler));
  return fromMemory(loadAt(memory, positionsOf(stride, type.getNumElements()), valid, filler));
}

Value VectorAccess::gather(VectorType type, Value indices, OpFoldResult stride, Value valid, TypedAttr fill) {
  Value filler = valid ? fillVector(type, fill) : Value();
  return fromMemory(loadAt(cast<VectorType>(withElement(type, stored)), scaled(indices, stride), valid, filler));
}

Value VectorAccess::loadContiguous(VectorType type, Value valid, Value fill) {
  unsigned alignment = alignmentOf(stored);
  if (!valid)
    return b.create<LLVM::LoadOp>(type, base, alignment);
  int64_t lanes = type.getNumElements();
  if (target.hasMaskedAccess(stored.getIntOrFloatBitWidth()))
    return b.create<LLVM::MaskedLoadOp>(type, base, laneMask(b, valid, lanes), fill, alignment);
  // Without masked access: a whole vector, or the last elements one by one.
  Value whole = b.create<arith::CmpIOp>(arith::CmpIPredicate::sge, valid, indexConstant(b, lanes));
  auto choice = b.create<scf::IfOp>(type, whole, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  b.create<scf::YieldOp>(Value(b.create<LLVM::LoadOp>(type, base, alignment)));
  b.setInsertionPointToStart(choice.elseBlock());
  auto loop =
      b.create<scf::ForOp>(indexConstant(b, 0), clampValid(b, valid, lanes), indexConstant(b, 1), fill,
                           [&](OpBuilder &, Location, Value lane, ValueRange carried) {
                             Value scalar = b.create<LLVM::LoadOp>(stored, pointer(lane), alignment);
                             b.create<scf::YieldOp>(Value(b.create<vector::InsertElementOp>(scalar, carried[0], lane)));
                           });
  b.create<scf::YieldOp>(loop.getResults());
  return choice.getResult(0);
}

Value VectorAccess::loadBroadcast(VectorType type, Value valid, Value fill) {
  unsigned alignment = alignmentOf(stored);
  if (!valid)
    return splat(b, Value(b.create<LLVM::LoadOp>(stored, base, alignment)), type);
  Value some = b.create<arith::CmpIOp>(arith::CmpIPredicate::sgt, valid, indexConstant(b, 0));
  auto choice = b.create<scf::IfOp>(type, some, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  Value all = splat(b, Value(b.create<LLVM::LoadOp>(stored, base, alignment)), type);
  Value mask = laneMask(b, valid, type.getNumElements());
  b.create<scf::YieldOp>(Value(b.create<arith::SelectOp>(mask, all, fill)));
  b.setInsertionPointToStart(choice.elseBlock());
  b.create<scf::YieldOp>(fill);
  return choice.getResult(0);
}

Value VectorAccess::loadAt(VectorType type, Value positions, Value valid, Value fill) {
  int64_t lanes = type.getNumElements();
  unsigned alignment = alignmentOf(stored);
  if (target.hasGather(stored.getIntOrFloatBitWidth())) {
    Value mask =
        valid ? laneMask(b, valid, lanes) : splat(b, b.getBoolAttr(true), VectorType::get(lanes, b.getI1Type()));
    SmallVector<Value> passThrough;
    if (fill)
      passThrough.push_back(fill);
    return b.create<LLVM::masked_gather>(type, pointers(positions), mask, passThrough, b.getI32IntegerAttr(alignment));
  }
  auto each = [&](Value at) {
    Value result = b.create<arith::ConstantOp>(cast<TypedAttr>(b.getZeroAttr(type)));
    for (int64_t lane = 0; lane < lanes; ++lane) {
      Value position = b.create<vector::ExtractOp>(at, lane);
      result = b.create<vector::InsertOp>(b.create<LLVM::LoadOp>(stored, pointer(position), alignment), result, lane);
    }
    return result;
  };
  if (!valid)
    return each(positions);
  // Invalid lanes read what lane 0 reads, so that no branch per lane is needed; lane 0 must be valid for that.
  Value some = b.create<arith::CmpIOp>(arith::CmpIPredicate::sgt, valid, indexConstant(b, 0));
  auto choice = b.create<scf::IfOp>(type, some, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  Value mask = laneMask(b, valid, lanes);
  Value first = splat(b, Value(b.create<vector::ExtractOp>(positions, 0)), cast<VectorType>(positions.getType()));
  Value loaded = each(b.create<arith::SelectOp>(mask, positions, first));
  b.create<scf::YieldOp>(Value(b.create<arith::SelectOp>(mask, loaded, fill)));
  b.setInsertionPointToStart(choice.elseBlock());
  b.create<scf::YieldOp>(fill);
  return choice.getResult(0);
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

void VectorAccess::store(Value vector, OpFoldResult stride, Value valid, bool streaming) {
  std::optional<int64_t> constant = getConstantIntValue(stride);
  int64_t lanes = cast<VectorType>(vector.getType()).getNumElements();
  if (constant == 1)
    return storeContiguous(toMemory(vector), valid, streaming);
  storeAt(toMemory(vector), positionsOf(stride, lanes), valid);
}

void VectorAccess::scatter(Value vector, Value indices, OpFoldResult stride, Value valid) {
  storeAt(toMemory(vector), scaled(indices, stride), valid);
}

/// Runs `body` for lanes 0 .. valid-1 in order.
static void forValidLanes(ImplicitLocOpBuilder &b, Value valid, int64_t lanes, function_ref<void(Value)> body) {
  b.create<scf::ForOp>(indexConstant(b, 0), clampValid(b, valid, lanes), indexConstant(b, 1), ValueRange{},
                       [&](OpBuilder &, Location, Value lane, ValueRange) {
                         body(lane);
                         b.create<scf::YieldOp>();
                       });
}

void VectorAccess::atomicAdd(Value value, Value position) {
  b.create<LLVM::AtomicRMWOp>(isa<FloatType>(value.getType()) ? LLVM::AtomicBinOp::fadd : LLVM::AtomicBinOp::add,
                              pointer(position), value, LLVM::AtomicOrdering::monotonic);
}

void VectorAccess::atomicAdd(Value vector, Value indices, OpFoldResult stride, Value valid) {
  int64_t lanes = cast<VectorType>(vector.getType()).getNumElements();
  Value positions = scaled(indices, stride);
  forValidLanes(b, valid ? valid : indexConstant(b, lanes), lanes, [&](Value lane) {
    atomicAdd(b.create<vector::ExtractElementOp>(vector, lane),
              Value(b.create<vector::ExtractElementOp>(positions, lane)));
  });
}

void VectorAccess::storeContiguous(Value vector, Value valid, bool streaming) {
  unsigned alignment = alignmentOf(stored);
  if (streaming) {
    b.create<LLVM::StoreOp>(vector, base, /*alignment=*/64, /*isVolatile=*/false, /*isNonTemporal=*/true);
    return;
  }
  if (!valid) {
    b.create<LLVM::StoreOp>(vector, base, alignment);
    return;
  }
  int64_t lanes = cast<VectorType>(vector.getType()).getNumElements();
  if (target.hasMaskedAccess(stored.getIntOrFloatBitWidth())) {
    b.create<LLVM::MaskedStoreOp>(vector, base, laneMask(b, valid, lanes), alignment);
    return;
  }
  Value whole = b.create<arith::CmpIOp>(arith::CmpIPredicate::sge, valid, indexConstant(b, lanes));
  auto choice = b.create<scf::IfOp>(whole, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  b.create<LLVM::StoreOp>(vector, base, alignment);
  b.setInsertionPointToStart(choice.elseBlock());
  forValidLanes(b, valid, lanes, [&](Value lane) {
    b.create<LLVM::StoreOp>(b.create<vector::ExtractElementOp>(vector, lane), pointer(lane), alignment);
  });
}

void VectorAccess::storeAt(Value vector, Value positions, Value valid) {
  unsigned alignment = alignmentOf(stored);
  int64_t lanes = cast<VectorType>(vector.getType()).getNumElements();
  // Scatter instructions write equal addresses in ascending order of lanes.
  if (target.avx512 && target.hasGather(stored.getIntOrFloatBitWidth())) {
    Value mask =
        valid ? laneMask(b, valid, lanes) : splat(b, b.getBoolAttr(true), VectorType::get(lanes, b.getI1Type()));
    b.create<LLVM::masked_scatter>(vector, pointers(positions), mask, alignment);
    return;
  }
  if (valid) {
    forValidLanes(b, valid, lanes, [&](Value lane) {
      Value position = b.create<vector::ExtractElementOp>(positions, lane);
      b.create<LLVM::StoreOp>(b.create<vector::ExtractElementOp>(vector, lane), pointer(position), alignment);
    });
    return;
  }
  for (int64_t lane = 0; lane < lanes; ++lane) {
    Value position = b.create<vector::ExtractOp>(positions, lane);
    b.create<LLVM::StoreOp>(b.create<vector::ExtractOp>(vector, lane), pointer(position), alignment);
  }
}

} // namespace tilewright::host
