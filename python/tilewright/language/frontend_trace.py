"""The trace of a kernel: parameters and sizes declared, the body followed, the program put together (docs/kernel-programs.md)."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from . import builder, finish
from .builder import Builder, Param, Statement, SymbolNeededError
from .frontend import Frontend
from .frontend_analysis import analyse
from .frontend_names import Capture
from .parameters import Parameter, TensorSpec
from .sizes import Size
from .source import FunctionSource
from .types import DTYPES, DType, DTypeParameter, ScalarType, TensorType, i64

VERSION = 1


def run_trace(
    source: FunctionSource,
    name: str,
    parameters: tuple[Parameter, ...],
    specialisation: Sequence[tuple[str, Any]],
    public: Mapping[str, Any],
) -> tuple[dict[str, Any], tuple[Capture, ...]]:
    """The kernel program for one specialisation, and the values it has taken from around the function."""
    needed: list[str] = []
    while True:
        try:
            return _trace_once(source, name, parameters, dict(specialisation), dict(public), needed)
        except SymbolNeededError as need:
            needed.append(need.name)


def _trace_once(
    source: FunctionSource,
    name: str,
    parameters: tuple[Parameter, ...],
    spec: dict[str, Any],
    public: dict[str, Any],
    scalar_symbols: list[str],
) -> tuple[dict[str, Any], tuple[Capture, ...]]:
    b = Builder(name, source)
    nodes = {a.arg: a for a in ast.walk(source.tree.args) if isinstance(a, ast.arg)}
    dtypes: dict[str, DType] = {}
    for p in parameters:
        if isinstance(p.type, TensorType) and isinstance(p.type.dtype, DTypeParameter):
            dtypes[p.type.dtype.name] = _dtype_of(p.type.dtype, spec[p.name])
    frontend = Frontend(b, dtypes, public)
    returns = analyse(source).returns
    if returns is not None:
        raise source.error(
            "return cannot be used in a kernel", returns, "a store to an Out, and `continue` or `if` to skip work"
        )
    # Sizes: the symbols in the order in which parameters name them, then the integer scalars that serve as sizes.
    bare = {d.symbol for p in parameters if isinstance(p.type, TensorType) for d in p.type.sizes if d.symbol}
    scalars = {p.name for p in parameters if isinstance(p.type, ScalarType) and p.type.dtype == i64}
    for p in parameters:
        if isinstance(p.type, TensorType):
            for d in p.type.sizes:
                for symbol in _ordered_symbols(d):
                    if symbol not in bare and symbol not in scalars:
                        raise source.error(
                            f"the size {symbol} of {p.name} cannot be told from the arguments: no dimension is {symbol} itself",
                            nodes[p.name],
                            f"a parameter with a dimension {symbol}, or a parameter {symbol}: int",
                        )
                    b.declare(symbol)
    for symbol in scalar_symbols:
        b.declare(symbol)
    b.scalars = scalars
    symbols = [n for n in b.symbols]
    b.kernel_symbols = len(symbols)
    layout_of = {n: v.layout for n, v in spec.items() if isinstance(v, TensorSpec)}
    params: list[Param] = []
    for p in parameters:
        node = nodes[p.name]
        b.frames[-1].node = node
        place = [node.lineno, node.col_offset]
        if isinstance(p.type, TensorType):
            dtype = _dtype_of(p.type.dtype, spec[p.name])
            param = Param(len(b.params), p.name, p.type, dtype, p.type.sizes)
            params.append(param)
            frontend.env[p.name] = param
            b.params.append(
                {
                    "name": p.name,
                    "kind": p.type.kind,
                    "dtype": dtype.name,
                    "sizes": b.texts(p.type.sizes),
                    "layout": layout_of.get(p.name, "contiguous"),
                    "loc": place,
                }
            )
        elif isinstance(p.type, ScalarType):
            dtype = _dtype_of(p.type.dtype, spec.get(p.name))
            record: Statement = {"name": p.name, "kind": "scalar", "dtype": dtype.name, "loc": place}
            if p.name in b.symbols:
                record["symbol"] = b.symbols[p.name]
            value = b.emit("scalar", (), dtype, (), weak=p.type.weak, param=len(b.params))
            if dtype == i64:
                value.size = builder.sizes.symbol(p.name)
            frontend.env[p.name] = value
            b.params.append(record)
        else:
            value = frontend.resolve(spec[p.name])
            frontend.env[p.name] = replace(value, parameter=p.name) if isinstance(value, DType) else value
    for p in parameters:
        if isinstance(p.type, TensorType):
            for d in p.type.sizes:
                b.use_scalars(d)
    with builder.activated(b):
        frontend.block(analyse(source).body)
    if not (b.blocks[0] and b.blocks[0][-1]["op"] == "parallel"):
        # Without a parallel loop the kernel is one grid point.
        _, number = b.local("point")
        axis = {"name": "point", "start": number, "begin": "0", "end": "1", "tile": "scalar"}
        b.blocks[0] = [
            {"op": "parallel", "axes": [axis], "loc": [source.tree.lineno, source.tree.col_offset], "body": b.blocks[0]}
        ]
    body = finish.finish(b, source, params, {p.name: nodes[p.name] for p in parameters})
    program = {
        "version": VERSION,
        "name": name,
        "file": source.file,
        "symbols": symbols,
        "params": b.params,
        "relations": b.relations,
        "body": body,
    }
    return program, tuple(frontend.captures.values())


def _dtype_of(declared: DType | DTypeParameter, spec: TensorSpec | None) -> DType:
    if isinstance(declared, DType):
        return declared
    assert spec is not None
    return replace(DTYPES[spec.dtype], parameter=declared.name)


def _ordered_symbols(e: Size) -> list[str]:
    return sorted(e.symbols())
