"""What compiling cost: `tilewright.compile_stats()`. Only our own share; Dynamo's and AOTAutograd's time is PyTorch's to report."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class GraphStats:
    """One graph that the back end compiled."""

    name: str
    kind: str  # inference, forward, backward
    compile_id: str  # Dynamo's, e.g. "0/1": frame 0, its second graph
    device: str
    nodes: int
    symbols: int
    seconds: dict[str, float] = field(default_factory=dict)  # by phase
    kernels_built: int = 0
    kernels_reused: int = 0
    cached: bool = False  # the program came from the cache
    islands: list[dict[str, Any]] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)  # as the compiler gave it
    #: Asks the compiled graph for the set-up time of its first run; None before it has run.
    executable: Any = None

    @property
    def first_run_seconds(self) -> float | None:
        return getattr(self.executable, "first_setup_seconds", None)


@dataclass
class Recompile:
    compile_id: str
    function: str
    reason: str


@dataclass
class CompileStats:
    """A snapshot. `own_seconds` is the sum of everything that is ours."""

    import_seconds: float
    phases: dict[str, float]
    first_run_seconds: float
    kernels_built: int
    kernels_reused: int
    graphs: list[GraphStats]
    recompiles: list[Recompile]

    @property
    def own_seconds(self) -> float:
        return self.import_seconds + sum(self.phases.values()) + self.first_run_seconds

    def to_dict(self) -> dict[str, Any]:
        return {
            "own_seconds": self.own_seconds,
            "import_seconds": self.import_seconds,
            "phases": dict(self.phases),
            "first_run_seconds": self.first_run_seconds,
            "kernels_built": self.kernels_built,
            "kernels_reused": self.kernels_reused,
            "graphs": [
                {
                    "name": g.name,
                    "kind": g.kind,
                    "compile_id": g.compile_id,
                    "device": g.device,
                    "nodes": g.nodes,
                    "symbols": g.symbols,
                    "seconds": dict(g.seconds),
                    "kernels_built": g.kernels_built,
                    "kernels_reused": g.kernels_reused,
                    "cached": g.cached,
                    "islands": g.islands,
                    "first_run_seconds": g.first_run_seconds,
                }
                for g in self.graphs
            ],
            "recompiles": [vars(r) for r in self.recompiles],
        }

    def __str__(self) -> str:
        lines = [
            f"own share of compiling: {self.own_seconds:.3f} s",
            f"  import of our modules  {self.import_seconds:8.3f} s",
        ]
        lines += [f"  {phase:<22} {seconds:8.3f} s" for phase, seconds in self.phases.items()]
        lines.append(f"  set-up of first runs   {self.first_run_seconds:8.3f} s")
        lines.append(f"kernels: {self.kernels_built} built, {self.kernels_reused} reused")
        lines.append(f"graphs: {len(self.graphs)}")
        for g in self.graphs:
            what = f"{g.nodes} operators, {g.symbols} symbolic sizes, {len(g.islands)} islands" + (
                ", cached" if g.cached else ""
            )
            lines.append(f"  [{g.compile_id}] {g.name} ({g.kind}, {g.device}): {what}, {sum(g.seconds.values()):.3f} s")
        if self.recompiles:
            lines.append("recompiles:")
            lines += [f"  [{r.compile_id}] {r.function}: {r.reason}" for r in self.recompiles]
        return "\n".join(lines)


class _Recorder:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.graphs: list[GraphStats] = []
        self.phases: dict[str, float] = {}
        self.import_seconds = 0.0
        self.compile_ids: set[str] = set()

    def add(self, phase: str, seconds: float, graph: GraphStats | None = None) -> None:
        with self.lock:
            self.phases[phase] = self.phases.get(phase, 0.0) + seconds
            if graph is not None:
                graph.seconds[phase] = graph.seconds.get(phase, 0.0) + seconds

    @contextlib.contextmanager
    def phase(self, name: str, graph: GraphStats | None = None) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start, graph)


recorder = _Recorder()


def compile_stats() -> CompileStats:
    """What the back end has done in this process since the start or `reset_compile_stats`."""
    package_import = getattr(sys.modules.get("tilewright"), "_import_seconds", 0.0)
    with recorder.lock:
        graphs = list(recorder.graphs)
        return CompileStats(
            import_seconds=package_import + recorder.import_seconds,
            phases=dict(recorder.phases),
            first_run_seconds=sum(g.first_run_seconds or 0.0 for g in graphs),
            kernels_built=sum(g.kernels_built for g in graphs),
            kernels_reused=sum(g.kernels_reused for g in graphs),
            graphs=graphs,
            recompiles=_recompiles(set(recorder.compile_ids)),
        )


def reset_compile_stats() -> None:
    with recorder.lock:
        recorder.graphs.clear()
        recorder.phases.clear()
        recorder.import_seconds = 0.0
        recorder.compile_ids.clear()


def _recompiles(ours: set[str]) -> list[Recompile]:
    """From Dynamo's own record (it keeps the last 64 compilations)."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return []
    found: dict[str, Recompile] = {}
    for metrics in utils.get_compilation_metrics():
        compile_id, reason = str(metrics.compile_id), metrics.recompile_reason
        if compile_id in ours and reason:
            found[compile_id] = Recompile(compile_id, metrics.co_name or "?", reason)
    return list(found.values())
