"""Lightning attention: linear attention whose memory fades, in chunks.

    S[t] = decay * S[t-1] + k[t]^T v[t]        o[t] = scale * q[t] S[t]        decay = exp(-slope of the head)

Q, K [B, N, H, D], V and O [B, N, H, E], First and Last [B, H, D, E]: the state before and after. A chunk adds what its positions say to each other,
as a product under a mask of powers of the decay, to what the state says (Qin et al., Lightning Attention-2, 2024, arXiv:2401.04658). A grid point
owns some columns of a head's state, which need nothing of the others.
"""

from __future__ import annotations

import torch
from gallery import Case

import tilewright as tw

B, N, H, D, E = tw.symbols("B N H D E")
T = tw.dtypes("T")


@tw.kernel
def lightning_attention(
    Q: tw.In[T, B, N, H, D],
    K: tw.In[T, B, N, H, D],
    V: tw.In[T, B, N, H, E],
    Slope: tw.In[tw.f32, H],
    First: tw.In[tw.f32, B, H, D, E],
    O: tw.Out[T, B, N, H, E],
    Last: tw.Out[tw.f32, B, H, D, E],
    scale: float,
):
    for b, h, e in tw.parallel(B, H, E, tile=(1, 1, 64)):
        slope = Slope[h]
        state = First[b, h, :, e]
        for t in tw.range(N, tile=64):
            q, k, v = Q[b, t, h, :], K[b, t, h, :], V[b, t, h, e]
            step = tw.iota(t).to(tw.f32)
            distance = step[:, None] - step
            fade = tw.where(distance >= 0.0, tw.exp(-slope * distance), 0.0)
            here = ((q @ k.T) * fade).to(T) @ v
            before = (q @ state.to(T)) * tw.exp(-slope * (step + 1.0))[:, None]
            O[b, t, h, e] = ((here + before) * scale).to(T)
            rest = tw.exp(-slope * (t.size - 1 - step))
            state = state * tw.exp(-slope * t.size) + (k.to(tw.f32) * rest[:, None]).T @ v.to(tw.f32)
        Last[b, h, :, e] = state


def draw_sizes(draw):
    return {"B": draw.size(2), "N": draw.size(260), "H": draw.size(3), "D": draw.size(80), "E": draw.size(140)}


def draw_arguments(draw, n, dtype):
    return {
        "Q": draw.normal(n.B, n.N, n.H, n.D, dtype=dtype),
        "K": draw.normal(n.B, n.N, n.H, n.D, dtype=dtype),
        "V": draw.normal(n.B, n.N, n.H, n.E, dtype=dtype),
        "Slope": draw.uniform(n.H),
        "First": draw.normal(n.B, n.H, n.D, n.E),
        "O": draw.out(n.B, n.N, n.H, n.E, dtype=dtype),
        "Last": draw.out(n.B, n.H, n.D, n.E),
        "scale": max(n.D, 1) ** -0.5,
    }


def reference(a):
    state, rows = a.First.clone(), []
    for t in range(a.Q.shape[1]):
        state = state * torch.exp(-a.Slope)[:, None, None] + a.K[:, t, :, :, None] * a.V[:, t, :, None, :]
        rows.append((a.Q[:, t, :, None, :] @ state)[:, :, 0] * a.scale)
    return {"O": torch.stack(rows, 1) if rows else torch.zeros_like(a.V), "Last": state}


def flops(n):
    return 2.0 * n.B * n.N * n.H * (64 * (n.D + n.E) + 2 * n.D * n.E)


CASES = [
    Case(
        "lightning_attention",
        lightning_attention,
        draw_sizes,
        draw_arguments,
        reference,
        dtypes=(torch.float32, torch.bfloat16, torch.float16),
        tolerance=32,
        floor=1.0,
        bench=({"B": 1, "N": 2048, "H": 8, "D": 128, "E": 128},),
        flops=flops,
    )
]
