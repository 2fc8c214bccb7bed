"""The end of the report: one sentence, and what to do next, most important first."""

from __future__ import annotations

from typing import Any

from .failure import ExitCode
from .speed import BUSY
from .text import sentence


def conclude(data: dict[str, Any]) -> None:
    """Fills in `verdict` and `next` from the rest of the report."""
    data["verdict"] = _verdict(data)
    data["next"] = _next(data)


def _verdict(data: dict[str, Any]) -> dict[str, str]:
    errors = data["errors"]
    if errors:
        wrong = errors[0]["code"] in (ExitCode.NAN, ExitCode.NUMERICS)
        start = (
            "Not brought up: "
            if "compile" not in data
            else "Runs, but is not right: "
            if wrong
            else "Runs, with an error: "
        )
        return {"level": "failed", "text": start + errors[0]["what"] + "."}
    skipped = [step["name"] for step in data["steps"] if step["status"] == "skipped"]
    parts, level = ["The model runs on npu, eager and compiled"], "ok"
    if "numerics" in data:
        first = data["numerics"]["first_beyond"]
        parts.append(
            f"its results are within tolerance of {data['numerics']['reference']}"
            + (f", though {len(first)} of the runs has a layer beyond it" if first else "")
        )
        level = "warning" if first else level
    fallbacks, islands = _foreign(data)
    if "coverage" in data:
        if islands or fallbacks:
            level = "warning"
            counts = [
                f"{n} {what}"
                for n, what in ((islands, "islands when compiled"), (fallbacks, "calls fall back when eager"))
                if n
            ]
            parts.append("PyTorch's CPU kernels do a part: " + ", ".join(counts))
        else:
            parts.append("every operator is native")
    text = "; ".join(parts) + "."
    if (data.get("speed") or {}).get("spread", 1.0) > BUSY:
        text += " Its speed was measured on a busy machine and says little."
    elif best := _best(data):
        text += f" Compiled it has {best[1]:.2g} times the throughput of eager CPU at batch {best[0]}."
    if skipped:
        text += f" Not looked at: {', '.join(skipped)}."
    return {"level": level, "text": text}


def _foreign(data: dict[str, Any]) -> tuple[int, int]:
    coverage = data.get("coverage") or {}
    eager, compiled = coverage.get("eager") or {}, coverage.get("compiled") or {}
    return eager.get("calls", {}).get("fallback", 0), compiled.get("operators", {}).get("island", 0)


def _best(data: dict[str, Any]) -> tuple[int, float] | None:
    """The batch size at which compiled has the highest throughput: (batch, times eager CPU)."""
    rows = [row for row in (data.get("speed") or {}).get("batches", []) if "compiled" in row]
    if not rows:
        return None
    row = max(rows, key=lambda r: r["compiled"]["samples_per_second"])
    return row["batch"], row["compiled"]["times_cpu"]


def _next(data: dict[str, Any]) -> list[str]:
    advice = [
        f"{sentence(e['what'])}{' (' + e['where'] + ')' if e['where'] else ''}. {e['what_to_do']}.".replace("..", ".")
        for e in data["errors"]
    ]
    coverage = data.get("coverage") or {}
    compiled = coverage.get("compiled") or {}
    if compiled.get("islands"):
        names = sorted({str(i.get("op")) for i in compiled["islands"]})
        advice.append(
            f"Make {', '.join(names[:4])}{' and others' if len(names) > 4 else ''} native in compiled graphs: they take {_share(compiled['seconds'], 'island')} of a "
            "call (CONTRIBUTING.md, How to add an operator)."
        )
    eager = coverage.get("eager") or {}
    if eager.get("calls", {}).get("fallback"):
        names = [op["name"] for op in eager["operators"] if op["how"] == "fallback"]
        advice.append(
            f"Eager mode falls back for {', '.join(names[:4])}{' and others' if len(names) > 4 else ''} ({_share(eager['seconds'], 'fallback')} of its time): use the "
            "compiled model, or add these operators."
        )
    if breaks := (data.get("compile") or {}).get("graph_breaks"):
        advice.append(f"Remove {len(breaks)} graph breaks; torch.compile(..., fullgraph=True) names them.")
    slow = [
        str(r["batch"])
        for r in (data.get("speed") or {}).get("batches", [])
        if r.get("compiled", {}).get("times_cpu", 1) < 0.9
    ]
    if slow:
        advice.append(
            f"Compiled is slower than eager CPU at batch {', '.join(slow)}: the kernels with most time are listed under coverage."
        )
    largest = (data.get("memory") or {}).get("largest")
    if largest and largest["stopped_by"] == "the time of the search":
        place = (
            "larger than what was tried"
            if largest["does_not_fit"] is None
            else f"below {largest['does_not_fit']:,}, and the search was not finished"
        )
        advice.append(
            f"The largest batch is {place}: give more --search-seconds, or a smaller --memory-limit to rehearse another device."
        )
    if data["verdict"]["level"] == "ok":
        advice.append('Use it: model.to("npu"), then torch.compile(model, backend="tilewright").')
        advice.append("Try inputs of your own: other batch sizes and lengths, and what your users really send.")
    return advice


def _share(seconds: dict[str, float], part: str) -> str:
    total = sum(seconds.values())
    return f"{100 * seconds[part] / total:.0f}%" if total > 0 else "0%"
