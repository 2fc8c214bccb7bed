"""Which operators AOTAutograd takes apart before we see the graph: core ATen, but for those that the compiler lowers whole."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten

#: Kept although a decomposition exists: one row kernel, one gather or one contraction each. All but `addmm`, `mm` and `bmm`
#: would come out as several passes over memory or lose the accuracy of the fused form.
KEPT: tuple[Any, ...] = (
    _aten.native_layer_norm,
    _aten.gelu,
    _aten._softmax,
    _aten._log_softmax,
    _aten.embedding,
    _aten.addmm,
    _aten.mm,
    _aten.bmm,
    _aten.native_group_norm,
    _aten.upsample_nearest2d,
    _aten.upsample_bilinear2d,
    _aten.lift_fresh,
    # Its decomposition returns something else as second result than the operator's own backward expects.
    _aten._scaled_dot_product_flash_attention_for_cpu,
)

#: Taken apart although core ATen keeps them.
_EXTRA: tuple[Any, ...] = (
    _aten.native_dropout,
    _aten.native_dropout_backward,
    _aten.var_mean,
    _aten._native_batch_norm_legit,
    _aten._native_batch_norm_legit_functional,
    _aten._native_batch_norm_legit_no_training,
    _aten.native_batch_norm,
    _aten.native_batch_norm_backward,
    _aten.nll_loss_forward,
    _aten.nll_loss_backward,
    _aten.aminmax,
    _aten._unsafe_index,
    _aten.expand_copy,
    _aten.upsample_nearest2d_backward,
    _aten.upsample_nearest1d,
    _aten.upsample_nearest3d,
    _aten._upsample_nearest_exact1d,
    _aten._upsample_nearest_exact2d,
    _aten._upsample_nearest_exact3d,
)


@functools.cache
def decompositions() -> dict[torch._ops.OperatorBase, Callable[..., Any]]:
    """The table for AOTAutograd. Composite operators (linear, matmul) are not in it: AOTAutograd takes them apart by itself, and
    the table with them, `core_aten_decompositions`, takes ten times as long to make."""
    from torch._decomp import _core_aten_decompositions_post_autograd, get_decompositions, remove_decompositions

    table: dict[Any, Callable[..., Any]] = dict(_core_aten_decompositions_post_autograd())
    table.update(get_decompositions(_EXTRA))
    remove_decompositions(table, KEPT)
    return table


def with_kernels() -> dict[torch._ops.OperatorBase, Callable[..., Any]]:
    """The table, and with it the hand-written kernels of this process that are of whole-tensor form, which fuse with what is around them."""
    operators = sys.modules.get("tilewright.language.operators")
    if operators is None or not operators.registered:
        return decompositions()
    from ..language.inlining import decompositions as kernels

    return {**decompositions(), **kernels()}
