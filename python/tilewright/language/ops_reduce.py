"""Reductions, scans, sort and top-k along dimensions of a tile.

These functions have a meaning only inside `@tw.kernel` functions and their helpers. Unless said otherwise, x is a tile or a run-time number,
shapes broadcast as NumPy's do, dtypes meet as promotion.py says, and what does not fit is refused with KernelError.
"""

from __future__ import annotations

from typing import Any

from . import arithmetic, promotion, sizes
from .arguments import axes_argument, axis_argument, flag_argument
from .arithmetic import is_size, plain
from .builder import Builder, Tile, active, describe, show_size, show_tile
from .ops_tile import reshape
from .registry import builtin, method
from .sizes import ONE, Size, size
from .types import bool_, f32, i64


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


@builtin
def associative_scan(x: Any, combine: Any, axis: int = -1) -> Any:
    """Inclusive scan along an axis: element t of the result is elements 0 .. t of x, combined. `combine(a, b)` is an associative function of tiles, a
    helper or a function such as tw.maximum, that works element by element. x may be a tuple of tiles of one shape; combine then takes and returns
    tuples. Doubles the distance in each of ceil(log2(n)) steps, so floats are combined in another order than one by one."""
    b = active("associative_scan")
    many = isinstance(x, tuple)
    tiles = [b.value(t) for t in (x if many else (x,))]
    if not tiles:
        b.fail("tw.associative_scan of no tile", "a tile, or a tuple of tiles")
    tiles = [b.cast(t, t.dtype, weak=False) for t in tiles]
    along = axis_argument(b, tiles[0], axis, "tw.associative_scan")
    shape = tiles[0].shape
    for t in tiles:
        if not b.same_shape(t.shape, shape):
            b.fail(
                f"tw.associative_scan of tiles of several shapes: {show_tile(tiles[0])} and {show_tile(t)}",
                "tiles of one shape: tw.broadcast_to(x, shape)",
            )
    length = shape[along]
    results = [b.fresh(t.dtype, shape) for t in tiles]
    statement: dict[str, Any] = {"op": "while"}
    first, stop = b.constant(1, i64), b.cast(b.size_value(length), i64)
    distance = b.fresh(i64, ())
    args = [b.fresh(t.dtype, shape) for t in tiles]
    b.open_block()
    statement["cond"] = b.emit("lt", (distance, stop), bool_, ()).id
    statement["condition"] = b.close_block()
    b.guards.append(statement)
    b.open_block()
    step = b.to_size(distance, "the distance of tw.associative_scan", end=length, name="distance")

    def part(t: Tile, begin: Any, count: Any) -> Tile:
        entries = [(begin if d == along else 0, [(d, 1)]) for d in range(len(shape))]
        return b.view(t, tuple(count if d == along else s for d, s in enumerate(shape)), entries)

    earlier = [part(t, 0, length - step) for t in args]
    later = [part(t, step, length - step) for t in args]
    begun = len(b.blocks[-1])
    made = b.call(combine, [tuple(earlier), tuple(later)] if many else [earlier[0], later[0]], {})
    _refuse_neighbours(b, b.blocks[-1][begun:])
    following = []
    for old, new in zip(args, _combined(b, made, later, many), strict=True):
        following.append(b.emit("concat", (part(old, 0, step), new), old.dtype, shape, axis=along))
    twice = b.emit("add", (distance, distance), i64)
    b.guards.pop()
    carried = [{"init": first.id, "arg": distance.id, "next": twice.id, "result": b.fresh(i64, ()).id}]
    for t, arg, new, result in zip(tiles, args, following, results, strict=True):
        carried.append({"init": t.id, "arg": arg.id, "next": new.id, "result": result.id})
    statement.update(carried=carried, body=b.close_block(), loc=b.place())
    b.append(statement)
    return tuple(results) if many else results[0]


#: Operations by which an element of a result depends on other elements, or on its place.
_NOT_ELEMENTWISE = {"reduce", "matmul", "scan", "sort", "concat", "reshape", "iota", "load", "store", "atomic_add"}


def _refuse_neighbours(b: Builder, statements: list[dict[str, Any]]) -> None:
    """Refuses what the function of a scan does if it is not element by element: a step has tiles of another length, and other elements in them."""
    for s in statements:
        for key in ("condition", "body", "then", "else"):
            _refuse_neighbours(b, s.get(key, []))
        moves = s["op"] == "view" and b.shapes[s["args"][0]] != ()  # numbers are broadcast
        if moves or s["op"] in _NOT_ELEMENTWISE:
            what = "moves elements of a tile" if moves else f"uses {s.get('kind', s['op'])}"
            b.fail(
                f"the function of tw.associative_scan {what}: it works element by element",
                "arithmetic on its arguments, and other dimensions as further tiles of a tuple",
            )


def _combined(b: Builder, made: Any, like: list[Tile], many: bool) -> list[Tile]:
    """What the function of a scan returns, if it has the shapes and dtypes of what it is given."""
    if many and not (isinstance(made, tuple) and len(made) == len(like)):
        b.fail(
            f"the function of tw.associative_scan returns {describe(made)} for tuples of {len(like)} tiles",
            f"a tuple of {len(like)} tiles",
        )
    values = []
    for old, new in zip(like, made if many else (made,), strict=True):
        if isinstance(new, (int, float)) or (isinstance(new, Tile) and new.weak):
            new = arithmetic.assigned(b, new, old.dtype, "what the function of tw.associative_scan returns")
        if not isinstance(new, Tile):
            b.fail(f"the function of tw.associative_scan returns {describe(new)}", "a tile as it is given")
        if new.dtype != old.dtype:
            b.fail(
                f"the function of tw.associative_scan returns {new.dtype.name} for {old.dtype.name}",
                f".to(tw.{old.dtype.name}) on what it returns, or tw.{new.dtype.name} before the scan",
            )
        if not b.broadcasts(new.shape, old.shape):
            b.fail(
                "the function of tw.associative_scan changes the shape of what it is given: it works element by element",
                "a tile of the shape that it is given",
            )
        values.append(b.broadcast(new, old.shape))
    return values


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
