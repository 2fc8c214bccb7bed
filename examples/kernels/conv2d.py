"""Convolution 3x3 with padding 1, as nine matrix products that add up: one for each neighbour of a row of positions.

    y[b, i, j, f] = bias[f] + sum over p, q, c of weight[p, q, c, f] * x[b, i + p - 1, j + q - 1, c]        x outside of the image is zero

X [B, H, W, C] and Y [B, H, W, F]: channels last, as PyTorch's memory format channels_last has them.
"""

from __future__ import annotations

import torch
from gallery import Case

import tilewright as tw

B, H, W, C, F = tw.symbols("B H W C F")
T = tw.dtypes("T")


@tw.kernel
def conv2d_3x3(X: tw.In[T, B, H, W, C], Weight: tw.In[T, 3, 3, C, F], Bias: tw.In[T, F], Y: tw.Out[T, B, H, W, F]):
    for b, i, j, f in tw.parallel(B, H, W, F, tile=(1, 1, None, None)):
        y = tw.broadcast_to(Bias[f].to(tw.f32), (j, f))
        for p in tw.static_range(3):
            for q in tw.static_range(3):
                y += tw.load(X, (b, i + p - 1, j + q - 1, ...), fill=0.0) @ Weight[p, q, :, f]
        Y[b, i, j, f] = y.to(T)


def draw_sizes(draw):
    return {"B": draw.size(2), "H": draw.size(20), "W": draw.size(80), "C": draw.size(70), "F": draw.size(140)}


def draw_arguments(draw, n, dtype):
    return {
        "X": draw.normal(n.B, n.H, n.W, n.C, dtype=dtype),
        "Weight": draw.normal(3, 3, n.C, n.F, dtype=dtype, scale=(9 * n.C + 1) ** -0.5),
        "Bias": draw.normal(n.F, dtype=dtype),
        "Y": draw.out(n.B, n.H, n.W, n.F, dtype=dtype),
    }


def reference(a):
    if a.X.shape[-1] == 0 or a.Y.numel() == 0:
        return {"Y": a.Bias.expand(a.Y.shape)}
    image, weight = a.X.permute(0, 3, 1, 2), a.Weight.permute(3, 2, 0, 1)
    return {"Y": torch.nn.functional.conv2d(image, weight, a.Bias, padding=1).permute(0, 2, 3, 1)}


CASES = [
    Case(
        "conv2d_3x3",
        conv2d_3x3,
        draw_sizes,
        draw_arguments,
        reference,
        dtypes=(torch.float32, torch.bfloat16, torch.float16),
        tolerance=32,
        bench=({"B": 1, "H": 56, "W": 56, "C": 64, "F": 64}, {"B": 1, "H": 14, "W": 14, "C": 256, "F": 256}),
        peer=reference,
        flops=lambda n: 18.0 * n.B * n.H * n.W * n.C * n.F,
    )
]
