"""Charts as inline SVG. Each is drawn twice, for a desk or paper and for a phone, so that its text stays readable; the style sheet shows one.

Colours are CSS classes (style.py), so that one file serves light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .text import escape

WIDE, NARROW = 720, 350


class Svg:
    """Grows downwards; coordinates in CSS pixels at the drawn width."""

    def __init__(self, width: int, height: int, label: str) -> None:
        self.width, self.height, self.label = width, height, label
        self.parts: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, kind: str, title: str = "") -> None:
        body = f"><title>{escape(title)}</title></rect>" if title else "/>"
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" class="{kind}"{body}'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def text(self, x: float, y: float, text: str, kind: str = "t", anchor: str = "start") -> None:
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>')

    def dot(self, x: float, y: float, radius: float, kind: str, title: str = "") -> None:
        body = f"><title>{escape(title)}</title></circle>" if title else "/>"
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="{kind}"{body}')

    def path(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{text}" class="{kind}"/>')

    def markup(self, kind: str) -> str:
        return (
            f'<svg class="{kind}" viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}" role="img" '
            f'aria-label="{escape(self.label)}">{"".join(self.parts)}</svg>'
        )


def both(draw: Callable[[int], Svg]) -> str:
    return f'<div class="chart">{draw(WIDE).markup("wide")}{draw(NARROW).markup("narrow")}</div>'


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """(class, text) pairs."""
    items = "".join(
        f'<li><svg width="12" height="12" aria-hidden="true"><rect width="12" height="12" rx="2" class="{k}"/></svg>{escape(t)}</li>'
        for k, t in entries
    )
    return f'<ul class="legend">{items}</ul>'


@dataclass
class Part:
    name: str
    value: float
    kind: str
    shown: str  # the value in words


@dataclass
class Bar:
    name: str
    value: float
    kind: str
    shown: str


def bars(groups: Sequence[tuple[str, Sequence[Bar]]], label: str, most: float | None = None) -> str:
    """Horizontal bars from zero on one scale, in titled groups; every bar carries its value."""
    most = most or max((bar.value for _, group in groups for bar in group), default=1) or 1

    def draw(width: int) -> Svg:
        names = 150 if width == WIDE else 114
        values = 92
        rows = sum(len(group) for _, group in groups)
        titles = sum(bool(title) for title, _ in groups)
        svg = Svg(width, rows * 24 + titles * 28 + 4, label)
        y = 0.0
        for title, group in groups:
            if title:
                svg.text(0, y + 19, title, "t b")
                y += 28
            for bar in group:
                length = (width - names - values) * bar.value / most
                svg.text(names - 8, y + 16, bar.name, "t", "end")
                svg.rect(names, y + 4, max(length, 1.5), 16, bar.kind, f"{bar.name}: {bar.shown}")
                svg.text(names + max(length, 1.5) + 6, y + 16, bar.shown, "t")
                y += 24
        return svg

    return both(draw)


def shares(rows: Sequence[tuple[str, Sequence[Part]]], label: str) -> str:
    """Each row a bar of full length, cut by share."""

    def draw(width: int) -> Svg:
        wide = width == WIDE  # there the values stand beside the title, else below the bar
        lines = [_lines([part.shown for part in parts if part.value > 0], 100 if wide else 44) for _, parts in rows]
        height = 48 if wide else 48 + 17 * max(map(len, lines), default=1)
        svg = Svg(width, len(rows) * height, label)
        for index, (title, parts) in enumerate(rows):
            y = index * float(height)
            whole = sum(part.value for part in parts) or 1
            svg.text(0, y + 13, title, "t")
            for number, values in enumerate(lines[index]):
                svg.text(
                    width if wide else 0,
                    y + 13 if wide else y + 54 + 17 * number,
                    values,
                    "t m",
                    "end" if wide else "start",
                )
            x = 0.0
            for part in parts:
                length = width * part.value / whole
                least = 0.5 if part.value > 0 else 0
                svg.rect(x, y + 20, max(length - 1, least), 18, part.kind, f"{part.name}: {part.shown}")
                x += length
        return svg

    return both(draw)


def _lines(texts: Sequence[str], most: int) -> list[str]:
    """Joined by dots, in lines of at most so many characters."""
    lines = [""]
    for text in texts:
        joined = f"{lines[-1]} · {text}" if lines[-1] else text
        if lines[-1] and len(joined) > most:
            lines.append(text)
        else:
            lines[-1] = joined
    return lines


def _decades(low: float, high: float) -> list[int]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = max(1, math.ceil((last - first) / 6))
    return list(range(first, last + 1, step))


def layers(
    entries: Sequence[dict[str, Any]],
    runs: Sequence[tuple[str, str]],
    tolerance: float | None,
    first_beyond: dict[str, str],
) -> str:
    """Relative error over the layers in the order in which they finish, logarithmic. `runs`: (key in a layer, name)."""
    values = [entry[run]["relative"] for entry in entries for run, _ in runs if run in entry]
    positive = [v for v in values if isinstance(v, float) and v > 0]
    if not positive:
        return "<p>Every layer agrees exactly.</p>"
    low = min(min(positive), (tolerance or 1) / 10)
    high = max(max(positive), (tolerance or 0) * 3)
    marks = _decades(low, high)
    bottom, top = float(marks[0]), max(marks[-1], math.log10(high))

    def draw(width: int) -> Svg:
        height, left, right, above, below = 300, 46, 8, 14, 34
        svg = Svg(width, height, "relative error layer by layer")
        inner = height - above - below

        def at(value: Any) -> float:
            """Not finite: at the top edge; exact: on the axis."""
            if isinstance(value, str):
                return float(above)
            level = math.log10(value) if value > 0 else bottom
            return above + inner * (top - max(level, bottom)) / max(top - bottom, 1e-9)

        for mark in marks:
            y = at(10.0**mark)
            svg.line(left, y, width - right, y, "grid")
            svg.text(left - 6, y + 4, f"1e{mark}", "t m", "end")
        step = (width - left - right) / max(len(entries), 1)
        for run, name in runs:
            points = [(left + step * (i + 0.5), at(e[run]["relative"])) for i, e in enumerate(entries) if run in e]
            svg.path(points, f"l-{run}")
            for i, entry in enumerate(entries):
                if run in entry:
                    shown = entry[run]["relative"]
                    shown = shown if isinstance(shown, str) else f"{shown:.2g}"
                    radius = 2.4 if width == WIDE else 1.7
                    svg.dot(
                        left + step * (i + 0.5),
                        at(entry[run]["relative"]),
                        4 if entry[run]["beyond"] else radius,
                        "f-bad" if entry[run]["beyond"] else f"f-{run}",
                        f"{entry['name']} ({entry['type']}), {name}: {shown}",
                    )
        if tolerance:
            svg.line(left, at(tolerance), width - right, at(tolerance), "limit")
            svg.text(
                width - right, at(tolerance) - 5, f"tolerance {tolerance:.0e}".replace("e-0", "e-"), "t bad", "end"
            )
        for name in sorted(set(first_beyond.values())):
            index = next(i for i, entry in enumerate(entries) if entry["name"] == name)
            x = left + step * (index + 0.5)
            svg.line(x, above, x, height - below, "limit")
            svg.text(min(max(x, left + 74), width - 74), above - 3, "first beyond tolerance", "t bad", "middle")
        svg.text(left, height - 8, "first layer", "t m")
        svg.text(
            width - right,
            height - 8,
            "result" if width == NARROW else f"result, the last of {len(entries)}",
            "t m",
            "end",
        )
        return svg

    return both(draw)


def growth(points: Sequence[tuple[int, float, bool]], limit: float, shown: Callable[[float], str]) -> str:
    """Peak memory over batch size, both logarithmic. Points: (batch, bytes, fits); what did not fit stands on the limit."""
    sizes = [batch for batch, _, _ in points]
    low = min([b for _, b, _ in points] + [limit]) * 0.7
    high = limit * 1.5

    def draw(width: int) -> Svg:
        height, left, right, above, below = 240, 70, 14, 16, 36
        svg = Svg(width, height, "peak memory by batch size")
        x0, x1 = math.log(min(sizes)), math.log(max(sizes) * 1.05)

        def x(batch: float) -> float:
            return left + (width - left - right) * ((math.log(batch) - x0) / (x1 - x0) if x1 > x0 else 0.5)

        def y(count: float) -> float:
            return above + (height - above - below) * (math.log(high) - math.log(count)) / (
                math.log(high) - math.log(low)
            )

        mark = 2.0 ** math.ceil(math.log2(low))
        while mark < high:
            if abs(math.log(mark / limit)) > 0.2:
                svg.text(left - 8, y(mark) + 4, shown(mark), "t m", "end")
            svg.line(left, y(mark), width - right, y(mark), "grid")
            mark *= 4 if high / low > 64 else 2
        svg.line(left, y(limit), width - right, y(limit), "limit")
        svg.text(left + 4, y(limit) - 5, f"limit {shown(limit)}", "t bad")
        fitting = sorted((b, m) for b, m, fits in points if fits)
        svg.path([(x(b), y(m)) for b, m in fitting], "l-compiled")
        for batch, count, fits in points:
            at = y(count if fits else limit)
            if fits:
                svg.dot(x(batch), at, 3.5, "f-compiled", f"batch {batch}: {shown(count)}")
            else:
                for dx, dy in ((4, 4), (4, -4)):
                    svg.line(x(batch) - dx, at - dy, x(batch) + dx, at + dy, "cross")
        last = -100.0
        for batch in sorted({min(sizes), max((b for b, _, f in points if f), default=max(sizes)), *sizes}):
            if x(batch) - last > 56 and (x(batch) < width - 50 or batch == max(sizes)):
                svg.text(
                    min(x(batch), width - 4),
                    height - 18,
                    f"{batch:,}",
                    "t m",
                    "end" if batch == max(sizes) else "middle",
                )
                last = x(batch)
        svg.text((left + width) / 2, height - 2, "batch size", "t m", "middle")
        return svg

    return both(draw)
