"""What kernels call: `tw.exp`, `tw.sum`, `tw.zeros` and the rest, each documented where it is defined.

These functions have a meaning only inside `@tw.kernel` functions and their helpers. Unless said otherwise, x is a tile or a run-time number,
shapes broadcast as NumPy's do, dtypes meet as promotion.py says, and what does not fit is refused with KernelError.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

from . import arithmetic, promotion, sizes
from .arithmetic import Span, elementwise, is_number, is_size, meet, plain
from .bounds import Axis
from .builder import Builder, Tile, active, describe
from .sizes import ONE, Size, size
from .types import DType, bool_, f32, i32, i64, u32

#: Functions that the front end calls when a kernel does, by identity.
BUILTINS: set[Callable[..., Any]] = set()

#: Methods of tiles: name -> function whose first argument is the tile.
METHODS: dict[str, Callable[..., Any]] = {}


def builtin(function: Callable[..., Any]) -> Callable[..., Any]:
    BUILTINS.add(function)
    return function


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    METHODS[function.__name__] = function
    return builtin(function)


# -- elementwise functions ---------------------------------------------------------------------------------------------


def _float_function(name: str, meaning: str, number: Callable[[float], float] | None = None) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        b = active(name)
        if is_number(x) and number is not None:
            try:
                return number(x)
            except (ValueError, OverflowError):
                x = float(x)
        if is_size(x) or (isinstance(x, Tile) and x.weak and x.dtype.is_integer):
            x = b.cast(b.value(x), arithmetic.f64, weak=True)
        x = b.value(x)
        if not x.dtype.is_float:
            b.fail(f"tw.{name} of {x.dtype.name} ({b.show_tile(x)}): it takes floats", f"tw.{name}(x.to(tw.f32))")
        return elementwise(b, name, (x,), f"tw.{name}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{meaning} Floats of any dtype; the result has the dtype and shape of x."
    return builtin(function)


exp = _float_function("exp", "e to the power x.", math.exp)
exp2 = _float_function("exp2", "2 to the power x.", math.exp2)
expm1 = _float_function("expm1", "exp(x) - 1, exact near 0.", math.expm1)
log = _float_function("log", "The natural logarithm.", math.log)
log2 = _float_function("log2", "The logarithm to base 2.", math.log2)
log10 = _float_function("log10", "The logarithm to base 10.", math.log10)
log1p = _float_function("log1p", "log(1 + x), exact near 0.", math.log1p)
sqrt = _float_function("sqrt", "The square root, correctly rounded.", math.sqrt)
rsqrt = _float_function("rsqrt", "1 / sqrt(x).", lambda x: 1 / math.sqrt(x) if x > 0 else _no_number())
tanh = _float_function("tanh", "The hyperbolic tangent.", math.tanh)
sinh = _float_function("sinh", "The hyperbolic sine.", math.sinh)
cosh = _float_function("cosh", "The hyperbolic cosine.", math.cosh)
erf = _float_function("erf", "The error function.", math.erf)
erfc = _float_function("erfc", "1 - erf(x), exact where erf is near 1.", math.erfc)
sin = _float_function("sin", "The sine of radians.", math.sin)
cos = _float_function("cos", "The cosine of radians.", math.cos)
tan = _float_function("tan", "The tangent of radians.", math.tan)
asin = _float_function("asin", "The arc sine.", math.asin)
acos = _float_function("acos", "The arc cosine.", math.acos)
atan = _float_function("atan", "The arc tangent.", math.atan)
asinh = _float_function("asinh", "The inverse hyperbolic sine.", math.asinh)
acosh = _float_function("acosh", "The inverse hyperbolic cosine.", math.acosh)
atanh = _float_function("atanh", "The inverse hyperbolic tangent.", math.atanh)


def _no_number() -> float:
    raise ValueError


def _rounding(name: str, meaning: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        b = active(name)
        if is_size(x):
            return x
        x = b.value(x)
        if x.dtype.is_integer:
            return x
        if not x.dtype.is_float:
            b.fail(f"tw.{name} of {x.dtype.name}", "a float or integer tile")
        return elementwise(b, name, (x,), f"tw.{name}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{meaning} Integers stay as they are; the dtype stays."
    return builtin(function)


floor = _rounding("floor", "The largest whole number that is not above x.")
ceil = _rounding("ceil", "The smallest whole number that is not below x.")
trunc = _rounding("trunc", "x without its fraction.")
round = _rounding("round", "The nearest whole number, ties to even.")


@method
def abs(x: Any) -> Any:
    """The absolute value. Floats and integers (the smallest integer of a dtype stays negative)."""
    b = active("abs")
    if is_number(x):
        return builtins.abs(x)
    if isinstance(x, Size):
        return plain(sizes.maximum(x, -x))
    x = b.value(x)
    if x.dtype.is_bool:
        b.fail("tw.abs of bool", "x itself")
    return elementwise(b, "abs", (x,), "tw.abs")


@builtin
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), without overflow at either end. Floats."""
    b = active("sigmoid")
    x = b.value(x)
    if not x.dtype.is_float:
        b.fail(f"tw.sigmoid of {x.dtype.name}: it takes floats", "tw.sigmoid(x.to(tw.f32))")
    wide = b.cast(x, f32, weak=x.weak) if x.dtype.bytes == 2 else x
    e = exp(arithmetic.unary(b, "-", abs(wide)))
    above = where(arithmetic.compare(b, ">=", wide, 0.0), 1.0, e)
    return b.cast(arithmetic.binary(b, "/", above, arithmetic.binary(b, "+", e, 1.0)), x.dtype, weak=x.weak)


