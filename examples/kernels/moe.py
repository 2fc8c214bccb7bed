"""A mixture of experts: route tokens, sort them by expert, multiply each expert's rows by its matrix, and put the results together.

    ids, weights = moe_route(logits)           the K experts of each token          [M, K]
    offsets, slots = moe_slots(ids)            where each expert's rows begin, and the row of each (token, choice)
    rows = moe_permute(x, slots)               [M*K, D], the rows of expert e at offsets[e] .. offsets[e + 1]
    rows = moe_matmul(rows, weight, offsets)   [M*K, F]
    y = moe_combine(rows, slots, weights)      [M, F]

Routing is DeepSeek's (V2: arXiv:2405.04434, V3: arXiv:2412.19437): scores are the softmax or the sigmoid of the logits; experts come in groups, of which
the best few may be chosen from. A group counts by its best score, or with a bias by the sum of its two best; the bias only helps to choose.
"""

from __future__ import annotations

import itertools

import torch
from gallery import Case

import tilewright as tw

M, K, C, P, X, D, F, S = tw.symbols("M K C P X D F S")
T = tw.dtypes("T")
INFINITY = float("inf")


@tw.kernel
def moe_route(
    Logits: tw.In[T, M, C * P],
    Bias: tw.In[tw.f32, C, P],
    Ids: tw.Out[tw.i64, M, K],
    Weights: tw.Out[tw.f32, M, K],
    scale: float = 1.0,
    groups: int = 1,
    score: tw.const = "softmax",
    best: tw.const = 0,
    renormalise: tw.const = True,
):
    """The K experts of each token, best first, and their weights. With `best`, only from the `groups` groups with the largest sum of `best` best."""
    for i in tw.parallel(M):
        x = Logits[i, :].to(tw.f32)
        if score == "softmax":
            e = tw.exp(x - tw.max(x, axis=1, keepdims=True))
            scores = e / tw.sum(e, axis=1, keepdims=True)
        else:
            scores = tw.sigmoid(x)
        choice = scores.reshape((i, C, P)) + Bias[:, :]
        if best:
            values, _ = tw.topk(choice, best, axis=2)
            _, chosen = tw.topk(tw.sum(values, axis=2), groups, axis=1)
            allowed = tw.any(chosen[:, :, None] == tw.iota(C), axis=1)
            choice = tw.where(allowed[:, :, None], choice, -INFINITY)
        choice = choice.reshape((i, C * P))
        ids, weights = tw.zeros((i, K), tw.i64), tw.zeros((i, K))
        for n in range(K):
            expert = tw.argmax(choice, axis=1, keepdims=True)
            taken, slot = tw.iota(C * P) == expert, tw.iota(K) == n
            weight = tw.sum(tw.where(taken, scores, 0.0), axis=1, keepdims=True)
            ids, weights = tw.where(slot, expert, ids), tw.where(slot, weight, weights)
            choice = tw.where(taken, -INFINITY, choice)
        if renormalise:
            weights /= tw.sum(weights, axis=1, keepdims=True)
        Ids[i, :] = ids
        Weights[i, :] = weights * scale


@tw.kernel
def moe_slots(Ids: tw.In[tw.i64, S], Offsets: tw.Out[tw.i64, X + 1], Slots: tw.Out[tw.i64, S], X: int):
    """A counting sort: Offsets[e] assignments belong to experts before e, and assignment s goes to row Slots[s]; equal ones keep their order."""
    count = tw.zeros((X,), tw.i64)
    for s in tw.range(S, tile=64):
        count += tw.sum((Ids[s][:, None] == tw.iota(X)).to(tw.i64), axis=0)
    ends = tw.cumsum(count)
    Offsets[0] = 0
    Offsets[1:] = ends
    begin = ends - count
    for s in tw.range(S, tile=64):
        mine = (Ids[s][:, None] == tw.iota(X)).to(tw.i64)
        before = begin + tw.cumsum(mine, axis=0) - mine
        Slots[s] = tw.sum(before * mine, axis=1)
        begin += tw.sum(mine, axis=0)


