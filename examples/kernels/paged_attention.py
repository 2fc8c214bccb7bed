"""Decode attention over a paged cache: one query a sequence, whose keys lie in pages of S positions anywhere in a pool.

Q [B, G*R, D] asks the pools K [P, S, G, D] and V [P, S, G, E]; position n of sequence b is row n % S of page Table[b, n // S], and the sequence
has Length[b] positions. Query head h reads key head h // R, so that the R heads of one key head are the rows of one product (Kwon et al.,
PagedAttention, 2023, arXiv:2309.06180). Only positions that exist are read; a sequence of none gives zeros.
"""

from __future__ import annotations

import torch
from flash_attention import INFINITY, attend, finished
from gallery import Case

import tilewright as tw

B, G, R, W, P, S, D, E = tw.symbols("B G R W P S D E")
T = tw.dtypes("T")


@tw.kernel
def paged_attention(
    Q: tw.In[T, B, G * R, D],
    K: tw.In[T, P, S, G, D],
    V: tw.In[T, P, S, G, E],
    Table: tw.In[tw.i32, B, W],
    Length: tw.In[tw.i32, B],
    O: tw.Out[T, B, G * R, E],
    scale: float,
    R: int = 1,
):
    for b, g in tw.parallel(B, G, tile=(1, 1)):
        q = Q[b, g * R : g * R + R, :]
        acc, top, total = tw.zeros((R, E)), tw.full((R,), -INFINITY, tw.f32), tw.zeros((R,))
        length = Length[b]
        for w in range((length + S - 1) // S):
            page = Table[b, w]
            for j in tw.range(0, tw.minimum(length - w * S, S)):
                s = (q @ K[page, j, g, :].T) * scale
                acc, top, total = attend(acc, top, total, s, V[page, j, g, :])
        o, _ = finished(acc, top, total)
        O[b, g * R : g * R + R, :] = o.to(T)


def draw_sizes(draw):
    heads = {"B": draw.size(3), "G": draw.size(3), "R": draw.random.choice((1, 2, 7)), "W": draw.size(7)}
    return heads | {"S": draw.random.choice((1, 3, 16, 64)), "D": draw.size(80), "E": draw.size(80)}


def draw_arguments(draw, n, dtype):
    """Pages in a random order; those that belong to nobody hold NaN."""
    pages = n.B * n.W + 1
    keys, values = (draw.normal(pages, n.S, n.G, size, dtype=dtype) for size in (n.D, n.E))
    order = torch.randperm(pages, generator=draw.generator)
    keys[order[-1]] = values[order[-1]] = float("nan")
    return {
        "Q": draw.normal(n.B, n.G * n.R, n.D, dtype=dtype),
        "K": keys,
        "V": values,
        "Table": order[:-1].reshape(n.B, n.W).to(torch.int32),
        "Length": draw.integers(0, n.W * n.S + 1, n.B, dtype=torch.int32),
        "O": draw.out(n.B, n.G * n.R, n.E, dtype=dtype),
        "scale": max(n.D, 1) ** -0.5,
        "R": n.R,
    }


def reference(a):
    rows = []
    for b in range(a.Q.shape[0]):
        pages, length = a.Table[b].long(), int(a.Length[b])
        k, v = (t[pages].flatten(0, 1)[:length].repeat_interleave(a.R, 1).transpose(0, 1) for t in (a.K, a.V))
        rows.append(((a.Q[b][:, None] @ k.mT * a.scale).softmax(-1) @ v)[:, 0])
    return {"O": torch.stack(rows) if rows else torch.zeros(a.O.shape, dtype=a.Q.dtype)}


CASES = [
    Case(
        "paged_attention",
        paged_attention,
        draw_sizes,
        draw_arguments,
        reference,
        dtypes=(torch.float32, torch.bfloat16, torch.float16),
        tolerance=24,
        floor=0.1,
        bench=({"B": 8, "G": 8, "R": 4, "W": 128, "S": 16, "D": 128, "E": 128},),
        peer=reference,
    )
]
