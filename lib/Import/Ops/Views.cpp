//===- Views.cpp - operators that see the same memory differently ---------===//
#include "../Views.h"

#include "../Registry.h"

#include <algorithm>

namespace tilewright::importer {
namespace {

Results permuteEntry(Builder &b) {
  const Tensor self = b.tensor("self");
  std::vector<unsigned> order;
  for (int64_t d : b.integers("dims"))
    order.push_back(b.dimension(d, self.rank()));
  std::vector<unsigned> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (unsigned d = 0; d < sorted.size(); ++d)
    if (sorted[d] != d)
      throw Invalid("permute(dims): duplicate dims are not allowed");
  if (order.size() != self.rank())
    throw Invalid("permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "
                  "desired ordering of dimensions");
  return {permute(self, order)};
}

Results transposeEntry(Builder &b) {
  const Tensor self = b.tensor("self");
  const unsigned dim0 = b.dimension(b.integer("dim0"), self.rank()), dim1 = b.dimension(b.integer("dim1"), self.rank());
  return {self.rank() == 0 ? self : transpose(self, dim0, dim1)};
}

Results t(Builder &b) {
  const Tensor self = b.tensor("self");
  if (self.rank() > 2)
    throw Invalid("t() expects a tensor with <= 2 dimensions, but self is " + std::to_string(self.rank()) + "D");
  return {self.rank() == 2 ? transpose(self, 0, 1) : self};
}

Results movedim(Builder &b) {
  const Tensor self = b.tensor("self");
  const std::vector<int64_t> source = b.integers("source"), destination = b.integers("destination");
  if (source.size() != destination.size())
    throw Invalid("movedim: Invalid source or destination dims: source and destination differ in length");
  std::vector<int> order(self.rank(), -1);
  std::vector<bool> used(self.rank());
  for (size_t i = 0; i < source.size(); ++i) {
    const unsigned from = b.dimension(source[i], self.rank());
    order.at(b.dimension(destination[i], self.rank())) = static_cast<int>(from);
    used[from] = true;
  }
  std::vector<unsigned> result;
  unsigned next = 0;
  for (int from : order) {
    while (from < 0 && next < used.size() && used[next])
      ++next;
    result.push_back(from >= 0 ? static_cast<unsigned>(from) : next++);
  }
  return {permute(self, result)};
}

Results expandEntry(Builder &b) { return {expand(b, b.tensor("self"), b.sizes("size"))}; }

Results sliceEntry(Builder &b) {
  const Tensor self = b.tensor("self");
  if (self.rank() == 0)
    throw Invalid("slice() cannot be applied to a 0-dim tensor.");
  return {slice(b, self, b.dimension(b.integer("dim"), self.rank()), b.optionalSize("start"), b.optionalSize("end"),
                b.size("step"))};
}

Results selectEntry(Builder &b) {
  const Tensor self = b.tensor("self");
  if (self.rank() == 0)
    throw Invalid("select() cannot be applied to a 0-dim tensor.");
  return {select(b, self, b.dimension(b.integer("dim"), self.rank()), b.size("index"))};
}

Results narrowEntry(Builder &b) {
  const Tensor self = b.tensor("self");
  const unsigned dim = b.dimension(b.integer("dim"), self.rank());
  const SizeExpr start = b.size("start"), length = b.size("length");
  b.require(loop::Check::LessEqual, start + length, self.sizes.at(dim),
            "start (" + start.str() + ") + length (" + length.str() + ") exceeds dimension size ({rhs}).");
  return {slice(b, self, dim, start, start + length, 1)};
}

Results squeezeEntry(Builder &b, bool hasDims) {
  const Tensor self = b.tensor("self");
  return {squeeze(self, b.dimensions(hasDims ? b.integers("dim") : std::vector<int64_t>{}, self.rank(), !hasDims))};
}

Results unsqueezeEntry(Builder &b) {
  const Tensor self = b.tensor("self");
  return {unsqueeze(self, b.dimension(b.integer("dim"), self.rank() + 1))};
}

Results diagonalEntry(Builder &b) {
  const Tensor self = b.tensor("self");
  return {diagonal(b, self, b.integer("offset"), b.dimension(b.integer("dim1"), self.rank()),
                   b.dimension(b.integer("dim2"), self.rank()))};
}

/// Strides and offset count in the storage. A value of our own starts its storage; where an input starts, the
/// description may say.
Results asStrided(Builder &b) {
  Tensor self = b.tensor("self");
  const loop::Buffer &buffer = b.state.module.buffers[self.buffer];
  const Sizes sizes = b.sizes("size"), strides = b.sizes("stride");
  if (sizes.size() != strides.size())
    throw Invalid("mismatch in length of strides and shape");
  if (std::optional<SizeExpr> offset = b.optionalSize("storage_offset")) {
    SizeExpr base = 0;
    if (buffer.kind == loop::Buffer::Input) {
      const std::optional<SizeExpr> &known = b.state.graph.inputs[buffer.input].offset;
      if (!known)
        throw Invalid("as_strided with a storage offset on an input whose offset in its storage is not described");
      base = *known;
    } else if (!self.offset.isConstant(0) || !isContiguous(self)) {
      throw Invalid("as_strided with a storage offset on a value that is not contiguous");
    }
    self.offset = *offset - base;
  }
  b.require(loop::Check::LessEqual, 0, self.offset, "as_strided reaches before the first element of its input");
  SizeExpr last = self.offset;
  bool empty = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    last = last + (sizes[d] - 1) * strides[d];
    empty |= sizes[d].isConstant(0);
  }
  if (!empty)
    b.require(loop::Check::Less, last, buffer.elements,
              "as_strided reaches element {lhs} of memory that is known to hold {rhs}");
  self.sizes = sizes;
  self.strides = strides;
  return {self};
}

/// Sliding windows along a dimension, as a last dimension.
Results unfold(Builder &b) {
  Tensor self = b.tensor("self");
  const unsigned dim = b.dimension(b.integer("dimension"), self.rank());
  const SizeExpr size = b.size("size"), step = b.size("step");
  if (self.rank() == 0)
    throw Unsupported("unfold of a 0-d tensor");
  b.require(loop::Check::LessEqual, size, self.sizes[dim],
            "maximum size for tensor at dimension " + std::to_string(dim) + " is {rhs} but size is {lhs}");
  self.sizes.push_back(size);
  self.strides.push_back(self.strides[dim]);
  self.sizes[dim] = SizeExpr::floordiv(self.sizes[dim] - size, step) + 1;
  self.strides[dim] = self.strides[dim] * step;
  return {self};
}

//===----------------------------------------------------------------------===//
// Several results
//===----------------------------------------------------------------------===//

/// How many pieces there are: a constant, or what the graph says and the call must confirm.
int64_t pieceCount(Builder &b, const SizeExpr &count) {
  if (std::optional<int64_t> known = count.constant())
    return *known;
  const int64_t expected = static_cast<int64_t>(b.resultCount());
  b.require(count, expected, "splits into {lhs} pieces, but {rhs} were expected");
  return expected;
}

/// The last piece may be smaller.
Results splitEvery(Builder &b, const Tensor &self, unsigned dim, const SizeExpr &piece) {
  const int64_t count = pieceCount(b, SizeExpr::ceildiv(self.sizes[dim], piece));
  Results results;
  for (int64_t i = 0; i < std::max<int64_t>(count, 1); ++i) {
    const SizeExpr start = piece * i;
    const SizeExpr length = i + 1 == count ? self.sizes[dim] - start : count == 0 ? SizeExpr(0) : piece;
    results.push_back(narrow(self, dim, start, length));
  }
  return results;
}

Results split(Builder &b) {
  const Tensor self = b.tensor("self");
  const SizeExpr piece = b.size("split_size");
  const unsigned dim = b.dimension(b.integer("dim"), self.rank());
  if (piece.isConstant(0))
    return {self};
  return splitEvery(b, self, dim, piece);
}

Results splitWithSizes(Builder &b) {
  const Tensor self = b.tensor("self");
  const unsigned dim = b.dimension(b.integer("dim"), self.rank());
  Results results;
  SizeExpr start = 0;
  for (const SizeExpr &length : b.sizes("split_sizes")) {
    results.push_back(narrow(self, dim, start, length));
    start = start + length;
  }
  b.require(start, self.sizes.at(dim),
            "split_with_sizes expects split_sizes to sum exactly to {rhs} (input tensor's size at dimension " +
                std::to_string(dim) + "), but got {lhs}");
  return results;
}

Results chunk(Builder &b) {
  const Tensor self = b.tensor("self");
  const int64_t chunks = b.integer("chunks");
  const unsigned dim = b.dimension(b.integer("dim"), self.rank());
  if (chunks <= 0)
    throw Invalid("chunk expects `chunks` to be greater than 0, got: " + std::to_string(chunks));
  return splitEvery(b, self, dim, SizeExpr::ceildiv(self.sizes.at(dim), chunks));
}

Results unbind(Builder &b) {
  const Tensor self = b.tensor("self");
  const unsigned dim = b.dimension(b.integer("dim"), self.rank());
  const int64_t count = pieceCount(b, self.sizes.at(dim));
  Results results;
  for (int64_t i = 0; i < count; ++i)
    results.push_back(dropDimension(narrow(self, dim, i, 1), dim));
  return results;
}

Results identity(Builder &b) { return {b.tensor("self")}; }

} // namespace

