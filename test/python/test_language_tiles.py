"""Tiles that the compiler chooses change no result, and outputs are written whole: what is accepted, what is told at a call, what `check` finds."""

from __future__ import annotations

import pytest
import torch

import tilewright as tw
from tilewright.language import interpreter

M, N, K = tw.symbols("M N K")
f32, i64 = tw.f32, tw.i64


@tw.kernel
def sum_of_squares(X: tw.In[f32, M], Y: tw.InOut[f32, 1]):
    for i in tw.parallel(M):
        tw.atomic_add(Y, 0, -0.5 * tw.sum(X[i] * X[i]) / 3.0)


@tw.kernel
def column_sums(X: tw.In[f32, M, N], Y: tw.InOut[f32, N]):
    for i in tw.parallel(M):
        total = tw.zeros((N,), f32)
        for t in range(3):
            total += tw.sum(X[i, :], axis=0) * t
        tw.atomic_add(Y, ..., total)


@tw.kernel
def gram(X: tw.In[f32, M, N], Y: tw.InOut[f32, N, N]):
    for i in tw.parallel(M):
        tw.atomic_add(Y, ..., X[i, :].T @ X[i, :])


@tw.kernel
def indices(X: tw.In[f32, M], Y: tw.Out[f32, M]):
    for i in tw.parallel(M):
        by_hand = 3 * (tw.iota(i) + i.start) - i.start - tw.iota(i)
        Y[i] = X[i] * tw.indices(i).to(f32) + by_hand.to(f32)


