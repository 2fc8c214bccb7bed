"""The device and which one is current. There is one: npu:0, the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tilewright import _C

DeviceLike = torch.device | str | int | None


def index_of(where: DeviceLike) -> int:
    """The index that an argument `device=` means. Raises ValueError for another kind of device, RuntimeError for an index that is not there."""
    if where is None:
        return 0
    if isinstance(where, int):
        index = where
    else:
        named = torch.device(where)
        if named.type != "npu":
            raise ValueError(f"expected a device npu, got {named}")
        index = named.index if named.index is not None else 0
    if index not in (0, -1):
        raise RuntimeError(f"npu has one device with index 0; there is no npu:{index}")
    return 0


@dataclass(frozen=True)
class DeviceProperties:
    """What torch.npu.get_device_properties gives. Memory and caches in bytes."""

    name: str
    total_memory: int  # the limit
    multi_processor_count: int  # threads of the pool
    cpu_level: str  # x86-64, avx2, avx512 or avx512bf16
    vector_bits: int
    l1_cache_size: int
    L2_cache_size: int
    l3_cache_size: int


def is_available() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def set_device(device: DeviceLike) -> None:
    index_of(device)


def init() -> None:
    """The device needs no initialisation; here for scripts that call it."""


def is_initialized() -> bool:
    return True


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return True


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    index_of(device)
    return DeviceProperties(**_C.device_properties())


def get_device_name(device: DeviceLike = None) -> str:
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> str:
    """The instructions that kernels are compiled for."""
    return get_device_properties(device).cpu_level


class device:
    """Context manager that makes a device current; with one device it only checks the index."""

    def __init__(self, device: Any) -> None:
        self.idx = index_of(device)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        pass


class device_of(device):
    """Context manager: the device of an object that has one; nothing for an object on another kind of device."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.device.type == "npu" else None)
