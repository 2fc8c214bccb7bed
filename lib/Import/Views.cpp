//===- Views.cpp - other ways to see the same memory ----------------------===//
#include "Views.h"

#include <algorithm>

namespace tilewright::importer {

Tensor permute(const Tensor &t, const std::vector<unsigned> &order) {
  Tensor result = t;
  for (unsigned d = 0; d < order.size(); ++d) {
    result.sizes[d] = t.sizes[order[d]];
    result.strides[d] = t.strides[order[d]];
  }
  return result;
}

Tensor transpose(const Tensor &t, unsigned a, unsigned b) {
  Tensor result = t;
  std::swap(result.sizes[a], result.sizes[b]);
  std::swap(result.strides[a], result.strides[b]);
  return result;
}

Tensor unsqueeze(Tensor t, unsigned dim) {
  const SizeExpr stride = dim < t.rank() ? t.sizes[dim] * t.strides[dim] : SizeExpr(1);
  t.sizes.insert(t.sizes.begin() + dim, 1);
  t.strides.insert(t.strides.begin() + dim, stride);
  return t;
}

Tensor dropDimension(Tensor t, unsigned dim) {
  t.sizes.erase(t.sizes.begin() + dim);
  t.strides.erase(t.strides.begin() + dim);
  return t;
}

Tensor squeeze(const Tensor &t, const std::vector<unsigned> &dims) {
  Tensor result = t;
  for (unsigned d = t.rank(); d-- > 0;)
    if (t.sizes[d].isConstant(1) && std::find(dims.begin(), dims.end(), d) != dims.end())
      result = dropDimension(std::move(result), d);
  return result;
}

Tensor expand(Builder &b, const Tensor &t, const Sizes &sizes) {
  if (sizes.size() < t.rank())
    throw Invalid("expand: the number of sizes provided (" + std::to_string(sizes.size()) +
                  ") must be greater or equal to the number of dimensions in the tensor (" + std::to_string(t.rank()) +
                  ")");
  const unsigned added = sizes.size() - t.rank();
  Tensor result = t;
  result.sizes = sizes;
  result.strides.assign(sizes.size(), 0);
  for (unsigned d = 0; d < sizes.size(); ++d) {
    if (sizes[d].isConstant(-1)) {
      if (d < added)
        throw Invalid("expand: the size -1 isn't allowed in a leading, non-existing dimension " + std::to_string(d));
      result.sizes[d] = t.sizes[d - added];
    }
    if (d < added)
      continue;
    const SizeExpr &have = t.sizes[d - added];
    if (have.isConstant(1) && !result.sizes[d].isConstant(1))
      continue;
    b.require(have, result.sizes[d],
              "The expanded size of the tensor ({rhs}) must match the existing size ({lhs}) at non-singleton "
              "dimension " +
                  std::to_string(d));
    result.strides[d] = t.strides[d - added];
  }
  return result;
}

Tensor broadcastTo(const Tensor &t, const Sizes &sizes) {
  const unsigned added = sizes.size() - t.rank();
  Tensor result = t;
  result.sizes = sizes;
  result.strides.assign(sizes.size(), 0);
  for (unsigned d = added; d < sizes.size(); ++d)
    if (!t.sizes[d - added].isConstant(1) || sizes[d].isConstant(1))
      result.strides[d] = t.strides[d - added];
  return result;
}

/// A position as Python takes it: negative counts from the end; clamped to [0, size].
static SizeExpr clampPosition(Builder &b, const SizeExpr &position, const SizeExpr &size) {
  if (b.provenNonNegative(position))
    return b.minOf(position, size);
  if (b.provenNonNegative(SizeExpr(-1) - position))
    return b.maxOf(position + size, 0);
  throw Unsupported("a position whose sign is not known: " + position.str());
}

Tensor narrow(Tensor t, unsigned dim, const SizeExpr &start, const SizeExpr &length) {
  t.offset = t.offset + start * t.strides[dim];
  t.sizes[dim] = length;
  return t;
}

Tensor slice(Builder &b, Tensor t, unsigned dim, std::optional<SizeExpr> start, std::optional<SizeExpr> end,
             const SizeExpr &step) {
  if (!b.provenNonNegative(step - 1))
    throw Invalid("slice step must be positive");
  const SizeExpr size = t.sizes[dim];
  const SizeExpr first = start ? clampPosition(b, *start, size) : SizeExpr(0);
  // sys.maxsize stands for "to the end".
  const bool toEnd = !end || (end->constant() && *end->constant() >= (int64_t(1) << 62));
  const SizeExpr last = toEnd ? size : clampPosition(b, *end, size);
  const SizeExpr extent = b.maxOf(last - first, 0);
  Tensor result = narrow(std::move(t), dim, first, SizeExpr::ceildiv(extent, step));
  result.strides[dim] = result.strides[dim] * step;
  return result;
}

Tensor select(Builder &b, const Tensor &t, unsigned dim, const SizeExpr &index) {
  const SizeExpr &size = t.sizes[dim];
  const std::string message =
      "select(): index " + index.str() + " out of range for tensor with size {rhs} at dimension " + std::to_string(dim);
  SizeExpr at = index;
  if (b.provenNonNegative(index)) {
    b.require(loop::Check::Less, index, size, message);
  } else if (b.provenNonNegative(SizeExpr(-1) - index)) {
    at = index + size;
    b.require(loop::Check::LessEqual, SizeExpr(0) - index, size, message);
  } else {
    throw Unsupported("select with an index whose sign is not known: " + index.str());
  }
  return dropDimension(narrow(t, dim, at, 1), dim);
}

Tensor diagonal(Builder &b, const Tensor &t, int64_t offset, unsigned dim1, unsigned dim2) {
  if (dim1 == dim2)
    throw Invalid("diagonal dimensions cannot be identical");
  const SizeExpr rows = offset < 0 ? b.maxOf(t.sizes[dim1] + offset, 0) : t.sizes[dim1];
  const SizeExpr cols = offset > 0 ? b.maxOf(t.sizes[dim2] - offset, 0) : t.sizes[dim2];
  const SizeExpr length = b.minOf(rows, cols);
  Tensor result = t;
  // Without elements the offset would lie outside; nothing is read then.
  result.offset = result.offset + (offset >= 0 ? t.strides[dim2] * offset : t.strides[dim1] * -offset);
  const SizeExpr stride = t.strides[dim1] + t.strides[dim2];
  result = dropDimension(dropDimension(std::move(result), std::max(dim1, dim2)), std::min(dim1, dim2));
  result.sizes.push_back(length);
  result.strides.push_back(stride);
  return result;
}

Tensor reversed(Tensor t, unsigned dim) {
  t.offset = t.offset + (t.sizes[dim] - 1) * t.strides[dim];
  t.strides[dim] = SizeExpr(0) - t.strides[dim];
  return t;
}

//===----------------------------------------------------------------------===//
// Reshapes
//===----------------------------------------------------------------------===//

static std::string text(const Sizes &sizes) {
  std::string result = "[";
  for (size_t d = 0; d < sizes.size(); ++d)
    result += (d ? ", " : "") + sizes[d].str();
  return result + "]";
}

Sizes inferSize(Builder &b, const SizeExpr &numel, Sizes sizes) {
  const std::string message = "shape '" + text(sizes) + "' is invalid for input of size {lhs}";
  std::optional<size_t> inferred;
  SizeExpr product = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d].isConstant(-1)) {
      if (inferred)
        throw Invalid("only one dimension can be inferred");
      inferred = d;
    } else {
      product = product * sizes[d];
    }
  }
  if (inferred) {
    if (product.isConstant(0))
      throw Invalid("cannot reshape tensor of 0 elements into shape " + text(sizes) +
                    " because the unspecified dimension size -1 can be any value and is ambiguous");
    sizes[*inferred] = SizeExpr::floordiv(numel, product);
    product = product * sizes[*inferred];
  }
  b.require(numel, product, message);
  return sizes;
}

