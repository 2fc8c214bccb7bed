//===- Math.cpp - elementary functions, rounding, powers ------------------===//
#include "../Registry.h"

#include <cmath>
#include <limits>

namespace tilewright::importer {
namespace {

/// A function of real numbers: integers are converted to f32 first.
template <typename Fn> Entry::Function real(Fn fn) {
  return [fn](Builder &b) -> Results {
    const Operand self = b.operand("self");
    return {b.pointwise(floatResultType(std::vector{self}), {self}, [&](X x) { return fn(x[0]); })};
  };
}

Entry::Function real(ScalarOp op) {
  return real([op](Ex x) { return x.unary(op); });
}

/// A function that keeps the dtype. Bool tensors are left to PyTorch.
template <typename Fn> Entry::Function sameType(Fn fn) {
  return [fn](Builder &b) -> Results {
    const Tensor self = b.tensor("self");
    if (self.dtype == DType::Bool)
      throw Unsupported("bool tensors");
    return {b.pointwise(self.dtype, {self}, [&](X x) { return fn(x[0]); })};
  };
}

/// Rounding leaves integers as they are.
Entry::Function rounding(ScalarOp op) {
  return sameType([op](Ex x) { return isFloat(x.type()) ? x.unary(op) : x; });
}

template <typename Fn> Entry::Function binaryReal(Fn fn) {
  return [fn](Builder &b) -> Results {
    const Operand self = b.operand("self"), other = b.operand("other");
    return {b.pointwise(floatResultType(std::vector{self, other}), {self, other}, [&](X x) { return fn(x[0], x[1]); })};
  };
}

Ex sign(Ex x) {
  if (isUnsigned(x.type()))
    return select(equal(x, 0), x.like(0), x.like(1));
  // Neither of the two for NaN, which PyTorch maps to 0.
  return select(x > 0, x.like(1), select(x < 0, x.like(-1), x.like(0)));
}

Ex sgnOfReal(Ex x) { return isFloat(x.type()) ? select(isNaN(x), x, sign(x)) : sign(x); }

//===----------------------------------------------------------------------===//
// Powers
//===----------------------------------------------------------------------===//

Ex integerPower(Ex x, int64_t exponent) {
  Ex result = x.like(1);
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1)
      result = result * x;
    if (exponent > 1)
      x = x * x;
  }
  return result;
}

/// The exponents that ATen computes without pow (PowKernel.cpp).
Ex floatPower(Ex x, double exponent) {
  if (exponent == 0)
    return x.like(1.0);
  if (exponent == 1)
    return x;
  if (exponent == 0.5)
    return sqrt(x);
  if (exponent == -0.5)
    return 1.0 / sqrt(x);
  if (exponent == 2)
    return x * x;
  if (exponent == 3)
    return x * x * x;
  if (exponent == -1)
    return 1.0 / x;
  if (exponent == -2)
    return 1.0 / (x * x);
  return x.binary(ScalarOp::Pow, x.like(exponent));
}

Results power(Builder &b) {
  const Operand self = b.operand("self"), exponent = b.operand("exponent");
  const DType common = resultType({self, exponent});
  const std::optional<double> known = exponent.scalar() ? exponent.scalar()->constant() : std::nullopt;
  if (isFloat(common)) {
    return {b.pointwise(common, {self, exponent},
                        [&](X x) { return known ? floatPower(x[0], *known) : x[0].binary(ScalarOp::Pow, x[1]); })};
  }
  if (!known || common == DType::Bool)
    throw Unsupported("integer powers with an exponent that is not a constant");
  if (*known < 0)
    throw Invalid("Integers to negative integer powers are not allowed.");
  return {b.pointwise(common, {self}, [&](X x) { return integerPower(x[0], static_cast<int64_t>(*known)); })};
}

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

Ex logaddexp(Ex a, Ex b, ScalarOp exp, double scale) {
  const Ex larger = max(a, b);
  // Equal infinities would give inf - inf.
  const Ex same = equal(a, b) & equal(abs(a), std::numeric_limits<double>::infinity());
  const Ex grown = log1p((-abs(a - b)).unary(exp)) * scale;
  return select(same, a, larger + grown);
}

