"""HTML tables and definition lists. Texts are escaped here."""

from __future__ import annotations

from collections.abc import Sequence

from .text import escape

#: A cell: text, or text with a class of the style sheet ("w": wraps, "l": left, "bad").
Cell = str | tuple[str, str]


def table(head: Sequence[Cell], rows: Sequence[Sequence[Cell]], marked: Sequence[bool] | None = None) -> str:
    def cell(tag: str, value: Cell) -> str:
        text, kind = value if isinstance(value, tuple) else (value, "")
        return f"<{tag}{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{escape(text)}</{tag}>"

    lines = []
    for index, row in enumerate(rows):
        mark = ' class="mark"' if marked and marked[index] else ""
        lines.append(f"<tr{mark}>" + "".join(cell("td", value) for value in row) + "</tr>")
    header = "".join(cell("th", value) for value in head)
    return f'<div class="scroll"><table><thead><tr>{header}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def definitions(rows: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in rows) + "</dl>"


def folded(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"
