"""Builds kernel programs (docs/kernel-programs.md) by hand, for tests: each statement stands at the line that asked for it.

b = Builder("softmax", "M", "N")
X, Y = b.tensor("X", "f32", ["s0", "s1"]), b.tensor("Y", "f32", ["s0", "s1"], kind="out")
with b.parallel(("i", "s0")) as (i,):
    x = b.load(X, [i, ALL])
    e = b.exp(b.sub(x, b.reduce("max", x, 1, keep=True)))
    b.store(Y, [i, ALL], b.div(e, b.reduce("sum", e, 1, keep=True)))
program = b.program
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

ALL = None  # an index: the whole dimension
FLOATS = ("f32", "f64", "bf16", "f16")


@dataclass(frozen=True)
class Value:
    id: int
    dtype: str
    shape: tuple[str, ...]


@dataclass(frozen=True)
class Axis:
    """An axis of the grid or of a loop; `start` and `size` are the texts of its symbols (`size` of a scalar axis: "1")."""

    name: str
    start: str
    size: str
    scalar: bool

    def shifted(self, by: str | int, step: int = 1) -> Shifted:
        return Shifted(self, str(by), step)


@dataclass(frozen=True)
class Shifted:
    """An index: the axis's tile moved by `by`."""

    axis: Axis
    by: str
    step: int = 1


@dataclass(frozen=True)
class Part:
    """An index: `size` elements from `start`."""

    start: str
    size: str
    step: int = 1


@dataclass
class Param:
    number: int
    dtype: str
    sizes: tuple[str, ...]


@dataclass
class Loop:
    axis: Axis | None
    args: list[Value]
    entries: list[dict[str, Any]]
    results: list[Value]

    def next(self, *values: Value) -> None:
        for entry, value in zip(self.entries, values, strict=True):
            entry["next"] = value.id


@dataclass
class Branch:
    statement: dict[str, Any]
    results: list[Value]


Operand = Value | int | float | bool


