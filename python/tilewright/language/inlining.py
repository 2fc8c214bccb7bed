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
    return structured(kernel, values)


def structured(kernel: LaunchableKernel, values: Sequence[Any]) -> str | None:
    """Why the compiler does not raise the kernel to loop nests for such arguments; None if it does."""
    first = next(v for v in values if isinstance(v, torch.Tensor))
    graph = kernel._launcher.prepare(first.device.type, _described(kernel, values))
    return json.loads(graph.report).get("structured") or None


def _described(kernel: LaunchableKernel, values: Sequence[Any]) -> list[Any]:
    """What `_compile_for` takes: contiguous tensors, outputs that the call allocates."""
    return [
        value
        if p.kind == "const"
        else (kernel._described(p, value)[0], "contiguous")
        if p.kind in ("in", "inout")
        else None
        for p, value in zip(kernel.parameters, values, strict=True)
    ]


def node_arguments(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
    """A call of a kernel's functional operator as a node of a graph description: its program, tensors and scalars (as they stand in the FX graph).
    None for kernels that the compiler raises and that have no whole-tensor form: their own code is better than their control flow's."""
    kernel = operators.registered[target._opname]
    if target != operators.operators_of(kernel).functional:
        return None
    nodes = operators.named_arguments(kernel, args, kwargs)
    values = [n.meta["val"] if isinstance(n, torch.fx.Node) else n for n in nodes]
    if structured(kernel, values) is None:
        return None
    program = kernel.program(kernel._signature(_described(kernel, values))[0])
    tensors = [n for p, n in zip(kernel.parameters, nodes, strict=True) if p.kind in ("in", "inout")]
    scalars = [n for p, n in zip(kernel.parameters, nodes, strict=True) if p.kind == "scalar"]
    return [json.dumps(program), tensors, scalars]
