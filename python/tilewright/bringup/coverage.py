"""Step coverage: which operators npu runs itself, which PyTorch runs for it, and what share of the time each has.

Eager: every operator is timed by itself, the device drained before and after, so that a queued operator is charged with its own time. The sum is
therefore more than the time of an undisturbed call; shares are what counts. Compiled: the runtime's own clock around each kernel;
islands by PyTorch's profiler, since in a compiled call only islands call its operators.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .. import _C
from .failure import ExitCode, while_running
from .session import Session

_LISTED = 40  # operators and kernels of each list in the report, by time


def coverage(session: Session) -> dict[str, Any]:
    result: dict[str, Any] = {"eager": None, "compiled": None}
    if session.npu_runs:
        try:
            result["eager"] = _eager(session)
        except Exception as error:
            session.report.fail(while_running(error, "npu eager, operator by operator", ExitCode.NPU_RUN), "coverage")
    if session.compiles:
        result["compiled"] = _compiled(session)
    return result


class _OperatorClock(TorchDispatchMode):
    """Counts and times every operator that reaches the device, and sees which of them fell back."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, int] = defaultdict(int)
        self.seconds: dict[str, float] = defaultdict(float)
        self.fallbacks: dict[str, set[str]] = defaultdict(set)
        self.views: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        before = torch.npu.fallback_counts()  # type: ignore[attr-defined]
        torch.npu.synchronize()  # type: ignore[attr-defined]
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        torch.npu.synchronize()  # type: ignore[attr-defined]
        self.seconds[name] += time.perf_counter() - start
        self.calls[name] += 1
        after = torch.npu.fallback_counts()  # type: ignore[attr-defined]
        self.fallbacks[name].update(op for op, count in after.items() if count > before.get(op, 0))
        if func.is_view:
            self.views.add(name)
        return result


def _eager(session: Session) -> dict[str, Any]:
    inputs = session.example.to("npu")
    inputs.call(session.npu_model)  # what is made at the first call (kernels of this signature) is not counted
    with _OperatorClock() as clock:
        inputs.call(session.npu_model)
    operators = []
    calls: dict[str, int] = {"native": 0, "view": 0, "fallback": 0}
    seconds = {"native": 0.0, "view": 0.0, "fallback": 0.0}
    for name, count in clock.calls.items():
        how = "fallback" if clock.fallbacks[name] else "view" if name in clock.views else "native"
        calls[how] += count
        seconds[how] += clock.seconds[name]
        operators.append(
            {
                "name": name,
                "calls": count,
                "seconds": clock.seconds[name],
                "how": how,
                "through": sorted(clock.fallbacks[name]),
            }
        )
    operators.sort(key=lambda op: -op["seconds"])
    return {"calls": calls, "seconds": seconds, "operators": operators[:_LISTED], "distinct": len(operators)}


def _compiled(session: Session) -> dict[str, Any]:
    graphs = session.graphs
    islands = [island for graph in graphs for island in graph.islands]
    inputs = session.example.to("npu")
    inputs.call(session.compiled)
    torch.npu.synchronize()  # type: ignore[attr-defined]
    # One call for both clocks, so that shares are of the same time. PyTorch's profiler costs something: only where there are islands.
    profiler = torch.autograd.profiler.profile(enabled=bool(islands), use_kineto=False)
    _C.start_kernel_profile()
    try:
        with profiler:
            start = time.perf_counter()
            inputs.call(session.compiled)
            torch.npu.synchronize()  # type: ignore[attr-defined]
            wall = time.perf_counter() - start
    finally:
        profile = _C.stop_kernel_profile()
    island_seconds, island_calls = _outermost((profiler.function_events or []) if islands else [])
    operators = sum(graph.nodes for graph in graphs)
    kernel_seconds = sum(kernel["seconds"] for kernel in profile)
    names: dict[str, list[str]] = {}
    for graph in graphs:
        for step in graph.report.get("steps", []):
            if "kernel" in step:
                names.setdefault(step["kernel"], sorted(set(map(str, step.get("ops", [])))))
    kernels: dict[str, dict[str, Any]] = {}
    for entry in profile:
        total = kernels.setdefault(
            entry["kernel"],
            {
                "name": entry["kernel"],
                "ops": names.get(entry["kernel"], []),
                "calls": 0,
                "seconds": 0.0,
                "bytes": 0,
                "flops": 0,
            },
        )
        for key in ("calls", "seconds", "bytes", "flops"):
            total[key] += entry[key]
    listed = sorted(kernels.values(), key=lambda kernel: -kernel["seconds"])
    return {
        "graphs": len(graphs),
        "operators": {"native": operators - len(islands), "island": len(islands)},
        "kernel_launches": sum(entry["calls"] for entry in profile),
        "seconds": {
            "native": kernel_seconds,
            "island": sum(island_seconds.values()),
            "other": max(wall - kernel_seconds - sum(island_seconds.values()), 0.0),
        },
        "wall_seconds": wall,
        "kernels": listed[:_LISTED],
        "distinct_kernels": len(listed),
        "islands": [dict(island) for island in islands],
        "island_operators": [
            {"name": n, "calls": island_calls[n], "seconds": s}
            for n, s in sorted(island_seconds.items(), key=lambda item: -item[1])
        ],
    }


def _outermost(events: Iterable[Any]) -> tuple[dict[str, float], dict[str, int]]:
    """Operators of PyTorch that a compiled call ran: name -> seconds, calls. Operators inside others do not count."""
    seconds: dict[str, float] = defaultdict(float)
    calls: dict[str, int] = defaultdict(int)
    for event in events:
        parent = event.cpu_parent
        if event.name.startswith("aten::") and not (parent is not None and parent.name.startswith("aten::")):
            seconds[event.name] += event.cpu_time_total * 1e-6
            calls[event.name] += 1
    return dict(seconds), dict(calls)
