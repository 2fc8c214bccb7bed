"""Random kernel programs (docs/kernel-programs.md): compiled code, whole-tensor evaluation and other tilings against the interpreter.

A case is a program of a few dozen statements over tensors of one to three dimensions and one set of sizes. Its results are compared with the
interpreter's; how far a float may be off is measured with the same program in float64. What fails is shrunk and printed.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import math
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

import _driver

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))

from program_builder import ALL, Axis, Builder, Param, Value

from tilewright.language import semantics, size_text
from tilewright.language.interpreter import Interpreter, Observer, walk
from tilewright.language.whole import NotWhole, evaluate

Program = dict[str, Any]

SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 23, 31, 33)
FLOATS = ("f32", "f32", "f32", "f64", "bf16", "f16")
INTEGERS = ("i8", "i32", "i64", "u8")
EPSILON = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}


# ----------------------------------------------------------------------------------------------------------------------
# Compiled programs run in processes of their own, one per CPU level: the level is a process's, and a crash is a finding like others.

LONGEST_RUN = 120  # seconds


class Worker:
    """A process that compiles and runs programs at one CPU level. It is started at the first use and again after it has died."""

    def __init__(self, level: str) -> None:
        self.level = level
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, program: Program, arguments: list[Any], verify: bool = False) -> list[Any]:
        """The arguments after the run; with `verify` the program is run after every pass instead, and the arguments stay as they are. Raises
        RuntimeError with what the process says, or how it died."""
        if self.process is None:
            self.connection, theirs = multiprocessing.Pipe()
            environment = {**os.environ, "TILEWRIGHT_CPU": self.level, "TILEWRIGHT_CACHE": "off"}
            command = [sys.executable, __file__, "--serve", str(theirs.fileno())]
            self.process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()])
            theirs.close()
        self.connection.send_bytes(pickle.dumps((program, arguments, verify)))
        try:
            if not self.connection.poll(LONGEST_RUN):
                self.process.kill()
                raise RuntimeError(f"has not ended within {LONGEST_RUN} s")
            problem, results = pickle.loads(self.connection.recv_bytes())
        except EOFError:
            status = self.process.wait()
            raise RuntimeError(f"the process died with status {status}") from None
        finally:
            if self.process.poll() is not None:
                self.process = None
        if problem is not None:
            raise RuntimeError(problem)
        return results


def serve(handle: int) -> None:
    """The worker's side."""
    from tilewright import _C
    from tilewright.language import verification

    connection = multiprocessing.connection.Connection(handle)
    while True:
        try:
            program, arguments, verify = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        problem = None
        try:
            if verify:
                difference = verification.verify(program, arguments).difference
                problem = difference and f"after {difference.stage}: {difference}"
            else:
                n = len(arguments)
                graph = _C.compile_graph(json.dumps(program), n, list(range(n)), [], [], "cpu")
                graph(list(arguments))
        except _C.CompileFailure as failure:
            report = json.loads(str(failure))
            problem = f"does not compile: {report.get('message', report)}"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        connection.send_bytes(pickle.dumps((problem, arguments)))


