//===- SizeExpr.cpp - canonical polynomials over sizes --------------------===//
//
// Sums of integer multiples of products of atoms. All simplifications are identities of the integers for every value of
// the symbols at which no divisor is zero.
//
//===----------------------------------------------------------------------===//
#include "tilewright/Support/SizeExpr.h"

#include "SizeExprDetail.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <stdexcept>

namespace tilewright {

using Atom = SizeExpr::Atom;
using Term = SizeExpr::Term;
using Terms = SizeExprAccess::Terms;

static const Terms &termsOf(const SizeExpr &e) { return SizeExprAccess::terms(e); }

//===----------------------------------------------------------------------===//
// Checked arithmetic
//===----------------------------------------------------------------------===//

[[noreturn]] static void overflow() { throw std::overflow_error("a size expression exceeds 64 bits"); }

static int64_t addChecked(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r))
    overflow();
  return r;
}

static int64_t mulChecked(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r))
    overflow();
  return r;
}

static int64_t floorDivChecked(int64_t a, int64_t b) {
  if (b == 0)
    throw std::domain_error("division by zero in a size expression");
  if (a == INT64_MIN && b == -1)
    overflow();
  int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

static int compare(const SizeExpr &a, const SizeExpr &b);

static int compare(const Atom &a, const Atom &b) {
  if (&a == &b)
    return 0;
  if (a.kind != b.kind)
    return a.kind < b.kind ? -1 : 1;
  if (a.kind == Atom::Symbol)
    return a.id == b.id ? 0 : a.id < b.id ? -1 : 1;
  if (int c = compare(a.lhs, b.lhs))
    return c;
  return compare(a.rhs, b.rhs);
}

static int compare(const Term &a, const Term &b) {
  if (a.size() != b.size())
    return a.size() < b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    if (int c = compare(*a[i], *b[i]))
      return c;
  return 0;
}

static int compare(const SizeExpr &a, const SizeExpr &b) {
  if (SizeExprAccess::identity(a) == SizeExprAccess::identity(b))
    return 0;
  const Terms &x = termsOf(a), &y = termsOf(b);
  if (x.size() != y.size())
    return x.size() < y.size() ? -1 : 1;
  for (size_t i = 0; i < x.size(); ++i) {
    if (int c = compare(x[i].first, y[i].first))
      return c;
    if (x[i].second != y[i].second)
      return x[i].second < y[i].second ? -1 : 1;
  }
  return 0;
}

bool SizeExpr::operator==(const SizeExpr &other) const { return compare(*this, other) == 0; }
bool SizeExpr::operator<(const SizeExpr &other) const { return compare(*this, other) < 0; }

//===----------------------------------------------------------------------===//
// Sums and products
//===----------------------------------------------------------------------===//

SizeExpr::SizeExpr(int64_t constant) {
  if (constant != 0)
    poly = std::make_shared<const Poly>(Poly{{{Term{}, constant}}});
}

static SizeExpr fromAtom(std::shared_ptr<const Atom> atom) {
  return SizeExprAccess::make({{Term{std::move(atom)}, 1}});
}

SizeExpr SizeExpr::symbol(unsigned id) {
  // Graphs use a handful of symbols very often; sharing them makes comparisons stop at the pointer.
  static const std::array<SizeExpr, 32> few = [] {
    std::array<SizeExpr, 32> table;
    for (unsigned i = 0; i < table.size(); ++i)
      table[i] = fromAtom(std::make_shared<const Atom>(Atom{Atom::Symbol, i, {}, {}}));
    return table;
  }();
  return id < few.size() ? few[id] : fromAtom(std::make_shared<const Atom>(Atom{Atom::Symbol, id, {}, {}}));
}

std::optional<int64_t> SizeExpr::constant() const {
  const Terms &terms = termsOf(*this);
  if (terms.empty())
    return 0;
  if (terms.size() == 1 && terms[0].first.empty())
    return terms[0].second;
  return std::nullopt;
}

bool SizeExpr::provablyNonNegative() const {
  auto nonNegative = [](const std::shared_ptr<const Atom> &atom) {
    switch (atom->kind) {
    case Atom::Symbol:
      return true;
    case Atom::FloorDiv: // Of a negative divisor nothing is claimed.
    case Atom::Min:
      return atom->lhs.provablyNonNegative() && atom->rhs.provablyNonNegative();
    case Atom::Max:
      return atom->lhs.provablyNonNegative() || atom->rhs.provablyNonNegative();
    }
    return false;
  };
  for (const auto &[term, coefficient] : termsOf(*this))
    if (coefficient < 0 || !std::all_of(term.begin(), term.end(), nonNegative))
      return false;
  return true;
}

/// a + factor * b.
static SizeExpr addScaled(const SizeExpr &a, const SizeExpr &b, int64_t factor) {
  const Terms &x = termsOf(a), &y = termsOf(b);
  Terms sum;
  sum.reserve(x.size() + y.size());
  size_t i = 0, j = 0;
  while (i < x.size() || j < y.size()) {
    int c = i == x.size() ? 1 : j == y.size() ? -1 : compare(x[i].first, y[j].first);
    if (c < 0) {
      sum.push_back(x[i++]);
    } else if (c > 0) {
      sum.emplace_back(y[j].first, mulChecked(y[j].second, factor));
      ++j;
    } else {
      if (int64_t k = addChecked(x[i].second, mulChecked(y[j].second, factor)))
        sum.emplace_back(x[i].first, k);
      ++i, ++j;
    }
  }
  return SizeExprAccess::make(std::move(sum));
}

SizeExpr operator+(const SizeExpr &a, const SizeExpr &b) { return addScaled(a, b, 1); }
SizeExpr operator-(const SizeExpr &a, const SizeExpr &b) { return addScaled(a, b, -1); }

static bool atomLess(const std::shared_ptr<const Atom> &a, const std::shared_ptr<const Atom> &b) {
  return compare(*a, *b) < 0;
}

static Term multiply(const Term &a, const Term &b) {
  Term product;
  product.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(product), atomLess);
  return product;
}

