"""`tilewright.freeze(model)`: packed copies of weights may be kept across calls on cpu.

A matmul reads its weight in a packed layout. On `npu` the packed copy is kept as long as nobody has written to the weight: every
write raises the epoch of its memory. On `cpu` PyTorch does not tell of every write, so the weight is packed in each call (0 to 3 percent of the
time from 32 rows up, more for few rows), unless the model is frozen.

What freezing assumes: nobody writes to a frozen tensor in a way that PyTorch does not count, that is through `.data`, a NumPy array or DLPack
capsule that shares the memory, a raw pointer, or another process. Such a write may go unnoticed until `unfreeze` or the
next `freeze` after an `unfreeze`. Ordinary writes are noticed at the next call and cost one packing: in-place operators, optimiser
steps, `load_state_dict`, and assigning other tensors to the parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch

T = TypeVar("T", torch.nn.Module, torch.Tensor, Iterable[torch.Tensor])


def freeze(model: T) -> T:
    """Freezes the parameters and buffers of a module, or the tensors given; returns its argument. See the module's text for what
    that assumes. Tensors on npu are left as they are: they need no freezing. Gradients and training mode are not touched."""
    from . import _C

    for tensor in _tensors(model):
        _C.freeze_tensor(tensor)
    return model


def unfreeze(model: T) -> T:
    """Takes `freeze` back and drops the packed copies."""
    from . import _C

    for tensor in _tensors(model):
        _C.thaw_tensor(tensor)
    return model


def is_frozen(tensor: torch.Tensor) -> bool:
    """Whether a cpu tensor's memory is frozen (a view of a frozen tensor is)."""
    from . import _C

    return bool(_C.is_frozen(tensor))


def _tensors(model: torch.nn.Module | torch.Tensor | Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    if isinstance(model, torch.nn.Module):
        tensors: Iterable[torch.Tensor] = [*model.parameters(), *model.buffers()]
    elif isinstance(model, torch.Tensor):
        tensors = [model]
    else:
        tensors = list(model)
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"freeze takes a module or tensors, not {type(tensor).__name__}")
        if tensor.device.type == "cpu" and tensor.layout is torch.strided:
            yield tensor
