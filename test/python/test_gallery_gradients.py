"""The gallery's kernels under autograd."""

from __future__ import annotations

import importlib
import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "kernels"))
attention = importlib.import_module("flash_attention")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("threads", [1, 64])
def test_flash_attention(causal, threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)  # by all heads at once, or by dQ and dK, dV apart
    wide = [torch.randn(2, heads, 37, 16, dtype=torch.float64, requires_grad=True) for heads in (4, 2, 2)]
    q, k, v = (t.detach().float().requires_grad_() for t in wide)

    def loss(o, lse):
        return o.sin().sum() + (lse * lse).sum()

    loss(*attention.flash_attention(q, k, v, scale=0.25, R=2, causal=causal)).backward()
    scores = wide[0] @ wide[1].repeat_interleave(2, 1).mT * 0.25
    if causal:
        scores = scores.masked_fill(torch.ones(37, 37, dtype=torch.bool).triu(1), float("-inf"))
    loss(scores.softmax(-1) @ wide[2].repeat_interleave(2, 1), scores.logsumexp(-1)).backward()
    for got, want in zip((q, k, v), wide, strict=True):
        torch.testing.assert_close(got.grad, want.grad.float(), rtol=1e-4, atol=1e-4)
