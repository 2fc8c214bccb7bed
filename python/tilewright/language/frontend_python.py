"""Python's own functions in kernels: `min`, `range`, `len` and the like, of what is there at compile time and, where it makes sense, of run-time
numbers."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import arithmetic, loops, ops_elementwise
from .arithmetic import is_compile_time
from .builder import Tile, describe, show_tile
from .indexing import Slice
from .sizes import Size

if TYPE_CHECKING:
    from .frontend_expressions import Expressions


def _extremum(name: str) -> Callable[[Expressions, list[Any], dict[str, Any]], Any]:
    def run(e: Expressions, args: list[Any], keywords: dict[str, Any]) -> Any:
        values = list(args[0]) if len(args) == 1 and isinstance(args[0], tuple) else args
        if keywords or (len(values) == 1 and isinstance(values[0], Tile)) or not values:
            e.fail(f"{name} with these arguments", f"tw.{name}(x, axis=..) along a dimension, {name}(a, b) of numbers")
        if all(is_compile_time(v) for v in values):
            return getattr(builtins, name)(values)
        for v in values:
            if isinstance(v, Tile) and v.shape:
                e.fail(
                    f"{name} of {show_tile(v)}",
                    f"tw.{name}imum(x, y) for elements, tw.{name}(x, axis=..) along a dimension",
                )
        result = values[0]
        for v in values[1:]:
            result = (ops_elementwise.maximum if name == "max" else ops_elementwise.minimum)(result, v)
        return result

    return run


def _number(kind: type) -> Callable[[Expressions, list[Any], dict[str, Any]], Any]:
    def run(e: Expressions, args: list[Any], keywords: dict[str, Any]) -> Any:
        if len(args) != 1 or keywords:
            e.fail(f"{kind.__name__} with {len(args)} arguments", f"{kind.__name__}(x)")
        (x,) = args
        if isinstance(x, Size):
            if kind is int:
                return x
            e.fail(
                f"{kind.__name__} of the size {describe(x)}",
                "the size itself, which acts like a Python number, or tw.cast(n, tw.f32)",
            )
        if not is_compile_time(x):
            e.fail(f"{kind.__name__} of {describe(x)}", "x.to(dtype)")
        try:
            return kind(x)
        except (TypeError, ValueError, OverflowError) as error:
            e.fail(f"{kind.__name__}: {error}", "a number")

    return run


def _constant_only(function: Callable[..., Any]) -> Callable[[Expressions, list[Any], dict[str, Any]], Any]:
    def run(e: Expressions, args: list[Any], keywords: dict[str, Any]) -> Any:
        if not all(is_compile_time(a) for a in args):
            shown = next(describe(a) for a in args if not is_compile_time(a))
            name = function.__name__
            e.fail(f"{name} of {shown}", f"tw.{name}" if name in e.public else "compile-time values")
        try:
            result = function(*args, **keywords)
        except (TypeError, ValueError, ArithmeticError) as error:
            e.fail(f"{function.__name__}: {error}", "arguments that it takes")
        return tuple(result) if isinstance(result, (list, enumerate, zip, reversed)) else result

    return run


def _items_only(function: Callable[..., Any]) -> Callable[[Expressions, list[Any], dict[str, Any]], Any]:
    """Functions of tuples, whose items may be anything."""

    def run(e: Expressions, args: list[Any], keywords: dict[str, Any]) -> Any:
        items = [tuple(e.compile_time_items(a, e.b.node)) if isinstance(a, (loops.Range, range)) else a for a in args]  # type: ignore[arg-type]
        if not items or not isinstance(items[0], (tuple, str)):
            shown = describe(items[0]) if items else "nothing"
            hint = (
                "x.shape[0]"
                if function is len
                else f"tw.{function.__name__}"
                if function.__name__ in e.public
                else "a tuple"
            )
            e.fail(f"{function.__name__} of {shown}", hint)
        try:
            result = function(*items, **keywords)
        except (TypeError, ValueError) as error:
            e.fail(f"{function.__name__}: {error}", "tuples")
        return result if isinstance(result, int) else tuple(result)

    return run


def _sum(e: Expressions, args: list[Any], keywords: dict[str, Any]) -> Any:
    if not args or not isinstance(args[0], tuple) or keywords:
        e.fail(f"sum of {describe(args[0]) if args else 'nothing'}", "tw.sum(x, axis=..), or sum of a tuple")
    total = args[1] if len(args) > 1 else 0
    for k, item in enumerate(args[0]):
        total = item if k == 0 and len(args) == 1 else arithmetic.binary(e.b, "+", total, item)
    return total


def _isinstance(e: Expressions, args: list[Any], keywords: dict[str, Any]) -> Any:
    if len(args) != 2 or not is_compile_time(args[0]):
        e.fail("isinstance of a run-time value", "x.dtype == tw.f32")
    return isinstance(args[0], args[1])


def _slice(e: Expressions, args: list[Any], keywords: dict[str, Any]) -> Any:
    if not 1 <= len(args) <= 3 or keywords:
        e.fail(f"slice with {len(args)} arguments", "slice(None) for all, slice(end) or slice(begin, end)")
    begin, end, step = (None, args[0], None) if len(args) == 1 else (*args, None)[:3]
    return Slice(begin, end, step)


def _range(e: Expressions, args: list[Any], keywords: dict[str, Any]) -> Any:
    return loops.python_range(e.b, *args)


def _print(e: Expressions, args: list[Any], keywords: dict[str, Any]) -> Any:
    e.fail("print in a kernel", 'tw.print("text", x)')


PYTHON: dict[Any, Callable[[Expressions, list[Any], dict[str, Any]], Any]] = {
    builtins.min: _extremum("min"),
    builtins.max: _extremum("max"),
    builtins.abs: lambda e, args, keywords: ops_elementwise.abs(*args),
    builtins.range: _range,
    builtins.slice: _slice,
    builtins.print: _print,
    builtins.sum: _sum,
    builtins.isinstance: _isinstance,
    int: _number(int),
    float: _number(float),
    bool: _number(bool),
    **{f: _constant_only(f) for f in (builtins.round, builtins.divmod, builtins.pow, str)},
    **{
        f: _items_only(f)
        for f in (builtins.len, tuple, list, enumerate, zip, reversed, sorted, builtins.all, builtins.any)
    },
}
