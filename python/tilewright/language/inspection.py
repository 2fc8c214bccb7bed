# mypy: disable-error-code="valid-type, type-arg, attr-defined, index"
"""Looking at kernels: `kernel.explain`, `kernel.ir`, `kernel.asm`, and the command `tilewright kernel show`."""

from __future__ import annotations

import functools
import json
import pathlib
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..freezing import is_frozen
from .launch import Compiled, LaunchableKernel
from .tuning import Choice

#: In order: what a kernel is on its way to machine code. The name of a pass (docs/tile-dialect.md) is a stage too.
STAGES = ("program", "nests", "fusion", "groups", "structure", "tile", "passes", "asm")


@dataclass(frozen=True)
class Code:
    """One launch's kernel: the texts of its stages and what can be read from the assembly."""

    name: str
    tile: str
    passes: dict[str, str]
    asm: str

    @property
    def vector_bytes(self) -> int:
        """Width of the widest vector register in use; 0: scalar code."""
        return next(
            (size for size, register in ((64, "zmm"), (32, "ymm"), (16, "xmm")) if f"%{register}" in self.asm), 0
        )

    @property
    def instructions(self) -> int:
        return sum(1 for line in self.asm.splitlines() if re.match(r"\t[a-z]", line) and not line.startswith("\t."))

    @property
    def spills(self) -> int:
        """Stores of vector registers to the stack."""
        return len(re.findall(r"\tv?mov(?:ap|up|dq)\S*\t%[xyz]mm\d+, -?\d*\(%r[sb]p\)", self.asm))

    @property
    def streams(self) -> bool:
        return "movnt" in self.asm


@dataclass(frozen=True)
class Making:
    """Everything one compilation made."""

    compiled: Compiled
    report: dict[str, Any]
    texts: dict[str, str]
    codes: tuple[Code, ...]


