"""The catalogue of wrong kernels: each is refused with file, line, the source line with a caret, what is wrong, and what to write instead."""

from __future__ import annotations

import functools
import linecache
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tilewright as tw
from tilewright.language import other_names, registry
from tilewright.language.kernel import Kernel

M, N, K, B, L, Unbound = tw.symbols("M N K B L Unbound")
T = tw.dtypes("T")
f32, f64, bf16, f16, i32, i64, i8, u8 = tw.f32, tw.f64, tw.bf16, tw.f16, tw.i32, tw.i64, tw.i8, tw.u8

N_BITS = 10**30

CASES: list[Any] = []


def refused(message: str, line: str = "", instead: str = "", **signature: Any) -> Callable[..., Any]:
    """The function defines a kernel and returns it; its program is refused with `message` in the text, the caret at `line`."""

    def register(define: Callable[[], Any]) -> Callable[[], Any]:
        CASES.append(pytest.param(define, message, line, instead, signature, id=define.__name__))
        return define

    return register


@pytest.mark.parametrize(("define", "message", "line", "instead", "signature"), CASES)
def test_wrong_kernel_is_refused(define, message, line, instead, signature):
    with pytest.raises(tw.KernelError) as caught:
        define().program(signature)
    error = caught.value
    text = str(error)
    assert message in text, text
    assert error.hint and f"write instead: {error.hint}" in text, text
    assert instead in error.hint, text
    if line:
        assert Path(error.file).name == "test_language_errors.py"
        assert text.startswith(f"test_language_errors.py:{error.line}:{error.column}: ")
        shown = error.source_line[error.column - 1 :]
        assert shown.startswith(line), text
        assert "^" in text
        assert Path(__file__).read_text().splitlines()[error.line - 1] == error.source_line


def test_catalogue_has_enough_kinds():
    messages = {case.values[1] for case in CASES}
    assert len(messages) >= 100


# -- tiles that the compiler chooses ------------------------------------------------------------------------------------

ANY_TILE = "the result depends on how long the tiles of i are, which the compiler chooses: "
OWN_TILE = ANY_TILE + "it runs along i, of which there is only this grid point's tile"
A_PLACE = ANY_TILE + "a place inside of the tile counts"


@refused(OWN_TILE, "tw.sum(X[i])", "tw.range loop")
def sum_along_the_grid():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.sum(X[i])

    return k


@refused(OWN_TILE, "tw.sum(X[i, :], axis=0)")
def sum_along_the_wrong_dimension():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = X[i, :] / tw.sum(X[i, :], axis=0)

    return k


@refused(OWN_TILE, "tw.max(X[i])")
def maximum_along_the_grid():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] - tw.max(X[i])

    return k


@refused(OWN_TILE, "X[i] @ X[i]")
def product_along_the_grid():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] @ X[i]

    return k


@refused(OWN_TILE, "tw.cumsum(X[i])")
def scan_along_the_grid():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.cumsum(X[i])

    return k


@refused(OWN_TILE, "tw.sort(X[i])")
def sort_along_the_grid():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.sort(X[i])[0]

    return k


@refused(OWN_TILE, "tw.argmax(X[i])")
def argmax_along_the_grid():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[i64, M]):
        for i in tw.parallel(M):
            Y[i] = tw.argmax(X[i])

    return k


@refused(OWN_TILE, "tw.sum(X[i, k])")
def carried_sum_along_the_grid():
    @tw.kernel
    def k(X: tw.In[f32, M, K], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            total = 0.0
            for k in tw.range(K):
                total = total + tw.sum(X[i, k])
            Y[i] = total

    return k


@refused(OWN_TILE, "tw.sum(X[i])")
def atomic_sum_of_another_function():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.InOut[f32, 1]):
        for i in tw.parallel(M):
            tw.atomic_add(Y, 0, tw.exp(tw.sum(X[i])))

    return k


@refused(OWN_TILE, "tw.sum(X[i])")
def atomic_sum_and_a_number():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.InOut[f32, 1]):
        for i in tw.parallel(M):
            tw.atomic_add(Y, 0, tw.sum(X[i]) + 1.0)

    return k


@refused(ANY_TILE + "it adds once for every grid point", "tw.atomic_add(Y, 0, 1.0)")
def atomic_count_of_grid_points():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.InOut[f32, 1]):
        for i in tw.parallel(M):  # noqa: B007
            tw.atomic_add(Y, 0, 1.0)

    return k


@refused(A_PLACE, "X[i.start]", "tw.indices(i)")
def element_where_the_tile_starts():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i.start]

    return k


@refused(ANY_TILE + "i.size or i.stop is part of it", "X[i] * i.size")
def length_of_the_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] * i.size

    return k


@refused(A_PLACE, "tw.iota(i).to(f32)", "tw.indices(i)")
def place_in_the_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] + tw.iota(i).to(f32)

    return k


@refused(A_PLACE, "tw.iota(i) < 3")
def mask_in_the_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.where(tw.iota(i) < 3, X[i], 0.0)

    return k


@refused(A_PLACE, "tw.flip(X[i])")
def flip_of_the_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.flip(X[i])

    return k


@refused(A_PLACE, "X[i, :] - X[i, :][0, :]")
def row_of_the_tile():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = X[i, :] - X[i, :][0, :]

    return k


@refused(ANY_TILE + "tiles are put together along i", "tw.concat((X[i], X[i]))")
def tiles_put_together_along_the_grid():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.InOut[f32, 2 * M]):
        for i in tw.parallel(M):
            tw.atomic_add(Y, tw.iota(2 * i.size) + 2 * i.start, tw.concat((X[i], X[i])))

    return k


# -- outputs that are written in part ----------------------------------------------------------------------------------


@refused("the output Y is written in part: dimension 1 of Y is written from 1 on", "Y[i, 1:] = X[i, 1:]", "InOut")
def first_column_is_not_written():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, 1:] = X[i, 1:]

    return k


@refused(
    "the output Y is written in part: dimension 0 of Y has the size 3 and is written up to 2", "Y[0] = X[0]", "InOut"
)
def third_element_is_not_written():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, 3]):
        Y[0] = X[0]
        Y[1] = X[0]

    return k


@refused("the output Y is written in part: in dimension 0 of Y one of 2 elements is", "Y[2 * i] = X[i]", "InOut")
def every_second_element_is_written():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, 2 * M]):
        for i in tw.parallel(M):
            Y[2 * i] = X[i]

    return k


@refused(
    "the output Y is written in part: dimension 0 of Y is written from 1 on", "tw.store(Y, i + 1, X[i], clip=True)"
)
def clipped_store_away_from_the_start():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            tw.store(Y, i + 1, X[i], clip=True)

    return k


@refused("dimension 0 of Y has the size M + 1 and is written up to M", "Y[i] = X[i]", "InOut")
def one_element_is_not_written():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M + 1]):
        for i in tw.parallel(M):
            Y[i] = X[i]

    return k


# -- ranges and writes -------------------------------------------------------------------------------------------------


@refused(
    "a store writes beyond a valid extent: dimension 0 of Y has the size M, and the range ends at M + 1",
    "Y[i + 1, :]",
    "clip=True",
)
def store_beyond():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i + 1, :] = X[i, :]

    return k


@refused(
    "a load reads beyond a valid extent: dimension 0 of X has the size M, and the range ends at M + 2",
    "X[i + 2]",
    "fill=",
)
def load_beyond():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i + 2]

    return k


@refused("a load reads below a valid extent", "X[i - 1]", "fill=")
def load_below():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i - 1]

    return k


@refused("the negative index -1 of dimension 0 of X", "X[-1, :]", "M - 1")
def negative_index():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, N]):
        Y[:] = X[-1, :]

    return k


@refused("the negative bound -1 of a slice of dimension 1 of X", "X[i, :-1]", "N - 1")
def negative_slice():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, 1:] = X[i, :-1]

    return k


@refused("is sliced with the step 2", "X[::2]", "times a constant")
def step_slice():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[::2]

    return k


@refused("has a negative length", "X[5:3]", "begin <= end")
def backward_slice():
    @tw.kernel
    def k(X: tw.In[f32, 9], Y: tw.Out[f32, 2]):
        Y[:] = X[5:3]

    return k


@refused("a load reads beyond a valid extent: dimension 0 of X has the size 8, and the range ends at 9", "X[8]")
def constant_index_beyond():
    @tw.kernel
    def k(X: tw.In[f32, 8], Y: tw.Out[f32, 1]):
        Y[0] = X[8]

    return k


