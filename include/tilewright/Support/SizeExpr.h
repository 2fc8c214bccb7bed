//===- SizeExpr.h - symbolic integers: sizes, strides, offsets --*- C++ -*-===//
//
// An immutable integer expression over symbols s0, s1, ... kept in canonical form, so that expressions that are equal
// as polynomials compare equal (`b*s*384 == (b*s)*384`). A value is a sum of terms; a term is an integer coefficient
// and a sorted product of atoms; an atom is a symbol or one of floordiv, min, max of two expressions. `a mod b` is kept
// as a - b*(a floordiv b), so that (a floordiv b)*b + a mod b is a.
//
// Symbols are sizes: non-negative. `floordiv` and `mod` follow Python (round towards minus infinity).
// A division that is exact as polynomials is carried out: (b*s*384) floordiv (s*384) is b. That assumes a
// non-zero divisor; a loop over an empty domain never evaluates an index, so nobody sees the difference. A divisor that
// is the constant 0 is no error before it is evaluated.
//
// Text form (used in graph descriptions and Programs): infix with + - * // % min(,) max(,) and parentheses, e.g.
// "s0*384 + 1".
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

class SizeExpr {
public:
  SizeExpr() = default; // 0
  SizeExpr(int64_t constant);
  static SizeExpr symbol(unsigned id);

  /// The inverse of str(). Throws std::invalid_argument naming the text and the position.
  static SizeExpr parse(std::string_view text);
  std::string str() const;

  /// Coefficients beyond 64 bits, or more than 4096 terms, throw std::overflow_error.
  friend SizeExpr operator+(const SizeExpr &, const SizeExpr &);
  friend SizeExpr operator-(const SizeExpr &, const SizeExpr &);
  friend SizeExpr operator*(const SizeExpr &, const SizeExpr &);
  static SizeExpr floordiv(const SizeExpr &, const SizeExpr &);
  static SizeExpr mod(const SizeExpr &, const SizeExpr &);
  static SizeExpr min(const SizeExpr &, const SizeExpr &);
  static SizeExpr max(const SizeExpr &, const SizeExpr &);
  static SizeExpr ceildiv(const SizeExpr &a, const SizeExpr &b) { return floordiv(a + b - 1, b); }

  /// a / b if b divides a as polynomials (every term), else nothing.
  static std::optional<SizeExpr> divideExactly(const SizeExpr &a, const SizeExpr &b);

  /// True if no term can be negative, given that symbols are not: enough to compare sizes that products relate.
  bool provablyNonNegative() const;

  std::optional<int64_t> constant() const;
  bool isConstant(int64_t value) const { return constant() == std::optional<int64_t>(value); }
  bool operator==(const SizeExpr &other) const;
  /// A total order for use as a map key; not a numeric comparison.
  bool operator<(const SizeExpr &other) const;

  /// Overflow of 64 bits throws std::overflow_error; division by zero throws std::domain_error.
  int64_t evaluate(std::span<const int64_t> symbols) const;
  /// Replaces symbol i by with[i].
  SizeExpr substitute(std::span<const SizeExpr> with) const;
  /// Sorted, distinct symbol ids.
  std::vector<unsigned> symbols() const;

  /// The expression for a stack machine, to be computed elsewhere: a constant or symbol is pushed, an operation takes
  /// two and pushes one.
  struct Step {
    enum Kind : uint8_t { Constant, Symbol, Add, Mul, FloorDiv, Min, Max } kind;
    int64_t value = 0; // Constant; Symbol: its id
  };
  std::vector<Step> postfix() const;

  struct Atom;
  using Term = std::vector<std::shared_ptr<const Atom>>; // sorted product; empty = the constant term
  struct Poly;

private:
  friend struct SizeExprAccess; // lib/Support/SizeExprDetail.h
  explicit SizeExpr(std::shared_ptr<const Poly> poly) : poly(std::move(poly)) {}
  std::shared_ptr<const Poly> poly; // null = 0
};

} // namespace tilewright
