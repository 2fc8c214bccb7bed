"""The measured parts of report.html, one function a step."""

from __future__ import annotations

from typing import Any

from .charts import Bar, Part, bars, growth, layers, legend, shares
from .tables import Cell, folded, table
from .text import bytes_text, count_text, error_text, escape, factor_text, percent_text, seconds_text

RUNS = {"cpu": "eager CPU", "npu": "npu eager", "compiled": "npu compiled"}


def numerics_section(data: dict[str, Any]) -> str:
    runs = [(run, RUNS[run]) for run in data["runs"]]
    entries = data["layers"]
    tolerance = data["tolerance"]
    if isinstance(tolerance, dict):  # of the dtype that most layers have
        dtypes = [layer[run]["dtype"] for layer in entries for run, _ in runs if run in layer]
        tolerance = tolerance.get(max(set(dtypes), key=dtypes.count)) if dtypes else None
    parts = [
        "<h2>Numerics, layer by layer</h2>",
        f"<p>Error of every module's result against {escape(data['reference'])}, relative to the largest value of that result. Errors gather from layer to layer; "
        f"a layer is beyond tolerance if its error is, and more than {data['cpu_factor']:.0f} times eager CPU's own.</p>",
        legend([(f"f-{run}", name) for run, name in runs]),
        layers(entries, runs, tolerance, data["first_beyond"]),
    ]
    head: list[Cell] = ["of the result", "max abs", "mean abs", "relative", "ULP p50", "p99", "max"]
    rows: list[list[Cell]] = []
    for run, name in runs:
        if found := entries[-1].get(run):
            ulp = found["ulp"] or {}
            rows.append(
                [
                    name,
                    *(error_text(found[k]) for k in ("max_abs", "mean_abs", "relative")),
                    *(_ulp(ulp.get(k)) for k in ("p50", "p99", "max")),
                ]
            )
    parts.append(table(head, rows))
    if data["first_beyond"]:
        parts.append(
            "<p>"
            + ". ".join(
                f"First layer beyond tolerance, {RUNS[run]}: <b>{escape(name)}</b>"
                for run, name in data["first_beyond"].items()
            )
            + ".</p>"
        )
    if "compiled_same_bits" in data:
        same = "gives the same bits as" if data["compiled_same_bits"] else "rounds differently from"
        parts.append(
            f'<p class="m">To see every layer, the graph was compiled with all of them as results; the plain compiled model {same} that graph.</p>'
        )
    parts.append(folded(f"All {len(entries)} layers", _layer_table(entries, runs)))
    return "".join(parts)


def _layer_table(entries: list[dict[str, Any]], runs: list[tuple[str, str]]) -> str:
    head: list[Cell] = ["layer", ("type", "l")]
    for _, name in runs:
        head += [f"{name}: max abs", "relative", "ULP p50", "p90", "p99", "max"]
    rows: list[list[Cell]] = []
    for layer in entries:
        row: list[Cell] = [
            layer["name"] + (f" (call {layer['call'] + 1})" if layer["call"] else ""),
            (layer["type"], "l"),
        ]
        for run, _ in runs:
            found = layer.get(run)
            if found is None:
                row += ["–"] * 6
                continue
            ulp = found["ulp"] or {}
            kind = "bad" if found["beyond"] else ""
            row += [
                (error_text(found["max_abs"]), kind),
                (error_text(found["relative"]), kind),
                *(_ulp(ulp.get(k)) for k in ("p50", "p90", "p99", "max")),
            ]
        rows.append(row)
    return table(head, rows, [any(layer.get(run, {}).get("beyond") for run, _ in runs) for layer in entries])


def _ulp(value: Any) -> str:
    if value is None or isinstance(value, str):
        return error_text(value)
    return f"{value:.1f}" if value < 1e4 else f"{value:.0e}"


def coverage_section(data: dict[str, Any]) -> str:
    rows: list[tuple[str, list[Part]]] = []
    eager, compiled = data["eager"], data["compiled"]
    if eager:
        for title, key, shown in (
            ("npu eager, calls", "calls", count_text),
            ("npu eager, time", "seconds", seconds_text),
        ):
            values = eager[key]
            rows.append(
                (
                    title,
                    [Part(k, values[k], f"f-{k}", f"{k} {shown(values[k])}") for k in ("native", "view", "fallback")],
                )
            )
    if compiled:
        values = compiled["operators"]
        rows.append(
            (
                "npu compiled, operators of the graphs",
                [Part(k, values[k], f"f-{k}", f"{k} {count_text(values[k])}") for k in ("native", "island")],
            )
        )
        values = compiled["seconds"]
        rows.append(
            (
                "npu compiled, time of one call",
                [Part(k, values[k], f"f-{k}", f"{k} {seconds_text(values[k])}") for k in ("native", "island", "other")],
            )
        )
    parts = [
        "<h2>Operator coverage</h2>",
        "<p>Native operators are compiled by Tilewright. A fallback (eager) or island (compiled) is PyTorch's CPU kernel on the same memory. Other: calls, guards, waiting.</p>",
        legend(
            [
                ("f-native", "native"),
                ("f-view", "views, no work"),
                ("f-fallback", "fallback or island"),
                ("f-other", "other"),
            ]
        ),
        shares(rows, "native, fallback and island shares"),
    ]
    if compiled:
        parts.append(_compiled_tables(compiled))
    if eager:
        total = sum(eager["seconds"].values())
        parts.append(
            folded(
                f"Eager operators by time ({eager['distinct']} distinct)",
                table(
                    ["operator", "calls", "time", "share", ("how", "l")],
                    [
                        [
                            op["name"],
                            str(op["calls"]),
                            seconds_text(op["seconds"]),
                            percent_text(op["seconds"], total),
                            (op["how"] + (f" ({', '.join(op['through'])})" if op["through"] else ""), "w"),
                        ]
                        for op in eager["operators"]
                    ],
                ),
            )
        )
    return "".join(parts)


