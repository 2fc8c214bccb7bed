"""Kernel programs that several tests run."""

from __future__ import annotations

import math

from program_builder import ALL, Builder, Part


def softmax_program():
    b = Builder("softmax", "M", "N")
    X = b.tensor("X", "f32", ["s0", "s1"])
    Y = b.tensor("Y", "f32", ["s0", "s1"], kind="out", layout="contiguous")
    with b.parallel(("i", "s0")) as (i,):
        x = b.load(X, [i, ALL])
        e = b.exp(b.sub(x, b.reduce("max", x, 1, keep=True)))
        b.store(Y, [i, ALL], b.div(e, b.reduce("sum", e, 1, keep=True)))
    return b.program


def matmul_program(dtype, accumulator):
    b = Builder("matmul", "M", "N", "K")
    A, B = b.tensor("A", dtype, ["s0", "s2"]), b.tensor("B", dtype, ["s2", "s1"])
    C = b.tensor("C", accumulator, ["s0", "s1"], kind="out")
    with b.parallel(("i", "s0"), ("j", "s1")) as (i, j):
        with b.loop("k", "0", "s2", carry=[b.full([i.size, j.size], 0, accumulator)]) as loop:
            k = loop.axis
            loop.next(b.add(loop.args[0], b.matmul(b.load(A, [i, k]), b.load(B, [k, j]), accumulator)))
        b.store(C, [i, j], loop.results[0])
    return b.program


def flash_attention_program(causal):
    b = Builder("flash", "H", "M", "D")
    sizes = ["s0", "s1", "s2"]
    Q, K, V = (b.tensor(name, "f32", sizes) for name in "QKV")
    Out = b.tensor("O", "f32", sizes, kind="out")
    with b.parallel(("h", "s0", "scalar"), ("i", "s1")) as (h, i):
        q = b.load(Q, [h, i, ALL])
        carry = [b.full([i.size], -math.inf), b.full([i.size], 0), b.full([i.size, "s2"], 0)]
        end = f"{i.start} + {i.size}" if causal else "s1"
        with b.loop("j", "0", end, carry=carry) as loop:
            j, (m, z, acc) = loop.axis, loop.args
            s = b.matmul(q, b.transpose(b.load(K, [h, j, ALL]), 1, 0))
            if causal:
                row = b.add(b.expand(b.iota([i.size], 0), 1), b.size(i.start))
                column = b.add(b.expand(b.iota([j.size], 0), 0), b.size(j.start))
                s = b.select(b.le(column, row), s, -math.inf)
            top = b.max(m, b.reduce("max", s, 1))
            p = b.exp(b.sub(s, b.expand(top, 1)))
            scale = b.exp(b.sub(m, top))
            total = b.add(b.mul(z, scale), b.reduce("sum", p, 1))
            loop.next(top, total, b.add(b.mul(acc, b.expand(scale, 1)), b.matmul(p, b.load(V, [h, j, ALL]))))
        b.store(Out, [h, i, ALL], b.div(loop.results[2], b.expand(loop.results[1], 1)))
    return b.program


def gather_program():
    b = Builder("embed", "V", "D", "T")
    W, Indices = b.tensor("W", "f32", ["s0", "s1"]), b.tensor("I", "i32", ["s2"])
    Y = b.tensor("Y", "f32", ["s2", "s1"], kind="out")
    with b.parallel(("t", "s2"), ("d", "s1")) as (t, d):
        b.store(Y, [t, d], b.load(W, [b.load(Indices, [t]), d]))
    return b.program


def collatz_program():
    b = Builder("collatz", "N")
    X, Y = b.tensor("X", "i32", ["s0"]), b.tensor("Y", "i64", ["s0"], kind="out")
    with b.parallel(("i", "s0", "scalar")) as (i,):
        with b.while_([b.cast(b.load(X, [i]), "i64"), b.const(0, "i64")]) as loop:
            x, n = loop.args
            b.condition(b.lt(1, x))
            odd = b.eq(b.mod(x, 2), 1)
            loop.next(b.select(odd, b.add(b.mul(x, 3), 1), b.fdiv(x, 2)), b.add(n, 1))
        b.store(Y, [i], loop.results[1])
    return b.program