std::optional<Tensor> tryReshape(const Tensor &t, const Sizes &sizes) {
  Tensor result = t;
  result.sizes = sizes;
  result.strides.assign(sizes.size(), 1);
  const auto isZero = [](const SizeExpr &e) { return e.isConstant(0); };
  if (std::any_of(sizes.begin(), sizes.end(), isZero) || std::any_of(t.sizes.begin(), t.sizes.end(), isZero)) {
    result.strides = loop::contiguousStrides(sizes);
    return result;
  }
  if (sizes == t.sizes) {
    result.strides = t.strides;
    return result;
  }
  // Runs of dimensions that lie behind one another become blocks, the last block first.
  struct Block {
    SizeExpr size, stride;
  };
  std::vector<Block> blocks;
  for (unsigned d = t.rank(); d-- > 0;) {
    if (t.sizes[d].isConstant(1))
      continue;
    if (!blocks.empty() && t.strides[d] == blocks.back().size * blocks.back().stride)
      blocks.back().size = blocks.back().size * t.sizes[d];
    else
      blocks.push_back({t.sizes[d], t.strides[d]});
  }
  // Each block is cut into new dimensions from its end.
  size_t at = 0;
  SizeExpr taken = 1; // of blocks[at]
  for (size_t d = sizes.size(); d-- > 0;) {
    if (at < blocks.size() && taken == blocks[at].size && !sizes[d].isConstant(1)) {
      ++at;
      taken = 1;
    }
    if (at == blocks.size()) {
      // Only ones are left; their strides are those of a contiguous layout around.
      if (!sizes[d].isConstant(1))
        return std::nullopt;
      result.strides[d] = d + 1 < sizes.size() ? result.strides[d + 1] * sizes[d + 1] : SizeExpr(1);
      continue;
    }
    result.strides[d] = blocks[at].stride * taken;
    taken = taken * sizes[d];
    if (!SizeExpr::divideExactly(blocks[at].size, taken))
      return std::nullopt;
  }
  if (blocks.empty() ? false : !(at + 1 == blocks.size() && taken == blocks[at].size))
    return std::nullopt;
  return result;
}

Tensor reshape(Builder &b, const Tensor &t, const Sizes &sizes) {
  const Sizes inferred = inferSize(b, loop::productOf(t.sizes), sizes);
  if (std::optional<Tensor> view = tryReshape(t, inferred))
    return *view;
  Tensor result = b.copy(t);
  result.sizes = inferred;
  result.strides = loop::contiguousStrides(inferred);
  return result;
}

Tensor flatten(Builder &b, const Tensor &t, unsigned first, unsigned last) {
  if (t.rank() == 0)
    return reshape(b, t, {1});
  Sizes sizes(t.sizes.begin(), t.sizes.begin() + first);
  sizes.push_back(loop::productOf(Sizes(t.sizes.begin() + first, t.sizes.begin() + last + 1)));
  sizes.insert(sizes.end(), t.sizes.begin() + last + 1, t.sizes.end());
  return reshape(b, t, sizes);
}

} // namespace tilewright::importer
