//===- Comparisons.cpp - comparisons, logic, choices ----------------------===//
#include "../Registry.h"

#include <limits>

namespace tilewright::importer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Both sides are rounded to the common type first: a bf16 tensor is compared with the bf16 nearest to a number.
template <typename Fn> Entry::Function comparison(Fn fn) {
  return [fn](Builder &b) -> Results {
    const Operand self = b.operand("self"), other = b.operand("other");
    const DType common = resultType({self, other});
    const auto rounded = [&](Ex x) { return x.to(common).to(x.type()); };
    return {b.pointwise(common, {self, other}, [&](X x) { return fn(rounded(x[0]), rounded(x[1])); }, DType::Bool)};
  };
}

template <typename Fn> Entry::Function logical(Fn fn) {
  return [fn](Builder &b) -> Results {
    const Tensor self = b.tensor("self"), other = b.tensor("other");
    return {b.pointwise(DType::Bool, {raw(self), raw(other)},
                        [&](X x) { return fn(x[0].to(DType::Bool), x[1].to(DType::Bool)); })};
  };
}

Results logicalNot(Builder &b) {
  return {b.pointwise(DType::Bool, {raw(b.tensor("self"))}, [](X x) { return ~x[0].to(DType::Bool); })};
}

/// A property of floats; `otherwise` is what integers are.
template <typename Fn> Entry::Function floatTest(Fn fn, bool otherwise) {
  return [fn, otherwise](Builder &b) -> Results {
    const Tensor self = b.tensor("self");
    return {b.pointwise(
        self.dtype, {self}, [&](X x) { return isFloat(self.dtype) ? fn(x[0]) : b.constantInt(otherwise, DType::Bool); },
        DType::Bool)};
  };
}

Results signBit(Builder &b) {
  const Tensor self = b.tensor("self");
  return {b.pointwise(
      self.dtype, {self},
      [&](X x) {
        if (isUnsigned(self.dtype))
          return b.constantInt(0, DType::Bool);
        if (!isFloat(self.dtype))
          return x[0] < 0;
        return x[0].bitcast(x[0].type() == DType::F64 ? DType::I64 : DType::I32) < 0;
      },
      DType::Bool)};
}

Results where(Builder &b) {
  const Tensor condition = b.tensor("condition");
  const Operand self = b.operand("self"), other = b.operand("other");
  if (condition.dtype != DType::Bool && condition.dtype != DType::U8)
    throw Invalid("where expected condition to be a boolean tensor, but got a tensor with dtype " +
                  std::string(nameOf(condition.dtype)));
  return {b.pointwise(resultType({self, other}), {raw(condition), self, other},
                      [](X x) { return select(x[0].to(DType::Bool), x[1], x[2]); })};
}

Results maskedFill(Builder &b) {
  const Tensor self = b.tensor("self"), mask = b.tensor("mask");
  const Operand value = b.operand("value");
  if (mask.dtype != DType::Bool)
    throw Invalid("masked_fill only supports boolean masks, but got mask with dtype " +
                  std::string(nameOf(mask.dtype)));
  if (value.tensor() && value.tensor()->rank() != 0)
    throw Invalid("masked_fill only supports a 0-dimensional value tensor, but got tensor with " +
                  std::to_string(value.tensor()->rank()) + " dimension(s).");
  return {b.pointwise(self.dtype, {self, raw(mask), value}, [](X x) { return select(x[1], x[2], x[0]); })};
}

Results isClose(Builder &b) {
  const Tensor self = b.tensor("self"), other = b.tensor("other");
  const double rtol = b.number("rtol"), atol = b.number("atol");
  const bool equalNaN = b.flag("equal_nan");
  if (!isFloat(self.dtype) || self.dtype != other.dtype)
    throw Unsupported("isclose of these dtypes");
  return {b.pointwise(
      self.dtype, {self, other},
      [&](X x) {
        const Ex difference = abs(x[0] - x[1]);
        Ex close = equal(x[0], x[1]) | ((difference < kInfinity) & (difference <= atol + abs(x[1] * rtol)));
        return equalNaN ? close | (isNaN(x[0]) & isNaN(x[1])) : close;
      },
      DType::Bool)};
}

} // namespace

void addComparisons(Registry &r) {
  r.add({"aten.eq.Tensor", "aten.eq.Scalar"}, "self, other", comparison([](Ex a, Ex b) { return equal(a, b); }));
  r.add({"aten.ne.Tensor", "aten.ne.Scalar"}, "self, other", comparison([](Ex a, Ex b) { return notEqual(a, b); }));
  r.add({"aten.lt.Tensor", "aten.lt.Scalar"}, "self, other", comparison([](Ex a, Ex b) { return a < b; }));
  r.add({"aten.le.Tensor", "aten.le.Scalar"}, "self, other", comparison([](Ex a, Ex b) { return a <= b; }));
  r.add({"aten.gt.Tensor", "aten.gt.Scalar"}, "self, other", comparison([](Ex a, Ex b) { return a > b; }));
  r.add({"aten.ge.Tensor", "aten.ge.Scalar"}, "self, other", comparison([](Ex a, Ex b) { return a >= b; }));

  r.add({"aten.logical_and.default"}, "self, other", logical([](Ex a, Ex b) { return a & b; }));
  r.add({"aten.logical_or.default"}, "self, other", logical([](Ex a, Ex b) { return a | b; }));
  r.add({"aten.logical_xor.default"}, "self, other", logical([](Ex a, Ex b) { return a ^ b; }));
  r.add({"aten.logical_not.default"}, "self", logicalNot);

  r.add({"aten.isnan.default"}, "self", floatTest([](Ex x) { return isNaN(x); }, false));
  r.add({"aten.isinf.default"}, "self", floatTest([](Ex x) { return equal(abs(x), kInfinity); }, false));
  r.add({"aten.isfinite.default"}, "self", floatTest([](Ex x) { return abs(x) < kInfinity; }, true));
  r.add({"aten.isposinf.default"}, "self", floatTest([](Ex x) { return equal(x, kInfinity); }, false));
  r.add({"aten.isneginf.default"}, "self", floatTest([](Ex x) { return equal(x, -kInfinity); }, false));
  r.add({"aten.signbit.default"}, "self", signBit);
  r.add({"aten.isclose.default"}, "self, other, rtol=1e-05, atol=1e-08, equal_nan=False", isClose);

  r.add({"aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar"},
        "condition, self, other", where);
  r.add({"aten.masked_fill.Scalar", "aten.masked_fill.Tensor"}, "self, mask, value", maskedFill);
}

} // namespace tilewright::importer
