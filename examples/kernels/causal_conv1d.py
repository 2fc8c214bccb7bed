"""Causal depthwise convolution along time, with SiLU if wanted: what Mamba, KDA and their kin do before they mix.

    y[b, t, c] = silu(bias[c] + sum over w of weight[w, c] * x[b, t - (W - 1) + w, c])        x before t = 0 is zero

X and Y [B, N, C], Weight [W, C], Bias [C]. `width` is W, as a constant, so that the taps are written out.
"""

from __future__ import annotations

import torch
from gallery import Case

import tilewright as tw

B, N, C, W = tw.symbols("B N C W")
T = tw.dtypes("T")


@tw.kernel
def causal_conv1d(
    X: tw.In[T, B, N, C],
    Weight: tw.In[T, W, C],
    Bias: tw.In[T, C],
    Y: tw.Out[T, B, N, C],
    width: tw.const = 4,
    silu: tw.const = True,
):
    tw.static_assert(width == W, "the weight has another width")
    for b, t, c in tw.parallel(B, N, C, tile=(1, None, None)):
        y = tw.broadcast_to(Bias[c].to(tw.f32), (t, c))
        for w in tw.static_range(width):
            x = tw.load(X, (b, t - (width - 1 - w), c), fill=0.0)
            y += Weight[w, c].to(tw.f32) * x.to(tw.f32)
        Y[b, t, c] = (y * tw.sigmoid(y) if silu else y).to(T)


def draw_arguments(draw, n, dtype):
    return {
        "X": draw.normal(n.B, n.N, n.C, dtype=dtype),
        "Weight": draw.normal(n.W, n.C, dtype=dtype),
        "Bias": draw.normal(n.C, dtype=dtype),
        "Y": draw.out(n.B, n.N, n.C, dtype=dtype),
        "width": n.W,
        "silu": draw.random.random() < 0.7,
    }


def reference(a):
    if 0 in a.X.shape:
        return {"Y": torch.zeros_like(a.X)}
    padded = torch.nn.functional.pad(a.X.mT, (a.width - 1, 0))
    y = torch.nn.functional.conv1d(padded, a.Weight.T[:, None], a.Bias, groups=a.X.shape[2]).mT
    return {"Y": torch.nn.functional.silu(y) if a.silu else y}


CASES = [
    Case(
        "causal_conv1d",
        causal_conv1d,
        lambda draw: {"B": draw.size(3), "N": draw.size(300), "C": draw.size(200), "W": draw.random.choice((1, 2, 4))},
        draw_arguments,
        reference,
        dtypes=(torch.float32, torch.bfloat16, torch.float16),
        bench=({"B": 1, "N": 2048, "C": 4096, "W": 4},),
        peer=reference,
    )
]
