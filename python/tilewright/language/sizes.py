"""Symbolic integers in canonical form: the sizes of parameters, where tiles start, how long they are.

A `Size` is a sum of integer multiples of products of atoms; an atom is a symbol or one of `//`, min, max of two sizes. Expressions that are
equal as polynomials compare equal (`(B*S)*D == B*(S*D)`). `a % b` is kept as `a - b*(a//b)`. The rules and the text form are those of
`Support/SizeExpr.h`: symbols are not negative, `//` and `%` are Python's, and an exact division is carried out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias


class Op:
    """`lhs // rhs`, min or max as an atom of a size."""

    __slots__ = ("key", "kind", "lhs", "rhs")

    def __init__(self, kind: str, lhs: Size, rhs: Size) -> None:
        self.kind, self.lhs, self.rhs = kind, lhs, rhs
        self.key = f"~{kind}({lhs.key},{rhs.key})"  # sorts behind every symbol

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


Atom: TypeAlias = str | Op
Term: TypeAlias = tuple[Atom, ...]
SizeLike: TypeAlias = "Size | int"


def _atom_key(atom: Atom) -> str:
    return atom if isinstance(atom, str) else atom.key


def _order(term: Term) -> tuple[int, list[str]]:
    return len(term), [_atom_key(atom) for atom in term]


class Size:
    """An immutable integer expression over named symbols. Supports + - * // % with sizes and Python integers."""

    __slots__ = ("_hash", "_key", "terms")

    terms: tuple[tuple[Term, int], ...]  # ascending in a monomial order, no zero coefficients

    def __init__(self, terms: tuple[tuple[Term, int], ...]) -> None:
        self.terms = terms
        self._hash: int | None = None
        self._key: str | None = None

    # -- identity ------------------------------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """A text that is equal exactly for equal sizes."""
        if self._key is None:
            self._key = "+".join(f"{k}*" + "*".join(map(_atom_key, term)) for term, k in self.terms)
        return self._key

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self.constant == other
        return self is other or (isinstance(other, Size) and self.terms == other.terms)

    def __hash__(self) -> int:
        if self._hash is None:
            constant = self.constant
            self._hash = hash(constant) if constant is not None else hash(self.terms)
        return self._hash

    def __bool__(self) -> bool:
        raise TypeError(f"the size {self} is known only when the kernel is called")

    def __repr__(self) -> str:
        return self.text()

    @property
    def constant(self) -> int | None:
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def symbol(self) -> str | None:
        """The name, if the size is one bare symbol."""
        if len(self.terms) == 1:
            term, coefficient = self.terms[0]
            if coefficient == 1 and len(term) == 1 and isinstance(term[0], str):
                return term[0]
        return None

    def symbols(self) -> set[str]:
        found: set[str] = set()
        for atom in self.atoms():
            if isinstance(atom, str):
                found.add(atom)
            else:
                found |= atom.lhs.symbols() | atom.rhs.symbols()
        return found

    def atoms(self) -> Iterator[Atom]:
        for term, _ in self.terms:
            yield from term

    # -- arithmetic ----------------------------------------------------------------------------------------------------

    def __add__(self, other: SizeLike) -> Size:
        return _add(self, size(other), 1) if isinstance(other, (Size, int)) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: SizeLike) -> Size:
        return _add(self, size(other), -1) if isinstance(other, (Size, int)) else NotImplemented

    def __rsub__(self, other: SizeLike) -> Size:
        return _add(size(other), self, -1) if isinstance(other, int) else NotImplemented

    def __neg__(self) -> Size:
        return _add(ZERO, self, -1)

    def __mul__(self, other: SizeLike) -> Size:
        if not isinstance(other, (Size, int)):
            return NotImplemented
        total: dict[Term, int] = {}
        for p, k in self.terms:
            for q, m in size(other).terms:
                term = tuple(sorted(p + q, key=_atom_key)) if p and q else p or q
                total[term] = total.get(term, 0) + k * m
        return _make(total)

    __rmul__ = __mul__

    def __floordiv__(self, other: SizeLike) -> Size:
        return floordiv(self, size(other)) if isinstance(other, (Size, int)) else NotImplemented

    def __rfloordiv__(self, other: SizeLike) -> Size:
        return floordiv(size(other), self) if isinstance(other, int) else NotImplemented

    def __mod__(self, other: SizeLike) -> Size:
        if not isinstance(other, (Size, int)):
            return NotImplemented
        divisor = size(other)
        return self - divisor * floordiv(self, divisor)

    def __rmod__(self, other: SizeLike) -> Size:
        return size(other) % self if isinstance(other, int) else NotImplemented

    # -- evaluation, substitution, text --------------------------------------------------------------------------------

    def evaluate(self, values: Mapping[str, int]) -> int:
        total = 0
        for term, coefficient in self.terms:
            for atom in term:
                if isinstance(atom, str):
                    coefficient *= values[atom]
                else:
                    a, b = atom.lhs.evaluate(values), atom.rhs.evaluate(values)
                    coefficient *= a // b if atom.kind == "//" else min(a, b) if atom.kind == "min" else max(a, b)
            total += coefficient
        return total

    def replace(self, symbol: str, by: Size) -> Size:
        """Every occurrence of the symbol, those inside atoms too, replaced."""
        if symbol not in self.symbols():
            return self
        total = ZERO
        for term, coefficient in self.terms:
            product = size(coefficient)
            for atom in term:
                if isinstance(atom, Op):
                    product = product * _rebuild(atom.kind, atom.lhs.replace(symbol, by), atom.rhs.replace(symbol, by))
                else:
                    product = product * (by if atom == symbol else of_atom(atom))
            total = total + product
        return total

    def text(self, name: Callable[[str], str] = lambda symbol: symbol.split("@")[0]) -> str:
        """As `Support/SizeExpr.h` reads it, each symbol written as `name` says; by default as people read it."""
        if not self.terms:
            return "0"
        text = ""
        for term, coefficient in sorted(
            reversed(self.terms), key=lambda item: item[1] < 0
        ):  # no sign in front if it can be
            sign = ("-" if coefficient < 0 else "") if not text else (" - " if coefficient < 0 else " + ")
            magnitude = abs(coefficient)
            if not term:
                text += f"{sign}{magnitude}"
                continue
            alone = len(term) == 1 and coefficient == 1
            product = "*".join(_atom_text(atom, alone, name) for atom in term)
            text += sign + product + (f"*{magnitude}" if magnitude != 1 else "")
        return text


