"""torch.npu.amp: mixed precision under the names that older scripts use. torch.amp.autocast("npu") is the same."""

from __future__ import annotations

import functools

import torch

autocast = functools.partial(torch.amp.autocast, "npu")
GradScaler = functools.partial(torch.amp.GradScaler, "npu")
custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="npu")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="npu")
