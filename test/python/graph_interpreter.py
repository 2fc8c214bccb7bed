"""Runs graph descriptions with PyTorch's CPU operators: the slow, obviously right reading of docs/graph-format.md.

Tests compare the compiler with it, and use it in the compiler's place to test how graphs are written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

import tilewright.dynamo.sdpa  # noqa: F401  (registers tilewright::sdpa)
from tilewright.dynamo.dtypes import DTYPES
from tilewright.dynamo.graph import GraphDescription

_LAYOUTS = {"torch.strided": torch.strided}
_MEMORY_FORMATS = {
    str(f): f for f in (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
}


class Interpreter:
    """One graph. `run(inputs)` takes tensors and numbers in the order of the graph's inputs, writes its mutations and returns its outputs."""

    def __init__(self, graph: dict[str, Any], check_results: bool = True) -> None:
        assert graph["version"] == 1
        self.graph, self.check_results = graph, check_results
        self.symbols: dict[str, int] = {}

    def run(self, inputs: Sequence[torch.Tensor | int | float]) -> list[torch.Tensor | None]:
        graph = self.graph
        assert len(inputs) == len(graph["inputs"]), f"{len(inputs)} inputs for {len(graph['inputs'])}"
        self._bind(inputs)
        self.values: list[Any] = list(inputs)
        for node in graph["nodes"]:
            self._node(node)
        outputs = [None if o is None else self.values[o["v"]] for o in graph["outputs"]]
        # Outputs that a mutation would change under them are read before it.
        written = [self.values[m["value"]].clone() for m in graph["mutations"]]
        for mutation, value in zip(graph["mutations"], written, strict=True):
            self.values[mutation["input"]].copy_(value)
        return outputs

    def size(self, text: str | int) -> int:
        if isinstance(text, int):
            return text
        assert re.fullmatch(r"[s0-9+\-*/%(), minax]+", text), text
        return int(eval(text, {"__builtins__": {}, "min": min, "max": max}, self.symbols))

    def _bind(self, inputs: Sequence[Any]) -> None:
        self.symbols = {}
        names = {s["name"] for s in self.graph["symbols"]}
        for entry, value in zip(self.graph["inputs"], inputs, strict=True):
            if entry["kind"] == "int" and entry.get("symbol") in names:
                self.symbols.setdefault(entry["symbol"], value)
            elif entry["kind"] == "tensor":
                for text, size in zip(entry["sizes"], value.shape, strict=True):
                    if text in names:
                        self.symbols.setdefault(text, size)
        assert set(self.symbols) == names, f"unbound: {names - set(self.symbols)}"
        for entry, value in zip(self.graph["inputs"], inputs, strict=True):
            if entry["kind"] != "tensor":
                continue
            assert value.dtype == DTYPES[entry["dtype"]], entry["name"]
            assert [self.size(s) for s in entry["sizes"]] == list(value.shape), entry["name"]
            for text, stride, size in zip(entry["strides"], value.stride(), value.shape, strict=True):
                assert size <= 1 or value.numel() == 0 or self.size(text) == stride, f"stride of {entry['name']}"

    def _node(self, node: dict[str, Any]) -> None:
        namespace, name, overload = node["op"].split(".")
        op = getattr(getattr(getattr(torch.ops, namespace), name), overload)
        args = [self._argument(a) for a in node["args"]]
        kwargs = {k: self._argument(a) for k, a in node.get("kwargs", {}).items()}
        result = op(*args, **kwargs)
        results = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]
        assert len(results) == len(node["outputs"]), node["op"]
        for value, entry in zip(results, node["outputs"], strict=True):
            if entry is not None and self.check_results:
                where = f"{node['op']} at {node.get('source')}"
                assert value.dtype == DTYPES[entry["dtype"]], where
                assert list(value.shape) == [self.size(s) for s in entry["sizes"]], where
            self.values.append(value)

    def _argument(self, a: Any) -> Any:
        if isinstance(a, list):
            return [self._argument(item) for item in a]
        if not isinstance(a, dict):
            return a
        ((kind, value),) = a.items()
        match kind:
            case "v":
                return self.values[value]
            case "size":
                return self.size(value)
            case "dtype":
                return DTYPES[value]
            case "float":
                return float(value)
            case "complex":
                return complex(*(self._argument(part) for part in value))
            case "device":
                return torch.device("cpu")
            case "layout":
                return _LAYOUTS[value]
            case "memory_format":
                return _MEMORY_FORMATS[value]
        raise AssertionError(f"argument {a}")


class InterpretedGraph:
    """Stands in for tilewright._C.CompiledGraph."""

    def __init__(self, description: GraphDescription) -> None:
        self._boxed_call = True  # on the object: functools.wraps hands on what stands in __dict__
        self.description = description
        self.interpreter = Interpreter(description.json)

    def __call__(self, arguments: list[Any]) -> list[Any]:
        description = self.description
        assert len(arguments) == description.arguments
        with torch.no_grad():
            inputs = [
                source if isinstance(source, torch.Tensor) else arguments[source] for source in description.inputs
            ]
            results = self.interpreter.run(inputs)
        arguments.clear()
        outputs: list[Any] = []
        for kind, what in description.outputs:
            match kind:
                case "tensor":
                    value = results[what]
                    if not isinstance(value, torch.Tensor):
                        outputs.append(value)
                        continue
                    entry = self.strides_of(what)
                    if entry is not None and all(value is not i for i in inputs):
                        sizes = [self.interpreter.size(s) for s in entry["sizes"]]
                        strides = [self.interpreter.size(s) for s in entry["strides"]]
                        value = torch.empty_strided(sizes, strides, dtype=value.dtype).copy_(value)
                    outputs.append(value)
                case "size":
                    outputs.append(self.interpreter.size(what))
                case _:
                    outputs.append(what)
        return outputs

    def strides_of(self, output: int) -> dict[str, Any] | None:
        """The description of an output that a node made; None for inputs."""
        graph = self.description.json
        number = graph["outputs"][output]["v"] - len(graph["inputs"])
        if number < 0:
            return None
        made = [entry for node in graph["nodes"] for entry in node["outputs"]]
        return made[number]


def build_interpreted(description: GraphDescription, text: str, stats: Any) -> InterpretedGraph:
    """A builder for tilewright.dynamo.backend.compile_dynamo_graph."""
    return InterpretedGraph(description)
