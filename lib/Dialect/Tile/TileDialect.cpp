//===- TileDialect.cpp - the dialect, its types and attributes ---------------------------------------------------===//

#include "tilewright/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright::tile;

#include "tilewright/Dialect/Tile/IR/TileDialect.cpp.inc"
#include "tilewright/Dialect/Tile/IR/TileEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "tilewright/Dialect/Tile/IR/TileAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "tilewright/Dialect/Tile/IR/TileTypes.cpp.inc"

void TileDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "tilewright/Dialect/Tile/IR/TileTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tilewright/Dialect/Tile/IR/TileAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tilewright/Dialect/Tile/IR/TileOps.cpp.inc"
      >();
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError, Type element) {
  auto integer = llvm::dyn_cast<IntegerType>(element);
  bool good = element.isF32() || element.isF64() || element.isBF16() || element.isF16() ||
              (integer && integer.isSignless() && llvm::is_contained({1u, 8u, 16u, 32u, 64u}, integer.getWidth()));
  if (!good)
    return emitError() << "a buffer holds f32, f64, bf16, f16 or signless integers of 1, 8, 16, 32 or 64 bits, not "
                       << element;
  return success();
}

unsigned BufferType::getElementBytes() const {
  unsigned bits = getElementType().getIntOrFloatBitWidth();
  return bits == 1 ? 1 : bits / 8;
}

bool tilewright::tile::supports(ReduceKind kind, Type element) {
  bool isFloat = isa<FloatType>(element);
  switch (kind) {
  case ReduceKind::Add:
  case ReduceKind::Mul:
  case ReduceKind::Max:
  case ReduceKind::Min:
    return isFloat || !element.isInteger(1);
  case ReduceKind::MaxNum:
  case ReduceKind::MinNum:
    return isFloat;
  case ReduceKind::UMax:
  case ReduceKind::UMin:
  case ReduceKind::And:
  case ReduceKind::Or:
  case ReduceKind::Xor:
    return !isFloat;
  }
  llvm_unreachable("a kind without a case");
}

TypedAttr tilewright::tile::identityOf(ReduceKind kind, Type element) {
  Builder b(element.getContext());
  if (auto type = dyn_cast<FloatType>(element)) {
    const llvm::fltSemantics &format = type.getFloatSemantics();
    switch (kind) {
    case ReduceKind::Mul:
      return b.getFloatAttr(type, 1.0);
    case ReduceKind::Max:
      return b.getFloatAttr(type, APFloat::getInf(format, /*Negative=*/true));
    case ReduceKind::Min:
      return b.getFloatAttr(type, APFloat::getInf(format));
    case ReduceKind::MaxNum:
    case ReduceKind::MinNum:
      return b.getFloatAttr(type, APFloat::getNaN(format));
    default: // -0 and not 0: the sum of nothing but -0 is -0
      return b.getFloatAttr(type, -0.0);
    }
  }
  unsigned bits = element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
  switch (kind) {
  case ReduceKind::Mul:
    return b.getIntegerAttr(element, APInt(bits, 1));
  case ReduceKind::Max:
    return b.getIntegerAttr(element, APInt::getSignedMinValue(bits));
  case ReduceKind::Min:
    return b.getIntegerAttr(element, APInt::getSignedMaxValue(bits));
  case ReduceKind::UMin:
  case ReduceKind::And:
    return b.getIntegerAttr(element, APInt::getAllOnes(bits));
  default:
    return b.getIntegerAttr(element, APInt::getZero(bits));
  }
}
