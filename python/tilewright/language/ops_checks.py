"""Assertions and printing.

These functions have a meaning only inside `@tw.kernel` functions and their helpers. Unless said otherwise, x is a tile or a run-time number,
shapes broadcast as NumPy's do, dtypes meet as promotion.py says, and what does not fit is refused with KernelError.
"""

from __future__ import annotations

from typing import Any

from .builder import active, describe, show_tile
from .ops_reduce import reduce
from .registry import builtin


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
        b.fail(f"tw.assert_ of {show_tile(condition)}: it takes bool", "a comparison")
    if condition.shape:
        condition = reduce("all", condition, None, False)
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
        f"tw.static_assert of {describe(condition)}, which is known only at run time",
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