@refused("the axis i runs over M, and dimension 1 of X has the size N", "X[:, i]", "static_assert(M <= N)")
def axis_on_another_size():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.sum(X[:, i], axis=0)

    return k


@refused("Y has 2 dimensions [M, N], and the index has 1 entry", "Y[i]", "Y[i, :]")
def wrong_rank_of_index():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i] = X[i, :]

    return k


@refused("X has 1 dimension [M], and the index has 2 entries", "X[i, 0]")
def too_many_indices():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i, 0]

    return k


@refused("the index 0.5 of dimension 0 of X is no integer", "X[0.5]")
def float_index():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, 1]):
        Y[0] = X[0.5]

    return k


@refused("dimension 0 of X is indexed by a tile [i] of f32", "X[X[i]]", "i64")
def float_tile_index():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[X[i]]

    return k


@refused("the output Y is never written", "Y: tw.Out[f32, M]", "Y[...] = value")
def output_never_written():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], Z: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Z[i] = X[i]

    return k


@refused("the output Y is written only under a run-time condition", "Y: tw.Out[f32, M]", "InOut")
def output_written_conditionally():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], n: int):
        for i in tw.parallel(M):
            if n > 3:
                Y[i] = X[i]

    return k


@refused("two grid points write the same element of Y: the parallel axis j does not move", "Y[i]", "j in the index")
def race_between_grid_points():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M]):
        for i, j in tw.parallel(M, N):
            Y[i] = tw.sum(X[i, j], axis=1)

    return k


@refused("two grid points write the same element of Y: the parallel axis i does not move", "Y[i // 2]")
def race_through_division():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M, tile=1):
            Y[i // 2] = X[i]

    return k


@refused("two grid points write the same element of Y", "Y[Idx[0]]")
def race_through_scatter():
    @tw.kernel
    def k(X: tw.In[f32, M], Idx: tw.In[i64, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M, tile=1):
            Y[Idx[0]] = X[i]

    return k


@refused("it is written at the sum of i and k", "Y[i + k]", "atomic_add")
def race_through_a_sum():
    @tw.kernel
    def k(X: tw.In[f32, M], W: tw.In[f32, K], Y: tw.Out[f32, M + K - 1]):
        for i in tw.parallel(M):
            for k in tw.range(K):
                Y[i + k] = X[i, None]

    return k


@refused("it is written at the sum of i and j", "Y[2 * i + 2 * j, :]", "dimensions of their own")
def race_of_two_axes():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, 2 * M + 2 * N, N]):
        for i, j in tw.parallel(M, N, tile=(1, 1)):
            Y[2 * i + 2 * j, :] = X[i, :]

    return k


@refused("it is written at the sum of g and h", "Y[r]", "dimensions of their own")
def race_through_the_begin_of_a_loop():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M + N]):
        for g, h in tw.parallel(M, N, tile=(1, 1)):
            for r in range(g + h, g + h + 1):
                Y[r] = X[g, h]

    return k


@refused("it is written at the sum of i and r", "Y[i.start + r]", "dimensions of their own")
def race_beyond_the_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M + 4]):
        for i in tw.parallel(M, tile=4):
            for r in range(i.size + 1):
                Y[i.start + r] = X[0]

    return k


@refused("the parallel axis g does not move where this store writes", "Y[r]", "g in the index")
def race_of_loops_that_begin_together():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.InOut[f32, M]):
        for g in tw.parallel(N, tile=1):
            for r in range(min(4, g), M):
                Y[r] = X[r, g]

    return k


@refused("every grid point repeats the store of line", "for i in tw.parallel(M)", "inside of the loop")
def store_before_parallel():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], Z: tw.Out[f32, 1]):
        Z[0] = 1.0
        for i in tw.parallel(M):
            Y[i] = X[i]

    return k


@refused("Y is an Out, which is written and not read", "Y[i]", "InOut")
def reading_an_out():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i]
            Y[i] = Y[i] * 2.0

    return k


@refused("Y is an Out, which is written and not read", "Y[i]", "InOut")
def augmented_assignment_to_an_out():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] += X[i]

    return k


@refused("X is an In, which is read and not written", "X[i]", "X: Out[...]")
def writing_an_in():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            X[i] = Y[i]

    # The value is evaluated first.
    @tw.kernel
    def k2(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            X[i] = 1.0

    assert k is not k2
    return k2


@refused("X is an In, which is read and not written", "X[i]", "X: InOut[...]")
def augmented_assignment_to_an_in():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            X[i] += 1.0

    return k


@refused("an atomic add reads what is there", "tw.atomic_add(Y, i, X[i])", "InOut")
def atomic_add_to_an_out():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            tw.atomic_add(Y, i, X[i])

    return k


@refused("is stored to a place of the shape [i] in Y", "Y[i]")
def stored_shape_does_not_fit():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i, :]

    return k


@refused("the fill 1.5 of a load from X, which is i32", "tw.load(X, i - 1, fill=1.5)")
def fill_of_another_dtype():
    @tw.kernel
    def k(X: tw.In[i32, M], Y: tw.Out[i32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.load(X, i - 1, fill=1.5)

    return k


@refused("the fill of a load is a number of f32", "tw.load(X, i - 1, fill=X[0])", "tw.where")
def fill_known_at_run_time():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.load(X, i - 1, fill=X[0])

    return k


# -- shapes ------------------------------------------------------------------------------------------------------------


@refused("shapes do not agree in `+`: a tile [i, N] of f32 (line", "X[i, :] + W[:]", "static_assert")
def shapes_do_not_agree():
    @tw.kernel
    def k(X: tw.In[f32, M, N], W: tw.In[f32, K], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = X[i, :] + W[:]

    return k


@refused("differ in dimension -1: j and i", "X[i, j] * W[i]")
def axes_do_not_line_up():
    @tw.kernel
    def k(X: tw.In[f32, M, N], W: tw.In[f32, M], Y: tw.Out[f32, M, N]):
        for i, j in tw.parallel(M, N):
            Y[i, j] = X[i, j] * W[i]

    return k


@refused("acc changes its shape in the loop in line", "for k in tw.range(K)", "in every iteration")
def carried_shape_changes():
    @tw.kernel
    def k(A: tw.In[f32, M, K], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            acc = tw.zeros((i,), tw.f32)
            for k in tw.range(K):
                acc = acc[:, None] + A[i, k]
            Y[i] = acc

    return k


@refused("acc changes its dtype in the loop in line", "for k in tw.range(K)", ".to(tw.f32)")
def carried_dtype_changes():
    @tw.kernel
    def k(A: tw.In[f32, M, K], Y: tw.Out[f64, M]):
        for i in tw.parallel(M):
            acc = tw.zeros((i,), tw.f32)
            for k in tw.range(K):
                acc = acc + tw.sum(A[i, k].to(tw.f64), axis=1)
            Y[i] = acc

    return k


@refused("acc is the number 0.0 before the loop in line", "", "tw.full(shape, value, tw.f32)")
def carried_number_becomes_a_tile():
    @tw.kernel
    def k(A: tw.In[f32, M, K], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            acc = 0.0
            for k in tw.range(K):
                acc += tw.sum(A[i, k], axis=1)
            Y[i] = acc

    return k


@refused("x is a tile [i] of f32 (line", "if n > 0:", "one shape in both branches")
def branches_with_different_shapes():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], n: int):
        for i in tw.parallel(M):
            if n > 0:
                x = X[i]
            else:
                x = tw.zeros((i, 2), tw.f32)
            Y[i] = x

    return k


@refused("x has two dtypes", "if n > 0:", ".to(dtype)")
def branches_with_different_dtypes():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f64, M], n: int):
        for i in tw.parallel(M):
            if n > 0:
                x = X[i]
            else:
                x = X[i].to(tw.f64)
            Y[i] = x

    return k


@refused("the inner dimensions k and N differ", "A[i, k] @ W[:, k]", "y.T")
def matmul_inner_dimensions():
    @tw.kernel
    def k(A: tw.In[f32, M, K], W: tw.In[f32, N, K], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            acc = tw.zeros((i, N), tw.f32)
            for k in tw.range(K):
                acc += A[i, k] @ W[:, k]
            Y[i, :] = acc

    return k


@refused("a matrix product of i32 and i32", "A[:, :] @ A[:, :]", ".to(tw.f32)")
def matmul_of_integers():
    @tw.kernel
    def k(A: tw.In[i32, M, M], Y: tw.Out[i32, M, M]):
        Y[:, :] = A[:, :] @ A[:, :]

    return k


@refused("a matrix product with a number", "A[:, :] @ 2.0", "`*`")
def matmul_with_a_number():
    @tw.kernel
    def k(A: tw.In[f32, M, M], Y: tw.Out[f32, M, M]):
        Y[:, :] = A[:, :] @ 2.0

    return k


@refused(
    "tw.sum along axis 2 of a tile [i, N], which has 2 dimensions", "tw.sum(X[i, :], axis=2)", "an axis in -2 .. 1"
)
def reduced_axis_out_of_range():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.sum(X[i, :], axis=2)

    return k


@refused("names a dimension twice", "tw.sum(X[i, :], axis=(1, -1))")
def reduced_axis_twice():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.sum(X[i, :], axis=(1, -1))

    return k


@refused("the other dimensions must be equal", "tw.concat((X[i, :], W[:, :]), axis=0)")
def concat_mismatch():
    @tw.kernel
    def k(X: tw.In[f32, M, N], W: tw.In[f32, M, K], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = tw.concat((X[i, :], W[:, :]), axis=0)

    return k


@refused("M*N and K*M elements", "X[:, :].reshape((M, K))", "same product")
def reshape_mismatch():
    @tw.kernel
    def k(X: tw.In[f32, M, N], W: tw.In[f32, M, K], Y: tw.Out[f32, M, K]):
        Y[:, :] = X[:, :].reshape((M, K))

    return k


@refused("tw.reshape of [M, N] cannot find the size for -1", "tw.reshape(X[:, :], (K, -1))")
def reshape_cannot_infer():
    @tw.kernel
    def k(X: tw.In[f32, M, N], W: tw.In[f32, M, K], Y: tw.Out[f32, M, K]):
        Y[:, :] = tw.reshape(X[:, :], (K, -1))

    return k


@refused("does not broadcast to [2, N]", "tw.broadcast_to(X[:], (2, N))")
def broadcast_mismatch():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, 2, N]):
        Y[:, :] = tw.broadcast_to(X[:], (2, N))

    return k


@refused("tw.squeeze of dimension 0 of [M, N], whose size is M", "tw.squeeze(X[:, :], 0)")
def squeeze_of_a_real_dimension():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, N]):
        Y[:] = tw.squeeze(X[:, :], 0)

    return k


