"""PyTorch's symbolic integers (SymPy) as the text of our size expressions, and the table of symbols of a graph."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Max, Min, Mod, PythonMod

from .errors import UnsupportedError

_MAX_POWER = 8
_UNBOUNDED = 2**62  # PyTorch's "no bound" lies near the end of int64; sizes never come near half of it


class SizeWriter:
    """Numbers the symbols of one graph `s0, s1, ...` in the order in which they are met and writes expressions over them."""

    def __init__(self) -> None:
        self.symbols: list[dict[str, Any]] = []
        self._numbers: dict[sympy.Symbol, int] = {}
        self._texts: dict[sympy.Expr, str | int] = {}
        self._shape_env: Any = None

    def size(self, value: int | torch.SymInt) -> str | int:
        """A number, or the text of an expression. Raises UnsupportedError for what cannot be said."""
        if isinstance(value, torch.SymInt):
            node = value.node
            expr = node.expr
            if node.shape_env is not None:
                expr = node.shape_env.replace(expr)
                self._shape_env = node.shape_env
            if expr not in self._texts:
                self._texts[expr] = int(expr) if expr.is_Integer else self._write(expr)
            return self._texts[expr]
        return int(value)

    def symbol(self, value: torch.SymInt) -> str | None:
        """The bare symbol of a value, `None` if it is an expression or a number."""
        text = self.size(value)
        return text if isinstance(text, str) and text[1:].isdigit() else None

    def _symbol(self, symbol: sympy.Symbol) -> str:
        if symbol not in self._numbers:
            from torch.utils._sympy.symbol import SymT, symbol_is_type

            if not symbol_is_type(symbol, SymT.SIZE):
                raise UnsupportedError(
                    f"the size {symbol} is known only after running an operator (an unbacked symbol)",
                    hint="leave torch._dynamo.config.capture_scalar_outputs and capture_dynamic_output_shape_ops off, so that "
                    "Dynamo breaks the graph there, or give the size as an argument",
                )
            self._require_not_negative(symbol)
            self._numbers[symbol] = len(self.symbols)
            entry: dict[str, Any] = {"name": f"s{len(self.symbols)}"}
            bounds = self._shape_env.var_to_range.get(symbol)
            if bounds is not None:
                if isinstance(bounds.lower, sympy.Integer) and int(bounds.lower) > -_UNBOUNDED:
                    entry["min"] = int(bounds.lower)
                if isinstance(bounds.upper, sympy.Integer) and int(bounds.upper) < _UNBOUNDED:
                    entry["max"] = int(bounds.upper)
            hint = self._shape_env.backed_var_to_val.get(symbol)
            if hint is not None:  # roughly: the text is the key of the program cache, and models see many sizes
                entry["hint"] = 1 << max(int(hint) - 1, 0).bit_length()
            self.symbols.append(entry)
        return f"s{self._numbers[symbol]}"

    def _require_not_negative(self, symbol: sympy.Symbol) -> None:
        """Our symbols are sizes. An integer argument may be negative: then Dynamo gets a guard, and another graph for the other sign."""
        bounds = self._shape_env.var_to_range.get(symbol)
        if bounds is not None and isinstance(bounds.lower, sympy.Integer) and int(bounds.lower) >= 0:
            return
        if not self._shape_env.evaluate_expr(sympy.Ge(symbol, 0)):
            raise UnsupportedError(
                f"the symbolic integer {symbol} is negative",
                hint="give this argument as a tensor, or call torch.compile with dynamic=False",
            )

    def _write(self, e: sympy.Expr) -> str:
        if e.is_Integer:
            return str(int(e))
        if isinstance(e, sympy.Symbol):
            return self._symbol(e)
        if isinstance(e, sympy.Add):
            return "(" + " + ".join(self._write(a) for a in e.args) + ")"
        if isinstance(e, sympy.Mul) and all(a.is_integer for a in e.args):
            return "(" + "*".join(self._write(a) for a in e.args) + ")"
        if isinstance(e, sympy.Pow) and e.exp.is_Integer and 0 < int(e.exp) <= _MAX_POWER:
            return "(" + "*".join([self._write(e.base)] * int(e.exp)) + ")"
        if isinstance(e, (FloorDiv, CleanDiv)):
            return f"({self._write(e.args[0])} // {self._write(e.args[1])})"
        if isinstance(e, (Mod, PythonMod, sympy.Mod)):
            return f"({self._write(e.args[0])} % {self._write(e.args[1])})"
        if isinstance(e, (Max, Min, sympy.Max, sympy.Min)):
            name = "max" if isinstance(e, (Max, sympy.Max)) else "min"
            text = self._write(e.args[0])
            for a in e.args[1:]:
                text = f"{name}({text}, {self._write(a)})"
            return text
        raise UnsupportedError(
            f"a size is the expression {e}, of which {type(e).__name__} has no counterpart here",
            hint="compute this size with + - * // % min and max, or call torch.compile with dynamic=False",
        )