@builtin
def pow(x: Any, y: Any) -> Any:
    """x to the power y; the same as `x ** y`. Floats; integers with compile-time exponents of 0 .. 64."""
    return arithmetic.binary(active("pow"), "**", x, y)


@builtin
def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y) in radians. Floats."""
    return _floats("atan2", y, x)


@builtin
def fmod(x: Any, y: Any) -> Any:
    """C's remainder: it has the sign of x. Floats and integers."""
    return elementwise(active("fmod"), "fmod", (x, y), "tw.fmod")


@builtin
def copysign(x: Any, y: Any) -> Any:
    """x with the sign of y. Floats."""
    return _floats("copysign", x, y)


@builtin
def fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once. Floats."""
    return _floats("fma", x, y, z)


def _floats(name: str, *values: Any) -> Tile:
    b = active(name)
    for v in values:
        if isinstance(v, Tile) and not v.weak and not v.dtype.is_float:
            b.fail(f"tw.{name} of {v.dtype.name}: it takes floats", "x.to(tw.f32)")
    if all(is_size(v) or (isinstance(v, Tile) and v.weak) for v in values):
        values = tuple(b.cast(b.value(v), arithmetic.f64, weak=True) for v in values)
    return elementwise(b, name, values, f"tw.{name}")


@builtin
def maximum(x: Any, y: Any) -> Any:
    """The larger of two, NaN if one is NaN. Floats and integers."""
    return _choose("maximum", x, y)


@builtin
def minimum(x: Any, y: Any) -> Any:
    """The smaller of two, NaN if one is NaN. Floats and integers."""
    return _choose("minimum", x, y)


def _choose(name: str, x: Any, y: Any) -> Any:
    b = active(name)
    if is_number(x) and is_number(y):
        return builtins.max(x, y) if name == "maximum" else builtins.min(x, y)
    if is_size(x) and is_size(y):
        return plain(sizes.maximum(x, y) if name == "maximum" else sizes.minimum(x, y))
    for t in (x, y):
        if isinstance(t, Tile) and t.dtype.is_bool:
            b.fail(f"tw.{name} of bool", "x | y" if name == "maximum" else "x & y")
    tile = elementwise(b, name[:3], (x, y), f"tw.{name}")
    known = [t.size if isinstance(t, Tile) else size(t) if is_size(t) else None for t in (x, y)]
    if known[0] is not None and known[1] is not None:
        # Symbols are not negative for SizeExpr, so a scalar that may be negative must not be simplified away here.
        tile.size = sizes.maximum(*known) if name == "maximum" else sizes.minimum(*known)  # type: ignore[arg-type]
    return tile


@builtin
def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    """x brought into low .. high, either of which may be None; NaN stays."""
    b = active("clamp")
    if low is None and high is None:
        b.fail("tw.clamp without bounds", "tw.clamp(x, low, high)")
    if low is not None:
        x = maximum(x, low)
    return minimum(x, high) if high is not None else x


@builtin
def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the bool tile is true, else y."""
    b = active("where")
    if isinstance(condition, bool):
        return x if condition else y
    condition = b.value(condition)
    if not condition.dtype.is_bool:
        b.fail(f"tw.where takes a bool tile, not {b.show_tile(condition)}", "a comparison, x != 0")
    if not any(isinstance(v, bool) or (isinstance(v, Tile) and not v.weak) for v in (x, y)) and condition.shape:
        b.fail("tw.where of two numbers has no dtype", "tw.full((), 1.0, tw.f32) for one of them")
    (x, y), compute, dtype, weak = meet(b, (x, y), "tw.where")
    shape = b.common_shape((condition, x, y), "tw.where")
    chosen = b.emit("select", [b.broadcast(t, shape) for t in (condition, x, y)], compute, shape, weak=weak)
    return b.cast(chosen, dtype, weak=weak)


