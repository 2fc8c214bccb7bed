"""Reductions, scans, sort and top-k along dimensions of a tile.

These functions have a meaning only inside `@tw.kernel` functions and their helpers. Unless said otherwise, x is a tile or a run-time number,
shapes broadcast as NumPy's do, dtypes meet as promotion.py says, and what does not fit is refused with KernelError.
"""

from __future__ import annotations

from typing import Any

from . import arithmetic, promotion, sizes
from .arguments import axes_argument, axis_argument, flag_argument
from .arithmetic import is_size, plain
from .builder import Builder, Tile, active, describe, show_size
from .ops_tile import reshape
from .registry import method
from .sizes import ONE, Size, size
from .types import f32, i64


def reduce(kind: str, x: Any, axis: Any, keepdims: bool) -> Tile:
    b = active(kind)
    x = b.value(x)
    what = f"tw.{kind}"
    flag_argument(b, keepdims, "keepdims")
    axes = axes_argument(b, x, axis, what)
    dtype = x.dtype
    if kind in ("sum", "prod"):
        dtype = promotion.sum_dtype(x.dtype)
        x = b.cast(x, dtype)
    elif kind in ("any", "all"):
        if not x.dtype.is_bool:
            b.fail(f"{what} of {x.dtype.name}: it takes bool", "tw." + kind + "(x != 0)")
    elif x.dtype.is_bool:
        b.fail(f"{what} of bool", "tw.any or tw.all")
    if kind in ("argmax", "argmin"):
        dtype = i64
    if not axes:
        return x
    if kind in ("argmax", "argmin") and len(axes) > 1:
        x = b.emit("reshape", (x,), x.dtype, (sizes.product(x.shape),)) if len(axes) == len(x.shape) else x
        if len(x.shape) > 1:
            b.fail(
                f"{what} along several of the dimensions", "one axis, or axis=None for the position in row-major order"
            )
        reduced = b.emit("reduce", (x,), dtype, (), kind=kind, axes=[0])
        return reshape(reduced, (1,) * len(axes)) if keepdims else reduced
    kept = tuple(s for d, s in enumerate(x.shape) if d not in axes)
    result = b.emit("reduce", (x,), dtype, kept, kind=kind, axes=axes)
    if not keepdims:
        return result
    positions = iter(range(len(x.shape)))
    entries = [(0, [(d, 1)]) for d in positions if d not in axes]
    return b.view(result, tuple(ONE if d in axes else s for d, s in enumerate(x.shape)), entries)


@method
def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum along an axis, several (a tuple) or all (None). bf16 and f16 add in f32 and round once; integers and bool add in i64."""
    return reduce("sum", x, axis, keepdims)


@method
def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The product; dtypes as for sum."""
    return reduce("prod", x, axis, keepdims)


@method
def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest element; NaN if one is NaN. For two operands: tw.maximum."""
    return reduce("max", x, axis, keepdims)


@method
def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest element; NaN if one is NaN. For two operands: tw.minimum."""
    return reduce("min", x, axis, keepdims)


@method
def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The i64 position of the first largest element along one axis (None: in row-major order); NaN counts as the largest."""
    return reduce("argmax", x, axis, keepdims)


@method
def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The i64 position of the first smallest element; NaN counts as the smallest."""
    return reduce("argmin", x, axis, keepdims)


@method
def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether any element of a bool tile is true."""
    return reduce("any", x, axis, keepdims)


@method
def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements of a bool tile are true."""
    return reduce("all", x, axis, keepdims)


@method
def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean of a float tile; bf16 and f16 compute in f32 and round once."""
    b = active("mean")
    x = b.value(x)
    if not x.dtype.is_float:
        b.fail(f"tw.mean of {x.dtype.name}: it takes floats", "tw.mean(x.to(tw.f32))")
    wide = b.cast(x, f32) if x.dtype.bytes == 2 else x
    count = sizes.product(x.shape[d] for d in axes_argument(b, x, axis, "tw.mean"))
    total = reduce("sum", wide, axis, keepdims)
    return b.cast(arithmetic.binary(b, "/", total, plain(count)), x.dtype)


def _scan(kind: str, name: str, x: Any, axis: Any) -> Tile:
    b = active(name)
    x = b.value(x)
    along = axis_argument(b, x, axis, f"tw.{name}")
    if kind in ("sum", "prod"):
        x = b.cast(x, promotion.sum_dtype(x.dtype))
    elif x.dtype.is_bool:
        b.fail(f"tw.{name} of bool", "x.to(tw.i32)")
    return b.emit("scan", (x,), x.dtype, x.shape, kind=kind, axis=along)


@method
def cumsum(x: Any, axis: int = -1) -> Any:
    """Inclusive running sums along an axis; dtypes as for sum."""
    return _scan("sum", "cumsum", x, axis)


@method
def cumprod(x: Any, axis: int = -1) -> Any:
    """Inclusive running products along an axis; dtypes as for sum."""
    return _scan("prod", "cumprod", x, axis)


@method
def cummax(x: Any, axis: int = -1) -> Any:
    """The largest element so far along an axis."""
    return _scan("max", "cummax", x, axis)


@method
def cummin(x: Any, axis: int = -1) -> Any:
    """The smallest element so far along an axis."""
    return _scan("min", "cummin", x, axis)


@method
def sort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    """(values, indices) in order along an axis, stable; NaN counts as the largest. Indices are i64."""
    b = active("sort")
    x = b.value(x)
    return _sorted(b, x, axis_argument(b, x, axis, "tw.sort"), flag_argument(b, descending, "descending"))


def _sorted(b: Builder, x: Tile, along: int, descending: bool, count: Size | None = None) -> tuple[Tile, Tile]:
    """The first `count` elements in order, or all."""
    shape = tuple(count if d == along and count is not None else s for d, s in enumerate(x.shape))
    statement: dict[str, Any] = {"op": "sort", "ids": [], "args": [x.id], "axis": along, "descending": descending}
    values, indices = b.fresh(x.dtype, shape, statement), b.fresh(i64, shape, statement)
    statement.update(ids=[values.id, indices.id], dtype=x.dtype.name, shape=b.texts(shape), loc=b.place())
    b.append(statement)
    return values, indices


@method
def topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    """(values, indices) of the k largest (or smallest) elements along an axis, in order; k is a compile-time int, a size or an int parameter."""
    b = active("topk")
    x = b.value(x)
    if isinstance(k, Tile) and k.size is not None:
        b.use_scalars(k.size)
        k = plain(k.size)
    if isinstance(k, Tile):
        b.fail_size(
            k,
            f"tw.topk with k = {describe(k)}: the shape of a tile cannot depend on data",
            "a compile-time int (k: tw.const)",
        )
    if not is_size(k):
        b.fail(f"the k of tw.topk is {describe(k)}", "a compile-time int (k: tw.const)")
    along = axis_argument(b, x, axis, "tw.topk")
    if isinstance(k, int) and k < 1:
        b.fail(f"tw.topk with k = {k}", "a positive k")
    b.require(
        size(k),
        x.shape[along],
        f"tw.topk of {k} elements along a dimension of {show_size(x.shape[along])}",
        f"line {b.place()[0]}: tw.topk takes {{lhs}} elements of a dimension that has {{rhs}}",
        "k of at most the size of that dimension",
    )
    return _sorted(b, x, along, flag_argument(b, largest, "largest"), size(k))
