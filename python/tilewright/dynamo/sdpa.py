"""`tilewright::sdpa`: scaled dot product attention that reaches the graph as one node.

PyTorch's own `scaled_dot_product_attention` is composite: AOTAutograd would see a device's private flash kernel or the math
that it stands for. Before AOTAutograd every call in Dynamo's graph is replaced by this operator. It stays whole where no gradient is asked for
(and no dropout); else it gives PyTorch's math path, whose matmuls and softmax are differentiated and compiled one by one.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

_SCHEMA = (
    "sdpa(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, "
    "float? scale=None, bool enable_gqa=False) -> Tensor"
)
_library = torch.library.Library("tilewright", "FRAGMENT")
_library.define(_SCHEMA)


def attention_math(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T * scale + mask) v in plain operators; rows that are masked out entirely give 0, as in PyTorch."""
    factor = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError("scaled_dot_product_attention: give attn_mask or is_causal, not both")
        attn_mask = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool, device=query.device).tril()
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
        value = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
    scores = torch.matmul(query * factor, key.transpose(-2, -1))
    if attn_mask is None:
        weights = torch.softmax(scores, -1)
    else:
        if attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(attn_mask.logical_not(), -math.inf)
        else:
            scores = scores + attn_mask
        weights = torch.ops.aten._safe_softmax.default(scores, -1)
    if dropout_p > 0.0:
        weights = F.dropout(weights, dropout_p)
    return torch.matmul(weights, value)


def _result_shape(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> list[int]:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() < 2:
            raise RuntimeError(f"scaled_dot_product_attention: {name} needs at least 2 dimensions, has {tensor.dim()}")
    batch = query.shape[:-3] if enable_gqa else query.shape[:-2]
    others = [key.shape[:-3], value.shape[:-3]] if enable_gqa else [key.shape[:-2], value.shape[:-2]]
    batch = torch.broadcast_shapes(batch, *others)
    heads = [query.size(-3)] if enable_gqa else []
    return [*batch, *heads, query.size(-2), value.size(-1)]


def _fake(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            f"scaled_dot_product_attention: query, key and value need one dtype, have {query.dtype}, {key.dtype}, {value.dtype}"
        )
    return query.new_empty(_result_shape(query, key, value, enable_gqa))


def _eager(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """As an island, and in the tests' reference."""
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    ).contiguous()


def _autograd(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    tensors = [t for t in (query, key, value, attn_mask) if t is not None]
    if dropout_p > 0.0 or (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
        return attention_math(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.tilewright.sdpa.default(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )


def _autocast(device: str):
    def cast_and_call(
        query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
    ):
        dtype = torch.get_autocast_dtype(device)

        def cast(t: Tensor | None) -> Tensor | None:
            if t is None or not t.is_floating_point() or t.device.type != device or t.dtype == torch.float64:
                return t
            return t.to(dtype)

        query, key, value, attn_mask = cast(query), cast(key), cast(value), cast(attn_mask)
        with torch._C._DisableAutocast():
            return torch.ops.tilewright.sdpa.default(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )

    return cast_and_call


_library.impl("sdpa", _eager, "CompositeExplicitAutograd")
_library.impl("sdpa", _autograd, "Autograd")
_library.impl("sdpa", _autocast("cpu"), "AutocastCPU")
_library.impl("sdpa", _autocast("npu"), "AutocastPrivateUse1")
torch.library.register_fake("tilewright::sdpa", _fake, lib=_library)
