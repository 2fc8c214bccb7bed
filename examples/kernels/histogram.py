"""Histogram: H[b] is the number of elements of X in [low + b * width, low + (b + 1) * width); what lies outside is not counted.

In `histogram` a grid point owns a range of bins and reads all of X, so that no two write one bin: for few bins. In `histogram_atomic` grid
points share X out and meet in the bins, which the caller has filled with zeros.
"""

import torch
from gallery import Case

import tilewright as tw

N, B = tw.symbols("N B")


@tw.kernel
def histogram(X: tw.In[tw.f32, N], H: tw.Out[tw.i64, B], low: float, width: float):
    for j in tw.parallel(B):
        count = tw.zeros((j,), tw.i64)
        for i in tw.range(N):
            place = tw.floor((X[i] - low) / width)
            count += tw.sum(place[:, None] == tw.indices(j).to(tw.f32), axis=0)
        H[j] = count


@tw.kernel
def histogram_atomic(X: tw.In[tw.f32, N], H: tw.InOut[tw.i64, B], low: float, width: float):
    for i in tw.parallel(N):
        place = tw.floor((X[i] - low) / width)
        inside = (place >= 0.0) & (place < B)
        tw.atomic_add(H, (tw.where(inside, place, 0.0).to(tw.i64),), inside.to(tw.i64))


def _reference(a):
    place = ((a.X.float() - a.low) / a.width).floor()  # as the kernel rounds it
    inside = (place >= 0) & (place < len(a.H))
    return {"H": torch.bincount(place[inside].long(), minlength=len(a.H))}


def _case(kernel, bins, least):
    return Case(
        kernel.name,
        kernel,
        sizes=lambda draw: {"N": draw.size(5000), "B": draw.size(150, least=least)},
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.N),
            "H": torch.zeros(n.B, dtype=torch.int64) if least else draw.out(n.B, dtype=torch.int64),
            "low": -2.0,
            "width": 0.0625,
        },
        reference=_reference,
        bench=({"N": 10_000, "B": bins}, {"N": 10_000_000, "B": bins}),
        peer=lambda a: torch.histc(a.X, len(a.H), a.low, a.low + a.width * len(a.H)),
    )


CASES = [_case(histogram, 64, 0), _case(histogram_atomic, 64, 1)]