SizeExpr operator*(const SizeExpr &a, const SizeExpr &b) {
  const Terms &x = termsOf(a), &y = termsOf(b);
  if (x.size() * y.size() > kMaxTerms)
    throw std::overflow_error("a size expression has more than " + std::to_string(kMaxTerms) + " terms");
  struct Less {
    bool operator()(const Term &p, const Term &q) const { return compare(p, q) < 0; }
  };
  if (x.size() == 1 && y.size() == 1)
    return SizeExprAccess::make({{multiply(x[0].first, y[0].first), mulChecked(x[0].second, y[0].second)}});
  std::map<Term, int64_t, Less> sum;
  for (const auto &[p, k] : x)
    for (const auto &[q, l] : y) {
      int64_t &value = sum[multiply(p, q)];
      value = addChecked(value, mulChecked(k, l));
    }
  Terms terms;
  for (const auto &[term, k] : sum)
    if (k != 0)
      terms.emplace_back(term, k);
  return SizeExprAccess::make(std::move(terms));
}

//===----------------------------------------------------------------------===//
// Division
//===----------------------------------------------------------------------===//

/// term / divisor as products of atoms, if every atom of the divisor occurs.
static std::optional<Term> divide(const Term &term, const Term &divisor) {
  Term quotient;
  size_t j = 0;
  for (const auto &atom : term) {
    if (j < divisor.size() && compare(*atom, *divisor[j]) == 0)
      ++j;
    else
      quotient.push_back(atom);
  }
  if (j != divisor.size())
    return std::nullopt;
  return quotient;
}

