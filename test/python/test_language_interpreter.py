"""The interpreter of kernel programs against PyTorch, on programs written by hand."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hand_written_programs import (
    collatz_program,
    flash_attention_program,
    gather_program,
    matmul_program,
    softmax_program,
)
from program_builder import ALL, Builder, Part

from tilewright.language import semantics
from tilewright.language.interpreter import DataError, run

SIZES = (0, 1, 2, 5, 7, 13)


def outputs(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """An output whose elements are all wrong."""
    return torch.full(shape, 123, dtype=dtype)


def run_everywhere(program, make, **tolerance):
    """Runs a program on `make()` = (arguments, {position: expected}) with several tile sizes and orders of grid points."""
    for tiles, order in ((None, "row-major"), (1, "reversed"), (3, 7), (64, "row-major")):
        arguments, expected = make()
        run(program, arguments, tiles=tiles, order=order)
        for position, value in expected.items():
            torch.testing.assert_close(arguments[position], value, equal_nan=True, **tolerance)


@pytest.mark.parametrize("shape", list(itertools.product(SIZES, (1, 6, 17))))
def test_softmax(shape):
    def make():
        x = torch.randn(shape)
        return [x, outputs(*shape)], {1: torch.softmax(x, 1)}

    run_everywhere(softmax_program(), make)


def test_softmax_of_strided_input():
    def make():
        x = torch.randn(14, 18).t()[::2, 1::3]
        return [x, outputs(*x.shape)], {1: torch.softmax(x, 1)}

    run_everywhere(softmax_program(), make)


def test_layer_norm_over_one_row_at_a_time():
    b = Builder("layer_norm", "M", "N")
    X, W = b.tensor("X", "bf16", ["s0", "s1"]), b.tensor("W", "bf16", ["s1"])
    Y = b.tensor("Y", "bf16", ["s0", "s1"], kind="out")
    eps = b.scalar("eps", "f32")
    with b.parallel(("i", "s0", "scalar")) as (i,):
        x = b.cast(b.load(X, [i, ALL]), "f32")
        n = b.cast(b.size("s1"), "f32")
        centred = b.sub(x, b.div(b.reduce("sum", x, 0), n))
        variance = b.div(b.reduce("sum", b.mul(centred, centred), 0), n)
        y = b.mul(centred, b.rsqrt(b.add(variance, eps)))
        b.store(Y, [i, ALL], b.cast(b.mul(y, b.cast(b.load(W, [ALL]), "f32")), "bf16"))

    def make():
        x, w = torch.randn(6, 33, dtype=torch.bfloat16), torch.randn(33, dtype=torch.bfloat16)
        expected = torch.nn.functional.layer_norm(x.float(), (33,), w.float()).bfloat16()
        return [x, w, outputs(6, 33, dtype=torch.bfloat16), 1e-5], {2: expected}

    run_everywhere(b.program, make, atol=0.02, rtol=0.01)


@pytest.mark.parametrize(
    "dtype, accumulator", [("f32", "f32"), ("f64", "f64"), ("bf16", "f32"), ("f16", "f32"), ("i8", "i32")]
)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 5, 11), (13, 17, 0), (0, 3, 4)])
def test_matmul_accumulates_over_tiles(dtype, accumulator, sizes):
    m, n, k = sizes

    def make():
        kind, out = semantics.DTYPES[dtype], semantics.DTYPES[accumulator]
        if dtype == "i8":
            a, b = (torch.randint(-128, 128, s, dtype=kind) for s in ((m, k), (k, n)))
        else:
            a, b = torch.randn(m, k).to(kind), torch.randn(k, n).to(kind)
        return [a, b, outputs(m, n, dtype=out)], {2: a.to(out) @ b.to(out)}

    run_everywhere(matmul_program(dtype, accumulator), make, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows", [1, 5, 13])
def test_flash_attention_carries_tiles(causal, rows):
    def make():
        q, k, v = torch.randn(3, 2, rows, 6).unbind(0)
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=1.0)
        return [q, k, v, outputs(2, rows, 6)], {3: expected}

    run_everywhere(flash_attention_program(causal), make, rtol=1e-5, atol=1e-5)


def test_gather():
    def make():
        w, i = torch.randn(11, 9), torch.randint(0, 11, (13,), dtype=torch.int32)
        return [w, i, outputs(13, 9)], {2: w[i.long()]}

    run_everywhere(gather_program(), make)


def test_gather_outside_is_an_error_of_data():
    with pytest.raises(
        DataError,
        match=r"hand_written_programs.py:\d+: load reads W\[12, 0\], but dimension 0 of W has 11 elements",
    ):
        run(gather_program(), [torch.randn(11, 3), torch.tensor([1, 12], dtype=torch.int32), outputs(2, 3)])


def test_gather_with_two_dimensional_index_in_swapped_order():
    b = Builder("pick", "N", "A", "B")
    X, Indices = b.tensor("X", "f32", ["s0"]), b.tensor("I", "i64", ["s1", "s2"])
    Y = b.tensor("Y", "f32", ["s2", "s1"], kind="out")
    with b.parallel(("i", "s1"), ("j", "s2")) as (i, j):
        index = b.load(Indices, [i, j])
        x = b._value("load", "f32", [j.size, i.size], param=X.number, index=[{"value": index.id, "dims": [1, 0]}])
        b.store(Y, [j, i], x)

    def make():
        x, i = torch.randn(10), torch.randint(0, 10, (7, 6))
        return [x, i, outputs(6, 7)], {2: x[i].t()}

    run_everywhere(b.program, make)


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("n", [0, 1, 9])
def test_scan(kind, n):
    b = Builder("scan", "M", "N")
    X, Y = b.tensor("X", "f32", ["s0", "s1"]), b.tensor("Y", "f32", ["s0", "s1"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        b.store(Y, [i, ALL], b.scan(kind, b.load(X, [i, ALL]), 1))

    def make():
        x = torch.randn(7, n)
        if n > 4:
            x[3, 4] = math.nan
        f = {"sum": torch.cumsum, "prod": torch.cumprod}.get(kind)
        expected = f(x, 1) if f else getattr(torch, f"cum{kind}")(x, 1).values
        return [x, outputs(7, n)], {1: expected}

    run_everywhere(b.program, make)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i32", "u8", "bool"])
def test_sort_is_stable_and_puts_nan_above(descending, dtype):
    b = Builder("sort", "M", "N")
    X = b.tensor("X", dtype, ["s0", "s1"])
    Y, Indices = b.tensor("Y", dtype, ["s0", "s1"], kind="out"), b.tensor("I", "i64", ["s0", "s1"], kind="out")
    with b.parallel(("j", "s1")) as (j,):
        values, indices = b.sort(b.load(X, [ALL, j]), 0, descending)
        b.store(Y, [ALL, j], values)
        b.store(Indices, [ALL, j], indices)

    def make():
        x = torch.randint(0, 5, (9, 6)).to(semantics.DTYPES[dtype])
        if x.is_floating_point():
            x[2, 1] = x[6, 1] = math.nan
        values, indices = torch.sort(x, dim=0, descending=descending, stable=True)
        return [x, outputs(9, 6, dtype=x.dtype), outputs(9, 6, dtype=torch.int64)], {1: values, 2: indices}

    run_everywhere(b.program, make)


def test_if_at_run_time():
    b = Builder("choose", "N")
    X, Y = b.tensor("X", "f32", ["s0"]), b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0", "scalar")) as (i,):
        x = b.load(X, [i])
        with b.if_(b.lt(x, 0)) as branch:
            low = b.mul(x, -2)
            b.else_(branch)
            high = b.add(x, 1)
        b.store(Y, [i], b.choose(branch, low, high))

    def make():
        x = torch.randn(11)
        return [x, outputs(11)], {1: torch.where(x < 0, -2 * x, x + 1)}

    run_everywhere(b.program, make)


def test_while():
    def steps(x):
        n = 0
        while x > 1:
            x, n = (3 * x + 1 if x % 2 else x // 2), n + 1
        return n

    def make():
        x = torch.arange(1, 13, dtype=torch.int32)
        return [x, outputs(12, dtype=torch.int64)], {1: torch.tensor([steps(v) for v in x.tolist()])}

    run_everywhere(collatz_program(), make)


def test_loop_of_no_iteration_gives_what_it_began_with():
    b = Builder("none", "N")
    Y = b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        with b.loop("k", "5", "5", tile="scalar", carry=[b.full([i.size], 7)]) as loop:
            loop.next(b.add(loop.args[0], 1))
        b.store(Y, [i], loop.results[0])
    run_everywhere(b.program, lambda: ([outputs(6)], {0: torch.full((6,), 7.0)}))


@pytest.mark.parametrize("n", [1, 2, 12])
def test_shifted_loads_read_fill_outside(n):
    b = Builder("stencil", "N")
    X, Y = b.tensor("X", "f32", ["s0"]), b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        left, right = b.load(X, [i.shifted(-1)], fill=0), b.load(X, [i.shifted(1)], fill=5)
        b.store(Y, [i], b.sub(left, right))

    def make():
        x = torch.randn(n)
        return [x, outputs(n)], {1: torch.cat([torch.zeros(1), x[:-1]]) - torch.cat([x[1:], torch.full((1,), 5.0)])}

    run_everywhere(b.program, make)


def test_clipped_stores_leave_out_what_lies_outside():
    b = Builder("shift", "N")
    X, Y = b.tensor("X", "f32", ["s0"]), b.tensor("Y", "f32", ["s0"], kind="inout")
    with b.parallel(("i", "s0")) as (i,):
        b.store(Y, [i.shifted(2)], b.load(X, [i]), clip=True)

    def make():
        x, y = torch.randn(9), torch.randn(9)
        return [x, y], {1: torch.cat([y[:2], x[:-2]])}

    run_everywhere(b.program, make)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i32", "i64"])
def test_atomic_add_counts_every_one(dtype):
    b = Builder("histogram", "N", "B")
    X, H = b.tensor("X", "i64", ["s0"]), b.tensor("H", dtype, ["s1"], kind="inout")
    with b.parallel(("i", "s0")) as (i,):
        b.atomic_add(H, [b.load(X, [i])], 1)

    def make():
        x = torch.randint(0, 4, (50,))
        h = torch.tensor([1, 2, 3, 4]).to(semantics.DTYPES[dtype])
        return [x, h], {1: h + torch.bincount(x, minlength=4).to(h.dtype)}

    run_everywhere(b.program, make)


def test_views():
    b = Builder("views", "M", "N")
    X = b.tensor("X", "f32", ["s0", "s1"])
    T, F, S = (
        b.tensor(n, "f32", s, kind="out")
        for n, s in (("T", ["s1", "s0"]), ("F", ["s0", "s1"]), ("S", ["s0", "s1 // 2"]))
    )
    C, R = b.tensor("C", "f32", ["s0", "s1 + s1"], kind="out"), b.tensor("R", "f32", ["s0", "s1*2"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        x = b.load(X, [i, ALL])
        b.store(T, [ALL, i], b.transpose(x, 1, 0))
        b.store(F, [i, ALL], b.view(x, [i.size, "s1"], [("0", [(0, 1)]), ("s1 - 1", [(1, -1)])]))
        b.store(S, [i, ALL], b.view(x, [i.size, "s1 // 2"], [("0", [(0, 1)]), ("1", [(1, 2)])]))
        b.store(C, [i, ALL], b.concat(1, x, b.neg(x)))
        pairs = b.reshape(
            b.concat(1, b.reshape(x, [i.size, "1", "s1"]), b.full([i.size, "1", "s1"], 1)), [i.size, "s1*2"]
        )
        b.store(R, [i, ALL], pairs)

    def make():
        x = torch.randn(7, 8)
        empty = [outputs(8, 7), outputs(7, 8), outputs(7, 4), outputs(7, 16), outputs(7, 16)]
        expected = [x.t(), x.flip(1), x[:, 1::2], torch.cat([x, -x], 1), torch.cat([x, torch.ones(7, 8)], 1)]
        return [x, *empty], dict(enumerate(expected, 1))

    run_everywhere(b.program, make)


def test_bound_values_are_sizes():
    b = Builder("ragged", "B", "N")
    X, L = b.tensor("X", "f32", ["s0", "s1"]), b.tensor("L", "i32", ["s0"])
    Y = b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0", "scalar")) as (i,):
        n = b.bind(b.cast(b.load(L, [i]), "i64"), "0", "s1")
        b.store(Y, [i], b.reduce("sum", b.load(X, [i, Part("0", n)]), 0))

    def make():
        x, n = torch.randn(5, 8), torch.tensor([0, 3, 8, 1, 7], dtype=torch.int32)
        return [x, n, outputs(5)], {2: torch.stack([x[k, :c].sum() for k, c in enumerate(n.tolist())])}

    run_everywhere(b.program, make)
    with pytest.raises(DataError, match=r"is 9, which must lie in \[0, 8\]"):
        run(b.program, [torch.randn(1, 8), torch.tensor([9], dtype=torch.int32), outputs(1)])


def test_assertions_and_print(capsys):
    b = Builder("check", "N")
    X, Y = b.tensor("X", "f32", ["s0"]), b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        x = b.load(X, [i])
        b.assert_(b.lt(x, 10), "X below ten")
        b.print_("sum", b.reduce("sum", x, 0))
        b.store(Y, [i], x)
    run(b.program, [torch.ones(3), outputs(3)])
    assert capsys.readouterr().out == "sum 3.0\n"
    with pytest.raises(DataError, match=r"assertion failed: X below ten \(at \[1\] of \[2\]\)"):
        run(b.program, [torch.tensor([1.0, 11.0]), outputs(2)])


# ----------------------------------------------------------------------------------------------------------------------
# One operation


def evaluate(op, tensors, dtypes, result, **fields):
    """One operation on whole one-dimensional tensors."""
    b = Builder(op, "N")
    params = [b.tensor(f"X{k}", t, ["s0"]) for k, t in enumerate(dtypes)]
    Y = b.tensor("Y", result, ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        args = [b.load(p, [i]).id for p in params]
        b.store(Y, [i], b._value(op, result, [i.size], args=args, **fields))
    out = torch.zeros(len(tensors[0]), dtype=semantics.DTYPES[result])
    run(b.program, [*tensors, out], tiles=4)
    return out


UNARY = "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf erfc sqrt rsqrt floor ceil trunc round neg abs"


@pytest.mark.parametrize("op", UNARY.split())
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
def test_elementary_functions(op, dtype):
    x = torch.tensor([-math.inf, -7.5, -2.5, -1.0, -0.3, -0.0, 0.0, 0.25, 1.0, 1.5, 3.3, 80.0, math.inf, math.nan])
    x = x.to(semantics.DTYPES[dtype])
    expected = getattr(torch, op)(x)
    torch.testing.assert_close(evaluate(op, [x], [dtype], dtype), expected, equal_nan=True, rtol=None, atol=None)


FLOAT_BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "fdiv": torch.floor_divide, "mod": torch.remainder,
    "fmod": torch.fmod, "max": torch.maximum, "min": torch.minimum, "fmax": torch.fmax, "fmin": torch.fmin, "pow": torch.pow,
    "atan2": torch.atan2, "copysign": torch.copysign, "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le,
}  # fmt: skip


@pytest.mark.parametrize("op", FLOAT_BINARY)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_operations_on_two_floats(op, dtype):
    values = [-math.inf, -2.5, -1.0, -0.0, 0.0, 0.75, 3.0, math.inf, math.nan]
    x, y = (torch.tensor(t).to(semantics.DTYPES[dtype]) for t in zip(*itertools.product(values, values), strict=True))
    result = "bool" if op in ("eq", "ne", "lt", "le") else dtype
    expected = FLOAT_BINARY[op](x, y)
    got = evaluate(op, [x, y], [dtype, dtype], result)
    torch.testing.assert_close(got, expected, equal_nan=True)


INTEGER_BINARY = {
    "add": lambda a, b, n: a + b, "sub": lambda a, b, n: a - b, "mul": lambda a, b, n: a * b,
    "div": lambda a, b, n: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), "fdiv": lambda a, b, n: a // b,
    "mod": lambda a, b, n: a % b, "fmod": lambda a, b, n: abs(a) % abs(b) * (-1 if a < 0 else 1),
    "max": lambda a, b, n: max(a, b), "min": lambda a, b, n: min(a, b),
    "and": lambda a, b, n: a & b, "or": lambda a, b, n: a | b, "xor": lambda a, b, n: a ^ b,
    "shl": lambda a, b, n: a << b if 0 <= b < n else 0,
    "shr": lambda a, b, n: a >> b if 0 <= b < n else (-1 if a < 0 else 0),
    "lt": lambda a, b, n: a < b, "le": lambda a, b, n: a <= b, "eq": lambda a, b, n: a == b, "ne": lambda a, b, n: a != b,
}  # fmt: skip


@pytest.mark.parametrize("dtype", semantics.INTEGERS)
@pytest.mark.parametrize("op", INTEGER_BINARY)
def test_operations_on_two_integers(op, dtype):
    n = semantics.bits(dtype)
    low, high = (-(2 ** (n - 1)), 2 ** (n - 1) - 1) if dtype in semantics.SIGNED else (0, 2**n - 1)
    values = [v for v in (low, low + 1, -7, -1, 0, 1, 3, 6, n - 1, n, high - 1, high) if low <= v <= high]
    pairs = [(a, b) for a in values for b in values if b or op not in semantics.DIVISIONS]
    x, y = (torch.tensor(t, dtype=semantics.DTYPES[dtype]) for t in zip(*pairs, strict=True))
    boolean = op in ("eq", "ne", "lt", "le")
    exact = [INTEGER_BINARY[op](a, b, n) for a, b in pairs]
    expected = exact if boolean else [(v - low) % 2**n + low for v in exact]
    assert evaluate(op, [x, y], [dtype, dtype], "bool" if boolean else dtype).tolist() == expected


def test_division_by_zero_is_an_error_of_data():
    x, zero = torch.tensor([7, 7], dtype=torch.int32), torch.tensor([1, 0], dtype=torch.int32)
    with pytest.raises(DataError, match=r"an integer is divided by zero at \[1\]"):
        evaluate("fdiv", [x, zero], ["i32", "i32"], "i32")


def test_casts_to_integers_truncate_and_keep_low_bits():
    x = torch.tensor([-1.9, 1.9, 300.5, -129.0, 3e9, -3e9, 1e20, math.inf, math.nan])
    smallest = -(2**31)
    assert evaluate("cast", [x], ["f32"], "i32").tolist() == [-1, 1, 300, -129, *[smallest] * 5]
    assert evaluate("cast", [x], ["f32"], "i8").tolist() == [-1, 1, 44, 127, 0, 0, 0, 0, 0]
    assert evaluate("cast", [x], ["f32"], "u8").tolist() == [255, 1, 44, 127, 0, 0, 0, 0, 0]
    assert evaluate("cast", [x], ["f32"], "i64").tolist() == [-1, 1, 300, -129, 3 * 10**9, -3 * 10**9, *[-(2**63)] * 3]
    assert evaluate("cast", [x], ["f32"], "bool").tolist() == [True] * 9


@pytest.mark.parametrize("source", semantics.INTEGERS)
@pytest.mark.parametrize("target", semantics.ALL)
def test_casts_of_integers(source, target):
    n = semantics.bits(source)
    low, high = (-(2 ** (n - 1)), 2 ** (n - 1) - 1) if source in semantics.SIGNED else (0, 2**n - 1)
    values = [low, 0, 1, 100, high]
    got = evaluate("cast", [torch.tensor(values, dtype=semantics.DTYPES[source])], [source], target)
    if target in semantics.INTEGERS:
        width = semantics.bits(target)
        bottom = -(2 ** (width - 1)) if target in semantics.SIGNED else 0
        assert got.tolist() == [(v - bottom) % 2**width + bottom for v in values]
    else:
        assert got.tolist() == torch.tensor([float(v) for v in values], dtype=torch.float64).to(got.dtype).tolist()


def test_bitcasts():
    x = torch.tensor([1.0, -0.0, math.inf])
    assert evaluate("bitcast", [x], ["f32"], "u32").tolist() == [0x3F800000, 0x80000000, 0x7F800000]
    back = evaluate("bitcast", [torch.tensor([0x3F80, 0xC000], dtype=torch.uint16)], ["u16"], "bf16")
    assert back.tolist() == [1.0, -2.0]


def test_fma_rounds_once():
    x = torch.tensor([1 + 2.0**-52], dtype=torch.float64)
    z = torch.tensor([-1 - 2.0**-51], dtype=torch.float64)
    assert evaluate("fma", [x, x, z], ["f64"] * 3, "f64").tolist() == [2.0**-104]
    y = torch.tensor([1 + 2.0**-23])
    assert evaluate("fma", [y, y, -y * y], ["f32"] * 3, "f32").tolist() == [2.0**-46]


def test_half_types_round_after_every_operation():
    x = torch.tensor([256.0], dtype=torch.bfloat16)
    b = Builder("twice", "N")
    X, Y = b.tensor("X", "bf16", ["s0"]), b.tensor("Y", "bf16", ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        x_ = b.load(X, [i])
        b.store(Y, [i], b.add(b.add(x_, 1), 1))  # each 1 is half of the last place: both are lost
    out = torch.zeros(1, dtype=torch.bfloat16)
    run(b.program, [x, out])
    assert out.item() == 256.0


REDUCTIONS = {
    "sum": lambda x: x.sum(1), "prod": lambda x: x.prod(1), "max": lambda x: x.amax(1), "min": lambda x: x.amin(1),
    "argmax": lambda x: x.argmax(1), "argmin": lambda x: x.argmin(1),
}  # fmt: skip


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i32", "u8"])
def test_reductions(kind, dtype):
    b = Builder("reduce", "M", "N")
    result = "i64" if kind.startswith("arg") else dtype
    X, Y = b.tensor("X", dtype, ["s0", "s1"]), b.tensor("Y", result, ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        b.store(Y, [i], b.reduce(kind, b.load(X, [i, ALL]), 1))

    def make():
        x = torch.randint(0, 4, (8, 6)).to(semantics.DTYPES[dtype])
        if x.is_floating_point():
            x[3, 2] = x[3, 4] = math.nan
        expected = REDUCTIONS[kind](x.long() if dtype == "u8" else x).to(semantics.DTYPES[result])
        return [x, outputs(8, dtype=semantics.DTYPES[result])], {1: expected}

    run_everywhere(b.program, make)


@pytest.mark.parametrize(
    "kind, dtype, expected",
    [("sum", "f32", 0), ("prod", "f32", 1), ("max", "f32", -math.inf), ("min", "f16", math.inf), ("max", "i8", -128),
     ("min", "u8", 255), ("any", "bool", False), ("all", "bool", True)],
)  # fmt: skip
def test_reductions_of_nothing_give_the_identity(kind, dtype, expected):
    b = Builder("reduce", "M", "N")
    X, Y = b.tensor("X", dtype, ["s0", "s1"]), b.tensor("Y", dtype, ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        b.store(Y, [i], b.reduce(kind, b.load(X, [i, ALL]), 1))
    kind_ = semantics.DTYPES[dtype]
    run_everywhere(
        b.program,
        lambda: (
            [torch.zeros(2, 0, dtype=kind_), outputs(2, dtype=kind_)],
            {1: torch.full((2,), expected, dtype=kind_)},
        ),
    )


# ----------------------------------------------------------------------------------------------------------------------
# Arguments


def test_order_of_grid_points_shows_in_a_race():
    b = Builder("race", "N")
    Y = b.tensor("Y", "i64", [], kind="out")
    b.program["params"].insert(0, {"name": "n", "kind": "scalar", "dtype": "i64", "symbol": 0})
    Y.number = 1
    with b.parallel(("i", "s0", "scalar")) as (i,):
        b.store(Y, [], b.size(i.start))
    got = []
    for order in ("row-major", "reversed"):
        y = torch.tensor(-1)
        run(b.program, [4, y], order=order)
        got.append(int(y))
    assert got == [3, 0]


def test_sizes_must_agree():
    b = Builder("add", "M", "N")
    b.tensor("X", "f32", ["s0", "s1"]), b.tensor("Y", "f32", ["s1*2", "s0"], kind="out", layout="contiguous")
    b.relation("le", "s1", "s0", "N = {lhs} must be at most M = {rhs}")
    ok = [torch.zeros(4, 3), torch.zeros(6, 4)]
    run(b.program, ok)
    for arguments, error, message in (
        ([ok[0], torch.zeros(5, 4)], ValueError, r"dimension 0 of Y is 5, but must be N\*2 = 6"),
        ([torch.zeros(2, 3), torch.zeros(6, 2)], ValueError, "N = 3 must be at most M = 2"),
        ([ok[0], torch.zeros(4, 6).t()], ValueError, "Y must be contiguous"),
        ([ok[0], torch.zeros(6)], ValueError, "Y has 2 dimensions, not 1"),
        ([ok[0].double(), ok[1]], TypeError, "X must be f32, not torch.float64"),
        ([ok[0], 3], TypeError, "Y is a tensor, not int"),
        ([ok[0]], TypeError, r"add takes 2 arguments \(X, Y\), not 1"),
    ):
        with pytest.raises(error, match=message):
            run(b.program, arguments)


def test_outputs_must_not_overlap():
    b = Builder("copy", "N")
    X, Y = b.tensor("X", "f32", ["s0"]), b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        b.store(Y, [i], b.load(X, [i]))
    memory = torch.zeros(9)
    run(b.program, [memory[::2], memory[1::2].new_zeros(5)])
    run(b.program, [memory[0:8:2], memory[1:9:2]])  # interleaved, without an element in common
    with pytest.raises(ValueError, match="the output Y overlaps X"):
        run(b.program, [memory[:5], memory[4:]])
    with pytest.raises(ValueError, match="elements of the output Y share memory"):
        run(b.program, [memory[:5], torch.zeros(1).expand(5)])


def test_malformed_programs_are_named():
    b = Builder("bad", "N")
    X, Y = b.tensor("X", "f32", ["s0"]), b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        x = b.load(X, [i])
        b.store(Y, [i], b._value("exp", "f32", ["s0 + 1"], args=[x.id]))
    with pytest.raises(ValueError, match=r"the program is wrong: exp gives \[5\] of torch.float32 where \[7\]"):
        run(b.program, [torch.zeros(6), torch.zeros(6)])