@builtin
def isnan(x: Any) -> Any:
    """Whether x is NaN, as bool. Floats."""
    b = active("isnan")
    x = _float_tile(b, x, "isnan")
    return b.emit("ne", (x, x), bool_, x.shape)


@builtin
def isinf(x: Any) -> Any:
    """Whether x is an infinity, as bool. Floats."""
    b = active("isinf")
    x = _float_tile(b, x, "isinf")
    return arithmetic.compare(b, "==", abs(x), math.inf)


@builtin
def isfinite(x: Any) -> Any:
    """Whether x is neither NaN nor an infinity, as bool. Floats."""
    b = active("isfinite")
    x = _float_tile(b, x, "isfinite")
    return arithmetic.compare(b, "<", abs(x), math.inf)


def _float_tile(b: Builder, x: Any, name: str) -> Tile:
    x = b.value(x)
    if not x.dtype.is_float:
        b.fail(f"tw.{name} of {x.dtype.name}: it takes floats", "False, since integers are finite")
    return x


# -- conversions -------------------------------------------------------------------------------------------------------


@builtin
def cast(x: Any, dtype: Any) -> Any:
    """x as another dtype: floats to integers truncate, anything to bool is `!= 0`, wider integers to narrower keep the low bits."""
    b = active("cast")
    return arithmetic.convert(b, x, _dtype(b, dtype, "tw.cast"))


@method
def to(x: Any, dtype: Any) -> Any:
    """`x.to(dtype)`: as cast."""
    b = active("cast")
    return arithmetic.convert(b, x, _dtype(b, dtype, ".to"))


@method
def bitcast(x: Any, dtype: Any) -> Any:
    """The bits of x as another dtype of the same width."""
    b = active("bitcast")
    dtype, x = _dtype(b, dtype, "tw.bitcast"), b.value(x)
    if x.weak:
        b.fail(f"tw.bitcast of {describe(x)}, which has no dtype of its own", "tw.bitcast(tw.cast(x, tw.f32), ...)")
    if x.dtype.bytes != dtype.bytes or x.dtype.is_bool or dtype.is_bool:
        b.fail(
            f"tw.bitcast of {x.dtype.name} to {dtype.name}: their widths differ", f"a dtype of {x.dtype.bytes * 8} bits"
        )
    return x if x.dtype == dtype else b.emit("bitcast", (x,), dtype, x.shape)


