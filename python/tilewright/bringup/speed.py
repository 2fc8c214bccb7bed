"""Step speed: latency and throughput over batch sizes, eager on the CPU, eager on npu, compiled on npu.

The ways take turns, so that a busy or throttled machine is the same for all; a turn is as many calls as fill some hundredths of a second, each
way's figure is the median over its turns, and ratios are medians of the ratios within a round.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from .failure import BringupError, ExitCode, while_running
from .session import Session
from .trees import Inputs

_TURN_SECONDS = 0.03
_ROUNDS = (3, 25)  # at least, at most
BUSY = 2.0  # slowest turn / fastest turn from which on figures are called doubtful
WAYS = ("cpu", "npu", "compiled")

Way = tuple[Callable[..., Any], Inputs, Callable[[], None]]


def speed(session: Session, progress: Callable[[str], None]) -> dict[str, Any]:
    sizes: list[int] = session.batches() or [session.example.batch() or 1]
    result: dict[str, Any] = {"cpu_threads": torch.get_num_threads(), "batches": []}
    for size in sizes:
        progress(f"batch {size}")
        try:
            inputs = session.inputs(size) if session.batches() else session.example
            result["batches"].append({"batch": size, **_measure(session, inputs)})
        except torch.OutOfMemoryError:
            session.report.find("speed", f"Batch {size} does not fit the memory limit and is not measured.")
        except BringupError as failure:
            session.report.fail(failure, "speed")
        except Exception as error:
            session.report.fail(while_running(error, f"batch {size}", ExitCode.NPU_RUN), "speed")
    spread = max(
        (
            row[way]["most_seconds"] / row[way]["least_seconds"]
            for row in result["batches"]
            for way in WAYS
            if way in row
        ),
        default=1.0,
    )
    result["spread"] = spread
    if spread > BUSY:
        session.report.find(
            "speed",
            f"The machine was busy: turns of the same work took up to {spread:.1f} times as long as the fastest. Measure on a quiet one; eager CPU suffers most, since "
            "its threads wait for each other in every operator.",
        )
    return result


def _ways(session: Session, inputs: Inputs) -> dict[str, Way]:
    ways: dict[str, Way] = {"cpu": (session.model, inputs, lambda: None)}
    synchronize = torch.npu.synchronize  # type: ignore[attr-defined]
    if session.npu_runs:
        ways["npu"] = (session.npu_model, inputs.to("npu"), synchronize)
    if session.compiles:
        ways["compiled"] = (session.compiled, inputs.to("npu"), synchronize)
    return ways


def _turn(way: Way, calls: int) -> float:
    """Seconds per call."""
    function, inputs, wait = way
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        inputs.call(function)
    wait()
    return (time.perf_counter() - start) / calls


def _measure(session: Session, inputs: Inputs) -> dict[str, Any]:
    ways = _ways(session, inputs)
    calls = {}
    for name, way in ways.items():
        _turn(way, 1)  # compiles, fills caches
        calls[name] = max(1, math.ceil(_TURN_SECONDS / max(_turn(way, 1), 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in ways}
    deadline = time.perf_counter() + session.options.seconds
    least, most = _ROUNDS
    for done in range(most):
        if done >= least and time.perf_counter() > deadline:
            break
        for name, way in ways.items():
            times[name].append(_turn(way, calls[name]))
    rows = inputs.batch() or 1
    result: dict[str, Any] = {"rounds": len(times["cpu"])}
    for name, seconds in times.items():
        median = statistics.median(seconds)
        result[name] = {
            "median_seconds": median,
            "least_seconds": min(seconds),
            "most_seconds": max(seconds),
            "samples_per_second": rows / median,
            "calls_per_turn": calls[name],
        }
        if name != "cpu":
            result[name]["times_cpu"] = statistics.median(c / s for c, s in zip(times["cpu"], seconds, strict=True))
    return result
