"""What can go wrong, as one line each with an exit code of its own."""

from __future__ import annotations

import enum
import os
import re
import traceback
from types import TracebackType

import torch

from ..dynamo.errors import CompileError


class ExitCode(enum.IntEnum):
    """tools/tilewright/Commands.h and the help text of Bringup.cpp have the same numbers; docs/bringup.md explains them."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    ENVIRONMENT = 10
    SPEC = 11
    PACKAGE = 12
    FACTORY = 13
    DTYPE = 14
    OUT_OF_MEMORY = 15
    NAN = 16
    NUMERICS = 17
    COMPILE = 18
    CPU_RUN = 19
    NPU_RUN = 20
    CRASH = 21
    INTERRUPTED = 130


class BringupError(Exception):
    """An error with what, where and what to do; each is one sentence without a full stop."""

    def __init__(self, code: ExitCode, what: str, where: str = "", what_to_do: str = "", detail: str = "") -> None:
        self.code, self.what, self.where, self.what_to_do = code, one_line(what), one_line(where), one_line(what_to_do)
        self.detail = detail  # a traceback or a long message, for the report
        super().__init__(self.line())

    def line(self) -> str:
        where = f" ({self.where})" if self.where else ""
        return f"{self.what}{where}" + (f". {self.what_to_do}" if self.what_to_do else "")

    def to_dict(self, step: str) -> dict[str, object]:
        return {
            "code": int(self.code),
            "kind": self.code.name.lower(),
            "step": step,
            "what": self.what,
            "where": self.where,
            "what_to_do": self.what_to_do,
            "detail": self.detail,
        }


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().rstrip(".")


def first_sentence(error: BaseException, limit: int = 240) -> str:
    """The first line of an exception's text, which for most is the message; the rest is explanation."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."


def user_frame(trace: TracebackType | None) -> str:
    """file:line of the deepest frame that is the user's: not a library's, not ours."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for frame in reversed(traceback.extract_tb(trace)):
        path = os.path.abspath(frame.filename)
        library = f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}lib{os.sep}python3" in path
        if not library and not path.startswith(here) and not frame.filename.startswith("<"):
            return f"{os.path.relpath(path) if path.startswith(os.getcwd()) else path}:{frame.lineno}"
    return ""


#: Packages whose name on the index is not the name that is imported.
_INDEX_NAMES = {
    "cv2": "opencv-python",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "PyYAML",
}


def missing_package(error: ImportError, spec: str) -> BringupError:
    name = (error.name or "").split(".")[0]
    if not name:
        return BringupError(
            ExitCode.PACKAGE,
            f"an import failed: {first_sentence(error)}",
            user_frame(error.__traceback__) or spec,
            "Install or repair the package that this import needs, in the Python that runs the model",
            detail_of(error),
        )
    return BringupError(
        ExitCode.PACKAGE,
        f"the package {name} is missing"
        if isinstance(error, ModuleNotFoundError)
        else f"the package {name} does not work: {first_sentence(error)}",
        user_frame(error.__traceback__) or spec,
        f"Install it: python -m pip install {_INDEX_NAMES.get(name, name)}",
        detail_of(error),
    )


def detail_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-6000:]


def while_running(error: Exception, where: str, fallback: ExitCode) -> BringupError:
    """An exception of the model on cpu, npu or compiled, as a BringupError. `where`: "npu eager" etc.; `fallback`: the code of what is no
    memory or compile error."""
    if isinstance(error, BringupError):
        return error
    if isinstance(error, torch.OutOfMemoryError):
        return out_of_memory(error, where)
    inner = getattr(error, "inner_exception", None)
    if isinstance(inner, torch.OutOfMemoryError):
        return out_of_memory(inner, where)
    if isinstance(inner, CompileError) or isinstance(error, CompileError):
        compile_error = inner if isinstance(inner, CompileError) else error
        assert isinstance(compile_error, CompileError)
        message = str(compile_error).splitlines()[0].removeprefix("tilewright: ")
        op = f" in {compile_error.op}" if compile_error.op and compile_error.op not in message else ""
        return BringupError(
            ExitCode.COMPILE,
            f"the model does not compile: {message}{op}",
            compile_error.source or where,
            compile_error.hint or "See the detail in the report; tilewright.explain(model, ...) repeats it alone",
            str(compile_error),
        )
    if type(error).__module__.startswith("torch._dynamo"):
        return BringupError(
            ExitCode.COMPILE,
            f"the model does not compile: {first_sentence(inner if isinstance(inner, BaseException) else error)}",
            user_frame(error.__traceback__) or where,
            "The back end failed: its traceback is in the report"
            if isinstance(inner, BaseException)
            else "Dynamo could not trace it: the detail in the report says which construct; see docs/compile.md",
            detail_of(error),
        )
    return BringupError(
        fallback,
        f"the model fails: {first_sentence(error)}",
        ", ".join(filter(None, (where, user_frame(error.__traceback__)))),
        "Run the model and its example inputs on the CPU by hand"
        if fallback == ExitCode.CPU_RUN
        else "The traceback is in the report",
        detail_of(error),
    )


def out_of_memory(error: BaseException, where: str) -> BringupError:
    return BringupError(
        ExitCode.OUT_OF_MEMORY,
        f"out of device memory: {first_sentence(error).removeprefix('OutOfMemoryError: ')}",
        where,
        "Give a smaller example, or a larger --memory-limit",
        str(error),
    )
