//===- Attention.cpp - scaled dot product attention -----------------------===//
#include "../Registry.h"
#include "../Views.h"

#include <cmath>

namespace tilewright::importer {
namespace {

/// [..., H, L, D] with its leading dimensions made one: [B, H, L, D].
Tensor fourDimensions(Builder &b, const Tensor &t) {
  if (t.rank() == 4)
    return t;
  if (t.rank() == 3)
    return unsqueeze(t, 0);
  if (t.rank() == 2)
    return unsqueeze(unsqueeze(t, 0), 0);
  return flatten(b, t, 0, t.rank() - 4);
}

/// Every head of k and v serves `groups` heads of q that follow one another.
Tensor repeatHeads(Builder &b, const Tensor &t, const SizeExpr &groups) {
  if (groups.isConstant(1))
    return t;
  const Tensor repeated = broadcastTo(unsqueeze(t, 2), {t.sizes[0], t.sizes[1], groups, t.sizes[2], t.sizes[3]});
  return reshape(b, repeated, {t.sizes[0], t.sizes[1] * groups, t.sizes[2], t.sizes[3]});
}

Results attention(Builder &b) {
  const Tensor query = b.tensor("query"), key = b.tensor("key"), value = b.tensor("value");
  std::optional<Tensor> mask = b.optionalTensor("attn_mask");
  const bool causal = b.flag("is_causal");
  if (!isFloat(query.dtype) || query.dtype != key.dtype || query.dtype != value.dtype)
    throw Invalid("Expected query, key, and value to have the same floating point dtype");
  if (query.rank() < 2 || query.rank() != key.rank() || query.rank() != value.rank())
    throw Unsupported("attention over operands of different ranks");
  if (b.number("dropout_p") != 0)
    throw Unsupported("dropout inside attention");
  if (mask && causal)
    throw Invalid("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  if (mask && mask->dtype != DType::Bool && mask->dtype != query.dtype)
    throw Invalid("Expected attn_mask dtype to be bool or to match query dtype");

  Tensor q = fourDimensions(b, query), k = fourDimensions(b, key), v = fourDimensions(b, value);
  if (b.flag("enable_gqa")) {
    const char *message = "Number of heads in key and value must divide the number of heads in query ({lhs})";
    const SizeExpr groups = b.divide(q.sizes[1], k.sizes[1], message);
    b.require(k.sizes[1], v.sizes[1], "key and value must have the same number of heads, got {lhs} and {rhs}");
    k = repeatHeads(b, k, groups);
    v = repeatHeads(b, v, groups);
  }
  const char *what[] = {"batch", "heads"};
  for (unsigned d = 0; d < 2; ++d) {
    const Sizes common = b.broadcast({q.sizes[d]}, b.broadcast({k.sizes[d]}, {v.sizes[d]}));
    for (Tensor *t : {&q, &k, &v}) {
      Sizes sizes = t->sizes;
      sizes[d] = common[0];
      *t = broadcastTo(*t, sizes);
    }
    b.require(q.sizes[d], k.sizes[d], std::string("query and key differ in ") + what[d] + ": {lhs} and {rhs}");
  }
  b.require(q.sizes[3], k.sizes[3], "query and key must have the same last dimension, got {lhs} and {rhs}");
  b.require(k.sizes[2], v.sizes[2], "key and value must have the same sequence length, got {lhs} and {rhs}");

  Nest nest;
  nest.kind = Nest::Attention;
  nest.operands = {q, k, v};
  if (mask) {
    Sizes sizes(query.sizes.begin(), query.sizes.end() - 1);
    sizes.push_back(key.sizes[key.rank() - 2]);
    nest.operands.push_back(fourDimensions(b, expand(b, *mask, sizes)));
  }
  nest.causal = causal;
  if (std::optional<double> scale = b.optionalNumber("scale")) {
    nest.scale = *scale;
  } else if (std::optional<int64_t> width = q.sizes[3].constant()) {
    nest.scale = 1 / std::sqrt(static_cast<double>(*width));
  } else if (query.dtype == DType::F32 || query.dtype == DType::F64) {
    // A scale known only at the call goes into the query, where nothing is rounded more coarsely than the scores.
    const SizeExpr width = q.sizes[3];
    nest.operands[0] =
        b.pointwise(query.dtype, {q}, [&](X x) { return x[0] / sqrt(b.sizeValue(width).to(query.dtype)); });
  } else {
    throw Unsupported("attention in a narrow dtype over heads of symbolic width without a scale");
  }
  // Heads lie beside one another in a row, as the projection that follows wants them.
  const SizeExpr B = q.sizes[0], H = q.sizes[1], M = q.sizes[2], E = v.sizes[3];
  nest.result = permute(b.allocate(query.dtype, {B, M, H, E}), {0, 2, 1, 3});
  const Tensor result = nest.result;
  b.addNest(std::move(nest));
  Sizes shape(query.sizes.begin(), query.sizes.end() - 1);
  shape.push_back(E);
  if (query.rank() == 4)
    return {result};
  if (query.rank() < 4) {
    Tensor out = result;
    for (unsigned r = 4; r > query.rank(); --r)
      out = dropDimension(std::move(out), 0);
    return {out};
  }
  return {reshape(b, result, shape)};
}

} // namespace

void addAttention(Registry &r) {
  r.add({"tilewright.sdpa.default", "aten.scaled_dot_product_attention.default"},
        "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False", attention);
}

} // namespace tilewright::importer
