"""Whole-tensor evaluation of kernel programs against the interpreter, under autograd, tracing and vmap."""

from __future__ import annotations

import math

import hand_written_programs as programs
import pytest
import torch
from program_builder import ALL, Builder, Part
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tilewright.language import semantics
from tilewright.language.interpreter import bind_sizes, run, size_text
from tilewright.language.whole import NotWhole, evaluate


def allocate(program, inputs, symbols=()):
    """All arguments of a program: outputs are new and wrong."""
    given, sizes = iter(inputs), dict(symbols)
    arguments = [None if p["kind"] == "out" else next(given) for p in program["params"]]
    for p, a in zip(program["params"], arguments, strict=True):
        if p["kind"] == "scalar" and p.get("symbol") is not None:
            sizes[f"s{p['symbol']}"] = a
        for text, n in zip(p.get("sizes", []), a.shape if isinstance(a, torch.Tensor) else [], strict=False):
            sizes.setdefault(text, n)
    for k, (p, a) in enumerate(zip(program["params"], arguments, strict=True)):
        if p["kind"] == "out":
            shape = [size_text.evaluate(t, sizes) for t in p["sizes"]]
            arguments[k] = torch.full(shape, 77, dtype=semantics.DTYPES[p["dtype"]])
        elif p["kind"] == "inout":
            arguments[k] = a.clone()
    bind_sizes(program, arguments)
    return arguments


def interpreted(program, inputs, **options):
    arguments = allocate(program, inputs)
    run(program, arguments, **options)
    return [a for p, a in zip(program["params"], arguments, strict=True) if p["kind"] in ("out", "inout")]


