"""What can be said about a function's syntax before it is traced: `continue` and early `return` written as branches, and which variables
are still needed where."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .source import FunctionSource

#: The variable that holds what a helper returns.
RETURN = "return"


@dataclass(slots=True)
class Analysis:
    body: list[ast.stmt]
    locals: frozenset[str]
    returns: ast.Return | None
    live_after: dict[int, frozenset[str]] = field(default_factory=dict)  # id of if, for, while
    live_at_head: dict[int, frozenset[str]] = field(default_factory=dict)  # id of for, while
    assigned: dict[int, list[str]] = field(default_factory=dict)  # id of if, for, while


def analyse(source: FunctionSource) -> Analysis:
    """The analysis of a function, made once."""
    if source.text.analysis is None:
        body = _structured(source.tree.body, in_loop=False)
        arguments = source.tree.args
        names = {a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
        returns = _first_return(source.tree.body)
        analysis = Analysis(body, frozenset(names | set(_assigned(body))), returns)
        _Liveness(analysis).block(body, frozenset({RETURN}))
        source.text.analysis = analysis
    return source.text.analysis


def _first_return(statements: Iterable[ast.AST]) -> ast.Return | None:
    """Not those of functions inside, which are refused themselves."""
    for s in statements:
        if isinstance(s, ast.Return):
            return s
        if not isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            found = _first_return(ast.iter_child_nodes(s))
            if found is not None:
                return found
    return None


# -- continue and return -----------------------------------------------------------------------------------------------


def _structured(statements: Sequence[ast.stmt], in_loop: bool) -> list[ast.stmt]:
    """The statements with every `continue` (and, outside of loops, `return`) at the end of what runs: what follows an `if` that has one
    moves into its branches."""
    result: list[ast.stmt] = []
    for k, s in enumerate(statements):
        if isinstance(s, ast.Continue) and in_loop:
            return result
        if isinstance(s, ast.Return) and not in_loop:
            value = s.value if s.value is not None else ast.copy_location(ast.Constant(None), s)
            target = ast.copy_location(ast.Name(RETURN, ast.Store()), s)
            made = ast.copy_location(ast.Assign([target], value), s)
            return [*result, made]
        if isinstance(s, ast.If):
            rest = list(statements[k + 1 :]) if _leaves([s], in_loop) else []
            made_if = ast.If(s.test, _structured([*s.body, *rest], in_loop), _structured([*s.orelse, *rest], in_loop))
            result.append(ast.copy_location(made_if, s))
            if rest or _leaves([s], in_loop):
                return result
            continue
        if isinstance(s, (ast.For, ast.While)):
            body = _structured(s.body, in_loop=True)
            loop: ast.stmt = (
                ast.For(s.target, s.iter, body, s.orelse)
                if isinstance(s, ast.For)
                else ast.While(s.test, body, s.orelse)
            )
            result.append(ast.copy_location(loop, s))
            continue
        result.append(s)
    return result


def _leaves(statements: Iterable[ast.stmt], in_loop: bool) -> bool:
    for s in statements:
        if isinstance(s, ast.Continue if in_loop else ast.Return):
            return True
        if isinstance(s, ast.If) and (_leaves(s.body, in_loop) or _leaves(s.orelse, in_loop)):
            return True
    return False


# -- names -------------------------------------------------------------------------------------------------------------


def targets(node: ast.AST) -> list[str]:
    """Names that a target binds."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, (ast.Tuple, ast.List)):
        return [name for e in node.elts for name in targets(e)]
    return targets(node.value) if isinstance(node, ast.Starred) else []


def _assigned(statements: Iterable[ast.stmt]) -> list[str]:
    names: dict[str, None] = {}
    for s in statements:
        found: list[str] = []
        if isinstance(s, ast.Assign):
            found = [n for t in s.targets for n in targets(t)]
        elif isinstance(s, (ast.AugAssign, ast.AnnAssign)):
            found = targets(s.target)
        elif isinstance(s, ast.If):
            found = _assigned(s.body) + _assigned(s.orelse)
        elif isinstance(s, ast.For):
            found = targets(s.target) + _assigned(s.body)
        elif isinstance(s, ast.While):
            found = _assigned(s.body)
        names.update(dict.fromkeys(found))
    return list(names)


def _used(node: ast.AST | None) -> set[str]:
    """Names that an expression or statement reads."""
    found: set[str] = set()
    pending: list[Any] = [node]
    while pending:
        n = pending.pop()
        if isinstance(n, ast.Name):
            if isinstance(n.ctx, ast.Load):
                found.add(n.id)
        elif isinstance(n, list):
            pending += n
        elif isinstance(n, ast.AST):
            pending += [getattr(n, field) for field in n._fields]
    return found


class _Liveness:
    """Backward over structured statements: which variables may be read later."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.names: dict[int, set[str]] = {}  # of nodes that have been looked through

    def used(self, node: ast.AST | None) -> set[str]:
        found = self.names.get(id(node))
        if found is None:
            found = self.names[id(node)] = _used(node)
        return found

    def block(self, statements: Sequence[ast.stmt], after: frozenset[str]) -> frozenset[str]:
        live = after
        for s in reversed(statements):
            live = self.statement(s, live)
        return live

    def statement(self, s: ast.stmt, live: frozenset[str]) -> frozenset[str]:
        a = self.analysis
        if isinstance(s, ast.Assign):
            bound = {n for t in s.targets for n in targets(t)}
            read: set[str] = set().union(*(self.used(t) for t in s.targets))
            return frozenset((live - bound) | read | self.used(s.value))
        if isinstance(s, ast.AnnAssign):
            return frozenset((live - set(targets(s.target))) | self.used(s.value) | self.used(s.target))
        if isinstance(s, ast.AugAssign):
            return frozenset(live | set(targets(s.target)) | self.used(s.target) | self.used(s.value))
        if isinstance(s, ast.If):
            self._note(s, live)
            both = self.block(s.body, live) | self.block(s.orelse, live)
            return frozenset(both | self.used(s.test))
        if isinstance(s, (ast.For, ast.While)):
            self._note(s, live)
            loop_names = frozenset(targets(s.target) if isinstance(s, ast.For) else ())
            header = frozenset(self.used(s.iter if isinstance(s, ast.For) else s.test))
            head: frozenset[str] = live | (header if isinstance(s, ast.While) else frozenset())
            for _ in range(2):
                head = head | (self.block(s.body, head) - loop_names)
            a.live_at_head[id(s)] = a.live_at_head.get(id(s), frozenset()) | head
            return head | header
        return frozenset(live | self.used(s))

    def _note(self, s: ast.If | ast.For | ast.While, live: frozenset[str]) -> None:
        a = self.analysis
        a.live_after[id(s)] = a.live_after.get(id(s), frozenset()) | live
        if id(s) not in a.assigned:
            a.assigned[id(s)] = _assigned([*s.body, *(s.orelse if isinstance(s, ast.If) else [])])