Ex hypot(Ex a, Ex b) {
  const Ex x = abs(a), y = abs(b);
  const Ex large = max(x, y), small = min(x, y);
  const Ex ratio = small / large;
  const Ex length = large * sqrt(1 + ratio * ratio);
  // Infinity wins over NaN; two zeros have no ratio.
  const Ex infinite =
      equal(x, std::numeric_limits<double>::infinity()) | equal(y, std::numeric_limits<double>::infinity());
  return select(infinite, std::numeric_limits<double>::infinity(), select(equal(large, 0), large, length));
}

Ex xlogy(Ex x, Ex y, bool log1pOf) {
  const Ex value = x * (log1pOf ? log1p(y) : log(y));
  return select(isNaN(y), y, select(equal(x, 0), x.like(0), value));
}

Ex sinc(Ex x) {
  const Ex angle = x * M_PI;
  return select(equal(x, 0), x.like(1), angle.unary(ScalarOp::Sin) / angle);
}

Results logit(Builder &b) {
  const Operand self = b.operand("self");
  const std::optional<double> eps = b.optionalNumber("eps");
  return {b.pointwise(floatResultType(std::vector{self}), {self}, [&](X x) {
    Ex z = x[0];
    if (eps && *eps >= 0)
      z = select(z < *eps, *eps, select(z > 1 - *eps, z.like(1 - *eps), z));
    return log(z / (1 - z));
  })};
}

Results heaviside(Builder &b) {
  const Tensor self = b.tensor("self"), values = b.tensor("values");
  if (self.dtype != values.dtype)
    throw Invalid("heaviside is not yet implemented for tensors with different dtypes.");
  if (self.dtype == DType::Bool)
    throw Unsupported("bool tensors");
  return {b.pointwise(self.dtype, {self, values},
                      [](X x) { return select(equal(x[0], 0), x[1], select(x[0] < 0, x[0].like(0), x[0].like(1))); })};
}

Results nanToNum(Builder &b) {
  const Tensor self = b.tensor("self");
  if (!isFloat(self.dtype))
    return {b.copy(self)};
  // The largest finite value of the tensor's own type.
  const double largest = self.dtype == DType::F64    ? std::numeric_limits<double>::max()
                         : self.dtype == DType::F32  ? std::numeric_limits<float>::max()
                         : self.dtype == DType::BF16 ? 0x1.fep127
                                                     : 65504.0;
  const double nan = b.optionalNumber("nan").value_or(0), high = b.optionalNumber("posinf").value_or(largest);
  const double low = b.optionalNumber("neginf").value_or(-largest), inf = std::numeric_limits<double>::infinity();
  return {b.pointwise(self.dtype, {self}, [&](X x) {
    return select(isNaN(x[0]), nan, select(equal(x[0], inf), high, select(equal(x[0], -inf), low, x[0])));
  })};
}

Results roundDecimals(Builder &b) {
  const Tensor self = b.tensor("self");
  const int64_t decimals = b.integer("decimals");
  if (!isFloat(self.dtype))
    throw Unsupported("rounding integers to decimals");
  return {b.pointwise(self.dtype, {self}, [&](X x) {
    if (decimals == 0)
      return x[0].unary(ScalarOp::Round);
    const double ten = std::pow(10.0, std::abs(static_cast<double>(decimals)));
    return decimals > 0 ? (x[0] * ten).unary(ScalarOp::Round) / ten : (x[0] / ten).unary(ScalarOp::Round) * ten;
  })};
}

Results copysign(Builder &b) {
  const Operand self = b.operand("self"), other = b.operand("other");
  return {b.pointwise(floatResultType(std::vector{self, other}), {self, other},
                      [](X x) { return x[0].binary(ScalarOp::CopySign, x[1]); })};
}

} // namespace

