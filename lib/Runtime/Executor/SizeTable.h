//===- SizeTable.h - all size expressions of a program -----------*- C++ -*-===//
//
// Each distinct expression once, so that binding a set of sizes evaluates each once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Support/SizeExpr.h"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace tilewright {

class SizeTable {
public:
  using Id = uint32_t;

  Id add(const SizeExpr &e);
  std::vector<Id> add(const std::vector<SizeExpr> &list);

  struct Values {
    std::vector<int64_t> value;
    std::vector<bool> undefined; // a division by zero: an error only if somebody needs it
    /// Throws std::domain_error if undefined.
    int64_t operator[](Id id) const;
  };
  /// Throws std::overflow_error.
  Values evaluate(std::span<const int64_t> symbols) const;

  const SizeExpr &expression(Id id) const { return expressions[id]; }

private:
  std::vector<SizeExpr> expressions;
  std::map<SizeExpr, Id> ids;
};

} // namespace tilewright
