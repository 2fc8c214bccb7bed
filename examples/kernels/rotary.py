"""Rotary position embedding (Su et al., "RoFormer", 2021): pairs of a head's elements are turned by an angle that grows with the position.

(x, y) becomes (x cos - y sin, y cos + x sin). The pairs are (d, d + D) in `rotary_half` (GPT-NeoX, Llama), (2 d, 2 d + 1) in
`rotary_interleaved` (the paper's, GPT-J). X is [batch, position, head, 2 D], Cos and Sin are [position, D].
"""

import torch
from gallery import Case

import tilewright as tw

B, L, H, D = tw.symbols("B L H D")
T = tw.dtypes("T")


@tw.kernel
def rotary_half(
    X: tw.In[T, B, L, H, 2 * D], Cos: tw.In[tw.f32, L, D], Sin: tw.In[tw.f32, L, D], Y: tw.Out[T, B, L, H, 2 * D]
):
    for b, t, h, d in tw.parallel(B, L, H, D):
        x, y = X[b, t, h, d].to(tw.f32), X[b, t, h, d + D].to(tw.f32)
        cos, sin = Cos[t, d][:, None, :], Sin[t, d][:, None, :]
        Y[b, t, h, d] = (x * cos - y * sin).to(T)
        Y[b, t, h, d + D] = (y * cos + x * sin).to(T)


@tw.kernel
def rotary_interleaved(
    X: tw.In[T, B, L, H, 2 * D], Cos: tw.In[tw.f32, L, D], Sin: tw.In[tw.f32, L, D], Y: tw.Out[T, B, L, H, 2 * D]
):
    for b, t, h, d in tw.parallel(B, L, H, D):
        x, y = X[b, t, h, d * 2].to(tw.f32), X[b, t, h, d * 2 + 1].to(tw.f32)
        cos, sin = Cos[t, d][:, None, :], Sin[t, d][:, None, :]
        Y[b, t, h, d * 2] = (x * cos - y * sin).to(T)
        Y[b, t, h, d * 2 + 1] = (y * cos + x * sin).to(T)


def _arguments(draw, n, dtype):
    angle = torch.arange(n.L)[:, None] * 10000.0 ** (-torch.arange(n.D) / max(n.D, 1))
    return {
        "X": draw.normal(n.B, n.L, n.H, 2 * n.D, dtype=dtype),
        "Cos": angle.cos().float(),
        "Sin": angle.sin().float(),
        "Y": draw.out(n.B, n.L, n.H, 2 * n.D, dtype=dtype),
    }


def _half(a):
    x, y = a.X.chunk(2, 3)
    cos, sin = a.Cos[:, None, :].to(x.dtype), a.Sin[:, None, :].to(x.dtype)
    return torch.cat((x * cos - y * sin, y * cos + x * sin), 3)


def _interleaved(a):
    x, y = a.X[..., 0::2], a.X[..., 1::2]
    cos, sin = a.Cos[:, None, :].to(x.dtype), a.Sin[:, None, :].to(x.dtype)
    return torch.stack((x * cos - y * sin, y * cos + x * sin), 4).flatten(3)


CASES = [
    Case(
        kernel.name,
        kernel,
        sizes=lambda draw: {"B": draw.size(3), "L": draw.size(70), "H": draw.size(9), "D": draw.size(70)},
        arguments=_arguments,
        reference=lambda a, turn=turn: {"Y": turn(a)},
        dtypes=(torch.float32, torch.bfloat16, torch.float16),
        floor=1,
        bench=({"B": 1, "L": 128, "H": 8, "D": 32}, {"B": 4, "L": 2048, "H": 16, "D": 64}),
        peer=turn,
    )
    for kernel, turn in ((rotary_half, _half), (rotary_interleaved, _interleaved))
]