def _compiled_tables(compiled: dict[str, Any]) -> str:
    parts = []
    if compiled["islands"]:
        rows: list[list[Cell]] = [
            [str(i.get("op")), (str(i.get("reason")), "w"), (str(i.get("source") or "–"), "w")]
            for i in compiled["islands"]
        ]
        parts.append("<h3>Islands</h3>" + table(["operator", ("reason", "l"), ("where", "l")], rows))
        if compiled["island_operators"]:
            parts.append(
                table(
                    ["PyTorch's operator", "calls", "time"],
                    [
                        [op["name"], str(op["calls"]), seconds_text(op["seconds"])]
                        for op in compiled["island_operators"]
                    ],
                )
            )
    wall = sum(kernel["seconds"] for kernel in compiled["kernels"])
    rows = []
    for kernel in compiled["kernels"]:
        rate = kernel["flops"] / kernel["seconds"] * 1e-9 if kernel["seconds"] > 0 else 0
        rows.append(
            [
                kernel["name"],
                str(kernel["calls"]),
                seconds_text(kernel["seconds"]),
                percent_text(kernel["seconds"], wall),
                f"{rate:.1f}",
                (", ".join(kernel["ops"]), "w"),
            ]
        )
    parts.append(
        folded(
            f"Compiled kernels by time ({compiled['distinct_kernels']} distinct, {compiled['kernel_launches']} launches a call)",
            table(["kernel", "launches", "time", "share", "GFLOP/s", ("operators", "l")], rows),
        )
    )
    return "".join(parts)


def memory_section(data: dict[str, Any]) -> str:
    parts = ["<h2>Memory</h2>"]
    plan, batches = data["plan"], data["batches"]
    bar = [Bar("weights", data["weight_bytes"], "f-weights", bytes_text(data["weight_bytes"]))]
    if plan and plan["packed_bytes"]:
        bar.append(Bar("packed weights", plan["packed_bytes"], "f-weights", bytes_text(plan["packed_bytes"])))
    groups: list[tuple[str, list[Bar]]] = [("", bar)]
    for entry in batches:
        group = [
            Bar(f"{RUNS[way]}", entry[way]["call_bytes"], f"f-{way}", bytes_text(entry[way]["call_bytes"]))
            for way in ("npu", "compiled")
            if way in entry
        ]
        groups.append((f"Activations of a call, batch {entry['batch']}", group))
    parts.append(bars(groups, "memory of weights and activations"))
    if plan:
        saved = plan["temporary_bytes"] / plan["arena_bytes"] if plan["arena_bytes"] else None
        text = (
            f"The compiled plan for batch {plan['batch']}: temporaries of {bytes_text(plan['temporary_bytes'])} share an arena of {bytes_text(plan['arena_bytes'])}"
            + (f", {saved:.1f} times less" if saved else "")
            + f"; weights repacked for matrix products take {bytes_text(plan['packed_bytes'])}."
        )
        parts.append(f"<p>{escape(text)}</p>")
    if batches:
        head: list[Cell] = [
            "batch",
            "inputs",
            *(
                f"{RUNS[way].removeprefix('npu ')}: {what}"
                for way in ("npu", "compiled")
                for what in ("call", "peak")
                if any(way in e for e in batches)
            ),
        ]
        rows: list[list[Cell]] = []
        for entry in batches:
            inputs = next(entry[way]["input_bytes"] for way in ("npu", "compiled") if way in entry)
            row: list[Cell] = [str(entry["batch"]), bytes_text(inputs)]
            for way in ("npu", "compiled"):
                if any(way in e for e in batches):
                    row += (
                        [bytes_text(entry[way]["call_bytes"]), bytes_text(entry[way]["peak_bytes"])]
                        if way in entry
                        else ["–", "–"]
                    )
            rows.append(row)
        parts.append(table(head, rows))
    if largest := data["largest"]:
        parts.append(_largest(largest, data["limit_bytes"]))
    return "".join(parts)


