//===- Padding.cpp - elements repeated around and between others ----------===//
//
// Each element of the result reads the one element of the input that a formula of its position names. The formula stays
// within bounds, so the index needs no check.
//
//===----------------------------------------------------------------------===//
#include "../Formats.h"
#include "../Registry.h"
#include "../Views.h"

namespace tilewright::importer {
namespace {

/// out[..., i, j] = self[..., at(i), at(j)] over the last `count` dimensions; at(k, position) for dimension rank -
/// count + k.
Tensor readAt(Builder &b, const Tensor &self, const Sizes &outer, const std::function<Ex(unsigned, Ex)> &at) {
  const unsigned rank = self.rank(), count = outer.size();
  Sizes sizes(self.sizes.begin(), self.sizes.end() - count);
  sizes.insert(sizes.end(), outer.begin(), outer.end());
  const std::optional<Sizes> strides = channelsLast(b, self, sizes);
  const Tensor out = b.allocate(self.dtype, sizes, strides ? &*strides : nullptr);
  b.store(out, [&] {
    loop::Access access{self.buffer, self.offset, Sizes(rank), {}};
    for (unsigned d = 0; d < rank - count; ++d)
      access.coefs[d] = self.sizes[d].isConstant(1) ? SizeExpr(0) : self.strides[d];
    for (unsigned k = 0; k < count; ++k) {
      const unsigned d = rank - count + k;
      access.indirect.push_back({at(k, b.index(d)).get(), self.strides[d]});
    }
    return Ex(b.pool(), b.pool().load(std::move(access), self.dtype));
  });
  return out;
}

Entry::Function pad(unsigned count, bool reflects) {
  return [count, reflects](Builder &b) -> Results {
    const Tensor self = b.tensor("self");
    const Sizes padding = b.sizes("padding");
    if (padding.size() != 2 * count || self.rank() < count + 1)
      throw Invalid("padding size is expected to be " + std::to_string(2 * count) + ", but got " +
                    std::to_string(padding.size()));
    Sizes outer(count), before(count), inner(count);
    for (unsigned k = 0; k < count; ++k) {
      const SizeExpr low = padding[2 * (count - 1 - k)], high = padding[2 * (count - 1 - k) + 1];
      if (!b.provenNonNegative(low) || !b.provenNonNegative(high))
        throw Unsupported("reflection and replication by a negative amount");
      inner[k] = self.sizes[self.rank() - count + k];
      before[k] = low;
      outer[k] = inner[k] + low + high;
      for (const SizeExpr &p : {low, high})
        b.require(loop::Check::Less, reflects ? p : SizeExpr(0), inner[k],
                  "Padding size should be less than the corresponding input dimension, but got: padding {lhs} at a "
                  "dimension of {rhs}");
    }
    return {readAt(b, self, outer, [&](unsigned k, Ex i) {
      const Ex last = b.sizeValue(inner[k] - 1), at = i - b.sizeValue(before[k]);
      if (!reflects)
        return min(max(at, 0), last);
      return last - abs(last - abs(at)); // mirrored at both ends, the ends not repeated
    })};
  };
}

/// ATen's nearest neighbour: floor(position * scale) in f32, not beyond the last.
Entry::Function nearest(unsigned count) {
  return [count](Builder &b) -> Results {
    const Tensor self = b.tensor("self");
    const Sizes outer = b.sizes("output_size");
    if (self.rank() != count + 2 || outer.size() != count)
      throw Invalid("It is expected input_size equals to " + std::to_string(count + 2) + ", but got size " +
                    std::to_string(self.rank()));
    static constexpr const char *names[3][3] = {
        {"scales"}, {"scales_h", "scales_w"}, {"scales_d", "scales_h", "scales_w"}};
    return {readAt(b, self, outer, [&](unsigned k, Ex i) {
      const SizeExpr &inner = self.sizes[self.rank() - count + k];
      const std::optional<double> given = b.optionalNumber(names[count - 1][k]);
      const Ex scale = given && *given > 0 ? b.constant(1.0 / *given, DType::F32)
                                           : b.sizeValue(inner).to(DType::F32) / b.sizeValue(outer[k]).to(DType::F32);
      return min(floor(i.to(DType::F32) * scale).to(DType::I64), b.sizeValue(inner - 1));
    })};
  };
}

} // namespace

void addPadding(Registry &r) {
  r.add({"aten.reflection_pad1d.default"}, "self, padding", pad(1, true));
  r.add({"aten.reflection_pad2d.default"}, "self, padding", pad(2, true));
  r.add({"aten.reflection_pad3d.default"}, "self, padding", pad(3, true));
  r.add({"aten.replication_pad1d.default"}, "self, padding", pad(1, false));
  r.add({"aten.replication_pad2d.default"}, "self, padding", pad(2, false));
  r.add({"aten.replication_pad3d.default"}, "self, padding", pad(3, false));
  r.add({"aten.upsample_nearest1d.default"}, "self, output_size, scales=None", nearest(1));
  r.add({"aten.upsample_nearest2d.default"}, "self, output_size, scales_h=None, scales_w=None", nearest(2));
  r.add({"aten.upsample_nearest3d.default"}, "self, output_size, scales_d=None, scales_h=None, scales_w=None",
        nearest(3));
}

} // namespace tilewright::importer
