//===- Creation.cpp - tensors from numbers and positions ------------------===//
#include "../Formats.h"
#include "../Registry.h"
#include "../Views.h"

#include <cmath>

namespace tilewright::importer {
namespace {

constexpr DType kDefault = DType::F32;

DType inferred(const Scalar &value) { return value.category() == DType::F64 ? kDefault : value.category(); }

Tensor filled(Builder &b, DType dtype, const Sizes &sizes, const Scalar &value, const Sizes *strides = nullptr) {
  for (const SizeExpr &size : sizes)
    b.require(loop::Check::LessEqual, 0, size, "a size cannot be negative, got {rhs}");
  const Tensor out = b.allocate(dtype, sizes, strides);
  b.store(out, [&] { return b.value(value, dtype); });
  return out;
}

/// NAME(size, dtype=...) with a fixed value. What PyTorch leaves undefined is 0 here.
Entry::Function constant(double value) {
  return [value](Builder &b) -> Results {
    return {filled(b, b.dtype("dtype").value_or(kDefault), b.sizes("size"), Scalar(value))};
  };
}

/// NAME_like(self, dtype=..., memory_format=...)
Entry::Function constantLike(double value) {
  return [value](Builder &b) -> Results {
    const Tensor self = b.tensor("self");
    const std::optional<Sizes> strides = formatStrides(b, self, b.text("memory_format"));
    return {filled(b, b.dtype("dtype").value_or(self.dtype), self.sizes, Scalar(value), strides ? &*strides : nullptr)};
  };
}

/// new_NAME(self, size, dtype=...)
Entry::Function newConstant(double value) {
  return [value](Builder &b) -> Results {
    return {filled(b, b.dtype("dtype").value_or(b.tensor("self").dtype), b.sizes("size"), Scalar(value))};
  };
}

Results full(Builder &b) {
  const Scalar value = b.scalar("fill_value");
  return {filled(b, b.dtype("dtype").value_or(inferred(value)), b.sizes("size"), value)};
}

Results fullLike(Builder &b) {
  const Tensor self = b.tensor("self");
  const std::optional<Sizes> strides = formatStrides(b, self, b.text("memory_format"));
  return {filled(b, b.dtype("dtype").value_or(self.dtype), self.sizes, b.scalar("fill_value"),
                 strides ? &*strides : nullptr)};
}

Results newFull(Builder &b) {
  return {filled(b, b.dtype("dtype").value_or(b.tensor("self").dtype), b.sizes("size"), b.scalar("fill_value"))};
}

Results emptyStrided(Builder &b, std::optional<DType> fallback) {
  const Sizes strides = b.sizes("stride");
  return {filled(b, b.dtype("dtype").value_or(*fallback), b.sizes("size"), Scalar(0), &strides)};
}

Results emptyPermuted(Builder &b) {
  const Sizes sizes = b.sizes("size");
  Sizes strides(sizes.size());
  SizeExpr stride = 1;
  const std::vector<int64_t> layout = b.integers("physical_layout");
  if (layout.size() != sizes.size())
    throw Invalid("Number of dimensions in size does not match the length of the physical_layout");
  for (size_t i = layout.size(); i-- > 0;) {
    const unsigned d = b.dimension(layout[i], sizes.size());
    strides[d] = stride;
    stride = stride * sizes[d];
  }
  return {filled(b, b.dtype("dtype").value_or(kDefault), sizes, Scalar(0), &strides)};
}

Results scalarTensor(Builder &b) {
  const Scalar value = b.scalar("s");
  return {filled(b, b.dtype("dtype").value_or(kDefault), {}, value)};
}

Results fill(Builder &b) {
  const Tensor self = b.tensor("self");
  const Operand value = b.operand("value");
  const Sizes strides = likeStrides(b.state, self);
  if (const Scalar *number = value.scalar())
    return {filled(b, self.dtype, self.sizes, *number, &strides)};
  if (value.tensor()->rank() != 0)
    throw Invalid("fill only supports 0-dimension value tensor but got tensor with " +
                  std::to_string(value.tensor()->rank()) + " dimensions.");
  return {b.copy(expand(b, *value.tensor(), self.sizes), &strides, self.dtype)};
}

Results zero(Builder &b) {
  const Tensor self = b.tensor("self");
  const Sizes strides = likeStrides(b.state, self);
  return {filled(b, self.dtype, self.sizes, Scalar(0), &strides)};
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

SizeExpr sizeOf(const Scalar &s) {
  if (const SizeExpr *e = std::get_if<SizeExpr>(&s.value))
    return *e;
  if (std::optional<double> c = s.constant(); c && s.category() != DType::F64)
    return static_cast<int64_t>(*c);
  throw Unsupported("a range whose bounds are only known at run time");
}

bool isFloatRange(const Scalar &start, const Scalar &end, const Scalar &step) {
  return start.category() == DType::F64 || end.category() == DType::F64 || step.category() == DType::F64;
}

/// ceil((end - start) / step)
SizeExpr rangeLength(Builder &b, const Scalar &start, const Scalar &end, const Scalar &step) {
  if (step.isConstant(0))
    throw Invalid("step must be nonzero");
  if (isFloatRange(start, end, step)) {
    if (!start.constant() || !end.constant() || !step.constant())
      throw Unsupported("a range of floats whose bounds are only known at run time");
    const double length = std::ceil((*end.constant() - *start.constant()) / *step.constant());
    if (!(length >= 0) || length > 9e18)
      throw Invalid("upper bound and lower bound inconsistent with step sign");
    return static_cast<int64_t>(length);
  }
  const SizeExpr first = sizeOf(start), last = sizeOf(end), stride = sizeOf(step);
  const std::optional<int64_t> known = stride.constant();
  if (!known)
    throw Unsupported("a range whose step is symbolic");
  const SizeExpr distance = *known > 0 ? last - first : first - last;
  b.require(loop::Check::LessEqual, 0, distance,
            "upper bound and lower bound inconsistent with step sign (the distance is {rhs})");
  return SizeExpr::ceildiv(distance, *known > 0 ? *known : -*known);
}

Tensor range(Builder &b, const Scalar &start, const Scalar &step, const SizeExpr &length, DType dtype) {
  const Tensor out = b.allocate(dtype, {length});
  // Floats are computed in f64, as ATen does.
  const DType compute = isFloat(dtype) ? DType::F64 : DType::I64;
  b.store(out, [&] { return b.value(start, compute) + b.index(0).to(compute) * b.value(step, compute); });
  return out;
}

Results arange(Builder &b, bool hasStart, bool hasStep) {
  Scalar start = hasStart ? b.scalar("start") : Scalar(0), end = b.scalar("end");
  Scalar step = hasStep ? b.scalar("step") : Scalar(1);
  const DType dtype = b.dtype("dtype").value_or(isFloatRange(start, end, step) ? kDefault : DType::I64);
  if (dtype == DType::I64) // the bounds lose their fractions before they are counted
    for (Scalar *s : {&start, &end, &step})
      if (s->category() == DType::F64 && s->constant())
        *s = Scalar(static_cast<int64_t>(*s->constant()));
  return {range(b, start, step, rangeLength(b, start, end, step), dtype)};
}

Results iota(Builder &b) {
  return {range(b, b.scalar("start"), b.scalar("step"), b.size("length"), *b.dtype("dtype"))};
}

/// Counted from both ends, so that the last element is `end` exactly (ATen/native/cpu/RangeFactoriesKernel.cpp).
Results linspace(Builder &b) {
  const Scalar start = b.scalar("start"), end = b.scalar("end");
  const int64_t steps = b.integer("steps");
  const DType dtype = b.dtype("dtype").value_or(kDefault);
  if (!isFloat(dtype))
    throw Unsupported("linspace of integers");
  const Tensor out = b.allocate(dtype, {steps});
  const DType compute = opmathType(dtype);
  b.store(out, [&] {
    const Ex first = b.value(start, compute), last = b.value(end, compute);
    if (steps == 1)
      return first;
    const Ex step = (last - first) / static_cast<double>(steps - 1), i = b.index(0);
    const Ex fromEnd = b.constantInt(steps - 1, DType::I64) - i;
    return select(i < steps / 2, first + step * i.to(compute), last - step * fromEnd.to(compute));
  });
  return {out};
}

Results eye(Builder &b, bool hasM) {
  const SizeExpr n = b.size("n"), m = hasM ? b.size("m") : n;
  const DType dtype = b.dtype("dtype").value_or(kDefault);
  const Tensor out = b.allocate(dtype, {n, m});
  b.store(out, [&] { return equal(b.index(0), b.index(1)).to(dtype); });
  return {out};
}

//===----------------------------------------------------------------------===//
// Triangles
//===----------------------------------------------------------------------===//

Results triangle(Builder &b, bool upper) {
  const Tensor self = b.tensor("self");
  const Scalar diagonal = b.scalar("diagonal");
  const unsigned rank = self.rank();
  if (rank < 2)
    throw Invalid("input tensor must have at least 2 dimensions");
  const Tensor out = b.allocate(self.dtype, self.sizes);
  b.store(out, [&] {
    const Ex below = b.index(rank - 1) - b.index(rank - 2), bound = b.value(diagonal, DType::I64);
    const Ex x = b.loadAligned(self, rank);
    return select(upper ? below >= bound : below <= bound, x, x.like(0));
  });
  return {out};
}

} // namespace

void addCreation(Registry &r) {
  const char *options = "size, dtype=None, layout=None, device=None, pin_memory=None";
  r.add({"aten.zeros.default"}, options, constant(0));
  r.add({"aten.ones.default"}, options, constant(1));
  r.add({"aten.empty.memory_format"}, "size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None",
        constant(0));
  const char *like = "self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None";
  r.add({"aten.zeros_like.default", "aten.empty_like.default"}, like, constantLike(0));
  r.add({"aten.ones_like.default"}, like, constantLike(1));
  const char *fresh = "self, size, dtype=None, layout=None, device=None, pin_memory=None";
  r.add({"aten.new_zeros.default", "aten.new_empty.default"}, fresh, newConstant(0));
  r.add({"aten.new_ones.default"}, fresh, newConstant(1));
  r.add({"aten.full.default"}, "size, fill_value, dtype=None, layout=None, device=None, pin_memory=None", full);
  r.add({"aten.full_like.default"},
        "self, fill_value, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None", fullLike);
  r.add({"aten.new_full.default"}, "self, size, fill_value, dtype=None, layout=None, device=None, pin_memory=None",
        newFull);
  r.add({"aten.empty_strided.default"}, "size, stride, dtype=None, layout=None, device=None, pin_memory=None",
        [](Builder &b) { return emptyStrided(b, kDefault); });
  r.add({"aten.new_empty_strided.default"}, "self, size, stride, dtype=None, layout=None, device=None, pin_memory=None",
        [](Builder &b) { return emptyStrided(b, b.tensor("self").dtype); });
  r.add({"aten.empty_permuted.default"}, "size, physical_layout, dtype=None, layout=None, device=None, pin_memory=None",
        emptyPermuted);
  r.add({"aten.scalar_tensor.default"}, "s, dtype=None, layout=None, device=None, pin_memory=None", scalarTensor);
  r.add({"aten.fill.Scalar", "aten.fill.Tensor"}, "self, value", fill);
  r.add({"aten.zero.default"}, "self", zero);

  r.add({"aten.arange.default"}, "end, dtype=None, layout=None, device=None, pin_memory=None",
        [](Builder &b) { return arange(b, false, false); });
  r.add({"aten.arange.start"}, "start, end, dtype=None, layout=None, device=None, pin_memory=None",
        [](Builder &b) { return arange(b, true, false); });
  r.add({"aten.arange.start_step"}, "start, end, step=1, dtype=None, layout=None, device=None, pin_memory=None",
        [](Builder &b) { return arange(b, true, true); });
  r.add({"prims.iota.default"}, "length, start, step, dtype, device=None, requires_grad=False", iota);
  r.add({"aten.linspace.default"}, "start, end, steps, dtype=None, layout=None, device=None, pin_memory=None",
        linspace);
  r.add({"aten.eye.default"}, "n, dtype=None, layout=None, device=None, pin_memory=None",
        [](Builder &b) { return eye(b, false); });
  r.add({"aten.eye.m"}, "n, m, dtype=None, layout=None, device=None, pin_memory=None",
        [](Builder &b) { return eye(b, true); });
  r.add({"aten.triu.default"}, "self, diagonal=0", [](Builder &b) { return triangle(b, true); });
  r.add({"aten.tril.default"}, "self, diagonal=0", [](Builder &b) { return triangle(b, false); });
}

} // namespace tilewright::importer
