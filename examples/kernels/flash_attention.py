"""Flash attention: softmax(Q K^T * scale + mask) V without the matrix of scores, and its gradients.

Q [B, G*R, M, D] asks K [B, G, N, D] and V [B, G, N, E]; query head h reads key head h // R, so that R = 1 is plain and G = 1 is multi-query
attention. With `causal`, query i sees the keys up to i + offset: offset = 0 is what PyTorch's SDPA means, N - M that of decoding with a cache.
A mask is added to the scores, or, if it is bool, says which keys a query sees. A query that sees nothing gives zeros.

The forward pass goes through the keys once and keeps each row's maximum and sum (Dao, FlashAttention-2, 2023, arXiv:2307.08691, algorithm 1).
It also gives L, the logarithm of each row's sum of exp(score), with which the backward pass (algorithm 2) computes the probabilities anew:

    P = exp(S - L)   dV = P^T dO   dP = dO V^T   dS = P * (dP - Delta)   dQ = dS K * scale   dK = dS^T Q * scale   Delta = rowsum(dO * O) - dL
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import torch
from gallery import Case

import tilewright as tw

B, G, R, M, N, D, E = tw.symbols("B G R M N D E")
T, U = tw.dtypes("T U")
INFINITY = float("inf")


def attend(acc, top, total, s, v):
    """One step through the keys: scores s [m, n] and values v [n, e] enter a row's sum, its maximum and its weighted values."""
    new = tw.maximum(top, tw.max(s, axis=1))
    base = tw.where(new == -INFINITY, 0.0, new)
    p = tw.exp(s - base[:, None])
    decay = tw.exp(top - base)
    acc = acc * decay[:, None] + p.to(v.dtype) @ v
    return acc, new, total * decay + tw.sum(p, axis=1)


def finished(acc, top, total):
    """Attention and the logarithm of the sum, of a row that has seen all its keys. Rows that saw none are zeros and -inf."""
    return acc / tw.where(total > 0.0, total, 1.0)[:, None], top + tw.log(total)


@tw.kernel
def flash_attention(
    Q: tw.In[T, B, G * R, M, D],
    K: tw.In[T, B, G, N, D],
    V: tw.In[T, B, G, N, E],
    O: tw.Out[T, B, G * R, M, E],
    L: tw.Out[tw.f32, B, G * R, M],
    scale: float,
    R: int = 1,
    offset: int = 0,
    causal: tw.const = False,
):
    for b, h, i in tw.parallel(B, G * R, M, tile=(1, 1, None)):
        g = h // R
        q = Q[b, h, i, :]
        acc, top, total = tw.zeros((i, E)), tw.full((i,), -INFINITY, tw.f32), tw.zeros((i,))
        for j in tw.range(0, min(N, i.start + i.size + offset) if causal else N):
            s = (q @ K[b, g, j, :].T) * scale
            if causal:
                s = tw.where(tw.indices(j) <= tw.indices(i)[:, None] + offset, s, -INFINITY)
            acc, top, total = attend(acc, top, total, s, V[b, g, j, :])
        o, lse = finished(acc, top, total)
        O[b, h, i, :] = o.to(T)
        L[b, h, i] = lse


@tw.kernel
def flash_attention_masked(
    Q: tw.In[T, B, G * R, M, D],
    K: tw.In[T, B, G, N, D],
    V: tw.In[T, B, G, N, E],
    Mask: tw.In[U, B, G * R, M, N],
    O: tw.Out[T, B, G * R, M, E],
    L: tw.Out[tw.f32, B, G * R, M],
    scale: float,
    R: int = 1,
):
    for b, h, i in tw.parallel(B, G * R, M, tile=(1, 1, None)):
        g = h // R
        q = Q[b, h, i, :]
        acc, top, total = tw.zeros((i, E)), tw.full((i,), -INFINITY, tw.f32), tw.zeros((i,))
        for j in tw.range(N):
            s = (q @ K[b, g, j, :].T) * scale
            mask = Mask[b, h, i, j]
            s = tw.where(mask, s, -INFINITY) if mask.dtype == tw.bool_ else s + mask
            acc, top, total = attend(acc, top, total, s, V[b, g, j, :])
        o, lse = finished(acc, top, total)
        O[b, h, i, :] = o.to(T)
        L[b, h, i] = lse