std::optional<SizeExpr> SizeExpr::divideExactly(const SizeExpr &a, const SizeExpr &b) {
  const Terms &divisor = termsOf(b);
  if (divisor.empty())
    return std::nullopt;
  // Long division by the leading term. With a monomial order this finds the quotient whenever there is one.
  const auto &[leadTerm, leadCoef] = divisor.back();
  SizeExpr rest = a, quotient;
  try {
    while (!termsOf(rest).empty()) {
      const auto &[term, coef] = termsOf(rest).back();
      std::optional<Term> q = divide(term, leadTerm);
      if (!q || (leadCoef == -1 ? coef == INT64_MIN : coef % leadCoef != 0))
        return std::nullopt;
      SizeExpr step = SizeExprAccess::make({{std::move(*q), coef / leadCoef}});
      quotient = quotient + step;
      rest = rest - step * b;
    }
  } catch (const std::overflow_error &) {
    return std::nullopt; // coefficients run away only where nothing is going to cancel
  }
  return quotient;
}

static bool isNonNegative(const SizeExpr &e);

static bool isNonNegative(const Atom &atom) {
  switch (atom.kind) {
  case Atom::Symbol:
    return true;
  case Atom::FloorDiv:
  case Atom::Min:
    return isNonNegative(atom.lhs) && isNonNegative(atom.rhs);
  case Atom::Max:
    return isNonNegative(atom.lhs) || isNonNegative(atom.rhs);
  }
  return false;
}

/// Provably >= 0 because symbols are. False means unknown.
static bool isNonNegative(const SizeExpr &e) {
  for (const auto &[term, coef] : termsOf(e)) {
    if (coef < 0)
      return false;
    for (const auto &atom : term)
      if (!isNonNegative(*atom))
        return false;
  }
  return true;
}

static SizeExpr atomOf(Atom::Kind kind, SizeExpr lhs, SizeExpr rhs) {
  return fromAtom(std::make_shared<const Atom>(Atom{kind, 0, std::move(lhs), std::move(rhs)}));
}

/// The atoms that every term of both shares, and the greatest common divisor of all coefficients.
static std::pair<Term, int64_t> commonFactor(const SizeExpr &a, const SizeExpr &b) {
  std::optional<Term> common;
  int64_t gcd = 0;
  for (const Terms *terms : {&termsOf(a), &termsOf(b)})
    for (const auto &[term, coef] : *terms) {
      if (coef == INT64_MIN)
        return {Term{}, 1}; // its magnitude is no int64
      gcd = std::gcd(gcd, coef);
      if (!common) {
        common = term;
        continue;
      }
      Term both;
      std::set_intersection(common->begin(), common->end(), term.begin(), term.end(), std::back_inserter(both),
                            atomLess);
      common = std::move(both);
    }
  return {common.value_or(Term{}), gcd == 0 ? 1 : gcd};
}

/// The only atom of an expression that is one atom with coefficient 1.
static const Atom *singleAtom(const SizeExpr &e) {
  const Terms &terms = termsOf(e);
  return terms.size() == 1 && terms[0].second == 1 && terms[0].first.size() == 1 ? terms[0].first[0].get() : nullptr;
}