@functools.cache
def levels() -> list[str]:
    """CPU levels that this machine has; one is drawn per case."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split()
    wanted = {"avx2": ("avx2", "fma"), "avx512": ("avx512f", "avx512bw", "avx512dq", "avx512vl")}
    return ["x86-64", *(level for level, needed in wanted.items() if all(flag in flags for flag in needed))]


@functools.cache
def worker(level: str) -> Worker:
    return Worker(level)


def compile_and_run(program: Program, arguments: list[Any], level: str) -> None:
    """Compiles a program for a CPU level and runs it on CPU tensors, writing outputs in place."""
    results = worker(level).run(program, arguments)
    for param, mine, theirs in zip(program["params"], arguments, results, strict=True):
        if param["kind"] in ("out", "inout"):
            mine.copy_(theirs)


# ----------------------------------------------------------------------------------------------------------------------
# Programs


@dataclasses.dataclass
class Known:
    """A value over some of the case's dimensions, in their order. `exact`: every implementation gives the same bits, so it may decide.
    `size`: a bound for its magnitude."""

    value: Value
    dims: tuple[int, ...]
    exact: bool
    size: float

    @property
    def floating(self) -> bool:
        return self.value.dtype in semantics.FLOATS


@dataclasses.dataclass
class Case:
    program: Program
    sizes: dict[str, int]
    #: What the arguments of a parameter look like beyond dtype and layout: the bound of an index, or the value of a scalar.
    hints: dict[str, Any]
    seed: int

    def arguments(self) -> list[Any]:
        """New arguments, the same ones every time."""
        generator = torch.Generator().manual_seed(self.seed)
        symbols = {f"s{k}": self.sizes[name] for k, name in enumerate(self.program["symbols"])}
        return [self._argument(p, symbols, generator) for p in self.program["params"]]

    def _argument(self, param: dict[str, Any], symbols: dict[str, int], generator: torch.Generator) -> Any:
        hint = self.hints.get(param["name"])
        if param["kind"] == "scalar":
            return symbols[f"s{param['symbol']}"] if "symbol" in param else hint
        shape = [size_text.evaluate(t, symbols) for t in param["sizes"]]
        dtype = semantics.DTYPES[param["dtype"]]
        if hint is not None:
            bound = size_text.evaluate(hint, symbols)
            values = torch.randint(0, max(bound, 1), shape, generator=generator, dtype=dtype)
        elif dtype.is_floating_point:
            values = torch.randn(shape, generator=generator).clamp(-3, 3).to(dtype)
        elif dtype == torch.bool:
            values = torch.randint(0, 2, shape, generator=generator).to(dtype)
        else:
            low, high = (0, 256) if dtype == torch.uint8 else (-128, 128) if dtype == torch.int8 else (-1000, 1001)
            values = torch.randint(low, high, shape, generator=generator).to(dtype)
        if param["layout"] == "contiguous" or not shape:
            return values
        # Room between the elements: every second one, or every second row of a wider matrix.
        wide = [2 * n + 1 for n in shape]
        if param["layout"] == "inner":
            wide[-1] = shape[-1] + 3
        memory = torch.zeros(wide).to(dtype)
        inner = slice(1, 1 + shape[-1]) if param["layout"] == "inner" else slice(1, 2 * shape[-1] + 1, 2)
        view = memory[(*(slice(1, 2 * n + 1, 2) for n in shape[:-1]), inner)]
        view.copy_(values)
        return view


class Generator:
    """One random program."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.rank = rng.randint(1, 3)
        names = "ABC"[: self.rank]
        self.b = Builder("random", *names, "K", "V")
        self.b.program["file"] = "random.py"
        self.K, self.V = f"s{self.rank}", f"s{self.rank + 1}"
        self.hints: dict[str, Any] = {}
        self.halves = rng.random() < 0.3
        self.floats = FLOATS if self.halves else ("f32", "f32", "f64")
        self.limit = 12.0 if self.halves else 100.0
        for k in range(self.rank + 2):
            self.b.program["params"].append(
                {"name": f"n{k}", "kind": "scalar", "dtype": "i64", "symbol": k, "loc": [1, 0]}
            )
        self.count = 0
        self.values: list[Known] = []

    def make(self) -> tuple[Program, dict[str, Any]]:
        rng, b = self.rng, self.b
        kinds = [rng.choice(["tile", "tile", "scalar", "whole", "whole"]) for _ in range(self.rank)]
        if "tile" not in kinds and "scalar" not in kinds:
            kinds[rng.randrange(self.rank)] = "tile"
        tile = lambda kind: "scalar" if kind == "scalar" else rng.choice([None, None, 1, 3, 4, 8, 16])  # noqa: E731
        grid = [(f"i{k}", f"s{k}", tile(kind)) for k, kind in enumerate(kinds) if kind != "whole"]
        with b.parallel(*grid) as axes:
            given = iter(axes)
            self.axes: list[Axis | None] = [None if kind == "whole" else next(given) for kind in kinds]
            self.live = tuple(k for k, kind in enumerate(kinds) if kind != "scalar")
            for _ in range(rng.randint(1, 3)):
                self.values.append(self.load(self.some_dims()))
            for _ in range(rng.randint(2, 10)):
                step = rng.choice(STEPS)
                made = step(self)
                if made is not None:
                    self.values.append(made if made.size < self.limit or not made.floating else self.tamed(made))
            for _ in range(rng.randint(1, 3)):
                self.output()
        return b.program, self.hints

    # -- dimensions

    def text(self, dim: int) -> str:
        axis = self.axes[dim]
        return axis.size if axis is not None else f"s{dim}"

    def shape(self, dims: Sequence[int]) -> list[str]:
        return [self.text(d) for d in dims]

    def some_dims(self) -> tuple[int, ...]:
        return tuple(d for d in self.live if self.rng.random() < 0.75)

    def over(self, x: Known, dims: tuple[int, ...]) -> Value:
        """The value over more dimensions."""
        if x.dims == dims:
            return x.value
        return self.b.view(x.value, self.shape(dims), [("0", [(dims.index(d), 1)]) for d in x.dims])

    def pick(self, wanted: Callable[[Known], bool] = lambda v: True) -> Known | None:
        found = [v for v in self.values if wanted(v)]
        return self.rng.choice(found[-4:] if self.rng.random() < 0.6 else found) if found else None

    def known(self, value: Value, dims: tuple[int, ...], exact: bool, size: float) -> Known:
        return Known(value, dims, exact, size)

    def tamed(self, x: Known) -> Known:
        return Known(self.b.op("tanh", x.value), x.dims, False, 1)

    # -- memory

    def param(self, dtype: str, sizes: list[str], kind: str = "in", hint: str | None = None) -> Param:
        self.count += 1
        name = f"{kind[0].upper()}{self.count}"
        layouts = ["contiguous", "contiguous", "inner", "strided"] if sizes else ["contiguous"]
        if hint is not None:
            self.hints[name] = hint
        return self.b.tensor(name, dtype, sizes, kind=kind, layout=self.rng.choice(layouts))

    def indices(self, dims: Sequence[int]) -> list[Any]:
        return [ALL if self.axes[d] is None else self.axes[d] for d in dims]

    def sizes(self, dims: Sequence[int]) -> list[str]:
        return [f"s{d}" for d in dims]

    def load(self, dims: tuple[int, ...], dtype: str | None = None, extra: Sequence[tuple[Any, str]] = ()) -> Known:
        """A tile of a new parameter over `dims`, some scalar axes, and `extra` (index, size) behind them, whose dimensions come last."""
        rng, b = self.rng, self.b
        dtype = dtype or rng.choice([*self.floats, *self.floats, *INTEGERS])
        order = list(dims) + [d for d in range(self.rank) if d not in self.live and rng.random() < 0.5]
        rng.shuffle(order)
        index, fill = self.indices(order), None
        if order and not extra and rng.random() < 0.2:
            at = rng.randrange(len(order))
            axis = self.axes[order[at]]
            if axis is not None:
                index[at], fill = (
                    axis.shifted(rng.choice([-2, -1, 1, 3])),
                    rng.choice([0, 1, -2] if dtype != "u8" else [0, 1]),
                )
        sizes = self.sizes(order) + [size for _, size in extra]
        value = b.load(self.param(dtype, sizes), [*index, *(i for i, _ in extra)], fill)
        mine = [d for d in order if d in self.live]
        target = [mine.index(d) for d in dims] + list(range(len(mine), len(value.shape)))
        if target != list(range(len(target))):
            value = b.transpose(value, *target)
        return Known(value, dims, True, 3 if dtype in semantics.FLOATS else 1000)

    def output(self) -> None:
        rng, b = self.rng, self.b
        x = self.values[-1] if rng.random() < 0.5 else rng.choice(self.values)
        order = list(range(self.rank))
        rng.shuffle(order)
        kind = rng.choice(["out", "out", "out", "inout", "atomic"])
        if kind == "atomic" and (x.value.dtype in ("f32", "f64", "i32", "i64")):
            kept = [d for d in order if rng.random() < 0.6]
            value = self.over(x, self.live)
            target = self.param(value.dtype, self.sizes(kept), "inout")
            entries = [
                {"start": "0" if self.axes[d] is None else self.axes[d].start, "terms": [[self.live.index(d), "1"]] if d in self.live else []}
                for d in kept
            ]  # fmt: skip
            b._emit({"op": "atomic_add", "param": target.number, "index": entries, "value": value.id})
            return
        target = self.param(x.value.dtype, self.sizes(order), "inout" if kind == "inout" else "out")
        value = self.over(x, self.live)
        mine = [d for d in order if d in self.live]
        if mine != list(self.live):
            value = b.transpose(value, *(self.live.index(d) for d in mine))
        if kind == "inout" and value.dtype != "bool":
            value = b.op("add", value, b.load(target, self.indices(order)))
        b.store(target, self.indices(order), value)

    # -- steps: each makes a value, or nothing where it does not apply

    def another(self) -> Known | None:
        return self.load(self.some_dims())

    def unary(self) -> Known | None:
        x = self.pick(lambda v: v.value.dtype != "bool")
        if x is None:
            return None
        b, rng = self.b, self.rng
        if not x.floating:
            op = rng.choice(["neg", "abs", "not"])
            return Known(b.op(op, x.value), x.dims, True, x.size)
        op = rng.choice(["neg", "abs", "tanh", "erf", "exp", "sqrt", "sin", "log1p", "rsqrt", "floor", "round"])
        if op in ("neg", "abs"):
            return Known(b.op(op, x.value), x.dims, x.exact, x.size)
        if op in ("floor", "round"):
            return Known(b.op(op, x.value), x.dims, True, x.size + 1) if x.exact else None
        if op == "exp":
            return Known(b.exp(b.neg(b.abs(x.value))), x.dims, False, 1)
        if op == "rsqrt":
            return Known(b.rsqrt(b.add(b.abs(x.value), 1)), x.dims, False, 1)
        if op in ("sqrt", "log1p"):
            return Known(b.op(op, b.abs(x.value)), x.dims, False, x.size)
        return Known(b.op(op, x.value), x.dims, False, 1)

    def pair(self, wanted: Callable[[Known], bool]) -> tuple[Known, Value, Known, Value, tuple[int, ...]] | None:
        """Two values of one dtype over the same dimensions."""
        x = self.pick(wanted)
        if x is None:
            return None
        y = self.pick(lambda v: wanted(v) and v.value.dtype == x.value.dtype)
        assert y is not None
        dims = tuple(sorted({*x.dims, *y.dims}))
        return x, self.over(x, dims), y, self.over(y, dims), dims

    def binary(self) -> Known | None:
        pair = self.pair(lambda v: v.value.dtype != "bool")
        if pair is None:
            return None
        x, a, y, c, dims = pair
        b, rng = self.b, self.rng
        if not x.floating:
            op = rng.choice(["add", "sub", "mul", "max", "min", "and", "or", "xor", "shl", "shr", "div", "fdiv", "mod"])
            if op in ("shl", "shr"):
                c = b.op("and", c, 7)
            elif op in semantics.DIVISIONS:
                c = b.op("or", c, 1)
            return Known(b.op(op, a, c), dims, True, 1e9)
        op = rng.choice(["add", "sub", "mul", "div", "max", "min", "fma", "atan2"])
        if op == "fma" and a.dtype == "f64":
            return None  # refused at the level that has no such instruction
        if op == "div":
            return Known(b.div(a, b.add(b.abs(c), 1)), dims, False, x.size)
        if op == "fma":
            return Known(b.fma(a, c, b.full(self.shape(dims), 0.5, a.dtype)), dims, False, x.size * y.size + 1)
        exact = op in ("max", "min") and x.exact and y.exact
        size = {"mul": x.size * y.size, "atan2": 4}.get(op, x.size + y.size)
        if op == "atan2" and not (x.exact and y.exact):  # it jumps
            return None
        return Known(b.op(op, a, c), dims, exact, size)

    def with_number(self) -> Known | None:
        x = self.pick(lambda v: v.floating)
        if x is None:
            return None
        factor = self.rng.choice([0.5, -1.5, 0.1, 2])
        return Known(self.b.op(self.rng.choice(["mul", "add", "sub"]), x.value, factor), x.dims, False, 2 * x.size + 2)

    def compare(self) -> Known | None:
        pair = self.pair(lambda v: v.exact and v.value.dtype != "bool")
        if pair is None:
            return None
        _, a, _, c, dims = pair
        return Known(self.b.op(self.rng.choice(["lt", "le", "eq", "ne"]), a, c), dims, True, 1)

    def select(self) -> Known | None:
        condition = self.pick(lambda v: v.value.dtype == "bool")
        pair = self.pair(lambda v: True)
        if condition is None or pair is None:
            return None
        x, a, y, c, dims = pair
        all_dims = tuple(sorted({*dims, *condition.dims}))
        a, c = (self.over(Known(v, dims, True, 0), all_dims) for v in (a, c))
        value = self.b.op("select", self.over(condition, all_dims), a, c)
        return Known(value, all_dims, x.exact and y.exact, max(x.size, y.size))

    def cast(self) -> Known | None:
        x = self.pick()
        assert x is not None
        target = self.rng.choice([*self.floats, *INTEGERS])
        if x.floating and target in INTEGERS and not x.exact:
            return None
        # A float's narrowing is not exact: the comparison in float64 does not round there.
        exact = x.exact and not (target in semantics.FLOATS and x.value.dtype not in ("bool", "i8", "u8"))
        if target in semantics.FLOATS and not x.floating and x.value.dtype not in ("bool", "i8", "u8"):
            small = self.b.op("mod", x.value, 7)
            return Known(self.b.cast(small, target), x.dims, True, 7)
        size = x.size if x.floating else {"bool": 1, "i8": 128, "u8": 255}.get(x.value.dtype, x.size)
        value = self.b.cast(x.value, target)
        if target in semantics.FLOATS and size > self.limit:
            return Known(self.b.mul(value, 1 / 128), x.dims, False, size / 128)
        return Known(value, x.dims, exact, size)

    def whole_dim(self, wanted: Callable[[Known], bool] = lambda v: True) -> tuple[Known, int] | None:
        """A value and one of its dimensions that is no tile's."""
        x = self.pick(lambda v: wanted(v) and any(self.axes[d] is None for d in v.dims))
        return None if x is None else (x, self.rng.choice([d for d in x.dims if self.axes[d] is None]))

    def reduce(self) -> Known | None:
        found = self.whole_dim()
        if found is None:
            return None
        x, dim = found
        b, at = self.b, x.dims.index(dim)
        rest = tuple(d for d in x.dims if d != dim)
        if x.value.dtype == "bool":
            return Known(b.reduce(self.rng.choice(["any", "all"]), x.value, at), rest, True, 1)
        kind = self.rng.choice(["sum", "sum", "max", "min", "argmax", "argmin"])
        if kind.startswith("arg"):
            return Known(b.reduce(kind, x.value, at), rest, True, 40) if x.exact else None
        if kind in ("max", "min"):
            # Of nothing it is infinite, which must not spread.
            value = b.op("min" if kind == "max" else "max", b.reduce(kind, x.value, at), 0)
            return Known(value, rest, x.exact, x.size)
        if not x.floating:
            return Known(b.reduce("sum", x.value, at), rest, True, 1e9)
        return Known(b.mul(b.reduce("sum", x.value, at), 1 / 16), rest, False, 3 * x.size)

    def scan(self) -> Known | None:
        found = self.whole_dim(lambda v: v.value.dtype != "bool")
        if found is None:
            return None
        x, dim = found
        kind = self.rng.choice(["sum", "max", "min"])
        value = self.b.scan(kind, x.value, x.dims.index(dim))
        if kind != "sum":
            return Known(value, x.dims, x.exact, x.size)
        return Known(value, x.dims, not x.floating, 40 * x.size)

    def sort(self) -> Known | None:
        found = self.whole_dim(lambda v: v.exact and v.value.dtype != "bool")
        if found is None:
            return None
        x, dim = found
        values, indices = self.b.sort(x.value, x.dims.index(dim), self.rng.random() < 0.5)
        return Known(values, x.dims, True, x.size) if self.rng.random() < 0.7 else Known(indices, x.dims, True, 40)

    def flip(self) -> Known | None:
        found = self.whole_dim()
        if found is None:
            return None
        x, dim = found
        index = [("0" if d != dim else f"s{dim} - 1", [(k, 1 if d != dim else -1)]) for k, d in enumerate(x.dims)]
        return Known(self.b.view(x.value, x.value.shape, index), x.dims, x.exact, x.size)

    def concat(self) -> Known | None:
        found = self.whole_dim()
        if found is None:
            return None
        x, dim = found
        at, n = x.dims.index(dim), f"s{dim}"
        joined = self.b.concat(at, x.value, x.value)  # of which the middle is a rotation
        index = [(f"{n} // 2" if d == dim else "0", [(k, 1)]) for k, d in enumerate(x.dims)]
        return Known(self.b.view(joined, x.value.shape, index), x.dims, x.exact, x.size)

    def reshape(self) -> Known | None:
        x = self.pick(lambda v: len(v.dims) > 0)
        if x is None:
            return None
        flat = self.b.reshape(x.value, [*x.value.shape[:-1], "1", x.value.shape[-1]])
        return Known(self.b.reshape(flat, x.value.shape), x.dims, x.exact, x.size)

    def position(self) -> Known | None:
        """Where an element stands in the whole."""
        if not self.live:
            return None
        dim = self.rng.choice(self.live)
        axis = self.axes[dim]
        value = self.b.iota([self.text(dim)], 0)
        if axis is not None:
            value = self.b.add(value, self.b.size(axis.start))
        return Known(value, (dim,), True, 40)

    def gather(self) -> Known | None:
        dims, rng, b = self.some_dims(), self.rng, self.b
        dtype = rng.choice(["i32", "i64"])
        order = list(dims)
        index = b.load(self.param(dtype, self.sizes(order), hint=self.V), self.indices(order))
        table = rng.choice([*self.floats, "i32"])
        rows = b.load(self.param(table, [self.V]), [index])
        return Known(rows, dims, True, 3 if table in semantics.FLOATS else 1000)

    def matmul(self) -> Known | None:
        if len(self.live) < 2:
            return None
        rng, b = self.rng, self.b
        m, n = rng.sample(self.live, 2)
        batch = tuple(d for d in self.live if d not in (m, n) and rng.random() < 0.5)
        dtype, result = rng.choice(
            [("f32", "f32"), ("f64", "f64"), ("i8", "i32"), *([("bf16", "f32"), ("f16", "f16")] if self.halves else [])]
        )
        lead = self.indices(batch)
        A = self.param(dtype, [*self.sizes(batch), f"s{m}", self.K])
        B = self.param(dtype, [*self.sizes(batch), self.K, f"s{n}"])
        shape = self.shape([*batch, m, n])
        (im,), (in_,) = self.indices([m]), self.indices([n])
        if rng.random() < 0.7:
            with b.loop("k", "0", self.K, rng.choice([None, 2, 4, 16]), [b.full(shape, 0, result)]) as loop:
                product = b.matmul(b.load(A, [*lead, im, loop.axis]), b.load(B, [*lead, loop.axis, in_]), result)
                loop.next(b.add(loop.args[0], product))
            value = loop.results[0]
        else:
            value = b.matmul(b.load(A, [*lead, im, ALL]), b.load(B, [*lead, ALL, in_]), result)
        dims = tuple(sorted([*batch, m, n]))
        order = [[*batch, m, n].index(d) for d in dims]
        value = b.transpose(value, *order) if order != list(range(len(order))) else value
        if result == "i32":
            return Known(value, dims, True, 1e9)
        return Known(b.mul(value, 1 / 8), dims, False, 9 * 40 / 8)

    def accumulate(self) -> Known | None:
        """A loop over tiles that carries a sum and an extremum."""
        rng, b, dims = self.rng, self.b, self.some_dims()
        dtype = rng.choice([*self.floats, "i32"])
        shape = self.shape(dims)
        with b.loop(
            "k", "0", self.K, rng.choice([None, 1, 4, 16]), [b.full(shape, 0, dtype), b.full(shape, 0, dtype)]
        ) as loop:
            x = self.load(dims, dtype, [(loop.axis, self.K)]).value
            loop.next(
                b.add(loop.args[0], b.reduce("sum", x, len(dims))), b.max(loop.args[1], b.reduce("max", x, len(dims)))
            )
        which = rng.randrange(2)
        floating = dtype in semantics.FLOATS
        return Known(loop.results[which], dims, bool(which) or not floating, 3 if which else 60)

    def online(self) -> Known | None:
        """A loop over tiles whose sum is rescaled as its maximum grows."""
        rng, b, dims = self.rng, self.b, self.some_dims()
        dtype = rng.choice(["f32", "f64"])
        shape = self.shape(dims)
        init = [b.full(shape, -math.inf, dtype), b.full(shape, 0, dtype)]
        with b.loop("k", "0", self.K, rng.choice([None, 3, 8]), init) as loop:
            x = self.load(dims, dtype, [(loop.axis, self.K)]).value
            top = b.max(loop.args[0], b.reduce("max", x, len(dims)))
            e = b.exp(b.sub(x, b.view(top, x.shape, [("0", [(k, 1)]) for k in range(len(dims))])))
            total = b.mul(loop.args[1], b.exp(b.sub(loop.args[0], top)))
            loop.next(top, b.add(total, b.reduce("sum", e, len(dims))))
        return Known(loop.results[1], dims, False, 40)

    def steps_of_one(self) -> Known | None:
        """A loop that carries a tile from one index to the next."""
        rng, b, dims = self.rng, self.b, self.some_dims()
        dtype = rng.choice(["f32", "f64", "i32"])
        end = rng.choice([self.K, "3"])
        with b.loop("k", "0", end, "scalar", [b.full(self.shape(dims), 1, dtype)]) as loop:
            x = self.load(dims, dtype, [(loop.axis, self.K)] if end == self.K else []).value
            loop.next(b.add(b.mul(loop.args[0], -1 if dtype == "i32" else 0.5), x))
        return Known(loop.results[0], dims, dtype == "i32", 6)

    def scalar(self, dtype: str, value: float) -> Value:
        self.count += 1
        name = f"p{self.count}"
        self.hints[name] = value
        return self.b.scalar(name, dtype)

    def branch(self) -> Known | None:
        pair = self.pair(lambda v: True)
        if pair is None:
            return None
        x, a, y, c, dims = pair
        b, rng = self.b, self.rng
        scalars = [axis for axis in self.axes if axis is not None and axis.scalar]
        if scalars and rng.random() < 0.7:
            condition = b.eq(b.mod(b.size(rng.choice(scalars).start), 2), 0)
        else:
            condition = b.lt(self.scalar("f32", rng.choice([-1.0, 2.0])), 0)
        with b.if_(condition) as statement:
            then = b.op("abs", a) if a.dtype not in ("bool",) else b.op("not", a)
            b.else_(statement)
            otherwise = b.op("neg", c) if c.dtype not in ("bool",) else c
        return Known(b.choose(statement, then, otherwise), dims, x.exact and y.exact, max(x.size, y.size))

    def repeat(self) -> Known | None:
        """A `while` that counts down."""
        x = self.pick(lambda v: v.value.dtype in ("f32", "f64", "i32"))
        if x is None:
            return None
        b = self.b
        with b.while_([x.value, self.scalar("i64", self.rng.randint(0, 4))]) as loop:
            value, n = loop.args
            b.condition(b.lt(0, n))
            loop.next(b.mul(value, -1 if not x.floating else 0.75), b.sub(n, 1))
        return Known(loop.results[0], x.dims, not x.floating, x.size)

    def factor(self) -> Known | None:
        x = self.pick(lambda v: v.value.dtype in ("f32", "f64"))
        if x is None:
            return None
        return Known(self.b.mul(x.value, self.scalar(x.value.dtype, 0.375)), x.dims, False, x.size)


