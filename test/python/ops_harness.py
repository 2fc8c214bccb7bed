"""Calls of ATen operators, recorded from PyTorch on CPU and given to the importer.

`record` runs a function and keeps every call of a functional ATen operator with its arguments and true results. `describe`
turns a call into a graph description, with constant or symbolic sizes. `import_and_run` hands descriptions to the tool
tilewright-ops, which imports them and interprets the loop nests element by element: what is compared is what an entry means,
apart from fusion and code generation.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DTYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.float16: "f16", torch.int8: "i8",
    torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8", torch.bool: "bool",
}  # fmt: skip
TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}


def find_tool() -> str | None:
    """tilewright-ops of the build that is on the path, or of any build."""
    root = Path(__file__).resolve().parents[2]
    if (given := os.environ.get("TILEWRIGHT_OPS_TOOL")) is not None:
        return given
    tools = sorted(root.glob("build/*/bin/tilewright-ops"), key=lambda p: p.stat().st_mtime)
    return str(tools[-1]) if tools else None


@dataclass
class Call:
    """One call: arguments as they were before it, results as PyTorch gave them."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: list[torch.Tensor | None]
    inputs: list[torch.Tensor] = field(default_factory=list)

    def __str__(self) -> str:
        def short(x: Any) -> Any:
            return f"{DTYPES[x.dtype]}{list(x.shape)}/{list(x.stride())}" if isinstance(x, torch.Tensor) else x

        return f"{self.name}({tree_map(short, self.args)}, {tree_map(short, self.kwargs)})"


def _usable(x: Any) -> bool:
    if isinstance(x, torch.Tensor):
        return type(x) is torch.Tensor and x.layout == torch.strided and x.dtype in DTYPES and x.device.type == "cpu"
    return not isinstance(x, (torch.Generator, complex, torch.storage.UntypedStorage))


class Recording:
    """Keeps calls of operators for which `wanted` holds."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self.wanted, self.calls = wanted, []

    def __call__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = str(func)
        leaves = tree_flatten((args, kwargs))[0]
        # A recorded tensor is alone in its memory, which as_strided would see.
        alone = name != "aten.as_strided.default" or args[0]._base is None
        keep = alone and self.wanted(name) and not func._schema.is_mutable and all(map(_usable, leaves))
        saved = tree_map(lambda x: _frozen(x) if isinstance(x, torch.Tensor) else x, (args, kwargs)) if keep else None
        out = func(*args, **kwargs)
        results = list(out) if isinstance(out, (tuple, list)) else [out]
        if saved is not None and all(r is None or (isinstance(r, torch.Tensor) and _usable(r)) for r in results):
            frozen = [None if r is None else _frozen(r) for r in results]
            self.calls.append(Call(name, *saved, frozen))
        return out


class _Dispatched(TorchDispatchMode):
    """What PyTorch calls: operators that it composes of others are not seen."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.recording(func, args, kwargs or {})


