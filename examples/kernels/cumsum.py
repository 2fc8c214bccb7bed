"""Scans along the last dimension: running sums Y[m, n] = X[m, 0] + .. + X[m, n], and the linear recurrence H[m, n] = A[m, n] * H[m, n - 1] + X[m, n].

`cumsum` holds a row at a time, `cumsum_long` carries the sum from one tile of a row to the next; `linear_recurrence` does so with a scan of its own.
"""

import torch
from gallery import Case

import tilewright as tw

M, N = tw.symbols("M N")
T = tw.dtypes("T")


@tw.kernel
def cumsum(X: tw.In[T, M, N], Y: tw.Out[T, M, N]):
    for i in tw.parallel(M):
        Y[i, :] = tw.cumsum(X[i, :], axis=1)


@tw.kernel
def cumsum_long(X: tw.In[T, M, N], Y: tw.Out[T, M, N]):
    for i in tw.parallel(M, tile=1):
        total = tw.zeros((), T)
        for j in tw.range(N):
            x = X[i, j]
            Y[i, j] = total + tw.cumsum(x, axis=0)
            total += tw.sum(x)


def _then(first, second):
    """The map h -> c * h + d after h -> a * h + b."""
    (a, b), (c, d) = first, second
    return c * a, c * b + d


@tw.kernel
def linear_recurrence(A: tw.In[T, M, N], X: tw.In[T, M, N], H: tw.Out[T, M, N]):
    for i in tw.parallel(M):
        state = tw.zeros((i,), T)
        for j in tw.range(N, tile=512):
            a, h = tw.associative_scan((A[i, j], X[i, j]), _then, axis=1)
            h += a * state[:, None]
            H[i, j] = h
            state = h[:, -1]


def _recurrence(a):
    h, state = torch.empty_like(a.X), torch.zeros(a.X.shape[0], dtype=a.X.dtype)
    for n in range(a.X.shape[1]):
        state = a.A[:, n] * state + a.X[:, n]
        h[:, n] = state
    return {"H": h}


def _case(kernel, columns, bench):
    return Case(
        kernel.name,
        kernel,
        sizes=lambda draw: {"M": draw.size(70), "N": draw.size(columns)},
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.M, n.N, dtype=dtype)
            if dtype.is_floating_point
            else draw.integers(-1000, 1000, n.M, n.N),
            "Y": draw.out(n.M, n.N, dtype=dtype),
        },
        reference=lambda a: {"Y": a.X.cumsum(1)},
        dtypes=(torch.float32, torch.float64, torch.int64),
        tolerance=64,  # sums of long rows
        bench=bench,
        peer=lambda a: a.X.cumsum(1),
    )


CASES = [
    _case(cumsum, 1100, ({"M": 128, "N": 512}, {"M": 4096, "N": 4096})),
    _case(cumsum_long, 5000, ({"M": 2, "N": 8_000_000},)),
    Case(
        "linear_recurrence",
        linear_recurrence,
        sizes=lambda draw: {"M": draw.size(70), "N": draw.size(1100)},
        arguments=lambda draw, n, dtype: {
            "A": draw.uniform(n.M, n.N, dtype=dtype),
            "X": draw.normal(n.M, n.N, dtype=dtype),
            "H": draw.out(n.M, n.N, dtype=dtype),
        },
        reference=_recurrence,
        dtypes=(torch.float32, torch.float64),
        tolerance=64,
        bench=({"M": 128, "N": 512}, {"M": 4096, "N": 4096}),
    ),
]
