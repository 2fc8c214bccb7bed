"""The text of kernels and helpers, and the error that points into it."""

from __future__ import annotations

import ast
import inspect
import linecache
import tokenize
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any


class KernelError(Exception):
    """A kernel that is wrong: where it stands, what is wrong, and what to write instead.

    `file`, `line` and `column` (both from 1; 0 where no line is to blame), `source_line`, `message`, `hint`, and `notes`: one line for each
    helper that stands between the kernel and the place.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        file: str = "",
        line: int = 0,
        column: int = 0,
        width: int = 1,
        source_line: str = "",
        notes: tuple[str, ...] = (),
    ) -> None:
        self.message, self.hint, self.notes = message, hint, notes
        self.file, self.line, self.column, self.source_line = file, line, column, source_line
        lines = [message]
        if file:
            place = f"{Path(file).name}:{line}:{column}" if line else Path(file).name
            lines = [f"{place}: {message}"]
        if source_line:
            text = source_line.rstrip()
            indent = len(text) - len(text.lstrip())
            caret = max(column - 1 - indent, 0)
            width = max(1, min(width, len(text) - indent - caret))
            lines += [f"    {text.lstrip()}", f"    {' ' * caret}{'^' * width}"]
        if hint:
            lines.append(f"  write instead: {hint}")
        lines += [f"  {note}" for note in notes]
        super().__init__("\n".join(lines))


@dataclass(slots=True, eq=False)
class Text:
    """The syntax tree of a piece of code; line numbers and columns are those of its file."""

    file: str
    lines: list[str]  # of the file
    tree: ast.FunctionDef
    analysis: Any = None  # filled by frontend_analysis at the first trace


@dataclass(slots=True, eq=False)
class FunctionSource:
    """A Python function and its text, which functions that differ in their closure share."""

    function: FunctionType
    text: Text

    @property
    def file(self) -> str:
        return self.text.file

    @property
    def tree(self) -> ast.FunctionDef:
        return self.text.tree

    def error(self, message: str, node: ast.AST | None, hint: str = "", notes: tuple[str, ...] = ()) -> KernelError:
        line = getattr(node, "lineno", 0)
        column = getattr(node, "col_offset", -1) + 1
        same_line = getattr(node, "end_lineno", line) == line
        width = getattr(node, "end_col_offset", column) - column + 1 if same_line else len(self.line(line))
        return KernelError(
            message,
            hint=hint,
            file=self.file,
            line=line,
            column=column,
            width=width,
            source_line=self.line(line),
            notes=notes,
        )

    def line(self, number: int) -> str:
        lines = self.text.lines
        return lines[number - 1].rstrip("\n") if 0 < number <= len(lines) else ""


#: By identity: functions of two files may have equal code and different annotations. The code is kept, so that no other takes its place.
_texts: dict[int, tuple[CodeType, Text]] = {}


def source_of(function: FunctionType) -> FunctionSource:
    """The syntax tree of a function, read once for each piece of code. Raises KernelError where there is no source text."""
    code = function.__code__
    found = _texts.get(id(code))
    if found is None:
        found = _texts[id(code)] = (code, _read(function, code))
    return FunctionSource(function, found[1])


def _read(function: FunctionType, code: CodeType) -> Text:
    file = code.co_filename
    if function.__name__ == "<lambda>":
        raise KernelError(
            "a lambda cannot be part of a kernel", hint="def name(x): return ...", file=file, line=code.co_firstlineno
        )
    linecache.checkcache(file)  # the file may have changed since, and the module with it
    lines = linecache.getlines(file, function.__globals__)
    block: list[str] = []
    if len(lines) >= code.co_firstlineno:
        try:
            block = inspect.getblock(lines[code.co_firstlineno - 1 :])
        except (tokenize.TokenError, SyntaxError, IndentationError):
            block = []
    if not block:
        raise KernelError(
            f"the source text of {function.__qualname__} cannot be found ({file})",
            hint="a function in a .py file or a notebook cell; text given to exec() has no source",
        )
    tree = ast.parse(("if 1:\n" if block[0][0].isspace() else "\n") + "".join(block))
    ast.increment_lineno(tree, code.co_firstlineno - 2)
    definition = tree.body[0].body[0] if isinstance(tree.body[0], ast.If) else tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise KernelError(
            f"{function.__qualname__} is not written as `def`",
            hint="def name(...): ...",
            file=file,
            line=code.co_firstlineno,
            source_line=block[0].rstrip("\n"),
            column=1,
        )
    return Text(file, lines, definition)
