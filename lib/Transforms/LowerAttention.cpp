//===- LowerAttention.cpp - attention as contractions and a softmax -------===//

#include "tilewright/Transforms/Domain.h"
#include "tilewright/Transforms/Fusion.h"

#include <limits>

namespace tilewright::loop {

namespace {

class Lowering {
public:
  Lowering(Module &module, const Nest &attention) : module(module), pool(module.pool), nest(attention) {}

  void run(std::vector<Nest> &out) {
    const Tensor &q = nest.operands[0], &k = nest.operands[1], &v = nest.operands[2];
    B = q.sizes[0], H = q.sizes[1], M = q.sizes[2], D = q.sizes[3], N = k.sizes[2], E = v.sizes[3];
    DType operand = q.dtype;
    DType wide = operand == DType::F64 ? DType::F64 : DType::F32;
    std::vector<SizeExpr> square = {B, H, M, N}, rows = {B, H, M};

    // S = q k^T * scale, masked
    Nest scores = start(Nest::Contraction, {B, H, M, N, D}, 1);
    scores.operandType = operand;
    scores.lhs = access(q, {0, 1, 2, -1, 3});
    scores.rhs = access(k, {0, 1, -1, 2, 3});
    ExprRef s = pool.make(ScalarOp::Mul, wide, {pool.accumulator(wide), pool.constantFloat(nest.scale, wide)});
    ExprRef lowest = pool.constantFloat(-std::numeric_limits<double>::infinity(), wide);
    if (nest.operands.size() > 3) {
      const Tensor &mask = nest.operands[3];
      ExprRef value = pool.load(access(mask, {0, 1, 2, 3}), mask.dtype);
      if (mask.dtype == DType::Bool)
        s = pool.make(ScalarOp::Select, wide, {value, s, lowest});
      else
        s = pool.make(ScalarOp::Add, wide, {s, pool.cast(value, wide)});
    }
    if (nest.causal)
      s = pool.make(ScalarOp::Select, wide,
                    {pool.make(ScalarOp::Le, DType::Bool, {pool.index(3), pool.index(2)}), s, lowest});
    Access scoresAt = temporary(square, wide);
    scores.stores.push_back({scoresAt, s});
    out.push_back(std::move(scores));

    // Numerators exp(S - max), where a row that is masked entirely has maximum 0
    Nest maximum = start(Nest::Reduction, square, 1);
    maximum.reduce = ReduceKind::Max;
    maximum.body = pool.load(scoresAt, wide);
    maximum.target = temporary(rows, wide);
    Access maximumAt = maximum.target;
    maximumAt.coefs.push_back(0);
    out.push_back(std::move(maximum));

    Nest exponential = start(Nest::Pointwise, square, 0);
    ExprRef largest = pool.load(maximumAt, wide), zero = pool.constantFloat(0, wide);
    ExprRef shift =
        pool.make(ScalarOp::Select, wide, {pool.make(ScalarOp::Eq, DType::Bool, {largest, lowest}), zero, largest});
    ExprRef p = pool.make(ScalarOp::Exp, wide, {pool.make(ScalarOp::Sub, wide, {pool.load(scoresAt, wide), shift})});
    Access weightsAt = temporary(square, operand);
    exponential.stores.push_back({weightsAt, pool.cast(p, operand)});
    out.push_back(std::move(exponential));

    Nest total = start(Nest::Reduction, square, 1);
    total.reduce = ReduceKind::Sum;
    total.body = pool.cast(pool.load(weightsAt, operand), wide);
    total.target = temporary(rows, wide);
    Access totalAt = total.target;
    totalAt.coefs.push_back(0);
    out.push_back(std::move(total));

    // O = P v / sum
    Nest product = start(Nest::Contraction, {B, H, M, E, N}, 1);
    product.operandType = operand;
    product.lhs = weightsAt;
    product.lhs.coefs = {weightsAt.coefs[0], weightsAt.coefs[1], weightsAt.coefs[2], 0, weightsAt.coefs[3]};
    product.rhs = access(v, {0, 1, -1, 3, 2});
    ExprRef sum = pool.load(totalAt, wide);
    ExprRef divisor = pool.make(ScalarOp::Select, wide,
                                {pool.make(ScalarOp::Eq, DType::Bool, {sum, zero}), pool.constantFloat(1, wide), sum});
    ExprRef value = pool.make(ScalarOp::Div, wide, {pool.accumulator(wide), divisor});
    product.stores.push_back({access(nest.result, {0, 1, 2, 3}), pool.cast(value, nest.result.dtype)});
    out.push_back(std::move(product));
  }

private:
  Module &module;
  ExprPool &pool;
  const Nest &nest;
  SizeExpr B, H, M, N, D, E;

  Nest start(Nest::Kind kind, std::vector<SizeExpr> domain, unsigned reduced) {
    Nest result;
    result.kind = kind;
    result.domain = std::move(domain);
    result.reduced = reduced;
    result.op = nest.op;
    result.source = nest.source;
    return result;
  }

  /// Coefficients of a tensor over a domain: dims[d] is the tensor's dimension for domain dimension d, or -1.
  static Access access(const Tensor &t, std::vector<int> dims) {
    Access result;
    result.buffer = t.buffer;
    result.offset = t.offset;
    for (int d : dims)
      result.coefs.push_back(d < 0 || t.sizes[d].isConstant(1) ? SizeExpr(0) : t.strides[d]);
    return result;
  }

  Access temporary(const std::vector<SizeExpr> &sizes, DType type) {
    Access result;
    result.buffer = module.buffers.size();
    result.coefs = contiguousStrides(sizes);
    Buffer buffer;
    buffer.dtype = type;
    buffer.elements = productOf(sizes);
    module.buffers.push_back(std::move(buffer));
    return result;
  }
};

} // namespace

/// What the fused kernel takes.
static bool hasFusedKernel(const Nest &nest) {
  for (size_t i = 0; i < nest.operands.size(); ++i) {
    DType type = nest.operands[i].dtype;
    if (nest.operands[i].rank() != 4 || (type != DType::F32 && !(i == 3 && type == DType::Bool)))
      return false;
  }
  return nest.result.dtype == DType::F32;
}

void lowerAttention(Module &module) {
  std::vector<Nest> result;
  for (Nest &nest : module.nests)
    if (nest.kind == Nest::Attention && !hasFusedKernel(nest))
      Lowering(module, nest).run(result);
    else
      result.push_back(std::move(nest));
  module.nests = std::move(result);
}

} // namespace tilewright::loop
