"""Layer norm over the last dimension, its sum with a residual, and its gradients.

Y = (X - mean) * rstd * W + B with mean = sum_n X / N and rstd = 1 / sqrt(sum_n (X - mean)^2 / N + eps) (Ba, Kiros and Hinton, 2016).
With x' = (X - mean) * rstd and g = dY * W:  dX = rstd * (g - mean_n(g) - x' * mean_n(g * x')),  dW = sum_m dY * x',  dB = sum_m dY.
"""

import torch
import torch.nn.functional as F
from gallery import Case

import tilewright as tw

M, N = tw.symbols("M N")
T = tw.dtypes("T")


def moments(x, eps):
    mean = tw.mean(x, axis=1, keepdims=True)
    d = x - mean
    return mean, tw.rsqrt(tw.mean(d * d, axis=1, keepdims=True) + eps)


@tw.kernel
def layer_norm(X: tw.In[T, M, N], W: tw.In[T, N], B: tw.In[T, N], Y: tw.Out[T, M, N], eps: float = 1e-5):
    for i in tw.parallel(M):
        x = X[i, :].to(tw.f32)
        mean, rstd = moments(x, eps)
        Y[i, :] = ((x - mean) * rstd * W[:].to(tw.f32) + B[:].to(tw.f32)).to(T)


@tw.kernel
def add_layer_norm(
    X: tw.In[T, M, N],
    R: tw.In[T, M, N],
    W: tw.In[T, N],
    B: tw.In[T, N],
    S: tw.Out[T, M, N],
    Y: tw.Out[T, M, N],
    Mean: tw.Out[tw.f32, M],
    Rstd: tw.Out[tw.f32, M],
    eps: float = 1e-5,
):
    """The form of a transformer: S = X + R goes on as the residual, Y = layer_norm(S), and what the gradient needs is kept."""
    for i in tw.parallel(M):
        s = X[i, :].to(tw.f32) + R[i, :].to(tw.f32)
        mean, rstd = moments(s, eps)
        S[i, :] = s.to(T)
        Y[i, :] = ((s - mean) * rstd * W[:].to(tw.f32) + B[:].to(tw.f32)).to(T)
        Mean[i] = mean[:, 0]
        Rstd[i] = rstd[:, 0]


@tw.kernel
def layer_norm_backward(
    DY: tw.In[T, M, N],
    X: tw.In[T, M, N],
    W: tw.In[T, N],
    Mean: tw.In[tw.f32, M],
    Rstd: tw.In[tw.f32, M],
    DX: tw.Out[T, M, N],
):
    for i in tw.parallel(M):
        rstd = Rstd[i][:, None]
        x = (X[i, :].to(tw.f32) - Mean[i][:, None]) * rstd
        g = DY[i, :].to(tw.f32) * W[:].to(tw.f32)
        DX[i, :] = (rstd * (g - tw.mean(g, 1, keepdims=True) - x * tw.mean(g * x, 1, keepdims=True))).to(T)


@tw.kernel
def layer_norm_backward_weights(
    DY: tw.In[T, M, N],
    X: tw.In[T, M, N],
    Mean: tw.In[tw.f32, M],
    Rstd: tw.In[tw.f32, M],
    DW: tw.Out[T, N],
    DB: tw.Out[T, N],
):
    for j in tw.parallel(N):
        dw = tw.zeros((j,), tw.f32)
        db = tw.zeros((j,), tw.f32)
        for i in tw.range(M):
            dy = DY[i, j].to(tw.f32)
            dw += tw.sum(dy * (X[i, j].to(tw.f32) - Mean[i][:, None]) * Rstd[i][:, None], axis=0)
            db += tw.sum(dy, axis=0)
        DW[j] = dw.to(T)
        DB[j] = db.to(T)


DTYPES = (torch.float32, torch.bfloat16, torch.float16)
EPS = 1e-5
BENCH = ({"M": 128, "N": 768}, {"M": 16384, "N": 2048})