def _atom_text(atom: Atom, alone: bool, name: Callable[[str], str]) -> str:
    if isinstance(atom, str):
        return name(atom)
    lhs, rhs = atom.lhs.text(name), atom.rhs.text(name)
    if atom.kind != "//":
        return f"{atom.kind}({lhs}, {rhs})"
    lhs, rhs = (t if t.replace(".", "").replace("_", "").isalnum() else f"({t})" for t in (lhs, rhs))
    return f"{lhs}//{rhs}" if alone else f"({lhs}//{rhs})"


def _make(total: dict[Term, int]) -> Size:
    terms = [(term, k) for term, k in total.items() if k]
    if len(terms) > 1:
        terms.sort(key=lambda item: _order(item[0]))
    return Size(tuple(terms))


def _add(a: Size, b: Size, factor: int) -> Size:
    if not b.terms:
        return a
    if not a.terms and factor == 1:
        return b
    total = dict(a.terms)
    for term, k in b.terms:
        total[term] = total.get(term, 0) + k * factor
    return _make(total)


@lru_cache(maxsize=1024)
def _constant(value: int) -> Size:
    return Size((((), value),) if value else ())


def size(value: SizeLike) -> Size:
    return value if isinstance(value, Size) else _constant(int(value))


ZERO, ONE = size(0), size(1)


@lru_cache(maxsize=1024)
def symbol(name: str) -> Size:
    return Size((((name,), 1),))


def of_atom(atom: Atom) -> Size:
    return Size((((atom,), 1),))


# -- division ----------------------------------------------------------------------------------------------------------


def _divide_term(term: Term, divisor: Term) -> Term | None:
    quotient = list(term)
    for atom in divisor:
        if atom not in quotient:
            return None
        quotient.remove(atom)
    return tuple(quotient)


