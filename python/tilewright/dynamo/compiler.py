"""A graph description becomes a compiled graph: the door to the native half."""

from __future__ import annotations

import json
from typing import Any

from ..stats import GraphStats, recorder
from .errors import InternalError, error_from_report
from .graph import GraphDescription


def build(description: GraphDescription, text: str, stats: GraphStats) -> Any:
    """A `tilewright._C.CompiledGraph`. Raises CompileError."""
    from .. import _C

    try:
        graph = _C.compile_graph(
            text,
            description.arguments,
            description.inputs,
            description.outputs,
            description.output_devices,
            description.device,
        )
    except _C.CompileFailure as failure:
        raise error_from_report(json.loads(str(failure))) from None
    report = json.loads(graph.report)
    if not isinstance(report, dict):
        raise InternalError(f"the compiler's report is no object: {graph.report[:200]}")
    for phase, seconds in graph.seconds.items():
        recorder.add(phase, seconds, stats)
    stats.report = report
    stats.cached = graph.cached
    stats.islands = list(report.get("islands", []))
    stats.kernels_built = _count(report.get("kernels_built", 0))
    stats.kernels_reused = _count(report.get("kernels_reused", 0))
    return graph


def _count(entry: Any) -> int:
    return len(entry) if isinstance(entry, list) else int(entry)
