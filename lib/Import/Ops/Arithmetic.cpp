//===- Arithmetic.cpp - sums, products, quotients, extrema, bits ----------===//
#include "../Registry.h"

#include <cmath>

namespace tilewright::importer {
namespace {

/// a + alpha * b in the compute type.
Ex scaled(Builder &b, Ex x, const Scalar &alpha) { return alpha.isConstant(1) ? x : x * b.value(alpha, x.type()); }

void checkAlpha(DType common, const Scalar &alpha) {
  if (!isFloat(common) && alpha.category() == DType::F64)
    throw Invalid("For integral input tensors, argument alpha must not be a floating point number.");
}

Results add(Builder &b) {
  const Operand self = b.operand("self"), other = b.operand("other");
  const Scalar alpha = b.scalar("alpha");
  const DType common = resultType({self, other});
  checkAlpha(common, alpha);
  return {b.pointwise(common, {self, other}, [&](X x) {
    // With bool, + is "or" and alpha is "and".
    if (common == DType::Bool)
      return x[0] | (x[1] & b.value(alpha, DType::Bool));
    return x[0] + scaled(b, x[1], alpha);
  })};
}

Results subtract(Builder &b, const char *left, const char *right) {
  const Operand self = b.operand(left), other = b.operand(right);
  const Scalar alpha = b.scalar("alpha");
  const DType common = resultType({self, other});
  checkAlpha(common, alpha);
  if (common == DType::Bool)
    throw Invalid("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
                  "`logical_xor()` operator instead.");
  return {b.pointwise(common, {self, other}, [&](X x) { return x[0] - scaled(b, x[1], alpha); })};
}

Results multiply(Builder &b) {
  const Operand self = b.operand("self"), other = b.operand("other");
  const DType common = resultType({self, other});
  return {b.pointwise(common, {self, other}, [&](X x) { return common == DType::Bool ? x[0] & x[1] : x[0] * x[1]; })};
}

//===----------------------------------------------------------------------===//
// Division
//===----------------------------------------------------------------------===//

/// The remainder with the sign of the divisor.
Ex floatRemainder(Ex a, Ex b) {
  const Ex mod = a.binary(ScalarOp::FMod, b);
  const Ex otherSide = notEqual(mod, 0) & ((b < 0) ^ (mod < 0));
  return select(otherSide, mod + b, mod);
}

/// Python's floor division for floats: c10/util/generic_math.h, div_floor_floating. Not floor(a / b), whose quotient
/// may have been rounded up to the next integer.
Ex floatFloorDivide(Ex a, Ex b) {
  const Ex mod = a.binary(ScalarOp::FMod, b);
  const Ex exact = (a - mod) / b;
  const Ex div = select(notEqual(mod, 0) & ((b < 0) ^ (mod < 0)), exact - 1, exact);
  const Ex down = floor(div);
  const Ex nearest = select(div - down > 0.5, down + 1, down);
  const Ex quotient = a / b;
  const Ex signedZero = div.like(0.0).binary(ScalarOp::CopySign, quotient);
  return select(equal(b, 0), quotient, select(notEqual(div, 0), nearest, signedZero));
}

Results trueDivide(Builder &b) {
  const Operand self = b.operand("self"), other = b.operand("other");
  return {b.pointwise(floatResultType(std::vector{self, other}), {self, other}, [](X x) { return x[0] / x[1]; })};
}

Results roundingDivide(Builder &b, bool floors) {
  const Operand self = b.operand("self"), other = b.operand("other");
  const DType common = resultType({self, other});
  if (common == DType::Bool)
    throw Unsupported("division of bool tensors");
  return {b.pointwise(common, {self, other}, [&](X x) {
    if (isFloat(common))
      return floors ? floatFloorDivide(x[0], x[1]) : trunc(x[0] / x[1]);
    return x[0].binary(floors ? ScalarOp::FloorDiv : ScalarOp::Div, b.divisor(x[1]));
  })};
}

Results divideWithMode(Builder &b) {
  const std::string mode = b.text("rounding_mode");
  if (mode.empty())
    return trueDivide(b);
  if (mode != "floor" && mode != "trunc")
    throw Invalid("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '" + mode + "'");
  return roundingDivide(b, mode == "floor");
}

Results remainder(Builder &b) {
  const Operand self = b.operand("self"), other = b.operand("other");
  const DType common = resultType({self, other});
  if (common == DType::Bool)
    throw Unsupported("remainder of bool tensors");
  return {b.pointwise(common, {self, other}, [&](X x) {
    return isFloat(common) ? floatRemainder(x[0], x[1]) : x[0].binary(ScalarOp::Mod, b.divisor(x[1]));
  })};
}

Results fmod(Builder &b) {
  const Operand self = b.operand("self"), other = b.operand("other");
  const DType common = resultType({self, other});
  if (common == DType::Bool)
    throw Unsupported("fmod of bool tensors");
  return {b.pointwise(common, {self, other}, [&](X x) { return x[0].binary(ScalarOp::FMod, b.divisor(x[1])); })};
}

//===----------------------------------------------------------------------===//
// Extrema and interpolation
//===----------------------------------------------------------------------===//

Entry::Function extremum(ScalarOp op) {
  return [op](Builder &b) -> Results {
    const Operand self = b.operand("self"), other = b.operand("other");
    const DType common = resultType({self, other});
    const bool isMax = op == ScalarOp::Max || op == ScalarOp::FMax;
    return {b.pointwise(common, {self, other}, [&](X x) {
      if (common == DType::Bool)
        return isMax ? x[0] | x[1] : x[0] & x[1];
      // Without fractions there is no NaN, and the plain forms do.
      const ScalarOp plain = isMax ? ScalarOp::Max : ScalarOp::Min;
      return x[0].binary(isFloat(common) ? op : plain, x[1]);
    })};
  };
}

Results clamp(Builder &b, const char *low, const char *high) {
  std::vector<Operand> operands = {b.operand("self")};
  const auto add = [&](const char *name) {
    if (!name || b.isNone(name))
      return false;
    operands.push_back(b.operand(name));
    return true;
  };
  const bool hasLow = add(low), hasHigh = add(high);
  if (!hasLow && !hasHigh)
    throw Invalid("torch.clamp: At least one of 'min' or 'max' must not be None");
  const DType common = resultType(operands);
  if (common == DType::Bool)
    throw Unsupported("clamp of bool tensors");
  return {b.pointwise(common, operands, [&](X x) {
    Ex y = x[0];
    if (hasLow)
      y = max(y, x[1].to(common).to(y.type()));
    if (hasHigh)
      y = min(y, x.back().to(common).to(y.type()));
    return y;
  })};
}

Results addcmul(Builder &b, bool divides) {
  const Operand self = b.operand("self"), t1 = b.operand("tensor1"), t2 = b.operand("tensor2");
  const Scalar value = b.scalar("value");
  const DType common = resultType({self, t1, t2});
  if (!isFloat(common) && (divides || common == DType::Bool))
    throw Unsupported("addcdiv and addcmul of these dtypes");
  checkAlpha(common, value);
  return {b.pointwise(common, {self, t1, t2}, [&](X x) {
    const Ex first = scaled(b, x[1], value);
    return x[0] + (divides ? first / x[2] : first * x[2]);
  })};
}

/// Both halves of the formula, so that the ends are exact (ATen/native/Lerp.h).
Ex lerp(Ex start, Ex end, Ex weight) {
  return select(abs(weight) < 0.5, start + weight * (end - start), end - (end - start) * (1 - weight));
}

Results lerpEntry(Builder &b) {
  const Operand self = b.operand("self"), end = b.operand("end"), weight = b.operand("weight");
  const DType common = self.tensor()->dtype;
  if (!isFloat(common))
    throw Invalid("lerp needs floating point tensors");
  return {b.pointwise(common, {self, end, weight}, [](X x) { return lerp(x[0], x[1], x[2]); })};
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

Entry::Function bitwise(ScalarOp op) {
  return [op](Builder &b) -> Results {
    const Operand self = b.operand("self"), other = b.operand("other");
    const DType common = resultType({self, other});
    if (isFloat(common))
      throw Invalid("bitwise operators are not defined for floating point tensors");
    if (common == DType::Bool && (op == ScalarOp::Shl || op == ScalarOp::Shr))
      throw Invalid("shifts are not defined for bool tensors");
    return {b.pointwise(common, {self, other}, [&](X x) {
      if (op != ScalarOp::Shl && op != ScalarOp::Shr)
        return x[0].binary(op, x[1]);
      // A shift by the width or more, or by less than nothing, gives what is left when all bits are out.
      const int64_t width = 8 * static_cast<int64_t>(sizeOf(common));
      const Ex outside = isUnsigned(common) ? x[1] >= width : (x[1] < 0) | (x[1] >= width);
      if (op == ScalarOp::Shl)
        return select(outside, x[0].like(0), x[0].binary(op, select(outside, x[1].like(0), x[1])));
      const Ex all = isUnsigned(common) ? x[0].like(0) : select(x[0] < 0, x[0].like(-1), x[0].like(0));
      return select(outside, all, x[0].binary(op, select(outside, x[1].like(0), x[1])));
    })};
  };
}

Results bitwiseNot(Builder &b) {
  const Tensor self = b.tensor("self");
  if (isFloat(self.dtype))
    throw Invalid("bitwise_not is not defined for floating point tensors");
  return {b.pointwise(self.dtype, {self}, [](X x) { return ~x[0]; })};
}

} // namespace

void addArithmetic(Registry &r) {
  r.add({"aten.add.Tensor", "aten.add.Scalar"}, "self, other, alpha=1", add);
  r.add({"aten.sub.Tensor", "aten.sub.Scalar"}, "self, other, alpha=1",
        [](Builder &b) { return subtract(b, "self", "other"); });
  r.add({"aten.rsub.Tensor", "aten.rsub.Scalar"}, "self, other, alpha=1",
        [](Builder &b) { return subtract(b, "other", "self"); });
  r.add({"aten.mul.Tensor", "aten.mul.Scalar", "aten.multiply.Tensor"}, "self, other", multiply);
  r.add({"aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor", "aten.true_divide.Scalar"}, "self, other",
        trueDivide);
  r.add({"aten.div.Tensor_mode", "aten.div.Scalar_mode"}, "self, other, rounding_mode", divideWithMode);
  r.add({"aten.floor_divide.default", "aten.floor_divide.Scalar"}, "self, other",
        [](Builder &b) { return roundingDivide(b, true); });
  r.add({"aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor"}, "self, other", remainder);
  r.add({"aten.fmod.Tensor", "aten.fmod.Scalar"}, "self, other", fmod);

  r.add({"aten.maximum.default", "aten.max.other"}, "self, other", extremum(ScalarOp::Max));
  r.add({"aten.minimum.default", "aten.min.other"}, "self, other", extremum(ScalarOp::Min));
  r.add({"aten.fmax.default"}, "self, other", extremum(ScalarOp::FMax));
  r.add({"aten.fmin.default"}, "self, other", extremum(ScalarOp::FMin));
  r.add({"aten.clamp.default", "aten.clamp.Tensor"}, "self, min=None, max=None",
        [](Builder &b) { return clamp(b, "min", "max"); });
  r.add({"aten.clamp_min.default", "aten.clamp_min.Tensor"}, "self, min",
        [](Builder &b) { return clamp(b, "min", nullptr); });
  r.add({"aten.clamp_max.default", "aten.clamp_max.Tensor"}, "self, max",
        [](Builder &b) { return clamp(b, nullptr, "max"); });
  r.add({"aten.addcmul.default"}, "self, tensor1, tensor2, value=1", [](Builder &b) { return addcmul(b, false); });
  r.add({"aten.addcdiv.default"}, "self, tensor1, tensor2, value=1", [](Builder &b) { return addcmul(b, true); });
  r.add({"aten.lerp.Scalar", "aten.lerp.Tensor"}, "self, end, weight", lerpEntry);

  r.add({"aten.bitwise_and.Tensor", "aten.bitwise_and.Scalar", "aten.bitwise_and.Scalar_Tensor", "aten.__and__.Tensor",
         "aten.__and__.Scalar"},
        "self, other", bitwise(ScalarOp::And));
  r.add({"aten.bitwise_or.Tensor", "aten.bitwise_or.Scalar", "aten.bitwise_or.Scalar_Tensor", "aten.__or__.Tensor",
         "aten.__or__.Scalar"},
        "self, other", bitwise(ScalarOp::Or));
  r.add({"aten.bitwise_xor.Tensor", "aten.bitwise_xor.Scalar", "aten.bitwise_xor.Scalar_Tensor", "aten.__xor__.Tensor",
         "aten.__xor__.Scalar"},
        "self, other", bitwise(ScalarOp::Xor));
  r.add({"aten.bitwise_left_shift.Tensor", "aten.bitwise_left_shift.Tensor_Scalar",
         "aten.bitwise_left_shift.Scalar_Tensor", "aten.__lshift__.Tensor", "aten.__lshift__.Scalar"},
        "self, other", bitwise(ScalarOp::Shl));
  r.add({"aten.bitwise_right_shift.Tensor", "aten.bitwise_right_shift.Tensor_Scalar",
         "aten.bitwise_right_shift.Scalar_Tensor", "aten.__rshift__.Tensor", "aten.__rshift__.Scalar"},
        "self, other", bitwise(ScalarOp::Shr));
  r.add({"aten.bitwise_not.default"}, "self", bitwiseNot);
}

} // namespace tilewright::importer
