"""Embedding bag: Y[b, :] is the sum (or mean) of the rows of W that bag b names: Index[Offsets[b]], .. Index[Offsets[b + 1] - 1].

Bags may be empty, which gives 0, and W may be large: only the named rows are read.
"""

import torch
import torch.nn.functional as F
from gallery import Case

import tilewright as tw

R, D, B, I = tw.symbols("R D B I")
T = tw.dtypes("T")


@tw.kernel
def embedding_bag(
    W: tw.In[T, R, D],
    Index: tw.In[tw.i64, I],
    Offsets: tw.In[tw.i64, B + 1],
    Y: tw.Out[T, B, D],
    mean: tw.const = False,
):
    for b in tw.parallel(B, tile=1):
        begin, end = Offsets[b], Offsets[b + 1]
        total = tw.zeros((D,), tw.f32)
        for t in range(begin, end):
            total += W[Index[t], :].to(tw.f32)
        if mean:
            total = total / tw.maximum(end - begin, 1).to(tw.f32)
        Y[b, :] = total.to(T)


def _arguments(draw, n, dtype, mean):
    cuts = draw.integers(0, n.I + 1, n.B + 1) if n.R else torch.zeros(n.B + 1, dtype=torch.int64)
    cuts[0] = 0
    return {
        "W": draw.normal(n.R, n.D, dtype=dtype),
        "Index": draw.integers(0, n.R, n.I),
        "Offsets": cuts.sort().values,
        "Y": draw.out(n.B, n.D, dtype=dtype),
        "mean": mean,
    }


def _reference(a):
    y = torch.zeros(len(a.Offsets) - 1, a.W.shape[1], dtype=a.W.dtype)
    for b, (begin, end) in enumerate(zip(a.Offsets[:-1].tolist(), a.Offsets[1:].tolist(), strict=True)):
        rows = a.W[a.Index[begin:end]]
        y[b] = rows.sum(0) / (max(end - begin, 1) if a.mean else 1)
    return {"Y": y}


CASES = [
    Case(
        f"embedding_bag_{mode}",
        embedding_bag,
        sizes=lambda draw: {"R": draw.size(300), "D": draw.size(150), "B": draw.size(70), "I": draw.size(300)},
        arguments=lambda draw, n, dtype, mean=mode == "mean": _arguments(draw, n, dtype, mean),
        reference=_reference,
        dtypes=(torch.float32, torch.bfloat16, torch.float16),
        floor=1,
        bench=({"R": 1000, "D": 64, "B": 128, "I": 1024}, {"R": 100_000, "D": 128, "B": 4096, "I": 65536}),
        peer=lambda a, mode=mode: F.embedding_bag(a.Index, a.W, a.Offsets, mode=mode, include_last_offset=True),
    )
    for mode in ("sum", "mean")
]
