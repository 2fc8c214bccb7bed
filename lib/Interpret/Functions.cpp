//===- Functions.cpp - elementary functions --------------------------------===//
//
// libm's in double, rounded once to the type: right to half a unit in the last place of f32 and shorter types, and for
// f64 the very functions that compiled code calls.
//
//===----------------------------------------------------------------------===//

#include "Elementwise.h"

#include "tilewright/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/SymbolTable.h"

#include <limits>

using namespace mlir;

namespace tilewright::interpret {

namespace {

using Function = double (*)(const double *x);

/// By the names that libm has.
const llvm::StringMap<Function> &functions() {
#define UNARY(name) {#name, [](const double *x) { return std::name(x[0]); }}
#define BINARY(name) {#name, [](const double *x) { return std::name(x[0], x[1]); }}
  static const llvm::StringMap<Function> all = {
      UNARY(exp),    UNARY(exp2),   UNARY(expm1), UNARY(log),    UNARY(log2),  UNARY(log10), UNARY(log1p),
      UNARY(sin),    UNARY(cos),    UNARY(tan),   UNARY(asin),   UNARY(acos),  UNARY(atan),  UNARY(sinh),
      UNARY(cosh),   UNARY(tanh),   UNARY(asinh), UNARY(acosh),  UNARY(atanh), UNARY(erf),   UNARY(erfc),
      UNARY(lgamma), UNARY(tgamma), UNARY(cbrt),  BINARY(atan2), BINARY(fmod), BINARY(pow)};
#undef UNARY
#undef BINARY
  return all;
}

/// Freedom::functions: formulas of at most 2 units in the last place.
float moved(Machine &machine, float result) {
  if (!machine.options.freedom.functions || !std::isfinite(result) || result == 0)
    return result;
  int64_t steps = machine.pick(-2, 2);
  for (int64_t i = 0; i < std::abs(steps); ++i)
    result = std::nextafter(result, steps > 0 ? INFINITY : -INFINITY);
  return result;
}

void apply(Frame &frame, Operation *op, Function function) {
  const size_t count = op->getNumOperands();
  elementwise(frame, op, [&](const uint64_t *bits, Element e, Element) {
    double x[2] = {};
    for (size_t k = 0; k < count; ++k)
      x[k] = doubleOf(e, bits[k]);
    double result = function(x);
    return e.kind == Element::F64 ? bitsOf(e, result) : bitsOf(e, moved(frame.machine, static_cast<float>(result)));
  });
}

/// A function of the module, or one of libm's that it declares.
void call(Frame &frame, Operation *op) {
  auto call = cast<LLVM::CallOp>(op);
  if (!call.getCallee())
    throw Unknown("the interpreter does not know calls of pointers");
  auto callee =
      dyn_cast_if_present<LLVM::LLVMFuncOp>(SymbolTable::lookupSymbolIn(frame.machine.module, *call.getCallee()));
  if (!callee)
    throw Unknown("the module has no function " + call.getCallee()->str());
  if (callee.isExternal()) {
    auto found = functions().find(*call.getCallee());
    if (found == functions().end())
      throw Unknown("the interpreter does not know the function " + call.getCallee()->str());
    apply(frame, op, found->second);
    return;
  }
  std::vector<Lanes> arguments;
  for (Value operand : op->getOperands())
    arguments.push_back(frame.get(operand));
  std::vector<Lanes> results = frame.machine.callFunction(callee.getBody(), arguments);
  for (auto [result, lanes] : llvm::zip_equal(op->getResults(), results))
    frame.set(result, std::move(lanes));
}

//===----------------------------------------------------------------------===//
// Intrinsics of the processor
//===----------------------------------------------------------------------===//

/// x * 2^floor(n) (Intel SDM, VSCALEFPS); all lanes are on.
void scalef(Frame &frame, Operation *op) {
  const Lanes &x = frame.get(op->getOperand(0)), &n = frame.get(op->getOperand(1));
  Element f32{Element::F32, 32};
  Lanes result(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    float a = singleOf(f32, x[i]), b = singleOf(f32, n[i]);
    float scaled;
    if (std::isnan(a) || std::isnan(b))
      scaled = std::numeric_limits<float>::quiet_NaN();
    else if (std::isinf(b))
      scaled = b > 0 ? (a == 0 ? std::numeric_limits<float>::quiet_NaN() : std::copysign(INFINITY, a))
                     : (std::isinf(a) ? std::numeric_limits<float>::quiet_NaN() : std::copysign(0.0f, a));
    else
      scaled = static_cast<float>(
          std::ldexp(static_cast<double>(a), static_cast<int>(std::clamp(std::floor(b), -400.0f, 400.0f))));
    result[i] = bitsOf(f32, scaled);
  }
  frame.set(op->getResult(0), std::move(result));
}

/// Lane i is entry index[i] mod 16.
void permute(Frame &frame, Operation *op) {
  const Lanes &entries = frame.get(op->getOperand(0)), &index = frame.get(op->getOperand(1));
  Lanes result(index.size());
  for (size_t i = 0; i < index.size(); ++i)
    result[i] = entries[index[i] % entries.size()];
  frame.set(op->getResult(0), std::move(result));
}

/// Intel SDM, VDPBF16PS: the odd product is added first, then the even one, both fused; denormals count as zero and
/// become zero.
void dotBf16(Frame &frame, Operation *op) {
  const Lanes &sums = frame.get(op->getOperand(0)), &a = frame.get(op->getOperand(1)),
              &b = frame.get(op->getOperand(2));
  Element f32{Element::F32, 32}, bf16{Element::BF16, 16};
  auto flushed = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; };
  Lanes result(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    float sum = flushed(singleOf(f32, sums[i]));
    for (size_t k : {2 * i + 1, 2 * i})
      sum = flushed(std::fma(flushed(singleOf(bf16, a[k])), flushed(singleOf(bf16, b[k])), sum));
    result[i] = bitsOf(f32, sum);
  }
  frame.set(op->getResult(0), std::move(result));
}

void intrinsic(Frame &frame, Operation *op) {
  static const llvm::StringMap<void (*)(Frame &, Operation *)> known = {
      {"llvm.x86.avx512.mask.scalef.ps.512", scalef},
      {"llvm.x86.avx512.permvar.sf.512", permute},
      {"llvm.x86.avx512bf16.dpbf16ps.512", dotBf16},
      {"llvm.x86.sse.sfence", [](Frame &, Operation *) {}}};
  StringRef name = cast<LLVM::CallIntrinsicOp>(op).getIntrin();
  auto found = known.find(name);
  if (found == known.end())
    throw Unknown("the interpreter does not know the intrinsic " + name.str());
  found->second(frame, op);
}

} // namespace

void addFunctions(Table &table) {
  for (const char *name :
       {"exp",  "exp2", "expm1", "log",  "log2", "log10", "log1p", "sin",   "cos", "tan",  "asin",
        "acos", "atan", "sinh",  "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "cbrt", "atan2"}) {
    Function function = functions().at(name);
    table[std::string("math.") + name] = [function](Frame &frame, Operation *op) { apply(frame, op, function); };
  }
  table["math.powf"] = [](Frame &frame, Operation *op) { apply(frame, op, functions().at("pow")); };
  table["tile.math"] = [](Frame &frame, Operation *op) {
    apply(frame, op, functions().at(tile::stringifyFunction(cast<tile::MathOp>(op).getFunction())));
  };
}

void addCalls(Table &table) {
  table["llvm.call"] = call;
  table["llvm.call_intrinsic"] = intrinsic;
}

} // namespace tilewright::interpret
