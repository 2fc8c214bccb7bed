//===- Builder.h - what an operator's entry works with -----------*- C++ -*-===//
//
// One Builder serves one node: arguments by name, and ways to emit nests into the module. Private to lib/Import.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Ex.h"
#include "Module.h"
#include "tilewright/Graph/Graph.h"
#include "tilewright/Import/LoopIR.h"

#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tilewright::importer {

using loop::Nest;
using loop::ReduceKind;
using loop::Tensor;
using Sizes = std::vector<SizeExpr>;

/// The entry does not cover this use: the node becomes an island. The message is the island's reason.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The node means nothing: PyTorch would refuse it too.
struct Invalid : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A Python number: known now, a symbolic integer, or read at run time from a 0-d buffer.
struct Scalar {
  std::variant<bool, int64_t, double, SizeExpr, Tensor> value;

  Scalar(bool v) : value(v) {}
  Scalar(int64_t v) : value(v) {}
  Scalar(int v) : value(static_cast<int64_t>(v)) {}
  Scalar(double v) : value(v) {}
  Scalar(SizeExpr v) : value(std::move(v)) {}
  Scalar(Tensor v) : value(std::move(v)) {}

  /// Bool, I64 or F64: the category in type promotion.
  DType category() const;
  std::optional<double> constant() const;
  bool isConstant(double v) const { return constant() == std::optional<double>(v); }
};

/// A tensor or a number, and how it is read.
struct Operand {
  std::variant<Tensor, Scalar> value;
  bool raw = false; // loaded in its own type, whatever the others compute in

  Operand(Tensor t) : value(std::move(t)) {}
  Operand(Scalar s) : value(std::move(s)) {}
  const Tensor *tensor() const { return std::get_if<Tensor>(&value); }
  const Scalar *scalar() const { return std::get_if<Scalar>(&value); }
};
Operand raw(Tensor t);

using PointFn = std::function<Ex(std::span<const Ex>)>;

class Builder {
public:
  Builder(ModuleState &state, const graph::Node &node, std::string_view parameters);

  //===--- Arguments, by the names of the ATen schema -----------------------===//
  // Each throws Invalid, naming the argument, if it is missing or of another kind.

  bool isNone(std::string_view name);
  Operand operand(std::string_view name);
  Tensor tensor(std::string_view name);
  std::optional<Tensor> optionalTensor(std::string_view name);
  std::vector<Tensor> tensors(std::string_view name);
  std::vector<std::optional<Tensor>> optionalTensors(std::string_view name);
  Scalar scalar(std::string_view name);
  std::optional<Scalar> optionalScalar(std::string_view name);
  std::vector<Scalar> scalars(std::string_view name);
  int64_t integer(std::string_view name);
  std::optional<int64_t> optionalInteger(std::string_view name);
  SizeExpr size(std::string_view name);
  std::optional<SizeExpr> optionalSize(std::string_view name);
  /// A list, or one number that stands for a list of one.
  Sizes sizes(std::string_view name);
  std::vector<int64_t> integers(std::string_view name);
  double number(std::string_view name);
  std::optional<double> optionalNumber(std::string_view name);
  bool flag(std::string_view name);
  std::optional<bool> optionalFlag(std::string_view name);
  std::vector<bool> flags(std::string_view name);
  std::string text(std::string_view name);
  std::optional<DType> dtype(std::string_view name);
  /// What the description says of result i, if anything.
  const graph::OutputInfo *described(size_t i) const;
  size_t resultCount() const { return node.outputs.size(); }

  /// A dimension in [0, rank), from Python's [-rank, rank). A 0-d tensor has dimension 0 too.
  unsigned dimension(int64_t dim, unsigned rank) const;
  /// Distinct dimensions, sorted; an empty list means all of them if `emptyIsAll`.
  std::vector<unsigned> dimensions(const std::vector<int64_t> &dims, unsigned rank, bool emptyIsAll) const;

  //===--- Sizes ------------------------------------------------------------===//

  /// Numpy's rule; sizes that cannot be compared now are checked at the call.
  Sizes broadcast(const Sizes &a, const Sizes &b);
  Sizes broadcast(std::span<const Operand> operands);
  /// Demands a == b: at once if both are known, else by a check at the call. "{lhs}" and "{rhs}" in the message are the
  /// values.
  void require(const SizeExpr &a, const SizeExpr &b, const std::string &message);
  /// a / b; that b divides a is checked at the call where it cannot be seen.
  SizeExpr divide(const SizeExpr &a, const SizeExpr &b, const std::string &message);
  void require(loop::Check::Op op, const SizeExpr &a, const SizeExpr &b, const std::string &message);
  bool provenNonNegative(const SizeExpr &e) { return state.provenNonNegative(e); }
  SizeExpr minOf(const SizeExpr &a, const SizeExpr &b);
  SizeExpr maxOf(const SizeExpr &a, const SizeExpr &b);

