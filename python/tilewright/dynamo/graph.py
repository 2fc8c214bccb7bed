"""An FX graph after AOTAutograd as a graph description (docs/graph-format.md)."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch._higher_order_ops.effects import with_effects
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from .dtypes import DTYPE_NAMES
from .errors import CompileError, InternalError, UnsupportedError
from .sizes import SizeWriter
from .sources import source_of

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_DEVICES = ("cpu", "npu")
# The same value under another name: AOTAutograd leaves these where a view was taken of the whole.
_SAME_VALUE = frozenset({"aten.alias.default", "aten.detach.default", "aten.lift_fresh.default"})
# Other names for operators of core ATen: (name, keyword arguments that stand at these positions).
_SYNONYMS: dict[str, tuple[str, dict[int, str]]] = {
    "prims.convert_element_type.default": ("aten._to_copy.default", {1: "dtype"}),
    "aten.true_divide.Tensor": ("aten.div.Tensor", {}),
    "aten.true_divide.Scalar": ("aten.div.Scalar", {}),
    "aten.lift_fresh_copy.default": ("aten.clone.default", {}),
}
# Assertions on metadata, which tracing has settled.
_SETTLED = frozenset({"aten._assert_tensor_metadata.default"})
# Assertions on sizes: Dynamo's guards have checked them where they are about backed symbols.
_SIZE_ASSERTIONS = frozenset(
    {
        "aten._assert_scalar.default",
        "aten.sym_constrain_range.default",
        "aten.sym_constrain_range_for_size.default",
    }
)


@dataclass
class GraphDescription:
    """The JSON object, and what the caller of the compiled graph must know beside it."""

    json: dict[str, Any]
    device: str
    #: What fills the inputs, in order: the position of a call's argument, or a tensor that belongs to the graph.
    inputs: list[int | torch.Tensor] = field(default_factory=list)
    #: Number of arguments of a call; those that are no input of the graph (None, specialised numbers) are ignored.
    arguments: int = 0
    #: The call's results: position in json["outputs"], a size expression (`str` or `int`), or None.
    outputs: list[tuple[str, Any]] = field(default_factory=list)
    #: Device type of each of json["outputs"].
    output_devices: list[str] = field(default_factory=list)
    #: Operators of the graph in order, for reports.
    operators: list[str] = field(default_factory=list)


def describe(gm: torch.fx.GraphModule, *, name: str, roles: dict[int, str] | None = None) -> GraphDescription:
    """Writes the description. `roles`: argument position -> "parameter" | "buffer". Raises UnsupportedError naming operator and line."""
    return _GraphWriter(gm, name, roles or {}).write()


def _kernel_node(target: torch._ops.OpOverload, args: Any, kwargs: Any) -> list[Any] | None:
    """A hand-written kernel as the arguments of `tilewright.kernel`; None for one that is to be called from outside of the program."""
    from ..language import inlining

    return inlining.node_arguments(target, args, kwargs)


def operator_name(target: torch._ops.OpOverload) -> str:
    return f"{target.namespace}.{target._opname}.{target._overloadname}"


class _GraphWriter:
    def __init__(self, gm: torch.fx.GraphModule, name: str, roles: dict[int, str]) -> None:
        self.gm, self.name, self.roles = gm, name, roles
        self.sizes = SizeWriter()
        self.values: dict[Any, Any] = {}  # value number, or a list of them for several results
        self.count = 0
        self.inputs: list[dict[str, Any]] = []
        self.sources: list[int | torch.Tensor] = []
        self.nodes: list[dict[str, Any]] = []
        self.mutations: dict[int, int] = {}  # input -> value
        self.devices: set[str] = set()
        self.tokens: set[Any] = set()

    def write(self) -> GraphDescription:
        graph = self.gm.graph
        self._find_tokens()
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        for position, node in enumerate(placeholders):
            self._input(node, position)
        for node in graph.nodes:
            if node.op == "get_attr":
                self._constant(node)
        self.input_count = self.count
        result: GraphDescription | None = None
        for node in graph.nodes:
            if node.op == "call_function":
                self._located(node, self._call)
            elif node.op == "output":
                result = self._output(node)
            elif node.op not in ("placeholder", "get_attr"):
                raise UnsupportedError(f"a node of kind {node.op} ({node.target})", source=source_of(node))
        if result is None:
            raise InternalError("the graph has no output node")
        result.arguments = len(placeholders)
        return result

    # ------------------------------------------------------------------------------------------- effects

    def _find_tokens(self) -> None:
        """Tokens order operators with effects (assertions, printing). Steps of a program run in order anyway, so they are no values."""
        for node in self.gm.graph.nodes:
            if node.target is with_effects:
                self.tokens.add(node.args[0])
                self.tokens.update(u for u in node.users if u.target is operator.getitem and u.args[1] == 0)

    # ------------------------------------------------------------------------------------------- inputs

    def _input(self, node: torch.fx.Node, position: int) -> None:
        value = node.meta.get("val")
        if node in self.tokens:
            return
        if isinstance(value, torch.Tensor):
            self._tensor_input(node, value, position, self.roles.get(position, "input"))
        elif isinstance(value, torch.SymInt):
            symbol = self._located(node, lambda n: self.sizes.symbol(value))
            if symbol is not None:
                self._add_input({"kind": "int", "symbol": symbol, "name": node.name}, position)
        elif isinstance(value, torch.SymFloat):
            if value.node.expr.is_Symbol:
                self.values[node] = self._add_input({"kind": "float", "name": node.name}, position)
        elif isinstance(value, torch.SymBool):
            raise UnsupportedError(
                f"argument {node.name} is a symbolic bool",
                hint="pass a Python bool, for which Dynamo makes one graph per value",
            )
        # Others (None, numbers that Dynamo specialised on, random states that nobody reads) are no input of the program.

    def _tensor_input(self, node: torch.fx.Node, value: torch.Tensor, source: int | torch.Tensor, role: str) -> None:
        entry = {
            "kind": "tensor",
            **self._located(node, lambda n: self._tensor(value)),
            "name": node.name,
            "role": role,
        }
        self.devices.add(value.device.type)
        self.values[node] = self._add_input(entry, source)

    def _constant(self, node: torch.fx.Node) -> None:
        if not node.users:
            return
        value = self.gm
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, torch.Tensor):
            if isinstance(value, FakeTensor):
                raise InternalError(f"constant {node.target} has no data", source=source_of(node))
            with _disable_current_modes():  # we are called under AOTAutograd's fake tensors
                data = value.detach()
            self._tensor_input(node, value, data, "buffer")
        elif not isinstance(value, torch.fx.GraphModule):
            raise UnsupportedError(f"attribute {node.target} of type {type(value).__name__}", source=source_of(node))

    def _add_input(self, entry: dict[str, Any], source: int | torch.Tensor) -> int:
        self.inputs.append(entry)
        self.sources.append(source)
        self.count += 1
        return self.count - 1

    # ------------------------------------------------------------------------------------------- nodes

    def _call(self, node: torch.fx.Node) -> None:
        target: Any = node.target
        arguments: tuple[Any, ...] = node.args
        value: Any = node.meta.get("val")
        if target is with_effects:  # (token, operator, its arguments...) -> (token, its results...)
            target, arguments = node.args[1], node.args[2:]
            value = tuple(v for v in value[1:] if v is not None)
        if target is operator.getitem:
            if node in self.tokens:
                return
            container: Any = node.args[0]
            index: Any = node.args[1]
            numbers = self.values.get(container)
            if not isinstance(numbers, list):
                raise InternalError(f"getitem of {container}, which has one result")
            self.values[node] = numbers[index]
            return
        if isinstance(value, _SYMBOLIC):
            return  # uses take the expression; what cannot be said is refused there
        if isinstance(target, torch._ops.HigherOrderOperator):
            raise UnsupportedError(
                f"higher-order operator {target.name()}",
                hint="write the region without torch.cond, while_loop, map or activation hooks, or keep it out of the compiled "
                "function (torch.compiler.disable)",
            )
        if not isinstance(target, torch._ops.OpOverload):
            raise UnsupportedError(f"a call of the Python function {getattr(target, '__name__', target)}")
        op = operator_name(target)
        if op == "aten.copy_.default" and isinstance(self.values.get(node.args[0]), int):
            self._copy_to_input(node)
            return
        if op in _SAME_VALUE and isinstance(self.values.get(node.args[0]), int):
            self.values[node] = self.values[node.args[0]]
            return
        if op in _SETTLED:
            return
        if op in _SIZE_ASSERTIONS:
            self._size_assertion(node)
            return
        if target._schema.is_mutable:
            raise UnsupportedError(
                "an operator that writes to its arguments is left after functionalisation",
                hint="write it without in-place operators, or keep it out of the compiled function (torch.compiler.disable)",
            )
        kernel = _kernel_node(target, arguments, node.kwargs) if target.namespace == "tilewright_kernels" else None
        if kernel is not None:
            op, args, keywords = "tilewright.kernel.default", kernel, {}
        else:
            op, named = _SYNONYMS.get(op, (op, {}))
            args = [a for i, a in enumerate(arguments) if i not in named]
            keywords = {**{named[i]: a for i, a in enumerate(arguments) if i in named}, **node.kwargs}
        entry: dict[str, Any] = {"op": op, "args": [self._argument(a) for a in args]}
        if keywords:
            entry["kwargs"] = {key: self._argument(a) for key, a in keywords.items() if a is not None}
        several = isinstance(value, (tuple, list))
        results: list[Any] = list(value) if isinstance(value, (tuple, list)) else [] if value is None else [value]
        outputs = [self._result(v) for v in results]
        entry["outputs"] = outputs
        if not outputs:
            entry["results"] = 0  # run for its effect
        source = source_of(node)
        if source:
            entry["source"] = source
        first = self.count
        self.count += len(outputs)
        if several:  # with_effects has its token before the results
            self.values[node] = [None] * (node.target is with_effects) + list(range(first, self.count))
        elif outputs:
            self.values[node] = first
        self.nodes.append(entry)

    def _copy_to_input(self, node: torch.fx.Node) -> None:
        destination, source = self.values[node.args[0]], self.values.get(node.args[1])
        if destination >= self.input_count or source is None:
            raise UnsupportedError("a copy into a value that is no argument of the graph")
        self.mutations[destination] = source
        self.values[node] = source

    def _size_assertion(self, node: torch.fx.Node) -> None:
        """Backed symbols: guards hold it. Anything else would be dropped silently, so it is refused."""
        condition = node.args[0]
        value = condition.meta.get("val") if isinstance(condition, torch.fx.Node) else condition
        if isinstance(value, torch.Tensor):
            raise UnsupportedError(
                "an assertion on the value of a tensor", hint="check it outside the compiled function"
            )
        if isinstance(value, _SYMBOLIC):
            from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

            if free_unbacked_symbols(value):
                raise UnsupportedError(
                    f"an assertion on {value}, which is known only after running an operator",
                    hint="leave torch._dynamo.config.capture_scalar_outputs off, or check it outside the compiled function",
                )

    def _result(self, value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        if not isinstance(value, torch.Tensor):
            raise UnsupportedError(f"a result of type {type(value).__name__}")
        self.devices.add(value.device.type)
        return self._tensor(value)

    def _tensor(self, value: torch.Tensor) -> dict[str, Any]:
        if value.layout is not torch.strided or value.is_nested or value.is_quantized:
            kind = "nested" if value.is_nested else "quantised" if value.is_quantized else str(value.layout)
            raise UnsupportedError(
                f"a {kind} tensor", hint="use dense strided tensors, or keep it out of the compiled function"
            )
        if value.device.type not in _DEVICES:
            raise UnsupportedError(
                f"a tensor on device {value.device}",
                hint="move model and inputs to the device npu or cpu before compiling",
            )
        dtype = DTYPE_NAMES.get(value.dtype)
        if dtype is None:
            raise UnsupportedError(f"dtype {value.dtype}", hint=f"use one of {', '.join(map(str, DTYPE_NAMES))}")
        size = self.sizes.size
        return {"dtype": dtype, "sizes": [size(s) for s in value.size()], "strides": [size(s) for s in value.stride()]}

    def _argument(self, a: Any) -> Any:
        if isinstance(a, torch.fx.Node):
            if a in self.values:
                value = self.values[a]
                if isinstance(value, list):
                    return [{"v": v} for v in value]
                return {"v": value}
            return self._symbolic(a.meta.get("val"), a)
        if a is None or isinstance(a, (bool, int, str)):
            return a
        if isinstance(a, float):
            return a if math.isfinite(a) else {"float": "nan" if math.isnan(a) else "inf" if a > 0 else "-inf"}
        if isinstance(a, complex):
            return {"complex": [self._argument(a.real), self._argument(a.imag)]}
        if isinstance(a, (list, tuple)):
            return [self._argument(item) for item in a]
        if isinstance(a, torch.dtype):
            name = DTYPE_NAMES.get(a)
            if name is None:
                raise UnsupportedError(f"dtype {a}", hint=f"use one of {', '.join(map(str, DTYPE_NAMES))}")
            return {"dtype": name}
        if isinstance(a, torch.device):
            self.devices.add(a.type)
            return {"device": str(a)}
        if isinstance(a, torch.layout):
            return {"layout": str(a)}
        if isinstance(a, torch.memory_format):
            return {"memory_format": str(a)}
        if isinstance(a, _SYMBOLIC):
            return self._symbolic(a, None)
        raise UnsupportedError(f"an argument of type {type(a).__name__}")

    def _symbolic(self, value: Any, node: torch.fx.Node | None) -> Any:
        if isinstance(value, torch.SymInt):
            size = self.sizes.size(value)
            return size if isinstance(size, int) else {"size": size}
        if isinstance(value, (bool, int, float)) or value is None:
            return self._argument(value)
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            constant = value.node.maybe_as_float() if isinstance(value, torch.SymFloat) else value.node.maybe_as_bool()
            if constant is not None:
                return self._argument(constant)
            raise UnsupportedError(
                f"{value} is a number computed from sizes or scalar arguments at run time",
                hint="pass it as a 0-d tensor, or make it a constant of the model (torch._dynamo.config.specialize_float=True)",
            )
        raise InternalError(f"argument {node} has no value in the graph")

    # ------------------------------------------------------------------------------------------- results

    def _output(self, node: torch.fx.Node) -> GraphDescription:
        outputs: list[dict[str, int] | None] = []
        results: list[tuple[str, Any]] = []
        devices: list[str] = []
        seen: dict[int, int] = {}
        returned = node.args[0]
        for item in returned if isinstance(returned, (list, tuple)) else [returned]:
            if isinstance(item, torch.fx.Node) and item in self.values:
                value = self.values[item]
                if isinstance(value, list):
                    raise InternalError("a result of several tensors as one output", source=source_of(item))
                if value not in seen:
                    seen[value] = len(outputs)
                    outputs.append({"v": value})
                    devices.append(item.meta["val"].device.type)
                results.append(("tensor", seen[value]))
            elif item is None or item in self.tokens:
                results.append(("none", None))
            else:
                value = item.meta.get("val") if isinstance(item, torch.fx.Node) else item
                if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
                    results.append(("size", self.sizes.size(value)))
                elif value is None or isinstance(value, (bool, float)):
                    results.append(("constant", value))
                else:
                    raise UnsupportedError(f"an output of type {type(value).__name__}")
        self._check_symbols()
        device = "npu" if "npu" in self.devices else "cpu"
        description: dict[str, Any] = {
            "version": 1,
            "name": self.name,
            "device": device,
            "symbols": self.sizes.symbols,
            "inputs": self.inputs,
            "nodes": self.nodes,
            "outputs": outputs,
            "mutations": [{"input": i, "value": v} for i, v in self.mutations.items()],
        }
        return GraphDescription(
            json=description,
            device=device,
            inputs=self.sources,
            outputs=results,
            output_devices=devices,
            operators=[n["op"] for n in self.nodes],
        )

    def _check_symbols(self) -> None:
        bound = {entry.get("symbol") for entry in self.inputs if entry["kind"] == "int"}
        for entry in self.inputs:
            if entry["kind"] == "tensor":
                bound.update(s for s in entry["sizes"] if isinstance(s, str))
        for symbol in self.sizes.symbols:
            if symbol["name"] not in bound:
                raise UnsupportedError(
                    f"the symbolic size {symbol['name']} (now {symbol.get('hint')}) is the size of no argument",
                    hint="pass a tensor that has this size, or call torch.compile with dynamic=False",
                )

    def _located(self, node: torch.fx.Node, action: Any) -> Any:
        """Runs an action on a node; errors that do not yet say where are given the node's operator and line."""
        try:
            return action(node)
        except CompileError as error:
            if error.op is not None or error.source is not None:
                raise
            target = node.target
            op = operator_name(target) if isinstance(target, torch._ops.OpOverload) else str(target)
            message = str(error).removeprefix("tilewright: ").split("\n")[0]
            raise type(error)(message, op=op, source=source_of(node), hint=error.hint) from error