void addViews(Registry &r) {
  r.add({"aten.permute.default"}, "self, dims", permuteEntry);
  r.add({"aten.transpose.int"}, "self, dim0, dim1", transposeEntry);
  r.add({"aten.t.default"}, "self", t);
  r.add({"aten.movedim.int", "aten.movedim.intlist"}, "self, source, destination", movedim);
  r.add({"aten.expand.default"}, "self, size, implicit=False", expandEntry);
  r.add({"aten.slice.Tensor"}, "self, dim=0, start=None, end=None, step=1", sliceEntry);
  r.add({"aten.select.int"}, "self, dim, index", selectEntry);
  r.add({"aten.narrow.default"}, "self, dim, start, length", narrowEntry);
  r.add({"aten.squeeze.default"}, "self", [](Builder &b) { return squeezeEntry(b, false); });
  r.add({"aten.squeeze.dim", "aten.squeeze.dims"}, "self, dim", [](Builder &b) { return squeezeEntry(b, true); });
  r.add({"aten.unsqueeze.default"}, "self, dim", unsqueezeEntry);
  r.add({"aten.diagonal.default"}, "self, offset=0, dim1=0, dim2=1", diagonalEntry);
  r.add({"aten.as_strided.default"}, "self, size, stride, storage_offset=None", asStrided);
  r.add({"aten.unfold.default"}, "self, dimension, size, step", unfold);
  r.add({"aten.split.Tensor"}, "self, split_size, dim=0", split);
  r.add({"aten.split_with_sizes.default"}, "self, split_sizes, dim=0", splitWithSizes);
  r.add({"aten.chunk.default"}, "self, chunks, dim=0", chunk);
  r.add({"aten.unbind.int"}, "self, dim=0", unbind);
  r.add({"aten.alias.default", "aten.detach.default", "aten.lift.default"}, "self", identity);
}

} // namespace tilewright::importer
