"""Streams and events of the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright import _C

from .device import DeviceLike, index_of


class _OfNpu(type):
    """Class of classes whose instances are PyTorch's own streams and events, on npu: PyTorch refuses subclasses in places."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.base) and instance.device.type == "npu"  # type: ignore[attr-defined]


class Stream(metaclass=_OfNpu):
    """An asynchronous queue: a torch.Stream on npu. New ones are handed out round robin from a pool. Priority below 0 means high."""

    base = torch.Stream

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> torch.Stream:  # type: ignore[misc]
        if kwargs:  # stream_id, device_index, device_type: an existing stream
            return torch.Stream(priority=priority, **kwargs)
        return torch.Stream(torch.device("npu", index_of(device)), priority=priority)


class Event(metaclass=_OfNpu):
    """A place in a stream's queue, to wait for or to measure from (enable_timing=True): a torch.Event on npu."""

    base = torch.Event

    def __new__(  # type: ignore[misc]
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        if interprocess:
            raise NotImplementedError("events of npu cannot be shared between processes")
        return torch.Event("npu", enable_timing=enable_timing, blocking=blocking)


def current_stream(device: DeviceLike = None) -> torch.Stream:
    """The stream that operators of this thread go to."""
    index_of(device)
    return torch._C._accelerator_getStream(0)


def default_stream(device: DeviceLike = None) -> torch.Stream:
    index_of(device)
    return torch.Stream(stream_id=0, device_index=0, device_type=int(torch._C._autograd.DeviceType.PrivateUse1))


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream current for this thread. Prefer `with torch.npu.stream(s):`."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """Context manager that makes a stream current. None: no effect."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._previous: list[torch.Stream] = []

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self._previous.append(current_stream())
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *_: Any) -> None:
        if self.stream is not None:
            set_stream(self._previous.pop())


def stream(stream: torch.Stream | None) -> StreamContext:
    return StreamContext(stream)


def synchronize(device: DeviceLike = None) -> None:
    """Waits for all streams. Raises what went wrong in earlier work."""
    index_of(device)
    _C.synchronize()


def launch_host_function(stream: torch.Stream, function: Callable[[], Any]) -> None:
    """Queues a Python function on a stream: it runs on the stream's thread after all work queued so far. What it raises is raised at the next wait."""
    _C.launch_host_function(stream.stream_id, function)