SizeExpr SizeExpr::floordiv(const SizeExpr &a, const SizeExpr &b) {
  if (termsOf(b).empty()) // found when (and if) it is evaluated
    return atomOf(Atom::FloorDiv, a, b);
  if (termsOf(a).empty())
    return 0;
  if (auto x = a.constant(), y = b.constant(); x && y)
    return floorDivChecked(*x, *y);
  if (termsOf(b).back().second < 0)
    return floordiv(0 - a, 0 - b);
  if (std::optional<SizeExpr> exact = divideExactly(a, b))
    return *exact;

  SizeExpr numerator = a, divisor = b, whole;
  if (auto [term, gcd] = commonFactor(a, b); gcd != 1 || !term.empty()) {
    SizeExpr factor = SizeExprAccess::make({{term, gcd}});
    numerator = *divideExactly(a, factor);
    divisor = *divideExactly(b, factor);
  }
  // (q*b + r) // b = q + r // b, with the coefficients of r in [0, coefficient of b).
  if (termsOf(divisor).size() == 1) {
    const auto &[divisorTerm, divisorCoef] = termsOf(divisor)[0];
    for (const auto &[term, coef] : termsOf(numerator))
      if (std::optional<Term> q = divide(term, divisorTerm))
        if (int64_t k = floorDivChecked(coef, divisorCoef))
          whole = whole + SizeExprAccess::make({{std::move(*q), k}});
    numerator = numerator - whole * divisor;
  }
  if (termsOf(numerator).empty())
    return whole;
  if (std::optional<int64_t> n = numerator.constant()) {
    std::optional<int64_t> d = divisor.constant();
    if (d)
      return whole + floorDivChecked(*n, *d);
    if (*n == -1 && isNonNegative(divisor))
      return whole - 1;
  }
  // (x // y) // z = x // (y * z) for z > 0.
  if (const Atom *inner = singleAtom(numerator);
      inner && inner->kind == Atom::FloorDiv && isNonNegative(divisor) && !inner->rhs.isConstant(0))
    return whole + floordiv(inner->lhs, inner->rhs * divisor);
  return whole + atomOf(Atom::FloorDiv, std::move(numerator), std::move(divisor));
}

SizeExpr SizeExpr::mod(const SizeExpr &a, const SizeExpr &b) {
  if (b.isConstant(0))
    return floordiv(a, b); // the same error when it is evaluated
  return a - b * floordiv(a, b);
}

//===----------------------------------------------------------------------===//
// min and max
//===----------------------------------------------------------------------===//

static void collectOperands(Atom::Kind kind, const SizeExpr &e, std::vector<SizeExpr> &operands) {
  if (const Atom *atom = singleAtom(e); atom && atom->kind == kind) {
    collectOperands(kind, atom->lhs, operands);
    collectOperands(kind, atom->rhs, operands);
  } else {
    operands.push_back(e);
  }
}

/// Flattened, sorted, without operands that another one makes superfluous.
static SizeExpr extremum(Atom::Kind kind, const SizeExpr &a, const SizeExpr &b) {
  std::vector<SizeExpr> operands, kept;
  collectOperands(kind, a, operands);
  collectOperands(kind, b, operands);
  std::sort(operands.begin(), operands.end());
  for (const SizeExpr &candidate : operands) {
    auto wins = [&](const SizeExpr &x, const SizeExpr &y) { return isNonNegative(kind == Atom::Max ? x - y : y - x); };
    if (std::any_of(kept.begin(), kept.end(), [&](const SizeExpr &other) { return wins(other, candidate); }))
      continue;
    std::erase_if(kept, [&](const SizeExpr &other) { return wins(candidate, other); });
    kept.push_back(candidate);
  }
  SizeExpr result = kept.back();
  for (size_t i = kept.size() - 1; i-- > 0;)
    result = atomOf(kind, kept[i], result);
  return result;
}

SizeExpr SizeExpr::min(const SizeExpr &a, const SizeExpr &b) { return extremum(Atom::Min, a, b); }
SizeExpr SizeExpr::max(const SizeExpr &a, const SizeExpr &b) { return extremum(Atom::Max, a, b); }

//===----------------------------------------------------------------------===//
// Evaluation and substitution
//===----------------------------------------------------------------------===//

static int64_t evaluate(const Atom &atom, std::span<const int64_t> symbols) {
  if (atom.kind == Atom::Symbol) {
    if (atom.id >= symbols.size())
      throw std::out_of_range("a size expression uses s" + std::to_string(atom.id) + " but only " +
                              std::to_string(symbols.size()) + " symbols have values");
    return symbols[atom.id];
  }
  int64_t a = atom.lhs.evaluate(symbols), b = atom.rhs.evaluate(symbols);
  return atom.kind == Atom::FloorDiv ? floorDivChecked(a, b) : atom.kind == Atom::Min ? std::min(a, b) : std::max(a, b);
}

