//===- Losses.cpp - losses and their gradients ----------------------------===//
#include "../Activations.h"
#include "../Reduce.h"
#include "../Registry.h"
#include "../Views.h"

#include <numeric>

namespace tilewright::importer {
namespace {

enum Reduction : int64_t { None = 0, Mean = 1, Sum = 2 }; // at::Reduction

/// fn(self, target) element by element, times the weight if the operator has one, then reduced.
template <typename Fn> Entry::Function loss(Fn fn, bool hasWeight = false) {
  return [fn, hasWeight](Builder &b) -> Results {
    std::vector<Operand> operands = {b.tensor("self"), b.tensor("target")};
    const int64_t reduction = b.integer("reduction");
    const DType common = resultType(operands);
    if (!isFloat(common))
      throw Unsupported("losses of integers");
    if (hasWeight && !b.isNone("weight"))
      operands.push_back(b.tensor("weight"));
    const auto value = [&](X x) { return x.size() > 2 ? fn(b, x[0], x[1]) * x[2] : fn(b, x[0], x[1]); };
    if (reduction == None)
      return {b.pointwise(common, operands, value)};
    const Tensor each = b.pointwise(opmathType(common), operands, value);
    std::vector<unsigned> dims(each.rank());
    std::iota(dims.begin(), dims.end(), 0);
    return {b.convert(reduction == Mean ? meanOf(b, each, dims, false) : sumOf(b, each, dims, false), common)};
  };
}

/// The gradient of such a loss: grad * fn(self, target), divided by the count under Mean.
template <typename Fn> Entry::Function lossBackward(Fn fn) {
  return [fn](Builder &b) -> Results {
    const Tensor grad = b.tensor("grad_output"), self = b.tensor("self"), target = b.tensor("target");
    const bool isMean = b.integer("reduction") == Mean;
    const DType common = resultType({grad, self, target});
    const Sizes sizes = b.broadcast(self.sizes, target.sizes);
    return {b.pointwise(common, {grad, self, target}, [&](X x) {
      const Ex g = isMean ? x[0] / b.sizeValue(loop::productOf(sizes)).to(x[0].type()) : x[0];
      return g * fn(b, x[1], x[2]);
    })};
  };
}

Ex number(Builder &b, const char *name, Ex like) { return like.like(b.number(name)); }

Ex smoothL1(Builder &b, Ex x, Ex y) {
  const Ex z = abs(x - y), beta = number(b, "beta", x);
  return select(z < beta, 0.5 * z * z / beta, z - 0.5 * beta);
}

Ex smoothL1Gradient(Builder &b, Ex x, Ex y) {
  const Ex z = x - y, beta = number(b, "beta", x);
  return select(z <= -beta, z.like(-1.0), select(z >= beta, z.like(1.0), z / beta));
}

Ex huber(Builder &b, Ex x, Ex y) {
  const Ex z = abs(x - y), delta = number(b, "delta", x);
  return select(z < delta, 0.5 * z * z, delta * (z - 0.5 * delta));
}

//===----------------------------------------------------------------------===//
// Negative log likelihood
//===----------------------------------------------------------------------===//

struct ClassTargets {
  Tensor self, target; // [N, C] and [N]
  std::optional<Tensor> weight;
  int64_t ignored;

  ClassTargets(Builder &b) : self(b.tensor("self")), target(b.tensor("target")), weight(b.optionalTensor("weight")) {
    ignored = b.integer("ignore_index");
    if (self.rank() < 1 || self.rank() > 2 || target.rank() != self.rank() - 1)
      throw Invalid("0D or 1D target tensor expected, multi-target not supported");
    if (self.rank() == 1) {
      self = unsqueeze(self, 0);
      target = unsqueeze(target, 0);
    }
    b.require(self.sizes[0], target.sizes[0], "size mismatch (got input of {lhs} rows, target: {rhs})");
    if (target.dtype != DType::I64 && target.dtype != DType::U8)
      throw Invalid("expected target of type long, got " + std::string(nameOf(target.dtype)));
  }

  Ex isIgnored(Ex t) const { return equal(t, ignored); }

  /// The target's class where it counts, else class 0; checked.
  Ex classOf(Builder &b, Ex t) const {
    return b.checked(select(isIgnored(t), 0, t), self.sizes[1], "Target {index} is out of bounds for {bound} classes.");
  }