def _sizes(draw):
    return {"M": draw.size(70), "N": draw.size(1100)}


def _weights(draw, n, dtype):
    return {"W": draw.normal(n.N, dtype=dtype) + 1, "B": draw.normal(n.N, dtype=dtype)}


def _backward_arguments(draw, n, dtype):
    x = draw.normal(n.M, n.N, dtype=dtype)
    mean = x.double().mean(1)
    var = (x - mean[:, None]).square().mean(1)
    return {
        "DY": draw.normal(n.M, n.N, dtype=dtype),
        "X": x,
        "Mean": mean.float(),
        "Rstd": torch.rsqrt(var + EPS).float(),
    }


def _normal(a):
    return (a.X - a.Mean[:, None]) * a.Rstd[:, None]


def _reference_backward(a):
    x, g = _normal(a), a.DY * a.W
    return {"DX": a.Rstd[:, None] * (g - g.mean(1, keepdim=True) - x * (g * x).mean(1, keepdim=True))}


def _reference_residual(a):
    s = a.X + a.R
    mean = s.mean(1)
    var = (s - mean[:, None]).square().mean(1)
    return {
        "S": s,
        "Y": F.layer_norm(s, (s.shape[1],), a.W, a.B, EPS),
        "Mean": mean,
        "Rstd": torch.rsqrt(var + EPS),
    }


CASES = [
    Case(
        "layer_norm",
        layer_norm,
        sizes=_sizes,
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.M, n.N, dtype=dtype),
            **_weights(draw, n, dtype),
            "Y": draw.out(n.M, n.N, dtype=dtype),
            "eps": EPS,
        },
        reference=lambda a: {"Y": F.layer_norm(a.X, (a.X.shape[1],), a.W, a.B, EPS)},
        dtypes=DTYPES,
        floor=1,
        bench=BENCH,
        peer=lambda a: F.layer_norm(a.X, (a.X.shape[1],), a.W, a.B, EPS),
    ),
    Case(
        "add_layer_norm",
        add_layer_norm,
        sizes=_sizes,
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.M, n.N, dtype=dtype),
            "R": draw.normal(n.M, n.N, dtype=dtype),
            **_weights(draw, n, dtype),
            "S": draw.out(n.M, n.N, dtype=dtype),
            "Y": draw.out(n.M, n.N, dtype=dtype),
            "Mean": draw.out(n.M),
            "Rstd": draw.out(n.M),
            "eps": EPS,
        },
        reference=_reference_residual,
        dtypes=DTYPES,
        floor=1,
        bench=BENCH,
        peer=lambda a: F.layer_norm(a.X + a.R, (a.X.shape[1],), a.W, a.B, EPS),
    ),
    Case(
        "layer_norm_backward",
        layer_norm_backward,
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
        peer=lambda a: torch.ops.aten.native_layer_norm_backward(
            a.DY, a.X, (a.X.shape[1],), a.Mean[:, None], a.Rstd[:, None], a.W, None, (True, False, False)
        ),
    ),
    Case(
        "layer_norm_backward_weights",
        layer_norm_backward_weights,
        sizes=lambda draw: {"M": draw.size(300), "N": draw.size(300)},
        arguments=lambda draw, n, dtype: {
            **_backward_arguments(draw, n, dtype),
            "DW": draw.out(n.N, dtype=dtype),
            "DB": draw.out(n.N, dtype=dtype),
        },
        reference=lambda a: {"DW": (a.DY * _normal(a)).sum(0), "DB": a.DY.sum(0)},
        dtypes=DTYPES,
        floor=8,
        bench=BENCH,
        peer=lambda a: torch.ops.aten.native_layer_norm_backward(
            a.DY,
            a.X,
            (a.X.shape[1],),
            a.Mean[:, None],
            a.Rstd[:, None],
            torch.ones(a.X.shape[1], dtype=a.X.dtype),
            torch.ones(a.X.shape[1], dtype=a.X.dtype),
            (False, True, True),
        ),
    ),
]
