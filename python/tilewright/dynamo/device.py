"""What Dynamo asks a device: streams, events, the current device. Registered when Dynamo is imported."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.device_interface import (
    DeviceInterface,
    caching_worker_current_devices,
    register_interface_for_device,
)


class NpuInterface(DeviceInterface):
    """The device `npu` for Dynamo. Everything is torch.npu's."""

    class Event(torch.Event):
        """An event of the current npu device."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            kwargs.setdefault("device", "npu")
            return torch.Event.__new__(cls, *args, **kwargs)

    class Stream(torch.Stream):
        """A stream of the current npu device."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            if not args:
                kwargs.setdefault("device", "npu")
            return torch.Stream.__new__(cls, *args, **kwargs)

    class Worker:
        """For compile workers, which must not touch the device: the device is a number there."""

        @staticmethod
        def set_device(device: int) -> None:
            caching_worker_current_devices["npu"] = device

        @staticmethod
        def current_device() -> int:
            if "npu" in caching_worker_current_devices:
                return caching_worker_current_devices["npu"]
            return torch.accelerator.current_device_index()

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            return torch.npu.get_device_properties(_index(device))

    @staticmethod
    def current_device() -> int:
        return torch.npu.current_device()

    @staticmethod
    def set_device(device: Any) -> None:
        torch.npu.set_device(device)

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        return NpuInterface.exchange_device(device) if device >= 0 else -1

    @staticmethod
    def exchange_device(device: int) -> int:
        previous = torch.npu.current_device()
        if device != previous:
            torch.npu.set_device(device)
        return previous

    @staticmethod
    def device_count() -> int:
        return torch.npu.device_count()

    @staticmethod
    def is_available() -> bool:
        return torch.npu.is_available()

    @staticmethod
    def stream(stream: torch.Stream) -> Any:
        return torch.npu.stream(stream)

    @staticmethod
    def current_stream(device: Any = None) -> torch.Stream:
        return torch.accelerator.current_stream(_index(device))

    @staticmethod
    def set_stream(stream: torch.Stream) -> None:
        torch.accelerator.set_stream(stream)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        torch.accelerator.set_stream(
            torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
        )

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return torch.accelerator.current_stream(device_idx).stream_id

    @staticmethod
    def synchronize(device: Any = None) -> None:
        torch.npu.synchronize(_index(device))

    @classmethod
    def get_device_properties(cls, device: Any = None) -> Any:
        return torch.npu.get_device_properties(_index(device))

    @staticmethod
    def get_compute_capability(device: Any = None) -> Any:
        return ""

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def memory_allocated(device: Any = None) -> int:
        return torch.npu.memory_allocated(_index(device))

    @staticmethod
    def is_triton_capable(device: Any = None) -> bool:
        return False

    @classmethod
    def raise_if_triton_unavailable(cls, device: Any = None) -> None:
        raise RuntimeError("the device npu has no Triton back end; use torch.compile(backend='tilewright')")


def _index(device: Any) -> int:
    if device is None:
        return 0
    if isinstance(device, int):
        return device
    return torch.device(device).index or 0


def register_device() -> None:
    """Only where `npu` is our device: a real torch_npu registers its own."""
    if torch._C._get_privateuse1_backend_name() != "npu":
        return
    module = getattr(torch, "npu", None)
    if module is None or not getattr(module, "__name__", "").startswith("tilewright"):
        return
    register_interface_for_device("npu", NpuInterface)
    for index in range(module.device_count()):
        register_interface_for_device(f"npu:{index}", NpuInterface)