@tw.kernel
def moe_permute(Tokens: tw.In[T, M, D], Slots: tw.In[tw.i64, M, K], Rows: tw.Out[T, M * K, D]):
    for i in tw.parallel(M):
        for n in range(K):
            Rows[Slots[i, n], :] = Tokens[i, :]


@tw.kernel
def moe_matmul(Rows: tw.In[T, S, D], Weight: tw.In[T, X, D, F], Offsets: tw.In[tw.i64, X + 1], Y: tw.Out[T, S, F]):
    for e, j in tw.parallel(X, F, tile=(1, None)):
        for i in tw.range(Offsets[e], Offsets[e + 1]):
            acc = tw.zeros((i, j))
            for k in tw.range(D):
                acc += Rows[i, k] @ Weight[e, k, j]
            Y[i, j] = acc.to(T)


@tw.kernel
def moe_combine(Rows: tw.In[T, M * K, F], Slots: tw.In[tw.i64, M, K], Weights: tw.In[tw.f32, M, K], Y: tw.Out[T, M, F]):
    for i, j in tw.parallel(M, F):
        y = tw.zeros((i, j))
        for n in range(K):
            y += Weights[i, n][:, None] * Rows[Slots[i, n], j].to(tw.f32)
        Y[i, j] = y.to(T)


def route_sizes(draw):
    best = draw.random.choice((0, 1, 2))
    groups = draw.random.choice((1, 4, 8))
    chosen = draw.random.randint(1, groups) if best else groups
    experts = draw.size(256 // groups, least=max(best, 1))
    return {
        "M": draw.size(90),
        "K": draw.size(min(8, chosen * experts), least=1),
        "C": groups,
        "P": experts,
        "chosen": chosen,
        "best": best,
    }


def route_arguments(draw, n, dtype, score="softmax"):
    """Logits whose scores are apart, so that what is chosen does not hang on rounding; biases are such that no sum of two scores ties."""
    experts = n.C * n.P
    order = torch.rand(n.M, experts, generator=draw.generator).argsort(1)
    bias = draw.integers(0, 2, n.C, n.P, dtype=torch.float32) if score == "sigmoid" else torch.zeros(n.C, n.P)
    return {
        "Logits": (order / 32.0).to(dtype),
        "Bias": bias,
        "Ids": draw.out(n.M, n.K, dtype=torch.int64),
        "Weights": draw.out(n.M, n.K),
        "scale": 2.5,
        "groups": n.chosen,
        "score": score,
        "best": n.best,
        "renormalise": draw.random.random() < 0.5,
    }


def route_reference(a):
    scores = a.Logits.softmax(1) if a.score == "softmax" else a.Logits.sigmoid()
    choice = scores.reshape(-1, *a.Bias.shape) + a.Bias
    if a.best:
        chosen = choice.topk(a.best, 2).values.sum(2).topk(a.groups, 1).indices
        allowed = torch.zeros(choice.shape[:2], dtype=torch.bool).scatter(1, chosen, True)
        choice = choice.masked_fill(~allowed[:, :, None], -INFINITY)
    ids = choice.flatten(1).topk(a.Ids.shape[1], 1).indices
    weights = scores.gather(1, ids)
    if a.renormalise:
        weights = weights / weights.sum(1, keepdim=True)
    return {"Ids": ids, "Weights": weights * a.scale}


def sorted_by_expert(draw, n):
    """Random choices of experts, and what moe_slots makes of them."""
    ids = draw.integers(0, n.X, n.M * n.K)
    slots = torch.empty_like(ids)
    slots[ids.sort(stable=True).indices] = torch.arange(len(ids))
    counts = torch.bincount(ids, minlength=n.X) if n.X else ids
    return ids, torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]), slots


def sizes(draw):
    experts = draw.size(17)
    return {
        "M": draw.size(150) if experts else 0,
        "K": draw.size(4),
        "X": experts,
        "D": draw.size(140),
        "F": draw.size(140),
    }


