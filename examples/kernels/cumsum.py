"""Running sums along the last dimension: Y[m, n] = X[m, 0] + .. + X[m, n].

`cumsum` holds a row at a time, `cumsum_long` carries the sum from one tile of a row to the next.
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
]
