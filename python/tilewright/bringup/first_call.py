"""Step compile: the first call of the compiled model, and where its time goes.

The program cache is an empty folder of this run (runner.py), so that nothing is there from before.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

import torch

import tilewright

from .failure import ExitCode, while_running
from .session import Session


def first_call(session: Session) -> dict[str, Any]:
    """Compiles the model for the example. Raises BringupError."""
    start = time.perf_counter()
    dynamo = importlib.import_module(
        "torch._dynamo"
    )  # here and not above: it is what the first torch.compile of a process pays
    import_dynamo = time.perf_counter() - start
    counters, compilation_time_metrics = dynamo.utils.counters, dynamo.utils.compilation_time_metrics
    dynamo.reset()
    tilewright.reset_compile_stats()
    compilation_time_metrics.clear()
    breaks_before = dict(counters["graph_break"])
    inputs = session.example.to("npu")
    torch.npu.synchronize()  # type: ignore[attr-defined]

    start = time.perf_counter()
    try:
        inputs.call(session.compiled)
        torch.npu.synchronize()  # type: ignore[attr-defined]
    except Exception as error:
        raise while_running(error, "npu compiled", ExitCode.COMPILE) from error
    total = time.perf_counter() - start
    session.compiles = True

    start = time.perf_counter()
    inputs.call(session.compiled)
    torch.npu.synchronize()  # type: ignore[attr-defined]
    second = time.perf_counter() - start

    stats = tilewright.compile_stats()
    session.graphs = stats.graphs
    frame = sum(
        compilation_time_metrics.get("entire_frame_compile", compilation_time_metrics.get("_compile.compile_inner", []))
    )
    backend = sum(
        compilation_time_metrics.get(
            "backend_compile", compilation_time_metrics.get("OutputGraph.call_user_compiler", [])
        )
    )
    own = sum(stats.phases.values())
    breaks = [reason for reason, count in counters["graph_break"].items() if count > breaks_before.get(reason, 0)]
    graphs = stats.to_dict()["graphs"]
    for entry, graph in zip(graphs, stats.graphs, strict=True):
        entry["compiler_phases"] = {p["phase"]: p["seconds"] for p in graph.report.get("phases", [])}
    if breaks:
        session.report.find(
            "compile",
            f"{len(breaks)} graph breaks: Python runs between the graphs. The first: {breaks[0].strip().splitlines()[0]}",
        )
    return {
        "total_seconds": total,
        "second_call_seconds": second,
        "own_seconds": stats.own_seconds,
        "parts": {
            "dynamo": max(frame - backend, 0.0),
            "aot_autograd": max(backend - own, 0.0),
            "own_import": stats.import_seconds,
            **{f"own_{phase}": seconds for phase, seconds in stats.phases.items()},
            "own_first_run": stats.first_run_seconds,
            "run": max(total - frame - stats.import_seconds - stats.first_run_seconds, 0.0),
        },
        "import_dynamo_seconds": import_dynamo,  # before the first call; often done by others
        "kernels_built": stats.kernels_built,
        "kernels_reused": stats.kernels_reused,
        "graphs": graphs,
        "graph_breaks": [b.strip().splitlines()[0] for b in breaks],
    }
