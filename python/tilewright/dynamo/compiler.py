"""A graph description becomes a compiled graph: the door to the native half."""

from __future__ import annotations

import json
import warnings
from typing import Any

from torch.utils._python_dispatch import _disable_current_modes

from .. import switches
from ..stats import GraphStats, recorder
from .errors import InternalError, error_from_report
from .graph import GraphDescription


def build(description: GraphDescription, text: str, stats: GraphStats) -> Any:
    """A `tilewright._C.CompiledGraph`. Raises CompileError."""
    from .. import _C

    try:
        with _disable_current_modes():  # constants may be moved to the device: truly, not as AOTAutograd's fake tensors
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
    kernels = report.get("kernels", {})
    stats.kernels_built = 0 if graph.cached else int(kernels.get("built", 0))
    stats.kernels_reused = int(kernels.get("used", 0)) - stats.kernels_built
    graph._boxed_call = True  # on the object: functools.wraps hands on what stands in __dict__
    _announce(stats)
    return graph


_announced: set[str] = set()


def _announce(stats: GraphStats) -> None:
    """Islands are never silent: one warning per operator and process."""
    if switches.fallback() != "warn":
        return
    for island in stats.islands:
        op = str(island.get("op"))
        if op in _announced:
            continue
        _announced.add(op)
        where = f" ({island['source']})" if island.get("source") else ""
        warnings.warn(
            f"tilewright: {op} is no native operator of compiled graphs: {island.get('reason')}{where}. PyTorch runs it on the same memory. "
            "(Said once per operator; TILEWRIGHT_FALLBACK=silent or error, tilewright.explain lists all.)",
            RuntimeWarning,
            stacklevel=2,
        )
