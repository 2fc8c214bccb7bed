//===- Conversions.cpp - from one type to another --------------------------===//

#include "Elementwise.h"

using namespace mlir;

namespace tilewright::interpret {

namespace {

/// fn(x, from, to) of the one operand's bits.
template <typename Fn> Handler conversion(Fn fn) {
  return [fn](Frame &frame, Operation *op) {
    elementwise(frame, op, [&](const uint64_t *x, Element from, Element to) { return fn(x[0], from, to); });
  };
}

uint64_t zeroExtended(uint64_t x, Element, Element) { return x; }
uint64_t signExtended(uint64_t x, Element from, Element) { return static_cast<uint64_t>(signedOf(x, from.bits)); }

uint64_t floatToFloat(uint64_t x, Element from, Element to) {
  return from.kind == Element::F64 ? bitsOf(to, doubleOf(from, x)) : bitsOf(to, singleOf(from, x));
}

template <typename Integer> uint64_t integerToFloat(Integer x, Element to) {
  return to.kind == Element::F64 ? bitsOf(to, static_cast<double>(x)) : bitsOf(to, static_cast<float>(x));
}

uint64_t floatToSigned(uint64_t x, Element from, Element to) {
  double value = std::trunc(doubleOf(from, x)), limit = std::ldexp(1.0, static_cast<int>(to.bits) - 1);
  if (value >= -limit && value < limit)
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  return uint64_t(1) << (to.bits - 1);
}

/// All bits in order, cut anew.
void bitcast(Frame &frame, Operation *op) {
  Type type = op->getResult(0).getType();
  const Lanes &source = frame.get(op->getOperand(0));
  const unsigned from = elementOf(op->getOperand(0).getType()).bits, to = elementOf(type).bits;
  Lanes result(laneCount(type), 0);
  if (from == to) {
    result = source;
  } else {
    for (size_t bit = 0; bit < source.size() * from; ++bit)
      result[bit / to] |= (source[bit / from] >> (bit % from) & 1) << (bit % to);
  }
  frame.set(op->getResult(0), std::move(result));
}

} // namespace

void addConversions(Table &table) {
  add(table, {"arith.extui", "llvm.zext", "arith.trunci", "llvm.trunc", "arith.index_castui"},
      conversion(zeroExtended));
  add(table, {"arith.extsi", "llvm.sext", "arith.index_cast"}, conversion(signExtended));
  add(table, {"llvm.ptrtoint", "llvm.inttoptr"}, conversion(zeroExtended));
  add(table, {"arith.extf", "arith.truncf", "llvm.fpext", "llvm.fptrunc"}, conversion(floatToFloat));
  add(table, {"arith.sitofp", "llvm.sitofp"},
      conversion([](uint64_t x, Element from, Element to) { return integerToFloat(signedOf(x, from.bits), to); }));
  add(table, {"arith.uitofp", "llvm.uitofp"},
      conversion([](uint64_t x, Element, Element to) { return integerToFloat(x, to); }));
  add(table, {"arith.fptosi", "llvm.fptosi"}, conversion(floatToSigned));
  add(table, {"arith.bitcast", "llvm.bitcast", "vector.bitcast"}, bitcast);
  // Left where a type was converted before its use; the value is the same.
  table["builtin.unrealized_conversion_cast"] = [](Frame &frame, Operation *op) {
    if (op->getNumOperands() != 1 || op->getNumResults() != 1)
      throw Unknown("the interpreter knows casts of one value only");
    frame.set(op->getResult(0), Lanes(frame.get(op->getOperand(0))));
  };
}

} // namespace tilewright::interpret
