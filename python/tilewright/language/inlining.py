"""Kernels inside torch.compile(backend="tilewright"): those that the compiler raises to loop nests become PyTorch's operators on whole tensors again, so
that they fuse with what stands around them; the others stay whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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
    first = next(v for v in values if isinstance(v, torch.Tensor))
    described = [
        value
        if p.kind == "const"
        else None
        if p.kind in ("scalar", "out")
        else (kernel._described(p, value)[0], "contiguous")
        for p, value in zip(kernel.parameters, values, strict=True)
    ]
    graph = kernel._launcher.prepare(first.device.type, described)
    return json.loads(graph.report).get("structured") or None