@refused("tw.permute by (0, 0)", "tw.permute(X[:, :], 0, 0)")
def permute_twice():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, N, M]):
        Y[:, :] = tw.permute(X[:, :], 0, 0)

    return k


@refused(".T of a tile [M] of f32", "X[:].T", "tw.transpose")
def transpose_of_a_vector():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[:].T

    return k


@refused("tw.topk with k = a number of i64", "tw.topk(X[i, :], Len[0], axis=1)", "compile-time")
def topk_of_a_run_time_number():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Len: tw.In[i64, 1], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            v, _ = tw.topk(X[i, :], Len[0], axis=1)
            Y[i, :] = v

    return k


@refused("tw.topk of 9 elements along a dimension of 8", "tw.topk(X[i, :], 9, axis=1)")
def topk_of_too_many():
    @tw.kernel
    def k(X: tw.In[f32, M, 8], Y: tw.Out[f32, M, 9]):
        for i in tw.parallel(M):
            v, _ = tw.topk(X[i, :], 9, axis=1)
            Y[i, :] = v

    return k


@refused("tw.full with a size that is known only from data", "tw.zeros((Len[0],))", "tw.range(n)")
def data_dependent_shape():
    @tw.kernel
    def k(Len: tw.In[i64, M], Y: tw.Out[f32, M]):
        x = tw.zeros((Len[0],))
        Y[:] = x

    return k


@refused("n is a scalar of u64, and sizes are i64", "tw.zeros((n,))", "n: int")
def size_of_another_dtype():
    @tw.kernel
    def k(Y: tw.Out[f32, 1], n: tw.Scalar[tw.u64]):
        Y[0] = tw.sum(tw.zeros((n,)))

    return k


@refused("n is a scalar of i32, and sizes are i64", "X[:n]", "n: int")
def slice_of_another_dtype():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, 1], n: tw.Scalar[i32]):
        Y[0] = tw.sum(X[:n])

    return k


@refused("n is a scalar of i32, and sizes are i64", "tw.parallel(n.to(tw.i64))", "n: int")
def grid_of_another_dtype():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], n: tw.Scalar[i32]):
        for i in tw.parallel(n.to(tw.i64)):
            Y[i] = X[i]

    return k


@refused("n is a scalar of i32, and sizes are i64", "tw.topk(X[:], n)", "n: int")
def topk_of_another_dtype():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, 1], n: tw.Scalar[i32]):
        Y[0] = tw.topk(X[:], n)[0][0]

    return k


@refused("is sliced by a number that is known only from data", "X[: Len[0]]", "tw.range(begin, end)")
def data_dependent_slice():
    @tw.kernel
    def k(X: tw.In[f32, M], Len: tw.In[i64, 1], Y: tw.Out[f32, 1]):
        Y[0] = tw.sum(X[: Len[0]])

    return k


@refused("indexed by a bool tile: how many elements that selects depends on data", "X[X[:] > 0.0]", "tw.where")
def boolean_mask_index():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, 1]):
        Y[0] = tw.sum(X[X[:] > 0.0])

    return k


@refused("the grid depends on data", "tw.parallel(Len[0])", "inside of the grid point")
def data_dependent_grid():
    @tw.kernel
    def k(Len: tw.In[i64, 1], Y: tw.Out[f32, M]):
        for i in tw.parallel(Len[0]):
            Y[i] = 0.0

    return k


@refused("takes 16 MiB", "tw.zeros((2048, 2048), tw.f32)", "smaller tile sizes")
def tile_too_large():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        x = tw.zeros((2048, 2048), tw.f32)
        Y[:] = X[:] + tw.sum(x)

    return k


@refused("a tile [i, j] of f32 takes 16 MiB", "X[i, j]", "leave `tile` to the compiler")
def tile_sizes_too_large():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i, j in tw.parallel(M, N, tile=(2048, 2048)):
            Y[i, j] = X[i, j]

    return k


