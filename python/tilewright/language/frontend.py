"""Statements of a kernel: assignments, stores, branches, and loops with what they carry."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from typing import Any

from . import arithmetic, builder, indexing, loops
from .arithmetic import is_compile_time, is_number, is_size
from .bounds import Axis, Local
from .builder import Param, Statement, Tile, describe, show_shape, show_size, show_tile
from .frontend_analysis import Analysis, analyse, targets
from .frontend_expressions import Expressions, Poison
from .sizes import ONE, ZERO, Size, size
from .types import DType, f64, i64

_UNSUPPORTED: dict[type, tuple[str, str]] = {
    ast.Break: ("break", "a condition in `while`, or tw.where"),
    ast.Continue: ("continue outside of a loop", "an `if` around what follows"),
    ast.Return: ("return inside of a loop", "a variable that the loop assigns, returned after it"),
    ast.Try: ("try", "tw.assert_ for errors of data"),
    ast.With: ("with", "plain statements"),
    ast.AsyncWith: ("async with", "plain statements"),
    ast.AsyncFor: ("async for", "for"),
    ast.FunctionDef: ("a function inside of the kernel", "a helper function at the module's level"),
    ast.AsyncFunctionDef: ("an async function", "a helper function at the module's level"),
    ast.ClassDef: ("a class", "plain variables"),
    ast.Global: ("global", "a parameter or a local variable"),
    ast.Nonlocal: ("nonlocal", "a parameter or a local variable"),
    ast.Delete: ("del", "nothing: a tile's memory ends with its last use"),
    ast.Assert: ("assert", 'tw.assert_(condition, "text"), or tw.static_assert for compile-time conditions'),
    ast.Import: ("import", "an import at the module's level"),
    ast.ImportFrom: ("import", "an import at the module's level"),
    ast.Raise: ("raise", 'tw.assert_(condition, "text")'),
    ast.Match: ("match", "if and elif"),
}


class Frontend(Expressions):
    """Traces one function for one specialisation."""

    # -- statements ----------------------------------------------------------------------------------------------------

    @property
    def analysis(self) -> Analysis:
        return analyse(self.b.frames[-1].source)

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for s in statements:
            self.statement(s)

    def statement(self, s: ast.stmt) -> None:
        frame = self.b.frames[-1]
        frame.node = s
        method = getattr(self, "_" + type(s).__name__, None)
        if method is None or isinstance(s, tuple(_UNSUPPORTED)):
            what, hint = _UNSUPPORTED.get(type(s), (f"a {type(s).__name__} statement", "what docs/language.md lists"))
            self.fail(f"{what} cannot be used in a kernel", hint)
        method(s)

    def _Pass(self, s: ast.Pass) -> None:
        """Nothing."""

    def _Expr(self, s: ast.Expr) -> None:
        if isinstance(s.value, ast.Constant):  # a docstring
            return
        value = self.evaluate(s.value)
        if isinstance(value, (loops.Parallel, loops.Range)):
            self.fail("a loop without its body", "`for i in ...:`")
        if isinstance(s.value, ast.Compare):
            self.fail("a comparison whose value is not used", "`=` to assign, tw.assert_ to check")

    def _Assign(self, s: ast.Assign) -> None:
        value = self.evaluate(s.value)
        for target in s.targets:
            self.bind(target, value)

    def _AnnAssign(self, s: ast.AnnAssign) -> None:
        if s.value is None:
            self.fail("a declaration without a value", "an assignment")
        self.bind(s.target, self.evaluate(s.value))

    def bind(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            if isinstance(value, (loops.Parallel,)):
                self.fail("tw.parallel is assigned to a variable", f"for {target.id} in tw.parallel(...):", target)
            held = self.env.get(target.id)
            if isinstance(held, Param):
                self.fail(f"the parameter {target.id} is assigned as a whole", f"{target.id}[...] = value", target)
            self.env[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, tuple):
                self.fail(f"{describe(value)} is unpacked into {len(target.elts)} variables", "a tuple", target)
            if any(isinstance(e, ast.Starred) for e in target.elts):
                self.fail("`*` in an assignment", "a variable for each item", target)
            if len(value) != len(target.elts):
                self.fail(
                    f"{len(value)} values are unpacked into {len(target.elts)} variables",
                    "as many variables as values",
                    target,
                )
            for e, v in zip(target.elts, value, strict=True):
                self.bind(e, v)
        elif isinstance(target, ast.Subscript):
            self._store(target, value)
        else:
            self.fail("an attribute is assigned", "a variable, or a parameter's elements: Y[i, :] = value", target)

    def _store(self, target: ast.Subscript, value: Any) -> None:
        base = self.evaluate(target.value)
        if isinstance(base, Tile):
            self.fail(
                "an element of a tile is assigned: tiles are values",
                "tw.where(mask, new, x), or a store to a parameter",
                target,
            )
        if not isinstance(base, Param):
            self.fail(f"an element of {describe(base)} is assigned", "a store to a parameter: Y[i, :] = value", target)
        index = self.index(target.slice)
        frame = self.b.frames[-1]
        outer, frame.node = frame.node, target
        indexing.store_param(self.b, base, index, value)
        frame.node = outer

    def _AugAssign(self, s: ast.AugAssign) -> None:
        if isinstance(s.target, ast.Name):
            before = self.evaluate(ast.copy_location(ast.Name(s.target.id, ast.Load()), s.target))
            self.bind(s.target, self.binary(s.op, before, self.evaluate(s.value)))
            return
        if not isinstance(s.target, ast.Subscript):
            self.fail("an attribute is assigned", "a variable", s.target)
        base = self.evaluate(s.target.value)
        if isinstance(base, Param) and base.type.kind == "in":
            self.fail(f"{base.name} is an In, which is read and not written", f"{base.name}: InOut[...]", s.target)
        if not isinstance(base, Param):
            self._store(s.target, None)
        before = indexing.load_param(self.b, base, self.index(s.target.slice))
        self._store(s.target, self.binary(s.op, before, self.evaluate(s.value)))

    # -- branches ------------------------------------------------------------------------------------------------------

    def _If(self, s: ast.If) -> None:
        condition = self.condition(s.test)
        if isinstance(condition, bool):
            self.block(s.body if condition else s.orelse)
            return
        names = self.analysis.assigned[id(s)]
        live = self.analysis.live_after[id(s)]

        def run(statements: list[ast.stmt]) -> Callable[[], None]:
            return lambda: self.block(statements)

        self._branch(condition, run(s.body), run(s.orelse), names, live, s)

    def select_expression(self, condition: Tile, node: ast.IfExp) -> Any:
        name = "a conditional expression"

        def run(expression: ast.expr) -> Callable[[], None]:
            def evaluate() -> None:
                self.env[name] = self.evaluate(expression)

            return evaluate

        self._branch(condition, run(node.body), run(node.orelse), [name], frozenset({name}), node)
        return self.env.pop(name)

    def _branch(
        self,
        condition: Tile,
        then: Callable[[], None],
        otherwise: Callable[[], None],
        names: list[str],
        live: frozenset[str],
        node: ast.stmt | ast.expr,
    ) -> None:
        b = self.b
        statement: Statement = {"op": "if", "cond": condition.id}
        b.guards.append(statement)
        outer = self.env
        environments, blocks = [], []
        for run in (then, otherwise):
            self.env = dict(outer)
            b.open_block()
            run()
            blocks.append(b.close_block())
            environments.append(self.env)
        b.guards.pop()
        self.env = outer
        b.frames[-1].node = node
        results: list[Statement] = []
        for name in names:
            self._merge(name, outer, environments, blocks, results, name in live)
        statement.update({"then": blocks[0], "else": blocks[1], "results": results, "loc": b.place()})
        b.append(statement)

    def _merge(
        self,
        name: str,
        outer: dict[str, Any],
        sides: list[dict[str, Any]],
        blocks: list[list[Statement]],
        results: list[Statement],
        live: bool,
    ) -> None:
        missing = [name not in side or isinstance(side[name], Poison) for side in sides]
        if any(missing):
            line = self.b.place()[0]
            outer[name] = Poison(
                f"{name} is used, and only one branch of the `if` in line {line} assigns it",
                f"{name} = ... in the other branch, or before the `if`",
            )
            if all(missing) and name in sides[0]:
                outer[name] = sides[0][name]
            return
        values = [side[name] for side in sides]
        if values[0] is values[1] or (
            is_compile_time(values[0]) and type(values[0]) is type(values[1]) and values[0] == values[1]
        ):
            outer[name] = values[0]
            return
        if not live:
            outer[name] = Poison(f"{name} differs between the branches of an `if`", "an assignment before this line")
            return
        outer[name] = self._merged(name, values, blocks, results)

    def _merged(self, name: str, values: list[Any], blocks: list[list[Statement]], results: list[Statement]) -> Any:
        b = self.b
        if isinstance(values[0], tuple) and isinstance(values[1], tuple) and len(values[0]) == len(values[1]):
            return tuple(
                self._merged(f"{name}[{k}]", list(pair), blocks, results)
                for k, pair in enumerate(zip(*values, strict=True))
            )
        for v in values:
            if not isinstance(v, (Tile, Size, int, float)):
                self.fail(
                    f"{name} is {describe(values[0])} in one branch and {describe(values[1])} in the other of an `if` that is decided at run time",
                    "a compile-time condition, or values that exist at run time",
                )
        dtype, weak = self._meeting(name, values)
        made = [
            self._in_block(block, functools.partial(self._as, v, dtype, weak, name))
            for v, block in zip(values, blocks, strict=True)
        ]
        if not b.same_shape(made[0].shape, made[1].shape):
            self.fail(
                f"{name} is {show_tile(made[0])} in one branch and {show_tile(made[1])} in the other: the shapes differ",
                "tiles of one shape in both branches",
            )
        made[1] = self._in_block(blocks[1], functools.partial(b.broadcast, made[1], made[0].shape))
        if made[0].id == made[1].id:
            return made[0]
        result = b.fresh(dtype, made[0].shape, None, weak)
        results.append({"then": made[0].id, "else": made[1].id, "result": result.id})
        return result

    def _meeting(self, name: str, values: list[Any]) -> tuple[DType, bool]:
        strong = [v for v in values if isinstance(v, bool) or (isinstance(v, Tile) and not v.weak)]
        if not strong:
            floating = any(isinstance(v, float) or (isinstance(v, Tile) and v.dtype.is_float) for v in values)
            return (f64 if floating else i64), True
        found = {arithmetic.bool_ if isinstance(v, bool) else v.dtype for v in strong}
        if len(found) > 1:
            names = " and ".join(describe(v) for v in values)
            self.fail(f"{name} has two dtypes: {names}", ".to(dtype) in one of the branches")
        return found.pop(), False

    def _in_block(self, block: list[Statement], make: Callable[[], Tile]) -> Tile:
        """A conversion at the end of a block that is traced already."""
        b = self.b
        b.blocks.append(block)
        b.known_values.append({})
        made = make()
        b.close_block()
        return made

    def _as(self, value: Any, dtype: DType, weak: bool, name: str) -> Tile:
        if weak:
            return self.b.cast(self.b.value(value), dtype, weak=True)
        return arithmetic.assigned(self.b, value, dtype, name)

    # -- loops ---------------------------------------------------------------------------------------------------------

    def _For(self, s: ast.For) -> None:
        if s.orelse:
            self.fail("`else` of a loop", "statements after the loop", s.orelse[0])
        over = self.evaluate(s.iter)
        if isinstance(over, loops.Parallel):
            self._parallel(s, over)
        elif isinstance(over, loops.Range):
            self._range_loop(s, over)
        elif isinstance(over, (tuple, range)):
            for value in over:
                self.bind(s.target, value)
                self.block(s.body)
        else:
            hint = (
                f"tw.range({ast.unparse(s.iter)})"
                if is_size(over) or isinstance(over, Axis)
                else "tw.range, tw.parallel, range or a tuple"
            )
            self.fail(f"a loop over {describe(over)}", hint, s.iter)

    def _parallel(self, s: ast.For, over: loops.Parallel) -> None:
        b = self.b
        if len(b.frames) > 1:
            self.fail(
                "tw.parallel in a helper: the grid is the kernel's own", "tw.range, or the loop in the kernel", s.iter
            )
        if any(a.parallel for a in b.axes):
            self.fail(
                "tw.parallel inside of tw.parallel",
                "one tw.parallel(M, N) with several axes, or tw.range inside",
                s.iter,
            )
        if s not in self.analysis.body:
            self.fail(
                "tw.parallel inside of a loop or a branch",
                "tw.parallel at the top of the kernel, with the loop or `if` inside",
                s.iter,
            )
        if s is not self.analysis.body[-1]:
            following = self.analysis.body[self.analysis.body.index(s) + 1]
            self.fail(
                "code after the parallel loop", "it before the loop, inside of it, or in a second kernel", following
            )
        if isinstance(s.target, (ast.Tuple, ast.List)):
            elements = list(s.target.elts)
        else:
            elements = [s.target]
        if len(elements) != len(over.ends) or not all(isinstance(e, ast.Name) for e in elements):
            self.fail(
                f"tw.parallel has {len(over.ends)} axes for {len(elements)} variable{'s' if len(elements) != 1 else ''}",
                f"for {', '.join('ijklmnpq'[: len(over.ends)])} in tw.parallel(...)",
                s.target,
            )
        records, axes = [], []
        for e, end, tile in zip(elements, over.ends, over.tiles, strict=True):
            assert isinstance(e, ast.Name)
            axis, record = self._axis(
                e.id, 0, b.to_size(end, f"the end of the axis {e.id}"), tile, tile == 1, parallel=True
            )
            axes.append(axis)
            records.append(record)
            self.env[e.id] = arithmetic.plain(axis.start) if axis.scalar else axis
        indexing.check_before_parallel(b, axes, b.blocks[0])
        bound = set(targets(s.target))
        for name in self.analysis.assigned[id(s)]:
            if name in self.env and name not in bound and name in self.analysis.live_at_head[id(s)]:
                self.fail(
                    f"{name} is carried from one grid point to the next, and grid points run in any order",
                    "tw.range for a loop in order, or tw.atomic_add to an InOut",
                    s,
                )
        b.axes += axes
        self.loop_depth += 1
        self._body(s)
        self.loop_depth -= 1
        # What stands before the loop is part of each grid point.
        body = b.blocks[0]
        b.blocks[0] = [{"op": "parallel", "axes": records, "loc": [s.lineno, s.col_offset], "body": body}]

    def _body(self, s: ast.For | ast.While) -> None:
        if not any(not isinstance(x, ast.Pass) for x in s.body):
            self.fail("a loop without statements", "a body, or no loop", s)
        self.block(s.body)

    def _axis(
        self, name: str, begin: Any, end: Size, tile: int | None, scalar: bool, parallel: bool = False, step: int = 1
    ) -> tuple[Axis, Statement]:
        b = self.b
        first, start_at = ZERO, size(begin)
        if step != 1 or not b.bounds.proves(start_at):
            # Symbols are not negative: count from zero, and add where the range begins.
            distance = end - start_at if step > 0 else start_at - end
            first, start_at, end = (
                start_at,
                ZERO,
                (distance + abs(step) - 1) // abs(step) if abs(step) != 1 else distance,
            )
        key, number = b.local(name if scalar else f"{name}.start")
        record: Statement = {"name": name, "start": number}
        extent_key = None
        if not scalar:
            extent_key, record["size"] = b.local(f"{name}.size")
        record.update({"begin": b.text(start_at), "end": b.text(end), "tile": "scalar" if scalar else tile})
        b.bounds.define(Local(key, extent_key, start_at, end, tile))
        symbol = builder.sizes.symbol(key)
        axis = Axis(
            name,
            first + symbol * step,
            ONE if extent_key is None else builder.sizes.symbol(extent_key),
            start_at,
            end,
            tile,
            scalar,
            parallel,
            first,
        )
        return axis, record

    def _range_loop(self, s: ast.For, over: loops.Range) -> None:
        b = self.b
        if not isinstance(s.target, ast.Name):
            self.fail("a loop over a range has one variable", "for k in tw.range(K)", s.target)
        name = s.target.id
        ends = [ast.unparse(a) for a in s.iter.args[:2]] if isinstance(s.iter, ast.Call) else []
        begin = b.to_size(over.begin, "the begin of the loop", name=ends[0] if ends else "begin")
        end = b.to_size(over.end, "the end of the loop", clamp=True, name=ends[-1] if ends else "end")

        def enter() -> Statement:
            axis, record = self._axis(name, begin, end, over.tile, over.scalar, step=over.step)
            b.axes.append(axis)
            self.env[name] = arithmetic.plain(axis.start) if axis.scalar else axis
            return record

        def run() -> dict[str, Any]:
            record = enter()
            b.frames[-1].node = s
            self._body(s)
            b.axes.pop().ended = True
            return {"axis": record}

        self._carrying(s, [n for n in self.analysis.assigned[id(s)] if n != name], run, "for")
        self.env[name] = Poison(
            f"the loop variable {name} is used after its loop",
            "a variable assigned inside of the loop, or the loop's size",
        )

    def _While(self, s: ast.While) -> None:
        if s.orelse:
            self.fail("`else` of a loop", "statements after the loop", s.orelse[0])
        b = self.b
        decided: list[bool] = []

        def run() -> dict[str, Any] | None:
            b.open_block()
            condition = self.condition(s.test)
            decided.append(isinstance(condition, bool))
            if isinstance(condition, bool):
                if not condition:
                    b.close_block()
                    return None
                condition = b.value(condition)  # until the body turns out to change it
            statement = {"condition": b.close_block(), "cond": condition.id}
            b.guards.append(statement)
            self._body(s)
            b.guards.pop()
            return statement

        runs = self._carrying(s, self.analysis.assigned[id(s)], run, "while")
        if runs and decided[-1]:
            self.fail(
                "the condition of `while` does not change", "a condition on variables that the body assigns", s.test
            )

    def _carrying(
        self, s: ast.For | ast.While, names: list[str], run: Callable[[], dict[str, Any] | None], op: str
    ) -> bool:
        """Traces a loop; False if `run` says that its body never runs. Variables that the body assigns and that are needed again at its head or after the loop are carried.

        Python numbers among them become run-time values only if the body changes them; which dtype they take is known after the body has been
        traced, so it is traced again then.
        """
        b = self.b
        head = self.analysis.live_at_head[id(s)]
        outer = dict(self.env)
        line = s.lineno
        candidates = [n for n in names if n in outer and not isinstance(outer[n], Poison) and n in head]
        types: dict[str, tuple[DType, bool]] = {}
        for n in candidates:
            v = outer[n]
            if isinstance(v, Tile) and not v.weak:
                types[n] = (v.dtype, False)
        for _ in range(8):
            mark = b.checkpoint()
            self.env = dict(outer)
            carried: list[tuple[str, Tile, Tile]] = []
            for n in candidates:
                if n in types:
                    dtype, weak = types[n]
                    init = self._as(outer[n], dtype, weak, n)
                    arg = b.fresh(dtype, init.shape, None, weak)
                    carried.append((n, init, arg))
                    self.env[n] = arg
            b.open_block()
            fields = run()
            if fields is None:
                b.close_block()
                b.rollback(mark)
                self.env = outer
                return False
            after = self.env
            changed = self._retyped(candidates, outer, after, types, line)
            if not changed:
                break
            types.update(changed)
            b.close_block()
            b.rollback(mark)
        else:
            self.fail(f"the dtypes of {', '.join(types)} do not settle in this loop", ".to(dtype) in the body", s)
        b.frames[-1].node = s
        records: list[Statement] = []
        results: dict[str, Any] = {}
        for n, init, arg in carried:
            following = self._next(n, init, arg, after[n], line)
            if following.id == arg.id:
                b.aliases[arg.id] = init.id
                results[n] = outer[n] if isinstance(outer[n], Tile) else init
                continue
            result = b.fresh(arg.dtype, arg.shape, None, arg.weak)
            records.append({"init": init.id, "arg": arg.id, "next": following.id, "result": result.id})
            results[n] = result
        statement: Statement = {"op": op, **fields, "carried": records, "body": b.close_block(), "loc": [*b.place()]}
        if len(b.frames) == 1:
            statement["loc"] = [s.lineno, s.col_offset]
        b.append(statement)
        self.env = outer
        for n in names:
            if n in results:
                outer[n] = results[n]
            elif n in candidates:
                continue  # a compile-time value that the body leaves as it is
            elif n not in outer or isinstance(outer[n], Poison):
                outer[n] = Poison(
                    f"{n} is used, and only the loop in line {line} assigns it, which may run zero times",
                    f"{n} = ... before the loop",
                )
            else:
                outer[n] = Poison(
                    f"{n} is used after the loop in line {line}, which assigns it", f"{n} = ... before this line"
                )
        return True

    def _retyped(
        self,
        names: list[str],
        before: dict[str, Any],
        after: dict[str, Any],
        types: dict[str, tuple[DType, bool]],
        line: int,
    ) -> dict[str, tuple[DType, bool]]:
        """Weak and compile-time values that the body has changed into something else: the types with which to trace it again."""
        changed: dict[str, tuple[DType, bool]] = {}
        for n in names:
            v, w = before[n], after.get(n)
            if isinstance(w, Poison):
                self.fail(w.message, w.hint)
            if n in types and not types[n][1]:
                continue
            if n not in types and (
                w is v
                or (is_compile_time(v) and is_compile_time(w) and type(v) is type(w) and v == w)
                or (is_size(v) and is_size(w) and v == w)
            ):
                continue
            if not isinstance(v, (Tile, Size, int, float)):
                self.fail(
                    f"{n} is {describe(v)} before the loop in line {line} and {describe(w)} after its body",
                    "a variable for each part that changes: tiles or numbers",
                )
            if isinstance(w, Tile) and not w.weak:
                if w.shape:
                    self.fail(
                        f"{n} is the number {describe(v)} before the loop in line {line} and {show_tile(w)} after its body",
                        f"{n} = tw.full(shape, value, {w.dtype!r}) before the loop",
                    )
                wanted = (w.dtype, False)
            elif isinstance(w, bool):
                wanted = (arithmetic.bool_, False)
            elif is_number(w) or isinstance(w, (Size, Tile)):
                floating = any(isinstance(x, float) or (isinstance(x, Tile) and x.dtype.is_float) for x in (v, w))
                wanted = (f64 if floating else i64, True)
                if n in types and types[n][0].is_float:
                    wanted = types[n]
            else:
                self.fail(
                    f"{n} is a number before the loop in line {line} and {describe(w)} after its body",
                    "a number or a tile",
                )
            if types.get(n) != wanted:
                changed[n] = wanted
        return changed

    def _next(self, name: str, init: Tile, arg: Tile, value: Any, line: int) -> Tile:
        """What the next iteration gets: dtype and shape must be those of before."""
        b = self.b
        if isinstance(value, (int, float, Size)) and not arg.shape:
            return self._as(value, arg.dtype, arg.weak, name)
        if not isinstance(value, Tile):
            self.fail(
                f"{name} is {show_tile(init)} before the loop in line {line} and {describe(value)} after its body",
                "a tile of the same dtype and shape",
            )
        if not b.same_shape(value.shape, arg.shape):
            self.fail(
                f"{name} changes its shape in the loop in line {line}: {show_shape(arg.shape)} before, {show_shape(value.shape)} after the body",
                f"a tile {show_shape(arg.shape)} in every iteration; tw.zeros(({', '.join(map(show_size, value.shape))}{',' if len(value.shape) == 1 else ''}), ...) before the loop"
                if value.shape
                else "a number before the loop",
            )
        if value.dtype != arg.dtype and not (value.weak and not arg.weak and not value.shape):
            self.fail(
                f"{name} changes its dtype in the loop in line {line}: {arg.dtype.name} before, {value.dtype.name} after the body",
                f".to({arg.dtype!r}) on what is assigned, or {value.dtype!r} before the loop",
            )
        return b.broadcast(self._as(value, arg.dtype, arg.weak, name), arg.shape)