STEPS: list[Callable[[Generator], Known | None]] = [
    *[Generator.unary, Generator.binary] * 3,
    *[Generator.another, Generator.with_number, Generator.compare, Generator.select, Generator.cast, Generator.reduce] * 2,
    *[Generator.scan, Generator.sort] * 2,
    *[Generator.flip, Generator.concat, Generator.reshape, Generator.position],
    *[Generator.gather, Generator.matmul, Generator.matmul, Generator.accumulate, Generator.online, Generator.steps_of_one],
    *[Generator.branch, Generator.repeat, Generator.factor],
]  # fmt: skip


#: More take the interpreter seconds.
MOST_POINTS = 64


def grid_points(program: Program, sizes: dict[str, int]) -> int:
    extents = {f"s{k}": sizes[name] for k, name in enumerate(program["symbols"])}
    points = 1
    for axis in program["body"][-1]["axes"]:
        tile = {"scalar": 1, None: 5}.get(axis["tile"], axis["tile"])
        points *= -(-extents[axis["end"]] // tile)
    return points


def generate(rng: random.Random) -> Case:
    generator = Generator(rng)
    program, hints = generator.make()
    sizes = {name: rng.choice(SIZES) for name in program["symbols"]}
    while grid_points(program, sizes) > MOST_POINTS:
        name = rng.choice([name for name in "ABC" if sizes.get(name, 0) > 4])
        sizes[name] = sizes[name] // 2 + rng.randint(0, 1)
    sizes["K"] = min(sizes["K"], 17)  # a loop by single steps costs as many
    sizes["V"] = max(sizes["V"], 1)  # rows that gathers may take
    return Case(program, sizes, hints, rng.randrange(2**31))


# ----------------------------------------------------------------------------------------------------------------------
# Comparison


class Peak(Observer):
    """The largest finite operand of any operation."""

    largest = 1.0

    def operation(self, statement: dict[str, Any], args: Sequence[Any]) -> None:
        for a in args:
            if a.dtype in semantics.FLOATS and a.data.numel():
                finite = a.data[a.data.isfinite()].abs()
                self.largest = max(self.largest, float(finite.max()) if finite.numel() else 0.0)


def in_double(case: Case) -> Program:
    """The same program in float64."""
    program = copy.deepcopy(case.program)
    for entry in [*program["params"], *walk(program["body"])]:
        if entry.get("dtype") in semantics.FLOATS:
            entry["dtype"] = "f64"
    return program


def outputs(program: Program, arguments: list[Any]) -> list[torch.Tensor]:
    return [a for p, a in zip(program["params"], arguments, strict=True) if p["kind"] in ("out", "inout")]


class Reference:
    """The interpreter's results, and how far others may be off."""

    def __init__(self, case: Case) -> None:
        self.case = case
        arguments = case.arguments()
        Interpreter(case.program, arguments).run()
        self.results = outputs(case.program, arguments)
        doubles = [a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in case.arguments()]
        peak = Peak()
        program = in_double(case)
        for param in program["params"]:
            param["layout"] = "strided"
        Interpreter(program, doubles, checker=peak).run()
        kinds = {s["dtype"] for s in walk(case.program["body"]) if s.get("dtype") in semantics.FLOATS} or {"f64"}
        coarse = max(EPSILON[k] for k in kinds)
        # Every addition to one element rounds, in an order that nobody determines.
        if any(s["op"] == "atomic_add" for s in walk(case.program["body"])):
            coarse *= 256
        self.allowed = []
        for result, exact in zip(self.results, outputs(program, doubles), strict=True):
            error = (result.double() - exact.double()).abs()
            error = error[error.isfinite()]
            self.allowed.append(16 * float(error.max() if error.numel() else 0) + 8 * coarse * peak.largest)

    def disagreement(self, got: list[torch.Tensor]) -> str | None:
        params = [p for p in self.case.program["params"] if p["kind"] in ("out", "inout")]
        for param, value, expected, allowed in zip(params, got, self.results, self.allowed, strict=True):
            if value.shape != expected.shape or value.dtype != expected.dtype:
                return (
                    f"{param['name']} is {value.dtype}{list(value.shape)}, not {expected.dtype}{list(expected.shape)}"
                )
            if expected.is_floating_point():
                a, b = value.double(), expected.double()
                wrong = ~((a == b) | ((a - b).abs() <= allowed) | (a.isnan() & b.isnan()))
            else:
                wrong = value != expected
            if wrong.any():
                at = tuple(wrong.nonzero()[0].tolist())
                how_far = f" (allowed {allowed:.3g})" if expected.is_floating_point() else ""
                return f"{param['name']}{list(at)} is {value[at].item()}, not {expected[at].item()}{how_far}"
        return None


def other_tiles(case: Case, level: str) -> list[torch.Tensor]:
    """The interpreter with other tile sizes and another order of grid points."""
    arguments = case.arguments()
    Interpreter(case.program, arguments, tiles=case.seed % 7 + 1, order=case.seed).run()
    return outputs(case.program, arguments)


def whole(case: Case, level: str) -> list[torch.Tensor] | None:
    """Whole-tensor evaluation; None if the program has no such form."""
    given = [a for p, a in zip(case.program["params"], case.arguments(), strict=True) if p["kind"] != "out"]
    try:
        return evaluate(case.program, given)
    except NotWhole:
        return None


def compiled(case: Case, level: str) -> list[torch.Tensor]:
    arguments = case.arguments()
    compile_and_run(case.program, arguments, level)
    return outputs(case.program, arguments)


def verified(case: Case, level: str) -> None:
    """The program after every pass of the compiler."""
    worker(level).run(case.program, case.arguments(), verify=True)


Side = Callable[[Case, str], "list[torch.Tensor] | None"]
SIDES: tuple[Side, ...] = (other_tiles, whole, compiled)


def failure(case: Case, side: Side, level: str, reference: Reference | None = None) -> str | None:
    """What is wrong with one side; what the interpreter itself refuses raises."""
    reference = reference or Reference(case)
    try:
        got = side(case, level)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if got is None else reference.disagreement(got)


# ----------------------------------------------------------------------------------------------------------------------
# Shrinking


def uses(statement: dict[str, Any]) -> list[int]:
    """The values that a statement itself uses, its bodies apart."""
    used = list(statement.get("args", []))
    used += [statement[k] for k in ("value", "cond") if k in statement and statement["op"] != "const"]
    used += [e["value"] for e in statement.get("index", []) if "value" in e]
    for c in statement.get("carried", []):
        used += [c["init"], c["next"]]
    for r in statement.get("results", []):
        used += [r["then"], r["else"]]
    return used


def without_dead(program: Program) -> Program:
    """Values that nobody uses dropped, and parameters that nobody reads or writes and that give no size."""
    program = copy.deepcopy(program)
    while True:
        used = {u for s in walk(program["body"]) for u in uses(s)}

        def alive(s: dict[str, Any], used: set[int] = used) -> bool:
            inner = [i for k in ("body", "then", "else", "condition") for i in walk(s.get(k, []))]
            if any(i["op"] in ("store", "atomic_add") for i in inner):
                return True
            return s["op"] in ("store", "atomic_add") or any(r in used for r in results_of(s))

        before = sum(1 for _ in walk(program["body"]))
        prune(program["body"], alive)
        if sum(1 for _ in walk(program["body"])) == before:
            break
    touched = {s["param"] for s in walk(program["body"]) if "param" in s}
    kept = [k for k, p in enumerate(program["params"]) if k in touched or "symbol" in p]
    for s in walk(program["body"]):
        if "param" in s:
            s["param"] = kept.index(s["param"])
    program["params"] = [program["params"][k] for k in kept]
    return program


def prune(statements: list[dict[str, Any]], alive: Callable[[dict[str, Any]], bool]) -> None:
    statements[:] = [s for s in statements if alive(s)]
    for s in statements:
        for key in ("body", "then", "else", "condition"):
            if isinstance(s.get(key), list):
                prune(s[key], alive)


def smaller(case: Case) -> list[Case]:
    """Cases with a store, a value or some size less."""
    made: list[Case] = []
    stores = [s for s in walk(case.program["body"]) if s["op"] in ("store", "atomic_add")]
    numbers = {id(s): n for n, s in enumerate(walk(case.program["body"]))}
    if len(stores) > 1:
        for victim in stores:
            program = copy.deepcopy(case.program)
            number = numbers[id(victim)]
            doomed = list(walk(program["body"]))[number]
            prune(program["body"], lambda s, doomed=doomed: s is not doomed)
            made.append(dataclasses.replace(case, program=program))
    for statement in walk(case.program["body"]):
        if results_of(statement) and statement["op"] not in ("const", "view", "size", "scalar"):
            program = copy.deepcopy(case.program)
            replace_by_constants(program, numbers[id(statement)])
            made.append(dataclasses.replace(case, program=program))
    for name, size in case.sizes.items():
        for less in {0, 1, 2, size // 2, size - 1}:
            if (0 if name != "V" else 1) <= less < size:
                made.append(dataclasses.replace(case, sizes={**case.sizes, name: less}))
    return [dataclasses.replace(c, program=without_dead(c.program)) for c in made]


def results_of(statement: dict[str, Any]) -> list[int]:
    if statement["op"] in ("for", "while", "if"):
        return [e["result"] for e in [*statement.get("carried", []), *statement.get("results", [])]]
    return statement.get("ids", [statement["id"]] if "id" in statement else [])


def replace_by_constants(program: Program, number: int) -> None:
    """What the statement of that number makes is 1 instead."""
    target = list(walk(program["body"]))[number]
    types = types_of(program)
    fresh = 1 + max(types)
    constants: list[dict[str, Any]] = []
    for result in results_of(target):
        dtype, shape = types[result]
        common = {"dtype": dtype, "loc": target["loc"]}
        if not shape:
            constants.append({"op": "const", "id": result, "shape": [], "value": 1, **common})
            continue
        constants.append({"op": "const", "id": fresh, "shape": [], "value": 1, **common})
        constants.append({"op": "view", "id": result, "args": [fresh], "map": [], "shape": shape, **common})
        fresh += 1

    def inside(statements: list[dict[str, Any]]) -> bool:
        for k, s in enumerate(statements):
            if s is target:
                statements[k : k + 1] = constants
                return True
            if any(inside(s[key]) for key in ("body", "then", "else", "condition") if isinstance(s.get(key), list)):
                return True
        return False

    inside(program["body"])


def types_of(program: Program) -> dict[int, tuple[str, list[str]]]:
    """dtype and shape of every value."""
    types: dict[int, tuple[str, list[str]]] = {}

    def visit(statements: list[dict[str, Any]]) -> None:
        for s in statements:
            for k, number in enumerate(s.get("ids", [s["id"]] if "id" in s else [])):
                types[number] = "i64" if k else s["dtype"], s["shape"]
            for c in s.get("carried", []):
                types[c["arg"]] = types[c["result"]] = types[c["init"]]
            for key in ("condition", "body", "then", "else"):
                if isinstance(s.get(key), list):
                    visit(s[key])
            for r in s.get("results", []):
                types[r["result"]] = types[r["then"]]

    visit(program["body"])
    return types


def shrink(case: Case, fails: Callable[[Case], bool], tries: int = 400) -> Case:
    """A smaller case that fails still."""
    progress = True
    while progress and tries > 0:
        progress = False
        for candidate in smaller(case):
            tries -= 1
            if tries <= 0:
                break
            try:
                failed = fails(candidate)
            except Exception:
                continue  # no valid program any more
            if failed:
                case, progress = candidate, True
                break
    return case


class DisagreementError(AssertionError):
    """A side that does not agree with the interpreter, with a small program that shows it."""


def kind_of(wrong: str | None) -> str | None:
    """What failures have in common while a case shrinks: wrong values, or the same text but for numbers and what follows them."""
    if wrong is None:
        return None
    return "values" if re.match(r"\w+\[.*\] is ", wrong) else re.split(r"[\d(\[]", wrong, maxsplit=1)[0]


def examine(made: Case, sides: Sequence[Side], level: str) -> None:
    """Raises DisagreementError with a small case if one of the sides does not agree with the interpreter."""
    reference = Reference(made)
    for side in sides:
        wrong = failure(made, side, level, reference)
        if wrong is None:
            continue
        alike = kind_of(wrong)
        small = shrink(made, lambda c, side=side, alike=alike: kind_of(failure(c, side, level)) == alike)
        raise DisagreementError(
            f"{side.__name__} at level {level}: {wrong}\nshrunk: {failure(small, side, level)}\n"
            f"sizes {small.sizes}, values of arguments {small.hints}, seed {small.seed}\n{listing(small.program)}"
        )


#: Running a program after every pass takes as long as the rest of a case several times over.
VERIFY_EVERY = 10


def case(rng: random.Random, arguments: Any) -> None:
    every_pass = (verified,) if arguments.seed % VERIFY_EVERY == 0 else ()
    examine(generate(rng), (*SIDES, *every_pass), rng.choice(levels()))


def listing(program: Program) -> str:
    """A program as JSON, one statement per line."""
    lines = [json.dumps({k: v for k, v in program.items() if k not in ("body", "params")})]
    lines += [json.dumps(p) for p in program["params"]]

    def body(statements: list[dict[str, Any]], depth: int) -> None:
        for s in statements:
            bodies = {k: v for k, v in s.items() if k in ("body", "then", "else", "condition") and isinstance(v, list)}
            rest = {k: v for k, v in s.items() if k not in bodies and k != "loc"}
            lines.append("  " * depth + json.dumps(rest))
            for key, inner in bodies.items():
                lines.append("  " * depth + f" {key}:")
                body(inner, depth + 1)

    body(program["body"], 0)
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]))
    else:
        _driver.run(case)