def _dtype(b: Builder, dtype: Any, what: str) -> DType:
    if isinstance(dtype, DType):
        return dtype
    b.fail(f"{what} takes a dtype, not {describe(dtype)}", "tw.f32, x.dtype or a dtype parameter")


# -- reductions and scans ----------------------------------------------------------------------------------------------


def _axes(b: Builder, x: Tile, axis: Any, what: str) -> list[int]:
    if axis is None:
        return list(range_(len(x.shape)))
    axes = []
    for a in axis if isinstance(axis, tuple) else (axis,):
        axes.append(_axis(b, x, a, what))
    if len(set(axes)) != len(axes):
        b.fail(f"{what} names a dimension twice: axis={axis}", "each dimension once")
    return sorted(axes)


def _axis(b: Builder, x: Tile, axis: Any, what: str) -> int:
    if not isinstance(axis, int) or isinstance(axis, bool):
        b.fail(f"the axis of {what} is {describe(axis)}", "a compile-time int, such as axis=1")
    rank = len(x.shape)
    if not -rank <= axis < rank:
        b.fail(
            f"{what} along axis {axis} of a tile {b.show_shape(x.shape)}, which has {rank} dimensions",
            f"an axis in {-rank} .. {rank - 1}" if rank else "the number itself",
        )
    return axis % rank


range_ = builtins.range


def _reduce(kind: str, x: Any, axis: Any, keepdims: bool) -> Tile:
    b = active(kind)
    x = b.value(x)
    what = f"tw.{kind}"
    axes = _axes(b, x, axis, what)
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
    positions = iter(range_(len(x.shape)))
    entries = [(0, [(d, 1)]) for d in positions if d not in axes]
    return b.view(result, tuple(ONE if d in axes else s for d, s in enumerate(x.shape)), entries)


@method
def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum along an axis, several (a tuple) or all (None). bf16 and f16 add in f32 and round once; integers and bool add in i64."""
    return _reduce("sum", x, axis, keepdims)


@method
def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The product; dtypes as for sum."""
    return _reduce("prod", x, axis, keepdims)


@method
def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest element; NaN if one is NaN. For two operands: tw.maximum."""
    return _reduce("max", x, axis, keepdims)


@method
def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest element; NaN if one is NaN. For two operands: tw.minimum."""
    return _reduce("min", x, axis, keepdims)


@method
def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The i64 position of the first largest element along one axis (None: in row-major order); NaN counts as the largest."""
    return _reduce("argmax", x, axis, keepdims)


@method
def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The i64 position of the first smallest element; NaN counts as the smallest."""
    return _reduce("argmin", x, axis, keepdims)


@method
def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether any element of a bool tile is true."""
    return _reduce("any", x, axis, keepdims)


@method
def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements of a bool tile are true."""
    return _reduce("all", x, axis, keepdims)


