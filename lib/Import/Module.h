//===- Module.h - the module being built, across nodes -----------*- C++ -*-===//
#pragma once

#include "tilewright/Graph/Graph.h"
#include "tilewright/Import/LoopIR.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tilewright::importer {

/// What a value id stands for. monostate: a result that PyTorch leaves out.
struct NumberInput {
  uint32_t input; // an `int` or `float` input
};
using Value = std::variant<std::monostate, loop::Tensor, NumberInput>;

/// State that outlives a node.
struct ModuleState {
  explicit ModuleState(const graph::Graph &graph);

  const graph::Graph &graph;
  loop::Module module;
  std::vector<Value> values;

  /// Whether e >= 0 for all sizes a program may be called with. Proofs that use a symbol's lower bound add a check of
  /// it.
  bool provenNonNegative(const SizeExpr &e);
  /// Whether a < b, taking every symbol to be at least 2: good enough to order strides, where nothing else depends on
  /// it.
  bool probablyLess(const SizeExpr &a, const SizeExpr &b) const;
  /// The value at the call that made the graph, if all symbols have one.
  std::optional<int64_t> hint(const SizeExpr &e) const;
  /// Adds a check unless it is there already.
  void check(loop::Check check);

private:
  std::vector<SizeExpr> shifted, atLeastTwo; // symbol i -> symbol i + its lower bound
  std::vector<bool> nonNegative;
};

} // namespace tilewright::importer
