"""Linear layers with integer weights: Y = X @ W.T where W is stored in 8 or 4 bits.

`int8_matmul`: activations and weights are int8 with a scale for each row of X and each row of W; the products add exactly, in i32.
`int8_weight_matmul`: float activations, int8 weights with a scale for each of their rows.
`int4_weight_matmul`: float activations, weights in blocks of 32 with one scale each. A block is 16 bytes: byte k holds the weights k (its
low four bits) and k + 16, as the value + 8.
"""

import torch
from gallery import Case

import tilewright as tw

M, N, K, G = tw.symbols("M N K G")
T = tw.dtypes("T")


@tw.kernel
def int8_matmul(
    X: tw.In[tw.i8, M, K], W: tw.In[tw.i8, N, K], SX: tw.In[tw.f32, M], SW: tw.In[tw.f32, N], Y: tw.Out[tw.f32, M, N]
):
    for i, j in tw.parallel(M, N):
        acc = tw.zeros((i, j), tw.i32)
        for k in tw.range(K):
            acc += X[i, k] @ W[j, k].T
        Y[i, j] = acc.to(tw.f32) * SX[i][:, None] * SW[j]


@tw.kernel
def int8_weight_matmul(X: tw.In[T, M, K], W: tw.In[tw.i8, N, K], S: tw.In[tw.f32, N], Y: tw.Out[T, M, N]):
    for i, j in tw.parallel(M, N):
        acc = tw.zeros((i, j), tw.f32)
        for k in tw.range(K):
            acc += X[i, k].to(tw.f32) @ W[j, k].to(tw.f32).T
        Y[i, j] = (acc * S[j]).to(T)


@tw.kernel
def int4_weight_matmul(X: tw.In[T, M, G, 32], W: tw.In[tw.u8, N, G, 16], S: tw.In[tw.f32, N, G], Y: tw.Out[T, M, N]):
    for i, j in tw.parallel(M, N):
        acc = tw.zeros((i, j), tw.f32)
        for g in tw.range(G, tile=8):  # 256 columns: unpacked, they stay in cache
            packed = W[j, g, :]
            nibbles = tw.concat((packed & 15, packed >> 4), axis=2)
            w = (nibbles.to(tw.f32) - 8) * S[j, g][:, :, None]
            x = X[i, g, :].to(tw.f32)
            acc += x.reshape((i, g.size * 32)) @ w.reshape((j, g.size * 32)).T
        Y[i, j] = acc.to(T)


def _unpacked(a):
    w = torch.cat((a.W & 15, a.W >> 4), 2).double() - 8
    return (w * a.S[:, :, None]).flatten(1)


def _sizes(draw):
    return {"M": draw.size(70), "N": draw.size(150), "K": draw.size(300)}


BENCH = tuple({"M": m, "N": 4096, "K": 4096, "G": 128} for m in (1, 4, 16, 256))

CASES = [
    Case(
        "int8_matmul",
        int8_matmul,
        sizes=_sizes,
        arguments=lambda draw, n, dtype: {
            "X": draw.integers(-127, 128, n.M, n.K, dtype=dtype),
            "W": draw.integers(-127, 128, n.N, n.K, dtype=dtype),
            "SX": draw.uniform(n.M) * 0.01,
            "SW": draw.uniform(n.N) * 0.01,
            "Y": draw.out(n.M, n.N),
        },
        reference=lambda a: {"Y": (a.X.double() @ a.W.double().T) * a.SX[:, None] * a.SW},
        dtypes=(torch.int8,),
        tolerance=4,
        bench=BENCH,
        peer=lambda a: torch._int_mm(a.X, a.W.T).float() * a.SX[:, None] * a.SW,
        flops=lambda n: 2 * n.M * n.N * n.K,
    ),
    Case(
        "int8_weight_matmul",
        int8_weight_matmul,
        sizes=_sizes,
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.M, n.K, dtype=dtype),
            "W": draw.integers(-127, 128, n.N, n.K, dtype=torch.int8),
            "S": draw.uniform(n.N) * 0.01,
            "Y": draw.out(n.M, n.N, dtype=dtype),
        },
        reference=lambda a: {"Y": (a.X @ a.W.double().T) * a.S},
        dtypes=(torch.float32, torch.bfloat16),
        bench=BENCH,
        peer=lambda a: (a.X @ a.W.to(a.X.dtype).T) * a.S,
        flops=lambda n: 2 * n.M * n.N * n.K,
    ),
    Case(
        "int4_weight_matmul",
        int4_weight_matmul,
        sizes=lambda draw: {"M": draw.size(70), "N": draw.size(150), "G": draw.size(9)},
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.M, n.G, 32, dtype=dtype),
            "W": draw.integers(0, 256, n.N, n.G, 16, dtype=torch.uint8),
            "S": draw.uniform(n.N, n.G) * 0.1,
            "Y": draw.out(n.M, n.N, dtype=dtype),
        },
        reference=lambda a: {"Y": a.X.flatten(1) @ _unpacked(a).T},
        dtypes=(torch.float32, torch.bfloat16),
        bench=BENCH,
        peer=lambda a: a.X.flatten(1) @ _unpacked(a).to(a.X.dtype).T,
        flops=lambda n: 2 * n.M * n.N * n.G * 32,
    ),
]