@method
def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean of a float tile; bf16 and f16 compute in f32 and round once."""
    b = active("mean")
    x = b.value(x)
    if not x.dtype.is_float:
        b.fail(f"tw.mean of {x.dtype.name}: it takes floats", "tw.mean(x.to(tw.f32))")
    wide = b.cast(x, f32) if x.dtype.bytes == 2 else x
    count = sizes.product(x.shape[d] for d in _axes(b, x, axis, "tw.mean"))
    total = _reduce("sum", wide, axis, keepdims)
    return b.cast(arithmetic.binary(b, "/", total, plain(count)), x.dtype)


def _scan(kind: str, name: str, x: Any, axis: Any) -> Tile:
    b = active(name)
    x = b.value(x)
    along = _axis(b, x, axis, f"tw.{name}")
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
def sort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    """(values, indices) in order along an axis, stable; NaN counts as the largest. Indices are i64."""
    b = active("sort")
    x = b.value(x)
    along = _axis(b, x, axis, "tw.sort")
    if not isinstance(descending, bool):
        b.fail("descending is not a compile-time bool", "descending=True")
    statement: dict[str, Any] = {"op": "sort", "ids": [], "args": [x.id], "axis": along, "descending": descending}
    values, indices = b.fresh(x.dtype, x.shape, statement), b.fresh(i64, x.shape, statement)
    statement.update(ids=[values.id, indices.id], dtype=x.dtype.name, shape=b.texts(x.shape), loc=b.place())
    b.append(statement)
    return values, indices


@builtin
def topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    """(values, indices) of the k largest (or smallest) elements along an axis, in order; k is a compile-time int or a size."""
    b = active("topk")
    x = b.value(x)
    if not is_size(k):
        b.fail(
            f"tw.topk with k = {b.show_tile(k) if isinstance(k, Tile) else describe(k)}: the shape of a tile cannot depend on data",
            "a compile-time int (k: tw.const)",
        )
    along = _axis(b, x, axis, "tw.topk")
    if isinstance(k, int) and k < 1:
        b.fail(f"tw.topk with k = {k}", "a positive k")
    b.require(
        size(k),
        x.shape[along],
        f"tw.topk of {k} elements along a dimension of {b.show(x.shape[along])}",
        f"line {b.place()[0]}: tw.topk takes {{lhs}} elements of a dimension that has {{rhs}}",
        "k of at most the size of that dimension",
    )
    values, indices = sort(x, along, descending=largest)
    shape = tuple(size(k) if d == along else s for d, s in enumerate(x.shape))
    entries = [(0, [(d, 1)]) for d in range_(len(shape))]
    return b.view(values, shape, entries), b.view(indices, shape, entries)


# -- matrix products ---------------------------------------------------------------------------------------------------


@builtin
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
    if x.shape[-1] != y.shape[-2]:
        b.fail(
            f"a matrix product of {b.show_tile(x)} and {b.show_tile(y)}: the inner dimensions {b.show(x.shape[-1])} and"
            f" {b.show(y.shape[-2])} differ",
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
        entries = [(0, [(d, 1)]) for d in range_(rank)]
        entries += [(0, [(rank + kept.index(d), 1)] if d in kept else []) for d in (rank, rank + 1)]
        product = b.view(product, shape, entries)
    return product


@builtin
def dot(x: Any, y: Any, acc: Any = None) -> Any:
    """`acc + x @ y`; without acc as matmul."""
    product = matmul(x, y)
    return product if acc is None else arithmetic.binary(active("dot"), "+", acc, product)


# -- making and moving tiles -------------------------------------------------------------------------------------------


def _shape(b: Builder, shape: Any, what: str) -> tuple[Size, ...]:
    entries = shape if isinstance(shape, (tuple, list)) else (shape,)
    result = []
    for e in entries:
        if isinstance(e, Axis):
            result.append(e.size)
        elif is_size(e):
            if isinstance(e, int) and e < 0:
                b.fail(f"{what} of the negative size {e}", "a size of at least 0")
            result.append(size(e))
        elif isinstance(e, Tile):
            if e.size is not None:
                b.use_scalars(e.size)
                result.append(e.size)
            else:
                b.fail(
                    f"{what} with a size that is known only from data ({b.show_tile(e)}): shapes cannot depend on data",
                    "a loop over `tw.range(n)`, whose tiles have the shape [axis]",
                )
        else:
            b.fail(f"{what} with the size {describe(e)}", "axes, ints and sizes: (i, 4)")
    return tuple(result)


@builtin
def full(shape: Any, value: Any, dtype: Any) -> Any:
    """A tile of one value. `shape`: a tuple of axes, ints and sizes."""
    b = active("full")
    dtype = _dtype(b, dtype, "tw.full")
    dims = _shape(b, shape, "tw.full")
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
        b.fail(f"tw.full of {b.show_tile(filled)}", "a number, or tw.broadcast_to(x, shape)")
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
    dtype = _dtype(b, dtype, "tw.iota")
    if dtype not in (i64, i32):
        b.fail(f"tw.iota of {dtype.name}", f"tw.iota(n).to(tw.{dtype.name})")
    shape = _shape(b, n, "tw.iota")
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
    x, dims = b.value(x), _shape(b, shape, "tw.broadcast_to")
    skipped = len(dims) - len(x.shape)
    if skipped < 0 or builtins.any(s != 1 and s != dims[d + skipped] for d, s in enumerate(x.shape)):
        b.fail(
            f"a tile {b.show_shape(x.shape)} does not broadcast to {b.show_shape(dims)}",
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
    known = _shape(b, tuple(e for d, e in enumerate(entries) if d not in unknown), "tw.reshape")
    if unknown:
        rest = sizes.divide_exactly(total, sizes.product(known)) if len(unknown) == 1 else None
        if rest is None:
            b.fail(
                f"tw.reshape of {b.show_shape(x.shape)} cannot find the size for -1",
                "one -1, and sizes whose product divides the number of elements",
            )
        dims = list(known)
        dims.insert(unknown[0], rest)
        known = tuple(dims)
    if sizes.product(known) != total:
        b.fail(
            f"tw.reshape of {b.show_shape(x.shape)} to {b.show_shape(known)}: {b.show(total)} and {b.show(sizes.product(known))} elements",
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
    dims = [_axis(b, x, d, "tw.permute") for d in order]
    if sorted(dims) != list(range_(len(x.shape))):
        b.fail(f"tw.permute by {tuple(order)} of a tile {b.show_shape(x.shape)}", "every dimension once")
    entries = [(0, [(dims.index(d), 1)]) for d in range_(len(dims))]
    return b.view(x, tuple(x.shape[d] for d in dims), entries)


@method
def transpose(x: Any, first: int = -2, second: int = -1) -> Any:
    """Two dimensions exchanged, the last two by default; `x.T` of a matrix."""
    b = active("transpose")
    x = b.value(x)
    p, q = (_axis(b, x, d, "tw.transpose") for d in (first, second))
    dims = list(range_(len(x.shape)))
    dims[p], dims[q] = dims[q], dims[p]
    return permute(x, *dims)


@method
def squeeze(x: Any, axis: Any) -> Any:
    """Without dimensions of size 1, which `axis` (an int or a tuple) names."""
    b = active("squeeze")
    x = b.value(x)
    axes = _axes(b, x, axis, "tw.squeeze")
    for a in axes:
        if x.shape[a] != 1:
            b.fail(
                f"tw.squeeze of dimension {a} of {b.show_shape(x.shape)}, whose size is {b.show(x.shape[a])}",
                "a dimension of size 1",
            )
    kept = [d for d in range_(len(x.shape)) if d not in axes]
    entries = [(0, [(kept.index(d), 1)] if d in kept else []) for d in range_(len(x.shape))]
    return b.view(x, tuple(x.shape[d] for d in kept), entries)


@method
def expand_dims(x: Any, axis: int) -> Any:
    """With a new dimension of size 1 before dimension `axis` (as `x[:, None]`)."""
    b = active("expand_dims")
    x = b.value(x)
    rank = len(x.shape) + 1
    if not isinstance(axis, int) or not -rank <= axis < rank:
        b.fail(f"tw.expand_dims at {describe(axis)} of {b.show_shape(x.shape)}", f"an axis in {-rank} .. {rank - 1}")
    at = axis % rank
    entries = [(0, [(d + (d >= at), 1)]) for d in range_(rank - 1)]
    return b.view(x, (*x.shape[:at], ONE, *x.shape[at:]), entries)


@method
def flip(x: Any, axis: Any = None) -> Any:
    """In reverse order along an axis, several, or all."""
    b = active("flip")
    x = b.value(x)
    axes = _axes(b, x, axis, "tw.flip")
    return b.view(x, x.shape, [(s - 1, [(d, -1)]) if d in axes else (0, [(d, 1)]) for d, s in enumerate(x.shape)])


@builtin
def concat(tiles: Sequence[Any], axis: int = 0) -> Any:
    """Tiles one after another along an axis; other dimensions equal, dtypes as they meet."""
    b = active("concat")
    if not isinstance(tiles, (tuple, list)) or not tiles:
        b.fail("tw.concat takes a tuple of tiles", "tw.concat((x, y), axis=0)")
    values = [b.value(t) for t in tiles]
    dtype = arithmetic.common_dtype(b, values, "tw.concat")
    along = _axis(b, values[0], axis, "tw.concat")
    total = size(0)
    for t in values:
        for d, s in enumerate(values[0].shape):
            if len(t.shape) != len(values[0].shape) or (d != along and t.shape[d] != s):
                b.fail(
                    f"tw.concat along axis {along} of {b.show_tile(values[0])} and {b.show_tile(t)}: the other dimensions must be equal",
                    "tiles that differ only along that axis",
                )
        total = total + t.shape[along]
    shape = tuple(total if d == along else s for d, s in enumerate(values[0].shape))
    return b.emit("concat", [b.cast(t, dtype) for t in values], dtype, shape, axis=along)


@builtin
def stack(tiles: Sequence[Any], axis: int = 0) -> Any:
    """Tiles of one shape along a new dimension."""
    return concat(tuple(expand_dims(t, axis) for t in tiles), axis)


@builtin
def slice(x: Any, start: Any, size_: Any, axis: int = 0) -> Any:
    """`size_` elements of a tile from `start` along an axis."""
    b = active("slice")
    x = b.value(x)
    along = _axis(b, x, axis, "tw.slice")
    length = _shape(b, size_, "tw.slice")[0]
    begin = b.to_size(start, "the start of tw.slice", end=x.shape[along] - length)
    for low, high in ((size(0), begin), (begin + length, x.shape[along])):
        b.require(
            low,
            high,
            f"tw.slice reads {b.show(begin)} .. {b.show(begin + length)} of a dimension of {b.show(x.shape[along])}",
            f"line {b.place()[0]}: tw.slice leaves its tile: {{lhs}} is above {{rhs}}",
            "a range inside of the tile",
        )
    shape = tuple(length if d == along else s for d, s in enumerate(x.shape))
    return b.view(x, shape, [(begin if d == along else 0, [(d, 1)]) for d in range_(len(shape))])


# -- random numbers ----------------------------------------------------------------------------------------------------


@builtin
def philox(seed: Any, c0: Any, c1: Any = 0, c2: Any = 0, c3: Any = 0) -> Any:
    """Four u32 tiles: Philox4x32-10 of the counter (c0, c1, c2, c3) under the key (low, high 32 bits of seed).

    Ten rounds, each: with p = 0xD2511F53 * c0 and q = 0xCD9E8D57 * c2 (64-bit products),
    (c0, c1, c2, c3) = (high(q) ^ c1 ^ k0, low(q), high(p) ^ c3 ^ k1, low(p)); then k0 += 0x9E3779B9, k1 += 0xBB67AE85, all modulo 2**32.
    """
    b = active("philox")
    return tuple(b.cast(w, u32) for w in _philox(b, seed, (c0, c1, c2, c3)))


@builtin
def random_bits(seed: Any, offset: Any) -> Any:
    """A u32 tile: the first word of tw.philox(seed, low 32 bits of offset, high 32 bits of offset). `offset`: an integer tile."""
    b = active("random_bits")
    return b.cast(_first_word(b, seed, offset, "random_bits"), u32)


@builtin
def uniform(seed: Any, offset: Any) -> Any:
    """An f32 tile in [0, 1): the upper 24 bits of tw.random_bits(seed, offset), times 2**-24."""
    b = active("uniform")
    bits = arithmetic.binary(b, ">>", _first_word(b, seed, offset, "uniform"), 8)
    return arithmetic.binary(b, "*", b.cast(b.cast(bits, i32), f32), 2.0**-24)


def _first_word(b: Builder, seed: Any, offset: Any, name: str) -> Tile:
    offset = b.value(offset)
    if not offset.dtype.is_integer:
        b.fail(f"tw.{name} with an offset of {offset.dtype.name}", "an integer tile, such as tw.indices(i)")
    wide = b.cast(offset, i64)
    return _philox(b, seed, (wide, arithmetic.binary(b, ">>", wide, 32), 0, 0))[0]


def _philox(b: Builder, seed: Any, counter: Sequence[Any]) -> list[Tile]:
    # 64-bit words that hold 32 bits: products wrap modulo 2**64, and `&` makes the arithmetic shift a logical one.
    mask = 0xFFFFFFFF

    def word(x: Any) -> Any:
        if is_number(x):
            return int(x) & mask
        x = b.value(x)
        if not x.dtype.is_integer:
            b.fail(f"tw.philox of {x.dtype.name}", "integers")
        return arithmetic.binary(b, "&", b.cast(x, i64), mask)

    def high(p: Any) -> Any:
        return arithmetic.binary(b, "&", arithmetic.binary(b, ">>", p, 32), mask)

    def low(p: Any) -> Any:
        return arithmetic.binary(b, "&", p, mask)

    def times(constant: int, x: Any) -> Any:
        # A signed constant: 64-bit products wrap, and Python's own do not.
        product = arithmetic.binary(b, "*", x, constant)
        return product & (2**64 - 1) if isinstance(product, int) else product

    def xor(x: Any, y: Any) -> Any:
        return arithmetic.binary(b, "^", x, y)

    seed = b.value(seed) if not is_number(seed) else seed
    wide_seed = seed if is_number(seed) else b.cast(seed, i64)
    k0, k1 = word(wide_seed), word(arithmetic.binary(b, ">>", wide_seed, 32))
    c = [word(x) for x in counter]
    for _ in range_(10):
        p, q = times(0xD2511F53, c[0]), times(0xCD9E8D57, c[2])
        c = [xor(xor(high(q), c[1]), k0), low(q), xor(xor(high(p), c[3]), k1), low(p)]
        k0, k1 = low(arithmetic.binary(b, "+", k0, 0x9E3779B9)), low(arithmetic.binary(b, "+", k1, 0xBB67AE85))
    return [b.value(x) for x in c]


# -- checks and printing -----------------------------------------------------------------------------------------------


@builtin
def assert_(condition: Any, message: str = "an assertion does not hold") -> None:
    """An error of data where the bool (or an element of the bool tile) is false."""
    b = active("assert_")
    if not isinstance(message, str):
        b.fail(f"the message of tw.assert_ is {describe(message)}", 'tw.assert_(condition, "what is wrong")')
    if condition is True:
        return
    condition = b.value(condition)
    if not condition.dtype.is_bool:
        b.fail(f"tw.assert_ of {b.show_tile(condition)}: it takes bool", "a comparison")
    if condition.shape:
        condition = _reduce("all", condition, None, False)
    b.append({"op": "assert", "args": [condition.id], "message": message, "loc": b.place()})


@builtin
def static_assert(condition: Any, message: str = "a static assertion does not hold") -> None:
    """Refuses the kernel if a compile-time condition is false. (A condition on sizes is checked when sizes are known, and relied on.)"""
    b = active("static_assert")
    if condition is True:
        return
    if condition is False:
        b.fail(message, "what the message asks for")
    b.fail(
        f"tw.static_assert of {b.show_tile(condition) if isinstance(condition, Tile) else describe(condition)}, which is known only at run time",
        "tw.assert_(condition, message)",
    )


@builtin
def print(text: str, *values: Any) -> None:
    """Prints the text and the values, when the interpreter runs the kernel (kernel.check, kernel.verify)."""
    b = active("print")
    if not isinstance(text, str):
        b.fail(f"the first argument of tw.print is {describe(text)}", 'tw.print("x =", x)')
    tiles = [b.value(v) for v in values]
    b.append({"op": "print", "args": [t.id for t in tiles], "text": text, "loc": b.place()})
