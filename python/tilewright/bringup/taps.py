"""Every module's result during one call, in the order in which modules finish: leaves first, the model last."""

from __future__ import annotations

from typing import Any

import torch

from .trees import Inputs, tensors_of

#: (module's name, how many times it was called before, path in its result) -> tensor
Taps = dict[tuple[str, int, str], torch.Tensor]


class Tapped(torch.nn.Module):
    """The model, returning its own result and a list of every module's. Works eagerly and compiled: then the copies become
    further results of the same graph, and Dynamo traces through the hooks."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self.kept: list[tuple[str, str, torch.Tensor]] = []
        self._handles = [
            module.register_forward_hook(self._hook(name))
            for name, module in model.named_modules()
            if name and not _is_scripted(module)
        ]

    def _hook(self, name: str) -> Any:
        def keep(_module: torch.nn.Module, _arguments: Any, result: Any) -> None:
            for path, tensor in tensors_of(result):
                # A copy: what follows may change it in place.
                self.kept.append((name, path, tensor.detach().clone()))

        return keep

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.kept = []
        result = self.model(*args, **kwargs)
        return result, self.kept

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


def _is_scripted(module: torch.nn.Module) -> bool:
    return isinstance(module, torch.jit.ScriptModule)


def collect(run: Any, inputs: Inputs) -> Taps:
    """Calls a Tapped module (or what compiling made of one) and brings everything to cpu."""
    result, kept = inputs.call(run)
    taps: Taps = {}
    calls: dict[str, int] = {}
    last: str | None = None
    paths: set[str] = set()
    for name, path, tensor in kept:
        if name != last or path in paths:  # a new call of this module
            calls[name] = calls.get(name, -1) + 1
            paths = set()
        last = name
        paths.add(path)
        taps[name, calls[name], path] = tensor.cpu()
    for path, tensor in tensors_of(result):
        taps["", 0, path] = tensor.detach().cpu()
    return taps