  /// The weight of a class, 0 where the target is ignored.
  Ex weightOf(Builder &b, Ex t, Ex cls, DType type, unsigned rank) const {
    Ex w = b.constant(1, type);
    if (weight) {
      loop::Access access{weight->buffer, weight->offset, Sizes(rank), {{cls.get(), weight->strides[0]}}};
      w = Ex(b.pool(), b.pool().load(std::move(access), weight->dtype)).to(type);
    }
    return select(isIgnored(t), 0, w);
  }
};

Results nllForward(Builder &b) {
  const ClassTargets in(b);
  const bool oneRow = b.tensor("self").rank() == 1;
  const int64_t reduction = b.integer("reduction");
  const DType dtype = in.self.dtype, acc = opmathType(dtype);
  const Tensor losses = b.allocate(acc, in.target.sizes), weights = b.allocate(acc, in.target.sizes);
  const auto targetAt = [&] { return b.loadAligned(in.target, 1).to(DType::I64); };
  b.store(losses, [&] {
    const Ex t = targetAt(), cls = in.classOf(b, t);
    loop::Access access{in.self.buffer, in.self.offset, {in.self.strides[0]}, {{cls.get(), in.self.strides[1]}}};
    if (in.self.sizes[0].isConstant(1))
      access.coefs[0] = 0;
    const Ex logp = Ex(b.pool(), b.pool().load(std::move(access), dtype)).to(acc);
    return select(in.isIgnored(t), 0, -logp * in.weightOf(b, t, cls, acc, 1));
  });
  if (reduction == None) {
    const Tensor out = b.convert(losses, dtype);
    const Tensor total = b.allocate(dtype, {});
    b.store(total, [&] { return b.constant(0, dtype); });
    return {oneRow ? dropDimension(out, 0) : out, total};
  }
  b.store(weights, [&] {
    const Ex t = targetAt();
    return in.weightOf(b, t, in.classOf(b, t), acc, 1);
  });
  const Tensor total = sumOf(b, weights, {0}, false), sum = sumOf(b, losses, {0}, false);
  const Tensor out = reduction == Mean ? b.pointwise(
                                             acc, {sum, total}, [](X x) { return x[0] / x[1]; }, dtype)
                                       : b.convert(sum, dtype);
  return {out, b.convert(total, dtype)};
}

Results nllBackward(Builder &b) {
  const ClassTargets in(b);
  const bool oneRow = b.tensor("self").rank() == 1;
  const int64_t reduction = b.integer("reduction");
  const Tensor grad = b.tensor("grad_output"), total = b.tensor("total_weight");
  const DType dtype = in.self.dtype, acc = opmathType(dtype);
  const Tensor out = b.allocate(dtype, in.self.sizes);
  b.store(out, [&] {
    const unsigned row[] = {0};
    const Ex t = b.load(in.target, row, 2).to(DType::I64), cls = in.classOf(b, t);
    Ex g = (grad.rank() == 1 ? b.load(grad, row, 2) : b.loadAligned(grad, 2)).to(acc);
    if (reduction == Mean)
      g = g / b.loadAligned(total, 2).to(acc);
    const Ex hit = equal(b.index(1), cls) & ~in.isIgnored(t);
    return select(hit, -(g * in.weightOf(b, t, cls, acc, 2)), 0.0);
  });
  return {oneRow ? dropDimension(out, 0) : out};
}

//===----------------------------------------------------------------------===//
// Binary cross entropy
//===----------------------------------------------------------------------===//

/// ATen bounds the logarithms from below by -100.
Ex crossEntropy(Builder &, Ex x, Ex y) { return (y - 1.0) * max(log1p(-x), -100.0) - y * max(log(x), -100.0); }

Ex crossEntropyGradient(Builder &, Ex x, Ex y) { return (x - y) / max((1.0 - x) * x, 1e-12); }

template <typename Fn> Entry::Function withoutWeight(Fn fn) {
  return [fn](Builder &b) -> Results {
    if (!b.isNone("weight"))
      throw Unsupported("weights of the elements");
    return fn(b);
  };
}

} // namespace

void addLosses(Registry &r) {
  const auto square = [](Builder &, Ex x, Ex y) { return (x - y) * (x - y); };
  r.add({"aten.mse_loss.default"}, "self, target, reduction=1", loss(square));
  r.add({"aten.mse_loss_backward.default"}, "grad_output, self, target, reduction",
        lossBackward([](Builder &, Ex x, Ex y) { return (x - y) * 2.0; }));
  r.add({"aten.l1_loss.default"}, "self, target, reduction=1", loss([](Builder &, Ex x, Ex y) { return abs(x - y); }));
  r.add({"aten.smooth_l1_loss.default"}, "self, target, reduction=1, beta=1.0", loss(smoothL1));
  r.add({"aten.smooth_l1_loss_backward.default"}, "grad_output, self, target, reduction, beta",
        lossBackward(smoothL1Gradient));
  r.add({"aten.huber_loss.default"}, "self, target, reduction=1, delta=1.0", loss(huber));
  r.add({"aten.binary_cross_entropy.default"}, "self, target, weight=None, reduction=1", loss(crossEntropy, true));
  r.add({"aten.binary_cross_entropy_backward.default"}, "grad_output, self, target, weight=None, reduction=1",
        withoutWeight(lossBackward(crossEntropyGradient)));
  r.add({"aten.nll_loss_forward.default"}, "self, target, weight, reduction, ignore_index", nllForward);
  r.add({"aten.nll_loss_backward.default"}, "grad_output, self, target, weight, reduction, ignore_index, total_weight",
        nllBackward);
}

} // namespace tilewright::importer
