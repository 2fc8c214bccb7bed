//===- Reshapes.cpp - views where strides can express it, else copies -----===//
#include "../Registry.h"
#include "../Views.h"

#include <algorithm>

namespace tilewright::importer {
namespace {

Results view(Builder &b) { return {reshape(b, b.tensor("self"), b.sizes("size"))}; }

Results flattenEntry(Builder &b) {
  const Tensor self = b.tensor("self");
  const unsigned first = b.dimension(b.integer("start_dim"), self.rank());
  const unsigned last = b.dimension(b.integer("end_dim"), self.rank());
  if (first > last)
    throw Invalid("flatten() has invalid args: start_dim cannot come after end_dim");
  return {flatten(b, self, first, last)};
}

Results unflatten(Builder &b) {
  const Tensor self = b.tensor("self");
  const unsigned dim = b.dimension(b.integer("dim"), self.rank());
  const Sizes inner = inferSize(b, self.sizes.at(dim), b.sizes("sizes"));
  Sizes sizes(self.sizes.begin(), self.sizes.begin() + dim);
  sizes.insert(sizes.end(), inner.begin(), inner.end());
  sizes.insert(sizes.end(), self.sizes.begin() + dim + 1, self.sizes.end());
  return {reshape(b, self, sizes)};
}

/// Each dimension becomes (repeats, size) with a stride of 0, then one again.
Results repeat(Builder &b) {
  Tensor self = b.tensor("self");
  const Sizes repeats = b.sizes("repeats");
  if (repeats.size() < self.rank())
    throw Invalid("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  while (self.rank() < repeats.size())
    self = unsqueeze(std::move(self), 0);
  Tensor wide = self;
  wide.sizes.clear();
  wide.strides.clear();
  Sizes sizes;
  for (unsigned d = 0; d < self.rank(); ++d) {
    wide.sizes.insert(wide.sizes.end(), {repeats[d], self.sizes[d]});
    wide.strides.insert(wide.strides.end(), {0, self.strides[d]});
    sizes.push_back(repeats[d] * self.sizes[d]);
  }
  Tensor out = b.copy(wide);
  out.sizes = sizes;
  out.strides = loop::contiguousStrides(sizes);
  return {out};
}

Results repeatInterleave(Builder &b) {
  Tensor self = b.tensor("self");
  const SizeExpr repeats = b.size("repeats");
  if (!b.isNone("output_size"))
    throw Unsupported("repeat_interleave with output_size");
  if (b.isNone("dim"))
    self = reshape(b, self, {-1});
  const unsigned dim = b.isNone("dim") ? 0 : b.dimension(b.integer("dim"), self.rank());
  Tensor wide = unsqueeze(self, dim + 1);
  wide.sizes[dim + 1] = repeats;
  wide.strides[dim + 1] = 0;
  Tensor out = b.copy(wide);
  out.sizes = self.sizes;
  out.sizes[dim] = self.sizes[dim] * repeats;
  out.strides = loop::contiguousStrides(out.sizes);
  return {out};
}

/// Elements keep their places, read from the other end.
Results flip(Builder &b) {
  const Tensor self = b.tensor("self");
  Tensor view = self;
  for (unsigned d : b.dimensions(b.integers("dims"), self.rank(), false))
    view = reversed(std::move(view), d);
  const Sizes strides = likeStrides(b.state, self);
  return {b.copy(view, &strides)};
}

Results pixelShuffle(Builder &b) {
  const Tensor self = b.tensor("self");
  const int64_t r = b.integer("upscale_factor");
  if (self.rank() < 3)
    throw Invalid("pixel_shuffle expects input to have at least 3 dimensions, but got input with " +
                  std::to_string(self.rank()) + " dimension(s)");
  const unsigned n = self.rank() - 3;
  const SizeExpr channels = b.divide(self.sizes[n], r * r,
                                     "pixel_shuffle expects its input's 'channel' dimension to be divisible by the "
                                     "square of upscale_factor, but got {lhs}");
  const Sizes batch(self.sizes.begin(), self.sizes.begin() + n);
  const SizeExpr h = self.sizes[n + 1], w = self.sizes[n + 2];
  Sizes split = batch, joined = batch;
  split.insert(split.end(), {channels, r, r, h, w});
  joined.insert(joined.end(), {channels, h * r, w * r});
  const Tensor wide = reshape(b, self, split);
  std::vector<unsigned> order;
  for (unsigned d = 0; d <= n; ++d)
    order.push_back(d);
  for (unsigned d : {3u, 1u, 4u, 2u})
    order.push_back(n + d);
  return {reshape(b, b.copy(permute(wide, order)), joined)};
}

} // namespace

void addReshapes(Registry &r) {
  r.add({"aten.view.default", "aten._unsafe_view.default", "aten._reshape_alias.default"}, "self, size, stride=None",
        view);
  r.add({"aten.reshape.default"}, "self, shape",
        [](Builder &b) -> Results { return {reshape(b, b.tensor("self"), b.sizes("shape"))}; });
  r.add({"aten.flatten.using_ints"}, "self, start_dim=0, end_dim=-1", flattenEntry);
  r.add({"aten.unflatten.int"}, "self, dim, sizes", unflatten);
  r.add({"aten.repeat.default"}, "self, repeats", repeat);
  r.add({"aten.repeat_interleave.self_int"}, "self, repeats, dim=None, output_size=None", repeatInterleave);
  r.add({"aten.flip.default"}, "self, dims", flip);
  r.add({"aten.pixel_shuffle.default"}, "self, upscale_factor", pixelShuffle);
}

} // namespace tilewright::importer