def _passes(text: str) -> dict[str, str]:
    parts = re.split(r"^// ---- after (\S+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def make(kernel: LaunchableKernel, *args: Any, **kwargs: Any) -> Making:
    """Compiles past the cache, for arguments as `kernel.compile` takes them, and keeps every stage."""
    from .. import _C

    compiled = kernel.compile(*args, **kwargs)
    params = [{**p, "fresh": True} if p["name"] in compiled.fresh else p for p in compiled.program["params"]]
    with tempfile.TemporaryDirectory() as folder:
        report = json.loads(_C.compile_report(json.dumps({**compiled.program, "params": params}), folder))
        files = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
    texts = {"program": json.dumps(compiled.program, indent=1)}
    for stage in ("nests", "fusion", "groups"):
        texts[stage] = files.get(f"{stage}.txt", "")
    texts["structure"] = "\n".join(step["structure"] for step in report["steps"] if "structure" in step)
    codes = []
    for step in report["steps"]:
        symbol = f"tw_{step['kernel']}"
        codes.append(
            Code(
                step["kernel"],
                files[f"{symbol}.tile.mlir"],
                _passes(files[f"{symbol}.passes.mlir"]),
                files[f"{symbol}.s"],
            )
        )
    return Making(compiled, report, texts, tuple(codes))


def ir(kernel: LaunchableKernel, stage: str, *args: Any, **kwargs: Any) -> str:
    """The kernel at a stage, or after a pass. ValueError lists what there is."""
    making = make(kernel, *args, **kwargs)
    if stage in making.texts:
        return making.texts[stage]
    parts: list[str] = []
    for code in making.codes:
        text = {
            "tile": code.tile,
            "asm": code.asm,
            "passes": "\n".join(f"// ---- after {n}\n{t}" for n, t in code.passes.items()),
        }
        found = text.get(stage, code.passes.get(stage))
        if found is None:
            raise ValueError(f"no stage {stage!r}: there are {', '.join((*STAGES, *code.passes))}")
        parts.append(f"// {code.name}\n{found}")
    return "\n".join(parts)


def _median(call: Callable[[], Any], count: int = 7) -> float:
    call()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@functools.cache
def limits() -> tuple[float, float]:
    """Bytes and floating-point operations per second that this process reaches now: a large copy and a packed f32 matrix product."""
    source, target = torch.ones(16 << 20), torch.empty(16 << 20)
    copied = 2 * source.numel() * 4 / _median(lambda: target.copy_(source))
    from .. import language as tw

    m, n, k = tw.symbols("M N K")

    @tw.kernel
    def product(A: tw.In[tw.f32, m, k], B: tw.In[tw.f32, k, n], C: tw.Out[tw.f32, m, n]):
        for i, j in tw.parallel(m, n):
            acc = tw.zeros((i, j), tw.f32)
            for q in tw.range(k):
                acc += A[i, q] @ B[q, j]
            C[i, j] = acc

    size = 768
    a, b, c = (torch.ones(size, size) for _ in range(3))
    return copied, 2 * size**3 / _median(lambda: product(a, b, c))


_ROLES = {
    "plain": "",
    "packs": " (packs an operand)",
    "packed": " (reads the packed operand)",
    "unpacked": " (reads the operand as it lies: for few rows, where a packed copy would serve one call)",
}


@dataclass(frozen=True)
class Explanation:
    """What was decided for a kernel and why. Its text is for people; `making` has everything."""

    kernel: LaunchableKernel
    making: Making
    seconds: float | None = None
    keeps: bool = False  # whether packed copies of its operands outlive a call
    symbols: dict[str, int] = field(default_factory=dict)  # sizes and strides, by the report's names (s0, ..)
    tuned: Choice | None = None  # of a kernel with a space

    def _value(self, text: str) -> int:
        from .size_text import evaluate

        return int(evaluate(text, self.symbols))

    def runs(self, step: dict[str, Any]) -> bool:
        """Whether the call that was measured runs a step of the report."""
        if "spared" in step and (self.keeps or not self._value(step["spared"])) == (step["role"] == "unpacked"):
            return False
        return self._value(step["grid"]) > 0

    def __str__(self) -> str:
        program, report = self.making.compiled.program, self.making.report
        lines = [f"kernel {self.kernel.name} ({program.get('file', '?')})"]
        for p in program["params"]:
            what = p["kind"] if p["kind"] == "scalar" else f"{p['kind']} [{', '.join(p['sizes'])}] {p['layout']}"
            lines.append(f"  {p['name']}: {p['dtype']} {what}")
        lines.append("  " + ", ".join(f"s{i} = {name}" for i, name in enumerate(program["symbols"])))
        if self.tuned is not None:
            lines.append(f"  {self.tuned}")
        if report["structured"]:
            lines += [
                "one kernel with the program's own control flow, since it is more than loop nests:",
                f"  {report['structured']}",
                "tiles, loops and what is computed together (sN: sizes; by: the tile; scratch stays in cache):",
            ]
            lines += [f"  {line}" for line in self.making.texts["structure"].splitlines() if line.strip()]
        else:
            lines.append("raised to loop nests: tiles are whole dimensions, cut where the target wants it; decisions:")
            lines += [f"  {line}" for line in self.making.texts["fusion"].splitlines() or ["nothing to join"]]
        lines.append("launches:")
        for step, code in zip(report["steps"], self.making.codes, strict=True):
            lines.append(f"  {step['kernel']}{_ROLES[step['role']]}: bytes {step['bytes']}, operations {step['flops']}")
            vector = f"vectors of {code.vector_bytes} bytes" if code.vector_bytes else "scalar code"
            lines.append(
                f"    {vector}, {code.instructions} instructions, {code.spills} vector spills"
                + (", large results bypass the caches" if code.streams else "")
            )
        lines += self._limit()
        return "\n".join(lines)

    def _limit(self) -> list[str]:
        if self.seconds is None:
            return ["give tensors (kernel.explain(A, B, C)) to see which limit it meets"]
        steps = [s for s in self.making.report["steps"] if s["role"] != "packs" and self.runs(s)]
        moved = sum(self._value(s["bytes"]) for s in steps)
        work = sum(self._value(s["flops"]) for s in steps)
        bandwidth, peak = limits()
        by_bytes, by_work = moved / bandwidth, work / peak
        what, least = ("memory", by_bytes) if by_bytes >= by_work else ("arithmetic", by_work)
        share = f"{least / self.seconds:.0%} of it" if least <= self.seconds else "it runs faster, from the caches"
        return [
            f"runs in {self.seconds * 1e3:.3f} ms: {moved / self.seconds / 1e9:.1f} GB/s, {work / self.seconds / 1e9:.1f} G operations/s (estimated counts)",
            f"should meet the limit of {what}: {least * 1e3:.3f} ms at {bandwidth / 1e9:.1f} GB/s and {peak / 1e9:.1f} GFLOP/s measured beside; "
            f"{share}",
        ]


def explain(kernel: LaunchableKernel, *args: Any, **kwargs: Any) -> Explanation:
    """With tensors: runs the kernel too, to say how close to its limit it is."""
    bound = kernel._bind(args, kwargs, complete=False)
    given = {p.name: v for p, v in zip(kernel.parameters, bound, strict=True) if isinstance(v, torch.Tensor)}
    making = make(kernel, *args, **kwargs)
    tuned = kernel.tuned(*args, **kwargs) if any(p.space for p in kernel.parameters) else None
    needed = [p.name for p in kernel.parameters if p.kind in ("in", "inout")]
    if not given or any(name not in given for name in needed):
        return Explanation(kernel, making, tuned=tuned)
    symbols: dict[str, int] = {}
    for entry in making.report["inputs"]:
        tensor = given.get(entry["name"])
        if tensor is not None:
            for texts, values in ((entry["sizes"], tensor.shape), (entry["strides"], tensor.stride())):
                symbols.update((t, int(v)) for t, v in zip(texts, values, strict=True) if re.fullmatch(r"s\d+", t))
    scalars = {p.name: v for p, v in zip(kernel.parameters, bound, strict=True) if isinstance(v, int)}
    for p in making.compiled.program["params"]:
        if "symbol" in p and p["name"] in scalars:
            symbols[f"s{p['symbol']}"] = scalars[p["name"]]

    def run() -> None:
        kernel(*args, **kwargs)
        if any(t.device.type == "npu" for t in given.values()):
            torch.npu.synchronize()

    keeps = any(t.device.type == "npu" or is_frozen(t) for t in given.values())
    return Explanation(kernel, making, _median(run), keeps, symbols, tuned)
