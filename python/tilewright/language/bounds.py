"""Local symbols (where tiles start, how long they are, bound values) and what can be said about sizes that use them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import sizes
from .sizes import ONE, ZERO, Op, Size, size


@dataclass(slots=True, eq=False)
class Axis:
    """A loop variable: the contiguous range `start .. start + size`, or one index (`scalar`) of `begin .. end`."""

    name: str
    start: Size
    size: Size  # ONE for scalar axes
    begin: Size
    end: Size
    tile: int | None
    scalar: bool
    parallel: bool
    first: Size = ZERO  # what `start` counts from (where a range begins below zero, or has a step)
    ended: bool = False


@dataclass(slots=True, eq=False)
class Local:
    """Symbols that one axis or one bound value defines, with the bounds of their values."""

    start: str
    extent: str | None  # the symbol of a tile's length, which is at least 1
    begin: Size
    end: Size | None  # exclusive; None is unbounded
    tile: int | None = None
    record: dict[str, Any] | None = None  # the `bind` that can be given a smaller end
    what: str = ""  # what the bound value is, for messages
    names: frozenset[str] = field(default_factory=frozenset)


class Bounds:
    """Upper and lower bounds of sizes over all values of the local symbols, and proofs that sizes are not negative."""

    def __init__(self) -> None:
        self.locals: list[Local] = []
        self.known: list[Size] = []  # sizes that are not negative because the author says so

    def define(self, local: Local) -> None:
        local.names = frozenset(n for n in (local.start, local.extent) if n)
        self.locals.append(local)

    def is_global(self, e: Size) -> bool:
        return all("@" not in s for s in e.symbols())

    def upper(self, e: Size) -> Size | None:
        """The least bound from above that this class can find, in the kernel's own symbols; None if there is none."""
        result: Size | None = e
        for local in reversed(self.locals):
            if result is None:
                return None
            if local.names & result.symbols():
                result = self.upper_without(result, local)
        return result

    def lower(self, e: Size) -> Size | None:
        negated = self.upper(-e)
        return None if negated is None else -negated

    def upper_without(self, e: Size, local: Local) -> Size | None:
        """An upper bound of e in which the symbols of `local` do not occur."""
        return self._eliminate(self._cancel(e, local), local)

    def _cancel(self, e: Size, local: Local) -> Size:
        """`a - b*(a//b)` is at most b - 1, min(a, b) at most each of them: used where it makes terms of the local's symbols cancel."""
        for term, k in e.terms:
            for atom in term:
                if isinstance(atom, Op) and atom.kind != "//" and local.names & _symbols(atom):
                    factor = Size(((tuple(a for a in term if a is not atom), k),))
                    if not sizes.nonnegative(factor if atom.kind == "min" else -factor):
                        continue
                    for side in (atom.lhs, atom.rhs):
                        without = e - Size(((term, k),)) + factor * side
                        if not local.names & without.symbols():
                            return without
                if isinstance(atom, Op) and atom.kind == "//" and local.names & atom.lhs.symbols():
                    rest = Size(((tuple(a for a in term if a is not atom), -k),))
                    quotient = sizes.divide_exactly(rest, atom.rhs)
                    if quotient is None or not sizes.nonnegative(quotient) or not sizes.nonnegative(atom.rhs):
                        continue
                    without = e - Size(((term, k),)) - quotient * (atom.lhs - atom.rhs + 1)
                    if not local.names & without.symbols():
                        return without
        return e

    def _eliminate(self, e: Size, local: Local) -> Size | None:
        """An upper bound of e without the symbols of `local`."""
        rest, by_start, by_extent = ZERO, ZERO, ZERO
        for term, k in e.terms:
            plain = [a for a in term if not isinstance(a, Op) or not local.names & _symbols(a)]
            nested = [a for a in term if isinstance(a, Op) and local.names & _symbols(a)]
            own = [a for a in plain if a in local.names]
            factor = Size(((tuple(a for a in plain if a not in local.names), k),))
            if len(own) + len(nested) > 1:
                return None
            if nested:
                if not (sizes.nonnegative(factor) or sizes.nonnegative(-factor)):
                    return None
                bound = self._eliminate_atom(nested[0], local, up=sizes.nonnegative(factor))
                if bound is None:
                    return None
                rest = rest + factor * bound
            elif not own:
                rest = rest + factor
            elif own[0] == local.start:
                by_start = by_start + factor
            else:
                by_extent = by_extent + factor
        if by_start.terms:
            if sizes.nonnegative(by_start):
                if local.end is None:
                    return None
                # The last tile ends where the axis ends.
                rest = rest + by_start * (local.end - (ONE if local.extent is None else ZERO))
                by_extent = by_extent - (by_start if local.extent is not None else ZERO)
            elif sizes.nonnegative(-by_start):
                rest = rest + by_start * local.begin
            else:
                return None
        if by_extent.terms:
            if sizes.nonnegative(by_extent):
                longest = None if local.end is None else local.end - local.begin
                if local.tile is not None:
                    longest = size(local.tile) if longest is None else sizes.minimum(local.tile, longest)
                if longest is None:
                    return None
                rest = rest + by_extent * longest
            elif sizes.nonnegative(-by_extent):
                rest = rest + by_extent
            else:
                return None
        return rest

    def _eliminate_atom(self, atom: Op, local: Local, up: bool) -> Size | None:
        if local.names & atom.rhs.symbols() and atom.kind == "//":
            return None
        lhs = self._one_way(atom.lhs, local, up)
        rhs = atom.rhs if atom.kind == "//" else self._one_way(atom.rhs, local, up)
        if lhs is None or rhs is None:
            return None
        if atom.kind == "//":
            return lhs // rhs if sizes.nonnegative(rhs) else None
        return (sizes.minimum if atom.kind == "min" else sizes.maximum)(lhs, rhs)

    def _one_way(self, e: Size, local: Local, up: bool) -> Size | None:
        if up:
            return self._eliminate(e, local)
        negated = self._eliminate(-e, local)
        return None if negated is None else -negated

    def proves(self, e: Size, depth: int = 3) -> bool:
        """Whether e is seen to be at least 0 for all values of all symbols."""
        if sizes.nonnegative(e):
            return True
        bound = self.lower(e)
        if bound is not None and sizes.nonnegative(bound):
            return True
        if depth == 0:
            return False
        for candidate in (e, bound):
            if candidate is None:
                continue
            if any(sizes.nonnegative(candidate - known) for known in self.known):
                return True
            if any(all(self.proves(case, depth - 1) for case in cases) for cases in _weaker(candidate)):
                return True
        return any(self.proves(e - known, 0) for known in self.known)


def _symbols(atom: Op) -> set[str]:
    return atom.lhs.symbols() | atom.rhs.symbols()


def _weaker(e: Size) -> list[list[Size]]:
    """Alternatives; e >= 0 follows if every size of one of them is."""
    found: list[list[Size]] = []
    for term, k in e.terms:
        for atom in term:
            if not isinstance(atom, Op):
                continue
            others = tuple(a for a in term if a is not atom)
            if not sizes.nonnegative(Size(((others, 1),))):
                continue
            factor = Size(((others, k),))
            rest = e - Size(((term, k),))
            negative = k < 0
            if atom.kind == "//":
                if not sizes.nonnegative(atom.rhs):
                    continue
                # a - b + 1 <= b*(a//b) <= a
                bound = atom.lhs if negative else atom.lhs - atom.rhs + 1
                found.append([rest * atom.rhs + factor * bound])
            else:
                both = [rest + factor * atom.lhs, rest + factor * atom.rhs]
                # k*min(a, b) is one of k*a, k*b, and for k < 0 at least each of them; with max the other way round.
                found += [[case] for case in both] if negative == (atom.kind == "min") else [both]
    return found