def whole_softmax_program(dtype="f32"):
    """Rows one by one: the axis is scalar."""
    b = Builder("softmax_rows", "M", "N")
    X, Y = b.tensor("X", dtype, ["s0", "s1"]), b.tensor("Y", dtype, ["s0", "s1"], kind="out")
    with b.parallel(("i", "s0", "scalar")) as (i,):
        x = b.load(X, [i, ALL])
        e = b.exp(b.sub(x, b.reduce("max", x, 0)))
        b.store(Y, [i, ALL], b.div(e, b.reduce("sum", e, 0)))
    return b.program


def layer_norm_program(dtype="f32"):
    b = Builder("layer_norm", "M", "N")
    X, W, B = b.tensor("X", dtype, ["s0", "s1"]), b.tensor("W", dtype, ["s1"]), b.tensor("B", dtype, ["s1"])
    Y = b.tensor("Y", dtype, ["s0", "s1"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        x = b.load(X, [i, ALL])
        n = b.cast(b.size("s1"), dtype)
        centred = b.sub(x, b.div(b.reduce("sum", x, 1, keep=True), n))
        variance = b.div(b.reduce("sum", b.mul(centred, centred), 1, keep=True), n)
        y = b.mul(centred, b.rsqrt(b.add(variance, 1e-5)))
        b.store(Y, [i, ALL], b.add(b.mul(y, b.load(W, [ALL])), b.load(B, [ALL])))
    return b.program


def tiled_sum_of_squares_program(dtype="f32"):
    """Rows longer than a tile: sums and a maximum accumulate in a loop, a second loop uses them."""
    b = Builder("normalize", "M", "N")
    X, Y = b.tensor("X", dtype, ["s0", "s1"]), b.tensor("Y", dtype, ["s0", "s1"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        with b.loop("k", "0", "s1", carry=[b.full([i.size], 0, dtype), b.full([i.size], -math.inf, dtype)]) as loop:
            x = b.load(X, [i, loop.axis])
            loop.next(b.add(loop.args[0], b.reduce("sum", b.mul(x, x), 1)), b.max(loop.args[1], b.reduce("max", x, 1)))
        total, top = (b.expand(r, 1) for r in loop.results)
        with b.loop("j", "0", "s1") as second:
            x = b.load(X, [i, second.axis])
            b.store(Y, [i, second.axis], b.div(b.sub(x, top), b.sqrt(b.add(total, 1))))
    return b.program


def causal_mask_program():
    """Indices of the whole from `iota` and where tiles start."""
    b = Builder("causal", "M", "N")
    X, Y = b.tensor("X", "f32", ["s0", "s1"]), b.tensor("Y", "f32", ["s0", "s1"], kind="out")
    with b.parallel(("i", "s0"), ("j", "s1")) as (i, j):
        row = b.expand(b.add(b.iota([i.size], 0), b.size(i.start)), 1)
        column = b.expand(b.add(b.iota([j.size], 0), b.size(j.start)), 0)
        b.store(Y, [i, j], b.select(b.le(column, row), b.load(X, [i, j]), -math.inf))
    return b.program


def stencil_program(dtype="f32"):
    b = Builder("stencil", "N")
    X, Y = b.tensor("X", dtype, ["s0"]), b.tensor("Y", dtype, ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        left, right = b.load(X, [i.shifted(-1)], fill=0), b.load(X, [i.shifted(1)], fill=0)
        b.store(Y, [i], b.sub(left, b.mul(right, 2)))
    return b.program


def grouped_heads_program():
    """A batched product whose second operand is shared by groups of heads: its index is no linear function of the axis."""
    b = Builder("grouped", "H", "G", "M", "K", "N")
    A, B = b.tensor("A", "f32", ["s0", "s2", "s3"]), b.tensor("B", "f32", ["s1", "s3", "s4"])
    C = b.tensor("C", "f32", ["s0", "s2", "s4"], kind="out")
    with b.parallel(("h", "s0", "scalar"), ("i", "s2")) as (h, i):
        with b.loop("k", "0", "s3", carry=[b.full([i.size, "s4"], 0)]) as loop:
            x, y = b.load(A, [h, i, loop.axis]), b.load(B, [f"{h.start} // (s0 // s1)", loop.axis, ALL])
            loop.next(b.add(loop.args[0], b.matmul(x, y)))
        b.store(C, [h, i, ALL], loop.results[0])
    return b.program


def column_sums_program(dtype="f32"):
    """Sums over the grid's own axis, added to memory."""
    b = Builder("column_sums", "M", "N")
    X, S = b.tensor("X", dtype, ["s0", "s1"]), b.tensor("S", dtype, ["s1"], kind="inout")
    with b.parallel(("i", "s0"), ("j", "s1")) as (i, j):
        b.atomic_add(S, [j], b.mul(b.reduce("sum", b.load(X, [i, j]), 0), 0.5))
    return b.program


def histogram_program():
    b = Builder("histogram", "M", "N", "B")
    X, H = b.tensor("X", "i64", ["s0", "s1"]), b.tensor("H", "i32", ["s2"], kind="inout")
    with b.parallel(("r", "s0", "scalar"), ("i", "s1")) as (r, i):
        b.atomic_add(H, [b.load(X, [r, i])], 1)
    return b.program


def taps_program(dtype="f32"):
    """A convolution: a loop over a fixed number of taps carries the sum."""
    b = Builder("taps", "N", "T")
    X, W, Y = (
        b.tensor("X", dtype, ["s0", "s1"]),
        b.tensor("W", dtype, ["s0", 4]),
        b.tensor("Y", dtype, ["s0", "s1"], kind="out"),
    )
    with b.parallel(("c", "s0"), ("t", "s1")) as (c, t):
        with b.loop("k", "0", "4", tile="scalar", carry=[b.full([c.size, t.size], 0, dtype)]) as loop:
            x = b.load(X, [c, t.shifted(f"{loop.axis.start} - 3")], fill=0)
            loop.next(b.add(loop.args[0], b.mul(x, b.expand(b.load(W, [c, loop.axis]), 1))))
        b.store(Y, [c, t], loop.results[0])
    return b.program


def halves_program(dtype="f32"):
    """Even and odd elements: tiles of the output stand for twice as many of the input."""
    b = Builder("halves", "N")
    X, Y = b.tensor("X", dtype, ["2*s0"]), b.tensor("Y", dtype, ["s0"], kind="out")
    b.program["params"].insert(0, {"name": "n", "kind": "scalar", "dtype": "i64", "symbol": 0})
    X.number, Y.number = 1, 2
    with b.parallel(("i", "s0")) as (i,):
        pairs = b.load(X, [Part(f"2*{i.start}", f"2*{i.size}")])
        even, odd = (b.view(pairs, [i.size], [(k, [(0, 2)])]) for k in (0, 1))
        b.store(Y, [i], b.mul(even, b.add(odd, 1)))
    return b.program


def sorted_program(dtype="f32"):
    b = Builder("sorted", "M", "N")
    X, Y = b.tensor("X", dtype, ["s0", "s1"]), b.tensor("Y", dtype, ["s0", "s1"], kind="out")
    P = b.tensor("P", "i64", ["s0", "s1"], kind="out")
    with b.parallel(("i", "s0", "scalar")) as (i,):
        values, indices = b.sort(b.load(X, [i, ALL]), 0, descending=True)
        b.store(Y, [i, ALL], b.scan("sum", values, 0))
        b.store(P, [i, ALL], indices)
    return b.program


def total_program(dtype="f32"):
    """The sum of everything: a tile's elements in one row, reduced, and added to memory."""
    b = Builder("total", "M", "N")
    X, S = b.tensor("X", dtype, ["s0", "s1"]), b.tensor("S", dtype, [], kind="inout")
    with b.parallel(("i", "s0"), ("j", "s1")) as (i, j):
        row = b.reshape(b.load(X, [i, j]), [f"{i.size}*{j.size}"])
        b.atomic_add(S, [], b.reduce("sum", row, 0))
    return b.program
