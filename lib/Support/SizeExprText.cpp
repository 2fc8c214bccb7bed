//===- SizeExprText.cpp - the text form of SizeExpr -----------------------===//
//
//   sum     := product (('+' | '-') product)*
//   product := factor (('*' | '//' | '%') factor)*      left to right, as in Python
//   factor  := '-' factor | number | 's' digits | '(' sum ')' | ('min' | 'max') '(' sum ',' sum ')'
//
//===----------------------------------------------------------------------===//
#include "SizeExprDetail.h"

#include <cctype>
#include <charconv>
#include <stdexcept>

namespace tilewright {

using Atom = SizeExpr::Atom;

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

/// Symbols and numbers that are not negative stand by themselves as operands of `//`; all else gets parentheses.
static std::string operand(const SizeExpr &e) {
  std::string text = e.str();
  for (char c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      return "(" + text + ")";
  return text;
}

static std::string print(const Atom &atom, bool alone) {
  switch (atom.kind) {
  case Atom::Symbol:
    return "s" + std::to_string(atom.id);
  case Atom::FloorDiv: {
    std::string text = operand(atom.lhs) + "//" + operand(atom.rhs);
    return alone ? text : "(" + text + ")";
  }
  case Atom::Min:
    return "min(" + atom.lhs.str() + ", " + atom.rhs.str() + ")";
  case Atom::Max:
    return "max(" + atom.lhs.str() + ", " + atom.rhs.str() + ")";
  }
  return {};
}

std::string SizeExpr::str() const {
  const auto &terms = SizeExprAccess::terms(*this);
  if (terms.empty())
    return "0";
  std::string text;
  for (auto it = terms.rbegin(); it != terms.rend(); ++it) {
    const auto &[term, coef] = *it;
    bool first = text.empty();
    if (term.empty()) {
      if (first)
        return std::to_string(coef);
      if (coef < 0 && coef != INT64_MIN) // whose magnitude is no int64
        text += " - " + std::to_string(-coef);
      else
        text += " + " + std::to_string(coef);
      continue;
    }
    bool negative = coef < 0 && coef != INT64_MIN;
    if (first)
      text += negative ? "-" : "";
    else
      text += negative ? " - " : " + ";
    bool alone = term.size() == 1 && coef == 1;
    for (size_t i = 0; i < term.size(); ++i)
      text += (i ? "*" : "") + print(*term[i], alone);
    if (coef != 1 && coef != -1)
      text += "*" + std::to_string(coef).substr(negative ? 1 : 0);
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

namespace {

class Parser {
public:
  explicit Parser(std::string_view text) : text(text) {}

  SizeExpr run() {
    SizeExpr e = sum();
    if (peek() != '\0')
      fail("unexpected text");
    return e;
  }

  [[noreturn]] void fail(const std::string &what) const {
    throw std::invalid_argument("size expression \"" + std::string(text.substr(0, 200)) + "\": " + what +
                                " at position " + std::to_string(at));
  }

private:
  // Deeper nesting than this comes from damaged files only, and would end the stack.
  static constexpr int kMaxDepth = 200;

  char peek() {
    while (at < text.size() && text[at] == ' ')
      ++at;
    return at < text.size() ? text[at] : '\0';
  }
  bool take(std::string_view token) {
    peek();
    if (text.substr(at, token.size()) != token)
      return false;
    at += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token))
      fail("'" + std::string(token) + "' expected");
  }

  SizeExpr sum() {
    SizeExpr e = product();
    while (true) {
      if (take("+"))
        e = e + product();
      else if (take("-"))
        e = e - product();
      else
        return e;
    }
  }

  SizeExpr product() {
    SizeExpr e = factor();
    while (true) {
      if (take("//"))
        e = SizeExpr::floordiv(e, factor());
      else if (take("*"))
        e = e * factor();
      else if (take("%"))
        e = SizeExpr::mod(e, factor());
      else
        return e;
    }
  }

  SizeExpr number(bool negative) {
    uint64_t magnitude = 0;
    auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), magnitude);
    if (error != std::errc() || magnitude > uint64_t(INT64_MAX) + negative)
      fail("number beyond 64 bits");
    at = end - text.data();
    return negative ? static_cast<int64_t>(0 - magnitude) : static_cast<int64_t>(magnitude);
  }

  SizeExpr factor() {
    if (++depth > kMaxDepth)
      fail("nested too deeply");
    SizeExpr e = unguardedFactor();
    --depth;
    return e;
  }

  SizeExpr unguardedFactor() {
    char c = peek();
    if (std::isdigit(static_cast<unsigned char>(c)))
      return number(false);
    if (take("-")) {
      if (std::isdigit(static_cast<unsigned char>(peek())))
        return number(true); // with its sign, so that -2^63 can be read
      return 0 - factor();
    }
    if (take("(")) {
      SizeExpr e = sum();
      expect(")");
      return e;
    }
    for (bool isMin : {true, false})
      if (take(isMin ? "min" : "max")) {
        expect("(");
        SizeExpr a = sum();
        expect(",");
        SizeExpr b = sum();
        expect(")");
        return isMin ? SizeExpr::min(a, b) : SizeExpr::max(a, b);
      }
    if (c == 's') {
      unsigned id = 0;
      auto [end, error] = std::from_chars(text.data() + at + 1, text.data() + text.size(), id);
      if (error != std::errc())
        fail("a symbol is 's' and its number");
      at = end - text.data();
      return SizeExpr::symbol(id);
    }
    fail(c == '\0' ? "ends too early" : "a number, a symbol, '(', min or max expected");
  }

  std::string_view text;
  size_t at = 0;
  int depth = 0;
};

} // namespace

SizeExpr SizeExpr::parse(std::string_view text) {
  Parser parser(text);
  try {
    return parser.run();
  } catch (const std::overflow_error &e) {
    parser.fail(e.what());
  } catch (const std::domain_error &e) {
    parser.fail(e.what());
  }
}

} // namespace tilewright