def divide_exactly(a: Size, b: Size) -> Size | None:
    """a / b if b divides a as polynomials, else None."""
    if not b.terms:
        return None
    lead_term, lead = b.terms[-1]
    rest, quotient = a, ZERO
    while rest.terms:
        term, coefficient = rest.terms[-1]
        q = _divide_term(term, lead_term)
        if q is None or coefficient % lead:
            return None
        step = Size(((q, coefficient // lead),))
        quotient, rest = quotient + step, rest - step * b
    return quotient


def nonnegative(a: Size) -> bool:
    """True if no term can be negative, given that symbols are not. False means unknown."""
    return all(k > 0 and all(_atom_nonnegative(atom) for atom in term) for term, k in a.terms)


def _atom_nonnegative(atom: Atom) -> bool:
    if isinstance(atom, str):
        return True
    if atom.kind == "max":
        return nonnegative(atom.lhs) or nonnegative(atom.rhs)
    return nonnegative(atom.lhs) and nonnegative(atom.rhs)


def floordiv(a: Size, b: Size) -> Size:
    if not b.terms:
        raise ZeroDivisionError("a size is divided by 0")
    if not a.terms:
        return ZERO
    x, y = a.constant, b.constant
    if x is not None and y is not None:
        return size(x // y)
    if b.terms[-1][1] < 0:
        return floordiv(-a, -b)
    exact = divide_exactly(a, b)
    if exact is not None:
        return exact
    factor = _common_factor(a, b)
    numerator, divisor, whole = a, b, ZERO
    if factor != 1:
        numerator, divisor = _divided(a, factor), _divided(b, factor)
    if len(divisor.terms) == 1:  # (q*b + r) // b = q + r // b, with the coefficients of r in [0, coefficient of b)
        divisor_term, divisor_coefficient = divisor.terms[0]
        for term, k in numerator.terms:
            q = _divide_term(term, divisor_term)
            if q is not None and k // divisor_coefficient:
                whole = whole + Size(((q, k // divisor_coefficient),))
        numerator = numerator - whole * divisor
    if not numerator.terms:
        return whole
    n, d = numerator.constant, divisor.constant
    if n is not None and d is not None:
        return whole + n // d
    if n == -1 and nonnegative(divisor):
        return whole - 1
    inner = _single_atom(numerator)
    if isinstance(inner, Op) and inner.kind == "//" and nonnegative(divisor):  # (x // y) // z = x // (y*z)
        return whole + floordiv(inner.lhs, inner.rhs * divisor)
    return whole + of_atom(Op("//", numerator, divisor))


def _divided(a: Size, factor: Size) -> Size:
    quotient = divide_exactly(a, factor)
    assert quotient is not None
    return quotient


def _common_factor(a: Size, b: Size) -> Size:
    terms = a.terms + b.terms
    common = terms[0][0]
    for term, _ in terms[1:]:
        rest = list(term)
        kept: list[Atom] = []
        for atom in common:
            if atom in rest:
                rest.remove(atom)
                kept.append(atom)
        common = tuple(kept)
    return Size(((common, math.gcd(*(k for _, k in terms))),))


def _single_atom(a: Size) -> Atom | None:
    if len(a.terms) == 1 and a.terms[0][1] == 1 and len(a.terms[0][0]) == 1:
        return a.terms[0][0][0]
    return None


# -- min and max -------------------------------------------------------------------------------------------------------


def _operands(kind: str, a: Size) -> Iterator[Size]:
    atom = _single_atom(a)
    if isinstance(atom, Op) and atom.kind == kind:
        yield from _operands(kind, atom.lhs)
        yield from _operands(kind, atom.rhs)
    else:
        yield a


def _extremum(kind: str, sizes: Iterable[SizeLike]) -> Size:
    def wins(a: Size, b: Size) -> bool:
        return nonnegative(a - b if kind == "max" else b - a)

    kept: list[Size] = []
    for candidate in sorted((x for s in sizes for x in _operands(kind, size(s))), key=lambda s: s.key):
        if any(wins(other, candidate) for other in kept):
            continue
        kept = [other for other in kept if not wins(candidate, other)] + [candidate]
    result = kept[-1]
    for other in reversed(kept[:-1]):
        result = of_atom(Op(kind, other, result))
    return result


def minimum(*sizes: SizeLike) -> Size:
    return _extremum("min", sizes)


def maximum(*sizes: SizeLike) -> Size:
    return _extremum("max", sizes)


def ceildiv(a: SizeLike, b: SizeLike) -> Size:
    return floordiv(size(a) + size(b) - 1, size(b))


def product(sizes: Iterable[Size]) -> Size:
    total = ONE
    for s in sizes:
        total = total * s
    return total


def _rebuild(kind: str, lhs: Size, rhs: Size) -> Size:
    return floordiv(lhs, rhs) if kind == "//" else _extremum(kind, (lhs, rhs))