@refused("tiles are not gathered from", "x[Idx[i]]", "a load from a parameter")
def gather_from_a_tile():
    @tw.kernel
    def k(X: tw.In[f32, N], Idx: tw.In[i64, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            x = X[:]
            Y[i] = x[Idx[i]]

    return k


# -- dtypes ------------------------------------------------------------------------------------------------------------


@refused("`+` mixes f32 and i32", "X[i] + Z[i]", ".to(tw.f32) on the integer operand")
def float_with_integer_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Z: tw.In[i32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] + Z[i]

    return k


@refused("`*` of i32 and 0.5: the fraction would be lost", "X[i] * 0.5", "x.to(tw.f32)")
def integer_tile_with_a_float():
    @tw.kernel
    def k(X: tw.In[i32, M], Y: tw.Out[i32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] * 0.5

    return k


@refused("neither of which holds every value of the other", "X[i] + Z[i]", "tw.f32) on both")
def bf16_with_f16():
    @tw.kernel
    def k(X: tw.In[bf16, M], Z: tw.In[f16, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] + Z[i]

    return k


@refused("300 does not fit u8", "X[i] + 300")
def number_beyond_the_dtype():
    @tw.kernel
    def k(X: tw.In[u8, M], Y: tw.Out[u8, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] + 300

    return k


@refused("the parameter Y is bf16, and f32 is not converted to it silently", "Y[i]", ".to(tw.bf16)")
def lossy_store():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[bf16, M]):
        for i in tw.parallel(M):
            Y[i] = X[i]

    return k


@refused("the parameter Y is i32, and i64 is not converted to it silently", "Y[i]", ".to(tw.i32)")
def lossy_integer_store():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[i32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.argmax(X[i, :], axis=1)

    return k


@refused("the parameter Y is i32, which does not hold 0.5", "Y[i]")
def fraction_stored_to_integers():
    @tw.kernel
    def k(Y: tw.Out[i32, M]):
        for i in tw.parallel(M):
            Y[i] = 0.5

    return k


@refused("`/` of i32: division of integers has a fraction", "X[i] / 2", "`//`")
def true_division_of_integers():
    @tw.kernel
    def k(X: tw.In[i32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] / 2

    return k


@refused("`<<` of f32: shifts are for integers", "X[i] << 2")
def shift_of_floats():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] << 2

    return k


@refused("`<<` by 40: the count must lie in 0 .. 31", "X[i] << 40")
def shift_too_far():
    @tw.kernel
    def k(X: tw.In[i32, M], Y: tw.Out[i32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] << 40

    return k


@refused("`&` of f32: bitwise operators are for integers and bool", "X[i] & X[i]", "bitcast")
def bitwise_of_floats():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] & X[i]

    return k


@refused("`+` of bool tiles", "(X[i] > 0.0) + (X[i] < 1.0)", "to count")
def arithmetic_of_bool():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[i32, M]):
        for i in tw.parallel(M):
            Y[i] = (X[i] > 0.0) + (X[i] < 1.0)

    return k


@refused("tw.exp of i32", "tw.exp(X[i])", "tw.exp(x.to(tw.f32))")
def exp_of_integers():
    @tw.kernel
    def k(X: tw.In[i32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.exp(X[i])

    return k


@refused("tw.mean of i32: it takes floats", "tw.mean(X[i, :], axis=1)")
def mean_of_integers():
    @tw.kernel
    def k(X: tw.In[i32, M, N], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.mean(X[i, :], axis=1)

    return k


@refused("tw.any of f32: it takes bool", "tw.any(X[:])", "x != 0")
def any_of_floats():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[tw.bool_, 1]):
        Y[0] = tw.any(X[:])

    return k


@refused("tw.max of bool", "tw.max(X[:])", "tw.any or tw.all")
def max_of_bool():
    @tw.kernel
    def k(X: tw.In[tw.bool_, M], Y: tw.Out[tw.bool_, 1]):
        Y[0] = tw.max(X[:])

    return k


@refused("tw.where takes a bool tile, not a tile [i] of f32", "tw.where(X[i], X[i], 0.0)", "a comparison")
def where_of_floats():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.where(X[i], X[i], 0.0)

    return k


@refused("tw.where of two numbers has no dtype", "tw.where(X[i] > 0.0, 1.0, 0.0)", "tw.full")
def where_of_two_numbers():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.where(X[i] > 0.0, 1.0, 0.0)

    return k


@refused("tw.bitcast of f32 to i64: their widths differ", "tw.bitcast(X[i], tw.i64)", "32 bits")
def bitcast_of_another_width():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[i64, M]):
        for i in tw.parallel(M):
            Y[i] = tw.bitcast(X[i], tw.i64)

    return k


@refused("tw.cast takes a dtype, not 'f32'", 'tw.cast(X[i], "f32")')
def cast_to_a_string():
    @tw.kernel
    def k(X: tw.In[i32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.cast(X[i], "f32")

    return k


@refused("with the exponent -1", "X[i] ** -1")
def negative_power_of_integers():
    @tw.kernel
    def k(X: tw.In[i32, M], Y: tw.Out[i32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] ** -1

    return k


@refused("the parameter Y is bf16, and f32 is not converted to it silently", "Y[i]", ".to(T)", X="bf16", Y="bf16")
def lossy_store_to_a_dtype_parameter():
    @tw.kernel
    def k(X: tw.In[T, M], Y: tw.Out[T, M]):
        for i in tw.parallel(M):
            Y[i] = X[i].to(f32) * 2.0

    return k


@refused("the parameter Y is i32, and f32 is not converted to it silently", "tw.store(Y, i, ", ".to(T)", Y="i32")
def lossy_store_by_a_function():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[T, M]):
        for i in tw.parallel(M):
            tw.store(Y, i, X[i])

    return k


@refused("`+` mixes bf16 and i32", "X[i] + C[i]", ".to(T) on the integer operand", X="bf16", Y="bf16")
def integer_tile_with_a_dtype_parameter():
    @tw.kernel
    def k(X: tw.In[T, M], C: tw.In[i32, M], Y: tw.Out[T, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] + C[i]

    return k


@refused("f16 before, f32 after the body", "for k in tw.range(K)", ".to(T) on what is assigned, or tw.f32", X="f16")
def carried_dtype_parameter_changes():
    @tw.kernel
    def k(X: tw.In[T, M, K], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            total = tw.zeros((i,), T)
            for k in tw.range(K):
                total = total + tw.sum(X[i, k].to(f32), axis=1)
            Y[i] = total.to(f32)

    return k


@refused("total is the number 0.0 before the loop", "", "tw.full(shape, value, T)", X="f16")
def carried_number_becomes_a_tile_of_a_dtype_parameter():
    @tw.kernel
    def k(X: tw.In[T, M, K], Y: tw.Out[T, M]):
        for i in tw.parallel(M):
            total = 0.0
            for k in tw.range(K):
                total = total + tw.sum(X[i, k], axis=1)
            Y[i] = total

    return k


@refused("the tile that tw.full makes is bf16, and f32 is not converted", "tw.full(", ".to(dtype)", dtype=tw.bf16)
def lossy_fill_of_a_constant_dtype():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], dtype: tw.const):
        for i in tw.parallel(M):
            Y[i] = tw.full((i,), X[0], dtype).to(f32)

    return k


@refused("the parameter Y is bool, and f32 is not converted to it silently", "Y[i]", ".to(tw.bool_)")
def lossy_store_to_bool():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[tw.bool_, M]):
        for i in tw.parallel(M):
            Y[i] = X[i]

    return k


# -- truth values ------------------------------------------------------------------------------------------------------


@refused("`and` of a tile [i] of bool", "(X[i] > 0.0) and (X[i] < 1.0)", "`&`")
def and_of_tiles():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[tw.bool_, M]):
        for i in tw.parallel(M):
            Y[i] = (X[i] > 0.0) and (X[i] < 1.0)

    return k


@refused("`not` of a tile [i] of bool", "not (X[i] > 0.0)", "`~`")
def not_of_a_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[tw.bool_, M]):
        for i in tw.parallel(M):
            Y[i] = not (X[i] > 0.0)

    return k


@refused("the truth value of a tile [i] of bool", "X[i] > 0.0", "tw.where")
def truth_of_a_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            if X[i] > 0.0:
                Y[i] = X[i]
            else:
                Y[i] = 0.0

    return k


@refused("the truth value of M", "M:", "N != 0")
def truth_of_a_size():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            if M:
                Y[i] = X[i]

    return k


@refused("the truth value of a number of i64", "n:", "n != 0")
def truth_of_an_integer():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], n: int):
        for i in tw.parallel(M):
            if n:
                Y[i] = X[i]
            else:
                Y[i] = 0.0

    return k


@refused("a chain of comparisons of tiles", "0.0 < X[i] < 1.0", "(a <= x) & (x < b)")
def chain_of_comparisons():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[tw.bool_, M]):
        for i in tw.parallel(M):
            Y[i] = 0.0 < X[i] < 1.0

    return k


@refused("`is` of run-time values", "X[i] is Y")
def identity_of_tiles():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = 1.0 if X[i] is Y else 0.0

    return k


# -- variables ---------------------------------------------------------------------------------------------------------


@refused("total is used before it is assigned", "total")
def use_before_definition():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] + total  # noqa: F821
            total = X[i]  # noqa: F841

    return k


@refused("the name undefined_thing is not defined", "undefined_thing")
def undefined_name():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] + undefined_thing  # noqa: F821

    return k


@refused("s is used, and only the loop in line", "s", "before the loop")
def assigned_only_in_a_loop():
    @tw.kernel
    def k(X: tw.In[f32, M, K], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            for k in tw.range(K):
                s = tw.sum(X[i, k], axis=1)
            Y[i] = s

    return k


@refused("x is used, and only one branch of the `if` in line", "x", "in the other branch")
def assigned_in_one_branch():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], n: int):
        for i in tw.parallel(M):
            if n > 0:
                x = X[i]
            Y[i] = x

    return k


