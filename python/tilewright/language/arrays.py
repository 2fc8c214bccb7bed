"""Memory of others as torch tensors, and whether two tensors share any."""

from __future__ import annotations

import sys
from typing import Any

import torch


def is_array(value: Any) -> bool:
    """Whether it is an array of NumPy (which is not imported for this)."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_number(value: Any) -> bool:
    """Whether it is one of NumPy's numbers."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


class _Described:
    """What NumPy makes an array of without asking whether it may be written. Holds what the memory belongs to."""

    def __init__(self, owner: Any, interface: dict[str, Any]) -> None:
        self.owner, self.__array_interface__ = owner, interface


def tensor_of(array: Any) -> torch.Tensor:
    """The array's memory as a tensor, without a copy, also where the array must not be written.

    Raises ValueError for what a tensor cannot be: negative strides, another byte order, a dtype that torch does not have.
    """
    import numpy

    if not array.dtype.isnative:
        raise ValueError(
            f"it has the byte order {array.dtype.byteorder!r}; use array.astype(array.dtype.newbyteorder('='))"
        )
    if any(s < 0 for s in array.strides):
        raise ValueError("it has a negative stride; use numpy.ascontiguousarray(array)")
    other = getattr(torch, array.dtype.name, None) if array.dtype.kind == "V" else None  # bfloat16 of ml_dtypes
    if isinstance(other, torch.dtype):
        array = array.view(f"i{array.dtype.itemsize}")
    if not array.flags.writeable:
        interface = dict(array.__array_interface__)
        array = numpy.asarray(_Described(array, {**interface, "data": (interface["data"][0], False)}))
    try:
        tensor = torch.from_numpy(array)
    except TypeError as error:
        raise ValueError(f"it has the dtype {array.dtype}, which torch does not have") from error
    return tensor.view(other) if isinstance(other, torch.dtype) else tensor


def array_of(tensor: torch.Tensor, like: Any) -> Any:
    """A result as an array. `like` is an argument, whose dtype is taken where NumPy's own names do not have the tensor's."""
    if tensor.dtype != torch.bfloat16:
        return tensor.numpy()
    return tensor.view(torch.int16).numpy().view(like.dtype if like.dtype.name == "bfloat16" else "bfloat16")


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether an element of one has a byte of the other. Exact, and the memory is not looked at."""
    import numpy

    return bool(numpy.shares_memory(_outline(a), _outline(b)))


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether two of its elements are one."""
    addresses = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        addresses = addresses.unsqueeze(-1) + stride * torch.arange(size)
    return addresses.unique().numel() != tensor.numel()


def _outline(tensor: torch.Tensor) -> Any:
    import numpy

    bytes_ = tensor.element_size()
    interface = {
        "version": 3,
        "shape": tuple(tensor.shape),
        "strides": tuple(s * bytes_ for s in tensor.stride()),
        "typestr": f"|V{bytes_}",
        "data": (tensor.data_ptr(), True),
    }
    return numpy.asarray(_Described(tensor, interface))
