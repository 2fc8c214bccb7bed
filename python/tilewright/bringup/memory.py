"""Step memory: weights, activations, peak, the compiled model's plan, and the largest batch that fits the device's limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from .failure import BringupError, ExitCode, while_running
from .sample import weight_bytes
from .session import Session


def memory(session: Session) -> dict[str, Any]:
    limit = torch.npu.mem_get_info()[1]  # type: ignore[attr-defined]
    result: dict[str, Any] = {
        "limit_bytes": limit,
        "weight_bytes": weight_bytes(session.npu_model),
        "batches": [],
        "largest": None,
        "plan": None,
    }
    ways: dict[str, Callable[..., Any]] = {}
    if session.npu_runs:
        ways["npu"] = session.npu_model
    if session.compiles:
        ways["compiled"] = session.compiled
    for batch in session.batches() or [0]:
        entry: dict[str, Any] = {"batch": batch or session.example.batch()}
        for way, call in ways.items():
            peak = _peak(session, call, batch, f"{way}, batch {batch}")
            if peak is not None:
                entry[way] = peak
        if len(entry) > 1:
            result["batches"].append(entry)
    if session.compiles:
        result["plan"] = _plan(session)
    way = "compiled" if session.compiles else "npu"
    if way in ways and session.batches():
        result["largest"] = {
            "way": way,
            **_search(session, ways[way], limit, [e for e in result["batches"] if way in e], way),
        }
    return result


def _run(session: Session, call: Callable[..., Any], batch: int) -> dict[str, Any]:
    """One call on inputs that lie on npu already: what they take, what the call takes besides, the peak of all; bytes and seconds."""
    npu = torch.npu  # type: ignore[attr-defined]
    example = session.inputs(batch) if batch else session.example
    npu.empty_cache()
    before = npu.memory_allocated()
    inputs = example.to("npu")
    npu.synchronize()
    with_inputs = npu.memory_allocated()
    npu.reset_peak_memory_stats()
    start = time.perf_counter()
    result = inputs.call(call)
    npu.synchronize()
    seconds = time.perf_counter() - start
    peak = npu.max_memory_allocated()
    del result
    return {
        "input_bytes": with_inputs - before,
        "call_bytes": peak - with_inputs,
        "peak_bytes": peak,
        "seconds": seconds,
    }


def _peak(session: Session, call: Callable[..., Any], batch: int, where: str) -> dict[str, Any] | None:
    """None: this size does not work, which is reported."""
    try:
        if batch:
            session.inputs(batch).to("npu").call(call)  # weights are packed and graphs compiled at the first call
        return _run(session, call, batch)
    except torch.OutOfMemoryError:
        session.report.find("memory", f"{where} does not fit the limit.")
    except BringupError as failure:
        session.report.fail(failure, "memory")
    except Exception as error:
        session.report.fail(while_running(error, where, ExitCode.NPU_RUN), "memory")
    return None


def _plan(session: Session) -> dict[str, Any]:
    """The example's temporaries: what they need with and without sharing memory, and packed copies of weights."""
    session.compiled_example()  # so that the graphs' last sizes are the example's
    total = {"arena_bytes": 0, "temporary_bytes": 0, "packed_bytes": 0}
    for graph in session.graphs:
        for key, value in (getattr(graph.executable, "memory", None) or {}).items():
            total[key] = total.get(key, 0) + value
    return {
        "batch": session.example.batch(),
        **total,
        "by_purpose": torch.npu.memory_by_purpose(),  # type: ignore[attr-defined]
    }


def _search(
    session: Session, call: Callable[..., Any], limit: int, known: list[dict[str, Any]], way: str
) -> dict[str, Any]:
    """By trying: steps upwards guided by the measured bytes per sample, then bisection between what fitted and what did not, until
    neighbours are found (or sizes 1.5 percent apart) or the time is over. A size counts only if it ran."""
    points = [(entry["batch"], entry[way]["peak_bytes"]) for entry in known]
    tried: list[dict[str, Any]] = [{"batch": batch, "fits": True, "peak_bytes": peak} for batch, peak in points]
    fits = max((batch for batch, _ in points), default=0)
    fails: int | None = None
    deadline = time.perf_counter() + session.options.search_seconds
    per_sample = max(
        (entry[way]["seconds"] / entry["batch"] for entry in known[-1:]), default=0.0
    )  # seconds, of the last run
    stopped = ""
    while fails is None or fails - fits > max(1, fits // 64):
        candidate = _next(fits, fails, _estimate(points, limit))
        if time.perf_counter() + 1.2 * per_sample * candidate > deadline:
            stopped = "the time of the search"
            break
        start = time.perf_counter()
        try:
            ran = _run(session, call, candidate)
        except torch.OutOfMemoryError:
            fails = candidate
            tried.append({"batch": candidate, "fits": False, "seconds": time.perf_counter() - start})
            torch.npu.empty_cache()  # type: ignore[attr-defined]
            continue
        except Exception as error:
            failure = while_running(error, f"{way}, batch {candidate}", ExitCode.NPU_RUN)
            session.report.find("memory", f"The search for the largest batch ended: {failure.line()}.")
            stopped = failure.what
            break
        seconds = time.perf_counter() - start
        per_sample = seconds / candidate
        fits = candidate
        points.append((candidate, ran["peak_bytes"]))
        tried.append({"batch": candidate, "fits": True, "peak_bytes": ran["peak_bytes"], "seconds": seconds})
    return {
        "batch": fits,
        "does_not_fit": fails,
        "stopped_by": stopped,
        "bytes_per_sample": _slope(points),
        "estimate": _estimate(points, limit) if fails is None else None,
        "tried": tried,
    }


def _next(fits: int, fails: int | None, estimate: int | None) -> int:
    """Where to try: what the measured growth predicts, but never more than eightfold and inside the bracket."""
    if fails is None:
        return max(fits + 1, min(estimate if estimate is not None else 2 * fits, 8 * max(fits, 1)))
    if estimate is not None and fits < estimate < fails:
        return estimate
    return (fits + fails) // 2


def _slope(points: list[tuple[int, int]]) -> float | None:
    """Bytes per sample between the two largest sizes."""
    largest = sorted(set(points))[-2:]
    if len(largest) < 2 or largest[0][0] == largest[1][0]:
        return None
    return (largest[1][1] - largest[0][1]) / (largest[1][0] - largest[0][0])


def _estimate(points: list[tuple[int, int]], limit: int) -> int | None:
    slope = _slope(points)
    if slope is None or slope <= 0:
        return None
    batch, peak = max(points)
    return int(batch + (limit - peak) / slope)
