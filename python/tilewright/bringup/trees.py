"""Tensors inside nested arguments and results: tuples, lists, dictionaries and their subclasses (transformers' ModelOutput)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch


def tensors_of(value: Any, name: str = "") -> list[tuple[str, torch.Tensor]]:
    """(path, tensor) in order: "" for a tensor itself, "[1]", ".last_hidden_state". Other values are left out."""
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    found: list[tuple[str, torch.Tensor]] = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            found += tensors_of(item, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            found += tensors_of(item, f"{name}[{index}]")
    return found


def map_tensors(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same nest with each tensor exchanged."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, Mapping):
        items = {key: map_tensors(item, function) for key, item in value.items()}
        return items if type(value) is dict else type(value)(items)  # type: ignore[call-arg]
    if isinstance(value, tuple):
        mapped = [map_tensors(item, function) for item in value]
        return type(value)(*mapped) if hasattr(value, "_fields") else tuple(mapped)
    if isinstance(value, list):
        return [map_tensors(item, function) for item in value]
    return value


class Inputs:
    """Arguments of one call: positional ones, or a dictionary of named ones."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs

    @staticmethod
    def of(value: Any) -> Inputs:
        if isinstance(value, Mapping):
            return Inputs((), dict(value))
        if isinstance(value, (tuple, list)):
            return Inputs(tuple(value), {})
        return Inputs((value,), {})

    def map(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
        return Inputs(map_tensors(self.args, function), map_tensors(self.kwargs, function))

    def to(self, device: str) -> Inputs:
        return self.map(lambda tensor: tensor.to(device))

    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        return tensors_of(self.args, "input") + tensors_of(self.kwargs, "input")

    def call(self, function: Callable[..., Any]) -> Any:
        return function(*self.args, **self.kwargs)

    def batch(self) -> int | None:
        """The size of the first dimension of the first tensor that has one."""
        return next((t.shape[0] for _, t in self.tensors() if t.dim() > 0), None)

    def with_batch(self, size: int) -> Inputs:
        """Every tensor whose first dimension is the batch gets `size` rows: the example's, over and over."""
        old = self.batch()
        if old is None or old == 0:
            raise ValueError("the example inputs have no batch dimension")

        def resize(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.dim() == 0 or tensor.shape[0] != old:
                return tensor
            return tensor.index_select(0, torch.arange(size) % old)

        return self if size == old else self.map(resize)

    def describe(self) -> list[dict[str, Any]]:
        return [
            {"name": n, "shape": list(t.shape), "dtype": str(t.dtype).removeprefix("torch.")} for n, t in self.tensors()
        ]
