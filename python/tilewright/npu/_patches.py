"""Where PyTorch has no hook for a device of its own, and its own method would be wrong for npu.

Printing: PyTorch formats a tensor by dozens of operators on it. For npu it gets a copy in host memory, as it does for other devices that
compile their operators. Addresses: whoever asks for a tensor's address may write through it, unseen by the device, which keeps packed
weights until their memory is written. So handing an address out counts as a write.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils.dlpack

from tilewright import _C


def install() -> None:
    _patch_printing()
    _patch_data_ptr()
    _patch_dlpack()


def _patch_printing() -> None:
    module = torch._tensor_str
    original = module._tensor_str

    def _tensor_str(self: torch.Tensor, indent: int) -> str:
        if self.device.type == "npu" and type(self) in (torch.Tensor, torch.nn.Parameter):
            self = self.detach().cpu()
        return original(self, indent)

    module._tensor_str = _tensor_str


def _patch_data_ptr() -> None:
    tensor_data_ptr = torch._C.TensorBase.data_ptr
    storage_data_ptr = torch._C.StorageBase.data_ptr

    def data_ptr(self: torch.Tensor) -> int:
        address = tensor_data_ptr(self)
        if address and not self.is_cpu and self.device.type == "npu":
            _C.hand_out(address, False)
        return address

    def untyped_data_ptr(self: torch.UntypedStorage) -> int:
        address = storage_data_ptr(self)
        if address and self.device.type == "npu":
            _C.hand_out(address, False)
        return address

    data_ptr.__doc__ = tensor_data_ptr.__doc__
    torch.Tensor.data_ptr = data_ptr
    torch.UntypedStorage.data_ptr = untyped_data_ptr


def _patch_dlpack() -> None:
    dlpack, dlpack_device = torch.Tensor.__dlpack__, torch.Tensor.__dlpack_device__
    to_dlpack = torch.utils.dlpack.to_dlpack

    def export(self: torch.Tensor, **kwargs: Any) -> Any:
        _hand_out_for_good(self)
        return dlpack(self, **kwargs)

    def export_device(self: torch.Tensor) -> tuple[Any, int]:
        if self.device.type == "npu":  # PyTorch looks for the name "privateuse1", which a renamed device no longer has
            return torch.utils.dlpack.DLDeviceType.kDLExtDev, 0
        return dlpack_device(self)

    def to_dlpack_of_npu(tensor: torch.Tensor) -> Any:
        _hand_out_for_good(tensor)
        return to_dlpack(tensor)

    torch.Tensor.__dlpack__ = export
    torch.Tensor.__dlpack_device__ = export_device
    torch.utils.dlpack.to_dlpack = torch.to_dlpack = to_dlpack_of_npu


def _hand_out_for_good(tensor: torch.Tensor) -> None:
    if tensor.device.type == "npu" and (address := torch._C.TensorBase.data_ptr(tensor)):
        _C.synchronize()  # the receiver knows nothing of our streams
        _C.hand_out(address, True)