int64_t SizeExpr::evaluate(std::span<const int64_t> symbols) const {
  // The sum is taken in 128 bits: only the result and each term have to fit. A zero factor makes a term zero
  // whatever the others are, so that empty tensors with large other sizes do not overflow.
  __int128 sum = 0;
  for (const auto &[term, coef] : termsOf(*this)) {
    bool zero = false;
    int64_t small[8];
    std::vector<int64_t> large;
    int64_t *values = small;
    if (term.size() > std::size(small))
      large.resize(term.size()), values = large.data();
    for (size_t i = 0; i < term.size(); ++i) {
      values[i] = tilewright::evaluate(*term[i], symbols);
      zero |= values[i] == 0;
    }
    if (zero)
      continue;
    int64_t product = coef;
    for (size_t i = 0; i < term.size(); ++i)
      product = mulChecked(product, values[i]);
    sum += product;
  }
  if (sum > INT64_MAX || sum < INT64_MIN)
    overflow();
  return static_cast<int64_t>(sum);
}

static SizeExpr substitute(const Atom &atom, std::span<const SizeExpr> with) {
  if (atom.kind == Atom::Symbol) {
    if (atom.id >= with.size())
      throw std::out_of_range("substitute has no replacement for s" + std::to_string(atom.id));
    return with[atom.id];
  }
  SizeExpr a = atom.lhs.substitute(with), b = atom.rhs.substitute(with);
  return atom.kind == Atom::FloorDiv ? SizeExpr::floordiv(a, b)
         : atom.kind == Atom::Min    ? SizeExpr::min(a, b)
                                     : SizeExpr::max(a, b);
}

SizeExpr SizeExpr::substitute(std::span<const SizeExpr> with) const {
  SizeExpr sum;
  for (const auto &[term, coef] : termsOf(*this)) {
    SizeExpr product = coef;
    for (const auto &atom : term)
      product = product * tilewright::substitute(*atom, with);
    sum = sum + product;
  }
  return sum;
}

static void collectSymbols(const SizeExpr &e, std::set<unsigned> &found) {
  for (const auto &[term, coef] : termsOf(e))
    for (const auto &atom : term) {
      if (atom->kind == Atom::Symbol) {
        found.insert(atom->id);
      } else {
        collectSymbols(atom->lhs, found);
        collectSymbols(atom->rhs, found);
      }
    }
}

std::vector<unsigned> SizeExpr::symbols() const {
  std::set<unsigned> found;
  collectSymbols(*this, found);
  return {found.begin(), found.end()};
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

static void appendPostfix(const SizeExpr &e, std::vector<SizeExpr::Step> &out) {
  using Step = SizeExpr::Step;
  if (termsOf(e).empty())
    out.push_back({Step::Constant, 0});
  bool first = true;
  for (const auto &[term, coef] : termsOf(e)) {
    bool started = term.empty() || coef != 1;
    if (started)
      out.push_back({Step::Constant, coef});
    for (const auto &atom : term) {
      if (atom->kind == Atom::Symbol) {
        out.push_back({Step::Symbol, atom->id});
      } else {
        appendPostfix(atom->lhs, out);
        appendPostfix(atom->rhs, out);
        out.push_back({atom->kind == Atom::FloorDiv ? Step::FloorDiv
                       : atom->kind == Atom::Min    ? Step::Min
                                                    : Step::Max});
      }
      if (started)
        out.push_back({Step::Mul});
      started = true;
    }
    if (!first)
      out.push_back({Step::Add});
    first = false;
  }
}

std::vector<SizeExpr::Step> SizeExpr::postfix() const {
  std::vector<Step> result;
  appendPostfix(*this, result);
  return result;
}

} // namespace tilewright
