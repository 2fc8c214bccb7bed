"""One step of AdamW in place (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019).

M = beta1 M + (1 - beta1) G,  V = beta2 V + (1 - beta2) G^2,
P = P - lr (decay P + (M / (1 - beta1^step)) / (sqrt(V / (1 - beta2^step)) + eps)).
"""

import torch
from gallery import Case

import tilewright as tw

N = tw.symbols("N")
T = tw.dtypes("T")


@tw.kernel
def adamw(
    P: tw.InOut[tw.f32, N],
    G: tw.In[T, N],
    M: tw.InOut[tw.f32, N],
    V: tw.InOut[tw.f32, N],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    step: int,
):
    scale1 = 1 / (1 - beta1**step)
    scale2 = 1 / (1 - beta2**step)
    for i in tw.parallel(N):
        g = G[i].to(tw.f32)
        m = beta1 * M[i] + (1 - beta1) * g
        v = beta2 * V[i] + (1 - beta2) * g * g
        p = P[i]
        P[i] = p - lr * (decay * p + m * scale1 / (tw.sqrt(v * scale2) + eps))
        M[i] = m
        V[i] = v


HYPER = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decay": 1e-2}


def _reference(a):
    m = a.beta1 * a.M + (1 - a.beta1) * a.G
    v = a.beta2 * a.V + (1 - a.beta2) * a.G * a.G
    up = m / (1 - a.beta1**a.step) / ((v / (1 - a.beta2**a.step)).sqrt() + a.eps)
    return {"P": a.P - a.lr * (a.decay * a.P + up), "M": m, "V": v}


def _peer(a):
    torch._fused_adamw_(
        [a.P],
        [a.G.float()],
        [a.M],
        [a.V],
        [],
        [torch.tensor(float(a.step))],
        amsgrad=False,
        lr=a.lr,
        beta1=a.beta1,
        beta2=a.beta2,
        weight_decay=a.decay,
        eps=a.eps,
        maximize=False,
    )


CASES = [
    Case(
        "adamw",
        adamw,
        sizes=lambda draw: {"N": draw.size(50_000)},
        arguments=lambda draw, n, dtype: {
            "P": draw.normal(n.N),
            "G": draw.normal(n.N, dtype=dtype),
            "M": draw.normal(n.N),
            "V": draw.uniform(n.N) + 0.1,
            **HYPER,
            "step": draw.random.randint(1, 1000),
        },
        reference=_reference,
        dtypes=(torch.float32, torch.bfloat16),
        bench=({"N": 1 << 12}, {"N": 1 << 24}),
        peer=_peer,
    )
]
