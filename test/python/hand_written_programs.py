"""Kernel programs that several tests run."""

from __future__ import annotations

import math

from program_builder import ALL, Builder


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
