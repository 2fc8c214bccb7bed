"""Kernels inside torch.compile(backend="tilewright"): those that the compiler raises to loop nests become PyTorch's operators on whole tensors again, so
that they fuse with what stands around them; the others stay whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from . import gradients, operators

if TYPE_CHECKING:
    from .launch import LaunchableKernel


def decompositions() -> dict[Any, Callable[..., Any]]:
    """For AOTAutograd's table: each kernel's functional operator."""
    table = {}
    for kernel in list(operators.registered.values()):
        functional = operators.operators_of(kernel).functional
        if functional is not None:
            table[functional] = _decomposition(kernel)
    return table


def _decomposition(kernel: LaunchableKernel) -> Callable[..., Any]:
    def decompose(*args: Any, **kwargs: Any) -> Any:
        values = operators.named_arguments(kernel, args, kwargs)
        if why_whole_tensors_do_not_do(kernel, values) is not None:
            return NotImplemented
        results = gradients.results_of(kernel, values)
        return results[0] if len(results) == 1 else tuple(results)

    return decompose


def why_whole_tensors_do_not_do(kernel: LaunchableKernel, values: Sequence[Any]) -> str | None:
    """Why a kernel is not to be computed by operators on whole tensors: it cannot be, or the compiler keeps its control flow, in which case whole
    tensors may be much larger than all that the kernel ever holds."""
    reason = gradients.why_not_whole(kernel, values)
    if reason is not None:
        return reason
    islands = gradients.whole_operators(kernel, values) & _NOT_NATIVE
    if islands:
        return f"{min(islands)} has no native code"
    first = next(v for v in values if isinstance(v, torch.Tensor))
    graph = kernel._launcher.prepare(first.device.type, kernel._described_call(values, contiguous=True))
    return json.loads(graph.report).get("structured") or None


#: What whole-tensor forms may contain and the compiler knows only inside of kernels.
_NOT_NATIVE = frozenset(
    f"aten::{name}" for name in ("index_put", "_index_put_impl_", "cumsum", "cumprod", "cummax", "cummin", "sort")
)


def node_arguments(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
    """A call of a kernel's functional operator as a node of a graph description: its program, tensors, scalars and the sizes that no tensor says,
    as they stand in the FX graph. None for another operator."""
    kernel = operators.registered[target._opname]
    if target != operators.operators_of(kernel).functional:
        return None
    nodes = operators.named_arguments(kernel, args, kwargs)
    program = kernel.program(kernel._signature(kernel._described_call([_value(n) for n in nodes], contiguous=True))[0])
    tensors = [n for p, n in zip(kernel.parameters, nodes, strict=True) if p.kind in ("in", "inout")]
    scalars = [n for p, n in zip(kernel.parameters, nodes, strict=True) if p.kind == "scalar"]
    told = operators.told_of(nodes).sizes
    return [json.dumps(program), tensors, scalars, [told[name] for name in program["symbols"] if name in told]]


def _value(node: Any) -> Any:
    if isinstance(node, operators.Free):
        return operators.Free({n: _value(s) for n, s in node.sizes.items()}, node.dtypes)
    return node.meta["val"] if isinstance(node, torch.fx.Node) else node