void addMath(Registry &r) {
  r.add({"aten.exp.default"}, "self", real(ScalarOp::Exp));
  r.add({"aten.exp2.default"}, "self", real(ScalarOp::Exp2));
  r.add({"aten.expm1.default"}, "self", real(ScalarOp::Expm1));
  r.add({"aten.log.default"}, "self", real(ScalarOp::Log));
  r.add({"aten.log2.default"}, "self", real(ScalarOp::Log2));
  r.add({"aten.log10.default"}, "self", real(ScalarOp::Log10));
  r.add({"aten.log1p.default"}, "self", real(ScalarOp::Log1p));
  r.add({"aten.sqrt.default"}, "self", real(ScalarOp::Sqrt));
  r.add({"aten.rsqrt.default"}, "self", real(ScalarOp::Rsqrt));
  r.add({"aten.sin.default"}, "self", real(ScalarOp::Sin));
  r.add({"aten.cos.default"}, "self", real(ScalarOp::Cos));
  r.add({"aten.tan.default"}, "self", real(ScalarOp::Tan));
  r.add({"aten.sinh.default"}, "self", real(ScalarOp::Sinh));
  r.add({"aten.cosh.default"}, "self", real(ScalarOp::Cosh));
  r.add({"aten.tanh.default"}, "self", real(ScalarOp::Tanh));
  r.add({"aten.asin.default", "aten.arcsin.default"}, "self", real(ScalarOp::Asin));
  r.add({"aten.acos.default", "aten.arccos.default"}, "self", real(ScalarOp::Acos));
  r.add({"aten.atan.default", "aten.arctan.default"}, "self", real(ScalarOp::Atan));
  r.add({"aten.asinh.default", "aten.arcsinh.default"}, "self", real(ScalarOp::Asinh));
  r.add({"aten.acosh.default", "aten.arccosh.default"}, "self", real(ScalarOp::Acosh));
  r.add({"aten.atanh.default", "aten.arctanh.default"}, "self", real(ScalarOp::Atanh));
  r.add({"aten.erf.default", "aten.special_erf.default"}, "self", real(ScalarOp::Erf));
  r.add({"aten.erfc.default", "aten.special_erfc.default"}, "self", real(ScalarOp::Erfc));
  r.add({"aten.reciprocal.default"}, "self", real([](Ex x) { return 1.0 / x; }));
  r.add({"aten.sigmoid.default"}, "self", real([](Ex x) { return 1.0 / (1.0 + exp(-x)); }));
  r.add({"aten.sinc.default"}, "self", real(sinc));
  r.add({"aten.rad2deg.default"}, "self", real([](Ex x) { return x * (180.0 / M_PI); }));
  r.add({"aten.deg2rad.default"}, "self", real([](Ex x) { return x * (M_PI / 180.0); }));
  r.add({"aten.logit.default"}, "self, eps=None", logit);

  r.add({"aten.neg.default"}, "self", sameType([](Ex x) { return -x; }));
  r.add({"aten.abs.default"}, "self", sameType([](Ex x) { return isUnsigned(x.type()) ? x : abs(x); }));
  r.add({"aten.square.default"}, "self", sameType([](Ex x) { return x * x; }));
  r.add({"aten.sign.default"}, "self", sameType(sign));
  r.add({"aten.sgn.default"}, "self", sameType(sgnOfReal));
  r.add({"aten.floor.default"}, "self", rounding(ScalarOp::Floor));
  r.add({"aten.ceil.default"}, "self", rounding(ScalarOp::Ceil));
  r.add({"aten.trunc.default", "aten.fix.default"}, "self", rounding(ScalarOp::Trunc));
  r.add({"aten.round.default"}, "self", rounding(ScalarOp::Round));
  r.add({"aten.round.decimals"}, "self, decimals", roundDecimals);
  r.add({"aten.frac.default"}, "self", sameType([](Ex x) { return x - trunc(x); }));
  r.add({"aten.nan_to_num.default"}, "self, nan=None, posinf=None, neginf=None", nanToNum);

  r.add({"aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar"}, "self, exponent", power);
  r.add({"aten.atan2.default", "aten.arctan2.default"}, "self, other",
        binaryReal([](Ex a, Ex b) { return a.binary(ScalarOp::Atan2, b); }));
  r.add({"aten.copysign.Tensor", "aten.copysign.Scalar"}, "self, other", copysign);
  r.add({"aten.hypot.default"}, "self, other", binaryReal(hypot));
  r.add({"aten.logaddexp.default"}, "self, other",
        binaryReal([](Ex a, Ex b) { return logaddexp(a, b, ScalarOp::Exp, 1.0); }));
  r.add({"aten.logaddexp2.default"}, "self, other",
        binaryReal([](Ex a, Ex b) { return logaddexp(a, b, ScalarOp::Exp2, 1 / M_LN2); }));
  r.add({"aten.xlogy.Tensor", "aten.xlogy.Scalar_Self", "aten.xlogy.Scalar_Other"}, "self, other",
        binaryReal([](Ex a, Ex b) { return xlogy(a, b, false); }));
  r.add({"aten.special_xlog1py.default"}, "self, other", binaryReal([](Ex a, Ex b) { return xlogy(a, b, true); }));
  r.add({"aten.heaviside.default"}, "self, values", heaviside);
}

} // namespace tilewright::importer
