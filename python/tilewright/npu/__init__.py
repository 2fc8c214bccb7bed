"""torch.npu: the device module that PyTorch and its users call. Scripts written for torch_npu find the same names."""

from __future__ import annotations

import atexit
import sys
from typing import Any

import torch

from tilewright import _C

from . import amp
from .device import (
    DeviceProperties,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
)
from .memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_by_purpose,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    launch_host_function,
    set_stream,
    stream,
    synchronize,
)

__all__ = [
    "DeviceProperties",
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "fallback_counts",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "launch_host_function",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_by_purpose",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_fallback_counts",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

#: PyTorch asks whether device state must be saved (checkpointing). There is nothing to initialise, so: always.
_initialized = True


def _is_in_bad_fork() -> bool:
    """True in a child forked after the parent used the device: it cannot be used there."""
    return _C.in_bad_fork()


def fallback_counts() -> dict[str, int]:
    """How often each operator ran as PyTorch's CPU kernel: overload name ("aten::sort.out") -> calls."""
    return _C.fallback_counts()


def reset_fallback_counts() -> None:
    _C.reset_fallback_counts()


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What torch.autocast("npu") accepts."""
    return [torch.float16, torch.bfloat16]


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return (_C.default_generator(),)
    raise AttributeError(f"module 'torch.npu' has no attribute {name!r}")


def _install(torch: Any, _C: Any) -> None:
    """Makes this module torch.npu. Once per process, by tilewright._autoload."""
    from torch.utils import backend_registration

    from . import _patches

    backend_registration.rename_privateuse1_backend("npu")
    _C.register_device()
    torch._register_device_module("npu", sys.modules[__name__])
    backend_registration.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    _patches.install()
    atexit.register(_C.settle_autograd)
