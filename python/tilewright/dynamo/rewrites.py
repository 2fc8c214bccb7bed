"""Calls in Dynamo's graph that are replaced before AOTAutograd, because what it would make of them can no longer be fused.

scaled_dot_product_attention becomes `tilewright::sdpa`; the fused operators that nn.MultiheadAttention and nn.TransformerEncoderLayer
take as a fast path in inference become what they stand for.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
import torch.nn.functional as F
from torch import Tensor

from . import sdpa as _sdpa  # noqa: F401  (registers the operator)

_BUILTIN_SDPA = torch._C._nn.scaled_dot_product_attention


def _with_our_attention(function: Any) -> Callable[..., Any]:
    """A Python function of torch.nn.functional for which scaled_dot_product_attention is our operator."""
    names = {**function.__globals__, "scaled_dot_product_attention": torch.ops.tilewright.sdpa.default}
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    names[function.__name__] = copy  # what it hands itself to modes of __torch_function__ as
    return copy


_multi_head_attention_forward = _with_our_attention(F.multi_head_attention_forward)

# Kinds of masks of the fast path (nn.MultiheadAttention.merge_masks). True means: left out.
_MASK_OF_POSITIONS, _MASK_OF_KEYS = 0, 1


def _attention_mask(mask: Tensor | None, mask_type: int | None) -> Tensor | None:
    if mask is None:
        return None
    kept = mask.to(torch.bool).logical_not()
    if mask_type == _MASK_OF_KEYS:
        return kept[:, None, None, :]
    return kept


def _self_attention(
    x: Tensor, heads: int, qkv_weight: Tensor, qkv_bias: Tensor | None, mask: Tensor | None, mask_type: int | None
) -> Tensor:
    batch, length, features = x.shape
    q, k, v = (
        F.linear(x, qkv_weight, qkv_bias)
        .view(batch, length, 3, heads, features // heads)
        .permute(2, 0, 3, 1, 4)
        .unbind(0)
    )
    out = torch.ops.tilewright.sdpa.default(q, k, v, _attention_mask(mask, mask_type))
    return out.transpose(1, 2).reshape(batch, length, features)


def _transformer_encoder_layer_fwd(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    def attention(x: Tensor) -> Tensor:
        return F.linear(_self_attention(x, num_heads, qkv_weight, qkv_bias, mask, mask_type), proj_weight, proj_bias)

    def feed_forward(x: Tensor) -> Tensor:
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(hidden) if use_gelu else F.relu(hidden), ffn_weight_2, ffn_bias_2)

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), weight, bias, eps)

    if norm_first:
        x = src + attention(norm(src, norm_weight_1, norm_bias_1))
        return x + feed_forward(norm(x, norm_weight_2, norm_bias_2))
    x = norm(src + attention(src), norm_weight_1, norm_bias_1)
    return norm(x + feed_forward(x), norm_weight_2, norm_bias_2)


def _native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    out = F.linear(_self_attention(query, num_head, qkv_weight, qkv_bias, mask, mask_type), proj_weight, proj_bias)
    return out, None


def _is_plain_self_attention(node: torch.fx.Node) -> bool:
    """No weights asked for, query, key and value one tensor: what _native_multi_head_attention above can say."""
    args = dict(enumerate(node.args))
    same = args.get(0) is args.get(1) is args.get(2)
    need_weights = args.get(10, node.kwargs.get("need_weights", True))
    return same and not need_weights


def _writing_kernel(node: torch.fx.Node) -> Callable[..., Any] | None:
    """For a hand-written kernel that writes in place: one that writes nothing and copies. What else AOTAutograd makes of it is no operator."""
    target = node.target
    if isinstance(target, torch._ops.OpOverloadPacket) and target._qualified_op_name.startswith("tilewright_kernels::"):
        target = (
            target.out if "out" in target.overloads() and node.kwargs.keys() & _written(target.out) else target.default
        )
    if (
        not isinstance(target, torch._ops.OpOverload)
        or target.namespace != "tilewright_kernels"
        or not _written(target)
    ):
        return None
    from ..language import operators

    kernel, is_out = operators.registered[target._opname], target._overloadname == "out"

    def call(*args: Any, **kwargs: Any) -> Any:
        values = operators.named_arguments(kernel, args, kwargs)
        return operators.call_functional(kernel, operators.operators_of(kernel), values, returns_outputs=is_out)

    return call


def _written(op: torch._ops.OpOverload) -> set[str]:
    return {a.name for a in op._schema.arguments if a.is_write}


_REPLACEMENTS: dict[Any, tuple[Callable[..., Any], Callable[[torch.fx.Node], bool] | None]] = {
    F.scaled_dot_product_attention: (torch.ops.tilewright.sdpa.default, None),
    _BUILTIN_SDPA: (torch.ops.tilewright.sdpa.default, None),
    torch.ops.aten.scaled_dot_product_attention.default: (torch.ops.tilewright.sdpa.default, None),
    F.multi_head_attention_forward: (_multi_head_attention_forward, None),
    torch._transformer_encoder_layer_fwd: (_transformer_encoder_layer_fwd, None),
    torch._native_multi_head_attention: (_native_multi_head_attention, _is_plain_self_attention),
}


def rewrite(gm: torch.fx.GraphModule) -> None:
    """Replaces the calls above, and operators of hand-written kernels that write in place, in nested graphs too."""
    for module in gm.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        changed = False
        for node in module.graph.nodes:
            if node.op != "call_function":
                continue
            kernel = _writing_kernel(node)
            if kernel is not None:
                node.target = kernel
                changed = True
                continue
            replacement, condition = _REPLACEMENTS.get(node.target, (None, None))
            if replacement is not None and (condition is None or condition(node)):
                node.target = replacement
                changed = True
        if changed:
            module.recompile()
