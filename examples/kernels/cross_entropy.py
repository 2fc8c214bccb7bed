"""Cross entropy of logits with class numbers, and its gradient.

Loss[m] = log(sum_n exp(X[m, n])) - X[m, Target[m]], and 0 where Target[m] is `ignore`.  dX[m, n] = dLoss[m] * (softmax(X)[m, n] - [n == Target[m]]).
"""

import torch
import torch.nn.functional as F
from gallery import Case

import tilewright as tw

M, N = tw.symbols("M N")
T = tw.dtypes("T")


@tw.kernel
def cross_entropy(
    X: tw.In[T, M, N],
    Target: tw.In[tw.i64, M],
    Loss: tw.Out[tw.f32, M],
    Lse: tw.Out[tw.f32, M],
    ignore: tw.const = -100,
):
    for i in tw.parallel(M):
        x = X[i, :].to(tw.f32)
        top = tw.max(x, axis=1)
        lse = top + tw.log(tw.sum(tw.exp(x - top[:, None]), axis=1))
        target = Target[i]
        ignored = target == ignore
        picked = X[tw.indices(i), tw.where(ignored, 0, target)].to(tw.f32)
        Loss[i] = tw.where(ignored, 0.0, lse - picked)
        Lse[i] = lse


@tw.kernel
def cross_entropy_backward(
    X: tw.In[T, M, N],
    Target: tw.In[tw.i64, M],
    Lse: tw.In[tw.f32, M],
    DLoss: tw.In[tw.f32, M],
    DX: tw.Out[T, M, N],
    ignore: tw.const = -100,
):
    for i, j in tw.parallel(M, N):
        target = Target[i][:, None]
        p = tw.exp(X[i, j].to(tw.f32) - Lse[i][:, None])
        p = tw.where(tw.indices(j) == target, p - 1, p)
        DX[i, j] = tw.where(target == ignore, 0.0, p * DLoss[i][:, None]).to(T)


DTYPES = (torch.float32, torch.bfloat16, torch.float16)
BENCH = ({"M": 64, "N": 1000}, {"M": 2048, "N": 32000})


def _targets(draw, n):
    target = draw.integers(0, n.N, n.M)
    target[draw.bools(n.M, probability=0.2)] = -100
    return target


def _sizes(draw):
    return {"M": draw.size(70), "N": draw.size(1100, least=1)}


def _reference_backward(a):
    hot = F.one_hot(a.Target.clamp(min=0), a.X.shape[1]) if len(a.X) else torch.zeros_like(a.X)
    dx = a.DLoss[:, None] * ((a.X - a.Lse[:, None]).exp() - hot)
    return {"DX": torch.where((a.Target == -100)[:, None], 0.0, dx)}


def _backward_arguments(draw, n, dtype):
    x = draw.normal(n.M, n.N, dtype=dtype, scale=3.0)
    return {
        "X": x,
        "Target": _targets(draw, n),
        "Lse": x.double().logsumexp(1).float(),
        "DLoss": draw.normal(n.M),
        "DX": draw.out(n.M, n.N, dtype=dtype),
    }


CASES = [
    Case(
        "cross_entropy",
        cross_entropy,
        sizes=_sizes,
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.M, n.N, dtype=dtype, scale=3.0),
            "Target": _targets(draw, n),
            "Loss": draw.out(n.M),
            "Lse": draw.out(n.M),
        },
        reference=lambda a: {"Loss": F.cross_entropy(a.X, a.Target, reduction="none"), "Lse": a.X.logsumexp(1)},
        dtypes=DTYPES,
        floor=1,
        bench=BENCH,
        peer=lambda a: F.cross_entropy(a.X, a.Target, reduction="none"),
    ),
    Case(
        "cross_entropy_backward",
        cross_entropy_backward,
        sizes=_sizes,
        arguments=_backward_arguments,
        reference=_reference_backward,
        dtypes=DTYPES,
        bench=BENCH,
        peer=lambda a: torch.ops.aten._log_softmax_backward_data(
            a.DX, a.X, 1, a.X.dtype
        ),  # the same traffic; the loss's own is fused
    ),
]
