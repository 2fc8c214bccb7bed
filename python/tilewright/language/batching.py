"""vmap of kernels that have no whole-tensor form: the batch becomes an axis of the grid, and a launch runs all of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import sizes
from .launch import LaunchableKernel
from .parameters import Parameter
from .types import TensorType

if TYPE_CHECKING:
    from .frontend_names import Capture
    from .kernel import Specialisation

_SYMBOL = re.compile(r"\bs(\d+)\b")

#: Keys of a statement that are size expressions, alone or in lists; those that are numbers of symbols; those with statements.
_SIZES = ("shape", "size", "begin", "end", "min", "max", "sizes")
_NUMBERS = ("symbol",)
_BODIES = ("body", "then", "else", "condition")
_AXIS = "batch"


class CannotBatch(Exception):  # noqa: N818
    """The program cannot have one more axis; the text says why."""


class BatchedKernel(LaunchableKernel):
    """A kernel whose parameters that are marked in `batched` have one more dimension, the first. All that it writes is."""

    def __init__(self, kernel: LaunchableKernel, batched: tuple[bool, ...]) -> None:
        self.kernel, self.batched = kernel, batched
        super().__init__(kernel.function, name=f"{kernel.name}_batched")
        self.extent = sizes.symbol(_extent_name(kernel))
        self.parameters = tuple(
            Parameter(
                p.name, TensorType(p.type.kind, p.type.dtype, (self.extent, *p.type.sizes)), p.default, p.keyword_only
            )
            if more
            else p
            for p, more in zip(kernel.parameters, batched, strict=True)
        )

    def program(self, signature: Mapping[str, Any] | Specialisation) -> dict[str, Any]:
        key = signature if isinstance(signature, tuple) else self.specialise(signature)
        inner = self.kernel.program(key)
        found = self._batched_programs.get(id(inner))
        if found is None or found[0] is not inner:
            marked = {p.name for p, more in zip(self.parameters, self.batched, strict=True) if more}
            made = _batched(inner, marked, str(self.extent))
            found = self._batched_programs[id(inner)] = (inner, made)
        return found[1]

    def captures(self, key: Specialisation) -> Sequence[Capture]:
        return self.kernel.captures(key)

    @property
    def _batched_programs(self) -> dict[int, tuple[Any, dict[str, Any]]]:
        return self.__dict__.setdefault("_programs_with_batch", {})


def batched_kernel(kernel: LaunchableKernel, batched: tuple[bool, ...]) -> BatchedKernel:
    """The kernel with one more axis; the same one for the same parameters. It raises CannotBatch when its program is asked for, if at all."""
    made: dict[Any, BatchedKernel] = kernel.__dict__.setdefault("_with_batch", {})
    if batched not in made:
        made[batched] = BatchedKernel(kernel, batched)
    return made[batched]


def _extent_name(kernel: LaunchableKernel) -> str:
    taken = {
        s for p in kernel.parameters if isinstance(p.type, TensorType) for size in p.type.sizes for s in size.symbols()
    }
    taken |= {p.name for p in kernel.parameters}
    return next(name for name in ("Batch", *(f"Batch{k}" for k in range(2, len(taken) + 3))) if name not in taken)


def _batched(program: dict[str, Any], marked: set[str], extent: str) -> dict[str, Any]:
    """The program with a symbol for the batch behind its own, and an axis of single indices before its axes."""
    count = len(program["symbols"])
    last = max((int(n) for n in _SYMBOL.findall(str(program["body"]))), default=count)
    numbers = [
        a[k]
        for s in _walk(program["body"])
        for a in (*s.get("axes", []), s.get("axis"))
        if isinstance(a, dict)
        for k in ("start", "size")
        if k in a
    ]
    numbers += [s["symbol"] for s in _walk(program["body"]) if "symbol" in s]
    point = max([last, count, *numbers]) + 2  # behind all local symbols, which move by one
    params = []
    for p in program["params"]:
        if p["name"] in marked:
            p = {**p, "sizes": [f"s{count}", *p["sizes"]]}
        params.append(p)
    indices = {k for k, p in enumerate(params) if p["name"] in marked}
    body = [_moved(s, count) for s in program["body"]]
    for s in body:
        if s["op"] == "parallel":
            s["axes"] = [
                {"name": _AXIS, "start": point, "begin": "0", "end": f"s{count}", "tile": "scalar"},
                *s["axes"],
            ]
            continue
        if any(inner["op"] in ("load", "store", "atomic_add") and inner["param"] in indices for inner in _walk([s])):
            raise CannotBatch(f"{program['name']} reads or writes a batched tensor before its parallel loop")
    for s in _walk(body):
        if s["op"] in ("load", "store", "atomic_add") and s["param"] in indices:
            s["index"] = [{"start": f"s{point}", "terms": []}, *s["index"]]
    return {
        **program,
        "name": f"{program['name']}_batched",
        "symbols": [*program["symbols"], extent],
        "params": params,
        "body": body,
    }


def _walk(statements: list[dict[str, Any]]) -> Any:
    for s in statements:
        yield s
        for key in _BODIES:
            if isinstance(s.get(key), list):
                yield from _walk(s[key])


def _text(value: Any, count: int) -> Any:
    """A size expression, or a list of them, with local symbols moved by one."""
    if isinstance(value, list):
        return [_text(v, count) for v in value]
    if not isinstance(value, str):
        return value
    return _SYMBOL.sub(lambda m: f"s{int(m[1]) + (int(m[1]) >= count)}", value)


def _moved(s: dict[str, Any], count: int) -> dict[str, Any]:
    """A copy of a statement whose local symbols are numbered one higher."""
    result = dict(s)
    for key in _SIZES:
        if key in s:
            result[key] = _text(s[key], count)
    if s["op"] == "bind":
        result["symbol"] = s["symbol"] + 1
    for key in ("index", "map"):
        if key in s:
            result[key] = [
                {
                    **entry,
                    **({"start": _text(entry["start"], count)} if "start" in entry else {}),
                    **({"terms": [[d, _text(step, count)] for d, step in entry["terms"]]} if "terms" in entry else {}),
                }
                for entry in s[key]
            ]
    for key in ("axes", "axis"):
        if key in s and s["op"] in ("parallel", "for"):
            axes = s[key] if isinstance(s[key], list) else [s[key]]
            moved = [
                {
                    **a,
                    "start": a["start"] + 1,
                    **({"size": a["size"] + 1} if "size" in a else {}),
                    "begin": _text(a["begin"], count),
                    "end": _text(a["end"], count),
                }
                for a in axes
            ]
            result[key] = moved if isinstance(s[key], list) else moved[0]
    for key in _BODIES:
        if isinstance(s.get(key), list):
            result[key] = [_moved(inner, count) for inner in s[key]]
    return result
