"""Run-time checking of kernel programs: `kernel.check(...)` and `TILEWRIGHT_CHECK=1`.

The program runs in the interpreter on copies of the arguments, with a shadow of every output that remembers which grid point wrote, added to
or read each element. Found are indices outside their tensor, reads of elements that nobody wrote, races between grid points, elements of
outputs that are never written, indices computed in integers that overflow, failed assertions, zero divisors and sizes outside their bounds. Where
the compiler chooses tiles and nothing else is wrong, the program runs once more with other ones: its results must be the same.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import semantics
from .interpreter import Interpreter, Observer, Order, Statement, Tiles, Value, a_dozen_tiles, walk

Point = dict[str, tuple[int, int | None]]

#: How many statements of one kind of finding are told; the rest are the same fault over again, or come to light after it.
LIMIT = 3


#: How far apart sums in another order may be, as a part of the largest result.
ORDER_OF_SUMS = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 6e-2, torch.float16: 1e-2}


@dataclass(frozen=True)
class Finding:
    """One fault at one statement.

    `kind`: out-of-bounds, uninitialised, race, unwritten, overflow, zero-divisor, bound, assert or
    tile-dependent. `points`: the grid points that take part,
    axis name -> (start, size), size None for scalar axes. `count`: how many elements it concerns; the text tells of the first.
    """

    kind: str
    file: str
    line: int
    column: int
    source: str
    message: str
    points: tuple[Point, ...]
    count: int

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}: {self.message}"
        return f"{text}\n    {self.source}" if self.source else text


class KernelCheckError(RuntimeError):
    """What checking found, as text and as `findings`."""

    def __init__(self, kernel: str, findings: list[Finding]) -> None:
        self.findings = findings
        what = "1 fault" if len(findings) == 1 else f"{len(findings)} faults"
        super().__init__("\n".join([f"{what} found in {kernel}:", *map(str, findings)]))


def check(
    program: Mapping[str, Any],
    arguments: Sequence[Any],
    *,
    tiles: Tiles = None,
    order: Order = "row-major",
) -> list[Finding]:
    """Runs a program on copies of the arguments (tensors of any device, numbers) and returns what is wrong, the first few of each kind.

    Raises TypeError and ValueError, as the interpreter does, for arguments that do not fit the program.
    """
    checker = Checker(program)
    results = [copied(a) for a in arguments]
    Interpreter(program, results, tiles=tiles, checker=checker, order=order).run()
    if not checker.findings() and any(None in _tiles(s) for s in walk(program["body"])):
        others = [copied(a) for a in arguments]
        Interpreter(program, others, tiles=_other_tiles, order=order).run()
        checker.compare(results, others)
    return checker.findings()


def _other_tiles(indices: int) -> int:
    """Sizes that the first run's is no multiple of, where tiles are left to the compiler."""
    return a_dozen_tiles(indices) * 3 // 2 + 1


def _tiles(statement: Statement) -> list[Any]:
    axes = (
        statement["axes"] if statement["op"] == "parallel" else [statement["axis"]] if statement["op"] == "for" else []
    )
    return [axis["tile"] for axis in axes]


def check_or_raise(program: Mapping[str, Any], arguments: Sequence[Any], **options: Any) -> None:
    """`check`, raising KernelCheckError if it finds anything."""
    findings = check(program, arguments, **options)
    if findings:
        raise KernelCheckError(program["name"], findings)


def copied(argument: Any) -> Any:
    """A copy on the CPU with the same strides: what is a view of other memory, or expanded, stays one."""
    if not isinstance(argument, torch.Tensor):
        return argument
    argument = argument.detach()
    if argument.numel() == 0:
        return torch.empty_strided(argument.shape, argument.stride(), dtype=argument.dtype)
    extent = 1 + sum((n - 1) * s for n, s in zip(argument.shape, argument.stride(), strict=True))
    memory = argument.as_strided((extent,), (1,)).cpu().clone()
    return memory.as_strided(argument.shape, argument.stride(), 0)


_SHIFT = (
    20  # an event is grid point << _SHIFT | statement; -1 is no event; grid point 0 is what stands before `parallel`
)


class _Shadow:
    """Who touched each element of one output: the last write, and two reads and additions by different grid points if there are."""

    def __init__(self, elements: int) -> None:
        self.write, *rest = (torch.full((elements,), -1, dtype=torch.int64) for _ in range(5))
        self.reads, self.atomics = rest[:2], rest[2:]

    def other(self, events: Sequence[torch.Tensor], elements: torch.Tensor, point: int) -> torch.Tensor:
        """Per element an event of another grid point, or -1."""
        found = torch.full_like(elements, -1)
        for event in events:
            e = event[elements]
            at = e >> _SHIFT
            found = torch.where((at > 0) & (at != point), e, found)
        return found

    @staticmethod
    def note(events: Sequence[torch.Tensor], elements: torch.Tensor, event: int) -> None:
        first, second = events
        point = event >> _SHIFT
        unseen = first[elements] < 0
        first[elements[unseen]] = event
        second[elements[(first[elements] >> _SHIFT) != point]] = event


