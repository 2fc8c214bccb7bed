"""Numbers as people read them."""

from __future__ import annotations

from html import escape
from typing import Any

__all__ = [
    "bytes_text",
    "count_text",
    "error_text",
    "escape",
    "factor_text",
    "percent_text",
    "seconds_text",
    "sentence",
]


def sentence(text: str) -> str:
    """With a capital, unless the first word is a name (file.py, MAX_ROWS)."""
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() and first != "npu" else text


def bytes_text(count: float | None) -> str:
    if count is None:
        return "–"
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"


def seconds_text(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for limit, scale, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{three_digits(seconds * scale)} {unit}"
    return f"{three_digits(seconds)} s"


def three_digits(value: float) -> str:
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def count_text(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 100 or value == int(value) else three_digits(value)


def factor_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def percent_text(part: float, whole: float) -> str:
    if whole <= 0:
        return "0%"
    share = 100 * part / whole
    return f"{share:.0f}%" if share >= 10 or share == 0 else f"{share:.1f}%"


def error_text(value: Any) -> str:
    """Errors; report.json has NaN and infinities as words."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return {"nan": "NaN", "inf": "∞", "-inf": "-∞"}.get(value, value)
    return "0" if value == 0 else f"{value:.1e}"
