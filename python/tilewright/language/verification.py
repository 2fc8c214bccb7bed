"""Which pass of the compiler changes a value: `kernel.verify(...)`.

The program runs in the interpreter of kernel programs, which says what is right; then what the compiler makes of it runs in an interpreter of
its intermediate levels (lib/Interpret): as emitted, after every pass, and at last as machine code. docs/kernel-programs.md, "Verification",
says how runs are compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .check import copied
from .interpreter import run


@dataclass(frozen=True)
class Run:
    """One launch at one stage. `equal`: "bits" if it gives what the stage before gave, "tolerance" if that is so but for rounding which the
    pass is free to do, else "differs"."""

    step: str
    stage: str
    equal: str
    operations: int


@dataclass(frozen=True)
class Difference:
    """The first stage that changes something.

    `stage`: the pass after which it was seen, "tile" for the kernel as emitted, or "machine code"; `previous` is what it was compared with.
    `kind`: "value" (`buffer`, `index`, `before`, `after`, `allowed`: how far floats may be apart there, `count`: elements that differ), "error"
    (of data: `before`, `after`), or "fault" (`message`: it touches memory that is not its own, divides by zero, does not end).
    """

    kind: str
    step: str
    source: str
    stage: str
    previous: str
    buffer: str = ""
    index: tuple[int, ...] = ()
    before: str = ""
    after: str = ""
    allowed: float = 0.0
    count: int = 0
    message: str = ""

    def __str__(self) -> str:
        step = f" of {self.step}" if self.step else ""
        where = f"{self.source}: " if self.source else ""
        text = f"{where}{self.stage}{step} differs from {self.previous}: "
        if self.kind == "fault":
            return text + self.message
        if self.kind == "error":
            return f"{text}{self.before} before, {self.after} after"
        what = f"{self.buffer}{list(self.index)}" if self.index else self.buffer
        allowed = f" (they may be {self.allowed:.3g} apart)" if self.allowed else ""
        more = f", and {self.count - 1} more elements differ" if self.count > 1 else ""
        return f"{text}{what} is {self.before} before and {self.after} after{allowed}{more}"


@dataclass(frozen=True)
class Verification:
    """What `kernel.verify` found: true if every stage gives what the program says."""

    kernel: str
    level: str
    machine: bool  # whether the machine code was run; it is not where this CPU lacks the level
    runs: tuple[Run, ...]
    difference: Difference | None

    def __bool__(self) -> bool:
        return self.difference is None

    @property
    def stages(self) -> list[str]:
        """In order, as far as they were run."""
        return list(dict.fromkeys(r.stage for r in self.runs))

    def __str__(self) -> str:
        lines = [f"kernel {self.kernel} for {self.level}"]
        lines += [f"  {r.stage + (' of ' + r.step if r.step else ''):<40} {_MEANING[r.equal]}" for r in self.runs]
        if self.difference is not None:
            lines.append(str(self.difference))
        elif not self.machine:
            lines.append(f"every stage is right; the machine code was not run, since this CPU is below {self.level}")
        else:
            lines.append("every stage is right")
        return "\n".join(lines)


_MEANING = {"bits": "the same bits", "tolerance": "the same but for rounding", "differs": "differs"}


def verify(
    program: Mapping[str, Any],
    arguments: Sequence[Any],
    *,
    level: str | None = None,
    fault: tuple[str, int] | None = None,
) -> Verification:
    """Verifies a program with arguments (tensors of any device, numbers), which are not written.

    `fault`, for tests: (pass, n) changes constant or comparison n of the kernel after a pass. Raises as the interpreter does for arguments that
    do not fit and for errors of data, and TilewrightError for programs that do not compile.
    """
    from .. import _C
    from ..dynamo.errors import error_from_report

    given = [a if isinstance(a, torch.Tensor) and a.device.type == "cpu" else copied(a) for a in arguments]
    expected = [copied(a) for a in arguments]
    run(program, expected)
    options: dict[str, Any] = {"arguments": [_described(a) for a in given]}
    if level is not None:
        options["cpu"] = level
    if fault is not None:
        options["fault"] = {"after": fault[0], "number": fault[1]}
    tensors = [a if isinstance(a, torch.Tensor) else None for a in given]
    right = [a if p["kind"] in ("out", "inout") else None for p, a in zip(program["params"], expected, strict=True)]
    try:
        report = json.loads(_C.verify_kernel(json.dumps(program), json.dumps(options), tensors, right))
    except _C.CompileFailure as failure:
        raise error_from_report(json.loads(str(failure))) from None
    found = report["difference"]
    if found is not None:
        found = Difference(**{**found, "index": tuple(found.get("index", ()))})
    runs = tuple(Run(**r) for r in report["runs"])
    return Verification(report["kernel"], report["level"], report["machine"], runs, found)


def _described(argument: Any) -> dict[str, Any]:
    if isinstance(argument, torch.Tensor):
        return {"sizes": list(argument.shape), "strides": list(argument.stride())}
    return {"int": int(argument) if argument == argument and abs(argument) < 2**63 else 0, "float": float(argument)}