def probabilities(q, k, lse, i, j, scale, offset, causal):
    """exp(scores - lse) of queries i and keys j."""
    p = tw.exp((q @ k.T) * scale - tw.where(lse == -INFINITY, 0.0, lse)[:, None])
    return tw.where(tw.indices(j) <= tw.indices(i)[:, None] + offset, p, 0.0) if causal else p


@tw.kernel
def flash_attention_dq(
    Q: tw.In[T, B, G * R, M, D],
    K: tw.In[T, B, G, N, D],
    V: tw.In[T, B, G, N, E],
    O: tw.In[T, B, G * R, M, E],
    L: tw.In[tw.f32, B, G * R, M],
    dO: tw.In[T, B, G * R, M, E],
    dL: tw.In[tw.f32, B, G * R, M],
    dQ: tw.Out[T, B, G * R, M, D],
    Delta: tw.Out[tw.f32, B, G * R, M],
    scale: float,
    R: int = 1,
    offset: int = 0,
    causal: tw.const = False,
):
    for b, h, i in tw.parallel(B, G * R, M, tile=(1, 1, None)):
        g = h // R
        q, lse, do = Q[b, h, i, :], L[b, h, i], dO[b, h, i, :]
        delta = tw.sum(do.to(tw.f32) * O[b, h, i, :].to(tw.f32), axis=1) - dL[b, h, i]
        Delta[b, h, i] = delta
        dq = tw.zeros((i, D), tw.f32)
        for j in tw.range(0, min(N, i.start + i.size + offset) if causal else N):
            k = K[b, g, j, :]
            p = probabilities(q, k, lse, i, j, scale, offset, causal)
            ds = p * (do @ V[b, g, j, :].T - delta[:, None])
            dq += ds.to(T) @ k
        dQ[b, h, i, :] = (dq * scale).to(T)


@tw.kernel
def flash_attention_dkdv(
    Q: tw.In[T, B, G * R, M, D],
    K: tw.In[T, B, G, N, D],
    V: tw.In[T, B, G, N, E],
    L: tw.In[tw.f32, B, G * R, M],
    Delta: tw.In[tw.f32, B, G * R, M],
    dO: tw.In[T, B, G * R, M, E],
    dK: tw.Out[T, B, G, N, D],
    dV: tw.Out[T, B, G, N, E],
    scale: float,
    R: int = 1,
    offset: int = 0,
    causal: tw.const = False,
):
    for b, g, j in tw.parallel(B, G, N, tile=(1, 1, None)):
        k, v = K[b, g, j, :], V[b, g, j, :]
        dk, dv = tw.zeros((j, D), tw.f32), tw.zeros((j, E), tw.f32)
        for r in range(R):
            h = g * R + r
            for i in tw.range(max(0, j.start - offset) if causal else 0, M):
                q, do = Q[b, h, i, :], dO[b, h, i, :]
                p = probabilities(q, k, L[b, h, i], i, j, scale, offset, causal)
                dv += p.to(T).T @ do
                ds = p * (do @ v.T - Delta[b, h, i][:, None])
                dk += ds.to(T).T @ q
        dK[b, g, j, :] = (dk * scale).to(T)
        dV[b, g, j, :] = dv.to(T)


@tw.kernel
def flash_attention_backward(
    Q: tw.In[T, B, G * R, M, D],
    K: tw.In[T, B, G, N, D],
    V: tw.In[T, B, G, N, E],
    L: tw.In[tw.f32, B, G * R, M],
    Delta: tw.In[tw.f32, B, G * R, M],
    dO: tw.In[T, B, G * R, M, E],
    dQ: tw.InOut[tw.f32, B, G * R, M, D],
    dK: tw.Out[T, B, G, N, D],
    dV: tw.Out[T, B, G, N, E],
    scale: float,
    R: int = 1,
    offset: int = 0,
    causal: tw.const = False,
):
    """All gradients at once, five products instead of seven: a grid point owns a key head, and adds to the dQ of its query heads."""
    for b, g in tw.parallel(B, G, tile=(1, 1)):
        for j in tw.range(N):
            k, v = K[b, g, j, :], V[b, g, j, :]
            dk, dv = tw.zeros((j, D), tw.f32), tw.zeros((j, E), tw.f32)
            for r in range(R):
                h = g * R + r
                for i in tw.range(max(0, j.start - offset) if causal else 0, M):
                    q, do = Q[b, h, i, :], dO[b, h, i, :]
                    p = probabilities(q, k, L[b, h, i], i, j, scale, offset, causal)
                    dv += p.to(T).T @ do
                    ds = p * (do @ v.T - Delta[b, h, i][:, None])
                    dk += ds.to(T).T @ q
                    dQ[b, h, i, :] += (ds @ k.to(tw.f32)) * scale
            dK[b, g, j, :] = (dk * scale).to(T)
            dV[b, g, j, :] = dv.to(T)


