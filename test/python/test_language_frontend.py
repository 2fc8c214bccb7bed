"""Kernels written in Python become the right programs: their structure, and what the interpreter makes of them."""

from __future__ import annotations

import dataclasses
import enum
import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tilewright as tw
from tilewright.dynamo.dtypes import DTYPE_NAMES
from tilewright.language import interpreter, registry
from tilewright.language.interpreter import DataError

M, N, K, B, H, L, D, E, P, S, V, G = tw.symbols("M N K B H L D E P S V G")
T, U = tw.dtypes("T U")
f32, f64, bf16, i32, i64, u8 = tw.f32, tw.f64, tw.bf16, tw.i32, tw.i64, tw.u8


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def run(kernel: Any, *arguments: Any, tiles: Any = None, **signature: Any) -> dict[str, Any]:
    """Runs a kernel's program in the interpreter after checking its form; tensors' dtypes are part of the signature by themselves."""
    names = [p.name for p in kernel.parameters if p.kind != "const"]
    short = {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.float16: "f16"}
    given = {
        n: short[a.dtype]
        for n, a in zip(names, arguments, strict=True)
        if isinstance(a, torch.Tensor) and a.dtype in short
    }
    program = kernel.program({**given, **signature})
    check_form(program)
    interpreter.run(program, list(arguments), tiles=tiles)
    return program


def walk(statements):
    for s in statements:
        yield s
        for key in ("condition", "body", "then", "else"):
            yield from walk(s.get(key, ()))


def ops(program):
    return [s["op"] for s in walk(program["body"])]


def find(program, op):
    return [s for s in walk(program["body"]) if s["op"] == op]


def check_form(program):
    """Values are defined once and before use, symbols once and before use, and everything is JSON."""
    assert json.loads(json.dumps(program)) == program
    known = {f"s{k}" for k in range(len(program["symbols"]))}
    defined: set[int] = set()

    def define(i):
        assert i not in defined, f"value {i} twice"
        defined.add(i)

    def use(i, scope):
        assert i in scope, f"value {i} is not there"

    def sizes(texts, symbols):
        import re

        for text in texts:
            for s in re.findall(r"s\d+", text):
                assert s in symbols, f"{s} is not bound: {text}"

    def index(entries, scope, symbols):
        for e in entries:
            if "value" in e:
                use(e["value"], scope)
            else:
                sizes([e["start"], *(step for _, step in e["terms"])], symbols)

    def axis(a, symbols):
        sizes([a["begin"], a["end"]], symbols)
        fresh = {f"s{a[k]}" for k in ("start", "size") if k in a}
        assert not fresh & all_symbols
        all_symbols.update(fresh)
        return symbols | fresh

    def block(statements, scope, symbols):
        scope, symbols = set(scope), set(symbols)
        for s in statements:
            op = s["op"]
            for a in s.get("args", ()):
                use(a, scope)
            if op == "parallel":
                inner = symbols
                for a in s["axes"]:
                    inner = axis(a, inner)
                block(s["body"], scope, inner)
                continue
            if op in ("for", "while"):
                for c in s["carried"]:
                    use(c["init"], scope)
                    define(c["arg"])
                inner_scope = scope | {c["arg"] for c in s["carried"]}
                if op == "for":
                    inner_scope, _ = block(s["body"], inner_scope, axis(s["axis"], symbols))
                else:
                    checked, bound = block(s["condition"], inner_scope, symbols)
                    use(s["cond"], checked)
                    inner_scope, _ = block(s["body"], checked, bound)
                for c in s["carried"]:
                    use(c["next"], inner_scope)
                    define(c["result"])
                    scope.add(c["result"])
                continue
            if op == "if":
                use(s["cond"], scope)
                sides = {k: block(s[k], scope, symbols)[0] for k in ("then", "else")}
                for r in s["results"]:
                    use(r["then"], sides["then"])
                    use(r["else"], sides["else"])
                    define(r["result"])
                    scope.add(r["result"])
                continue
            if op == "bind":
                use(s["value"], scope)
                sizes([s[k] for k in ("min", "max") if k in s], symbols)
                assert f"s{s['symbol']}" not in all_symbols
                symbols.add(f"s{s['symbol']}")
                all_symbols.add(f"s{s['symbol']}")
                continue
            if op in ("store", "atomic_add"):
                use(s["value"], scope)
            index([*s.get("index", ()), *s.get("map", ())], scope, symbols)
            sizes([*s.get("shape", ()), *([s["size"]] if op == "size" else [])], symbols)
            for i in s.get("ids", [s["id"]] if "id" in s else []):
                define(i)
                scope.add(i)
        return scope, symbols

    all_symbols = set(known)
    block(program["body"], set(), known)
    for r in program["relations"]:
        sizes([r["lhs"], r["rhs"]], known)
    for p in program["params"]:
        sizes(p.get("sizes", ()), known)


def close(a, b, tolerance=2e-6):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


# -- the first examples ------------------------------------------------------------------------------------------------


@tw.kernel
def softmax(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
    for i in tw.parallel(M):
        x = X[i, :]
        e = tw.exp(x - tw.max(x, axis=1, keepdims=True))
        Y[i, :] = e / tw.sum(e, axis=1, keepdims=True)


@tw.kernel
def matmul(A: tw.In[f32, M, K], W: tw.In[f32, K, N], C: tw.Out[f32, M, N]):
    for i, j in tw.parallel(M, N):
        acc = tw.zeros((i, j), tw.f32)
        for k in tw.range(K):
            acc += A[i, k] @ W[k, j]
        C[i, j] = acc


def test_softmax_program():
    x, y = torch.randn(7, 13), torch.empty(7, 13)
    program = run(softmax, x, y)
    close(y, x.softmax(1))
    assert program["symbols"] == ["M", "N"] and program["relations"] == []
    (grid,) = program["body"]
    assert [s["op"] for s in grid["body"]] == ["load", "reduce", "view", "sub", "exp", "reduce", "view", "div", "store"]
    (axis,) = grid["axes"]
    assert axis == {"name": "i", "start": 2, "size": 3, "begin": "0", "end": "s0", "tile": None}
    load = grid["body"][0]
    assert load["index"] == [{"start": "s2", "terms": [[0, "1"]]}, {"start": "0", "terms": [[1, "1"]]}]
    assert load["shape"] == ["s3", "s1"]
    # keepdims and broadcasting are one view.
    assert grid["body"][2]["map"] == [{"start": "0", "terms": [[0, "1"]]}] and grid["body"][2]["shape"] == ["s3", "s1"]
    line, column = load["loc"]
    with open(program["file"]) as file:
        assert file.readlines()[line - 1][column:].startswith("X[i, :]")


@pytest.mark.parametrize("sizes", [(0, 3, 4), (1, 1, 1), (7, 13, 9), (3, 0, 2)])
def test_matmul_of_any_size(sizes):
    m, k, n = sizes
    a, w, c = torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)
    program = run(matmul, a, w, c)
    close(c, a @ w)
    (loop,) = find(program, "for")
    (carried,) = loop["carried"]
    assert carried["init"] != carried["arg"] and program["symbols"] == ["M", "K", "N"]


def test_programs_are_kept_and_cheap_to_find():
    assert softmax.program({}) is softmax.program({"X": "f32"}) is softmax.program(softmax.specialise({}))
    assert softmax.is_current({}) and softmax.program({"X": ("f32", "strided")}) is not softmax.program({})
    assert softmax.program({"X": ("f32", "strided")})["params"][0]["layout"] == "strided"
    assert softmax.name == "softmax" and [p.kind for p in softmax.parameters] == ["in", "out"]
    assert tw.trace(softmax.function, {}) == softmax.program({})


