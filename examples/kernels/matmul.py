"""Matrix products, and the linear layer with what follows it in registers.

`matmul`: C = A @ B. `linear`: Y = activation(X @ W.T + B) + R, the layer of a transformer with weights [out, in] as torch keeps them; the
activation is None or "gelu". `batched_matmul`: C[b] = A[b] @ B[b]. bf16 and f16 add in f32 and round once.
"""

import torch
import torch.nn.functional as F
from gallery import Case

import tilewright as tw

B, M, N, K = tw.symbols("B M N K")
T = tw.dtypes("T")


@tw.kernel
def matmul(A: tw.In[T, M, K], B: tw.In[T, K, N], C: tw.Out[T, M, N]):
    for i, j in tw.parallel(M, N):
        acc = tw.zeros((i, j), tw.f32)
        for k in tw.range(K):
            acc += A[i, k] @ B[k, j]
        C[i, j] = acc.to(T)


def gelu(x):
    return 0.5 * x * (1 + tw.erf(x * 0.7071067811865476))


@tw.kernel
def linear(
    X: tw.In[T, M, K],
    W: tw.In[T, N, K],
    B: tw.In[T, N],
    R: tw.In[T, M, N],
    Y: tw.Out[T, M, N],
    activation: tw.const = None,
):
    for i, j in tw.parallel(M, N):
        acc = tw.zeros((i, j), tw.f32)
        for k in tw.range(K):
            acc += X[i, k] @ W[j, k].T
        y = acc + B[j].to(tw.f32)
        if activation == "gelu":
            y = gelu(y)
        Y[i, j] = (y + R[i, j].to(tw.f32)).to(T)


@tw.kernel
def batched_matmul(A: tw.In[T, B, M, K], W: tw.In[T, B, K, N], C: tw.Out[T, B, M, N]):
    for b, i, j in tw.parallel(B, M, N, tile=(1, None, None)):
        acc = tw.zeros((i, j), tw.f32)
        for k in tw.range(K):
            acc += A[b, i, k] @ W[b, k, j]
        C[b, i, j] = acc.to(T)


DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def _sizes(draw):
    return {"M": draw.size(150), "N": draw.size(150), "K": draw.size(300)}


def _square(*sizes):
    return tuple({"M": n, "N": n, "K": n} for n in sizes)


def _linear_case(name, activation):
    def layer(a):
        y = F.linear(a.X, a.W, a.B)
        return (F.gelu(y) if activation else y) + a.R

    return Case(
        name,
        linear,
        sizes=_sizes,
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.M, n.K, dtype=dtype),
            "W": draw.normal(n.N, n.K, dtype=dtype, scale=max(n.K, 1) ** -0.5),
            "B": draw.normal(n.N, dtype=dtype),
            "R": draw.normal(n.M, n.N, dtype=dtype),
            "Y": draw.out(n.M, n.N, dtype=dtype),
            "activation": activation,
        },
        reference=lambda a: {"Y": layer(a)},
        dtypes=DTYPES,
        floor=1,
        bench=({"M": 128, "N": 3072, "K": 768}, *_square(1024)),
        peer=layer,
        flops=lambda n: 2 * n.M * n.N * n.K,
    )


CASES = [
    Case(
        "matmul",
        matmul,
        sizes=_sizes,
        arguments=lambda draw, n, dtype: {
            "A": draw.normal(n.M, n.K, dtype=dtype),
            "B": draw.normal(n.K, n.N, dtype=dtype),
            "C": draw.out(n.M, n.N, dtype=dtype),
        },
        reference=lambda a: {"C": a.A @ a.B},
        dtypes=DTYPES,
        bench=(*_square(512, 1024, 2048), {"M": 1000, "N": 777, "K": 1111}),
        peer=lambda a: a.A @ a.B,
        flops=lambda n: 2 * n.M * n.N * n.K,
    ),
    _linear_case("linear", None),
    _linear_case("linear_gelu", "gelu"),
    Case(
        "batched_matmul",
        batched_matmul,
        sizes=lambda draw: {"B": draw.size(5), **_sizes(draw)},
        arguments=lambda draw, n, dtype: {
            "A": draw.normal(n.B, n.M, n.K, dtype=dtype),
            "W": draw.normal(n.B, n.K, n.N, dtype=dtype),
            "C": draw.out(n.B, n.M, n.N, dtype=dtype),
        },
        reference=lambda a: {"C": a.A @ a.W},
        dtypes=DTYPES,
        bench=({"B": 96, "M": 128, "N": 128, "K": 64},),
        peer=lambda a: a.A @ a.W,
        flops=lambda n: 2 * n.B * n.M * n.N * n.K,
    ),
]