@refused("the loop variable k is used after its loop", "k", "the loop's size")
def axis_after_its_loop():
    @tw.kernel
    def k(X: tw.In[f32, M, K], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            s = tw.zeros((i,), tw.f32)
            for k in tw.range(K):
                s += tw.sum(X[i, k], axis=1)
            Y[i] = s + k.start

    return k


@refused("total is carried from one grid point to the next", "for i in tw.parallel(M)", "atomic_add")
def carried_over_grid_points():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        total = 0.0
        for i in tw.parallel(M):
            total = total + tw.sum(X[i])
            Y[i] = total

    return k


@refused("an element of a tile is assigned: tiles are values", "x[0]", "tw.where")
def assignment_to_an_element():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            x = X[i]
            x[0] = 1.0
            Y[i] = x

    return k


@refused("the parameter X is assigned as a whole", "X", "X[...] = value")
def assignment_to_a_parameter():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        X = X[:]
        Y[:] = X

    return k


@refused("3 values are unpacked into 2 variables", "a, b")
def unpacking_of_another_length():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        a, b = 1, 2, 3
        Y[:] = X[:] * a * b

    return k


@refused("X is a whole parameter, not a tile", "X * 2.0", "X[:]")
def whole_parameter_in_an_expression():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X * 2.0

    return k


@refused("which is a range of indices", "i % 2", "tw.indices(i)")
def arithmetic_with_an_axis():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] * (i % 2)

    return k


@refused("`<` of i, which is a range of indices", "i < 3", "tw.indices(i) <")
def comparison_of_an_axis():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.where(i < 3, X[i], 0.0)

    return k


@refused("i.index counts tiles, and the compiler chooses", "i.index", "tile=64")
def index_of_an_axis_without_a_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] + i.index

    return k


# -- statements --------------------------------------------------------------------------------------------------------


def _statement(define, message, line, instead=""):
    refused(message, line, instead)(define)


def statement_try():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        try:
            Y[:] = 0.0
        finally:
            pass

    return k


def statement_with():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        with open("x"):
            Y[:] = 0.0

    return k


def statement_lambda():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        f = lambda x: x  # noqa: E731
        Y[:] = f(0.0)

    return k


def statement_def():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        def f(x):
            return x

        Y[:] = f(0.0)

    return k


def statement_class():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        class C:
            pass

        Y[:] = 0.0

    return k


def statement_yield():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        yield 1
        Y[:] = 0.0

    return k


def statement_return():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = 0.0
        return X[:]

    return k


def statement_break():
    @tw.kernel
    def k(Y: tw.Out[f32, M], n: int):
        for t in range(3):
            if n > t:
                break
        Y[:] = 0.0

    return k


def statement_global():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        global CASES
        Y[:] = 0.0

    return k


def statement_del():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        x = 1.0
        del x
        Y[:] = 0.0

    return k


def statement_assert():
    @tw.kernel
    def k(Y: tw.Out[f32, M], n: int):
        assert n > 0
        Y[:] = 0.0

    return k


def statement_print():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        print(X[:])
        Y[:] = 0.0

    return k


def statement_import():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        import math

        Y[:] = math.pi

    return k


def statement_f_string():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        tw.print(f"x = {X[0]}")
        Y[:] = 0.0

    return k


def statement_raise():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        raise ValueError("no")

    return k


def statement_dict():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        d = {"a": 1.0}
        Y[:] = d["a"]

    return k


def statement_walrus():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        Y[:] = (x := 1.0) + x

    return k


def statement_loop_else():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        for t in range(3):  # noqa: B007
            pass
        else:
            Y[:] = 0.0

    return k


def statement_empty_loop():
    @tw.kernel
    def k(Y: tw.Out[f32, M]):
        Y[:] = 0.0
        for t in range(3):  # noqa: B007
            pass

    return k


def statement_match():
    @tw.kernel
    def k(Y: tw.Out[f32, M], c: tw.const = 1):
        match c:
            case 1:
                Y[:] = 0.0

    return k


_statement(statement_try, "try cannot be used in a kernel", "try:")
_statement(statement_with, "with cannot be used in a kernel", "with open")
_statement(statement_lambda, "lambda cannot be used in a kernel", "lambda x", "def")
_statement(statement_def, "a function inside of the kernel cannot be used", "def f(x)", "module's level")
_statement(statement_class, "a class cannot be used in a kernel", "class C")
_statement(statement_yield, "yield cannot be used in a kernel", "yield 1")
_statement(statement_return, "return cannot be used in a kernel", "return X[:]", "Out")
_statement(statement_break, "break cannot be used in a kernel", "break", "while")
_statement(statement_global, "global cannot be used in a kernel", "global CASES")
_statement(statement_del, "del cannot be used in a kernel", "del x")
_statement(statement_assert, "assert cannot be used in a kernel", "assert n > 0", "tw.assert_")
_statement(statement_print, "print in a kernel", "print(X[:])", "tw.print")
_statement(statement_import, "import cannot be used in a kernel", "import math", "module's level")
_statement(statement_f_string, "an f-string cannot be used in a kernel", 'f"x', "plain string")
_statement(statement_raise, "raise cannot be used in a kernel", "raise ValueError", "tw.assert_")
_statement(statement_dict, "a dict cannot be used in a kernel", '{"a"')
_statement(statement_walrus, "`:=` cannot be used in a kernel", "x := 1.0")
_statement(statement_loop_else, "`else` of a loop", "Y[:] = 0.0")
_statement(statement_empty_loop, "a loop without statements", "for t in range(3)")
_statement(statement_match, "match cannot be used in a kernel", "match c")


# -- loops -------------------------------------------------------------------------------------------------------------


@refused("tw.parallel inside of tw.parallel", "tw.parallel(N)", "several axes")
def nested_parallel():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            for j in tw.parallel(N):
                Y[i, j] = X[i, j]

    return k


def _grid(X, Y):
    for i in tw.parallel(M):
        Y[i] = X[i]


@refused("tw.parallel in a helper", "tw.parallel(M)", "in the kernel")
def parallel_in_a_helper():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        _grid(X, Y)

    return k


@refused("tw.parallel inside of a loop or a branch", "tw.parallel(M)")
def parallel_in_a_loop():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for _ in range(3):
            for i in tw.parallel(M):
                Y[i] = X[i]

    return k


@refused("tw.parallel inside of a loop or a branch", "tw.parallel(M)")
def parallel_under_if():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], n: int):
        if n > 0:
            for i in tw.parallel(M):
                Y[i] = X[i]

    return k


@refused("code after the parallel loop", "Z[0] = 1.0", "a second kernel")
def code_after_parallel():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], Z: tw.Out[f32, 1]):
        for i in tw.parallel(M):
            Y[i] = X[i]
        Z[0] = 1.0

    return k


@refused("a tile size is 0, which is not positive", "tw.parallel(M, tile=0)")
def tile_not_positive():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M, tile=0):
            Y[i] = X[i]

    return k


@refused("a tile size is 2.5", "tw.range(M, tile=2.5)", "compile-time int")
def tile_not_an_int():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.range(M, tile=2.5):
            Y[i] = X[i]

    return k


@refused("tile has 2 entries for 1 axes", "tw.parallel(M, tile=(4, 4))")
def too_many_tiles():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M, tile=(4, 4)):
            Y[i] = X[i]

    return k


@refused("tile=4 for 2 axes", "tw.parallel(M, N, tile=4)", "tile=(4, None)")
def one_tile_for_two_axes():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i, j in tw.parallel(M, N, tile=4):
            Y[i, j] = X[i, j]

    return k


@refused("tw.parallel has 2 axes for 1 variable", "i", "for i, j in")
def too_few_axis_variables():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M, N):
            Y[i, :] = X[i, :]

    return k


@refused("tw.static_range takes compile-time ints, not M", "tw.static_range(M)", "range(n)")
def static_range_of_a_size():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for c in tw.static_range(M):
            Y[c] = X[c]

    return k


@refused("a loop over M", "M:", "tw.range(M)")
def loop_over_a_size():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for t in M:
            Y[t] = X[t]

    return k


@refused("a loop over a tile [M] of f32", "X[:]", "tw.range")
def loop_over_a_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for t in X[:]:
            Y[0] = t

    return k


@refused("a comprehension over run-time indices", "range(M)")
def comprehension_over_run_time_values():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        xs = [X[t] for t in range(M)]
        Y[0] = xs[0]

    return k


@refused("the condition of `while` does not change", "True", "that the body assigns")
def endless_while():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        while True:
            Y[:] = X[:]

    return k


@refused("return inside of a loop cannot be used", "return x")
def return_inside_a_loop():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = _first_large(X[:])

    return k


def _first_large(x):
    for _ in range(3):
        return x


# -- functions that scans are given ------------------------------------------------------------------------------------


def _wider(a, b):
    return a.to(f64) + b.to(f64)


