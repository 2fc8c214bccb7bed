"""Size expressions (include/tilewright/Support/SizeExpr.h) evaluated from their text."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from types import CodeType
from typing import Any

_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Call, ast.Load,
    ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub,
)  # fmt: skip


@cache
def _compiled(text: str) -> CodeType:
    tree = ast.parse(text.strip(), mode="eval")
    for node in ast.walk(tree):
        name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
        if not isinstance(node, _ALLOWED) or (isinstance(node, ast.Call) and name not in ("min", "max")):
            raise ValueError(f"{text!r} is no size expression")
    return compile(tree, "<size>", "eval")


def evaluate(text: str | int, symbols: Mapping[str, Any], minimum: Any = min, maximum: Any = max) -> Any:
    """The value of an expression over `s0`, `s1`, ...: an integer, or whatever the symbols' values make of the operators.

    Raises ValueError if it is no expression, uses a symbol that has no value, or divides by zero.
    """
    if isinstance(text, int):
        return text
    try:
        return eval(_compiled(text), {"__builtins__": {}, "min": minimum, "max": maximum}, symbols)
    except NameError as error:
        raise ValueError(f"the size expression {text!r} uses {error.name}, which has no value there") from None
    except ZeroDivisionError:
        raise ValueError(f"the size expression {text!r} divides by zero") from None
    except SyntaxError:
        raise ValueError(f"{text!r} is no size expression") from None