@tw.kernel
def lower_triangle(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
    for i, j in tw.parallel(M, N):
        distance = tw.iota(i)[:, None] - tw.iota(j)[None, :] + (i.start - j.start)
        Y[i, j] = tw.where(distance >= 0, X[i, j], 0.0)


@tw.kernel
def moved_by_data(X: tw.In[f32, M], Off: tw.In[i64, 1], Y: tw.Out[f32, N]):
    for i in tw.parallel(N):
        Y[i] = X[i + Off[0]]


@tw.kernel
def gathered(X: tw.In[f32, M], Y: tw.Out[f32, M]):
    for i in tw.parallel(M):
        Y[i] = X[M - 1 - tw.indices(i)]


@tw.kernel
def halves_exchanged(X: tw.In[f32, M, K], Y: tw.Out[f32, M, K]):
    for i in tw.parallel(M):
        half = K // 2
        Y[i, half:] = X[i, : K - half]
        Y[i, :half] = X[i, K - half :]


@tw.kernel
def pairs(X: tw.In[f32, M, 2, N], Y: tw.Out[f32, M, 2 * N]):
    for i in tw.parallel(M):
        Y[i, :] = tw.flip(X[i, :, :], 1).reshape((i, 2 * N))


@tw.kernel
def interleaved(X: tw.In[f32, M, N], Z: tw.In[f32, M, N], Y: tw.Out[f32, M, 2 * N]):
    for i, j in tw.parallel(M, N):
        Y[i, 2 * j + 1] = X[i, j]
        Y[i, 2 * j] = Z[i, j]


@tw.kernel
def rows_in_groups(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
    for g in tw.parallel((M + 3) // 4, tile=1):
        for r in range(4 * g, min(M, 4 * g + 4)):
            Y[r, :] = X[r, :] * 2


@tw.kernel
def until_all_are_done(X: tw.In[i64, M], Y: tw.Out[i64, M]):
    for i in tw.parallel(M):
        x = X[i]
        while tw.any(x > 1):
            x = tw.where(x > 1, x // 2, x)
        Y[i] = x


@tw.kernel
def written_beyond(X: tw.In[f32, M], Y: tw.Out[f32, N]):
    for i in tw.parallel(M):
        tw.store(Y, i, X[i], clip=True)


def arguments(kernel):
    torch.manual_seed(0)
    m, n = torch.randn(37), torch.randn(37, 6)
    return {
        "sum_of_squares": (m, torch.ones(1)),
        "column_sums": (n, torch.ones(6)),
        "gram": (n, torch.ones(6, 6)),
        "indices": (m, torch.empty(37)),
        "lower_triangle": (n, torch.empty(37, 6)),
        "moved_by_data": (m, torch.tensor([7]), torch.empty(20)),
        "gathered": (m, torch.empty(37)),
        "halves_exchanged": (n, torch.empty(37, 6)),
        "pairs": (torch.randn(9, 2, 5), torch.empty(9, 10)),
        "interleaved": (n, n + 1, torch.empty(37, 12)),
        "rows_in_groups": (n, torch.empty(37, 6)),
        "until_all_are_done": (torch.arange(37), torch.empty(37, dtype=torch.int64)),
        "written_beyond": (m, torch.empty(30)),
    }[kernel.__name__]


KERNELS = [
    sum_of_squares, column_sums, gram, indices, lower_triangle, moved_by_data, gathered, halves_exchanged, pairs, interleaved,
    rows_in_groups, until_all_are_done, written_beyond,
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_what_does_not_depend_on_tiles_is_accepted_and_agrees_for_all_of_them(kernel):
    given = arguments(kernel)
    compiled = [a.clone() for a in given]
    kernel(*compiled)
    for tiles in (1, 3, 16, 64):
        assert kernel.check(*[a.clone() for a in given], tiles=tiles) == []
        interpreted = [a.clone() for a in given]
        interpreter.run(kernel._program_of(given), interpreted, tiles=tiles)
        for x, y in zip(compiled, interpreted, strict=True):
            torch.testing.assert_close(x, y)


def test_a_grid_that_does_not_cover_an_output_is_told_at_the_call():
    @tw.kernel
    def half(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M // 2):
            Y[i] = X[i]

    with pytest.raises(
        tw.KernelError, match="dimension 0 of Y has the size 10 and is written up to 5, and an Out is written whole"
    ):
        half(torch.randn(10))
    assert half(torch.randn(0)).shape == (0,)

    @tw.kernel
    def other(X: tw.In[f32, M], Y: tw.Out[f32, N]):
        tw.static_assert(M <= N)
        for i in tw.parallel(M):
            Y[i] = X[i]

    y = torch.zeros(4)
    other(torch.ones(4), y)
    assert torch.equal(y, torch.ones(4))
    with pytest.raises(tw.KernelError, match="the size 5 and is written up to 4"):
        other(torch.ones(4), torch.zeros(5))
    with pytest.raises(tw.KernelError, match="the size 31 and is written up to 30"):
        written_beyond(torch.ones(30), torch.zeros(31))


def test_check_finds_results_that_depend_on_tiles_in_ways_that_are_not_followed():
    @tw.kernel
    def own_rows(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            total = tw.zeros((i,), f32)
            for t in range(i.start, i.stop):
                total += X[t]
            Y[i] = total

    @tw.kernel
    def last_tile(X: tw.In[f32, M, N], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            last = tw.zeros((i,), f32)
            for j in tw.range(N):
                last = tw.sum(X[i, j], axis=1)
            Y[i] = last

    for kernel, x in ((own_rows, torch.ones(37)), (last_tile, torch.ones(4, 37))):
        (finding,) = kernel.check(x)
        assert finding.kind == "tile-dependent" and "depending on the tiles that the compiler chooses" in str(finding)
        assert finding.source.startswith("Y[i] = ")
    assert last_tile.check(torch.zeros(4, 37)) == []


# -- groups of rows ------------------------------------------------------------------------------------------------------


@tw.kernel
def groups_by_variables(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N], BLOCK: tw.const = 4):
    for g in tw.parallel((M + BLOCK - 1) // BLOCK, tile=1):
        r0 = g * BLOCK
        r1 = min(r0 + BLOCK, M)
        for r in tw.range(r0, r1):
            Y[r, :] = X[r, :] * 2


@tw.kernel
def groups_and_one_more(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
    for g in tw.parallel(M // 4 + 1, tile=1):
        for r in range(min(M, 4 * g), min(M, 4 * g + 4)):
            Y[r, :] = X[r, :] * 2


@tw.kernel
def groups_counted_from_zero(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
    for g in tw.parallel((M + 3) // 4, tile=1):
        for r in range(min(4, M - 4 * g)):
            Y[4 * g + r, :] = X[4 * g + r, :] * 2


@tw.kernel
def rows_of_the_tile(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
    for i in tw.parallel(M, tile=4):
        for r in range(i.size):
            Y[i.start + r, :] = X[i.start + r, :] * 2


@tw.kernel
def groups_in_two_dimensions(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
    for g, h in tw.parallel((M + 3) // 4, (N + 3) // 4, tile=(1, 1)):
        for r in range(4 * g, min(M, 4 * g + 4)):
            for c in tw.range(4 * h, min(N, 4 * h + 4)):
                Y[r, c] = X[r, c] * 2


GROUPS = (
    groups_by_variables,
    groups_and_one_more,
    groups_counted_from_zero,
    rows_of_the_tile,
    groups_in_two_dimensions,
)


@pytest.mark.parametrize("kernel", GROUPS, ids=lambda k: k.name)
def test_rows_in_groups(kernel):
    for rows in (0, 1, 4, 5, 37):
        x = torch.randn(rows, 6)
        assert torch.equal(kernel(x), x * 2)
        assert kernel.check(x) == []
