"""After a trace: outputs that are not written, values that nobody uses, results that depend on tiles that the compiler chooses."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from .builder import Builder, Param, Statement
from .coverage import require_whole_outputs
from .independence import refuse_dependence
from .source import FunctionSource

_EFFECTS = frozenset({"store", "atomic_add", "assert", "print", "bind"})
_BODIES = ("condition", "body", "then", "else")


def finish(
    b: Builder, source: FunctionSource, params: Sequence[Param], nodes: Mapping[str, ast.arg]
) -> list[Statement]:
    """The program's statements, checked and without dead values."""
    body = b.blocks[0]
    if b.aliases:
        _rename(body, b.aliases)
    _check_outputs(b, source, body, params, nodes)
    live = _live_values(body)
    body = _swept(body, live)

    def refuse(statement: Statement, message: str, hint: str) -> NoReturn:
        line, column = statement["loc"]
        raise source.error(message, ast.Pass(lineno=line, col_offset=column), hint)

    refuse_dependence(b, body, refuse)
    require_whole_outputs(b, body, params, refuse)
    return body


# -- outputs -----------------------------------------------------------------------------------------------------------


def _check_outputs(
    b: Builder, source: FunctionSource, body: Sequence[Statement], params: Sequence[Param], nodes: Mapping[str, ast.arg]
) -> None:
    always = _written(body, certain=True)
    sometimes = _written(body, certain=False)
    for p in params:
        if p.type.kind == "in" or p.index in always:
            continue
        if p.index not in sometimes:
            raise source.error(
                f"the output {p.name} is never written",
                nodes[p.name],
                f"{p.name}[...] = value in the kernel, or {p.name}: In[...]",
            )
        if p.type.kind == "out":
            raise source.error(
                f"the output {p.name} is written only under a run-time condition: elsewhere its elements have no value",
                nodes[p.name],
                f"a store in the other branch too, or {p.name}: InOut[...] if the caller's values may stay",
            )


def _written(statements: Iterable[Statement], certain: bool) -> set[int]:
    found: set[int] = set()
    for s in statements:
        if s["op"] in ("store", "atomic_add"):
            found.add(s["param"])
        elif s["op"] == "if":
            then, otherwise = (_written(s[k], certain) for k in ("then", "else"))
            found |= (then & otherwise) if certain else (then | otherwise)
        elif s["op"] == "while":
            found |= set() if certain else _written(s["body"], certain)
        elif "body" in s:
            found |= _written(s["body"], certain)
    return found


# -- dead values -------------------------------------------------------------------------------------------------------


def _inputs(s: Statement) -> Iterator[int]:
    """Values that a statement itself reads, without those of its bodies."""
    yield from s.get("args", ())
    if "value" in s and s["op"] in ("store", "atomic_add", "bind"):
        yield s["value"]
    for entry in s.get("index", ()):
        if "value" in entry:
            yield entry["value"]


def _outputs(s: Statement) -> Iterator[int]:
    if "id" in s:
        yield s["id"]
    yield from s.get("ids", ())


def _live_values(body: Sequence[Statement]) -> set[int]:
    live: set[int] = set()
    while True:
        before = len(live)
        _mark(body, live)
        if len(live) == before:
            return live


def _mark(statements: Sequence[Statement], live: set[int]) -> None:
    for s in reversed(statements):
        op = s["op"]
        if op == "if":
            for r in s["results"]:
                if r["result"] in live:
                    live.update((r["then"], r["else"]))
            _mark(s["then"], live)
            _mark(s["else"], live)
            if _kept(s, live):
                live.add(s["cond"])
        elif op in ("for", "while"):
            if op == "while" and _kept(s, live):
                live.add(s["cond"])
            for _ in range(2):
                for c in s["carried"]:
                    if c["result"] in live or c["arg"] in live:
                        live.update((c["init"], c["next"], c["arg"]))
                _mark(s["body"], live)
                _mark(s.get("condition", ()), live)
        elif op == "parallel":
            _mark(s["body"], live)
        elif op in _EFFECTS or any(i in live for i in _outputs(s)):
            live.update(_inputs(s))


def _kept(s: Statement, live: set[int]) -> bool:
    """Whether a statement with bodies does something."""
    if any(r["result"] in live for r in s.get("results", ())) or any(c["result"] in live for c in s.get("carried", ())):
        return True
    return any(
        inner["op"] in _EFFECTS or (any(k in inner for k in _BODIES) and _kept(inner, live))
        for k in _BODIES
        for inner in s.get(k, ())
    )


def _swept(statements: Sequence[Statement], live: set[int]) -> list[Statement]:
    result = []
    for s in statements:
        if s["op"] in ("if", "for", "while"):
            if not _kept(s, live):
                continue
            if "results" in s:
                s["results"] = [r for r in s["results"] if r["result"] in live]
            if "carried" in s:
                s["carried"] = [c for c in s["carried"] if c["result"] in live or c["arg"] in live]
        elif s["op"] not in _EFFECTS and s["op"] != "parallel" and not any(i in live for i in _outputs(s)):
            continue
        for key in _BODIES:
            if key in s:
                s[key] = _swept(s[key], live)
        result.append(s)
    return result


def _rename(statements: Sequence[Statement], aliases: Mapping[int, int]) -> None:
    """Values that a loop was to carry and does not change."""

    def resolved(i: int) -> int:
        while i in aliases:
            i = aliases[i]
        return i

    def visit(s: Any) -> None:
        if "args" in s:
            s["args"] = [resolved(i) for i in s["args"]]
        if "value" in s and s["op"] in ("store", "atomic_add", "bind"):
            s["value"] = resolved(s["value"])
        if "cond" in s:
            s["cond"] = resolved(s["cond"])
        for entry in s.get("index", ()):
            if "value" in entry:
                entry["value"] = resolved(entry["value"])
        for c in s.get("carried", ()):
            c.update(init=resolved(c["init"]), next=resolved(c["next"]))
        for r in s.get("results", ()):
            r.update({"then": resolved(r["then"]), "else": resolved(r["else"])})
        for key in _BODIES:
            for inner in s.get(key, ()):
                visit(inner)

    for s in statements:
        visit(s)
