"""Softmax over the last dimension: Y[m, n] = exp(X[m, n] - max_n X[m, n]) / sum_n of the same.

`softmax` holds a row at a time. `softmax_long` is for rows that leave the cache: one pass keeps the running maximum and the sum scaled to it
(Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018), a second one writes.
"""

import torch
from gallery import Case

import tilewright as tw

M, N = tw.symbols("M N")
T = tw.dtypes("T")


@tw.kernel
def softmax(X: tw.In[T, M, N], Y: tw.Out[T, M, N]):
    for i in tw.parallel(M):
        x = X[i, :].to(tw.f32)
        e = tw.exp(x - tw.max(x, axis=1, keepdims=True))
        Y[i, :] = (e / tw.sum(e, axis=1, keepdims=True)).to(T)


LOWEST = -3.4e38  # not -inf: rows may begin with -inf, and -inf - -inf is NaN


@tw.kernel
def softmax_long(X: tw.In[T, M, N], Y: tw.Out[T, M, N]):
    for i in tw.parallel(M):
        top = tw.full((i,), LOWEST, tw.f32)
        total = tw.zeros((i,), tw.f32)
        for j in tw.range(N):
            x = X[i, j].to(tw.f32)
            higher = tw.maximum(top, tw.max(x, axis=1))
            total = total * tw.exp(top - higher) + tw.sum(tw.exp(x - higher[:, None]), axis=1)
            top = higher
        for j in tw.range(N):
            Y[i, j] = (tw.exp(X[i, j].to(tw.f32) - top[:, None]) / total[:, None]).to(T)


def _case(kernel, columns, bench):
    return Case(
        kernel.name,
        kernel,
        sizes=lambda draw: {"M": draw.size(70), "N": draw.size(columns)},
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.M, n.N, dtype=dtype, scale=4.0),
            "Y": draw.out(n.M, n.N, dtype=dtype),
        },
        reference=lambda a: {"Y": a.X.softmax(1)},
        dtypes=(torch.float32, torch.bfloat16, torch.float16),
        tolerance=64,  # sums of long rows
        bench=bench,
        peer=lambda a: torch.softmax(a.X, 1),
    )


CASES = [
    _case(softmax, 1100, ({"M": 128, "N": 512}, {"M": 4096, "N": 8192})),
    _case(softmax_long, 5000, ({"M": 2, "N": 16_000_000},)),
]