def _largest(largest: dict[str, Any], limit: int) -> str:
    way, batch = RUNS[largest["way"]], largest["batch"]
    if largest["does_not_fit"] is not None:
        exact = largest["does_not_fit"] == batch + 1
        text = f"The largest batch that fits {bytes_text(limit)}, {way}: {batch:,}" + (
            "." if exact else f"; {largest['does_not_fit']:,} does not, and sizes between were not tried."
        )
    else:
        text = f"Batch {batch:,} fits {bytes_text(limit)}, {way}; the search was ended by {largest['stopped_by']}."
        if largest["estimate"]:
            text += f" By its growth of {bytes_text(largest['bytes_per_sample'])} per sample about {largest['estimate']:,} would."
    points = [(t["batch"], float(t.get("peak_bytes") or limit), t["fits"]) for t in largest["tried"]]
    chart = growth(points, float(limit), bytes_text) if len(points) > 1 else ""
    return f"<h3>Largest batch</h3><p>{escape(text)} Dots fitted; crosses did not.</p>{chart}"


def speed_section(data: dict[str, Any]) -> str:
    if not data["batches"]:
        return ""
    groups: list[tuple[str, list[Bar]]] = []
    rows: list[list[Cell]] = []
    for row in data["batches"]:
        ways = [way for way in RUNS if way in row]
        groups.append(
            (
                f"Batch {row['batch']}",
                [
                    Bar(
                        RUNS[w], row[w]["samples_per_second"], f"f-{w}", f"{count_text(row[w]['samples_per_second'])}/s"
                    )
                    for w in ways
                ],
            )
        )
        for way in ways:
            found = row[way]
            rows.append(
                [
                    f"{row['batch']}",
                    (RUNS[way], "l"),
                    seconds_text(found["median_seconds"]),
                    count_text(found["samples_per_second"]),
                    factor_text(found["times_cpu"]) if way != "cpu" else "1",
                    f"{seconds_text(found['least_seconds'])} – {seconds_text(found['most_seconds'])}",
                ]
            )
    return (
        "<h2>Latency and throughput</h2>"
        f"<p>Samples per second. The three take turns on the same machine; medians over {min(r['rounds'] for r in data['batches'])} or more rounds, eager CPU on {data['cpu_threads']} threads.</p>"
        + bars(groups, "throughput by batch size")
        + table(["batch", ("run", "l"), "latency", "samples/s", "× CPU", "least – most"], rows)
    )


_PARTS = {"dynamo": ("Dynamo", "f-dynamo"), "aot_autograd": ("AOTAutograd", "f-aot"), "run": ("running", "f-run")}


def first_call_section(data: dict[str, Any]) -> str:
    own = {k: v for k, v in data["parts"].items() if k.startswith("own_")}
    parts = [
        Part(_PARTS[k][0], data["parts"][k], _PARTS[k][1], f"{_PARTS[k][0]} {seconds_text(data['parts'][k])}")
        for k in ("dynamo", "aot_autograd")
    ]
    parts.append(Part("Tilewright", sum(own.values()), "f-own", f"Tilewright {seconds_text(sum(own.values()))}"))
    parts.append(Part("running", data["parts"]["run"], "f-run", f"running {seconds_text(data['parts']['run'])}"))
    rows: list[list[Cell]] = [[part.shown.rsplit(" ", 2)[0], seconds_text(part.value)] for part in parts]
    phases: list[list[Cell]] = [
        [f"Tilewright: {name.removeprefix('own_').replace('_', ' ')}", seconds_text(value)]
        for name, value in own.items()
    ]
    inner: dict[str, float] = {}
    for graph in data["graphs"]:
        for phase, seconds in graph["compiler_phases"].items():
            inner[phase] = inner.get(phase, 0.0) + seconds
    detail = (
        "<h3>Inside the compiler</h3>" + table(["phase", "time"], [[k, seconds_text(v)] for k, v in inner.items()])
        if inner
        else ""
    )
    text = (
        f"The first call took {seconds_text(data['total_seconds'])}, the second {seconds_text(data['second_call_seconds'])}. The program cache was empty: {data['kernels_built']} kernels were built, "
        f"{data['kernels_reused']} shared, for {len(data['graphs'])} graph{'s' if len(data['graphs']) != 1 else ''}."
    )
    return (
        "<h2>First call</h2>"
        + f"<p>{escape(text)}</p>"
        + legend(
            [
                ("f-dynamo", "Dynamo (PyTorch)"),
                ("f-aot", "AOTAutograd (PyTorch)"),
                ("f-own", "Tilewright"),
                ("f-run", "running"),
            ]
        )
        + shares([("", parts)], "first call by part")
        + folded("By phase", table(["part", "time"], rows[:2] + phases + rows[3:]) + detail)
    )