def _one(p, q):
    return p[0] + q[0]


def _nothing(a, b):
    return None


def _add(a, b):
    return a + b


def _with_total(a, b):
    return a + tw.sum(b)


def _with_last(a, b):
    return a + tw.flip(b, axis=1)


def _column(a, b):
    return (a + b)[:, :, None]


SCANNED = "the function of tw.associative_scan "


@refused(SCANNED + "returns f64 for f32", "tw.associative_scan", ".to(tw.f32)")
def scan_that_changes_the_dtype():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = tw.associative_scan(X[i, :], _wider)

    return k


@refused(SCANNED + "moves elements of a tile", "tw.associative_scan", "arithmetic")
def scan_that_changes_the_shape():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = tw.associative_scan(X[i, :], _column)

    return k


@refused(SCANNED + "uses sum: it works element by element", "tw.associative_scan", "arithmetic")
def scan_with_a_sum():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = tw.associative_scan(X[i, :], _with_total)

    return k


@refused(SCANNED + "moves elements of a tile", "tw.associative_scan", "arithmetic")
def scan_with_a_flip():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = tw.associative_scan(X[i, :], _with_last)

    return k


@refused(SCANNED + "returns None", "tw.associative_scan", "a tile")
def scan_that_returns_nothing():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = tw.associative_scan(X[i, :], _nothing)

    return k


@refused(SCANNED + "returns a tile", "tw.associative_scan", "a tuple of 2 tiles")
def scan_of_a_tuple_that_returns_a_tile():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = tw.associative_scan((X[i, :], X[i, :]), _one)[0]

    return k


@refused("tw.associative_scan of tiles of several shapes", "tw.associative_scan", "tw.broadcast_to")
def scan_of_several_shapes():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = tw.associative_scan((X[i, :], X[i, 0:1]), _one)[0]

    return k


@refused("tw.associative_scan along axis 2 of a tile [i, N]", "tw.associative_scan", "an axis in")
def scan_along_no_axis():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = tw.associative_scan(X[i, :], _add, axis=2)

    return k


@refused("2.0 is called, and it is no function", "tw.associative_scan", "a helper")
def scan_with_a_number():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = tw.associative_scan(X[i, :], 2.0)

    return k


@refused(ANY_TILE, "tw.associative_scan")
def scan_along_a_tile_that_the_compiler_chooses():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = tw.associative_scan(X[i, :], _add, axis=0)

    return k


# -- names from around the kernel --------------------------------------------------------------------------------------

WEIGHTS = torch.ones(3)
ARRAY = np.ones(3)
LIST = [1.0, 2.0]
TABLE = {"a": 1.0}


@refused("the array or tensor WEIGHTS is captured", "WEIGHTS", "tw.In")
def captured_tensor():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[:] + WEIGHTS

    return k


@refused("the array or tensor ARRAY is captured", "ARRAY", "tw.In")
def captured_array():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[:] + ARRAY

    return k


@refused("the list LIST is captured, and it may change", "LIST", "a tuple")
def captured_list():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[:] + LIST[0]

    return k


@refused("the dict TABLE is captured, and it may change", "TABLE")
def captured_dict():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[:] + TABLE["a"]

    return k


@refused("the size Unbound is used, and no parameter has it", "Unbound")
def symbol_that_no_parameter_has():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(Unbound):
            Y[i] = X[i]

    return k


@refused("the dtype T is used, and no parameter has it", "T)", "tw.In[T")
def dtype_that_no_parameter_has():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[:].to(T)

    return k


@refused("tilewright has no expp for kernels", "tw.expp", "tw.exp")
def misspelt_function():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = tw.expp(X[:])

    return k


@refused("a tile has no attribute summ", "X[:].summ", "x.sum()")
def misspelt_method():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, 1]):
        Y[0] = X[:].summ()

    return k


@refused("cannot be called in a kernel", "torch.exp(X[:])", "tw.exp")
def function_of_torch():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = torch.exp(X[:])

    return k


@refused("sorted of a tile [M] of f32", "sorted(X[:])")
def python_function_of_a_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = sorted(X[:])

    return k


@refused("float of a number of f32", "float(X[0])", "x.to(dtype)")
def float_of_a_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = float(X[0])

    return k


@refused("max of a tile [M] of f32", "max(X[:], 0.0)", "tw.maximum(x, y)")
def python_max_of_a_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = max(X[:], 0.0)

    return k


@refused("tw.clamp without bounds", "tw.clamp(X[:])")
def clamp_without_bounds():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = tw.clamp(X[:])

    return k


@refused(
    "tw.sum: got an unexpected keyword argument 'dim'", "tw.sum(X[:], dim=0)", "tw.sum(x, axis=None, keepdims=False)"
)
def unknown_argument():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, 1]):
        Y[0] = tw.sum(X[:], dim=0)

    return k


@refused("the kernel inner is called inside of a kernel", "inner(X, Y)", "a helper")
def kernel_in_a_kernel():
    @tw.kernel
    def inner(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[:]

    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        inner(X, Y)

    return k


def _factorial(n):
    return 1 if n == 0 else n * _factorial(n - 1)


@refused("_factorial calls itself: recursion cannot be compiled", "_factorial(n - 1)", "a loop")
def recursion():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[:] * _factorial(3)

    return k


def _two(x, y):
    return x + y


@refused("_two: missing a required argument: 'y'", "_two(X[:])", "_two(x, y)")
def helper_with_too_few_arguments():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = _two(X[:])

    return k


@refused("half is a partial, which a kernel cannot capture", "half", "functions")
def partial_function():
    half = functools.partial(_two, 0.5)

    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = half(X[:])

    return k


@refused("too wide", "tw.static_assert(W <= 4", W=8)
def static_assertion():
    @tw.kernel
    def k(Y: tw.Out[f32, M], W: tw.const):
        tw.static_assert(W <= 4, "too wide")
        Y[:] = 0.0

    return k


@refused("tw.static_assert of a number of bool", "tw.static_assert(X[0] > 0.0)", "tw.assert_")
def static_assertion_on_data():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        tw.static_assert(X[0] > 0.0)
        Y[:] = 0.0

    return k


@refused("tw.assert_ of a number of f32", "tw.assert_(X[0])", "a comparison")
def assertion_of_a_float():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        tw.assert_(X[0])
        Y[:] = 0.0

    return k


@refused("the first argument of tw.print is", "tw.print(X[0])", 'tw.print("x =", x)')
def print_without_a_text():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        tw.print(X[0])
        Y[:] = 0.0

    return k


@refused("tilewright has no program_id for kernels", "tw.program_id", "tw.parallel(M)")
def function_of_another_language():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        i = tw.program_id(0)  # type: ignore[attr-defined]
        Y[i] = X[i]

    return k


@refused("a tile has no attribute relu", "X[:].relu", "tw.maximum(x, 0.0)")
def method_of_another_library():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[:].relu()

    return k


@refused("a tile has no attribute float", "X[:].float", "x.to(tw.f32)")
def conversion_of_another_library():
    @tw.kernel
    def k(X: tw.In[i32, M], Y: tw.Out[f32, M]):
        Y[:] = X[:].float()

    return k


@refused("the name cdiv is not defined", "cdiv", "tw.parallel(M)")
def bare_name_of_another_language():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(cdiv(M, 4)):  # type: ignore[name-defined]  # noqa: F821
            Y[i] = X[i]

    return k


@refused("torch.relu cannot be called in a kernel", "torch.relu(X[:])", "tw.maximum(x, 0.0)")
def function_of_torch_that_is_not_there():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = torch.relu(X[:])

    return k


@refused("torch.nn.functional.softmax cannot be called", "torch.nn.functional.softmax(X[:], 0)", "tw.max(x, axis=1")
def python_function_of_torch():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = torch.nn.functional.softmax(X[:], 0)

    return k


@refused("the parameter X has no attribute size", "X.size", "X.shape")
def size_of_a_parameter():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(X.size(0)):  # type: ignore[attr-defined]
            Y[i] = X[i]

    return k


@refused("math.fabs of a run-time value", "math.fabs(X[0])", "tw.abs(x)")
def function_of_math_at_run_time():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, 1]):
        Y[0] = math.fabs(X[0])

    return k


@refused("the parameter X has no attribute stride", "X.stride", "X[i, j]")
def stride_of_a_parameter():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[: X.stride(0)]

    return k


