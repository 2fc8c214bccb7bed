//===- Integers.cpp - constants, integer arithmetic, comparisons -----------===//

#include "Elementwise.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tilewright::interpret {

namespace {

/// fn(x, y, bits) on values whose upper bits are zero.
template <typename Fn> Handler unsignedOf(Fn fn) {
  return [fn](Frame &frame, Operation *op) {
    elementwise(frame, op, [&](const uint64_t *x, Element e, Element) { return fn(x[0], x[1], e.bits); });
  };
}

/// fn(x, y) on signed values.
template <typename Fn> Handler signedOf(Fn fn) {
  return [fn](Frame &frame, Operation *op) {
    elementwise(frame, op, [&](const uint64_t *x, Element e, Element) {
      return static_cast<uint64_t>(fn(interpret::signedOf(x[0], e.bits), interpret::signedOf(x[1], e.bits)));
    });
  };
}

/// fn(x, y) on signed values where the processor traps on a zero divisor and on the smallest integer by -1.
template <typename Fn> Handler divisionOf(Fn fn) {
  return [fn](Frame &frame, Operation *op) {
    elementwise(frame, op, [&](const uint64_t *bits, Element e, Element) {
      int64_t x = interpret::signedOf(bits[0], e.bits), y = interpret::signedOf(bits[1], e.bits);
      if (y == 0)
        throw Fault("divides by zero");
      if (y == -1 && x == interpret::signedOf(uint64_t(1) << (e.bits - 1), e.bits))
        throw Fault("divides the smallest integer by -1");
      return static_cast<uint64_t>(fn(x, y));
    });
  };
}

template <typename Fn> Handler unsignedDivisionOf(Fn fn) {
  return unsignedOf([fn](uint64_t x, uint64_t y, unsigned) {
    if (y == 0)
      throw Fault("divides by zero");
    return fn(x, y);
  });
}

/// By the number that arith and the LLVM dialect give a predicate.
bool holds(uint64_t predicate, uint64_t x, uint64_t y, unsigned bits) {
  int64_t a = interpret::signedOf(x, bits), b = interpret::signedOf(y, bits);
  switch (static_cast<arith::CmpIPredicate>(predicate)) {
  case arith::CmpIPredicate::eq:
    return x == y;
  case arith::CmpIPredicate::ne:
    return x != y;
  case arith::CmpIPredicate::slt:
    return a < b;
  case arith::CmpIPredicate::sle:
    return a <= b;
  case arith::CmpIPredicate::sgt:
    return a > b;
  case arith::CmpIPredicate::sge:
    return a >= b;
  case arith::CmpIPredicate::ult:
    return x < y;
  case arith::CmpIPredicate::ule:
    return x <= y;
  case arith::CmpIPredicate::ugt:
    return x > y;
  case arith::CmpIPredicate::uge:
    return x >= y;
  }
  throw Unknown("the interpreter does not know the predicate");
}

static_assert(uint64_t(arith::CmpIPredicate::uge) == uint64_t(LLVM::ICmpPredicate::uge) &&
              uint64_t(arith::CmpIPredicate::slt) == uint64_t(LLVM::ICmpPredicate::slt) &&
              uint64_t(arith::CmpIPredicate::sgt) == uint64_t(LLVM::ICmpPredicate::sgt) &&
              uint64_t(arith::CmpIPredicate::ult) == uint64_t(LLVM::ICmpPredicate::ult) &&
              uint64_t(arith::CmpIPredicate::sge) == uint64_t(LLVM::ICmpPredicate::sge));

template <typename Op> void compare(Frame &frame, Operation *op) {
  auto predicate = static_cast<uint64_t>(cast<Op>(op).getPredicate());
  elementwise(frame, op, [&](const uint64_t *x, Element e, Element) { return holds(predicate, x[0], x[1], e.bits); });
}

void absolute(Frame &frame, Operation *op) {
  elementwise(frame, op, [](const uint64_t *x, Element e, Element) {
    return interpret::signedOf(x[0], e.bits) < 0 ? -x[0] : x[0];
  });
}

int64_t floorDivide(int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); }
int64_t ceilDivide(int64_t x, int64_t y) { return x / y + (x % y != 0 && (x < 0) == (y < 0)); }

} // namespace