class _Called(TorchFunctionMode):
    """What the function itself calls of torch.ops."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, torch._ops.OpOverload):
            return self.recording(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def _frozen(x: torch.Tensor) -> torch.Tensor:
    """The same values at the same strides in memory that nobody else writes."""
    x = x.detach()
    extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    memory = x.as_strided((extent,), (1,)).clone() if extent else x.new_empty(0)
    return memory.as_strided(x.shape, x.stride(), 0)


def record(fn: Callable[[], Any], wanted: Callable[[str], bool], composed: bool = True) -> list[Call]:
    """The calls that fn makes; `composed`: of what PyTorch composes them of, else as fn writes them."""
    recording = Recording(wanted)
    with _Dispatched(recording) if composed else _Called(recording):
        fn()
    return recording.calls


class _Describer:
    def __init__(self, call: Call, symbolic: bool) -> None:
        self.call, self.symbolic = call, symbolic
        self.symbols: dict[int, str] = {}  # equal sizes share a symbol, as Dynamo guesses
        self.inputs: list[dict[str, Any]] = []
        self.numbers = 0

    def size(self, n: int) -> int | str:
        if not self.symbolic or n < 2:
            return n
        return self.symbols.setdefault(n, f"s{len(self.symbols)}")

    def tensor(self, t: torch.Tensor) -> dict[str, Any]:
        self.call.inputs.append(t)
        sizes = [self.size(n) for n in t.shape]
        strides: list[int | str] = list(t.stride())
        if self.symbolic and t.is_contiguous() and t.numel():
            strides = ["*".join(str(n) for n in sizes[d + 1 :]) or 1 for d in range(len(sizes))]
        self.inputs.append(
            {"kind": "tensor", "dtype": DTYPES[t.dtype], "sizes": sizes, "strides": strides, "offset": 0}
        )
        return {"v": len(self.inputs) - 1}

    def argument(self, a: Any, schema_type: str) -> Any:
        if isinstance(a, torch.Tensor):
            return self.tensor(a)
        if isinstance(a, (list, tuple)):
            return [self.argument(x, schema_type) for x in a]
        if isinstance(a, torch.dtype):
            return {"dtype": DTYPES[a]}
        if isinstance(a, (torch.layout, torch.memory_format, torch.device)):
            return {type(a).__name__.split(".")[-1]: str(a)}
        if isinstance(a, float) and not math.isfinite(a):
            return {"float": "nan" if math.isnan(a) else "inf" if a > 0 else "-inf"}
        if type(a) is int and "SymInt" in schema_type and a in self.symbols:
            return {"size": self.symbols[a]}
        return a

    def describe(self) -> dict[str, Any]:
        call = self.call
        namespace, rest = call.name.split(".", 1)
        name, overload = rest.split(".")
        full_schema = getattr(getattr(getattr(torch.ops, namespace), name), overload)._schema
        schema = full_schema.arguments
        # Only the text of a schema tells SymInt from int.
        types = {name: kind for kind, name in re.findall(r"([\w\[\]?()!]+) (\w+)(?=[,=)])", str(full_schema))}
        # Tensors first: their sizes are the symbols that integers may refer to.
        order = sorted(range(len(call.args)), key=lambda i: "Tensor" not in types[schema[i].name])
        args: list[Any] = [None] * len(call.args)
        for i in order:
            args[i] = self.argument(call.args[i], types[schema[i].name])
        kwargs = {k: self.argument(v, types[k]) for k, v in call.kwargs.items()}
        count = len(self.inputs)
        return {
            "version": 1,
            "name": call.name,
            "symbols": [{"name": s, "min": 2} for s in self.symbols.values()],
            "inputs": self.inputs,
            "nodes": [{"op": call.name, "args": args, "kwargs": kwargs, "results": len(call.results)}],
            "outputs": [{"v": count + i} if r is not None else None for i, r in enumerate(call.results)],
        }


def describe(call: Call, symbolic: bool = False) -> tuple[dict[str, Any], list[int]]:
    """The description, and the values of its symbols."""
    call.inputs = []
    describer = _Describer(call, symbolic)
    graph = describer.describe()
    return graph, list(describer.symbols)


def _memory(t: torch.Tensor) -> bytes:
    extent = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) if t.numel() else 0
    return bytes(t.as_strided((extent,), (1,)).view(torch.uint8).numpy()) if extent else b""


def _tensor(data: bytes, dtype: torch.dtype, shape: list[int]) -> torch.Tensor:
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).reshape(shape)


@dataclass
class Imported:
    """What the tool says of a call: its report, and the results if it could be run."""

    report: dict[str, Any]
    results: list[torch.Tensor | None]
    symbols: list[int]

    def number(self, value: int | str) -> int:
        names = {f"s{i}": n for i, n in enumerate(self.symbols)}
        return int(eval(str(value), {"__builtins__": {}, "min": min, "max": max}, names))


def import_and_run(tool: str, calls: list[Call], symbolic: bool = False) -> Iterator[Imported]:
    with tempfile.TemporaryDirectory() as folder:
        requests, symbols = [], []
        for i, call in enumerate(calls):
            graph, values = describe(call, symbolic)
            symbols.append(values)
            inputs = [f"{folder}/{i}_in{k}" for k in range(len(call.inputs))]
            for path, t in zip(inputs, call.inputs, strict=True):
                Path(path).write_bytes(_memory(t))
            outputs = [f"{folder}/{i}_out{k}" for k in range(len(call.results))]
            requests.append(json.dumps({"graph": graph, "symbols": values, "inputs": inputs, "outputs": outputs}))
        Path(f"{folder}/requests").write_text("\n".join(requests) + "\n")
        done = subprocess.run([tool, "--results", f"{folder}/requests"], capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        assert len(lines) == len(calls), done.stderr
        for i, (call, line) in enumerate(zip(calls, lines, strict=True)):
            imported = Imported(json.loads(line), [], symbols[i])
            if "error" not in imported.report and not imported.report["islands"]:
                for k, (r, said) in enumerate(zip(call.results, imported.report["results"], strict=True)):
                    shape = [imported.number(n) for n in said["sizes"]]
                    data = Path(f"{folder}/{i}_out{k}").read_bytes()
                    imported.results.append(None if r is None else _tensor(data, TORCH_DTYPES[said["dtype"]], shape))
            yield imported