@refused("the parameter X has no attribute sum", "X.sum", "X[:, :].sum")
def method_of_a_parameter():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32]):
        Y[()] = X.sum()

    return k


@refused("tilewright has no qqqqqq for kernels", "tw.qqqqqq", "docs/language.md")
def name_that_is_close_to_nothing():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = tw.qqqqqq(X[:])

    return k


@refused("tw.load: got an unexpected keyword argument 'mask'", "tw.load(X, i, mask=True)", "no mask")
def load_with_a_mask():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.load(X, i, mask=True)  # type: ignore[call-arg]

    return k


@refused("tw.stack takes a tuple of tiles, not a tile [M] of f32", "tw.stack(X[:])", "tw.stack((x, y), axis=0)")
def stack_of_one_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, 1, M]):
        Y[:, :] = tw.stack(X[:])

    return k


@refused("tw.concat takes a tuple of tiles, not a tile [M] of f32", "tw.concat(X[:])", "tw.concat((x, y), axis=0)")
def concat_of_one_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = tw.concat(X[:])

    return k


@refused("keepdims is M, and no compile-time bool", "tw.sum(X[:, :], 1, M)", "keepdims=True")
def flag_known_at_run_time():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M]):
        Y[:] = tw.sum(X[:, :], 1, M)

    return k


@refused("the seed of random numbers is 0.5", "tw.uniform(0.5, tw.iota(4))", "an integer")
def seed_that_is_a_float():
    @tw.kernel
    def k(Y: tw.Out[f32, 4]):
        Y[:] = tw.uniform(0.5, tw.iota(4))

    return k


@refused("is a number of too many bits", "N_BITS**N_BITS", "64 bits")
def number_of_too_many_bits():
    @tw.kernel
    def k(Y: tw.Out[f32, 4]):
        Y[:] = N_BITS**N_BITS

    return k


# -- pointers ----------------------------------------------------------------------------------------------------------


@refused("`+` of the parameter X and the axis i: parameters are tensors, not pointers", "X + i", "X[i]")
def load_from_a_pointer():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.load(X + i)  # type: ignore[call-arg, operator]

    return k


@refused("`+` of the parameter X and a tile [M] of i64", "X + tw.arange(M)", "X[tw.arange(M)]")
def pointer_with_a_tile_of_offsets():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = tw.load(X + tw.arange(M))  # type: ignore[call-arg, operator]

    return k


@refused("`+` of the parameter X and a range of indices", "i * N + X", "X[i, j]")
def pointer_to_a_matrix():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.load(i * N + X)  # type: ignore[call-arg, operator]

    return k


@refused("`-` of the parameter X and 1", "X - 1", "X[i]")
def pointer_before_a_parameter():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X - 1  # type: ignore[operator]

    return k


@refused("`+` of the parameter Y and the axis i", "Y + i", "Y[i] = value")
def store_to_a_pointer():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            tw.store(Y + i, X[i])  # type: ignore[call-arg, operator]

    return k


@refused("tw.load: missing a required argument: 'index'", "tw.load(X)", "X[i, j]")
def load_without_an_index():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        Y[:, :] = tw.load(X)  # type: ignore[call-arg]

    return k


@refused("tw.load: missing a required argument: 'index'", "tw.load(X[i])", "which is loaded")
def load_of_a_tile():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.load(X[i])  # type: ignore[call-arg]

    return k


@refused("tw.store takes a parameter and an index, not an element", "Y[i, :]", "tw.store(Y, (i, slice(None)), value)")
def store_to_an_element():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            tw.store(Y[i, :], X[i, :])  # type: ignore[call-arg]

    return k


@refused("tw.atomic_add takes a parameter and an index", "Y[0]", "tw.atomic_add(Y, 0, value)")
def atomic_add_to_an_element():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.InOut[f32, 1]):
        for i in tw.parallel(M):
            tw.atomic_add(Y[0], tw.sum(X[i]))  # type: ignore[call-arg]

    return k


@refused("slice with 0 arguments", "slice()", "slice(None)")
def slice_of_nothing():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = tw.load(X, slice())  # type: ignore[call-overload]

    return k


# -- parameters --------------------------------------------------------------------------------------------------------


@refused("the parameter X has no annotation", "X", "tw.In")
def missing_annotation():
    @tw.kernel
    def k(X, Y: tw.Out[f32, M]):
        Y[:] = X[:]

    return k


@refused("the tensor X has a default", "X: tw.In[f32, M]")
def default_of_a_tensor():
    @tw.kernel
    def k(Y: tw.Out[f32, M], X: tw.In[f32, M] = None):
        Y[:] = X[:]

    return k


@refused("a kernel takes no *Xs", "Xs: tw.In[f32, M]")
def variable_arguments():
    @tw.kernel
    def k(Y: tw.Out[f32, M], *Xs: tw.In[f32, M]):
        Y[:] = 0.0

    return k


@refused("is no kernel parameter", "torch.Tensor", "tw.In[...]")
def annotation_of_another_kind():
    @tw.kernel
    def k(X: torch.Tensor, Y: tw.Out[f32, M]):
        Y[:] = 0.0

    return k


@refused("the annotation of X cannot be read", "tw.In[Q, M]")
def annotation_with_an_unknown_name():
    @tw.kernel
    def k(X: tw.In[Q, M], Y: tw.Out[f32, M]):  # noqa: F821
        Y[:] = 0.0

    return k


@refused("module 'tilewright' has no attribute 'float32'", "tw.In[tw.float32, M]", "tw.f32")
def annotation_with_a_dtype_of_another_library():
    @tw.kernel
    def k(X: tw.In[tw.float32, M], Y: tw.Out[f32, M]):  # type: ignore[attr-defined, name-defined]
        Y[:] = X[:]

    return k


@refused("the first entry is a dtype", "tw.In[M, N]")
def annotation_without_a_dtype():
    @tw.kernel
    def k(X: tw.In[M, N], Y: tw.Out[f32, M]):
        Y[:] = 0.0

    return k


@refused("the first entry is a dtype (tw.f32) or a dtype parameter, not 'f32'", 'tw.In["f32", M]', "tw.f32")
def annotation_with_a_dtype_as_text():
    @tw.kernel
    def k(X: tw.In["f32", M], Y: tw.Out[f32, M]):  # type: ignore[valid-type]  # noqa: UP037
        Y[:] = X[:]

    return k


@refused("a dtype parameter, not <class 'numpy.float64'>", "tw.In[np.float64, M]", "tw.f64")
def annotation_with_a_dtype_of_numpy():
    @tw.kernel
    def k(X: tw.In[np.float64, M], Y: tw.Out[f32, M]):
        Y[:] = X[:]

    return k


@refused("torch.complex64 is no dtype of kernels", "tw.In[torch.complex64, M]", "tw.In[tw.f32, M, N]")
def annotation_with_a_dtype_that_is_not_there():
    @tw.kernel
    def k(X: tw.In[torch.complex64, M], Y: tw.Out[f32, M]):
        Y[:] = X[:]

    return k


@refused("Scalar takes one dtype (tw.f32), not 'i32'", 'tw.Scalar["i32"]', "tw.i32")
def scalar_with_a_dtype_as_text():
    @tw.kernel
    def k(n: tw.Scalar["i32"], Y: tw.Out[f32, M]):  # type: ignore[valid-type]  # noqa: UP037
        Y[:] = 0.0

    return k


@refused("X is annotated with a dtype", "f32", "tw.Scalar[tw.f32]")
def annotation_that_is_a_dtype():
    @tw.kernel
    def k(X: f32, Y: tw.Out[f32, M]):
        Y[:] = 0.0

    return k


@refused("the kernel has no output", "def k", "tw.Out[...]")
def no_output():
    @tw.kernel
    def k(X: tw.In[f32, M]):
        x = X[:]  # noqa: F841

    return k


@refused("the size N of X cannot be told from the arguments", "X: tw.In[f32, 2 * N]", "N: int")
def size_that_no_dimension_gives():
    @tw.kernel
    def k(X: tw.In[f32, 2 * N], Y: tw.Out[f32, M]):
        Y[:] = 0.0

    return k


@refused("X is declared as f32 and called with f64", "X: tw.In[f32, M]", "tw.dtypes", X="f64")
def dtype_mismatch():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[:]

    return k