  //===--- Expressions ------------------------------------------------------===//

  Ex constant(double value, DType type) { return {pool(), pool().constantFloat(value, type)}; }
  Ex constantInt(int64_t value, DType type) { return {pool(), pool().constantInt(value, type)}; }
  Ex sizeValue(const SizeExpr &value) { return {pool(), pool().size(value)}; }
  Ex index(unsigned dim) { return {pool(), pool().index(dim)}; }
  /// The number in `type`: no rounding on the way but the last.
  Ex value(const Scalar &scalar, DType type);
  /// Element of t in a nest: dimension d of t runs with dimension dims[d] of a domain of `rank` dimensions.
  Ex load(const Tensor &t, std::span<const unsigned> dims, unsigned rank);
  /// Element of t under numpy's alignment to a domain of `rank` dimensions; dimensions of size 1 stand still.
  Ex loadAligned(const Tensor &t, unsigned rank);
  loop::Access access(const Tensor &t, std::span<const unsigned> dims, unsigned rank);
  /// An index into [0, bound), checked at run time. `message` with {index} and {bound}.
  Ex checked(Ex index, const SizeExpr &bound, const std::string &message);
  /// The same where negative indices count from the end.
  Ex checkedFromEnd(Ex index, const SizeExpr &bound, const std::string &message);
  /// x, as what integers are divided by: zero is an error of data. Floats pass.
  Ex divisor(Ex x);

  //===--- Nests ------------------------------------------------------------===//

  /// A buffer of its own; contiguous unless strides are given (non-overlapping, offset 0).
  Tensor allocate(DType dtype, const Sizes &sizes, const Sizes *strides = nullptr, bool partial = false);
  /// out[i...] = fn() for indices of out's dimensions.
  void store(const Tensor &out, const std::function<Ex()> &fn);
  /// Elementwise with broadcasting. Operands are converted to `common`, then computed in opmathType(common); the result
  /// is converted to `result` (default: common). A number keeps its precision in the computation, as 0-d tensors of a
  /// wider float do. Strides of the result follow PyTorch's rule.
  Tensor pointwise(DType common, const std::vector<Operand> &operands, const PointFn &fn,
                   std::optional<DType> result = std::nullopt);
  /// Reduces the broadcast operands; the result has the body's type and contiguous strides.
  Tensor reduce(ReduceKind kind, DType common, const std::vector<Operand> &operands, const std::vector<unsigned> &dims,
                bool keepDim, const PointFn &body);
  /// acc = lhs[batch..., m, k] @ rhs[batch..., k, n]; batch dimensions are equal or 1. The result is fn(acc, extras) in
  /// `result`, with the extras broadcast to [batch..., m, n] and computed in the accumulator's type.
  Tensor contraction(const Tensor &lhs, const Tensor &rhs, const std::vector<Operand> &extras, DType result,
                     const std::function<Ex(Ex acc, std::span<const Ex> extras)> &fn);
  Tensor convert(const Tensor &t, DType dtype);
  /// A copy with the given strides (contiguous by default).
  Tensor copy(const Tensor &t, const Sizes *strides = nullptr, std::optional<DType> dtype = std::nullopt);
  /// t if it is contiguous, else a copy.
  Tensor contiguous(const Tensor &t);
  /// Writes the value of src (converted) into dst, which has the same sizes.
  void assign(const Tensor &dst, const Tensor &src);
  void addNest(Nest nest);

  ExprPool &pool() { return state.module.pool; }
  ModuleState &state;

private:
  const graph::Arg &arg(std::string_view name);
  [[noreturn]] void wrongKind(std::string_view name, const char *expected);
  std::optional<Tensor> splitReduction(ReduceKind kind, DType common, const std::vector<Operand> &operands,
                                       const Sizes &sizes, const PointFn &body);
  Ex read(const Operand &operand, DType common, std::span<const unsigned> dims, unsigned rank);

  const graph::Node &node;
  bool combining = false; // the parts of a split reduction are not split again
  std::vector<std::pair<std::string, graph::Arg>> bound;
};

//===--- Type promotion: c10's rules -----------------------------------------===//

DType promoteTypes(DType a, DType b);
/// The common type of tensors with dimensions, 0-d tensors and numbers, in falling priority.
DType resultType(std::span<const Operand> operands);
inline DType resultType(std::initializer_list<Operand> operands) {
  return resultType(std::span<const Operand>(operands.begin(), operands.size()));
}
/// resultType, with integers and bool becoming f32 (the default dtype).
DType floatResultType(std::span<const Operand> operands);
/// What is computed in: f32 for bf16 and f16, else the type itself.
DType opmathType(DType type);
/// What is summed in: f32, f64 or i64.
DType accumulateType(DType type);

} // namespace tilewright::importer