class Checker(Observer):
    """Collects findings. One per run."""

    def __init__(self, program: Mapping[str, Any]) -> None:
        self.program = program
        self.statements = list(walk(program["body"]))
        self.numbers = {id(s): k for k, s in enumerate(self.statements)}
        self.in_indices = _flows_into_indices(self.statements)
        self.points: list[Point] = [{}]
        self.found: dict[tuple[str, int], Finding] = {}

    def start(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.shadows = {
            k: _Shadow(interpreter.arguments[k].numel())
            for k, p in enumerate(interpreter.params)
            if p["kind"] in ("out", "inout")
        }

    def enter(self, point: Point) -> None:
        self.points.append(point)

    # -- what is told

    def findings(self) -> list[Finding]:
        return list(self.found.values())

    def _tell(self, kind: str, statement: Statement, text: str, count: int, *points: Point) -> None:
        key = (kind, id(statement))
        before = self.found.get(key)
        if before is not None:
            self.found[key] = Finding(**{**vars(before), "count": before.count + count})
            return
        if sum(1 for k, _ in self.found if k == kind) >= LIMIT:
            return
        line, column = statement.get("loc", (0, 0))
        source = linecache.getline(self.file, line).strip()
        self.found[key] = Finding(kind, self.file, line, column, source, text, points, count)

    def data_error(self, statement: Statement, kind: str, text: str, count: int = 1) -> None:
        self._tell(kind, statement, f"{text}{self._at(self.points[-1])}", count, self.points[-1])

    def _at(self, point: Point) -> str:
        return f", at grid point {_text(point)}" if point else ""

    def _element(self, param: int, element: int) -> str:
        name, shape = self.program["params"][param]["name"], self.interpreter.arguments[param].shape
        position = []
        for n in reversed(shape):
            position.append(element % n)
            element //= n
        return f"{name}{position[::-1]}" if shape else name

    # -- memory

    def _event(self, statement: Statement) -> int:
        return (len(self.points) - 1) << _SHIFT | self.numbers[id(statement)]

    def read(self, statement: Statement, param: int, elements: torch.Tensor) -> None:
        shadow = self.shadows.get(param)
        if shadow is None:
            return
        self._uninitialised(statement, param, elements, "reads")
        self._race(statement, param, elements, "reads", writes=[shadow.write], adds=shadow.atomics)
        shadow.note(shadow.reads, elements, self._event(statement))

    def write(self, statement: Statement, param: int, elements: torch.Tensor) -> None:
        shadow = self.shadows[param]
        self._race(statement, param, elements, "writes", writes=[shadow.write], reads=shadow.reads, adds=shadow.atomics)
        targets, times = elements.unique(return_counts=True)
        if (times > 1).any():
            first = int((times > 1).nonzero()[0])
            self._tell(
                "race",
                statement,
                f"one store writes {self._element(param, int(targets[first]))} {int(times[first])} times{self._at(self.points[-1])}",
                int((times > 1).sum()),
                self.points[-1],
            )
        shadow.write[elements] = self._event(statement)

    def atomic(self, statement: Statement, param: int, elements: torch.Tensor) -> None:
        shadow = self.shadows[param]
        self._uninitialised(statement, param, elements, "adds to")
        self._race(statement, param, elements, "adds to", writes=[shadow.write], reads=shadow.reads)
        shadow.note(shadow.atomics, elements, self._event(statement))

    def _uninitialised(self, statement: Statement, param: int, elements: torch.Tensor, verb: str) -> None:
        if self.program["params"][param]["kind"] != "out":
            return
        shadow = self.shadows[param]
        bare = elements[(shadow.write[elements] < 0) & (shadow.atomics[0][elements] < 0)]
        if bare.numel():
            self._tell(
                "uninitialised",
                statement,
                f"{statement['op']} {verb} {self._element(param, int(bare[0]))} before anything has written it"
                f"{self._at(self.points[-1])}",
                bare.numel(),
                self.points[-1],
            )

    def _race(
        self, statement: Statement, param: int, elements: torch.Tensor, verb: str, **others: Sequence[torch.Tensor]
    ) -> None:
        shadow, point = self.shadows[param], len(self.points) - 1
        if point == 0:
            return
        for what, events in others.items():
            found = shadow.other(events, elements, point)
            hit = (found >= 0).nonzero().flatten()
            if not hit.numel():
                continue
            event = int(found[hit[0]])
            other = self.statements[event & ((1 << _SHIFT) - 1)]
            other_verb = {"writes": "writes", "reads": "reads", "adds": "adds to"}[what]
            other_point = self.points[event >> _SHIFT]
            line = f" (line {other['loc'][0]})" if other is not statement else ""
            too = " too" if other_verb == verb else ""
            self._tell(
                "race",
                statement,
                f"grid point {_text(self.points[point])} {verb} {self._element(param, int(elements[hit[0]]))}, "
                f"which grid point {_text(other_point)} {other_verb}{too}{line}",
                hit.numel(),
                self.points[point],
                other_point,
            )

    def finish(self) -> None:
        has_grid = any(s["op"] == "parallel" for s in self.program["body"])
        if has_grid and len(self.points) == 1:
            return  # an empty grid writes nothing, as it says
        for k, shadow in self.shadows.items():
            param = self.program["params"][k]
            bare = ((shadow.write < 0) & (shadow.atomics[0] < 0)).nonzero().flatten()
            if param["kind"] == "out" and bare.numel():
                more = f" and {bare.numel() - 1} more of its elements are" if bare.numel() > 1 else " is"
                self._tell("unwritten", param, f"{self._element(k, int(bare[0]))}{more} never written", bare.numel())

    def compare(self, results: Sequence[Any], others: Sequence[Any]) -> None:
        """Tells of outputs that two runs with different tiles do not agree on."""
        for k in self.shadows:
            x, y = results[k], others[k]
            differ = x != y
            if x.dtype in ORDER_OF_SUMS:
                finite = x[x.isfinite()].abs()
                allowed = ORDER_OF_SUMS[x.dtype] * (float(finite.max()) if finite.numel() else 0.0)
                differ &= ~(x.isnan() & y.isnan()) & ~((x - y).abs() <= allowed)
            where = differ.nonzero()
            if where.numel():
                at = tuple(where[0].tolist())
                store = next(s for s in self.statements if s["op"] in ("store", "atomic_add") and s["param"] == k)
                self._tell(
                    "tile-dependent",
                    store,
                    f"{self.program['params'][k]['name']}{list(at) or ''} is {x[at].item()} or {y[at].item()}, depending on the tiles that"
                    " the compiler chooses",
                    len(where),
                )

    # -- arithmetic

    def operation(self, statement: Statement, args: Sequence[Value]) -> None:
        if statement["id"] not in self.in_indices or statement["dtype"] not in semantics.SIGNED:
            return
        if any(a.dtype not in semantics.INTEGERS for a in args):
            return
        wrapped = _wraps(statement, [a.data for a in args], args[0].dtype)
        if wrapped is None or not wrapped.any():
            return
        where = wrapped.nonzero()[0].tolist()
        operands = (
            ", ".join(str(int(a.data[tuple(where)])) for a in args) if args[0].data.shape == wrapped.shape else "a tile"
        )
        self._tell(
            "overflow",
            statement,
            f"{statement.get('kind', statement['op'])} of {operands} does not fit {statement['dtype']}, and an index is computed from it"
            f"{f' (at {where})' if where else ''}; compute indices in i64{self._at(self.points[-1])}",
            int(wrapped.sum()),
            self.points[-1],
        )


def _text(point: Point) -> str:
    axes = [f"{name} = {start}" + (f"..{start + size - 1}" if size is not None and size > 1 else "") for name, (start, size) in point.items()]  # fmt: skip
    return "(" + ", ".join(axes) + ")"


def _wraps(statement: Statement, args: list[torch.Tensor], source: str) -> torch.Tensor | None:
    """Which elements of a signed integer result are not the exact one; None for operations that are always exact."""
    op, dtype = statement["op"], statement["dtype"]
    if op in ("reduce", "scan"):
        if statement["kind"] not in ("sum", "prod"):
            return None
        axes = statement["axes"] if op == "reduce" else [statement["axis"]]
        exact = args[0].double()
        for axis in sorted(axes, reverse=True):
            exact = getattr(exact, statement["kind"] if op == "reduce" else f"cum{statement['kind']}")(axis)
    elif op in ("add", "sub", "mul", "neg", "abs", "shl"):
        x, y = args[0].double(), args[-1].double()
        exact = {
            "add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y, "neg": lambda: -x, "abs": lambda: x.abs(),
            "shl": lambda: x * torch.exp2(y),
        }[op]()  # fmt: skip
    elif op == "cast":
        exact = args[0].double() if source != "u64" else torch.where(args[0] < 0, 2.0**63, args[0].double())
    else:
        return None
    # Exact for types below 64 bits; there only results about the limit itself could be misjudged, which no index comes near.
    limit = 2.0 ** (semantics.bits(dtype) - 1)
    return (exact < -limit) | (exact >= limit)


def _flows_into_indices(statements: list[Statement]) -> set[int]:
    """Values from which a load's or store's index or a bound size is computed. What only decides (conditions) does not count."""
    sources: dict[int, list[int]] = {}
    boolean: set[int] = set()
    pending: list[int] = []
    for s in statements:
        for number in [s["id"]] if "id" in s else s.get("ids", []):
            sources[number] = list(s.get("args", []))
            if s.get("dtype") == "bool":
                boolean.add(number)
        for c in s.get("carried", []):
            sources[c["arg"]] = sources[c["result"]] = [c["init"], c["next"]]
        for r in s.get("results", []):
            sources[r["result"]] = [r["then"], r["else"]]
        pending += [entry["value"] for entry in s.get("index", []) if "value" in entry]
        if s["op"] == "bind":
            pending.append(s["value"])
    reached: set[int] = set()
    while pending:
        number = pending.pop()
        if number not in reached and number not in boolean:
            reached.add(number)
            pending += sources.get(number, [])
    return reached
