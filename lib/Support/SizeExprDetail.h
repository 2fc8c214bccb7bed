//===- SizeExprDetail.h - the representation of SizeExpr ---------*- C++ -*-===//
//
// Private to lib/Support: what SizeExpr.cpp computes with and SizeExprText.cpp prints.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Support/SizeExpr.h"

#include <utility>

namespace tilewright {

struct SizeExpr::Atom {
  enum Kind : uint8_t { Symbol, FloorDiv, Min, Max } kind;
  unsigned id = 0;   // Symbol
  SizeExpr lhs, rhs; // the others
};

/// Sorted by term, graded: fewer atoms first, then lexicographic. That is a monomial order (multiplying both sides by
/// a term keeps it), which exact division relies on. No coefficient is zero.
struct SizeExpr::Poly {
  std::vector<std::pair<Term, int64_t>> terms;
};

/// Products of sums grow fast; no shape computation comes near this number of terms, a damaged file may.
inline constexpr size_t kMaxTerms = 4096;

struct SizeExprAccess {
  using Terms = std::vector<std::pair<SizeExpr::Term, int64_t>>;
  static const Terms &terms(const SizeExpr &e) {
    static const Terms none;
    return e.poly ? e.poly->terms : none;
  }
  static SizeExpr make(Terms terms) {
    if (terms.empty())
      return SizeExpr(std::shared_ptr<const SizeExpr::Poly>());
    return SizeExpr(std::make_shared<const SizeExpr::Poly>(SizeExpr::Poly{std::move(terms)}));
  }
  static const void *identity(const SizeExpr &e) { return e.poly.get(); }
};

} // namespace tilewright
