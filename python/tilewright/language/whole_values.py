"""What whole.py knows of a value: its tensor, and how it depends on the way in which axes are cut into tiles."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import torch

from . import size_text, sizes
from .sizes import Size


@dataclass(frozen=True)
class Axis:
    name: str
    start: str  # the symbol
    size: str | None  # None: a scalar axis
    lead: int | None  # which leading dimension a scalar axis is


@dataclass(frozen=True)
class Form:
    """`kind` None: complete (or, with `carried`, unchanged). Else parts over `axes` are missing. `carried`: added to this argument of a loop."""

    kind: str | None = None
    axes: frozenset[str] = frozenset()
    carried: int | None = None


COMPLETE = Form()


@dataclass
class Whole:
    """`data` has one leading dimension per scalar axis of the grid (of size 1 where nothing depends on it) and then the value's own."""

    data: torch.Tensor
    dtype: str
    scales: tuple[dict[str, int], ...]
    exact: tuple[frozenset[str], ...]  # per dimension the axis whose tile it is, no more and no less
    defect: dict[str, int] = field(default_factory=dict)
    form: Form = COMPLETE
    number: int | float | bool | None = None  # the one value of all elements, if it is known
    alias: bool = False  # `data` may be a view of an argument
    flat: bool = False  # it stands for all elements in one dimension, in an order that depends on the tiles: good for reductions only


class _Polynomials(dict):
    def __missing__(self, name: str) -> Size:
        if not name[1:].isdigit():
            raise KeyError(name)
        return sizes.symbol(name)


@lru_cache(maxsize=4096)
def polynomial(text: str | int) -> Size:
    return sizes.size(size_text.evaluate(text, _Polynomials(), sizes.minimum, sizes.maximum))


def coefficient(a: Size, symbol: str) -> Size | None:
    """c where a = c*symbol + what is free of it, or None if a is not linear in it."""
    total = sizes.ZERO
    for term, k in a.terms:
        rest = list(term)
        if symbol in rest:
            rest.remove(symbol)
            total = total + Size(((tuple(rest), k),))
        if any(symbol in sizes.of_atom(atom).symbols() for atom in rest):
            return None
    return total
