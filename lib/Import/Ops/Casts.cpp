//===- Casts.cpp - copies and conversions ---------------------------------===//
#include "../Formats.h"
#include "../Registry.h"
#include "../Views.h"

namespace tilewright::importer {

std::optional<Sizes> formatStrides(Builder &b, const Tensor &like, const std::string &format) {
  if (format.empty() || format == "torch.preserve_format")
    return likeStrides(b.state, like);
  if (format == "torch.contiguous_format")
    return std::nullopt;
  const bool is2d = format == "torch.channels_last";
  if (!is2d && format != "torch.channels_last_3d")
    throw Invalid("unknown memory format " + format);
  if (like.rank() != (is2d ? 4u : 5u))
    throw Invalid("required rank " + std::to_string(is2d ? 4 : 5) + " tensor to use " + format);
  Sizes strides(like.rank());
  SizeExpr stride = 1;
  const auto next = [&](unsigned d) {
    strides[d] = stride;
    stride = stride * like.sizes[d];
  };
  next(1);
  for (unsigned d = like.rank(); d-- > 2;)
    next(d);
  next(0);
  return strides;
}

std::optional<Sizes> channelsLast(Builder &b, const Tensor &self, const Sizes &sizes) {
  if (self.rank() < 4 || isContiguous(self))
    return std::nullopt;
  const std::string format = self.rank() == 4 ? "torch.channels_last" : "torch.channels_last_3d";
  const std::optional<Sizes> strides = formatStrides(b, self, format);
  for (unsigned d = 0; d < self.rank(); ++d)
    if (!self.sizes[d].isConstant(1) && !(self.strides[d] == (*strides)[d]))
      return std::nullopt;
  Tensor result = self;
  result.sizes = sizes;
  return formatStrides(b, result, format);
}

namespace {

/// Values are never written again, so a copy of one that is laid out as wanted is the value itself. Inputs are memory
/// of the caller's: copies of them are made.
bool needsNoCopy(Builder &b, const Tensor &t, const std::optional<Sizes> &strides) {
  if (b.state.module.buffers[t.buffer].kind != loop::Buffer::Temp)
    return false;
  const Sizes wanted = strides.value_or(loop::contiguousStrides(t.sizes));
  for (unsigned d = 0; d < t.rank(); ++d)
    if (!t.sizes[d].isConstant(1) && !(t.strides[d] == wanted[d]))
      return false;
  return true;
}

Results convertCopy(Builder &b, const char *self, const char *dtype, const char *format) {
  const Tensor t = b.tensor(self);
  const std::optional<Sizes> strides = formatStrides(b, t, format ? b.text(format) : "");
  const DType to = (dtype ? b.dtype(dtype) : std::nullopt).value_or(t.dtype);
  if (to == t.dtype && needsNoCopy(b, t, strides))
    return {t};
  return {b.copy(t, strides ? &*strides : nullptr, to)};
}

/// The functional form: self's place, src's values.
Results copyFrom(Builder &b) {
  const Tensor self = b.tensor("self"), src = b.tensor("src");
  const Sizes strides = likeStrides(b.state, self);
  return {b.copy(expand(b, src, self.sizes), &strides, self.dtype)};
}

/// Tensor.to: the tensor itself if there is nothing to convert.
Results toDtype(Builder &b) {
  const Tensor t = b.tensor("self");
  const DType dtype = b.dtype("dtype").value_or(t.dtype);
  if (dtype == t.dtype && !b.flag("copy"))
    return {t};
  const Sizes strides = likeStrides(b.state, t);
  return {b.copy(t, &strides, dtype)};
}

Results viewDtype(Builder &b) {
  const Tensor t = b.tensor("self");
  const DType dtype = *b.dtype("dtype");
  if (dtype == t.dtype)
    return {t};
  if (sizeOf(dtype) != sizeOf(t.dtype) || dtype == DType::Bool || t.dtype == DType::Bool)
    throw Unsupported("a view as a dtype of another width");
  const Sizes strides = likeStrides(b.state, t);
  const Tensor out = b.allocate(dtype, t.sizes, &strides);
  b.store(out, [&] { return b.loadAligned(t, t.rank()).bitcast(dtype); });
  return {out};
}

Results contiguousEntry(Builder &b) {
  const Tensor t = b.tensor("self");
  const std::optional<Sizes> strides = formatStrides(b, t, b.text("memory_format"));
  if (!strides)
    return {b.contiguous(t)};
  return {t.strides == *strides ? t : b.copy(t, &*strides)};
}

} // namespace

void addCasts(Registry &r) {
  r.add({"aten.clone.default"}, "self, memory_format=None",
        [](Builder &b) { return convertCopy(b, "self", nullptr, "memory_format"); });
  r.add({"aten._to_copy.default"},
        "self, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None",
        [](Builder &b) { return convertCopy(b, "self", "dtype", "memory_format"); });
  r.add({"prims.convert_element_type.default"}, "a, dtype",
        [](Builder &b) { return convertCopy(b, "a", "dtype", nullptr); });
  r.add({"aten.to.dtype"}, "self, dtype, non_blocking=False, copy=False, memory_format=None", toDtype);
  r.add({"aten.copy.default"}, "self, src, non_blocking=False", copyFrom);
  r.add({"aten.lift_fresh_copy.default"}, "self", [](Builder &b) { return convertCopy(b, "self", nullptr, nullptr); });
  r.add({"aten.contiguous.default"}, "self, memory_format=\"torch.contiguous_format\"", contiguousEntry);
  r.add({"aten.view.dtype"}, "self, dtype", viewDtype);
}

} // namespace tilewright::importer
