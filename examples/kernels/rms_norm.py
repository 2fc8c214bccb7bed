"""RMSNorm over the last dimension, its sum with a residual, and its gradients.

Y = X * r * W with r = 1 / sqrt(sum_n X^2 / N + eps) (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019).
With g = dY * W:  dX = r * (g - X * r^2 * mean_n(g * X)),  dW = sum_m dY * X * r.
"""

import torch
import torch.nn.functional as F
from gallery import Case

import tilewright as tw

M, N = tw.symbols("M N")
T = tw.dtypes("T")


@tw.kernel
def rms_norm(X: tw.In[T, M, N], W: tw.In[T, N], Y: tw.Out[T, M, N], eps: float = 1e-6):
    for i in tw.parallel(M):
        x = X[i, :].to(tw.f32)
        r = tw.rsqrt(tw.mean(x * x, axis=1, keepdims=True) + eps)
        Y[i, :] = (x * r * W[:].to(tw.f32)).to(T)


@tw.kernel
def add_rms_norm(
    X: tw.In[T, M, N],
    R: tw.In[T, M, N],
    W: tw.In[T, N],
    S: tw.Out[T, M, N],
    Y: tw.Out[T, M, N],
    Rstd: tw.Out[tw.f32, M],
    eps: float = 1e-6,
):
    """S = X + R goes on as the residual, Y = rms_norm(S); Rstd is kept for the gradient."""
    for i in tw.parallel(M):
        s = X[i, :].to(tw.f32) + R[i, :].to(tw.f32)
        r = tw.rsqrt(tw.mean(s * s, axis=1, keepdims=True) + eps)
        S[i, :] = s.to(T)
        Y[i, :] = (s * r * W[:].to(tw.f32)).to(T)
        Rstd[i] = r[:, 0]


@tw.kernel
def rms_norm_backward(
    DY: tw.In[T, M, N], X: tw.In[T, M, N], W: tw.In[T, N], Rstd: tw.In[tw.f32, M], DX: tw.Out[T, M, N]
):
    for i in tw.parallel(M):
        r = Rstd[i][:, None]
        x = X[i, :].to(tw.f32) * r
        g = DY[i, :].to(tw.f32) * W[:].to(tw.f32)
        DX[i, :] = (r * (g - x * tw.mean(g * x, axis=1, keepdims=True))).to(T)


@tw.kernel
def rms_norm_backward_weights(DY: tw.In[T, M, N], X: tw.In[T, M, N], Rstd: tw.In[tw.f32, M], DW: tw.Out[T, N]):
    for j in tw.parallel(N):
        dw = tw.zeros((j,), tw.f32)
        for i in tw.range(M):
            dw += tw.sum(DY[i, j].to(tw.f32) * X[i, j].to(tw.f32) * Rstd[i][:, None], axis=0)
        DW[j] = dw.to(T)


DTYPES = (torch.float32, torch.bfloat16, torch.float16)
EPS = 1e-6
BENCH = ({"M": 128, "N": 768}, {"M": 16384, "N": 2048})


def _sizes(draw):
    return {"M": draw.size(70), "N": draw.size(1100)}


def _rstd(x):
    return torch.rsqrt(x.double().square().mean(1) + EPS)


def _backward_arguments(draw, n, dtype):
    x = draw.normal(n.M, n.N, dtype=dtype)
    x = x + 0.5 * x.sign()  # a row of one small element would make the gradient a difference of large numbers
    return {"DY": draw.normal(n.M, n.N, dtype=dtype), "X": x, "Rstd": _rstd(x).float()}


def _reference_backward(a):
    r = a.Rstd[:, None]
    x, g = a.X * r, a.DY * a.W
    return {"DX": r * (g - x * (g * x).mean(1, keepdim=True))}


def _norm(x, w):
    return F.rms_norm(x, (x.shape[1],), w, EPS)


CASES = [
    Case(
        "rms_norm",
        rms_norm,
        sizes=_sizes,
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.M, n.N, dtype=dtype),
            "W": draw.normal(n.N, dtype=dtype) + 1,
            "Y": draw.out(n.M, n.N, dtype=dtype),
            "eps": EPS,
        },
        reference=lambda a: {"Y": _norm(a.X, a.W)},
        dtypes=DTYPES,
        bench=BENCH,
        peer=lambda a: _norm(a.X, a.W),
    ),
    Case(
        "add_rms_norm",
        add_rms_norm,
        sizes=_sizes,
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.M, n.N, dtype=dtype),
            "R": draw.normal(n.M, n.N, dtype=dtype),
            "W": draw.normal(n.N, dtype=dtype) + 1,
            "S": draw.out(n.M, n.N, dtype=dtype),
            "Y": draw.out(n.M, n.N, dtype=dtype),
            "Rstd": draw.out(n.M),
            "eps": EPS,
        },
        reference=lambda a: {"S": a.X + a.R, "Y": _norm(a.X + a.R, a.W), "Rstd": _rstd(a.X + a.R)},
        dtypes=DTYPES,
        floor=1,
        bench=BENCH,
        peer=lambda a: _norm(a.X + a.R, a.W),
    ),
    Case(
        "rms_norm_backward",
        rms_norm_backward,
        sizes=_sizes,
        arguments=lambda draw, n, dtype: {
            **_backward_arguments(draw, n, dtype),
            "W": draw.normal(n.N, dtype=dtype) + 1,
            "DX": draw.out(n.M, n.N, dtype=dtype),
        },
        reference=_reference_backward,
        dtypes=DTYPES,
        floor=1,
        bench=BENCH,
        peer=lambda a: _reference_backward(a),
    ),
    Case(
        "rms_norm_backward_weights",
        rms_norm_backward_weights,
        sizes=lambda draw: {"M": draw.size(300), "N": draw.size(300)},
        arguments=lambda draw, n, dtype: {**_backward_arguments(draw, n, dtype), "DW": draw.out(n.N, dtype=dtype)},
        reference=lambda a: {"DW": (a.DY * a.X * a.Rstd[:, None]).sum(0)},
        dtypes=DTYPES,
        floor=8,
        bench=BENCH,
        peer=lambda a: (a.DY * a.X * a.Rstd[:, None].to(a.X.dtype)).sum(0),
    ),
]
