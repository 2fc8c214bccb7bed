//===- Indexing.cpp - elements picked by tensors of indices ---------------===//
//
// A gather is a load with an indirect term: stride times an index that is checked when it is read.
//
//===----------------------------------------------------------------------===//
#include "../Registry.h"
#include "../Views.h"

#include <algorithm>
#include <numeric>

namespace tilewright::importer {
namespace {

void requireIndexType(const Tensor &index, const char *what) {
  const bool isEmpty = loop::productOf(index.sizes).isConstant(0); // picks nothing, so its type does not matter
  if (index.dtype != DType::I64 && index.dtype != DType::I32 && !isEmpty)
    throw Invalid(std::string(what) + "(): Expected dtype int32 or int64 for index, got " +
                  std::string(nameOf(index.dtype)));
}

/// Element of t in a domain: dimensions in `linear` run with the domain's, the others are picked by an index.
struct Picked {
  unsigned dim;
  Ex index;
};

Ex loadPicked(Builder &b, const Tensor &t, const std::vector<std::optional<unsigned>> &linear,
              const std::vector<Picked> &picked, unsigned rank) {
  loop::Access access{t.buffer, t.offset, Sizes(rank), {}};
  for (unsigned d = 0; d < t.rank(); ++d)
    if (linear[d] && !t.sizes[d].isConstant(1))
      access.coefs[*linear[d]] = access.coefs[*linear[d]] + t.strides[d];
  for (const Picked &p : picked)
    access.indirect.push_back({p.index.get(), t.strides[p.dim]});
  return {b.pool(), b.pool().load(std::move(access), t.dtype)};
}

Results embedding(Builder &b) {
  const Tensor weight = b.tensor("weight"), indices = b.tensor("indices");
  if (weight.rank() != 2)
    throw Invalid("'weight' must be 2-D");
  requireIndexType(indices, "embedding");
  Sizes sizes = indices.sizes;
  sizes.push_back(weight.sizes[1]);
  const Tensor out = b.allocate(weight.dtype, sizes);
  const unsigned rank = sizes.size();
  b.store(out, [&] {
    std::vector<unsigned> dims(indices.rank());
    std::iota(dims.begin(), dims.end(), 0);
    const Ex row = b.checked(b.load(indices, dims, rank), weight.sizes[0],
                             "index out of range in self: index {index}, but there are {bound} rows");
    return loadPicked(b, weight, {std::nullopt, rank - 1}, {{0, row}}, rank);
  });
  return {out};
}

Results indexSelect(Builder &b) {
  Tensor self = b.tensor("self");
  Tensor index = b.tensor("index");
  requireIndexType(index, "index_select");
  if (index.rank() > 1)
    throw Invalid("index_select(): Index is supposed to be a vector, but got dim: " + std::to_string(index.rank()));
  const bool isScalar = self.rank() == 0;
  const unsigned dim = b.dimension(b.integer("dim"), self.rank());
  if (isScalar)
    self = unsqueeze(self, 0);
  if (index.rank() == 0)
    index = unsqueeze(index, 0);
  Sizes sizes = self.sizes;
  sizes[dim] = index.sizes[0];
  const Tensor out = b.allocate(self.dtype, sizes);
  b.store(out, [&] {
    const unsigned at[] = {dim};
    const Ex row = b.checked(b.load(index, at, sizes.size()), self.sizes[dim],
                             "index out of range in self: index {index}, but the dimension has size {bound}");
    std::vector<std::optional<unsigned>> linear(self.rank());
    for (unsigned d = 0; d < self.rank(); ++d)
      if (d != dim)
        linear[d] = d;
    return loadPicked(b, self, linear, {{dim, row}}, sizes.size());
  });
  return {isScalar ? dropDimension(out, 0) : out};
}

Results gather(Builder &b) {
  Tensor self = b.tensor("self"), index = b.tensor("index");
  requireIndexType(index, "gather");
  const unsigned dim = b.dimension(b.integer("dim"), self.rank());
  const Sizes shape = index.sizes;
  if (self.rank() == 0)
    self = unsqueeze(self, 0);
  if (index.rank() == 0)
    index = unsqueeze(index, 0);
  if (loop::productOf(index.sizes).isConstant(0)) { // picks nothing, whatever its shape
    const Tensor none = b.allocate(self.dtype, index.sizes);
    b.store(none, [&] { return b.constantInt(0, self.dtype); });
    return {none};
  }
  if (self.rank() != index.rank())
    throw Invalid("Index tensor must have the same number of dimensions as input tensor");
  for (unsigned d = 0; d < self.rank(); ++d)
    if (d != dim)
      b.require(loop::Check::LessEqual, index.sizes[d], self.sizes[d],
                "Size does not match at dimension " + std::to_string(d) +
                    ": expected index size {lhs} to be no larger than self size {rhs} apart from dimension " +
                    std::to_string(dim));
  Tensor out = b.allocate(self.dtype, index.sizes);
  b.store(out, [&] {
    const Ex at =
        b.checked(b.loadAligned(index, index.rank()), self.sizes[dim],
                  "index {index} is out of bounds for dimension " + std::to_string(dim) + " with size {bound}");
    std::vector<std::optional<unsigned>> linear(self.rank());
    for (unsigned d = 0; d < self.rank(); ++d)
      if (d != dim)
        linear[d] = d;
    return loadPicked(b, self, linear, {{dim, at}}, index.rank());
  });
  out.sizes = shape;
  if (shape.empty())
    out.strides = {};
  return {out};
}

/// x[i0, :, i2]: indices broadcast against one another; their dimensions stand where the first index stood if all are
/// side by side, else in front.
Results index(Builder &b) {
  const Tensor self = b.tensor("self");
  std::vector<std::optional<Tensor>> indices = b.optionalTensors("indices");
  if (indices.size() > self.rank())
    throw Invalid("too many indices for tensor of dimension " + std::to_string(self.rank()) + " (got " +
                  std::to_string(indices.size()) + ")");
  indices.resize(self.rank());
  Sizes shape; // of the indices together
  std::vector<unsigned> indexed;
  for (unsigned d = 0; d < self.rank(); ++d)
    if (indices[d]) {
      if (indices[d]->dtype == DType::Bool || indices[d]->dtype == DType::U8)
        throw Unsupported("a mask as an index: the result's size depends on data");
      if (!isInteger(indices[d]->dtype))
        throw Invalid("tensors used as indices must be long, int, byte or bool tensors");
      shape = b.broadcast(shape, indices[d]->sizes);
      indexed.push_back(d);
    }
  if (indexed.empty())
    return {b.copy(self)};
  const bool adjacent = indexed.back() - indexed.front() + 1 == indexed.size();
  const unsigned place = adjacent ? indexed.front() : 0;
  Sizes sizes;
  std::vector<std::optional<unsigned>> linear(self.rank());
  const auto insertShape = [&] { sizes.insert(sizes.end(), shape.begin(), shape.end()); };
  if (!adjacent)
    insertShape();
  for (unsigned d = 0; d < self.rank(); ++d) {
    if (adjacent && d == place)
      insertShape();
    if (!indices[d]) {
      linear[d] = sizes.size();
      sizes.push_back(self.sizes[d]);
    }
  }
  const Tensor out = b.allocate(self.dtype, sizes);
  b.store(out, [&] {
    std::vector<Picked> picked;
    for (unsigned d : indexed) {
      std::vector<unsigned> dims(indices[d]->rank());
      std::iota(dims.begin(), dims.end(), place + shape.size() - dims.size());
      picked.push_back({d, b.checkedFromEnd(b.load(*indices[d], dims, sizes.size()), self.sizes[d],
                                            "index {index} is out of bounds for dimension " + std::to_string(d) +
                                                " with size {bound}")});
    }
    return loadPicked(b, self, linear, picked, sizes.size());
  });
  return {out};
}

/// One element for each index into the flattened input.
Results take(Builder &b) {
  const Tensor self = b.tensor("self"), indexTensor = b.tensor("index");
  if (indexTensor.dtype != DType::I64)
    throw Invalid("take(): Expected a long tensor for index, but got " + std::string(nameOf(indexTensor.dtype)));
  const Tensor flat = reshape(b, self, {-1});
  const Tensor out = b.allocate(self.dtype, indexTensor.sizes);
  b.store(out, [&] {
    const Ex at = b.checkedFromEnd(b.loadAligned(indexTensor, out.rank()), flat.sizes[0],
                                   "out of range: tried to access index {index} on a tensor of {bound} elements.");
    return loadPicked(b, flat, {std::nullopt}, {{0, at}}, out.rank());
  });
  return {out};
}

Results oneHot(Builder &b) {
  const Tensor self = b.tensor("self");
  const int64_t classes = b.integer("num_classes");
  if (self.dtype != DType::I64)
    throw Invalid("one_hot is only applicable to index tensor of type LongTensor.");
  if (classes < 1)
    throw Unsupported("one_hot without a number of classes: the result's size depends on data");
  Sizes sizes = self.sizes;
  sizes.push_back(classes);
  const Tensor out = b.allocate(DType::I64, sizes);
  b.store(out, [&] {
    std::vector<unsigned> dims(self.rank());
    std::iota(dims.begin(), dims.end(), 0);
    const Ex at = b.checked(b.load(self, dims, sizes.size()), classes,
                            "Class values must be smaller than num_classes: {index} of {bound}.");
    return equal(at, b.index(self.rank())).to(DType::I64);
  });
  return {out};
}

/// Positions along a dimension replaced: a comparison for each element, since indices are few.
Results indexFill(Builder &b) {
  const Tensor self = b.tensor("self"), indexTensor = b.tensor("index");
  const Operand value = b.operand("value");
  requireIndexType(indexTensor, "index_fill");
  const std::optional<int64_t> count = loop::productOf(indexTensor.sizes).constant();
  if (!count || *count > 16 || self.rank() == 0)
    throw Unsupported("index_fill with many indices");
  const unsigned dim = b.dimension(b.integer("dim"), self.rank());
  const Tensor flat = reshape(b, indexTensor, {-1});
  const Sizes strides = likeStrides(b.state, self);
  const Tensor out = b.allocate(self.dtype, self.sizes, &strides);
  const unsigned rank = self.rank();
  b.store(out, [&] {
    Ex hit = b.constantInt(0, DType::Bool);
    for (int64_t i = 0; i < *count; ++i) {
      const Tensor one = dropDimension(narrow(flat, 0, i, 1), 0);
      const Ex at = b.checkedFromEnd(b.loadAligned(one, rank), self.sizes[dim],
                                     "index_fill_(): index {index} is out of bounds for dimension with size {bound}");
      hit = hit | equal(b.index(dim), at);
    }
    const Ex x = b.loadAligned(self, rank);
    const Ex v =
        value.scalar() ? b.value(*value.scalar(), self.dtype) : b.loadAligned(*value.tensor(), rank).to(self.dtype);
    return select(hit, v, x);
  });
  return {out};
}

} // namespace

void addIndexing(Registry &r) {
  r.add({"aten.embedding.default"}, "weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False",
        embedding);
  r.add({"aten.index_select.default"}, "self, dim, index", indexSelect);
  r.add({"aten.gather.default"}, "self, dim, index, sparse_grad=False", gather);
  r.add({"aten.index.Tensor", "aten._unsafe_index.Tensor"}, "self, indices", index);
  r.add({"aten.take.default"}, "self, index", take);
  r.add({"aten.one_hot.default"}, "self, num_classes=-1", oneHot);
  r.add({"aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor"}, "self, dim, index, value", indexFill);
}

} // namespace tilewright::importer
