"""What stands behind `in` of a `for`: `tw.parallel`, `tw.range`, `tw.static_range`, and Python's `range`."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any

from . import arithmetic
from .bounds import Axis
from .builder import Builder, Tile, active, describe, show_tile
from .registry import builtin


@dataclass(slots=True, eq=False)
class Parallel:
    """The grid: one axis per end."""

    ends: tuple[Any, ...]
    tiles: tuple[int | None, ...]


@dataclass(slots=True, eq=False)
class Range:
    """A loop in order. `scalar` loops have an index, the others tiles."""

    begin: Any
    end: Any
    step: int
    tile: int | None
    scalar: bool


@builtin
def parallel(*ends: Any, tile: Any = None) -> Any:
    """`for i, j in tw.parallel(M, N, tile=(None, 64))`: the grid of a kernel. Grid points run in any order and at the same time.

    Each end is a size; its axis stands for a contiguous range of indices. `tile` gives the ranges' lengths: None leaves one to the compiler,
    1 makes the axis a single index. A kernel has one parallel loop, as its last statement.
    """
    b = active("parallel")
    if not ends:
        b.fail("tw.parallel without sizes", "tw.parallel(M) or tw.parallel(M, N)")
    if isinstance(tile, (tuple, list)):
        if len(tile) > len(ends):
            b.fail(
                f"tile has {len(tile)} entries for {len(ends)} axes",
                "one entry per axis, None to leave it to the compiler",
            )
        tiles = tuple(tile) + (None,) * (len(ends) - len(tile))
    elif len(ends) > 1 and tile is not None:
        b.fail(
            f"tile={describe(tile)} for {len(ends)} axes",
            f"tile=({', '.join([str(tile)] + ['None'] * (len(ends) - 1))})",
        )
    else:
        tiles = (tile,) * len(ends)
    for end in ends:
        if isinstance(end, Tile) and end.size is None:
            b.fail_size(
                end,
                f"the grid depends on data ({show_tile(end)}): its size must be known when the kernel is called",
                "a size of a parameter, with the loop over the data inside of the grid point",
            )
    return Parallel(ends, tuple(_tile(b, t) for t in tiles))


@builtin
def range(begin: Any, end: Any = None, tile: Any = None) -> Any:
    """`for k in tw.range(K)` or `tw.range(begin, end, tile=64)`: tiles of a range, in order; `tw.range(axis, tile=8)`: tiles of an axis.

    Ends are sizes or run-time integers. `tile=None` leaves the tiles' length to the compiler, 1 makes k a single index.
    """
    b = active("range")
    if isinstance(begin, Axis):
        if end is not None:
            b.fail("tw.range takes an axis, or a begin and an end", f"tw.range({begin.name}, tile=8)")
        begin, end = begin.start, begin.start + begin.size
    elif end is None:
        begin, end = 0, begin
    length = _tile(b, tile)
    return Range(begin, end, 1, length, length == 1)


@builtin
def static_range(begin: Any, end: Any = None, step: Any = 1) -> Any:
    """`for c in tw.static_range(4)`: a loop over compile-time integers that is written out."""
    b = active("static_range")
    if end is None:
        begin, end = 0, begin
    for x in (begin, end, step):
        if not isinstance(x, int):
            b.fail(f"tw.static_range takes compile-time ints, not {describe(x)}", "range(n), or an n: tw.const")
    if step == 0:
        b.fail("tw.static_range with the step 0", "a step that is not 0")
    return builtins.range(begin, end, step)


def python_range(b: Builder, *arguments: Any) -> Range:
    """`range(..)` of Python's: a loop in order over single indices."""
    if not 1 <= len(arguments) <= 3:
        b.fail(f"range with {len(arguments)} arguments", "range(end), range(begin, end) or range(begin, end, step)")
    begin, end, step = (0, arguments[0], 1) if len(arguments) == 1 else (*arguments, 1)[:3]
    if not isinstance(step, int) or isinstance(step, bool) or step == 0:
        b.fail(f"the step of range is {describe(step)}", "a compile-time int that is not 0")
    for x in (begin, end):
        if not (arithmetic.is_size(x) or (isinstance(x, Tile) and not x.shape and x.dtype.is_integer)):
            shown = (
                show_tile(x) if isinstance(x, Tile) else f"the axis {x.name}" if isinstance(x, Axis) else describe(x)
            )
            b.fail(f"range of {shown}", "integers; tw.range(axis) for the tiles of an axis")
    return Range(begin, end, step, None, True)


def _tile(b: Builder, tile: Any) -> int | None:
    if tile is None:
        return None
    if isinstance(tile, bool) or not isinstance(tile, int):
        shown = describe(tile)
        b.fail(f"a tile size is {shown}", "a compile-time int, or None to leave it to the compiler")
    if tile < 1:
        b.fail(f"a tile size is {tile}, which is not positive", "a positive int, or None to leave it to the compiler")
    return tile
