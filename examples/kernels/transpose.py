"""Transposes: Y[n, m] = X[m, n], and heads before positions, Y[b, h, l, d] = X[b, l, h, d].

`transpose_tuned` leaves its tiles to tuning: `transpose_tuned.tune(x)` measures the space once, calls use what it has saved.
"""

import torch
from gallery import Case

import tilewright as tw

B, M, N, D = tw.symbols("B M N D")
T = tw.dtypes("T")


@tw.kernel
def transpose(X: tw.In[T, M, N], Y: tw.Out[T, N, M]):
    for i, j in tw.parallel(M, N):
        Y[j, i] = X[i, j].T


@tw.kernel(space={"ROWS": (None, 16, 64, 256), "COLUMNS": (None, 16, 64)})
def transpose_tuned(X: tw.In[T, M, N], Y: tw.Out[T, N, M], ROWS: tw.const = None, COLUMNS: tw.const = None):
    for i, j in tw.parallel(M, N, tile=(ROWS, COLUMNS)):
        Y[j, i] = X[i, j].T


@tw.kernel
def transpose_heads(X: tw.In[T, B, M, N, D], Y: tw.Out[T, B, N, M, D]):
    for b, i, j in tw.parallel(B, M, N):
        Y[b, j, i, :] = tw.permute(X[b, i, j, :], 0, 2, 1, 3)


DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.int64)


def _draw(draw, dtype, *shape):
    return draw.normal(*shape, dtype=dtype, scale=1.0 if dtype.is_floating_point else 40.0)


def _case(kernel):
    return Case(
        kernel.name,
        kernel,
        sizes=lambda draw: {"M": draw.size(300), "N": draw.size(300)},
        arguments=lambda draw, n, dtype: {
            "X": _draw(draw, dtype, n.M, n.N),
            "Y": draw.out(n.N, n.M, dtype=dtype),
        },
        reference=lambda a: {"Y": a.X.T},
        dtypes=DTYPES,
        tolerance=0,
        bench=({"M": 128, "N": 128}, {"M": 4096, "N": 4096}),
        peer=lambda a: a.Y.copy_(a.X.T),
    )


CASES = [
    _case(transpose),
    _case(transpose_tuned),
    Case(
        "transpose_heads",
        transpose_heads,
        sizes=lambda draw: {"B": draw.size(3), "M": draw.size(70), "N": draw.size(9), "D": draw.size(70)},
        arguments=lambda draw, n, dtype: {
            "X": _draw(draw, dtype, n.B, n.M, n.N, n.D),
            "Y": draw.out(n.B, n.N, n.M, n.D, dtype=dtype),
        },
        reference=lambda a: {"Y": a.X.transpose(1, 2)},
        dtypes=DTYPES,
        tolerance=0,
        bench=({"B": 1, "M": 128, "N": 12, "D": 64}, {"B": 8, "M": 2048, "N": 16, "D": 64}),
        peer=lambda a: a.Y.copy_(a.X.transpose(1, 2)),
    ),
]
