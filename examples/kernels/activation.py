"""Activations of feed-forward layers, fused with what feeds them.

`bias_gelu`: Y = gelu(X + B) with gelu(x) = x * (1 + erf(x / sqrt(2))) / 2, or its approximation by tanh (Hendrycks and Gimpel, 2016).
`swiglu`: Y = silu(G) * U with silu(x) = x * sigmoid(x), where X = [G U] is what one matrix product gives (Shazeer, 2020).
"""

import torch
import torch.nn.functional as F
from gallery import Case

import tilewright as tw

M, N = tw.symbols("M N")
T = tw.dtypes("T")


def gelu(x, approximate: bool = False):
    if approximate:
        return 0.5 * x * (1 + tw.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + tw.erf(x * 0.7071067811865476))


@tw.kernel
def bias_gelu(X: tw.In[T, M, N], B: tw.In[T, N], Y: tw.Out[T, M, N], approximate: tw.const = False):
    for i, j in tw.parallel(M, N):
        Y[i, j] = gelu(X[i, j].to(tw.f32) + B[j].to(tw.f32), approximate).to(T)


@tw.kernel
def swiglu(X: tw.In[T, M, 2 * N], Y: tw.Out[T, M, N]):
    for i, j in tw.parallel(M, N):
        gate = X[i, j].to(tw.f32)
        up = X[i, j + N].to(tw.f32)
        Y[i, j] = (gate * tw.sigmoid(gate) * up).to(T)


DTYPES = (torch.float32, torch.bfloat16, torch.float16)
BENCH = ({"M": 128, "N": 3072}, {"M": 8192, "N": 4096})


def _gelu_case(name, approximate):
    mode = "tanh" if approximate else "none"
    return Case(
        name,
        bias_gelu,
        sizes=lambda draw: {"M": draw.size(70), "N": draw.size(1100)},
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.M, n.N, dtype=dtype, scale=3.0),
            "B": draw.normal(n.N, dtype=dtype),
            "Y": draw.out(n.M, n.N, dtype=dtype),
            "approximate": approximate,
        },
        reference=lambda a: {"Y": F.gelu(a.X + a.B, approximate=mode)},
        dtypes=DTYPES,
        bench=BENCH,
        peer=lambda a: F.gelu(a.X + a.B, approximate=mode),
    )


CASES = [
    _gelu_case("bias_gelu", False),
    _gelu_case("bias_gelu_tanh", True),
    Case(
        "swiglu",
        swiglu,
        sizes=lambda draw: {"M": draw.size(70), "N": draw.size(1100)},
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.M, 2 * n.N, dtype=dtype, scale=3.0),
            "Y": draw.out(n.M, n.N, dtype=dtype),
        },
        reference=lambda a: {"Y": F.silu(a.X.chunk(2, 1)[0]) * a.X.chunk(2, 1)[1]},
        dtypes=DTYPES,
        bench=BENCH,
        peer=lambda a: F.silu(a.X.chunk(2, 1)[0]) * a.X.chunk(2, 1)[1],
    ),
]