def slots_arguments(draw, n, dtype):
    ids, offsets, slots = sorted_by_expert(draw, n)
    return {"Ids": ids, "Offsets": torch.full_like(offsets, 77), "Slots": torch.full_like(slots, 77), "X": n.X}


def slots_reference(a):
    order = a.Ids.sort(stable=True).indices
    ends = torch.bincount(a.Ids, minlength=a.X).cumsum(0) if a.X else a.Ids
    return {
        "Offsets": torch.cat([torch.zeros(1, dtype=torch.int64), ends]),
        "Slots": torch.empty_like(order).scatter(0, order, torch.arange(len(order))),
    }


def permute_arguments(draw, n, dtype):
    slots = sorted_by_expert(draw, n)[2].reshape(n.M, n.K)
    return {"Tokens": draw.normal(n.M, n.D, dtype=dtype), "Slots": slots, "Rows": draw.out(n.M * n.K, n.D, dtype=dtype)}


def permute_reference(a):
    rows = torch.empty(a.Rows.shape, dtype=a.Tokens.dtype)
    rows[a.Slots] = a.Tokens[:, None]
    return {"Rows": rows}


def matmul_arguments(draw, n, dtype):
    return {
        "Rows": draw.normal(n.M * n.K, n.D, dtype=dtype),
        "Weight": draw.normal(n.X, n.D, n.F, dtype=dtype),
        "Offsets": sorted_by_expert(draw, n)[1],
        "Y": draw.out(n.M * n.K, n.F, dtype=dtype),
    }


def matmul_reference(a):
    ends = a.Offsets.tolist()
    rows = [a.Rows[begin:end] @ a.Weight[e] for e, (begin, end) in enumerate(itertools.pairwise(ends))]
    return {"Y": torch.cat(rows) if rows else torch.zeros(a.Y.shape, dtype=a.Rows.dtype)}


def combine_arguments(draw, n, dtype):
    return {
        "Rows": draw.normal(n.M * n.K, n.F, dtype=dtype),
        "Slots": sorted_by_expert(draw, n)[2].reshape(n.M, n.K),
        "Weights": draw.uniform(n.M, n.K),
        "Y": draw.out(n.M, n.F, dtype=dtype),
    }


def combine_reference(a):
    return {"Y": (a.Weights[..., None] * a.Rows[a.Slots]).sum(1)}


HALVES = (torch.float32, torch.bfloat16, torch.float16)
BENCH = ({"M": 512, "K": 4, "X": 32, "D": 1024, "F": 512},)
ROUTE = ({"M": 2048, "K": 8, "C": 8, "P": 32, "chosen": 4, "best": 2},)


def route_case(name, score, bench):
    def arguments(draw, n, dtype):
        return route_arguments(draw, n, dtype, score)

    return Case(name, moe_route, route_sizes, arguments, route_reference, HALVES, bench=bench, peer=route_reference)


CASES = [
    route_case("moe_route_softmax", "softmax", ROUTE),
    route_case("moe_route_sigmoid", "sigmoid", ROUTE),
    Case("moe_slots", moe_slots, sizes, slots_arguments, slots_reference, bench=BENCH, peer=slots_reference),
    Case(
        "moe_permute",
        moe_permute,
        sizes,
        permute_arguments,
        permute_reference,
        HALVES,
        bench=BENCH,
        peer=permute_reference,
    ),
    Case(
        "moe_matmul",
        moe_matmul,
        sizes,
        matmul_arguments,
        matmul_reference,
        HALVES,
        tolerance=32,
        floor=1.0,
        bench=BENCH,
        peer=matmul_reference,
        flops=lambda n: 2.0 * n.M * n.K * n.D * n.F,
    ),
    Case(
        "moe_combine",
        moe_combine,
        sizes,
        combine_arguments,
        combine_reference,
        HALVES,
        bench=BENCH,
        peer=combine_reference,
    ),
]
