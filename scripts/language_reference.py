#!/usr/bin/env python3
"""The generated parts of docs/language.md: functions and methods from their docstrings, dtypes from what the front end says of each, refused
kernels from the catalogue in test/python/test_language_errors.py.

A part stands between `<!-- NAME -->` and `<!-- end -->`. Run it (with Tilewright to be imported) to write them anew; `test_language_docs.py` holds the page to it.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType
from typing import Any

import tilewright as tw
from tilewright.language import launch, promotion, registry
from tilewright.language.kernel import Kernel
from tilewright.language.types import DTYPES, DType

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "language.md"

FAMILIES = {
    "loops": "Loops",
    "indexing": "Reading and writing",
    "ops_elementwise": "Elementwise",
    "ops_reduce": "Along dimensions",
    "ops_tile": "Products; making and moving tiles",
    "ops_random": "Random numbers",
    "ops_checks": "Checks",
}

#: How functions and operators of tiles are tried for each dtype; functions that are not named here are called with one tile.
CALLS = {
    "`+ - *`": "x + x",
    "`/`": "x / x",
    "`// %`": "x // x",
    "`**` with an int from 1 to 64": "x ** 3",
    "`**` else, `tw.pow`": "tw.pow(x, x)",
    "`-x`": "-x",
    "`& | ^`": "x & x",
    "`~x`": "~x",
    "`<< >>`": "x << x",
    "`== !=`": "x == x",
    "`< <= > >=`": "x < x",
    "`@`, `tw.matmul`, `tw.dot`": "x @ x",
    "with a Python int": "x + 1",
    "with a Python float": "x * 0.5",
    "`tw.maximum`": "tw.maximum(x, x)",
    "`tw.minimum`": "tw.minimum(x, x)",
    "`tw.clamp`": "tw.clamp(x, x, x)",
    "`tw.where`": "tw.where(x == x, x, x)",
    "`tw.atan2`": "tw.atan2(x, x)",
    "`tw.fmod`": "tw.fmod(x, x)",
    "`tw.copysign`": "tw.copysign(x, x)",
    "`tw.fma`": "tw.fma(x, x, x)",
    "values of `tw.sort`, `tw.topk`, `tw.associative_scan`": "tw.sort(x)[0]",
    "what only moves elements": "tw.transpose(x)",
}
#: Functions without a row of their own: they take no tile, any, or say their dtype.
UNTYPED = {
    *("parallel", "range", "static_range", "load", "store", "atomic_add", "assert_", "static_assert", "print"),
    *("full", "zeros", "ones", "full_like", "zeros_like", "iota", "indices", "arange", "cast", "to", "bitcast"),
    *("philox", "random_bits", "uniform", "matmul", "dot", "pow", "maximum", "minimum", "clamp", "where", "atan2", "fmod"),
    *("copysign", "fma", "sort", "topk", "associative_scan"),
    *("broadcast_to", "expand", "reshape", "permute", "transpose", "squeeze", "expand_dims", "flip", "concat", "stack", "slice"),
}  # fmt: skip

#: Members of kernels that are no functions.
ATTRIBUTES = {
    "name": "The function's name.",
    "parameters": "What the annotations declare, in order.",
    "specialisation_limit": "Most specialisations that the kernel may have; 64 unless it is set.",
}
INTERNAL = {"fail", "is_current", "captures", "CACHED", "operator_name"}


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *map(list, rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _code(text: str) -> str:
    return f"`{text}`" if "`" not in text else f"`` {text} ``"


def _doc(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").split())


def _signature(function: Callable[..., Any], skip_self: bool = False) -> str:
    signature = inspect.signature(function)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()][int(skip_self) :]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def _dtype(t: DType) -> str:
    return "bool" if t.is_bool else t.name


# -- functions ---------------------------------------------------------------------------------------------------------


def functions() -> str:
    by_module: dict[str, list[Callable[..., Any]]] = {family: [] for family in FAMILIES}
    for family in FAMILIES:
        module = sys.modules[f"tilewright.language.{family}"]
        by_module[family] = [
            v
            for v in vars(module).values()
            if isinstance(v, FunctionType) and v in registry.BUILTINS and v.__module__ == module.__name__
        ]
    missing = registry.BUILTINS - {f for group in by_module.values() for f in group}
    if missing:
        raise SystemExit(f"functions of no family: {', '.join(sorted(f.__name__ for f in missing))}")
    parts = []
    for family, group in by_module.items():
        rows = []
        for f in group:
            name = f.__name__
            call = f"`tw.{name}{_signature(f)}`" if name in tw.language.__all__ else f"`x.{name}{_signature(f, True)}`"
            if registry.METHODS.get(name) is f and call.startswith("`tw."):
                call += f", `x.{name}`"
            rows.append([call, _doc(f)])
        parts.append(f"**{FAMILIES[family]}**\n\n{_table(['function', 'meaning'], rows)}")
    return "\n\n".join(parts)


def declarations() -> str:
    rows = [
        ["`@tw.kernel`", _doc(tw.kernel)],
        [f"`tw.symbols{_signature(tw.symbols)}`", _doc(tw.symbols)],
        [f"`tw.dtypes{_signature(tw.dtypes)}`", _doc(tw.dtypes)],
        *([f"`X: tw.{t.__name__}[...]`", _doc(t)] for t in (tw.In, tw.Out, tw.InOut, tw.Scalar)),
        ["`a: float`, `n: int`, `b: bool`", "A run-time number; `float` and `int` are weak. An `int` may name a size: `n: int` beside `tw.Out[tw.f32, n]`."],
        ["`c: tw.const`", _doc(tw.const)],
        [", ".join(f"`{t!r}`" for t in DTYPES.values()), "The dtypes. PyTorch's (`torch.float32`) may be written too, and in a kernel `tw.f32(x)` is `x.to(tw.f32)`."],
        [f"`tw.trace{_signature(tw.trace)}`", _doc(tw.trace)],
        [f"`tw.TensorSpec{_signature(tw.TensorSpec)}`", _doc(tw.TensorSpec)],
        ["`tw.Kernel`", _doc(Kernel)],
        ["`tw.KernelError`", _doc(tw.KernelError)],
    ]  # fmt: skip
    return _table(["name", "meaning"], rows)


def kernel() -> str:
    rows = [["`kernel(*args, **kwargs)`", _doc(launch.LaunchableKernel)]]
    members = {**vars(Kernel), **vars(launch.LaunchableKernel)}
    for name, member in members.items():
        if name.startswith("_") or name in INTERNAL or name in ATTRIBUTES:
            continue
        if isinstance(member, (property, functools.cached_property)):
            rows.append([f"`kernel.{name}`", _doc(member)])
        else:
            rows.append([f"`kernel.{name}{_signature(member, True)}`", _doc(member)])
    rows += [[f"`kernel.{name}`", meaning] for name, meaning in ATTRIBUTES.items()]
    return _table(["member", "meaning"], rows)


# -- dtypes ------------------------------------------------------------------------------------------------------------


def meeting() -> str:
    def cell(a: DType, b: DType) -> str:
        met = promotion.common(a, b)
        return "·" if met is None else _dtype(met)

    dtypes = list(DTYPES.values())
    return _table(["", *map(_dtype, dtypes)], ([f"**{_dtype(a)}**", *(cell(a, b) for b in dtypes)] for a in dtypes))


@functools.cache
def _kernel_of(text: str) -> Any:
    file = f"<{text}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"tw": tw}
    exec(compile(text, file, "exec"), scope)
    return tw.kernel(scope["k"])


def result(expression: str, dtype: DType) -> str | None:
    """The dtype of an expression of x, a square tile of `dtype`; None if it is refused."""
    text = (
        f"def k(X: tw.In[{dtype!r}, 4, 4], Y: tw.Out[tw.bool_]):\n    x = X[:, :]\n    r = {expression}\n"
        "    Y[...] = tw.all(tw.reshape(r == r, (-1,)))\n"
    )
    try:
        program = _kernel_of(text).program({})
    except tw.KernelError:
        return None
    body = program["body"][0]["body"]
    operand = [s for s in body if s["op"] == "eq"][-1]["args"][0]
    return next(s["dtype"] for s in body if s.get("id") == operand or operand in s.get("ids", ()))


def results() -> str:
    calls = dict(CALLS)
    for f in sorted(
        registry.BUILTINS,
        key=lambda f: (list(FAMILIES).index(f.__module__.rpartition(".")[2]), f.__code__.co_firstlineno, f.__name__),
    ):
        if f.__name__ not in UNTYPED:
            calls[f"`tw.{f.__name__}`"] = f"tw.{f.__name__}(x)"
    dtypes = list(DTYPES.values())
    rows: dict[tuple[str, ...], list[str]] = {}
    for name, expression in calls.items():
        outcome = tuple(result(expression, t) or "·" for t in dtypes)
        rows.setdefault(outcome, []).append(name)
    return _table(["", *map(_dtype, dtypes)], ([", ".join(names), *outcome] for outcome, names in rows.items()))


# -- what is refused ---------------------------------------------------------------------------------------------------


def refused() -> str:
    file = ROOT / "test" / "python" / "test_language_errors.py"
    spec = importlib.util.spec_from_file_location("catalogue_of_wrong_kernels", file)
    assert spec is not None and spec.loader is not None
    catalogue = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = catalogue
    spec.loader.exec_module(catalogue)
    titles = [
        (n, m[1])
        for n, line in enumerate(file.read_text().splitlines(), 1)
        if (m := re.match(r"# -- (.+?) -{5,}", line))
    ]
    groups: dict[str, list[list[str]]] = {title: [] for _, title in titles}
    for case in catalogue.CASES:
        define, _, _, _, signature = case.values
        try:
            define().program(signature)
        except tw.KernelError as error:
            title = [t for n, t in titles if n < define.__code__.co_firstlineno][-1]
            message = re.sub(r" \(line \d+\)", "", error.message)
            message = re.sub(r"\bline \d+", "line 12", message)
            hint = re.sub(r" \(line \d+\)", "", error.hint)
            width = max(map(len, re.findall(r"\^+", str(error))), default=0)
            place = error.source_line[error.column - 1 : error.column - 1 + width]
            groups[title].append([_code(place) if place else "", message, hint])
    head = ["where the message points", "what is wrong", "what to write instead"]
    return "\n\n".join(
        f"**{title[0].upper()}{title[1:]}**\n\n{_table(head, rows)}" for title, rows in groups.items() if rows
    )


PARTS: dict[str, Callable[[], str]] = {
    "declarations": declarations,
    "functions": functions,
    "kernel": kernel,
    "meeting": meeting,
    "results": results,
    "refused": refused,
}


def page(text: str) -> str:
    """The page with its generated parts as they should be. ValueError if it lacks one."""
    for name, make in PARTS.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"{PAGE.name} has no part <!-- {name} -->")
        made = make()
        text = pattern.sub(lambda m, made=made: m[1] + made + m[2], text, count=1)
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