CASES = {
    "softmax": (programs.softmax_program, lambda: [torch.randn(7, 9)]),
    "softmax of no rows": (programs.softmax_program, lambda: [torch.randn(0, 9)]),
    "softmax of rows": (programs.whole_softmax_program, lambda: [torch.randn(7, 9)]),
    "softmax of strided rows": (programs.whole_softmax_program, lambda: [torch.randn(9, 14).t()[::2]]),
    "layer norm": (programs.layer_norm_program, lambda: [torch.randn(5, 33), torch.randn(33), torch.randn(33)]),
    "matmul": (lambda: programs.matmul_program("f32", "f32"), lambda: [torch.randn(7, 13), torch.randn(13, 6)]),
    "matmul of nothing": (lambda: programs.matmul_program("f32", "f32"), lambda: [torch.randn(7, 0), torch.randn(0, 6)]),
    "matmul bf16": (
        lambda: programs.matmul_program("bf16", "f32"), lambda: [torch.randn(7, 13).bfloat16(), torch.randn(13, 6).bfloat16()],
    ),
    "matmul i8": (
        lambda: programs.matmul_program("i8", "i32"),
        lambda: [torch.randint(-128, 128, s, dtype=torch.int8) for s in ((7, 13), (13, 6))],
    ),
    "gather": (programs.gather_program, lambda: [torch.randn(11, 9), torch.randint(0, 11, (13,), dtype=torch.int32)]),
    "loops that accumulate": (programs.tiled_sum_of_squares_program, lambda: [torch.randn(6, 17)]),
    "loops over nothing": (programs.tiled_sum_of_squares_program, lambda: [torch.randn(6, 0)]),
    "causal mask": (programs.causal_mask_program, lambda: [torch.randn(7, 9)]),
    "stencil": (programs.stencil_program, lambda: [torch.randn(13)]),
    "grouped heads": (programs.grouped_heads_program, lambda: [torch.randn(6, 7, 13), torch.randn(2, 13, 5)]),
    "column sums": (programs.column_sums_program, lambda: [torch.randn(13, 7), torch.randn(7)]),
    "histogram": (programs.histogram_program, lambda: [torch.randint(0, 4, (3, 20)), torch.arange(4, dtype=torch.int32)]),
    "taps": (programs.taps_program, lambda: [torch.randn(6, 13), torch.randn(6, 4)]),
    "halves": (programs.halves_program, lambda: [7, torch.randn(14)]),
    "total": (programs.total_program, lambda: [torch.randn(9, 7), torch.tensor(1.5)]),
    "sort and scan": (programs.sorted_program, lambda: [torch.randn(5, 9)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_interpreter(name):
    make_program, make_inputs = CASES[name]
    program, inputs = make_program(), make_inputs()
    before = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
    whole = evaluate(program, inputs)
    for tiles in (1, 4, 100):
        for got, expected in zip(whole, interpreted(program, inputs, tiles=tiles), strict=True):
            assert got.dtype == expected.dtype and got.is_contiguous()
            torch.testing.assert_close(got, expected, equal_nan=True)
    for a, b in zip(inputs, before, strict=True):  # functional
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


@pytest.mark.parametrize("name", CASES)
def test_traces_with_symbolic_sizes(name):
    make_program, make_inputs = CASES[name]
    program, inputs = make_program(), make_inputs()
    if any(isinstance(x, torch.Tensor) and 0 in x.shape for x in inputs):
        pytest.skip("sizes 0 and 1 are constants to a tracer")
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    numbers = [x for x in inputs if not isinstance(x, torch.Tensor)]
    graph = make_fx(lambda *tensors: evaluate(program, [*numbers, *tensors]), tracing_mode="symbolic")(*tensors)
    for got, expected in zip(graph(*tensors), evaluate(program, inputs), strict=True):
        torch.testing.assert_close(got, expected, equal_nan=True)
    for node in graph.graph.nodes:
        assert not str(node.target).endswith("_.default"), f"{node.target} writes in place"


def test_a_traced_graph_takes_other_sizes():
    graph = make_fx(lambda a, b: evaluate(programs.matmul_program("f32", "f32"), [a, b]), tracing_mode="symbolic")(
        torch.randn(7, 13), torch.randn(13, 6)
    )
    a, b = torch.randn(4, 9), torch.randn(9, 5)
    torch.testing.assert_close(graph(a, b)[0], a @ b)
    calls = [
        node.target for node in graph.graph.nodes if node.op == "call_function" and node.target.namespace == "aten"
    ]
    assert torch.ops.aten.mm.default in calls and torch.ops.aten.add.Tensor not in calls, (
        "the zeros to start from are added"
    )


@pytest.mark.parametrize("name", CASES)
def test_fake_and_meta_tensors(name):
    make_program, make_inputs = CASES[name]
    program, inputs = make_program(), make_inputs()
    expected = [(tuple(y.shape), y.dtype) for y in evaluate(program, inputs)]
    meta = [x.to("meta") if isinstance(x, torch.Tensor) else x for x in inputs]
    assert [(tuple(y.shape), y.dtype) for y in evaluate(program, meta)] == expected
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in inputs]
        assert [(tuple(y.shape), y.dtype) for y in evaluate(program, fake)] == expected


@pytest.mark.parametrize(
    "program, shapes",
    [
        (programs.whole_softmax_program("f64"), [(3, 4)]),
        (programs.layer_norm_program("f64"), [(3, 5), (5,), (5,)]),
        (programs.matmul_program("f64", "f64"), [(3, 4), (4, 2)]),
        (programs.tiled_sum_of_squares_program("f64"), [(2, 5)]),
        (programs.stencil_program("f64"), [(6,)]),
        (programs.column_sums_program("f64"), [(3, 4), (4,)]),
        (programs.taps_program("f64"), [(2, 5), (2, 4)]),
    ],
    ids=lambda p: p["name"] if isinstance(p, dict) else "",
)
def test_gradients(program, shapes):
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    assert torch.autograd.gradcheck(lambda *x: tuple(evaluate(program, list(x))), inputs)


def test_gradient_of_gather_is_a_scatter():
    w = torch.randn(5, 3, requires_grad=True)
    i = torch.tensor([1, 4, 1], dtype=torch.int32)
    (y,) = evaluate(programs.gather_program(), [w, i])
    y.sum().backward()
    assert w.grad.tolist() == [[0] * 3, [2] * 3, [0] * 3, [0] * 3, [1] * 3]


@pytest.mark.parametrize(
    "name", ["softmax of rows", "layer norm", "matmul", "stencil", "grouped heads", "causal mask", "gather"]
)
def test_vmap(name):
    make_program, make_inputs = CASES[name]
    program = make_program()
    batches = [make_inputs() for _ in range(3)]
    stacked = [torch.stack(list(xs)) for xs in zip(*batches, strict=True)]
    got = torch.vmap(lambda *x: evaluate(program, list(x))[0])(*stacked)
    for k, inputs in enumerate(batches):
        torch.testing.assert_close(got[k], evaluate(program, inputs)[0])


def test_runs_on_the_device():
    if not torch.npu.is_available():
        pytest.skip("no npu here")
    for name in ("softmax", "matmul", "causal mask", "grouped heads", "stencil"):
        make_program, make_inputs = CASES[name]
        program, inputs = make_program(), make_inputs()
        (got,) = evaluate(program, [x.to("npu") for x in inputs])
        assert got.device.type == "npu"
        torch.testing.assert_close(got.cpu(), evaluate(program, inputs)[0])


def test_sizes_that_only_an_output_has_are_given():
    b = Builder("ones", "N")
    Y = b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        b.store(Y, [i], 1)
    assert evaluate(b.program, [], {"N": 5})[0].tolist() == [1] * 5
    with pytest.raises(ValueError, match="no input gives the size N; pass symbols="):
        evaluate(b.program, [])


def test_outputs_do_not_alias_inputs():
    b = Builder("copy", "M", "N")
    X, Y = b.tensor("X", "f32", ["s0", "s1"]), b.tensor("Y", "f32", ["s1", "s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        b.store(Y, [ALL, i], b.transpose(b.load(X, [i, ALL]), 1, 0))
    x = torch.randn(1, 5)  # whose transpose is contiguous
    (y,) = evaluate(b.program, [x])
    y.zero_()
    assert (x != 0).all()


def test_parts_of_outputs():
    """Stores that do not cover an output, several to one output, reads of what was written, and clipped ones."""
    b = Builder("parts", "N")
    X, Y = b.tensor("X", "f32", ["s0"]), b.tensor("Y", "f32", [3, "s0"], kind="inout")
    Z = b.tensor("Z", "f32", ["s0"], kind="inout")
    with b.parallel(("i", "s0")) as (i,):
        x = b.load(X, [i])
        b.store(Y, [0, i], x)
        b.store(Y, [2, i], b.mul(x, 2))
        b.store(Y, [2, i], b.add(b.load(Y, [2, i]), 1))
        b.store(Z, [i.shifted(2)], x, clip=True)
    inputs = [torch.randn(9), torch.randn(3, 9), torch.randn(9)]
    for got, expected in zip(evaluate(b.program, inputs), interpreted(b.program, inputs, tiles=4), strict=True):
        torch.testing.assert_close(got, expected)


def test_reshapes_that_leave_tiles_alone():
    b = Builder("reshape", "M")
    X, Y = b.tensor("X", "f32", ["s0", 6]), b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        x = b.reshape(b.load(X, [i, ALL]), [i.size, "3", "2"])
        column = b.reshape(b.reduce("max", x, [1, 2]), [i.size, "1"])
        b.store(Y, [i], b.reshape(column, [i.size]))
    x = torch.randn(7, 6)
    assert torch.equal(evaluate(b.program, [x])[0], x.amax(1))


def test_scalars_and_comparisons_of_indices():
    b = Builder("window", "N")
    X, Y = b.tensor("X", "bf16", ["s0"]), b.tensor("Y", "bf16", ["s0"], kind="out")
    limit, factor = b.scalar("limit", "i64"), b.scalar("factor", "bf16")
    with b.parallel(("i", "3", "s0", None)) as (i,):
        local = b.iota([i.size], 0)
        inside = b.lt(local, b.sub(limit, b.size(i.start)))  # both sides count from the tile's start
        b.store(Y, [i], b.select(inside, b.mul(b.load(X, [i]), factor), 0.1))
    x = torch.randn(12).bfloat16()
    (got,) = evaluate(b.program, [x, 7, 0.3])
    (expected,) = interpreted(b.program, [x, 7, 0.3], tiles=4)
    assert torch.equal(got[3:], expected[3:])


# ----------------------------------------------------------------------------------------------------------------------
# What has no whole-tensor form


def refusal(build, *symbols, outputs=("s0",)):
    b = Builder("kernel", "N", "M", *symbols)
    X, Y = b.tensor("X", "f32", ["s0", "s1"]), b.tensor("Y", "f32", list(outputs), kind="inout")
    build(b, X, Y)
    shape = [{"s0": 4, "s1": 6}.get(s, 3) for s in outputs]
    with pytest.raises(NotWhole, match=r"test_language_whole.py:\d+: kernel has no whole-tensor form: ") as error:
        evaluate(b.program, [torch.randn(4, 6), torch.randn(shape)])
    return str(error.value).split("form: ")[1]


def with_tiles(build):
    def outer(b, X, Y):
        with b.parallel(("i", "s0")) as (i,):
            b.store(Y, [i], build(b, X, i))

    return outer


def online(b, X, i):
    with b.loop("k", "0", "s1", carry=[b.full([i.size], 0)]) as loop:
        loop.next(b.add(b.mul(loop.args[0], 0.5), b.reduce("sum", b.load(X, [i, loop.axis]), 1)))
    return loop.results[0]


def counting(b, X, i):
    with b.loop("k", "0", "s1", carry=[b.full([i.size], 0)]) as loop:
        loop.next(b.add(loop.args[0], 1))
    return loop.results[0]


def twice(b, X, i):
    with b.loop("k", "0", "s1", carry=[b.full([i.size], 0)]) as loop:
        part = b.reduce("sum", b.load(X, [i, loop.axis]), 1)
        loop.next(b.add(loop.args[0], b.mul(part, part)))
    return loop.results[0]


def of_tile_length(b, X, i):
    return b.add(b.load(X, [i, 0]), b.cast(b.size(i.size), "f32"))


def of_tile_start(b, X, i):
    return b.mul(b.load(X, [i, 0]), b.cast(b.size(i.start), "f32"))


def flipped(b, X, i):
    return b.view(b.load(X, [i, 0]), [i.size], [(f"{i.size} - 1", [(0, -1)])])


def first_of_tile(b, X, i):
    return b.view(b.load(X, [i, 0]), [i.size], [("0", [])])


def sum_of_tile(b, X, i):
    return b.broadcast(b.reduce("sum", b.load(X, [i, 0]), 0), [i.size])


def scan_of_tile(b, X, i):
    return b.scan("sum", b.load(X, [i, 0]), 0)


def one_row(b, X, i):
    row = b.reshape(b.load(X, [i, Part("0", "2")]), [f"{i.size}*2"])
    return b.view(b.exp(row), [i.size], [("0", [(0, 1)])])


def up_to_the_tile(b, X, i):
    return b.reduce("sum", b.load(X, [i, Part("0", f"min(s1, {i.start} + 1)")]), 1)


def chosen(b, X, i):
    with b.if_(b.lt(b.reduce("sum", b.load(X, [0, ALL]), 0), 0)) as branch:
        low = b.full([i.size], 1)
        b.else_(branch)
        high = b.full([i.size], 2)
    return b.choose(branch, low, high)


def stepping(b, X, i):
    with b.loop("k", "0", "s1", tile="scalar", carry=[b.full([i.size], 0)]) as loop:
        loop.next(b.add(loop.args[0], b.load(X, [i, loop.axis])))
    return loop.results[0]


@pytest.mark.parametrize(
    "build, reason",
    [
        (online, "mul uses a value that is still being accumulated over a loop"),
        (counting, "add uses a value that is still being accumulated over a loop"),
        (twice, "mul uses a value that is still being accumulated over k"),
        (of_tile_length, "the number s3 depends on how long or where a tile of i is"),
        (of_tile_start, "cast uses an index that depends on where tiles of i start"),
        (flipped, r"the index s3 - 1 depends on how i is cut into tiles"),
        (first_of_tile, "an index takes part of a tile of i, or moves otherwise than its tiles"),
        (sum_of_tile, "store uses a value that is still being accumulated over i"),
        (scan_of_tile, "scan runs over tiles of i"),
        (one_row, "exp uses the elements of a tile in one row"),
        (up_to_the_tile, "how much is computed depends on where i stands"),
        (chosen, "`if` decides at run time"),
        (stepping, "the loop over k goes by single steps"),
    ],
    ids=lambda v: v.__name__ if callable(v) else "",
)
def test_refused(build, reason):
    assert refusal(with_tiles(build)).startswith(reason)


def test_refused_flash_attention_and_while():
    q, k, v = torch.randn(3, 2, 5, 4).unbind(0)
    with pytest.raises(
        NotWhole,
        match=r"hand_written_programs.py:\d+: flash has no whole-tensor form: view uses a value that is still being accumulated over j",
    ):
        evaluate(programs.flash_attention_program(False), [q, k, v])
    with pytest.raises(NotWhole, match="collatz has no whole-tensor form: `while` decides at run time"):
        evaluate(programs.collatz_program(), [torch.arange(3, dtype=torch.int32)])


def test_refused_stores():
    def same_elements(b, X, Y):
        with b.parallel(("i", "s0"), ("j", "s1", "scalar")) as (i, j):
            b.store(Y, [i], b.load(X, [i, j]))

    def once_per_tile(b, X, Y):
        with b.parallel(("i", "s0")):
            b.atomic_add(Y, [0], 1)

    def recurrence(b, X, Y):
        with b.parallel(("i", "s0")) as (i,):
            with b.loop("k", "0", "s1") as loop:
                b.store(Y, [i], b.add(b.load(Y, [i]), b.reduce("sum", b.load(X, [i, loop.axis]), 1)))

    assert refusal(same_elements) == "all grid points along j write the same elements"
    assert refusal(once_per_tile) == "atomic_add happens once in every tile of i"
    assert refusal(recurrence) == "the loop reads and writes Y"


def test_extremes_of_nothing():
    b = Builder("top", "M", "N")
    X, Y, Z = (
        b.tensor("X", "f32", ["s0", "s1"]),
        b.tensor("Y", "f32", ["s0"], kind="out"),
        b.tensor("Z", "i64", ["s0"], kind="out"),
    )
    with b.parallel(("i", "s0")) as (i,):
        x = b.load(X, [i, ALL])
        b.store(Y, [i], b.reduce("max", x, 1))
        b.store(Z, [i], b.reduce("argmax", x, 1))
    y, z = evaluate(b.program, [torch.zeros(3, 0)])
    assert y.tolist() == [-math.inf] * 3 and z.tolist() == [0] * 3