void addIntegers(Table &table) {
  table["arith.constant"] = [](Frame &frame, Operation *op) {
    frame.set(op->getResult(0), frame.machine.constant(op, cast<arith::ConstantOp>(op).getValue()));
  };
  table["llvm.mlir.constant"] = [](Frame &frame, Operation *op) {
    frame.set(op->getResult(0), frame.machine.constant(op, cast<LLVM::ConstantOp>(op).getValue()));
  };
  table["llvm.mlir.zero"] = [](Frame &frame, Operation *op) {
    frame.set(op->getResult(0), Lanes(laneCount(op->getResult(0).getType()), 0));
  };
  // Any value would do; this one is seen where it should not be used.
  add(table, {"llvm.mlir.undef", "llvm.mlir.poison", "ub.poison"}, [](Frame &frame, Operation *op) {
    Type type = op->getResult(0).getType();
    frame.set(op->getResult(0), Lanes(laneCount(type), cut(0xa5a5a5a5a5a5a5a5, elementOf(type).bits)));
  });

  add(table, {"arith.addi", "llvm.add"}, unsignedOf([](uint64_t x, uint64_t y, unsigned) { return x + y; }));
  add(table, {"arith.subi", "llvm.sub"}, unsignedOf([](uint64_t x, uint64_t y, unsigned) { return x - y; }));
  add(table, {"arith.muli", "llvm.mul"}, unsignedOf([](uint64_t x, uint64_t y, unsigned) { return x * y; }));
  add(table, {"arith.andi", "llvm.and"}, unsignedOf([](uint64_t x, uint64_t y, unsigned) { return x & y; }));
  add(table, {"arith.ori", "llvm.or"}, unsignedOf([](uint64_t x, uint64_t y, unsigned) { return x | y; }));
  add(table, {"arith.xori", "llvm.xor"}, unsignedOf([](uint64_t x, uint64_t y, unsigned) { return x ^ y; }));
  add(table, {"arith.shli", "llvm.shl"},
      unsignedOf([](uint64_t x, uint64_t y, unsigned bits) { return y < bits ? x << y : 0; }));
  add(table, {"arith.shrui", "llvm.lshr"},
      unsignedOf([](uint64_t x, uint64_t y, unsigned bits) { return y < bits ? x >> y : 0; }));
  add(table, {"arith.shrsi", "llvm.ashr"}, unsignedOf([](uint64_t x, uint64_t y, unsigned bits) {
        return y < bits ? static_cast<uint64_t>(interpret::signedOf(x, bits) >> y) : 0;
      }));
  add(table, {"arith.divsi", "llvm.sdiv"}, divisionOf([](int64_t x, int64_t y) { return x / y; }));
  add(table, {"arith.remsi", "llvm.srem"}, divisionOf([](int64_t x, int64_t y) { return x % y; }));
  table["arith.floordivsi"] = divisionOf(floorDivide);
  table["arith.ceildivsi"] = divisionOf(ceilDivide);
  add(table, {"arith.divui", "llvm.udiv"}, unsignedDivisionOf([](uint64_t x, uint64_t y) { return x / y; }));
  add(table, {"arith.remui", "llvm.urem"}, unsignedDivisionOf([](uint64_t x, uint64_t y) { return x % y; }));
  table["arith.ceildivui"] = unsignedDivisionOf([](uint64_t x, uint64_t y) { return x / y + (x % y != 0); });
  add(table, {"arith.maxsi", "llvm.intr.smax"}, signedOf([](int64_t x, int64_t y) { return std::max(x, y); }));
  add(table, {"arith.minsi", "llvm.intr.smin"}, signedOf([](int64_t x, int64_t y) { return std::min(x, y); }));
  add(table, {"arith.maxui", "llvm.intr.umax"},
      unsignedOf([](uint64_t x, uint64_t y, unsigned) { return std::max(x, y); }));
  add(table, {"arith.minui", "llvm.intr.umin"},
      unsignedOf([](uint64_t x, uint64_t y, unsigned) { return std::min(x, y); }));
  add(table, {"math.absi", "llvm.intr.abs"}, absolute);
  table["arith.cmpi"] = compare<arith::CmpIOp>;
  table["llvm.icmp"] = compare<LLVM::ICmpOp>;
  add(table, {"arith.select", "llvm.select"}, [](Frame &frame, Operation *op) {
    elementwise(frame, op, [](const uint64_t *x, Element, Element) { return x[0] ? x[1] : x[2]; });
  });
}

} // namespace tilewright::interpret
