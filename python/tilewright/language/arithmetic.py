"""Operators: of Python numbers, of sizes, of axes, and of tiles, with the conversions that promotion.py allows."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from . import promotion, sizes
from .bounds import Axis
from .builder import Builder, Param, Tile, describe, show_size, show_tile
from .sizes import ONE, Size, size
from .types import DType, bf16, bool_, f16, f32, f64, i64


@dataclass(slots=True, eq=False)
class Span:
    """Indices of a parameter's dimension: `start + sum(step * j)` with one dimension of the result for each (extent, step). `offset` is a
    run-time integer that is added. `axis` is set while this is an axis as it came."""

    start: Size
    terms: tuple[tuple[Size, Size], ...]
    offset: Tile | None = None
    axis: Axis | None = None


def span(axis: Axis) -> Span:
    return Span(axis.start, ((axis.size, ONE),), None, axis)


PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}

#: Bits of compile-time integers. More than any dtype has, since they may shrink again.
LARGEST_CONSTANT = 4096

_UNARY: dict[str, Callable[[Any], Any]] = {"+": operator.pos, "-": operator.neg, "~": operator.invert}

OPERATIONS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "//": "fdiv",
    "%": "mod",
    "&": "and",
    "|": "or",
    "^": "xor",
    "<<": "shl",
    ">>": "shr",
}
COMPARISONS = {
    "<": ("lt", False),
    "<=": ("le", False),
    ">": ("lt", True),
    ">=": ("le", True),
    "==": ("eq", False),
    "!=": ("ne", False),
}


def is_number(x: Any) -> bool:
    return isinstance(x, (int, float))


def is_size(x: Any) -> bool:
    return isinstance(x, (Size, int)) and not isinstance(x, bool)


def is_compile_time(x: Any) -> bool:
    return not isinstance(x, (Tile, Size, Axis, Span, Param))


# -- meeting of dtypes and shapes --------------------------------------------------------------------------------------


def meet(b: Builder, values: Sequence[Any], what: str) -> tuple[list[Tile], DType, DType, bool]:
    """The operands of an elementwise operation as tiles of one dtype and shape.

    Returns them, the dtype they compute in, the dtype of the result (narrower where a bf16 or f16 tile met a number that it cannot hold), and
    whether the result is weak.
    """
    strong = [b.value(v) for v in values if isinstance(v, bool) or (isinstance(v, Tile) and not v.weak)]
    weak = [v for v in values if not isinstance(v, bool) and not (isinstance(v, Tile) and not v.weak)]
    if not strong:
        any_float = any(isinstance(v, float) or (isinstance(v, Tile) and v.dtype.is_float) for v in weak)
        dtype = f64 if any_float else i64
        tiles = [b.cast(b.value(v), dtype, weak=True) for v in values]
        return broadcast_all(b, tiles, what), dtype, dtype, True
    dtype = common_dtype(b, strong, what)
    compute = dtype
    for v in weak:
        is_float = isinstance(v, float) or (isinstance(v, Tile) and v.dtype.is_float)
        if dtype.is_bool:
            b.fail(f"{what} of a bool tile and the number {describe(v)}", "x.to(tw.i32), or & | ~ of bools")
        if is_float and not dtype.is_float:
            shown = v if isinstance(v, float) else "a float"
            b.fail(f"{what} of {dtype.name} and {shown}: the fraction would be lost", "x.to(tw.f32), or an integer")
        if isinstance(v, int) and not promotion.holds(dtype, v):
            b.fail(
                f"{v} does not fit {dtype.name} in {what}", f"x.to(a wider dtype), or a number that {dtype.name} holds"
            )
        if dtype in (bf16, f16) and not (is_number(v) and promotion.exact(dtype, v)):
            compute = f32
    tiles = []
    for v in values:
        if is_number(v) and not isinstance(v, bool):
            tiles.append(b.constant(v, compute))
        else:
            t = b.value(v)
            tiles.append(b.cast(t, compute))
    return broadcast_all(b, tiles, what), compute, dtype, False


def common_dtype(b: Builder, tiles: Sequence[Tile], what: str) -> DType:
    dtype = tiles[0].dtype
    for t in tiles[1:]:
        met = promotion.common(dtype, t.dtype)
        if met is None:
            refuse_mix(b, next(s for s in tiles if s.dtype == dtype), t, what)
        dtype = met
    return dtype


def broadcast_all(b: Builder, tiles: list[Tile], what: str) -> list[Tile]:
    shape = b.common_shape(tiles, what)
    return [b.broadcast(t, shape) for t in tiles]


def refuse_mix(b: Builder, one: Tile, other: Tile, what: str) -> NoReturn:
    both = f" ({show_tile(one)}; {show_tile(other)})"
    if one.dtype.is_float != other.dtype.is_float:
        floating = one.dtype if one.dtype.is_float else other.dtype
        b.fail(
            f"{what} mixes {one.dtype.name} and {other.dtype.name}{both}",
            f".to({floating!r}) on the integer operand",
        )
    b.fail(
        f"{what} mixes {one.dtype.name} and {other.dtype.name}, neither of which holds every value of the other{both}",
        f".to({'tw.f32' if other.dtype.is_float else 'tw.i64'}) on both operands",
    )


def elementwise(b: Builder, op: str, values: Sequence[Any], what: str, result: DType | None = None) -> Tile:
    """One scalar operation over tiles. `result` is bool for comparisons."""
    tiles, compute, dtype, weak = meet(b, values, what)
    tile = b.emit(op, tiles, result or compute, tiles[0].shape, weak=weak and result is None)
    return tile if result is not None else b.cast(tile, dtype, weak=weak)


# -- binary operators --------------------------------------------------------------------------------------------------


def binary(b: Builder, sign: str, x: Any, y: Any) -> Any:
    """`x sign y` for everything an expression can be."""
    if isinstance(x, (Axis, Span)) or isinstance(y, (Axis, Span)):
        return shifted(b, sign, x, y)
    if is_compile_time(x) and is_compile_time(y):
        return of_constants(b, sign, x, y)
    if is_size(x) and is_size(y):
        result = of_sizes(b, sign, size(x), size(y))
        if result is not None:
            return result
    for side in (x, y):
        if not isinstance(side, (Tile, Size, int, float)):
            b.value(side)  # refuses with what it is
    if sign == "**":
        return power(b, x, y)
    what = f"`{sign}`"
    if sign in ("/",):
        for t in (x, y):
            if isinstance(t, Tile) and not t.weak and not t.dtype.is_float:
                b.fail(
                    f"`/` of {t.dtype.name}: division of integers has a fraction",
                    f"`//`, or .to(tw.f32) on {show_tile(t)}",
                )
        if not any(isinstance(t, Tile) and not t.weak for t in (x, y)):
            x, y = (b.cast(b.value(t), f64, weak=True) if not isinstance(t, float) else t for t in (x, y))
    if sign in ("<<", ">>"):
        return shift(b, sign, x, y)
    tiles, compute, dtype, weak = meet(b, (x, y), what)
    if dtype.is_bool and sign not in "&|^":
        b.fail(f"`{sign}` of bool tiles", "& | ^ ~, or .to(tw.i32) to count")
    if dtype.is_float and sign in "&|^":
        b.fail(
            f"`{sign}` of {dtype.name}: bitwise operators are for integers and bool",
            "tw.bitcast(x, tw.i32), or a comparison",
        )
    tile = b.cast(b.emit(OPERATIONS[sign], tiles, compute, tiles[0].shape, weak=weak), dtype, weak=weak)
    known = [t.size if isinstance(t, Tile) else size(t) if is_size(t) else None for t in (x, y)]
    if known[0] is not None and known[1] is not None:
        tile.size = of_sizes(b, sign, known[0], known[1])
    return tile


def of_constants(b: Builder, sign: str, x: Any, y: Any) -> Any:
    grows = sign in ("**", "<<") and isinstance(x, int) and isinstance(y, int)
    if grows and y * (x.bit_length() if sign == "**" else 1) > LARGEST_CONSTANT:
        b.fail(f"`{sign}` of {x} and {y} is a number of too many bits", "a number that 64 bits hold")
    try:
        return PYTHON[sign](x, y)
    except (TypeError, ValueError, ArithmeticError) as error:
        b.fail(f"`{sign}` of {describe(x)} and {describe(y)}: {error}", "numbers that Python can compute with")


def of_sizes(b: Builder, sign: str, x: Size, y: Size) -> Any:
    """A size (an int where it is constant), or None where the result is no integer."""
    if sign in ("//", "%") and y == 0:
        b.fail(f"a size is divided by zero: {show_size(x)} {sign} 0", "a divisor that is not 0")
    if sign in ("+", "-", "*", "//", "%"):
        return plain(PYTHON[sign](x, y))
    if sign == "**" and y.constant is not None and 0 <= y.constant <= 8:
        return plain(sizes.product([x] * y.constant))
    if x.constant is not None and y.constant is not None and sign not in COMPARISONS:
        return PYTHON[sign](x.constant, y.constant)
    return None


def plain(e: Size) -> Size | int:
    constant = e.constant
    return e if constant is None else constant


def shifted(b: Builder, sign: str, x: Any, y: Any) -> Span:
    """Axes in index arithmetic: sums, differences and products with sizes, and sums with run-time integers."""
    a, c = (span(t) if isinstance(t, Axis) else t for t in (x, y))
    if sign == "+" and isinstance(c, Span) and not isinstance(a, Span):
        a, c = c, a
    if sign == "*" and isinstance(c, Span) and not isinstance(a, Span):
        a, c = c, a
    name = x.name if isinstance(x, Axis) else y.name if isinstance(y, Axis) else "the axis"
    if not isinstance(a, Span) or sign not in ("+", "-", "*"):
        b.fail(
            f"`{sign}` of {name}, which is a range of indices",
            f"axis + c, axis - c, axis * c for an index, {name}.start for where it begins, or tw.indices({name}) for its indices as a tile",
        )
    if isinstance(c, Span):
        if sign != "+" or (a.offset is not None and c.offset is not None):
            b.fail(
                f"`{sign}` of two ranges of indices",
                "a sum of axes, or tw.indices(..) to compute with indices as tiles",
            )
        return Span(a.start + c.start, a.terms + c.terms, a.offset or c.offset)
    if is_size(c):
        if sign == "*":
            if a.offset is not None:
                b.fail("a range with a run-time offset is multiplied", f"tw.indices({name}) * ..., as a gather")
            return Span(a.start * c, tuple((extent, step * c) for extent, step in a.terms))
        return Span(a.start + c if sign == "+" else a.start - c, a.terms, a.offset)
    if isinstance(c, Tile) and not c.shape and c.dtype.is_integer and sign in ("+", "-"):
        if c.size is not None:
            b.use_scalars(c.size)
            return Span(a.start + c.size if sign == "+" else a.start - c.size, a.terms, a.offset)
        moved = c if sign == "+" else unary(b, "-", c)
        return Span(a.start, a.terms, moved if a.offset is None else binary(b, "+", a.offset, moved))
    b.fail(
        f"`{sign}` of {name}, which is a range of indices, and {describe(c)}",
        f"tw.indices({name}) {sign} ..., which computes with the indices as a tile",
    )


def shift(b: Builder, sign: str, x: Any, y: Any) -> Tile:
    for t in (x, y):
        if isinstance(t, float) or (isinstance(t, Tile) and not t.dtype.is_integer):
            name = t.dtype.name if isinstance(t, Tile) else "a float"
            b.fail(
                f"`{sign}` of {name}: shifts are for integers", "x * 2.0**n, or tw.bitcast(x, tw.i32) to work on bits"
            )
    if isinstance(y, int):
        bits = x.dtype.bytes * 8 if isinstance(x, Tile) else 64
        if not 0 <= y < bits:
            b.fail(f"`{sign}` by {y}: the count must lie in 0 .. {bits - 1}", "a smaller count")
    return elementwise(b, OPERATIONS[sign], (x, y), f"`{sign}`")


def power(b: Builder, x: Any, y: Any) -> Any:
    """`x ** y`: products for small integer exponents, else pow."""
    if isinstance(y, int) and not isinstance(y, bool) and isinstance(x, Tile):
        if x.dtype.is_bool:
            b.fail("`**` of a bool tile", "x.to(tw.i32)")
        if y < 0 and not x.dtype.is_float:
            b.fail(f"`**` of {x.dtype.name} with the exponent {y}", "x.to(tw.f32) ** " + str(y))
        if 1 <= abs(y) <= 4 or not x.dtype.is_float:
            if not x.dtype.is_float and y > 64:
                b.fail(f"`**` of {x.dtype.name} with the exponent {y}", "an exponent of at most 64")
            if y == 0:
                return b.broadcast(b.constant(1, x.dtype), x.shape)
            result = repeated(b, x, abs(y))
            return result if y > 0 else binary(b, "/", 1, result)
    if y == 0.5 and isinstance(x, Tile) and x.dtype.is_float:
        return elementwise(b, "sqrt", (x,), "`**`")
    if not any(isinstance(t, float) or (isinstance(t, Tile) and t.dtype.is_float) for t in (x, y)):
        b.fail("`**` of integers with an exponent that is not a compile-time number", "x.to(tw.f32) ** y")
    return elementwise(b, "pow", (x, y), "`**`")


def repeated(b: Builder, x: Tile, n: int) -> Tile:
    result: Tile | None = None
    square = x
    while True:
        if n & 1:
            result = square if result is None else binary(b, "*", result, square)
        n >>= 1
        if not n:
            assert result is not None
            return result
        square = binary(b, "*", square, square)


# -- comparisons and unary operators -----------------------------------------------------------------------------------


def compare(b: Builder, sign: str, x: Any, y: Any) -> Any:
    """A Python bool where the answer is known now, else a bool tile."""
    for side in (x, y):
        if isinstance(side, (Axis, Span)):
            name = side.name if isinstance(side, Axis) else "an axis"
            b.fail(
                f"`{sign}` of {name}, which is a range of indices",
                f"tw.indices({name}) {sign} ..., or {name}.start {sign} ...",
            )
    if is_compile_time(x) and is_compile_time(y):
        return of_constants(b, sign, x, y)
    if is_size(x) and is_size(y):
        known = decide(b, sign, size(x), size(y))
        if known is not None:
            return known
    op, swap = COMPARISONS[sign]
    pair = (y, x) if swap else (x, y)
    if any(isinstance(t, Tile) and t.dtype.is_bool for t in pair) and sign not in ("==", "!="):
        b.fail(f"`{sign}` of bool tiles", "& | ^ ~")
    return elementwise(b, op, pair, f"`{sign}`", bool_)


def decide(b: Builder, sign: str, x: Size, y: Size) -> bool | None:
    if sign in (">", ">="):
        x, y, sign = y, x, {">": "<", ">=": "<="}[sign]
    proves = b.bounds.proves
    if sign == "<=":
        return True if proves(y - x) else False if proves(x - y - 1) else None
    if sign == "<":
        return True if proves(y - x - 1) else False if proves(x - y) else None
    equal = True if x == y else False if proves(y - x - 1) or proves(x - y - 1) else None
    return equal if sign == "==" or equal is None else not equal


def unary(b: Builder, sign: str, x: Any) -> Any:
    """`+x`, `-x`, `~x`."""
    if isinstance(x, Size):
        if sign == "~":
            return unary(b, sign, b.size_value(x))
        return -x if sign == "-" else x
    if isinstance(x, (Axis, Span)):
        b.fail(f"`{sign}` of an axis, which is a range of indices", "tw.indices(axis), which are its indices as a tile")
    if not isinstance(x, Tile):
        try:
            return _UNARY[sign](x)
        except TypeError:
            b.fail(f"`{sign}` of {describe(x)}", "a number, a size or a tile")
    if sign == "+":
        return x
    if sign == "~":
        if x.dtype.is_float:
            b.fail(f"`~` of {x.dtype.name}", "`-x`, or a comparison")
        return b.emit("not", (x,), x.dtype, x.shape, weak=x.weak)
    if x.dtype.is_bool:
        b.fail("`-` of a bool tile", "`~x`")
    tile = b.emit("neg", (x,), x.dtype, x.shape, weak=x.weak)
    if x.size is not None:
        tile.size = -x.size
    return tile


def convert(b: Builder, x: Any, dtype: DType) -> Tile:
    """`x.to(dtype)`: any conversion, on request."""
    if is_number(x) and not isinstance(x, bool):
        if isinstance(x, float) and not dtype.is_float:
            x = (
                int(x)
                if math.isfinite(x) and not dtype.is_bool
                else x != 0
                if dtype.is_bool
                else b.fail(f"{x} is no {dtype.name}")
            )
        if dtype.is_bool:
            x = x != 0
        if not promotion.holds(dtype, x):
            b.fail(f"{x} does not fit {dtype.name}", f"a number that {dtype.name} holds")
        return b.constant(x, dtype)
    t = b.value(x)
    return b.cast(t, dtype)


def assigned(b: Builder, x: Any, dtype: DType, what: str) -> Tile:
    """x as a value of `dtype`, converted only where nothing is lost; weak numbers take the dtype."""
    if is_number(x) and not isinstance(x, bool):
        if (isinstance(x, float) and not dtype.is_float) or (dtype.is_bool) or not promotion.holds(dtype, x):
            b.fail(f"{what} is {dtype.name}, which does not hold {x}", f"a number of {dtype.name}")
        return b.constant(x, dtype)
    t = b.value(x)
    if t.dtype == dtype:
        return b.cast(t, dtype)
    if t.weak and (dtype.is_float or (t.dtype.is_integer and dtype.is_integer)):
        return b.cast(t, dtype)
    if not t.weak and promotion.widens(t.dtype, dtype):
        return b.cast(t, dtype)
    b.fail(
        f"{what} is {dtype.name}, and {t.dtype.name} is not converted to it silently ({show_tile(t)})",
        f".to({dtype!r})",
    )