@refused("X and Y share the dtype T, and are f32 and bf16", "Y: tw.Out[T, M]", "", X="f32", Y="bf16")
def dtype_parameter_mismatch():
    @tw.kernel
    def k(X: tw.In[T, M], Y: tw.Out[T, M]):
        Y[:] = X[:]

    return k


@refused("X has the dtype c64, which kernels do not take", "X: tw.In[T, M]", "f32", X="c64")
def dtype_that_kernels_do_not_take():
    @tw.kernel
    def k(X: tw.In[T, M], Y: tw.Out[f32, M]):
        Y[:] = 0.0

    return k


@refused("the compile-time constant c of k has no value", "c: tw.const", "c=...")
def constant_without_a_value():
    @tw.kernel
    def k(Y: tw.Out[f32, M], c: tw.const):
        Y[:] = c

    return k


@refused("the compile-time constant c is a list, which is not hashable", "c: tw.const", "a tuple", c=[1])
def constant_that_is_not_hashable():
    @tw.kernel
    def k(Y: tw.Out[f32, M], c: tw.const):
        Y[:] = c[0]

    return k


@refused("k has no parameter Q", "", "X, Y", Q="f32")
def unknown_parameter():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[:]

    return k


@refused("the space has X, which is no compile-time constant of k", "X: tw.In[f32, M]", "X: tw.const")
def space_of_a_tensor():
    @tw.kernel(space={"X": (1, 2)})
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i]

    return k


@refused("the space has block, which is no compile-time constant of k", "", "BLOCK")
def space_of_another_name():
    @tw.kernel(space={"block": (1, 2)})
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], BLOCK: tw.const = 4):
        for i in tw.parallel(M, tile=BLOCK):
            Y[i] = X[i]

    return k


@refused("the space of BLOCK is empty", "BLOCK: tw.const", "(32, 64, None)")
def space_without_members():
    @tw.kernel(space={"BLOCK": ()})
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], BLOCK: tw.const = 4):
        for i in tw.parallel(M, tile=BLOCK):
            Y[i] = X[i]

    return k


@refused("the space of BLOCK has a value twice", "BLOCK: tw.const", "once")
def space_with_a_value_twice():
    @tw.kernel(space={"BLOCK": (4, 8, 4)})
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], BLOCK: tw.const = 4):
        for i in tw.parallel(M, tile=BLOCK):
            Y[i] = X[i]

    return k


@refused("the space of BLOCK has a list, which is not hashable", "BLOCK: tw.const", "tuples")
def space_with_a_list():
    @tw.kernel(space={"BLOCK": ([4], [8])})
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], BLOCK: tw.const):
        for i in tw.parallel(M, tile=BLOCK):
            Y[i] = X[i]

    return k


@refused("the default 16 of BLOCK is not in its space", "BLOCK: tw.const", "one of 4, 8, None")
def default_outside_of_the_space():
    @tw.kernel(space={"BLOCK": (4, 8, None)})
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], BLOCK: tw.const = 16):
        for i in tw.parallel(M, tile=BLOCK):
            Y[i] = X[i]

    return k


# -- the rest of what an error says ------------------------------------------------------------------------------------


def test_rank_of_an_argument():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.sum(X[i, :], axis=1)

    with pytest.raises(tw.KernelError, match=r"X of k has 2 dimensions \[M, N\], and the argument has 3"):
        k.specialise({}, {"X": 3, "Y": 1})


def _scaled(x, by):
    return x * by


def test_error_in_a_helper_shows_both_lines():
    @tw.kernel
    def k(X: tw.In[i32, M], Y: tw.Out[i32, M]):
        for i in tw.parallel(M):
            Y[i] = _scaled(X[i], 0.5)

    with pytest.raises(tw.KernelError) as caught:
        k.program({})
    error = caught.value
    assert error.source_line.strip() == "return x * by"
    (note,) = error.notes
    assert "in the helper `_scaled`, called at test_language_errors.py:" in note and "Y[i] = _scaled(X[i], 0.5)" in note
    assert note in str(error)


def test_function_without_source_is_refused():
    scope = {"tw": tw, "M": M}
    exec("def k(Y: tw.Out[tw.f32, M]):\n    Y[:] = 0.0\n", scope)
    with pytest.raises(tw.KernelError, match="the source text of k cannot be found"):
        tw.kernel(scope["k"])


def test_lambda_is_no_kernel():
    with pytest.raises(tw.KernelError, match="a lambda cannot be part of a kernel"):
        tw.kernel(lambda X: X)


def test_functions_of_kernels_refuse_to_run_outside():
    with pytest.raises(RuntimeError, match=r"only inside a @tw\.kernel function"):
        tw.exp(torch.ones(3))


def test_unknown_name_of_the_package():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        tw.nonsense  # type: ignore[attr-defined]


#: Names of other languages, and what the hint must contain.
OTHER_NAMES = {
    "program_id": "tw.parallel",
    "cdiv": "tw.parallel",
    "constexpr": "tw.const",
    "jit": "@tw.kernel",
    "autotune": "kernel.tune",
    "debug_barrier": "second kernel",
    "device_print": "tw.print",
    "device_assert": "tw.assert_",
    "rand": "tw.uniform",
    "trans": "x.T",
    "cat": "tw.concat",
    "flatten": "tw.reshape",
    "silu": "tw.sigmoid",
    "softmax": "tw.max(x, axis=1",
    "mm": "x @ y",
    "empty": "tw.Out",
    "float32": "tw.f32",
    "bfloat16": "tw.bf16",
    "bool": "tw.bool_",
    "uint8": "tw.u8",
    "atomic_max": "tw.atomic_add",
    "libdevice": "tw.exp",
    "numel": "x.shape",
}


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_names_of_other_languages_outside_of_kernels(name):
    with pytest.raises(AttributeError, match=re.escape(f"has no attribute '{name}'; write instead: ")) as caught:
        getattr(tw, name)
    assert OTHER_NAMES[name] in str(caught.value)


def test_table_of_other_names_is_true():
    for name, hint in other_names.NAMES.items():
        assert name not in tw.language.__all__, name
        for ours in re.findall(r"\btw\.(\w+)", hint):
            assert ours in tw.language.__all__, hint


def test_close_names_of_the_package():
    with pytest.raises(AttributeError, match=r"write instead: tw\.atomic_add$"):
        tw.atomicadd  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"write instead: .*tw\.parallel"):
        tw.progam_id  # type: ignore[attr-defined]


def test_kernels_take_no_grid():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        Y[:] = X[:]

    for grid in (4, (4,), lambda meta: (4,)):
        with pytest.raises(
            TypeError, match=r"k\[\.\.\.\]: there is no grid to give, tw\.parallel.*write instead: k\(X, Y\)"
        ):
            k[grid](torch.ones(3))


#: Values of all kinds that an argument may wrongly be, in a kernel with X, i, x = X[i, :] and n.
KINDS = (
    "None", "'text'", "i", "X", "x", "tw.iota(i)", "n", "(1, 2)", "()", "0.5", "float('inf')", "M", "True", "-1", "10**30", "tw.f32",
    "slice(None)", "tw.exp",
)  # fmt: skip


@pytest.mark.parametrize("function", sorted(registry.BUILTINS, key=lambda f: f.__name__), ids=lambda f: f.__name__)
def test_wrong_arguments_are_kernel_errors(function):
    """Whatever a function is given, it is refused with a KernelError or does something."""
    name = function.__name__
    first = "X" if name in ("load", "store", "atomic_add") else "(x, x)" if name in ("concat", "stack") else "x"
    calls = [arguments for kind in KINDS for arguments in ((kind,), (first, kind), (first, "1", kind))]
    refusals = 0
    for arguments in calls:
        if name == "to":
            expression = f"(x if {arguments[0] == 'x'} else {arguments[0]}).to({', '.join(arguments[1:])})"
        else:
            expression = f"tw.{name}({', '.join(arguments)})"
        text = (
            "def k(X: tw.In[tw.f32, M, N], Y: tw.Out[tw.f32, M, N], n: int):\n    for i in tw.parallel(M):\n"
            f"        x = X[i, :]\n        v = {expression}\n        Y[i, :] = 0.0\n"
        )
        file = f"<{name} {expression}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        scope = {"tw": tw, "M": M, "N": N}
        exec(compile(text, file, "exec"), scope)
        try:
            Kernel(scope["k"]).program({})
        except tw.KernelError as error:
            refusals += 1
            assert error.message and error.line, expression
        finally:
            del linecache.cache[file]
    assert refusals or name == "static_assert"
