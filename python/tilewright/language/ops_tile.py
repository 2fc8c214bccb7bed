"""Matrix products, and tiles made, reshaped and put together.

These functions have a meaning only inside `@tw.kernel` functions and their helpers. Unless said otherwise, x is a tile or a run-time number,
shapes broadcast as NumPy's do, dtypes meet as promotion.py says, and what does not fit is refused with KernelError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import arithmetic, promotion, sizes
from .arguments import axes_argument, axis_argument, dtype_argument, shape_argument
from .arithmetic import Span, is_size, plain
from .bounds import Axis
from .builder import Tile, active, describe, show_shape, show_size, show_tile
from .registry import builtin, method
from .sizes import ONE, size
from .types import f32, i32, i64


@method
def matmul(x: Any, y: Any) -> Any:
    """`x @ y` of tiles [.., m, k] and [.., k, n]; leading dimensions broadcast; one of them may be a vector. f32 and f64 give their own
    dtype, bf16 and f16 give f32 (in which they add), i8 gives i32."""
    b = active("matmul")
    x, y = b.value(x), b.value(y)
    for t in (x, y):
        if not t.shape:
            b.fail("a matrix product with a number", "`*`")
    met = promotion.common(x.dtype, y.dtype)
    result = None if met is None else promotion.product_dtype(met)
    if result is None:
        b.fail(
            f"a matrix product of {x.dtype.name} and {y.dtype.name}: operands are f32, f64, bf16, f16 or i8",
            ".to(tw.f32) on the operands",
        )
    assert met is not None
    x, y = b.cast(x, met), b.cast(y, met)
    row, column = len(x.shape) == 1, len(y.shape) == 1
    if row:
        x = b.view(x, (ONE, *x.shape), [(0, [(1, 1)])])
    if column:
        y = b.view(y, (*y.shape, ONE), [(0, [(0, 1)])])
    if not b.same(x.shape[-1], y.shape[-2]):
        b.fail(
            f"a matrix product of {show_tile(x)} and {show_tile(y)}: the inner dimensions {show_size(x.shape[-1])} and"
            f" {show_size(y.shape[-2])} differ",
            "`x @ y.T` if y is transposed"
            if len(y.shape) == 2 and x.shape[-1] == y.shape[-1]
            else "tiles that share the inner axis",
        )
    batch = b.common_shape(
        [Tile(t.id, t.dtype, t.shape[:-2], False, None, t.line) for t in (x, y)],
        "the leading dimensions of a matrix product",
    )
    x, y = b.broadcast(x, (*batch, *x.shape[-2:])), b.broadcast(y, (*batch, *y.shape[-2:]))
    product = b.emit("matmul", (x, y), result, (*batch, x.shape[-2], y.shape[-1]))
    if row or column:
        rank = len(batch)
        kept = [] if row else [rank]
        kept += [] if column else [rank + 1]
        shape = (*batch, *(product.shape[d] for d in kept))
        entries = [(0, [(d, 1)]) for d in range(rank)]
        entries += [(0, [(rank + kept.index(d), 1)] if d in kept else []) for d in (rank, rank + 1)]
        product = b.view(product, shape, entries)
    return product


@method
def dot(x: Any, y: Any, acc: Any = None) -> Any:
    """`acc + x @ y`; without acc as matmul."""
    product = matmul(x, y)
    return product if acc is None else arithmetic.binary(active("dot"), "+", acc, product)


# -- making and moving tiles --------------------------------------------------------------------------------


@builtin
def full(shape: Any, value: Any, dtype: Any) -> Any:
    """A tile of one value. `shape`: a tuple of axes, ints and sizes."""
    b = active("full")
    dtype = dtype_argument(b, dtype, "tw.full")
    dims = shape_argument(b, shape, "tw.full")
    if isinstance(value, bool) and not dtype.is_bool:
        value = int(value)
    if dtype.is_bool and isinstance(value, int):
        value = value != 0
    filled = (
        b.value(value)
        if isinstance(value, bool)
        else arithmetic.assigned(b, value, dtype, "the tile that tw.full makes")
    )
    if filled.shape:
        b.fail(f"tw.full of {show_tile(filled)}", "a number, or tw.broadcast_to(x, shape)")
    return b.broadcast(filled, dims)


@builtin
def zeros(shape: Any, dtype: Any = f32) -> Any:
    """A tile of zeros."""
    return full(shape, 0, dtype)


@builtin
def ones(shape: Any, dtype: Any = f32) -> Any:
    """A tile of ones."""
    return full(shape, 1, dtype)


@builtin
def zeros_like(x: Any) -> Any:
    """Zeros of the shape and dtype of x."""
    b = active("zeros_like")
    x = b.value(x)
    return full(x.shape, 0, x.dtype)


@builtin
def full_like(x: Any, value: Any) -> Any:
    """One value in the shape and dtype of x."""
    b = active("full_like")
    x = b.value(x)
    return full(x.shape, value, x.dtype)


@builtin
def iota(n: Any, dtype: Any = i64) -> Any:
    """0, 1, .. n - 1, where n is an int, a size, or an axis (its length). i64 or i32."""
    b = active("iota")
    dtype = dtype_argument(b, dtype, "tw.iota")
    if dtype not in (i64, i32):
        b.fail(f"tw.iota of {dtype.name}", f"tw.iota(n).to({dtype!r})")
    shape = shape_argument(b, n, "tw.iota")
    if len(shape) != 1:
        b.fail("tw.iota takes one size", "tw.iota(n)[:, None] for a column")
    return b.emit_once((), "iota", (), dtype, shape, axis=0)


@builtin
def indices(axis: Any, dtype: Any = i64) -> Any:
    """The indices that an axis stands for, `axis.start + tw.iota(axis)`, also of `axis + 1` or `axis * 2`."""
    b = active("indices")
    s = arithmetic.span(axis) if isinstance(axis, Axis) else axis
    if is_size(s):
        return b.value(s)
    if not isinstance(s, Span) or len(s.terms) != 1:
        b.fail(f"tw.indices of {describe(axis)}", "tw.indices(i) of an axis i, or tw.iota(n)")
    (extent, step), *_ = s.terms
    numbers = iota(extent, dtype)
    if step != 1:
        numbers = arithmetic.binary(b, "*", numbers, plain(step))
    if s.offset is not None:
        numbers = arithmetic.binary(b, "+", numbers, b.cast(s.offset, numbers.dtype))
    return numbers if s.start == 0 else arithmetic.binary(b, "+", numbers, plain(s.start))


@builtin
def arange(start: Any, end: Any = None, dtype: Any = i64) -> Any:
    """`tw.arange(n)`: 0 .. n - 1; `tw.arange(a, b)`: a .. b - 1; `tw.arange(axis)`: as tw.indices."""
    b = active("arange")
    if isinstance(start, (Axis, Span)):
        return indices(start, dtype)
    if end is None:
        return iota(start, dtype)
    if not is_size(start) or not is_size(end):
        b.fail("tw.arange with an end that is known only from data: shapes cannot depend on data", "tw.iota(n) + start")
    return arithmetic.binary(b, "+", iota(plain(size(end) - size(start)), dtype), start)


@method
def broadcast_to(x: Any, shape: Any) -> Any:
    """x repeated along dimensions of size 1 and new leading ones."""
    b = active("broadcast_to")
    x, dims = b.value(x), shape_argument(b, shape, "tw.broadcast_to")
    if not b.broadcasts(x.shape, dims):
        b.fail(
            f"a tile {show_shape(x.shape)} does not broadcast to {show_shape(dims)}",
            "equal sizes, or 1, counted from the last",
        )
    return b.broadcast(x, dims)


@method
def expand(x: Any, shape: Any) -> Any:
    """As broadcast_to."""
    return broadcast_to(x, shape)


@method
def reshape(x: Any, shape: Any) -> Any:
    """The same elements in row-major order. One size may be -1."""
    b = active("reshape")
    x = b.value(x)
    entries = shape if isinstance(shape, (tuple, list)) else (shape,)
    total = sizes.product(x.shape)
    unknown = [d for d, e in enumerate(entries) if isinstance(e, int) and e == -1]
    known = shape_argument(b, tuple(e for d, e in enumerate(entries) if d not in unknown), "tw.reshape")
    if unknown:
        rest = sizes.divide_exactly(total, sizes.product(known)) if len(unknown) == 1 else None
        if rest is None:
            b.fail(
                f"tw.reshape of {show_shape(x.shape)} cannot find the size for -1",
                "one -1, and sizes whose product divides the number of elements",
            )
        dims = list(known)
        dims.insert(unknown[0], rest)
        known = tuple(dims)
    if sizes.product(known) != total:
        b.fail(
            f"tw.reshape of {show_shape(x.shape)} to {show_shape(known)}: {show_size(total)} and {show_size(sizes.product(known))} elements",
            "sizes with the same product; split a dimension by declaring it as a product (In[f32, M, H*D])",
        )
    if known == x.shape:
        return x
    return b.emit("reshape", (x,), x.dtype, known)


@method
def permute(x: Any, *order: Any) -> Any:
    """Dimensions in another order: `tw.permute(x, 0, 2, 1)` or `tw.permute(x, (0, 2, 1))`."""
    b = active("permute")
    x = b.value(x)
    if len(order) == 1 and isinstance(order[0], tuple):
        order = order[0]
    dims = [axis_argument(b, x, d, "tw.permute") for d in order]
    if sorted(dims) != list(range(len(x.shape))):
        b.fail(f"tw.permute by {tuple(order)} of a tile {show_shape(x.shape)}", "every dimension once")
    entries = [(0, [(dims.index(d), 1)]) for d in range(len(dims))]
    return b.view(x, tuple(x.shape[d] for d in dims), entries)


@method
def transpose(x: Any, first: int = -2, second: int = -1) -> Any:
    """Two dimensions exchanged, the last two by default; `x.T` of a matrix."""
    b = active("transpose")
    x = b.value(x)
    p, q = (axis_argument(b, x, d, "tw.transpose") for d in (first, second))
    dims = list(range(len(x.shape)))
    dims[p], dims[q] = dims[q], dims[p]
    return permute(x, *dims)


@method
def squeeze(x: Any, axis: Any) -> Any:
    """Without dimensions of size 1, which `axis` (an int or a tuple) names."""
    b = active("squeeze")
    x = b.value(x)
    axes = axes_argument(b, x, axis, "tw.squeeze")
    for a in axes:
        if x.shape[a] != 1:
            b.fail(
                f"tw.squeeze of dimension {a} of {show_shape(x.shape)}, whose size is {show_size(x.shape[a])}",
                "a dimension of size 1",
            )
    kept = [d for d in range(len(x.shape)) if d not in axes]
    entries = [(0, [(kept.index(d), 1)] if d in kept else []) for d in range(len(x.shape))]
    return b.view(x, tuple(x.shape[d] for d in kept), entries)


@method
def expand_dims(x: Any, axis: int) -> Any:
    """With a new dimension of size 1 before dimension `axis` (as `x[:, None]`)."""
    b = active("expand_dims")
    x = b.value(x)
    rank = len(x.shape) + 1
    if not isinstance(axis, int) or not -rank <= axis < rank:
        b.fail(f"tw.expand_dims at {describe(axis)} of {show_shape(x.shape)}", f"an axis in {-rank} .. {rank - 1}")
    at = axis % rank
    entries = [(0, [(d + (d >= at), 1)]) for d in range(rank - 1)]
    return b.view(x, (*x.shape[:at], ONE, *x.shape[at:]), entries)


@method
def flip(x: Any, axis: Any = None) -> Any:
    """In reverse order along an axis, several, or all."""
    b = active("flip")
    x = b.value(x)
    axes = axes_argument(b, x, axis, "tw.flip")
    return b.view(x, x.shape, [(s - 1, [(d, -1)]) if d in axes else (0, [(d, 1)]) for d, s in enumerate(x.shape)])


def _check_tiles(name: str, tiles: Any) -> None:
    if not isinstance(tiles, tuple) or not tiles:
        shown = "an empty one" if tiles == () else describe(tiles)
        active(name).fail(f"tw.{name} takes a tuple of tiles, not {shown}", f"tw.{name}((x, y), axis=0)")


@builtin
def concat(tiles: Sequence[Any], axis: int = 0) -> Any:
    """Tiles one after another along an axis; other dimensions equal, dtypes as they meet."""
    b = active("concat")
    _check_tiles("concat", tiles)
    values = [b.value(t) for t in tiles]
    dtype = arithmetic.common_dtype(b, values, "tw.concat")
    along = axis_argument(b, values[0], axis, "tw.concat")
    total = size(0)
    for t in values:
        for d, s in enumerate(values[0].shape):
            if len(t.shape) != len(values[0].shape) or (d != along and not b.same(t.shape[d], s)):
                b.fail(
                    f"tw.concat along axis {along} of {show_tile(values[0])} and {show_tile(t)}: the other dimensions must be equal",
                    "tiles that differ only along that axis",
                )
        total = total + t.shape[along]
    shape = tuple(total if d == along else s for d, s in enumerate(values[0].shape))
    return b.emit("concat", [b.cast(t, dtype) for t in values], dtype, shape, axis=along)


@builtin
def stack(tiles: Sequence[Any], axis: int = 0) -> Any:
    """Tiles of one shape along a new dimension."""
    _check_tiles("stack", tiles)
    return concat(tuple(expand_dims(t, axis) for t in tiles), axis)


@method
def slice(x: Any, start: Any, size_: Any, axis: int = 0) -> Any:
    """`size_` elements of a tile from `start` along an axis."""
    b = active("slice")
    x = b.value(x)
    along = axis_argument(b, x, axis, "tw.slice")
    lengths = shape_argument(b, size_, "tw.slice")
    if len(lengths) != 1:
        b.fail(f"tw.slice of {len(lengths)} sizes", "one size, along one axis")
    (length,) = lengths
    begin = b.to_size(start, "the start of tw.slice", end=x.shape[along] - length)
    for low, high in ((size(0), begin), (begin + length, x.shape[along])):
        b.require(
            low,
            high,
            f"tw.slice reads {show_size(begin)} .. {show_size(begin + length)} of a dimension of {show_size(x.shape[along])}",
            f"line {b.place()[0]}: tw.slice leaves its tile: {{lhs}} is above {{rhs}}",
            "a range inside of the tile",
        )
    shape = tuple(length if d == along else s for d, s in enumerate(x.shape))
    return b.view(x, shape, [(begin if d == along else 0, [(d, 1)]) for d in range(len(shape))])
