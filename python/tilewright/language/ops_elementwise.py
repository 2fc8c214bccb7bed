"""Elementwise functions and conversions.

These functions have a meaning only inside `@tw.kernel` functions and their helpers. Unless said otherwise, x is a tile or a run-time number,
shapes broadcast as NumPy's do, dtypes meet as promotion.py says, and what does not fit is refused with KernelError.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

from . import arithmetic, sizes
from .arguments import dtype_argument
from .arithmetic import elementwise, is_number, is_size, meet, plain
from .builder import Builder, Tile, active, describe, show_tile
from .registry import builtin, method
from .sizes import Size, size
from .types import bool_, f32


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
            b.fail(f"tw.{name} of {x.dtype.name} ({show_tile(x)}): it takes floats", f"tw.{name}(x.to(tw.f32))")
        return elementwise(b, name, (x,), f"tw.{name}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{meaning} Floats of any dtype; the result has the dtype and shape of x."
    return method(function)


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
    return method(function)


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


@method
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


@method
def pow(x: Any, y: Any) -> Any:
    """x to the power y; the same as `x ** y`. Floats; integers with compile-time exponents of 0 .. 64."""
    return arithmetic.binary(active("pow"), "**", x, y)


@method
def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y) in radians. Floats."""
    return _floats("atan2", y, x)


@method
def fmod(x: Any, y: Any) -> Any:
    """C's remainder: it has the sign of x. Floats and integers."""
    b = active("fmod")
    _refuse_bool(b, "fmod", (x, y), "x & ~y")
    return elementwise(b, "fmod", (x, y), "tw.fmod")


@method
def copysign(x: Any, y: Any) -> Any:
    """x with the sign of y. Floats."""
    return _floats("copysign", x, y)


@method
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


@method
def maximum(x: Any, y: Any) -> Any:
    """The larger of two, NaN if one is NaN. Floats and integers."""
    return _choose("maximum", x, y)


@method
def minimum(x: Any, y: Any) -> Any:
    """The smaller of two, NaN if one is NaN. Floats and integers."""
    return _choose("minimum", x, y)


def _choose(name: str, x: Any, y: Any) -> Any:
    b = active(name)
    if is_number(x) and is_number(y):
        return builtins.max(x, y) if name == "maximum" else builtins.min(x, y)
    if is_size(x) and is_size(y):
        return plain(sizes.maximum(x, y) if name == "maximum" else sizes.minimum(x, y))
    _refuse_bool(b, name, (x, y), "x | y" if name == "maximum" else "x & y")
    tile = elementwise(b, name[:3], (x, y), f"tw.{name}")
    known = [t.size if isinstance(t, Tile) else size(t) if is_size(t) else None for t in (x, y)]
    if known[0] is not None and known[1] is not None:
        # Symbols are not negative for SizeExpr, so a scalar that may be negative must not be simplified away here.
        tile.size = sizes.maximum(*known) if name == "maximum" else sizes.minimum(*known)  # type: ignore[arg-type]
    return tile


def _refuse_bool(b: Builder, name: str, values: Sequence[Any], instead: str) -> None:
    for t in values:
        if isinstance(t, Tile) and t.dtype.is_bool:
            b.fail(f"tw.{name} of bool", instead)


@method
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
        b.fail(f"tw.where takes a bool tile, not {show_tile(condition)}", "a comparison, x != 0")
    if not any(isinstance(v, bool) or (isinstance(v, Tile) and not v.weak) for v in (x, y)) and condition.shape:
        b.fail("tw.where of two numbers has no dtype", "tw.full((), 1.0, tw.f32) for one of them")
    (x, y), compute, dtype, weak = meet(b, (x, y), "tw.where")
    shape = b.common_shape((condition, x, y), "tw.where")
    chosen = b.emit("select", [b.broadcast(t, shape) for t in (condition, x, y)], compute, shape, weak=weak)
    return b.cast(chosen, dtype, weak=weak)


@method
def isnan(x: Any) -> Any:
    """Whether x is NaN, as bool. Floats."""
    b = active("isnan")
    x = _float_tile(b, x, "isnan")
    return b.emit("ne", (x, x), bool_, x.shape)


@method
def isinf(x: Any) -> Any:
    """Whether x is an infinity, as bool. Floats."""
    b = active("isinf")
    x = _float_tile(b, x, "isinf")
    return arithmetic.compare(b, "==", abs(x), math.inf)


@method
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


# -- conversions --------------------------------------------------------------------------------


@method
def cast(x: Any, dtype: Any) -> Any:
    """x as another dtype: floats to integers truncate, anything to bool is `!= 0`, wider integers to narrower keep the low bits."""
    b = active("cast")
    return arithmetic.convert(b, x, dtype_argument(b, dtype, "tw.cast"))


@method
def to(x: Any, dtype: Any) -> Any:
    """`x.to(dtype)`: as cast."""
    b = active("cast")
    return arithmetic.convert(b, x, dtype_argument(b, dtype, ".to"))


@method
def bitcast(x: Any, dtype: Any) -> Any:
    """The bits of x as another dtype of the same width."""
    b = active("bitcast")
    dtype, x = dtype_argument(b, dtype, "tw.bitcast"), b.value(x)
    if x.weak:
        b.fail(f"tw.bitcast of {describe(x)}, which has no dtype of its own", "tw.bitcast(tw.cast(x, tw.f32), ...)")
    if x.dtype.bytes != dtype.bytes or x.dtype.is_bool or dtype.is_bool:
        b.fail(
            f"tw.bitcast of {x.dtype.name} to {dtype.name}: their widths differ", f"a dtype of {x.dtype.bytes * 8} bits"
        )
    return x if x.dtype == dtype else b.emit("bitcast", (x,), dtype, x.shape)
