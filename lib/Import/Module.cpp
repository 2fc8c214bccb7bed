//===- Module.cpp - the module being built, across nodes ------------------===//
#include "Module.h"

#include <algorithm>

namespace tilewright::importer {

ModuleState::ModuleState(const graph::Graph &graph) : graph(graph) {
  const size_t count = graph.symbols.size();
  module.name = graph.name;
  module.symbolCount = static_cast<uint32_t>(count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t low = graph.symbols[i].min.value_or(0); // symbols are sizes, unless the description says otherwise
    module.symbolMin.push_back(low);
    nonNegative.push_back(low >= 0);
    shifted.push_back(SizeExpr::symbol(i) + std::max<int64_t>(low, 0));
    atLeastTwo.push_back(SizeExpr::symbol(i) + std::max<int64_t>(low, 2));
  }
}

/// SizeExpr knows symbols as non-negative and drops what cannot win.
static bool isNonNegative(const SizeExpr &e) { return SizeExpr::max(e, 0) == e; }

bool ModuleState::provenNonNegative(const SizeExpr &e) {
  if (std::optional<int64_t> c = e.constant())
    return *c >= 0;
  const std::vector<unsigned> used = e.symbols();
  if (std::any_of(used.begin(), used.end(), [&](unsigned id) { return !nonNegative[id]; }))
    return false;
  if (isNonNegative(e))
    return true;
  if (!isNonNegative(e.substitute(shifted)))
    return false;
  for (unsigned id : used)
    if (module.symbolMin[id] > 0)
      check({loop::Check::LessEqual, module.symbolMin[id], SizeExpr::symbol(id),
             "this program was compiled for sizes of at least {lhs}, but s" + std::to_string(id) + " is {rhs}"});
  return true;
}

bool ModuleState::probablyLess(const SizeExpr &a, const SizeExpr &b) const {
  if (a == b)
    return false;
  if (std::optional<int64_t> x = a.constant(), y = b.constant(); x && y)
    return *x < *y;
  return isNonNegative((b - a).substitute(atLeastTwo) - 1);
}

std::optional<int64_t> ModuleState::hint(const SizeExpr &e) const {
  std::vector<int64_t> hints;
  for (const graph::Symbol &symbol : graph.symbols)
    hints.push_back(symbol.hint.value_or(0));
  for (unsigned id : e.symbols())
    if (!graph.symbols[id].hint)
      return std::nullopt;
  return e.evaluate(hints);
}

void ModuleState::check(loop::Check check) {
  for (const loop::Check &known : module.checks)
    if (known.op == check.op && known.lhs == check.lhs && known.rhs == check.rhs)
      return;
  module.checks.push_back(std::move(check));
}

} // namespace tilewright::importer
