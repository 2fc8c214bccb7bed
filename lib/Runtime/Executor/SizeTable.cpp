//===- SizeTable.cpp - all size expressions of a program ------------------===//
#include "SizeTable.h"

#include <stdexcept>

namespace tilewright {

SizeTable::Id SizeTable::add(const SizeExpr &e) {
  auto [it, added] = ids.try_emplace(e, expressions.size());
  if (added)
    expressions.push_back(e);
  return it->second;
}

std::vector<SizeTable::Id> SizeTable::add(const std::vector<SizeExpr> &list) {
  std::vector<Id> result;
  result.reserve(list.size());
  for (const SizeExpr &e : list)
    result.push_back(add(e));
  return result;
}

int64_t SizeTable::Values::operator[](Id id) const {
  if (undefined[id])
    throw std::domain_error("division by zero in a size expression");
  return value[id];
}

SizeTable::Values SizeTable::evaluate(std::span<const int64_t> symbols) const {
  Values result;
  result.value.resize(expressions.size());
  result.undefined.resize(expressions.size());
  for (size_t i = 0; i < expressions.size(); ++i) {
    try {
      result.value[i] = expressions[i].evaluate(symbols);
    } catch (const std::domain_error &) {
      // A loop over an empty domain never evaluates its indices (SizeExpr.h).
      result.undefined[i] = true;
    }
  }
  return result;
}

} // namespace tilewright
