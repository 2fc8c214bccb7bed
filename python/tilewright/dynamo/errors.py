"""What the back end raises. Nothing here imports torch._dynamo, so that `except tilewright.CompileError` costs nothing."""

from __future__ import annotations


class CompileError(RuntimeError):
    """A graph that could not be compiled: which operator, where it stands in the user's code, and what to do.

    Dynamo wraps it in `torch._dynamo.exc.BackendCompilerFailed`, whose message contains this one and whose
    `inner_exception` is this object. It is never turned into eager execution by the back end.
    """

    kind = "error"

    def __init__(
        self, message: str, *, op: str | None = None, source: str | None = None, hint: str | None = None
    ) -> None:
        self.op, self.source, self.hint = op, source, hint
        lines = [f"tilewright: {message}"]
        if op:
            lines.append(f"  operator: {op}")
        if source:
            lines.append(f"  at: {source}")
        if hint:
            lines.append(f"  what to do: {hint}")
        super().__init__("\n".join(lines))


class UnsupportedError(CompileError):
    """The graph is right, but has something that the back end does not take."""

    kind = "unsupported"


class InternalError(CompileError):
    """The compiler contradicts itself or PyTorch: a bug to report."""

    kind = "internal"


def error_from_report(report: dict[str, object]) -> CompileError:
    """The exception for an error of the compiler library (`tw_compiler_compile`'s JSON)."""
    kind = str(report.get("kind", "internal"))
    message = str(report.get("message", "the compiler gave no message"))
    fields = {name: str(report[name]) for name in ("op", "source", "hint") if report.get(name)}
    if kind == "unsupported":
        return UnsupportedError(message, **fields)
    if kind == "invalid":
        return CompileError(message, **fields)
    fields.setdefault(
        "hint", "this is a bug of Tilewright: please report it with the graph (TILEWRIGHT_DUMP=directory)"
    )
    return InternalError(message, **fields)