class Builder:
    def __init__(self, name: str, *symbols: str) -> None:
        self.program: dict[str, Any] = {
            "version": 1, "name": name, "file": sys._getframe(1).f_code.co_filename,
            "symbols": list(symbols), "params": [], "relations": [], "body": [],
        }  # fmt: skip
        self._bodies: list[list[dict[str, Any]]] = [self.program["body"]]
        self._next_symbol, self._next_id = len(symbols), 0

    # -- signature

    def tensor(
        self, name: str, dtype: str, sizes: Sequence[str | int], kind: str = "in", layout: str = "strided"
    ) -> Param:
        texts = tuple(str(s) for s in sizes)
        self.program["params"].append(
            {"name": name, "kind": kind, "dtype": dtype, "sizes": list(texts), "layout": layout, "loc": self._loc()}
        )
        return Param(len(self.program["params"]) - 1, dtype, texts)

    def scalar(self, name: str, dtype: str, symbol: int | None = None) -> Value:
        param = {"name": name, "kind": "scalar", "dtype": dtype, "loc": self._loc()}
        if symbol is not None:
            param["symbol"] = symbol
        self.program["params"].append(param)
        return self._value("scalar", dtype, (), param=len(self.program["params"]) - 1)

    def relation(self, op: str, lhs: str, rhs: str, message: str) -> None:
        self.program["relations"].append({"op": op, "lhs": lhs, "rhs": rhs, "message": message})

    # -- statements

    def _loc(self) -> list[int]:
        frame = sys._getframe(1)
        while frame.f_code.co_filename in (__file__, "<string>") or frame.f_code.co_filename.endswith("contextlib.py"):
            assert frame.f_back
            frame = frame.f_back
        return [frame.f_lineno, 4]

    def _emit(self, statement: dict[str, Any]) -> dict[str, Any]:
        statement["loc"] = self._loc()
        self._bodies[-1].append(statement)
        return statement

    def fresh(self, dtype: str, shape: Sequence[str]) -> Value:
        self._next_id += 1
        return Value(self._next_id - 1, dtype, tuple(shape))

    def _value(self, op: str, dtype: str, shape: Sequence[str], **fields: Any) -> Value:
        value = self.fresh(dtype, shape)
        self._emit({"op": op, "id": value.id, "dtype": dtype, "shape": list(shape), **fields})
        return value

    def symbol(self) -> int:
        self._next_symbol += 1
        return self._next_symbol - 1

    def _axis(self, name: str, begin: str, end: str, tile: Any) -> tuple[dict[str, Any], Axis]:
        start = self.symbol()
        entry = {"name": name, "start": start, "begin": str(begin), "end": str(end), "tile": tile}
        if tile == "scalar":
            return entry, Axis(name, f"s{start}", "1", True)
        entry["size"] = self.symbol()
        return entry, Axis(name, f"s{start}", f"s{entry['size']}", False)

    @contextmanager
    def parallel(self, *axes: tuple) -> Iterator[tuple[Axis, ...]]:
        """Axes are (name, end), (name, end, tile) or (name, begin, end, tile)."""
        made = []
        for axis in axes:
            name, begin, end, tile = (
                axis if len(axis) == 4 else (axis[0], "0", axis[1], axis[2] if len(axis) > 2 else None)
            )
            made.append(self._axis(name, begin, end, tile))
        body: list[dict[str, Any]] = []
        self._emit({"op": "parallel", "axes": [entry for entry, _ in made], "body": body})
        with self._inside(body):
            yield tuple(axis for _, axis in made)

    @contextmanager
    def _inside(self, body: list[dict[str, Any]]) -> Iterator[None]:
        self._bodies.append(body)
        yield
        self._bodies.pop()

    def _carried(self, inits: Sequence[Value]) -> tuple[list[dict[str, Any]], list[Value], list[Value]]:
        args = [self.fresh(v.dtype, v.shape) for v in inits]
        results = [self.fresh(v.dtype, v.shape) for v in inits]
        entries = [
            {"init": v.id, "arg": a.id, "next": None, "result": r.id}
            for v, a, r in zip(inits, args, results, strict=True)
        ]
        return entries, args, results

    @contextmanager
    def loop(self, name: str, begin: str, end: str, tile: Any = None, carry: Sequence[Value] = ()) -> Iterator[Loop]:
        """`loop.axis`, `loop.args`; call `loop.next(...)` inside and read `loop.results` after it."""
        entry, axis = self._axis(name, begin, end, tile)
        entries, args, results = self._carried(carry)
        body: list[dict[str, Any]] = []
        self._emit({"op": "for", "axis": entry, "carried": entries, "body": body})
        with self._inside(body):
            yield Loop(axis, args, entries, results)

    @contextmanager
    def while_(self, carry: Sequence[Value]) -> Iterator[Loop]:
        """Statements before `condition(loop, value)` are the condition's, those after it the body's."""
        entries, args, results = self._carried(carry)
        statement = self._emit({"op": "while", "carried": entries, "condition": [], "cond": None, "body": []})
        self._while = statement
        with self._inside(statement["condition"]):
            yield Loop(None, args, entries, results)

    def condition(self, value: Value) -> None:
        self._while["cond"] = value.id
        self._bodies[-1] = self._while["body"]

    @contextmanager
    def if_(self, cond: Value) -> Iterator[dict[str, Any]]:
        """Statements before `else_(statement)` are the then-branch's, those after it the else-branch's."""
        statement = self._emit({"op": "if", "cond": cond.id, "then": [], "else": [], "results": []})
        with self._inside(statement["then"]):
            yield statement

    def else_(self, statement: dict[str, Any]) -> None:
        self._bodies[-1] = statement["else"]

    def choose(self, statement: dict[str, Any], then: Value, otherwise: Value) -> Value:
        result = self.fresh(then.dtype, then.shape)
        statement["results"].append({"then": then.id, "else": otherwise.id, "result": result.id})
        return result

    # -- memory

    def index(self, sizes: Sequence[str], index: Sequence[Any]) -> tuple[list[dict[str, Any]], list[str]]:
        """Index entries and the shape they give. An index is ALL, an Axis, a Shifted axis, a Part, a position (int or text), or a Value
        (whose dimensions come next in the shape)."""
        entries: list[dict[str, Any]] = []
        shape: list[str] = []

        def runs(start: str, size: str, step: int = 1) -> None:
            entries.append({"start": start, "terms": [[len(shape), str(step)]]})
            shape.append(size)

        for size, i in zip(sizes, index, strict=True):
            if i is ALL:
                runs("0", size)
            elif isinstance(i, Part):
                runs(i.start, i.size, i.step)
            elif isinstance(i, (Axis, Shifted)):
                axis, by, step = (i, "0", 1) if isinstance(i, Axis) else (i.axis, i.by, i.step)
                start = axis.start if step == 1 else f"{step}*{axis.start}"
                start = start if by == "0" else f"{start} + {by}" if not by.startswith("-") else f"{start} - {by[1:]}"
                if axis.scalar:
                    entries.append({"start": start, "terms": []})
                else:
                    runs(start, axis.size, step)
            elif isinstance(i, Value):
                entries.append({"value": i.id, "dims": list(range(len(shape), len(shape) + len(i.shape)))})
                shape.extend(i.shape)
            else:
                entries.append({"start": str(i), "terms": []})
        return entries, shape

    def load(self, param: Param, index: Sequence[Any], fill: float | None = None) -> Value:
        entries, shape = self.index(param.sizes, index)
        fields = {} if fill is None else {"fill": fill}
        return self._value("load", param.dtype, shape, param=param.number, index=entries, **fields)

    def store(self, param: Param, index: Sequence[Any], value: Operand, clip: bool = False, op: str = "store") -> None:
        entries, shape = self.index(param.sizes, index)
        value = self.broadcast(self.lift(value, param.dtype), shape)
        self._emit(
            {"op": op, "param": param.number, "index": entries, "value": value.id, **({"clip": True} if clip else {})}
        )

    def atomic_add(self, param: Param, index: Sequence[Any], value: Operand, clip: bool = False) -> None:
        self.store(param, index, value, clip, op="atomic_add")

    # -- values

    def const(self, value: float | bool, dtype: str = "f32") -> Value:
        text = {float("inf"): "inf", -float("inf"): "-inf"}.get(value, "nan" if value != value else value)
        return self._value("const", dtype, (), value=text)

    def full(self, shape: Sequence[str], value: float, dtype: str = "f32") -> Value:
        return self.broadcast(self.const(value, dtype), shape)

    def size(self, text: str) -> Value:
        return self._value("size", "i64", (), size=str(text))

    def iota(self, shape: Sequence[str], axis: int, dtype: str = "i64") -> Value:
        return self._value("iota", dtype, shape, axis=axis)

    def lift(self, x: Operand, dtype: str) -> Value:
        return x if isinstance(x, Value) else self.const(x, dtype)

    def view(
        self, x: Value, shape: Sequence[str], map: Sequence[tuple[str | int, list[tuple[int, int | str]]]]
    ) -> Value:
        entries = [{"start": str(start), "terms": [[d, str(step)] for d, step in terms]} for start, terms in map]
        return self._value("view", x.dtype, shape, args=[x.id], map=entries)

    def broadcast(self, x: Value, shape: Sequence[str]) -> Value:
        """As NumPy broadcasts: dimensions of text "1" and missing leading ones."""
        if x.shape == tuple(shape):
            return x
        lead = len(shape) - len(x.shape)
        map = [("0", [] if n == "1" and shape[lead + d] != "1" else [(lead + d, 1)]) for d, n in enumerate(x.shape)]
        return self.view(x, shape, map)

    def transpose(self, x: Value, *order: int) -> Value:
        return self.view(x, [x.shape[d] for d in order], [("0", [(order.index(d), 1)]) for d in range(len(order))])

    def expand(self, x: Value, axis: int) -> Value:
        """A new dimension of size 1 at `axis`."""
        shape = [*x.shape[:axis], "1", *x.shape[axis:]]
        return self.view(x, shape, [("0", [(d + (d >= axis), 1)]) for d in range(len(x.shape))])

    def op(self, name: str, *args: Operand, dtype: str | None = None) -> Value:
        kinds = [a.dtype for k, a in enumerate(args) if isinstance(a, Value) and (name != "select" or k > 0)]
        common = kinds[0] if kinds else "f32"
        values = [self.lift(a, "bool" if name == "select" and k == 0 else common) for k, a in enumerate(args)]
        shape: list[str] = []
        for v in values:
            own = ["1"] * (max(len(shape), len(v.shape)) - len(v.shape)) + list(v.shape)
            shape = ["1"] * (len(own) - len(shape)) + shape
            shape = [a if b == "1" else b for a, b in zip(shape, own, strict=True)]
        values = [self.broadcast(v, shape) for v in values]
        result = dtype or ("bool" if name in ("eq", "ne", "lt", "le") else common)
        return self._value(name, result, shape, args=[v.id for v in values])

    def __getattr__(self, name: str) -> Any:
        from tilewright.language.semantics import ARITY

        name = name.rstrip("_")
        if name not in ARITY:
            raise AttributeError(name)
        return lambda *args, **fields: self.op(name, *args, **fields)

    def cast(self, x: Value, dtype: str) -> Value:
        return x if x.dtype == dtype else self._value("cast", dtype, x.shape, args=[x.id])

    def bitcast(self, x: Value, dtype: str) -> Value:
        return self._value("bitcast", dtype, x.shape, args=[x.id])

    def reduce(
        self, kind: str, x: Value, axes: int | Sequence[int], keep: bool = False, dtype: str | None = None
    ) -> Value:
        axes = [axes] if isinstance(axes, int) else list(axes)
        shape = [n for d, n in enumerate(x.shape) if d not in axes]
        dtype = dtype or ("i64" if kind in ("argmax", "argmin") else "bool" if kind in ("any", "all") else x.dtype)
        result = self._value("reduce", dtype, shape, kind=kind, args=[x.id], axes=axes)
        if keep:
            for axis in sorted(axes):
                result = self.expand(result, axis)
        return result

    def matmul(self, a: Value, b: Value, dtype: str | None = None) -> Value:
        return self._value("matmul", dtype or a.dtype, [*a.shape[:-1], b.shape[-1]], args=[a.id, b.id])

    def reshape(self, x: Value, shape: Sequence[str]) -> Value:
        return self._value("reshape", x.dtype, shape, args=[x.id])

    def concat(self, axis: int, *args: Value) -> Value:
        shape = list(args[0].shape)
        shape[axis] = " + ".join(f"({a.shape[axis]})" for a in args)
        return self._value("concat", args[0].dtype, shape, axis=axis, args=[a.id for a in args])

    def scan(self, kind: str, x: Value, axis: int) -> Value:
        return self._value("scan", x.dtype, x.shape, kind=kind, args=[x.id], axis=axis)

    def sort(self, x: Value, axis: int, descending: bool = False) -> tuple[Value, Value]:
        values, indices = self.fresh(x.dtype, x.shape), self.fresh("i64", x.shape)
        self._emit(
            {"op": "sort", "ids": [values.id, indices.id], "args": [x.id], "axis": axis, "descending": descending,
             "dtype": x.dtype, "shape": list(x.shape)}
        )  # fmt: skip
        return values, indices

    def bind(self, value: Value, minimum: str | None = None, maximum: str | None = None) -> str:
        """The text of the new symbol."""
        symbol = self.symbol()
        limits = {k: str(v) for k, v in (("min", minimum), ("max", maximum)) if v is not None}
        self._emit({"op": "bind", "symbol": symbol, "value": value.id, **limits})
        return f"s{symbol}"

    def assert_(self, cond: Value, message: str) -> None:
        self._emit({"op": "assert", "args": [cond.id], "message": message})

    def print_(self, text: str, *args: Value) -> None:
        self._emit({"op": "print", "text": text, "args": [a.id for a in args]})
