"""report.html from the contents of report.json: one file that needs nothing else. Every part is shown only if its step has run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from . import charts
from .sections import coverage_section, first_call_section, memory_section, numerics_section, speed_section
from .style import STYLE
from .tables import definitions, table
from .text import bytes_text, error_text, escape, factor_text, percent_text, seconds_text, sentence

_TITLES = {"ok": "Brought up", "warning": "Brought up, with reservations", "failed": "Not right yet"}


def page(data: dict[str, Any]) -> str:
    title = f"Bring-up of {data['spec']}"
    body = [_head(data), _tiles(data), _next(data), _errors(data), _findings(data)]
    for name, section in (
        ("numerics", numerics_section),
        ("coverage", coverage_section),
        ("memory", memory_section),
        ("speed", speed_section),
        ("compile", first_call_section),
    ):
        if data.get(name):
            body.append(section(data[name]))
    body += [_model(data), _environment(data), _steps(data)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(filter(None, body))
        + "\n</main></body></html>\n"
    )


def _head(data: dict[str, Any]) -> str:
    if data["verdict"]:
        level, text = data["verdict"]["level"], data["verdict"]["text"]
        heading = _TITLES[level]
    else:
        level, heading = "warning", "Still running"
        text = f"This is a partial report, written after the step {data['steps'][-1]['name'] if data['steps'] else 'start'}."
    environment = data.get("environment") or {}
    device = f" · {escape(environment['device'])}" if "device" in environment else ""
    return (
        f'<p class="kicker">Tilewright bring-up · {escape(data["started"][:16].replace("T", " "))}{device}</p><h1>{escape(data["spec"])}</h1>'
        f'<div class="verdict {level}"><b>{heading}</b><p>{escape(text)}</p></div>'
    )


def _tiles(data: dict[str, Any]) -> str:
    tiles: list[tuple[str, str]] = []
    numerics = data.get("numerics")
    if numerics and numerics["layers"]:
        output = numerics["layers"][-1]
        best = "compiled" if "compiled" in output else "npu"
        if best in output:
            cpu = f", eager CPU {error_text(output['cpu']['max_abs'])}" if "cpu" in output else ""
            tiles.append((error_text(output[best]["max_abs"]), f"largest error of the result, {best}{cpu}"))
    compiled = (data.get("coverage") or {}).get("compiled")
    if compiled:
        operators = compiled["operators"]
        tiles.append(
            (
                percent_text(operators["native"], operators["native"] + operators["island"]),
                "of the graph's operators are native",
            )
        )
    if rows := [row for row in (data.get("speed") or {}).get("batches", []) if "compiled" in row]:
        row = max(rows, key=lambda r: r["compiled"]["samples_per_second"])
        tiles.append(
            (factor_text(row["compiled"]["times_cpu"]), f"eager CPU's throughput, compiled, batch {row['batch']}")
        )
    if largest := (data.get("memory") or {}).get("largest"):
        least = "≥ " if largest["does_not_fit"] is None else ""
        tiles.append((f"{least}{largest['batch']:,}", f"largest batch in {bytes_text(data['memory']['limit_bytes'])}"))
    if first := data.get("compile"):
        tiles.append(
            (seconds_text(first["total_seconds"]), f"first call, of which ours {seconds_text(first['own_seconds'])}")
        )
    return (
        f'<div class="tiles">{"".join(f"<div class=tile><b>{escape(b)}</b><span>{escape(t)}</span></div>" for b, t in tiles)}</div>'
        if tiles
        else ""
    )


def _next(data: dict[str, Any]) -> str:
    if not data["next"]:
        return ""
    items = [re.sub(r"(?<=\s)--[a-z-]+", r"<code>\g<0></code>", escape(text)) for text in data["next"]]
    return "<h2>What to do next</h2><ol>" + "".join(f"<li>{item}</li>" for item in items) + "</ol>"


def _errors(data: dict[str, Any]) -> str:
    if not data["errors"]:
        return ""
    parts = ["<h2>Errors</h2>"]
    for error in data["errors"]:
        detail = (
            f"<details><summary>Detail</summary><pre>{escape(error['detail'])}</pre></details>"
            if error["detail"]
            else ""
        )
        where = f'<p class="m">{escape(error["where"])} · step {escape(error["step"])}</p>'
        parts.append(
            f'<div class="error"><b>{escape(sentence(error["what"]))}</b>{where}<p>{escape(error["what_to_do"])}</p>{detail}</div>'
        )
    return "".join(parts)


def _findings(data: dict[str, Any]) -> str:
    if not data["findings"]:
        return ""
    return "<h3>Worth knowing</h3><ul>" + "".join(f"<li>{escape(f['text'])}</li>" for f in data["findings"]) + "</ul>"


def _model(data: dict[str, Any]) -> str:
    load = data.get("load")
    if not load:
        return ""
    sample = data.get("sample") or {}

    def shapes(values: Sequence[dict[str, Any]]) -> str:
        return ", ".join(f"{v['name']} {v['dtype']}{v['shape']}" for v in values)

    rows = [
        ("class", load["class"]),
        (
            "parameters",
            f"{load['parameters']:,} ({', '.join(load['dtypes'])}), {bytes_text(load['weight_bytes'])} with buffers",
        ),
        (
            "modules",
            f"{load['modules']}: " + ", ".join(f"{count} {name}" for name, count in load["module_types"].items()),
        ),
        ("example", shapes(load["inputs"])),
    ]
    if sample.get("outputs"):
        rows.append(("result", shapes(sample["outputs"][:6])))
    return "<h2>Model</h2>" + definitions(rows)


def _environment(data: dict[str, Any]) -> str:
    found = data.get("environment")
    if not found:
        return ""
    probe = found.get("probe") or {}
    rows = [("device", found.get("device", "–")), ("system", probe.get("system", "–"))]
    if "torch" in found:
        rows += [
            ("vectors", f"{found['cpu_level']}, {found['vector_bits']} bits"),
            ("threads", f"npu {found['npu_threads']}, PyTorch's CPU operators {found['cpu_threads']}"),
            ("memory limit", bytes_text(found["memory_limit_bytes"])),
            (
                "software",
                f"Tilewright {found['tilewright']}, PyTorch {found['torch']}, Python {found['python']}"
                + "".join(f", {n} {v}" for n, v in found["packages"].items()),
            ),
        ]
    if probe.get("switches"):
        rows.append(("switches", ", ".join(f"{k}={v}" for k, v in probe["switches"].items())))
    if probe.get("unknown_switches"):
        rows.append(("no switches", ", ".join(probe["unknown_switches"]) + " (misspelt?)"))
    return "<h2>Environment</h2>" + definitions(rows)


def _steps(data: dict[str, Any]) -> str:
    rows = [
        [s["name"], (s["status"], f"s-{s['status']}"), seconds_text(s["seconds"]) if s["seconds"] else "–"]
        for s in data["steps"]
    ]
    total = f"<p class=m>{seconds_text(data['seconds'])} in all. Schema: {data['schema']['name']}, version {data['schema']['version']}.</p>"
    return "<h2>Steps</h2>" + table(["step", "outcome", "time"], rows) + total


__all__ = ["charts", "page"]
