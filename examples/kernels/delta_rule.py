"""Kimi Delta Attention (KDA) and the gated delta rule, step by step and in chunks.

The state S [D, E] of a head fades by a gate for each of its D rows, and then learns the value v for the key k as far as it does not know it:

    S' = exp(g) * S[t-1]        u[t] = beta[t] * (v[t] - k[t] S')        S[t] = S' + k[t]^T u[t]        o[t] = scale * q[t] S[t]

Q, K and Gate (g <= 0) [B, N, H, D], V and O [B, N, H, E], Beta [B, N, H], First and Last [B, H, D, E]. That is KDA (Kimi Linear, 2025,
arXiv:2510.26692); with one gate for all rows, Gate[..., None].expand(..., D), it is the gated delta rule (Yang et al., 2024, arXiv:2412.06464).

Unrolled from a chunk's first state S0, with the running sum G of its gates, the rule says for all of the chunk's positions at once

    (I + A) U = beta * (V - K+ S0)        A[i, j] = beta[i] * k+[i] . k-[j] for j < i        K+ = K exp(G)        K- = K exp(-G)

a triangular system, and O = Q+ S0 + tril(Q+ K-^T) U, S = exp(G[-1]) * (S0 + K-^T U). G counts from the chunk's middle where it is an exponent of
both signs: a chunk of 16 steps is safe while a gate is above -11. Columns of S need nothing of the others: a grid point owns some.
"""

from __future__ import annotations

from functools import partial

import torch
from gallery import Case

import tilewright as tw

B, N, H, D, E = tw.symbols("B N H D E")
T = tw.dtypes("T")


@tw.kernel
def delta_rule(
    Q: tw.In[T, B, N, H, D],
    K: tw.In[T, B, N, H, D],
    V: tw.In[T, B, N, H, E],
    Gate: tw.In[tw.f32, B, N, H, D],
    Beta: tw.In[tw.f32, B, N, H],
    First: tw.In[tw.f32, B, H, D, E],
    O: tw.Out[T, B, N, H, E],
    Last: tw.Out[tw.f32, B, H, D, E],
    scale: float,
):
    for b, h, e in tw.parallel(B, H, E, tile=(1, 1, 64)):
        state = First[b, h, :, e]
        for t in range(N):
            q, k, v = Q[b, t, h, :].to(tw.f32), K[b, t, h, :].to(tw.f32), V[b, t, h, e].to(tw.f32)
            state *= tw.exp(Gate[b, t, h, :])[:, None]
            u = Beta[b, t, h] * (v - k @ state)
            state += k[:, None] * u
            O[b, t, h, e] = (q @ state * scale).to(T)
        Last[b, h, :, e] = state


@tw.kernel
def delta_rule_chunked(
    Q: tw.In[T, B, N, H, D],
    K: tw.In[T, B, N, H, D],
    V: tw.In[T, B, N, H, E],
    Gate: tw.In[tw.f32, B, N, H, D],
    Beta: tw.In[tw.f32, B, N, H],
    First: tw.In[tw.f32, B, H, D, E],
    O: tw.Out[T, B, N, H, E],
    Last: tw.Out[tw.f32, B, H, D, E],
    scale: float,
):
    for b, h, e in tw.parallel(B, H, E, tile=(1, 1, 64)):
        state = First[b, h, :, e]
        for t in tw.range(N, tile=16):
            gates = tw.cumsum(Gate[b, t, h, :], axis=0)
            middle, end = gates[(t.size - 1) // 2, :], gates[t.size - 1, :]
            rise, fall = tw.exp(gates - middle), tw.exp(middle - gates)
            q, k = Q[b, t, h, :].to(tw.f32) * rise, K[b, t, h, :].to(tw.f32)
            inverse, k = k * fall, k * rise
            beta, at = Beta[b, t, h][:, None], tw.iota(t)
            start = state * tw.exp(middle)[:, None]
            a = tw.where(at < at[:, None], k @ inverse.T * beta, 0.0)
            u = (V[b, t, h, e].to(tw.f32) - k @ start) * beta
            for r in range(t.size):  # row r is final: take it out of those below
                u -= a[:, r][:, None] * u[r, :]
            scores = tw.where(at <= at[:, None], q @ inverse.T, 0.0)
            O[b, t, h, e] = ((q @ start + scores @ u) * scale).to(T)
            state = (start + inverse.T @ u) * tw.exp(end - middle)[:, None]
        Last[b, h, :, e] = state


def draw_sizes(draw):
    return {"B": draw.size(2), "N": draw.size(140), "H": draw.size(3), "D": draw.size(80), "E": draw.size(140)}


def draw_arguments(draw, n, dtype, one_gate=False):
    gate = -3.0 * draw.uniform(n.B, n.N, n.H, 1 if one_gate else n.D) ** 4
    keys = torch.nn.functional.normalize(draw.normal(n.B, n.N, n.H, n.D), dim=-1)
    return {
        "Q": draw.normal(n.B, n.N, n.H, n.D, dtype=dtype),
        "K": keys.to(dtype),
        "V": draw.normal(n.B, n.N, n.H, n.E, dtype=dtype),
        "Gate": gate.expand(n.B, n.N, n.H, n.D),
        "Beta": draw.uniform(n.B, n.N, n.H),
        "First": draw.normal(n.B, n.H, n.D, n.E),
        "O": draw.out(n.B, n.N, n.H, n.E, dtype=dtype),
        "Last": draw.out(n.B, n.H, n.D, n.E),
        "scale": max(n.D, 1) ** -0.5,
    }


def reference(a):
    state, rows = a.First.clone(), []
    for t in range(a.Q.shape[1]):
        state = state * torch.exp(a.Gate[:, t])[..., None]
        k = a.K[:, t, :, None, :]
        u = a.Beta[:, t, :, None, None] * (a.V[:, t, :, None, :] - k @ state)
        state = state + k.mT * u
        rows.append((a.Q[:, t, :, None, :] @ state)[:, :, 0] * a.scale)
    return {"O": torch.stack(rows, 1) if rows else torch.zeros_like(a.V), "Last": state}


def case(name, kernel, one_gate, bench):
    return Case(
        name,
        kernel,
        draw_sizes,
        partial(draw_arguments, one_gate=one_gate),
        reference,
        dtypes=(torch.float32, torch.bfloat16, torch.float16),
        tolerance=32,
        floor=1.0,
        bench=bench,
        peer=reference,
    )


STEPS = ({"B": 8, "N": 16, "H": 16, "D": 128, "E": 128},)
LONG = ({"B": 1, "N": 1024, "H": 8, "D": 128, "E": 128},)
CASES = [
    case("kda", delta_rule, False, STEPS),
    case("gated_delta_rule", delta_rule, True, STEPS),
    case("kda_chunked", delta_rule_chunked, False, LONG),
    case("gated_delta_rule_chunked", delta_rule_chunked, True, LONG),
]
