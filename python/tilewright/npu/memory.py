"""Memory of the device: statistics, limit, cache."""

from __future__ import annotations

from typing import Any

import torch

from tilewright import _C

from .device import DeviceLike, index_of


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """The counters of PyTorch's caching allocators, under the names that torch.cuda.memory_stats uses."""
    return torch.accelerator.memory_stats(index_of(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes that tensors hold."""
    return torch.accelerator.memory_allocated(index_of(device))


def max_memory_allocated(device: DeviceLike = None) -> int:
    return torch.accelerator.max_memory_allocated(index_of(device))


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes taken from the system, cached ones included."""
    return torch.accelerator.memory_reserved(index_of(device))


def max_memory_reserved(device: DeviceLike = None) -> int:
    return torch.accelerator.max_memory_reserved(index_of(device))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    torch.accelerator.reset_peak_memory_stats(index_of(device))


def reset_max_memory_allocated(device: DeviceLike = None) -> None:
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    torch.accelerator.reset_accumulated_memory_stats(index_of(device))


def empty_cache() -> None:
    """Gives cached memory back to the system."""
    torch.accelerator.empty_cache()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) in bytes; total is the limit."""
    return torch.accelerator.get_memory_info(index_of(device))


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Limits this process to a fraction of the device's memory (get_device_properties().total_memory)."""
    index_of(device)
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 < fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0 < fraction <= 1")
    _C.set_memory_limit(int(fraction * _C.device_properties()["total_memory"]))


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """A readable table of what is held, by whom, and of the limit."""
    index_of(device)
    return _C.memory_summary()


def memory_by_purpose() -> dict[str, dict[str, int]]:
    """Bytes by purpose (tensor, arena, packed, pinned): current, peak, allocated, freed."""
    return _C.memory_by_purpose()


def memory_snapshot() -> list[dict[str, Any]]:
    """Every segment with its blocks, under torch.cuda.memory_snapshot's names."""
    return _C.memory_snapshot()
