//===- Lanes.cpp - values of the interpreter -------------------------------===//

#include "Lanes.h"

#include "tilewright/Dialect/Tile/IR/TileDialect.h"
#include "tilewright/Interpret/Interpret.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <bit>

using namespace mlir;

namespace tilewright::interpret {

static std::string textOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static Type scalarType(Type type) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.getElementType();
  if (auto vector = dyn_cast<LLVM::LLVMFixedVectorType>(type))
    return vector.getElementType();
  return type;
}

Element elementOf(Type type) {
  Type scalar = scalarType(type);
  if (auto integer = dyn_cast<IntegerType>(scalar); integer && integer.getWidth() <= 64)
    return {Element::Integer, integer.getWidth()};
  if (isa<IndexType, LLVM::LLVMPointerType, tile::BufferType>(scalar))
    return {Element::Integer, 64};
  if (scalar.isF32())
    return {Element::F32, 32};
  if (scalar.isF64())
    return {Element::F64, 64};
  if (scalar.isBF16())
    return {Element::BF16, 16};
  if (scalar.isF16())
    return {Element::F16, 16};
  throw Unknown("the interpreter has no values of type " + textOf(type));
}

size_t laneCount(Type type) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.getNumElements();
  if (auto vector = dyn_cast<LLVM::LLVMFixedVectorType>(type))
    return vector.getNumElements();
  return 1;
}

uint64_t cut(uint64_t value, unsigned bits) { return bits >= 64 ? value : value & ((uint64_t(1) << bits) - 1); }

int64_t signedOf(uint64_t value, unsigned bits) { return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits); }

float singleOf(Element element, uint64_t bits) {
  if (element.kind == Element::F32)
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (element.kind == Element::BF16)
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  llvm::APFloat half(llvm::APFloat::IEEEhalf(), llvm::APInt(16, bits));
  return half.convertToFloat();
}

double doubleOf(Element element, uint64_t bits) {
  return element.kind == Element::F64 ? std::bit_cast<double>(bits) : singleOf(element, bits);
}

uint64_t bitsOf(Element element, float value) {
  switch (element.kind) {
  case Element::F64:
    return std::bit_cast<uint64_t>(static_cast<double>(value));
  case Element::F32:
    return std::bit_cast<uint32_t>(value);
  default: {
    llvm::APFloat number(value);
    bool lost;
    number.convert(element.kind == Element::BF16 ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf(),
                   llvm::APFloat::rmNearestTiesToEven, &lost);
    return number.bitcastToAPInt().getZExtValue();
  }
  }
}

uint64_t bitsOf(Element element, double value) {
  return element.kind == Element::F64 ? std::bit_cast<uint64_t>(value) : bitsOf(element, static_cast<float>(value));
}

Lanes decode(Attribute value, Type type) {
  const size_t count = laneCount(type);
  const unsigned bits = elementOf(type).bits;
  if (auto number = dyn_cast<IntegerAttr>(value))
    return Lanes(count, cut(number.getValue().getZExtValue(), bits));
  if (auto number = dyn_cast<FloatAttr>(value))
    return Lanes(count, number.getValue().bitcastToAPInt().getZExtValue());
  Lanes lanes;
  if (auto list = dyn_cast<DenseFPElementsAttr>(value))
    for (const APFloat &element : list.getValues<APFloat>())
      lanes.push_back(element.bitcastToAPInt().getZExtValue());
  else if (auto list = dyn_cast<DenseIntElementsAttr>(value))
    for (const APInt &element : list.getValues<APInt>())
      lanes.push_back(cut(element.getZExtValue(), bits));
  if (lanes.size() != count)
    throw Unknown("the interpreter cannot read the constant's value");
  return lanes;
}

} // namespace tilewright::interpret