@flash_attention.backward
def flash_attention_gradients(Q, K, V, O, L, dO, dL, scale, R, offset, causal):
    options = {"scale": scale, "R": R, "offset": offset, "causal": causal}
    if K.shape[0] * K.shape[1] < torch.get_num_threads():  # too few heads for one grid point each
        dq, delta = flash_attention_dq(Q, K, V, O, L, dO, dL, **options)
        dk, dv = flash_attention_dkdv(Q, K, V, L, delta, dO, **options)
    else:
        delta = (dO.float() * O.float()).sum(-1) - dL
        dq = torch.zeros(Q.shape, dtype=torch.float32, device=Q.device)
        dk, dv = flash_attention_backward(Q, K, V, L, delta, dO, dq, **options)
    return {"Q": dq.to(Q.dtype), "K": dk, "V": dv}


def draw_sizes(draw):
    heads = {"B": draw.size(2), "G": draw.size(3), "R": draw.random.choice((1, 1, 2, 4))}
    return heads | {"M": draw.size(200), "N": draw.size(200), "D": draw.size(80), "E": draw.size(80)}


def draw_arguments(draw, n, dtype, causal=False):
    return {
        "Q": draw.normal(n.B, n.G * n.R, n.M, n.D, dtype=dtype), "K": draw.normal(n.B, n.G, n.N, n.D, dtype=dtype),
        "V": draw.normal(n.B, n.G, n.N, n.E, dtype=dtype), "O": draw.out(n.B, n.G * n.R, n.M, n.E, dtype=dtype),
        "L": draw.out(n.B, n.G * n.R, n.M), "scale": max(n.D, 1) ** -0.5, "R": n.R,
    } | ({"offset": draw.random.choice((0, max(n.N - n.M, 0))), "causal": True} if causal else {})  # fmt: skip


def draw_masked(draw, n, dtype, boolean):
    mask = draw.bools(n.B, n.G * n.R, n.M, n.N, probability=draw.random.choice((0.5, 0.02)))
    if not boolean:
        mask = draw.normal(n.B, n.G * n.R, n.M, n.N).masked_fill(mask, -INFINITY)
    return draw_arguments(draw, n, dtype) | {"Mask": mask}


def per_query_head(a, x):
    return x.repeat_interleave(a.R, 1)


def scores(a):
    s = a.Q @ per_query_head(a, a.K).mT * a.scale
    if getattr(a, "causal", False):
        s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(a.offset + 1), -INFINITY)
    if hasattr(a, "Mask"):
        s = s.masked_fill(~a.Mask, -INFINITY) if a.Mask.dtype == torch.bool else s + a.Mask
    return s


def reference(a):
    s = scores(a)
    return {"O": s.softmax(-1).nan_to_num(0.0) @ per_query_head(a, a.V), "L": s.logsumexp(-1)}


def sdpa(a, causal=False):
    return torch.nn.functional.scaled_dot_product_attention(
        a.Q, a.K, a.V, getattr(a, "Mask", None), is_causal=causal, scale=a.scale, enable_gqa=a.R > 1
    )


def with_gradients(draw, n, dtype, causal):
    """dO, and what the forward pass and the kernel before give to a backward kernel."""
    a = draw_arguments(draw, n, dtype, causal)
    a["dO"] = draw.normal(n.B, n.G * n.R, n.M, n.E, dtype=dtype)
    forward = reference(SimpleNamespace(**{k: v.double() if isinstance(v, torch.Tensor) else v for k, v in a.items()}))
    a["O"], a["L"] = forward["O"].to(dtype), forward["L"].float()
    return a


