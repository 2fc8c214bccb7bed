//===- Floats.cpp - floating-point arithmetic ------------------------------===//
//
// f64 in double; f32, bf16 and f16 in float, rounded once to their type.
//
//===----------------------------------------------------------------------===//

#include "Elementwise.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <limits>

using namespace mlir;

namespace tilewright::interpret {

namespace {

/// Freedom::rounding: another implementation may have rounded what is not exact the other way, twice or not at all.
template <typename T, typename Wide> T moved(Machine &machine, T result, Wide exact) {
  if (!machine.options.freedom.rounding || Wide(result) == exact || !std::isfinite(result))
    return result;
  int64_t direction = machine.pick(-1, 1);
  constexpr T inf = std::numeric_limits<T>::infinity();
  return direction ? std::nextafter(result, direction > 0 ? inf : -inf) : result;
}

/// fn(x) for an array x of the operands as float or double, with a result of that type.
template <typename Fn> Handler floatOf(Fn fn) {
  return [fn](Frame &frame, Operation *op) {
    const size_t count = op->getNumOperands();
    elementwise(frame, op, [&](const uint64_t *x, Element e, Element) {
      if (e.kind == Element::F64) {
        double values[3];
        long double wide[3];
        for (size_t k = 0; k < count; ++k)
          wide[k] = values[k] = doubleOf(e, x[k]);
        return bitsOf(e, moved(frame.machine, fn(values), fn(wide)));
      }
      float values[3];
      double wide[3];
      for (size_t k = 0; k < count; ++k)
        wide[k] = values[k] = singleOf(e, x[k]);
      return bitsOf(e, moved(frame.machine, fn(values), fn(wide)));
    });
  };
}

#define FLOAT(expression)                                                                                              \
  floatOf([](const auto *x) -> std::remove_cvref_t<decltype(*x)> {                                                     \
    using T = std::remove_cvref_t<decltype(*x)>;                                                                       \
    (void)sizeof(T);                                                                                                   \
    return expression;                                                                                                 \
  })

/// NaN wins; +0 is above -0.
template <typename T> T propagatingMax(T x, T y) {
  if (std::isnan(x) || std::isnan(y))
    return std::numeric_limits<T>::quiet_NaN();
  return x == y ? (std::signbit(x) ? y : x) : x > y ? x : y;
}
template <typename T> T propagatingMin(T x, T y) { return -propagatingMax(-x, -y); }
/// NaN loses.
template <typename T> T ignoringMax(T x, T y) { return std::isnan(x) ? y : std::isnan(y) ? x : propagatingMax(x, y); }
template <typename T> T ignoringMin(T x, T y) { return -ignoringMax(-x, -y); }

/// On bits: the sign is the highest one in every type.
template <typename Fn> Handler signOf(Fn fn) {
  return [fn](Frame &frame, Operation *op) {
    elementwise(frame, op, [&](const uint64_t *x, Element e, Element) { return fn(x, uint64_t(1) << (e.bits - 1)); });
  };
}

/// By the number that arith and the LLVM dialect give a predicate: bits for equal, greater, less, unordered.
template <typename Op> void compare(Frame &frame, Operation *op) {
  static_assert(int(arith::CmpFPredicate::OEQ) == 1 && int(arith::CmpFPredicate::OGT) == 2 &&
                int(arith::CmpFPredicate::OLT) == 4 && int(arith::CmpFPredicate::UNO) == 14 &&
                int(LLVM::FCmpPredicate::olt) == 4 && int(LLVM::FCmpPredicate::uno) == 14);
  // arith and LLVM count UNO after UNE; all others are sums of the bits below.
  auto predicate = static_cast<int>(cast<Op>(op).getPredicate());
  constexpr int kOrdered = 7, kUno = 14, kTrue = 15;
  elementwise(frame, op, [&](const uint64_t *bits, Element e, Element) -> uint64_t {
    double x = doubleOf(e, bits[0]), y = doubleOf(e, bits[1]);
    bool unordered = std::isnan(x) || std::isnan(y);
    if (predicate == kUno)
      return unordered;
    if (predicate == kTrue)
      return 1;
    int relations = predicate <= kOrdered ? predicate : predicate - kOrdered; // equal 1, greater 2, less 4
    if (unordered)
      return predicate > kOrdered;
    return (relations & 1 && x == y) || (relations & 2 && x > y) || (relations & 4 && x < y);
  });
}

} // namespace

void addFloats(Table &table) {
  add(table, {"arith.addf", "llvm.fadd"}, FLOAT(x[0] + x[1]));
  add(table, {"arith.subf", "llvm.fsub"}, FLOAT(x[0] - x[1]));
  add(table, {"arith.mulf", "llvm.fmul"}, FLOAT(x[0] * x[1]));
  add(table, {"arith.divf", "llvm.fdiv"}, FLOAT(x[0] / x[1]));
  add(table, {"arith.remf"}, FLOAT(std::fmod(x[0], x[1])));
  add(table, {"math.fma", "llvm.intr.fma"}, FLOAT(std::fma(x[0], x[1], x[2])));
  add(table, {"math.sqrt", "llvm.intr.sqrt"}, FLOAT(std::sqrt(x[0])));
  add(table, {"math.rsqrt"}, FLOAT(T(1) / std::sqrt(x[0])));
  add(table, {"math.floor", "llvm.intr.floor"}, FLOAT(std::floor(x[0])));
  add(table, {"math.ceil", "llvm.intr.ceil"}, FLOAT(std::ceil(x[0])));
  add(table, {"math.trunc", "llvm.intr.trunc"}, FLOAT(std::trunc(x[0])));
  add(table, {"math.roundeven", "llvm.intr.roundeven"}, FLOAT(std::nearbyint(x[0])));
  add(table, {"math.round"}, FLOAT(std::round(x[0])));
  add(table, {"arith.maximumf"}, FLOAT(propagatingMax(x[0], x[1])));
  add(table, {"arith.minimumf"}, FLOAT(propagatingMin(x[0], x[1])));
  add(table, {"arith.maxnumf"}, FLOAT(ignoringMax(x[0], x[1])));
  add(table, {"arith.minnumf"}, FLOAT(ignoringMin(x[0], x[1])));
  add(table, {"arith.negf", "llvm.fneg"}, signOf([](const uint64_t *x, uint64_t sign) { return x[0] ^ sign; }));
  add(table, {"math.absf", "llvm.intr.fabs"}, signOf([](const uint64_t *x, uint64_t sign) { return x[0] & ~sign; }));
  add(table, {"math.copysign", "llvm.intr.copysign"},
      signOf([](const uint64_t *x, uint64_t sign) { return (x[0] & ~sign) | (x[1] & sign); }));
  table["arith.cmpf"] = compare<arith::CmpFOp>;
  table["llvm.fcmp"] = compare<LLVM::FCmpOp>;
}

} // namespace tilewright::interpret
