//===- Concatenation.cpp - results put together from parts ----------------===//
//
// The result's buffer is partial: one nest writes each part.
//
//===----------------------------------------------------------------------===//
#include "../Formats.h"
#include "../Registry.h"
#include "../Views.h"

#include <algorithm>

namespace tilewright::importer {
namespace {

Tensor concatenate(Builder &b, std::vector<Tensor> parts, unsigned dim, DType dtype) {
  Sizes sizes = parts[0].sizes;
  SizeExpr total = 0;
  for (const Tensor &t : parts) {
    if (t.rank() != sizes.size())
      throw Invalid("Tensors must have same number of dimensions: got " + std::to_string(sizes.size()) + " and " +
                    std::to_string(t.rank()));
    for (unsigned d = 0; d < sizes.size(); ++d)
      if (d != dim)
        b.require(sizes[d], t.sizes[d],
                  "Sizes of tensors must match except in dimension " + std::to_string(dim) +
                      ". Expected size {lhs} but got size {rhs}");
    total = total + t.sizes[dim];
  }
  sizes[dim] = total;
  const auto isChannelsLast = [&](const Tensor &t) { return channelsLast(b, t, sizes).has_value(); };
  const std::optional<Sizes> strides =
      std::all_of(parts.begin(), parts.end(), isChannelsLast) ? channelsLast(b, parts[0], sizes) : std::nullopt;
  const Tensor out = b.allocate(dtype, sizes, strides ? &*strides : nullptr, parts.size() > 1);
  SizeExpr start = 0;
  for (const Tensor &t : parts) {
    b.assign(narrow(out, dim, start, t.sizes[dim]), t);
    start = start + t.sizes[dim];
  }
  return out;
}

DType commonType(const std::vector<Tensor> &tensors) {
  std::vector<Operand> operands(tensors.begin(), tensors.end());
  return resultType(operands);
}

Results cat(Builder &b) {
  std::vector<Tensor> tensors = b.tensors("tensors");
  if (tensors.empty())
    throw Invalid("torch.cat(): expected a non-empty list of Tensors");
  const DType dtype = commonType(tensors);
  // Tensors of shape [0] are skipped whatever the rank of the others.
  std::vector<Tensor> parts;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(parts),
               [](const Tensor &t) { return !(t.rank() == 1 && t.sizes[0].isConstant(0)); });
  if (parts.empty())
    parts.push_back(tensors[0]);
  if (std::any_of(parts.begin(), parts.end(), [](const Tensor &t) { return t.rank() == 0; }))
    throw Invalid("zero-dimensional tensor cannot be concatenated");
  return {concatenate(b, parts, b.dimension(b.integer("dim"), parts[0].rank()), dtype)};
}

Results stack(Builder &b) {
  std::vector<Tensor> tensors = b.tensors("tensors");
  if (tensors.empty())
    throw Invalid("stack expects a non-empty TensorList");
  const DType dtype = commonType(tensors);
  const unsigned dim = b.dimension(b.integer("dim"), tensors[0].rank() + 1);
  for (Tensor &t : tensors) {
    if (t.rank() != tensors[0].rank() && &t != &tensors[0] && t.rank() + 1 != tensors[0].rank())
      throw Invalid("stack expects each tensor to be equal size");
    t = unsqueeze(std::move(t), dim);
  }
  return {concatenate(b, tensors, dim, dtype)};
}

Results roll(Builder &b) {
  Tensor self = b.tensor("self");
  const Sizes shifts = b.sizes("shifts");
  const std::vector<int64_t> dims = b.integers("dims");
  const Sizes shape = self.sizes;
  const bool flat = dims.empty();
  if (flat ? shifts.size() != 1 : shifts.size() != dims.size())
    throw Invalid("shifts and dimensions must align. shifts: " + std::to_string(shifts.size()) +
                  ", dims:" + std::to_string(dims.size()));
  if (flat)
    self = reshape(b, self, {-1});
  for (size_t i = 0; i < shifts.size(); ++i) {
    const unsigned dim = flat ? 0 : b.dimension(dims[i], self.rank());
    const SizeExpr size = self.sizes.at(dim);
    if (size.isConstant(0) || size.isConstant(1))
      continue;
    const SizeExpr shift = SizeExpr::mod(shifts[i], size);
    self =
        concatenate(b, {narrow(self, dim, size - shift, shift), narrow(self, dim, 0, size - shift)}, dim, self.dtype);
  }
  if (self.buffer < b.state.module.buffers.size() && b.state.module.buffers[self.buffer].kind == loop::Buffer::Input)
    self = b.copy(self); // nothing moved
  return {flat ? reshape(b, self, shape) : self};
}

//===----------------------------------------------------------------------===//
// Parts replaced
//===----------------------------------------------------------------------===//

/// A copy of self whose part that `view` picks holds src.
Results scatterInto(Builder &b, const std::function<Tensor(const Tensor &)> &view) {
  const Tensor self = b.tensor("self"), src = b.tensor("src");
  const Sizes strides = likeStrides(b.state, self);
  const Tensor out = b.allocate(self.dtype, self.sizes, &strides, true);
  b.assign(out, self);
  const Tensor part = view(out);
  b.assign(part, expand(b, src, part.sizes));
  return {out};
}

Results sliceScatter(Builder &b) {
  return scatterInto(b, [&](const Tensor &out) {
    return slice(b, out, b.dimension(b.integer("dim"), out.rank()), b.optionalSize("start"), b.optionalSize("end"),
                 b.size("step"));
  });
}

Results selectScatter(Builder &b) {
  return scatterInto(
      b, [&](const Tensor &out) { return select(b, out, b.dimension(b.integer("dim"), out.rank()), b.size("index")); });
}

Results diagonalScatter(Builder &b) {
  return scatterInto(b, [&](const Tensor &out) {
    return diagonal(b, out, b.integer("offset"), b.dimension(b.integer("dim1"), out.rank()),
                    b.dimension(b.integer("dim2"), out.rank()));
  });
}

//===----------------------------------------------------------------------===//
// Gradients of views
//===----------------------------------------------------------------------===//

Results intoZeros(Builder &b, const std::function<Tensor(const Tensor &)> &view) {
  const Tensor grad = b.tensor("grad_output");
  const Tensor out = b.allocate(grad.dtype, b.sizes("input_sizes"), nullptr, true);
  b.store(out, [&] { return b.constantInt(0, grad.dtype); });
  const Tensor part = view(out);
  b.assign(part, expand(b, grad, part.sizes));
  return {out};
}

Results sliceBackward(Builder &b) {
  return intoZeros(b, [&](const Tensor &out) {
    return slice(b, out, b.dimension(b.integer("dim"), out.rank()), b.size("start"), b.size("end"), b.size("step"));
  });
}

Results selectBackward(Builder &b) {
  return intoZeros(
      b, [&](const Tensor &out) { return select(b, out, b.dimension(b.integer("dim"), out.rank()), b.size("index")); });
}

//===----------------------------------------------------------------------===//
// Constant padding
//===----------------------------------------------------------------------===//

Results constantPad(Builder &b) {
  Tensor self = b.tensor("self");
  const Sizes pad = b.sizes("pad");
  const Scalar value = b.scalar("value");
  if (pad.size() % 2 || pad.size() / 2 > self.rank())
    throw Invalid("Length of pad must be even and at most twice the rank of the input, got " +
                  std::to_string(pad.size()));
  Sizes sizes = self.sizes, before(self.rank(), 0);
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const unsigned d = self.rank() - 1 - i;
    const SizeExpr low = pad[2 * i], high = pad[2 * i + 1];
    if ((!low.constant() && !b.provenNonNegative(low)) || (!high.constant() && !b.provenNonNegative(high)))
      throw Unsupported("padding whose sign is not known");
    sizes[d] = self.sizes[d] + low + high;
    b.require(loop::Check::LessEqual, 0, sizes[d], "The input size plus negative padding resulted in a negative size");
    // Negative padding cuts the input instead.
    const SizeExpr cut = b.maxOf(0 - low, 0), cutEnd = b.maxOf(0 - high, 0);
    self = narrow(self, d, cut, self.sizes[d] - cut - cutEnd);
    before[d] = b.maxOf(low, 0);
  }
  const Tensor out = b.allocate(self.dtype, sizes, nullptr, true);
  b.store(out, [&] { return b.value(value, self.dtype); });
  Tensor inner = out;
  for (unsigned d = 0; d < self.rank(); ++d)
    inner = narrow(std::move(inner), d, before[d], self.sizes[d]);
  b.assign(inner, self);
  return {out};
}

} // namespace

void addConcatenation(Registry &r) {
  r.add({"aten.cat.default"}, "tensors, dim=0", cat);
  r.add({"aten.stack.default"}, "tensors, dim=0", stack);
  r.add({"aten.roll.default"}, "self, shifts, dims=[]", roll);
  r.add({"aten.slice_scatter.default"}, "self, src, dim=0, start=None, end=None, step=1", sliceScatter);
  r.add({"aten.select_scatter.default"}, "self, src, dim, index", selectScatter);
  r.add({"aten.diagonal_scatter.default"}, "self, src, offset=0, dim1=0, dim2=1", diagonalScatter);
  r.add({"aten.slice_backward.default"}, "grad_output, input_sizes, dim, start, end, step", sliceBackward);
  r.add({"aten.select_backward.default"}, "grad_output, input_sizes, dim, index", selectBackward);
  r.add({"aten.constant_pad_nd.default"}, "self, pad, value=0", constantPad);
}

} // namespace tilewright::importer