def test_import_needs_neither_the_native_module_nor_torch():
    code = (
        "import sys, types; m = types.ModuleType('tilewright'); import importlib.util\n"
        f"m.__path__ = [{str(__import__('pathlib').Path(tw.__file__).resolve().parent)!r}]\n"
        "sys.modules['tilewright'] = m\n"
        "import tilewright.language\n"
        "assert 'torch' not in sys.modules and 'tilewright._C' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_of_the_language_are_names_of_the_package():
    from tilewright import language

    assert {"kernel", "In", "Out", "InOut", "parallel", "range", "sum", "symbols", "KernelError"} <= set(dir(tw))
    for name in language.__all__:
        assert getattr(tw, name) is getattr(language, name)
    for function in map(language.__dict__.get, language.__all__):
        assert function.__doc__, function


# -- specialisation ----------------------------------------------------------------------------------------------------


@tw.kernel
def layer_norm(X: tw.In[T, M, N], W: tw.In[T, N], Bias: tw.In[T, N], Y: tw.Out[T, M, N], *, eps: float = 1e-5):
    for i in tw.parallel(M):
        x = X[i, :].to(tw.f32)
        d = x - tw.mean(x, axis=1, keepdims=True)
        y = d * tw.rsqrt((d * d).mean(axis=1, keepdims=True) + eps)
        Y[i, :] = (y * W[:] + Bias[:]).to(T)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dtype_parameters(dtype):
    x, w, b = (t.to(dtype) for t in (torch.randn(7, 13), torch.randn(13), torch.randn(13)))
    y = torch.empty_like(x)
    program = run(layer_norm, x, w, b, y, 1e-5)
    reference = F.layer_norm(x.float(), (13,), w.float(), b.float())
    close(y.float(), reference, 1e-6 if dtype == torch.float32 else 1e-2)
    assert {p["dtype"] for p in program["params"][:4]} == {"f32" if dtype == torch.float32 else "bf16"}
    assert program["params"][4] == {"name": "eps", "kind": "scalar", "dtype": "f64", "loc": program["params"][4]["loc"]}
    assert layer_norm.parameters[4].keyword_only and layer_norm.parameters[4].default == 1e-5


def test_weak_numbers_take_the_dtype_of_the_tile():
    @tw.kernel
    def k(X: tw.In[bf16, M], Y: tw.Out[bf16, M], a: float, c: tw.const = 2.0):
        for i in tw.parallel(M):
            Y[i] = (X[i] * a + 1) * c

    program = k.program({})
    # 1 and 2.0 are bf16; the run-time float is not, so that product is taken in f32 and rounded once.
    assert [s["dtype"] for s in find(program, "mul")] == ["f32", "bf16"]
    x, y = torch.randn(9).bfloat16(), torch.empty(9, dtype=torch.bfloat16)
    run(k, x, y, 0.3)
    close(y, ((x.float() * 0.3).bfloat16() + 1) * 2, 0)


def test_sizes_are_weak_numbers():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = tw.sum(X[i, :], axis=1) / N + M // 2 + i.start * 0

    x, y = torch.randn(4, 6), torch.empty(4)
    run(k, x, y)
    close(y, x.mean(1) + 2)


def test_compile_time_constants_are_part_of_the_specialisation():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], negate: tw.const = False, scale: tw.const = 1):
        for i in tw.parallel(M):
            if negate:
                y = -X[i]
            else:
                y = X[i]
            Y[i] = y * scale if scale != 1 else y

    plain, negated = k.program({}), k.program({"negate": True})
    assert "neg" not in ops(plain) and "neg" in ops(negated) and "if" not in ops(negated)
    assert k.program({"scale": 2}) is not k.program({"scale": 2.0})
    assert [p["name"] for p in plain["params"]] == ["X", "Y"]


def test_integer_scalars_become_symbols_only_where_they_are_sizes():
    @tw.kernel
    def value(X: tw.In[f32, M], Y: tw.Out[f32, M], n: int):
        for i in tw.parallel(M):
            Y[i] = X[i] * n

    @tw.kernel
    def bound(X: tw.In[f32, M], Y: tw.Out[f32, M], n: int):
        for i in tw.parallel(M):
            s = tw.zeros((i,))
            for _ in range(n):
                s += X[i]
            Y[i] = s

    x, y = torch.randn(5), torch.empty(5)
    program = run(value, x, y, -3)
    close(y, x * -3)
    assert program["symbols"] == ["M"] and "symbol" not in program["params"][2]
    program = run(bound, x, y, 3)
    close(y, x * 3)
    assert program["symbols"] == ["M", "n"] and program["params"][2]["symbol"] == 1
    with pytest.raises(ValueError, match=r"the parameter n is used as a size .* must not be negative: it is -1"):
        run(bound, x, y, -1)


def test_a_scalar_can_give_a_symbol():
    C = tw.symbols("C")

    @tw.kernel
    def k(X: tw.In[f32, M, 2 * C], Y: tw.Out[f32, M], C: int):
        for i in tw.parallel(M):
            Y[i] = tw.sum(X[i, :C], axis=1)

    x, y = torch.randn(3, 8), torch.empty(3)
    run(k, x, y, 4)
    close(y, x[:, :4].sum(1))


def test_string_annotations_are_those_of_this_file():
    assert softmax.function.__annotations__["X"] == "tw.In[f32, M, N]"


# -- what is taken from around the kernel ------------------------------------------------------------------------------

SCALE = 2.0


class Mode(enum.Enum):
    ADD = 1
    MUL = 2


class Config:
    BIAS = 0.5


@dataclasses.dataclass(frozen=True)
class Options:
    tile: int
    weights: tuple[float, ...]


OPTIONS = Options(4, (1.0, 2.0))


def test_changed_constants_are_noticed(monkeypatch):
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] * SCALE + Config.BIAS

    first = k.program({})
    x, y = torch.randn(3), torch.empty(3)
    run(k, x, y)
    close(y, x * 2 + 0.5)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert not k.is_current({})
    assert k.program({}) is not first
    run(k, x, y)
    close(y, x * 3 + 0.5)
    monkeypatch.setattr(Config, "BIAS", 1.5)
    run(k, x, y)
    close(y, x * 3 + 1.5)
    assert k.is_current({})


def test_closures_over_constants():
    def make(power, mode):
        @tw.kernel
        def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
            for i in tw.parallel(M, tile=OPTIONS.tile):
                x = X[i] ** power
                if mode is Mode.ADD:
                    x = x + sum(OPTIONS.weights)
                Y[i] = x * math.pi

        return k

    x, y = torch.randn(9), torch.empty(9)
    run(make(2, Mode.ADD), x, y)
    close(y, (x**2 + 3) * math.pi)
    run(make(3, Mode.MUL), x, y)
    close(y, x**3 * math.pi)


def gelu(x):
    """A helper with an early return, a default and a helper of its own."""
    return scaled(x, 0.5) * (1.0 + tw.erf(x * 2**-0.5))


def scaled(x, by=1.0):
    if by == 1.0:
        return x
    return x * by


def write_row(Y, i, value):
    Y[i, :] = value


def test_helpers_are_inlined():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            write_row(Y, i, gelu(scaled(X[i, :])))

    x, y = torch.randn(3, 4), torch.empty(3, 4)
    run(k, x, y)
    close(y, F.gelu(x))


def clipped(x, n):
    if n > 3:
        return x * 2.0, 1
    return x, 2


def test_helper_with_a_run_time_return():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], n: int):
        for i in tw.parallel(M):
            x, c = clipped(X[i], n)
            Y[i] = x + c

    x, y = torch.randn(3), torch.empty(3)
    run(k, x, y, 4)
    close(y, x * 2 + 1)
    run(k, x, y, 3)
    close(y, x + 2)


def test_functions_as_constants():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M], act: tw.const):
        for i in tw.parallel(M):
            Y[i] = act(X[i])

    x, y = torch.randn(5), torch.empty(5)
    run(k, x, y, act=gelu)
    close(y, F.gelu(x))
    run(k, x, y, act=scaled)
    close(y, x)


# -- control flow ------------------------------------------------------------------------------------------------------


def test_carried_numbers_take_the_dtype_they_meet():
    @tw.kernel
    def k(X: tw.In[f32, M, K], Y: tw.Out[f32, M], Z: tw.Out[i64, M]):
        for i in tw.parallel(M, tile=1):
            total = 0.0
            largest = -math.inf
            count = 0
            unchanged = 7
            for k in tw.range(K):
                x = X[i, k]
                total += tw.sum(x)
                largest = max(largest, tw.max(x))
                count += k.size
                unchanged = 7
            Y[i] = total + largest
            Z[i] = count + unchanged

    x, y, z = torch.randn(3, 17), torch.empty(3), torch.empty(3, dtype=torch.int64)
    program = run(k, x, y, z)
    close(y, x.sum(1) + x.max(1).values)
    assert z.tolist() == [24] * 3
    (loop,) = find(program, "for")
    assert len(loop["carried"]) == 3