def dq_arguments(draw, n, dtype, causal=False):
    a = with_gradients(draw, n, dtype, causal)
    a["dL"] = draw.normal(n.B, n.G * n.R, n.M)
    return a | {"dQ": draw.out(n.B, n.G * n.R, n.M, n.D, dtype=dtype), "Delta": draw.out(n.B, n.G * n.R, n.M)}


def dkdv_arguments(draw, n, dtype, causal=False):
    a = with_gradients(draw, n, dtype, causal)
    delta = (a["dO"].double() * a.pop("O").double()).sum(-1).float()
    dk, dv = draw.out(n.B, n.G, n.N, n.D, dtype=dtype), draw.out(n.B, n.G, n.N, n.E, dtype=dtype)
    return a | {"Delta": delta, "dK": dk, "dV": dv}


def backward_arguments(draw, n, dtype, causal=False):
    return dkdv_arguments(draw, n, dtype, causal) | {"dQ": draw.normal(n.B, n.G * n.R, n.M, n.D)}


def gradients(a, delta):
    """Algorithm 2 in whole matrices, from the same L and Delta."""

    def per_key_head(x):
        return x.unflatten(1, (-1, a.R)).sum(2) if x.numel() else x[:, :: a.R]

    p = (scores(a) - a.L.nan_to_num(neginf=0.0)[..., None]).exp()
    ds = p * (a.dO @ per_query_head(a, a.V).mT - delta[..., None]) * a.scale
    return ds @ per_query_head(a, a.K), per_key_head(ds.mT @ a.Q), per_key_head(p.mT @ a.dO)


def dq_reference(a):
    delta = (a.dO * a.O).sum(-1) - a.dL
    return {"dQ": gradients(a, delta)[0], "Delta": delta}


def dkdv_reference(a):
    _, dk, dv = gradients(a, a.Delta)
    return {"dK": dk, "dV": dv}


def backward_reference(a):
    dq, dk, dv = gradients(a, a.Delta)
    return {"dQ": a.dQ + dq, "dK": dk, "dV": dv}


BENCH = (
    {"B": 1, "G": 12, "R": 1, "M": 512, "N": 512, "D": 64, "E": 64},
    {"B": 8, "G": 12, "R": 1, "M": 128, "N": 128, "D": 64, "E": 64},
)
HALVES = (torch.float32, torch.bfloat16, torch.float16)


def case(name, kernel, arguments, reference_, products, peer=None, floor=0.1):
    def flops(n):
        return 2.0 * products * n.B * n.G * n.R * n.M * n.N * n.D

    return Case(name, kernel, draw_sizes, arguments, reference_, HALVES, 24.0, floor, BENCH, peer, flops)


CASES = [
    case("flash_attention", flash_attention, draw_arguments, reference, 2, sdpa),
    case(
        "flash_attention_causal",
        flash_attention,
        partial(draw_arguments, causal=True),
        reference,
        1,
        partial(sdpa, causal=True),
    ),
    case("flash_attention_bool_mask", flash_attention_masked, partial(draw_masked, boolean=True), reference, 2, sdpa),
    case("flash_attention_added_mask", flash_attention_masked, partial(draw_masked, boolean=False), reference, 2),
    case("flash_attention_dq", flash_attention_dq, dq_arguments, dq_reference, 3, floor=8.0),
    case(
        "flash_attention_dq_causal",
        flash_attention_dq,
        partial(dq_arguments, causal=True),
        dq_reference,
        1.5,
        floor=8.0,
    ),
    case("flash_attention_dkdv", flash_attention_dkdv, dkdv_arguments, dkdv_reference, 4, floor=8.0),
    case(
        "flash_attention_dkdv_causal",
        flash_attention_dkdv,
        partial(dkdv_arguments, causal=True),
        dkdv_reference,
        2,
        floor=8.0,
    ),
    case("flash_attention_backward", flash_attention_backward, backward_arguments, backward_reference, 5, floor=8.0),
    case(
        "flash_attention_backward_causal",
        flash_attention_backward,
        partial(backward_arguments, causal=True),
        backward_reference,
        2.5,
        floor=8.0,
    ),
]