def test_only_what_is_needed_is_carried():
    @tw.kernel
    def k(X: tw.In[f32, M, K], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            acc = tw.zeros((i,))
            keep = X[i, 0]
            scratch = tw.zeros((i, 3))
            unused = tw.zeros((i,))
            for k in tw.range(K):
                scratch = X[i, k]
                keep = keep
                unused = unused + 1.0
                acc += tw.sum(scratch, axis=1)
            Y[i] = acc + keep

    x, y = torch.randn(3, 7), torch.empty(3)
    program = run(k, x, y)
    close(y, x.sum(1) + x[:, 0])
    (loop,) = find(program, "for")
    assert len(loop["carried"]) == 1  # keep does not change, scratch is dead at the head, nobody reads unused


def test_branches_merge_and_continue_skips():
    @tw.kernel
    def k(X: tw.In[f32, M, K], Flag: tw.In[i32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M, tile=1):
            s = 0.0
            for t in range(K):
                if Flag[i] == 1:
                    if t % 2 == 1:
                        continue
                    s += 1.0
                elif Flag[i] == 2:
                    continue
                else:
                    scale = 3.0
                    s = s * scale
                s += X[i, t]
            Y[i] = s

    x, flag, y = torch.randn(4, 5), torch.tensor([0, 1, 2, 0], dtype=torch.int32), torch.empty(4)
    run(k, x, flag, y)
    reference = torch.zeros(4)
    for i in range(4):
        for t in range(5):
            if flag[i] == 1:
                if t % 2 == 1:
                    continue
                reference[i] += 1
            elif flag[i] == 2:
                continue
            else:
                reference[i] *= 3
            reference[i] += x[i, t]
    close(y, reference, 1e-5)


def test_continue_in_the_parallel_loop():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.InOut[f32, M]):
        for i in tw.parallel(M, tile=1):
            if X[i] < 0.0:
                continue
            Y[i] = X[i]

    x, y = torch.randn(9), torch.zeros(9)
    run(k, x, y)
    close(y, x.clamp(min=0))


def test_while_and_conditional_expression():
    @tw.kernel
    def k(X: tw.In[i64, M], Y: tw.Out[i64, M]):
        for i in tw.parallel(M, tile=1):
            n = X[i]
            steps = 0
            while n > 1 and steps < 100:
                n = n // 2 if n % 2 == 0 else 3 * n + 1
                steps += 1
            Y[i] = steps

    x, y = torch.tensor([1, 2, 7, 27, 0]), torch.empty(5, dtype=torch.int64)
    run(k, x, y)
    assert y.tolist() == [0, 1, 16, 100, 0]


def test_run_time_ends_are_bound_and_checked():
    @tw.kernel
    def k(X: tw.In[f32, B, L], Lengths: tw.In[i32, B], Y: tw.Out[f32, B]):
        for b in tw.parallel(B, tile=1):
            s = 0.0
            for k in tw.range(Lengths[b]):
                s += tw.sum(X[b, k])
            Y[b] = s

    x, y = torch.randn(3, 9), torch.empty(3)
    program = run(k, x, torch.tensor([0, 9, -2], dtype=torch.int32), y)
    close(y, torch.stack([torch.zeros(()), x[1].sum(), torch.zeros(())]), 1e-5)
    (bind,) = find(program, "bind")
    assert (bind["min"], bind["max"]) == ("0", "s1")
    with pytest.raises(
        DataError, match="the end of the loop is 10, and must be at least 0 and below 10: a load reads dimension 1 of X"
    ):
        run(k, x, torch.tensor([0, 10, 1], dtype=torch.int32), y)


def test_bound_values_satisfy_every_range():
    @tw.kernel
    def k(X: tw.In[f32, L], Z: tw.In[f32, S], Ends: tw.In[i64, 2], Y: tw.Out[f32, 1]):
        s = 0.0
        for k in tw.range(Ends[0], Ends[1]):
            s += tw.sum(X[k] * Z[k])
        Y[0] = s

    x, z, y = torch.randn(9), torch.randn(7), torch.empty(1)
    program = run(k, x, z, torch.tensor([2, 7]), y)
    close(y[0], (x[2:7] * z[2:7]).sum(), 1e-5)
    assert program["relations"] == [] and find(program, "bind")[1]["max"] == "min(s0, s1)"
    with pytest.raises(
        DataError, match="the end of the loop is 8, and must be at least 0 and below 8: a load reads dimension 0 of Z"
    ):
        run(k, x, z, torch.tensor([2, 8]), y)
    with pytest.raises(DataError, match="the begin of the loop is -1, and must not be negative"):
        run(k, x, z, torch.tensor([-1, 8]), y)
    run(k, x, z, torch.tensor([5, 3]), y)
    assert y[0] == 0


def test_python_ranges_with_steps_and_negative_begins():
    @tw.kernel
    def k(X: tw.In[f32, M, L], Y: tw.Out[f32, M], Z: tw.Out[f32, M]):
        for i in tw.parallel(M):
            down = tw.zeros((i,))
            for t in range(L - 1, -1, -2):
                down = down * 2.0 + X[i, t]
            Y[i] = down
            window = tw.zeros((i,))
            for t in range(-2, 3):
                window += tw.load(X, (i, t), fill=1.0)
            Z[i] = window

    x, y, z = torch.randn(3, 7), torch.empty(3), torch.empty(3)
    run(k, x, y, z)
    reference = torch.zeros(3)
    for t in range(6, -1, -2):
        reference = reference * 2 + x[:, t]
    close(y, reference)
    close(z, 2 + x[:, :3].sum(1))


def test_static_loops_are_written_out():
    @tw.kernel
    def k(X: tw.In[f32, M, 4], Y: tw.Out[f32, M], taps: tw.const = 3):
        for i in tw.parallel(M):
            parts = [X[i, c] * w for c, w in enumerate((1.0, 2.0, 3.0))]
            s = sum(parts)
            for c in tw.static_range(taps):
                s += X[i, c]
            for a, b in ((0, 1), (2, 3)):
                s = s * X[i, a] + X[i, b]
            Y[i] = s

    x, y = torch.randn(5, 4), torch.empty(5)
    program = run(k, x, y)
    s = x[:, 0] * 1 + x[:, 1] * 2 + x[:, 2] * 3 + x[:, :3].sum(1)
    s = (s * x[:, 0] + x[:, 1]) * x[:, 2] + x[:, 3]
    close(y, s, 1e-5)
    assert not find(program, "for")


def test_tiles_of_a_tile():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M, N]):
        for i, j in tw.parallel(M, N, tile=(8, None)):
            for ii in tw.range(i, tile=3):
                Y[ii, j] = X[ii, j] * 2.0

    x, y = torch.randn(19, 5), torch.empty(19, 5)
    program = run(k, x, y)
    close(y, x * 2)
    assert program["relations"] == []


def test_explicit_tiles_have_an_index():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, (M + 3) // 4]):
        for i in tw.parallel(M, tile=4):
            Y[i.index] = tw.sum(X[i])

    x, y = torch.randn(10), torch.empty(3)
    program = run(k, x, y)
    close(y, torch.stack([x[:4].sum(), x[4:8].sum(), x[8:].sum()]))
    assert program["relations"] == []


def test_code_before_the_grid_belongs_to_each_point():
    @tw.kernel
    def k(X: tw.In[f32, M], W: tw.In[f32, 4], Y: tw.Out[f32, M]):
        scale = tw.sum(W[:])
        half = 0.5
        for i in tw.parallel(M):
            Y[i] = X[i] * scale * half

    x, w, y = torch.randn(5), torch.randn(4), torch.empty(5)
    program = run(k, x, w, y)
    close(y, x * w.sum() * 0.5)
    assert [s["op"] for s in program["body"]] == ["parallel"]


def test_a_kernel_without_a_grid_is_one_point():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32]):
        Y[()] = tw.sum(X[:])

    x, y = torch.randn(5), torch.empty(())
    run(k, x, y)
    close(y, x.sum())


# -- indexing ----------------------------------------------------------------------------------------------------------


def test_causal_convolution_reads_outside_as_fill():
    @tw.kernel
    def k(X: tw.In[f32, B, L, D], W: tw.In[f32, 4, D], Y: tw.Out[f32, B, L, D]):
        for b, t, d in tw.parallel(B, L, D, tile=(1, None, None)):
            acc = tw.zeros((t, d), tw.f32)
            for c in tw.static_range(4):
                acc += tw.load(X, (b, t - 3 + c, d), fill=0.0) * W[c, d]
            Y[b, t, d] = acc

    x, w = torch.randn(2, 9, 5), torch.randn(4, 5)
    y = torch.empty_like(x)
    program = run(k, x, w, y)
    close(y, F.conv1d(F.pad(x.transpose(1, 2), (3, 0)), w.t()[:, None], groups=5).transpose(1, 2))
    assert program["relations"] == [] and all(s["fill"] == 0.0 for s in find(program, "load") if s["param"] == 0)


def test_rotary_of_halves_and_of_pairs():
    @tw.kernel
    def halves(X: tw.In[f32, M, H, D], C: tw.In[f32, M, D // 2], Sn: tw.In[f32, M, D // 2], Y: tw.Out[f32, M, H, D]):
        tw.static_assert(D % 2 == 0, "the head size is even")
        half = D // 2
        for i in tw.parallel(M):
            a, b = X[i, :, :half], X[i, :, half:]
            c, s = C[i, None, :], Sn[i, None, :]
            Y[i, :, :half] = a * c - b * s
            Y[i, :, half:] = b * c + a * s

    @tw.kernel
    def pairs(X: tw.In[f32, M, 2 * E], C: tw.In[f32, M, E], Sn: tw.In[f32, M, E], Y: tw.Out[f32, M, 2 * E]):
        for i, j in tw.parallel(M, E):
            a, b = X[i, j * 2], X[i, 2 * j + 1]
            Y[i, j * 2] = a * C[i, j] - b * Sn[i, j]
            Y[i, j * 2 + 1] = b * C[i, j] + a * Sn[i, j]

    x, c, s = torch.randn(7, 3, 8), torch.randn(7, 4), torch.randn(7, 4)
    y = torch.empty_like(x)
    program = run(halves, x, c, s, y)
    a, b = x[..., :4], x[..., 4:]
    close(y, torch.cat([a * c[:, None] - b * s[:, None], b * c[:, None] + a * s[:, None]], -1))
    (relation,) = program["relations"]
    assert relation["op"] == "eq"
    with pytest.raises(ValueError, match="the head size is even"):
        run(halves, torch.randn(7, 3, 9), c, s, torch.empty(7, 3, 9))
    x2 = x[:, 0].contiguous()
    y2 = torch.empty_like(x2)
    run(pairs, x2, c, s, y2)
    a, b = x2[:, ::2], x2[:, 1::2]
    close(y2, torch.stack([a * c - b * s, b * c + a * s], -1).reshape(7, 8))


def test_gather_scatter_and_errors_of_data():
    @tw.kernel
    def embedding(Idx: tw.In[i64, M], W: tw.In[f32, V, D], Y: tw.Out[f32, M, D]):
        for i in tw.parallel(M):
            Y[i, :] = W[Idx[i], :]

    @tw.kernel
    def permute(Idx: tw.In[i32, M], X: tw.In[f32, M, D], Y: tw.Out[f32, M, D]):
        for i in tw.parallel(M):
            Y[Idx[i], :] = X[i, :]

    idx, w, y = torch.randint(0, 20, (9,)), torch.randn(20, 6), torch.empty(9, 6)
    program = run(embedding, idx, w, y)
    close(y, w[idx])
    assert "value" in find(program, "load")[1]["index"][0]
    with pytest.raises(DataError, match="dimension 0 of W has 20 elements"):
        run(embedding, torch.full((9,), 20), w, y)
    order = torch.randperm(9)
    x, z = torch.randn(9, 6), torch.empty(9, 6)
    run(permute, order.int(), x, z)
    close(z[order], x)


def test_several_index_tiles_broadcast_together():
    @tw.kernel
    def k(X: tw.In[f32, M, 3, N], A: tw.In[i32, K], C: tw.In[i32, K], Y: tw.Out[f32, K, 3, K], Z: tw.Out[f32, K, 3]):
        a, c = A[:], C[:]
        Y[:, :, :] = X[a[:, None], :, c[None, :]].permute(0, 2, 1)
        Z[:, :] = X[a, :, c]

    x, a, c = torch.randn(4, 3, 5), torch.tensor([3, 0], dtype=torch.int32), torch.tensor([1, 4], dtype=torch.int32)
    y, z = torch.empty(2, 3, 2), torch.empty(2, 3)
    run(k, x, a, c, y, z)
    close(y, x[a.long()][:, :, c.long()])
    close(z, torch.stack([x[3, :, 1], x[0, :, 4]]))


def test_fill_of_infinities_and_of_gathers():
    @tw.kernel
    def k(
        X: tw.In[f32, M],
        Idx: tw.In[i64, N],
        Y: tw.Out[f32, M],
        Z: tw.Out[f32, N],
        Q: tw.Out[tw.bool_, M],
        Mask: tw.In[tw.bool_, M],
    ):
        tw.static_assert(M == N)
        for i in tw.parallel(M):
            Y[i] = tw.load(X, i - 1, fill=-math.inf)
            Z[i] = tw.load(X, Idx[i], fill=-1.0)
            Q[i] = tw.load(Mask, i + 1, fill=True)

    x, idx, mask = torch.randn(4), torch.tensor([0, 7, -1, 3]), torch.zeros(4, dtype=torch.bool)
    y, z, q = torch.empty(4), torch.empty(4), torch.empty(4, dtype=torch.bool)
    run(k, x, idx, y, z, q, mask)
    close(y, torch.cat([torch.tensor([-math.inf]), x[:3]]))
    close(z, torch.stack([x[0], torch.tensor(-1.0), torch.tensor(-1.0), x[3]]))
    assert q.tolist() == [False, False, False, True]


def test_run_time_offsets_of_axes():
    @tw.kernel
    def k(X: tw.In[f32, L, N], Off: tw.In[i64, 1], Y: tw.Out[f32, M, N], Z: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            Y[i, :] = X[i + Off[0], :]
            Z[i, :] = tw.load(X, (i + Off[0] - 2, slice_all()), fill=7.0)

    def slice_all():
        return 0

    @tw.kernel
    def shifted(X: tw.In[f32, L], Off: tw.In[i64, 1], Y: tw.Out[f32, M], Z: tw.Out[f32, M]):
        for i in tw.parallel(M):
            Y[i] = X[i + Off[0]]
            Z[i] = tw.load(X, i + (Off[0] - 2), fill=7.0)

    x, y, z = torch.randn(12), torch.empty(5), torch.empty(5)
    program = run(shifted, x, torch.tensor([1]), y, z)
    close(y, x[1:6])
    close(z, torch.cat([torch.tensor([7.0]), x[:4]]))
    assert find(program, "bind")
    with pytest.raises(DataError, match="the start of the range in dimension 0 of X is"):
        run(shifted, x, torch.tensor([9]), y, z)
    assert k.name == "k"


def test_tiles_are_sliced_flipped_and_extended():
    @tw.kernel
    def k(X: tw.In[f32, M, 6], Y: tw.Out[f32, M, 6], Z: tw.Out[f32, M, 3, 1], Q: tw.Out[f32, M], R: tw.Out[f32, M, 3]):
        for i in tw.parallel(M):
            x = X[i, :]
            Y[i, :] = x[:, ::-1]
            Z[i, :, :] = x[:, 1:4, None]
            Q[i] = x[:, -1] + x[..., 2]
            R[i, :] = x[:, ::2]

    x = torch.randn(5, 6)
    y, z, q, r = torch.empty(5, 6), torch.empty(5, 3, 1), torch.empty(5), torch.empty(5, 3)
    run(k, x, y, z, q, r)
    close(y, x.flip(1))
    close(z, x[:, 1:4, None])
    close(q, x[:, -1] + x[:, 2])
    close(r, x[:, ::2])


def test_windows_by_sums_of_axes():
    @tw.kernel
    def k(X: tw.In[f32, M + K - 1], W: tw.In[f32, K], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            acc = tw.zeros((i,))
            for k in tw.range(K):
                acc += X[i + k] @ W[k]
            Y[i] = acc

    x, w, y = torch.randn(11), torch.randn(3), torch.empty(9)
    program = run(k, x, w, y)
    close(y, x.unfold(0, 3, 1) @ w)
    assert program["relations"] == []


def test_stores_broadcast_and_clip_and_add():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M, 3], Z: tw.InOut[f32, M], H: tw.InOut[i32, 4], Idx: tw.In[i64, M]):
        for i in tw.parallel(M):
            Y[i, :] = X[i, None]
            tw.store(Z, i + 1, X[i], clip=True)
            tw.atomic_add(H, Idx[i], 1)

    x, y, z, h = torch.randn(5), torch.empty(5, 3), torch.zeros(5), torch.zeros(4, dtype=torch.int32)
    run(k, x, y, z, h, torch.tensor([0, 3, 3, 1, 3]))
    close(y, x[:, None].expand(5, 3))
    close(z, torch.cat([torch.zeros(1), x[:4]]))
    assert h.tolist() == [1, 1, 0, 3]


def test_inout_is_read_and_written():
    @tw.kernel
    def k(X: tw.InOut[f32, M, N], g: float):
        for i in tw.parallel(M):
            X[i, :] *= g
            X[i, 0] += 1.0

    x = torch.randn(3, 4)
    expected = x * 0.5
    expected[:, 0] += 1
    run(k, x, 0.5)
    close(x, expected)


def test_relations_say_what_must_hold():
    @tw.kernel
    def k(X: tw.In[f32, L], Y: tw.Out[f32, M]):
        tw.static_assert(M <= L)
        for i in tw.parallel(M):
            Y[i] = X[i] + X[i + 2] + X[40]

    program = k.program({})
    texts = [(r["op"], r["lhs"], r["rhs"]) for r in program["relations"]]
    assert program["symbols"] == ["L", "M"]
    assert ("le", "s1", "s0") in texts and ("le", "41", "s0") in texts
    # Nothing runs if M is 0, and then nothing is asked for.
    x, y = torch.randn(60), torch.empty(0)
    run(k, x, y)
    with pytest.raises(ValueError, match=r"a load reads dimension 0 of X up to 61, but its size \(L\) is 60"):
        run(k, x, torch.empty(59))
    with pytest.raises(ValueError, match="up to 41, but its size"):
        run(k, torch.randn(30), torch.empty(20))
    y = torch.empty(58)
    run(k, x, y)
    close(y, x[:58] + x[2:] + x[40])


def test_gqa_and_derived_sizes_need_no_relations():
    @tw.kernel
    def k(Q: tw.In[f32, G * H, D], Kc: tw.In[f32, H, D], Y: tw.Out[f32, G * H], groups: tw.const = None):
        for h in tw.parallel(G * H, tile=1):
            Y[h] = tw.sum(Q[h, :] * Kc[h // G, :])

    C = tw.symbols("C")

    @tw.kernel
    def shared(Q: tw.In[f32, H * C, D], Kc: tw.In[f32, H, D], Y: tw.Out[f32, H * C], C: int):
        for h in tw.parallel(H * C, tile=1):
            Y[h] = tw.sum(Q[h, :] * Kc[h // C, :])

    with pytest.raises(tw.KernelError, match="the size G of Q cannot be told"):
        k.program({})
    q, kc, y = torch.randn(6, 4), torch.randn(2, 4), torch.empty(6)
    program = run(shared, q, kc, y, 3)
    close(y, (q * kc.repeat_interleave(3, 0)).sum(1))
    assert [r["lhs"] for r in program["relations"]] == ["0"]


# -- larger examples ---------------------------------------------------------------------------------------------------


@tw.kernel
def attention(
    Q: tw.In[f32, B, H, L, D],
    Kt: tw.In[f32, B, H, S, D],
    Vt: tw.In[f32, B, H, S, D],
    O: tw.Out[f32, B, H, L, D],
    scale: float,
    causal: tw.const = False,
):
    for b, h, i in tw.parallel(B, H, L, tile=(1, 1, None)):
        q = Q[b, h, i, :] * scale
        m = tw.full((i,), -math.inf, tw.f32)
        l = tw.zeros((i,), tw.f32)
        acc = tw.zeros((i, D), tw.f32)
        end = min(S, i.start + i.size) if causal else S
        for k in tw.range(end):
            s = q @ Kt[b, h, k, :].T
            if causal:
                s = tw.where(tw.indices(i)[:, None] >= tw.indices(k)[None, :], s, -math.inf)
            m_new = tw.maximum(m, tw.max(s, axis=1))
            p = tw.exp(s - m_new[:, None])
            alpha = tw.exp(m - m_new)
            l = l * alpha + tw.sum(p, axis=1)
            acc = acc * alpha[:, None] + p @ Vt[b, h, k, :]
            m = m_new
        O[b, h, i, :] = acc / l[:, None]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tiles", [None, 1, 4, 64])
def test_flash_attention(causal, tiles):
    q, k, v = (torch.randn(2, 3, 11, 8) for _ in range(3))
    o = torch.empty_like(q)
    program = run(attention, q, k, v, o, 8**-0.5, causal=causal, tiles=tiles)
    close(o, F.scaled_dot_product_attention(q, k, v, is_causal=causal))
    (loop,) = find(program, "for")
    assert len(loop["carried"]) == 3 and program["relations"] == []
    assert (loop["axis"]["end"] == "s4") == (not causal)


def test_gated_delta_rule():
    @tw.kernel
    def k(
        Q: tw.In[f32, B, L, D],
        Kt: tw.In[f32, B, L, D],
        Vt: tw.In[f32, B, L, E],
        Gate: tw.In[f32, B, L],
        Beta: tw.In[f32, B, L],
        O: tw.Out[f32, B, L, E],
        State: tw.InOut[f32, B, D, E],
    ):
        for b, e in tw.parallel(B, E, tile=(1, None)):
            s = State[b, :, e]
            for t in range(L):
                key = Kt[b, t, :]
                s = s * tw.exp(Gate[b, t])
                d = (Vt[b, t, e] - key @ s) * Beta[b, t]
                s = s + key[:, None] * d[None, :]
                O[b, t, e] = Q[b, t, :] @ s
            State[b, :, e] = s

    q, key = (torch.randn(2, 5, 4) * 0.3 for _ in range(2))
    v, g, beta = torch.randn(2, 5, 6), -torch.rand(2, 5), torch.rand(2, 5)
    o, state = torch.empty(2, 5, 6), torch.zeros(2, 4, 6)
    run(k, q, key, v, g, beta, o, state)
    s, reference = torch.zeros(2, 4, 6), torch.empty(2, 5, 6)
    for t in range(5):
        s = s * g[:, t].exp()[:, None, None]
        d = (v[:, t] - torch.einsum("bd,bde->be", key[:, t], s)) * beta[:, t, None]
        s = s + key[:, t, :, None] * d[:, None]
        reference[:, t] = torch.einsum("bd,bde->be", q[:, t], s)
    close(o, reference)
    close(state, s)


def test_paged_decode():
    @tw.kernel
    def k(
        Q: tw.In[f32, B, H, D],
        Kc: tw.In[f32, P, 4, H, D],
        Vc: tw.In[f32, P, 4, H, D],
        Table: tw.In[i32, B, G],
        Len: tw.In[i32, B],
        O: tw.Out[f32, B, H, D],
        scale: float,
    ):
        for b, h in tw.parallel(B, H, tile=(1, 1)):
            q = Q[b, h, :] * scale
            n = Len[b]
            m = -math.inf
            l = 0.0
            acc = tw.zeros((D,), tw.f32)
            for p in range((n + 3) // 4):
                page = Table[b, p]
                s = tw.where(p * 4 + tw.iota(4) < n, Kc[page, :, h, :] @ q, -math.inf)
                m_new = max(m, tw.max(s))
                e = tw.exp(s - m_new)
                alpha = tw.exp(m - m_new)
                l = l * alpha + tw.sum(e)
                acc = acc * alpha + e @ Vc[page, :, h, :]
                m = m_new
            O[b, h, :] = acc / l

    q, kc, vc = torch.randn(2, 3, 8), torch.randn(7, 4, 3, 8), torch.randn(7, 4, 3, 8)
    table = torch.tensor([[3, 1, 0], [6, 2, 5]], dtype=torch.int32)
    lengths, o = torch.tensor([6, 12], dtype=torch.int32), torch.empty(2, 3, 8)
    run(k, q, kc, vc, table, lengths, o, 0.3)
    for b in range(2):
        keys, values = (c[table[b].long()].reshape(-1, 3, 8)[: lengths[b]] for c in (kc, vc))
        a = (torch.einsum("hd,lhd->hl", q[b], keys) * 0.3).softmax(-1)
        close(o[b], torch.einsum("hl,lhd->hd", a, values))


def test_rows_of_ragged_groups():
    @tw.kernel
    def k(A: tw.In[f32, M, K], W: tw.In[f32, G, K, N], Begin: tw.In[i64, G + 1], C: tw.Out[f32, M, N]):
        for g, j in tw.parallel(G, N, tile=(1, None)):
            for i in tw.range(Begin[g], Begin[g + 1]):
                C[i, j] = A[i, :] @ W[g, :, j]

    a, w = torch.randn(7, 3), torch.randn(3, 3, 5)
    begin, c = torch.tensor([0, 4, 4, 7]), torch.empty(7, 5)
    run(k, a, w, begin, c)
    close(c, torch.cat([a[:4] @ w[0], a[4:] @ w[2]]))


def test_top_k_router():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Val: tw.Out[f32, M, 3], Idx: tw.Out[i32, M, 3], Small: tw.Out[f32, M, 2]):
        for i in tw.parallel(M):
            x = X[i, :]
            v, idx = tw.topk(x, 3, axis=1)
            Val[i, :] = v / tw.sum(v, axis=1, keepdims=True)
            Idx[i, :] = idx.to(tw.i32)
            Small[i, :] = tw.topk(x, 2, axis=1, largest=False)[0]

    x = torch.rand(5, 9)
    v, i, s = torch.empty(5, 3), torch.empty(5, 3, dtype=torch.int32), torch.empty(5, 2)
    program = run(k, x, v, i, s)
    top = x.topk(3)
    close(v, top.values / top.values.sum(1, keepdim=True))
    assert torch.equal(i.long(), top.indices)
    close(s, x.topk(2, largest=False).values)
    assert [r["lhs"] for r in program["relations"]] == ["3", "2"]


def test_top_k_of_an_integer_parameter():
    @tw.kernel
    def k(X: tw.In[f32, M, N], Y: tw.Out[f32, M], k: int):
        for i in tw.parallel(M):
            Y[i] = tw.sum(tw.topk(X[i, :], k, axis=1)[0], axis=1)

    x, y = torch.rand(5, 9), torch.empty(5)
    run(k, x, y, 4)
    close(y, x.topk(4).values.sum(1))


def test_int8_and_int4_weights():
    @tw.kernel
    def q8(A: tw.In[tw.i8, M, K], W: tw.In[tw.i8, N, K], Sc: tw.In[f32, N], C: tw.Out[f32, M, N]):
        for i, j in tw.parallel(M, N):
            acc = tw.zeros((i, j), tw.i32)
            for k in tw.range(K):
                acc += A[i, k] @ W[j, k].T
            C[i, j] = acc.to(tw.f32) * Sc[j]

    @tw.kernel
    def q4(A: tw.In[f32, M, 2 * K], W: tw.In[u8, N, K], C: tw.Out[f32, M, N]):
        for i, j in tw.parallel(M, N):
            acc = tw.zeros((i, j))
            for k in tw.range(K):
                w = W[j, k]
                low, high = (w & 15).to(tw.f32) - 8.0, (w >> 4).to(tw.f32) - 8.0
                acc += A[i, k * 2] @ low.T + A[i, k * 2 + 1] @ high.T
            C[i, j] = acc

    a, w, sc = (torch.randint(-128, 128, s, dtype=torch.int8) for s in ((3, 7), (5, 7), (5,)))
    c = torch.empty(3, 5)
    run(q8, a, w, sc.float(), c)
    close(c, (a.int() @ w.int().T).float() * sc.float())
    x, packed = torch.randn(3, 8), torch.randint(0, 256, (5, 4), dtype=torch.uint8)
    run(q4, x, packed, c)
    full = torch.stack([(packed & 15).float() - 8, (packed >> 4).float() - 8], -1).reshape(5, 8)
    close(c, x @ full.T, 1e-5)


# -- operators ---------------------------------------------------------------------------------------------------------


def unary(function, *dtypes):
    return [
        pytest.param(function, d, id=f"{getattr(function, '__name__', '?')}-{d}") for d in dtypes or (torch.float32,)
    ]


X_ = torch.tensor([-2.5, -1.0, -0.3, 0.0, 0.4, 0.9, 1.5, 2.5, 7.0, math.inf, -math.inf, math.nan])


@pytest.mark.parametrize(
    "name",
    [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "rsqrt",
        "tanh",
        "sigmoid",
        "erf",
        "erfc",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "asin",
        "acos",
        "atan",
        "asinh",
        "acosh",
        "atanh",
        "floor",
        "ceil",
        "round",
        "trunc",
        "abs",
        "isnan",
        "isinf",
        "isfinite",
    ],
)
def test_elementwise_functions(name):
    function = getattr(tw, name)
    is_bool = name.startswith("is")

    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[U, M], f: tw.const = function):
        for i in tw.parallel(M):
            Y[i] = f(X[i])

    y = torch.empty(len(X_), dtype=torch.bool if is_bool else torch.float32)
    run(k, X_, y, Y="bool" if is_bool else "f32")
    expected = getattr(torch, name)(X_)
    torch.testing.assert_close(y, expected, equal_nan=True)


def test_sigmoid_at_both_ends():
    @tw.kernel
    def k(X: tw.In[T, M], Y: tw.Out[T, M]):
        Y[:] = tw.sigmoid(X[:])

    x = torch.tensor([-200.0, -95.0, -1.0, 0.0, 1.0, 200.0])
    y = torch.empty_like(x)
    run(k, x, y)
    torch.testing.assert_close(y, torch.sigmoid(x.double()).float(), rtol=3e-7, atol=0)
    half = torch.empty_like(x, dtype=torch.bfloat16)
    run(k, x.bfloat16(), half)
    close(half, torch.sigmoid(x).bfloat16(), 0)


def test_binary_operators_and_comparisons():
    @tw.kernel
    def k(X: tw.In[f32, M], Z: tw.In[f32, M], Y: tw.Out[f32, 12, M]):
        x, z = X[:], Z[:]
        Y[0, :] = x + z - 1
        Y[1, :] = 2.0 / z
        Y[2, :] = x // z
        Y[3, :] = x % z
        Y[4, :] = tw.abs(x) ** z
        Y[5, :] = tw.fma(x, z, 1.0)
        Y[6, :] = tw.maximum(x, z) - tw.minimum(x, 0.5)
        Y[7, :] = tw.where((x < z) & ~(x <= 0.0) | (x == z), x, -z)
        Y[8, :] = tw.clamp(x, -0.5, 0.5) + tw.clamp(x, high=0.0)
        Y[9, :] = tw.atan2(x, z) + tw.copysign(x, z)
        Y[10, :] = x**2 + z**-1 + tw.abs(x) ** 0.5 + x**3
        Y[11, :] = tw.where(x > z, 1.0, x) + tw.pow(2.0, x)

    x, z, y = torch.randn(9), torch.randn(9), torch.empty(12, 9)
    run(k, x, z, y)
    expected = [
        x + z - 1,
        2 / z,
        x // z,
        x % z,
        x.abs() ** z,
        x * z + 1,
        torch.maximum(x, z) - x.clamp(max=0.5),
        torch.where((x < z) & ~(x <= 0) | (x == z), x, -z),
        x.clamp(-0.5, 0.5) + x.clamp(max=0),
        torch.atan2(x, z) + torch.copysign(x, z),
        x**2 + 1 / z + x.abs().sqrt() + x**3,
        torch.where(x > z, 1.0, x) + 2**x,
    ]
    for row, reference in zip(y, expected, strict=True):
        close(row, reference, 1e-5)


def test_integer_operators():
    @tw.kernel
    def k(X: tw.In[i32, M], Z: tw.In[tw.i8, M], Y: tw.Out[i32, 8, M], W: tw.Out[i64, M]):
        x, z = X[:], Z[:]
        Y[0, :] = x + z * 2
        Y[1, :] = x // 3
        Y[2, :] = x % 3
        Y[3, :] = (x << 2) ^ (x >> 1)
        Y[4, :] = (x & 6) | ~x
        Y[5, :] = abs(x) + x**2
        Y[6, :] = tw.where(x > 2, x, 0)
        Y[7, :] = -x + (x == 3).to(tw.i32)
        W[:] = tw.cumsum(x)

    x, z = torch.arange(-4, 5, dtype=torch.int32), torch.arange(9, dtype=torch.int8)
    y, w = torch.empty(8, 9, dtype=torch.int32), torch.empty(9, dtype=torch.int64)
    run(k, x, z, y, w)
    expected = [
        x + z * 2,
        x // 3,
        x % 3,
        (x << 2) ^ (x >> 1),
        (x & 6) | ~x,
        x.abs() + x**2,
        torch.where(x > 2, x, 0),
        -x + (x == 3).int(),
    ]
    assert torch.equal(y, torch.stack([e.int() for e in expected]))
    assert torch.equal(w, x.cumsum(0))


def test_reductions_and_scans():
    @tw.kernel
    def k(
        X: tw.In[f32, M, 3, N],
        Y: tw.Out[f32, 9, M],
        A: tw.Out[i64, 3, M],
        C: tw.Out[f32, 4, M, N],
        Bo: tw.Out[tw.bool_, 2],
    ):
        for i in tw.parallel(M):
            x = X[i, :, :]
            Y[0, i] = tw.sum(x, axis=(1, 2))
            Y[1, i] = x.max(axis=(1, -1))
            Y[2, i] = tw.min(tw.prod(x, axis=1), axis=1)
            Y[3, i] = x.mean(axis=(1, 2))
            Y[4, i] = tw.squeeze(tw.sum(x, axis=(1, 2), keepdims=True), (1, 2))
            Y[5, i] = tw.sum((x > 0.0).sum(axis=2), axis=1).to(tw.f32)
            Y[6, i] = x[:, 0, :].sum(axis=1)
            Y[7, i] = tw.sum(tw.sort(x, axis=2)[0][:, :, 0], axis=1)
            Y[8, i] = tw.sum(tw.sort(x, axis=2, descending=True)[1][:, :, 0], axis=1).to(tw.f32)
            A[0, i] = tw.argmax(x[:, 1, :], axis=1)
            A[1, i] = tw.argmin(x, axis=2, keepdims=True)[:, 2, 0]
            A[2, i] = x.argmax(axis=1)[:, 0]
            C[0, i, :] = tw.cumsum(x[:, 0, :], axis=1)
            C[1, i, :] = tw.cumprod(x[:, 0, :], axis=-1)
            C[2, i, :] = tw.cummax(x[:, 0, :], axis=1)
            C[3, i, :] = tw.cummin(x[:, 0, :], axis=1)
        # a second grid is a second kernel

    @tw.kernel
    def flags(X: tw.In[f32, M], Bo: tw.Out[tw.bool_, 2], A: tw.Out[i64, 1]):
        Bo[0] = tw.any(X[:] > 1.0)
        Bo[1] = (X[:] > -9.0).all()
        A[0] = tw.argmax(X[:].reshape((M, 1)))

    x = torch.randn(4, 3, 5)
    y, a, c, flag = (
        torch.empty(9, 4),
        torch.empty(3, 4, dtype=torch.int64),
        torch.empty(4, 4, 5),
        torch.empty(2, dtype=torch.bool),
    )
    with pytest.raises(tw.KernelError, match="the output Bo is never written"):
        k.program({})
    first = torch.empty(1, dtype=torch.int64)
    run(flags, x.flatten(), flag, first)
    assert flag.tolist() == [bool((x > 1).any()), True] and first.item() == x.argmax().item()

    @tw.kernel
    def k2(X: tw.In[f32, M, 3, N], Y: tw.Out[f32, 9, M], A: tw.Out[i64, 3, M], C: tw.Out[f32, 4, M, N]):
        for i in tw.parallel(M):
            x = X[i, :, :]
            Y[0, i] = tw.sum(x, axis=(1, 2))
            Y[1, i] = x.max(axis=(1, -1))
            Y[2, i] = tw.min(tw.prod(x, axis=1), axis=1)
            Y[3, i] = x.mean(axis=(1, 2))
            Y[4, i] = tw.squeeze(tw.sum(x, axis=(1, 2), keepdims=True), (1, 2))
            Y[5, i] = tw.sum((x > 0.0).sum(axis=2), axis=1).to(tw.f32)
            Y[6, i] = x[:, 0, :].sum(axis=1)
            Y[7, i] = tw.sum(tw.sort(x, axis=2)[0][:, :, 0], axis=1)
            Y[8, i] = tw.sum(tw.sort(x, axis=2, descending=True)[1][:, :, 0], axis=1).to(tw.f32)
            A[0, i] = tw.argmax(x[:, 1, :], axis=1)
            A[1, i] = tw.argmin(x, axis=2, keepdims=True)[:, 2, 0]
            A[2, i] = x.argmax(axis=1)[:, 0]
            C[0, i, :] = tw.cumsum(x[:, 0, :], axis=1)
            C[1, i, :] = tw.cumprod(x[:, 0, :], axis=-1)
            C[2, i, :] = tw.cummax(x[:, 0, :], axis=1)
            C[3, i, :] = tw.cummin(x[:, 0, :], axis=1)

    run(k2, x, y, a, c)
    rows = [
        x.sum((1, 2)),
        x.amax((1, 2)),
        x.prod(1).amin(1),
        x.mean((1, 2)),
        x.sum((1, 2)),
        (x > 0).sum((1, 2)).float(),
        x[:, 0].sum(1),
        x.amin(2).sum(1),
        x.argmax(2).sum(1).float(),
    ]
    for row, reference in zip(y, rows, strict=True):
        close(row, reference, 1e-5)
    assert torch.equal(a, torch.stack([x[:, 1].argmax(1), x[:, 2].argmin(1), x.argmax(1)[:, 0]]))
    z = x[:, 0]
    for row, reference in zip(c, [z.cumsum(1), z.cumprod(1), z.cummax(1).values, z.cummin(1).values], strict=True):
        close(row, reference)


def test_products_of_all_ranks():
    @tw.kernel
    def k(
        A: tw.In[T, B, 3, 4],
        W: tw.In[T, 4, 5],
        Q: tw.In[T, 4],
        Y: tw.Out[f32, B, 3, 5],
        Z: tw.Out[f32, 5],
        R: tw.Out[f32, B, 3],
        O: tw.Out[f32, 1],
    ):
        a, w, q = A[:, :, :], W[:, :], Q[:]
        Y[:, :, :] = a @ w
        Z[:] = q @ w
        R[:, :] = a @ q
        O[0] = tw.dot(q, q, acc=1.0)

    for dtype in (torch.float32, torch.bfloat16):
        a, w, q = (torch.randn(s).to(dtype) for s in ((2, 3, 4), (4, 5), (4,)))
        y, z, r, o = torch.empty(2, 3, 5), torch.empty(5), torch.empty(2, 3), torch.empty(1)
        run(k, a, w, q, y, z, r, o, Y="f32", Z="f32", R="f32", O="f32")
        a, w, q = a.float(), w.float(), q.float()
        close(y, a @ w)
        close(z, q @ w)
        close(r, a @ q)
        close(o, (q @ q + 1)[None])


def test_tiles_are_made_and_moved():
    @tw.kernel
    def k(
        X: tw.In[f32, M, 6],
        Y: tw.Out[f32, 9, M, 6],
        Z: tw.Out[f32, M, 12],
        Q: tw.Out[f32, 6, M],
        R: tw.Out[f32, 2, M, 6],
    ):
        for i in tw.parallel(M):
            x = X[i, :]
            Y[0, i, :] = x.reshape((i, 2, 3)).transpose().reshape((i, -1))
            Y[1, i, :] = tw.flip(x, axis=1)
            Y[2, i, :] = tw.full_like(x, 2.0) + tw.zeros_like(x) + tw.ones((i, 6))
            Y[3, i, :] = tw.broadcast_to(tw.arange(6), (i, 6)).to(tw.f32)
            Y[4, i, :] = tw.broadcast_to(tw.indices(i)[:, None], (i, 6)).to(tw.f32)
            Y[5, i, :] = tw.concat((tw.slice(x, 4, 2, axis=1), x[:, :4]), axis=1)
            Y[6, i, :] = tw.expand_dims(x, 1).squeeze(1) + tw.arange(2, 8)[None, :].to(tw.f32)
            Y[7, i, :] = tw.indices(i * 2 + 1)[:, None].to(tw.f32) + tw.zeros((i, 6))
            Y[8, i, :] = tw.bitcast(tw.bitcast(x, tw.i32) ^ 0, tw.f32)
            Z[i, :] = tw.concat([x, x], axis=1)
            Q[:, i] = x.T
            R[:, i, :] = tw.stack((x, -x))

    x = torch.randn(5, 6)
    y, z, q, r = torch.empty(9, 5, 6), torch.empty(5, 12), torch.empty(6, 5), torch.empty(2, 5, 6)
    run(k, x, y, z, q, r)
    expected = [
        x.reshape(5, 2, 3).transpose(1, 2).reshape(5, 6),
        x.flip(1),
        torch.full((5, 6), 3.0),
        torch.arange(6.0).expand(5, 6),
        torch.arange(5.0)[:, None].expand(5, 6),
        torch.cat([x[:, 4:], x[:, :4]], 1),
        x + torch.arange(2.0, 8),
        (torch.arange(5.0) * 2 + 1)[:, None].expand(5, 6),
        x,
    ]
    for row, reference in zip(y, expected, strict=True):
        close(row, reference)
    close(z, torch.cat([x, x], 1))
    close(q, x.T)
    close(r, torch.stack([x, -x]))


def philox_reference(seed, counter):
    """Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011)."""
    mask = 0xFFFFFFFF
    k0, k1 = seed & mask, (seed >> 32) & mask
    c = list(counter)
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k0, q & mask, (p >> 32) ^ c[3] ^ k1, p & mask]
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c


def test_random_numbers_are_philox():
    # The known answers of the authors' own test vectors.
    assert philox_reference(0, (0, 0, 0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = 0xFFFFFFFF
    assert philox_reference((ones << 32) | ones, (ones,) * 4) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]

    @tw.kernel
    def k(
        Off: tw.In[i64, M],
        Y: tw.Out[f32, M],
        Bits: tw.Out[i64, M],
        W: tw.Out[i64, 4, M],
        seed: int,
        fixed: tw.const = 7,
    ):
        for i in tw.parallel(M):
            off = Off[i]
            Y[i] = tw.uniform(seed, off)
            Bits[i] = tw.random_bits(fixed, off).to(tw.i64)
            for c, word in enumerate(tw.philox(seed, off, 1, 2, 3)):
                W[c, i] = word.to(tw.i64)

    off = torch.tensor([0, 1, 2, 0xFFFFFFFF, 1 << 40, 12345])
    y, bits, words = torch.empty(6), torch.empty(6, dtype=torch.int64), torch.empty(4, 6, dtype=torch.int64)
    seed = 0x123456789ABCDEF
    run(k, off, y, bits, words, seed)
    for n, o in enumerate(off.tolist()):
        low, high = o & 0xFFFFFFFF, o >> 32
        assert y[n].item() == (philox_reference(seed, (low, high, 0, 0))[0] >> 8) * 2.0**-24
        assert bits[n].item() == philox_reference(7, (low, high, 0, 0))[0]
        assert words[:, n].tolist() == philox_reference(seed, (low, 1, 2, 3))


def test_assertions_and_printing(capsys):
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            x = X[i]
            tw.assert_(x >= 0.0, "x is not negative")
            tw.print("sum", tw.sum(x))
            Y[i] = tw.sqrt(x)

    x, y = torch.tensor([1.0, 4.0]), torch.empty(2)
    run(k, x, y)
    assert "sum 5.0" in capsys.readouterr().out
    with pytest.raises(DataError, match="x is not negative"):
        run(k, -x, y)


def test_checks_stay_without_a_result():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[f32, M]):
        for i in tw.parallel(M):
            unused = tw.exp(X[i])
            tw.assert_(tw.sum(unused) > 0.0, "positive")
            dead = tw.log(X[i])  # noqa: F841
            Y[i] = 1.0

    names = ops(k.program({}))
    assert "exp" in names and "log" not in names


def test_dtype_of_torch_and_conversions():
    @tw.kernel
    def k(X: tw.In[f32, M], Y: tw.Out[i32, M], Z: tw.Out[bf16, M], W: tw.Out[tw.bool_, M]):
        for i in tw.parallel(M):
            Y[i] = X[i].to(torch.int32)
            Z[i] = tw.bf16(X[i])
            W[i] = tw.cast(X[i], tw.bool_)

    x = torch.tensor([-1.5, 0.0, 2.7])
    y, z, w = torch.empty(3, dtype=torch.int32), torch.empty(3, dtype=torch.bfloat16), torch.empty(3, dtype=torch.bool)
    run(k, x, y, z, w)
    assert y.tolist() == [-1, 0, 2] and torch.equal(z, x.bfloat16()) and w.tolist() == [True, False, True]


def test_widening_is_implicit_where_nothing_is_lost():
    @tw.kernel
    def k(X: tw.In[bf16, M], Y: tw.Out[f64, M], Z: tw.In[u8, M], W: tw.Out[i64, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] + tw.cast(1.0, tw.f32)
            W[i] = Z[i] + tw.cast(1, tw.i16)

    x, y = torch.randn(3).bfloat16(), torch.empty(3, dtype=torch.float64)
    z, w = torch.tensor([0, 5, 255], dtype=torch.uint8), torch.empty(3, dtype=torch.int64)
    run(k, x, y, z, w)
    assert torch.equal(y, x.double() + 1) and w.tolist() == [1, 6, 256]


# -- sizes -------------------------------------------------------------------------------------------------------------


def test_sizes_are_canonical():
    from tilewright.language import sizes

    assert (B * S) * 3 == B * (S * 3) and M + M == 2 * M and M - M == 0
    assert (
        (6 * M * N) // (2 * N) == 3 * M and (2 * M + 1) // 2 == M and (M * 4 + 6) % 4 == 2 + 4 * ((M * 4 + 6) // 4) * 0
    )
    assert (M // 2) // 3 == M // 6 and (M // 2) * 2 + M % 2 == M
    assert sizes.minimum(M, M + 1) == M and sizes.maximum(M, M + N) == M + N
    assert str(sizes.ceildiv(M, 4)) == "(M + 3)//4" and str(M - 2 * N) == "M - N*2"
    for m, n in ((0, 0), (1, 3), (7, 2), (13, 5)):
        values = {"M": m, "N": n}
        for e, expected in (
            ((3 * M + 2) // 4 + M % 3, (3 * m + 2) // 4 + m % 3),
            (sizes.minimum(M, 2 * N) - sizes.maximum(M - 3, N), min(m, 2 * n) - max(m - 3, n)),
            ((M + 1) * (N - 2), (m + 1) * (n - 2)),
        ):
            assert e.evaluate(values) == expected
            assert e.replace("M", sizes.size(m)).evaluate({"N": n}) == expected
    with pytest.raises(TypeError, match="known only when the kernel is called"):
        bool(M)


def test_bounds_hold_for_every_value():
    """Proofs and bounds of random sizes over axes of axes, compared with all values of the symbols."""
    import itertools
    import random

    from tilewright.language import sizes
    from tilewright.language.bounds import Bounds, Local

    rng = random.Random(0)
    proofs = bounds = 0
    for _ in range(400):
        b = Bounds()
        tile = rng.choice([None, 2, 3])
        b.define(Local("i.start@2", "i.size@3", sizes.size(0), M, tile))
        begin = rng.choice([sizes.size(0), sizes.symbol("i.start@2")])
        end = rng.choice([N, sizes.symbol("i.start@2") + sizes.symbol("i.size@3")])
        b.define(Local("k@4", None, begin, end))
        symbols = [M, N, *map(sizes.symbol, ("i.start@2", "i.size@3", "k@4"))]

        def random_size(depth, symbols=symbols):
            if depth == 0:
                return rng.choice(symbols) if rng.random() < 0.8 else sizes.size(rng.randrange(-2, 5))
            x, y = random_size(depth - 1), random_size(depth - rng.choice([1, depth]))
            kind = rng.randrange(7)
            if kind < 3:
                return x + y * rng.choice([-2, -1, 1, 2])
            if kind == 3:
                return x * rng.choice(symbols[:2])
            if kind == 4:
                return x // rng.choice([2, 3])
            return sizes.minimum(x, y) if kind == 5 else sizes.maximum(x, y)

        values = []
        for m, n in itertools.product(range(5), range(4)):
            for start in range(m):
                for length in range(1, min(tile or m, m - start) + 1):
                    point = {"M": m, "N": n, "i.start@2": start, "i.size@3": length}
                    for k in range(begin.evaluate(point), end.evaluate(point)):
                        values.append({**point, "k@4": k})
        for _ in range(10):
            e = random_size(rng.choice([1, 2, 3]))
            if b.proves(e):
                proofs += 1
                assert all(e.evaluate(v) >= 0 for v in values), e
            upper = b.upper(e)
            if upper is not None:
                bounds += 1
                assert b.is_global(upper) and all(e.evaluate(v) <= upper.evaluate(v) for v in values), (e, upper)
    assert proofs > 300 and bounds > 2000


def test_equal_code_in_two_files_has_two_texts(tmp_path):
    kernels = []
    for number, dtype in enumerate(("f32", "i64")):
        file = tmp_path / f"equal_code_{number}.py"
        file.write_text(
            f'import tilewright as tw\nM = tw.symbols("M")\n\n\n@tw.kernel\ndef k(X: tw.In[tw.{dtype}, M], Y: tw.Out[tw.{dtype}, M]):\n    Y[:] = X[:]\n'
        )
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernels.append(module.k)
    first, second = (k.source for k in kernels)
    assert first.function.__code__ == second.function.__code__
    assert Path(first.file).name == "equal_code_0.py" and Path(second.file).name == "equal_code_1.py"
    assert "tw.i64" in second.line(6)


# -- functions as methods, slices as arguments ---------------------------------------------------------------------------


def test_elementwise_functions_are_methods():
    def by_function(X: tw.In[tw.f32, M], Y: tw.Out[tw.f32, M]):
        for i in tw.parallel(M):
            x = X[i]
            x = tw.clamp(tw.exp(x), 0.5, 2.0)
            Y[i] = tw.maximum(tw.fma(x, x, x), tw.sigmoid(x)) + tw.where(tw.isnan(x), 1.0, tw.floor(x))

    def by_method(X: tw.In[tw.f32, M], Y: tw.Out[tw.f32, M]):
        for i in tw.parallel(M):
            x = X[i]
            x = x.exp().clamp(0.5, 2.0)
            Y[i] = x.fma(x, x).maximum(x.sigmoid()) + tw.where(x.isnan(), 1.0, x.floor())

    def operations(function):
        return [s["op"] for s in tw.trace(function, {})["body"][0]["body"]]

    assert operations(by_function) == operations(by_method)


def test_every_elementwise_function_is_a_method():
    elementwise = {f.__name__ for f in registry.BUILTINS if f.__module__.endswith("ops_elementwise")}
    assert elementwise - registry.METHODS.keys() == {"where"}


def test_slices_as_arguments():
    def by_brackets(X: tw.In[tw.f32, M, N], Y: tw.InOut[tw.f32, M, N]):
        for i in tw.parallel(M):
            x = X[i, :]
            Y[i, 1 : N - 1] = x[:, 1 : N - 1] + X[i, : N - 2]

    def by_function(X: tw.In[tw.f32, M, N], Y: tw.InOut[tw.f32, M, N]):
        for i in tw.parallel(M):
            x = tw.load(X, (i, slice(None)))
            inner = slice(1, N - 1)
            tw.store(Y, (i, inner), x[:, inner] + tw.load(X, (i, slice(N - 2))))

    def indices(function):
        return [(s["op"], s.get("index") or s.get("map")) for s in tw.trace(function, {})["body"][0]["body"]]

    assert indices(by_brackets) == indices(by_function)


def test_slice_as_the_index_of_an_atomic_add():
    def added(X: tw.In[tw.f32, M, N], Y: tw.InOut[tw.f32, N]):
        for i in tw.parallel(M):
            tw.atomic_add(Y, (slice(None),), tw.sum(X[i, :], axis=0))

    (add,) = (s for s in tw.trace(added, {})["body"][0]["body"] if s["op"] == "atomic_add")
    assert add["index"] == [{"start": "0", "terms": [[0, "1"]]}]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.uint16, torch.bool])
def test_dtypes_of_torch_in_annotations(dtype):
    def copied(X: tw.In[dtype, M], n: tw.Scalar[dtype], Y: tw.InOut[dtype, M, M]):
        for i in tw.parallel(M):
            Y[i, :] = X[:]
            Y[i, 0] = n.to(dtype)

    names = [p["dtype"] for p in tw.trace(copied, {})["params"]]
    assert names == [DTYPE_NAMES[dtype]] * 3
