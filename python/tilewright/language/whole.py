"""Whole-tensor evaluation: a kernel program as differentiable PyTorch operations on whole tensors.

A grid's tiles are slices of tensors, so where a program uses them straight, taking each tile axis as one tile gives what all tiles give
together; scalar axes become leading dimensions that broadcast. What makes that right is checked on the way, value by value (`Whole`):

- *scales*: how a dimension grows with the tiles of each axis. An index must reach the same element however the axis is cut.
- *defect*: how an integer depends on where tiles start. `iota` counts from the tile's start, so it has -1, and adding the start repairs it.
- *form*: whether a value is complete, a part of a sum (product, maximum, ..) over an axis whose other parts lie in other tiles, or a loop's
  carried value with such parts added. Parts may only be added to a carried value, or to memory by atomic additions.

Programs that are not of this form (control flow at run time, carried values that are not accumulated, ..) are refused with `NotWhole`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch

from ..dynamo.dtypes import DTYPES
from . import semantics, size_text, sizes, whole_ops
from .interpreter import Statement, walk
from .whole_values import COMPLETE, Axis, Form, Whole, coefficient, polynomial

#: A size: int or SymInt, or a tensor over the leading dimensions where it depends on scalar axes.
Number: TypeAlias = Any

_LONGEST_UNROLLED = 64


class NotWhole(Exception):  # noqa: N818
    """The program has no whole-tensor form; the text says where and why."""


def evaluate(
    program: Mapping[str, Any], inputs: Sequence[Any], symbols: Mapping[str, int] | None = None
) -> list[torch.Tensor]:
    """What the program writes: the `out` and `inout` parameters in order, as new tensors.

    `inputs`: tensors (real, fake or traced, of one device) and numbers for all parameters but `out` ones, in order. `symbols`: sizes by name
    that no input gives. Differentiable where PyTorch's operators are.

    Raises NotWhole (before computing anything that matters) if the program is not of that form, ValueError if a size is not given.
    """
    return _Evaluator(program, inputs, symbols or {}).run()


def _length(begin: Number, end: Number) -> Number:
    return end if isinstance(begin, int) and begin == 0 else whole_ops.maximum(end - begin, 0)


class _Evaluator:
    def __init__(self, program: Mapping[str, Any], inputs: Sequence[Any], symbols: Mapping[str, int]) -> None:
        self.program, self.params = program, program["params"]
        self.values: dict[int, Whole] = {}
        self.axes: list[Axis] = []  # tile axes that we are inside, scalar axes of the grid
        self.leads: list[Number] = []  # their extents
        self.begins: dict[str, Number] = {}  # of scalar axes
        self.grid: tuple[Axis, ...] = ()
        self.numbers: dict[str, Number] = {}
        self._bind(inputs, symbols)

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def _bind(self, inputs: Sequence[Any], symbols: Mapping[str, int]) -> None:
        given = iter(inputs)
        if sum(p["kind"] != "out" for p in self.params) != len(inputs):
            raise ValueError(
                f"{self.program['name']}: one input is expected for each parameter that is not an output, not {len(inputs)}"
            )
        self.arguments = [None if p["kind"] == "out" else next(given) for p in self.params]
        names = self.program["symbols"]
        self.numbers.update({f"s{names.index(name)}": value for name, value in symbols.items()})
        self.device = torch.device("cpu")
        for param, argument in zip(self.params, self.arguments, strict=True):
            if param["kind"] == "scalar":
                if param.get("symbol") is not None:
                    self.numbers.setdefault(f"s{param['symbol']}", argument)
            elif argument is not None:
                self.device = argument.device
                for text, size in zip(param["sizes"], argument.shape, strict=True):
                    if polynomial(text).symbol is not None:
                        self.numbers.setdefault(str(text), size)
        for k, name in enumerate(names):
            if f"s{k}" not in self.numbers:
                raise ValueError(
                    f"{self.program['name']}: no input gives the size {name}; pass symbols={{{name!r}: ..}}"
                )

    def size(self, text: str | int) -> Number:
        return size_text.evaluate(text, self.numbers, whole_ops.minimum, whole_ops.maximum)

    def shape(self, statement: Statement) -> tuple[list[Any], tuple[dict[str, int], ...], tuple[frozenset[str], ...]]:
        """Extents, scales and exact axes of what a statement makes."""
        extents: list[Any] = []
        scales: list[dict[str, int]] = []
        exact: list[frozenset[str]] = []
        for text in statement["shape"]:
            p, scale, own = polynomial(text), dict[str, int](), frozenset[str]()
            for axis in self.axes:
                if axis.start in p.symbols():
                    raise self.refuse(statement, f"how much is computed depends on where {axis.name} stands")
                if axis.size is None or axis.size not in p.symbols():
                    continue
                c = coefficient(p, axis.size)
                if c is None or c.constant is None:
                    raise self.refuse(statement, f"the size {text} is not linear in the tile size of {axis.name}")
                scale[axis.name] = c.constant
                if p == sizes.symbol(axis.size):
                    own = frozenset([axis.name])
            extents.append(self.size(text))
            scales.append(scale)
            exact.append(own)
        return extents, tuple(scales), tuple(exact)

    def refuse(self, statement: Statement, why: str) -> NotWhole:
        line = statement.get("loc", (0, 0))[0]
        return NotWhole(
            f"{self.program.get('file', '<kernel>')}:{line}: {self.program['name']} has no whole-tensor form: {why}"
        )

    # -- control -------------------------------------------------------------------------------------------------------

    def run(self) -> list[torch.Tensor]:
        self.memory: list[torch.Tensor | None] = []
        for param, argument in zip(self.params, self.arguments, strict=True):
            self.memory.append(argument if param["kind"] in ("in", "inout") else None)
        self.aliases = [p["kind"] == "inout" for p in self.params]
        # Scalar axes are known from the beginning, so that all values have the same number of leading dimensions.
        grid = next((s for s in self.program["body"] if s["op"] == "parallel"), None)
        self.lead_count = sum(axis["tile"] == "scalar" for axis in grid["axes"]) if grid else 0
        self.statements(self.program["body"])
        return [self._result(k) for k, p in enumerate(self.params) if p["kind"] in ("out", "inout")]

    def _result(self, param: int) -> torch.Tensor:
        result = self._output(param)
        return result.clone(memory_format=torch.contiguous_format) if self.aliases[param] else result.contiguous()

    def _output(self, param: int) -> torch.Tensor:
        """What an output holds by now; zeros where nothing was written."""
        memory = self.memory[param]
        if memory is None:
            extents = [self.size(text) for text in self.params[param]["sizes"]]
            return torch.zeros(extents, dtype=DTYPES[self.params[param]["dtype"]], device=self.device)
        return memory

    def statements(self, statements: list[Statement]) -> None:
        for s in statements:
            op = s["op"]
            if op in ("parallel", "for"):
                self.parallel(s) if op == "parallel" else self.loop(s)
            elif op in ("store", "atomic_add"):
                self.store(s)
            elif op == "sort":
                values, indices = self.sort(s)
                self.values[s["ids"][0]], self.values[s["ids"][1]] = values, indices
            elif op in semantics.ARITY:
                self.values[s["id"]] = self.elementwise(s)
            elif op in _VALUES:
                self.values[s["id"]] = _VALUES[op](self, s)
            else:
                raise self.refuse(s, _REASONS.get(op, f"{op} has none"))

    def _outer_symbols_free(self, s: Statement, axis: Statement) -> None:
        for key in ("begin", "end"):
            used = polynomial(axis[key]).symbols()
            for outer in self.axes:
                if outer.start in used or (outer.size is not None and outer.size in used):
                    raise self.refuse(s, f"the range of {axis['name']} depends on {outer.name}")

    def _enter_tiles(self, axis: Statement) -> Axis:
        begin, end = self.size(axis["begin"]), self.size(axis["end"])
        self.numbers[f"s{axis['start']}"] = begin
        self.numbers[f"s{axis['size']}"] = _length(begin, end)
        return Axis(axis["name"], f"s{axis['start']}", f"s{axis['size']}", None)

    def parallel(self, s: Statement) -> None:
        entered = []
        for axis in s["axes"]:
            self._outer_symbols_free(s, axis)
            if axis["tile"] != "scalar":
                entered.append(self._enter_tiles(axis))
                continue
            begin, end = self.size(axis["begin"]), self.size(axis["end"])
            lead = len(self.leads)
            self.leads.append(_length(begin, end))
            self.begins[axis["name"]] = begin
            positions = torch.arange(begin, begin + self.leads[-1], device=self.device)
            self.numbers[f"s{axis['start']}"] = positions.reshape(
                [-1 if g == lead else 1 for g in range(self.lead_count)]
            )
            entered.append(Axis(axis["name"], f"s{axis['start']}", None, lead))
        self.axes += entered
        self.grid = tuple(entered)
        self.statements(s["body"])

    def loop(self, s: Statement) -> None:
        axis = s["axis"]
        if axis["tile"] == "scalar":
            self._unrolled(s)
            return
        self._outer_symbols_free(s, axis)
        self._no_recurrence_through_memory(s)
        tile_axis = self._enter_tiles(axis)
        self.axes.append(tile_axis)
        carried = s.get("carried", [])
        for c in carried:
            self.values[c["arg"]] = replace(self.values[c["init"]], form=Form(carried=c["arg"]))
        self.statements(s["body"])
        self.axes.remove(tile_axis)
        for c in carried:
            self.values[c["result"]] = self._accumulated(s, c, axis["name"])

    def _accumulated(self, s: Statement, c: Statement, axis: str) -> Whole:
        init, following = self.values[c["init"]], self.values[c["next"]]
        form = following.form
        if form.carried == c["arg"] and form.kind is None:
            return init  # carried through unchanged
        if form.carried != c["arg"] or axis not in form.axes:
            raise self.refuse(
                s,
                f"a value carried by the loop over {axis} is not a sum, product or extremum over {axis} and nothing else",
            )
        rest = form.axes - {axis}
        if not rest and init.form == COMPLETE:
            return replace(following, form=COMPLETE)
        if init.form.carried is not None and rest and init.form.axes in (frozenset(), rest):
            return replace(following, form=Form(form.kind, rest, init.form.carried))
        if init.form == COMPLETE and form.kind == "sum" and init.number == 0:
            return replace(following, form=Form("sum", rest))
        raise self.refuse(s, f"what the loop over {axis} accumulates is accumulated further in another way")

    def _no_recurrence_through_memory(self, s: Statement) -> None:
        used: dict[int, set[str]] = {}
        for inner in walk(s["body"]):
            if inner["op"] in ("load", "store", "atomic_add"):
                used.setdefault(inner["param"], set()).add("load" if inner["op"] == "load" else "store")
        for param, how in used.items():
            if len(how) == 2:
                raise self.refuse(s, f"the loop reads and writes {self.params[param]['name']}")

    def _unrolled(self, s: Statement) -> None:
        axis = s["axis"]
        begin, end = polynomial(axis["begin"]).constant, polynomial(axis["end"]).constant
        if begin is None or end is None or end - begin > _LONGEST_UNROLLED:
            raise self.refuse(
                s,
                f"the loop over {axis['name']} goes by single steps, and not a fixed number of at most {_LONGEST_UNROLLED}",
            )
        carried = s.get("carried", [])
        current = [self.values[c["init"]] for c in carried]
        for i in range(begin, end):
            self.numbers[f"s{axis['start']}"] = i
            for c, value in zip(carried, current, strict=True):
                self.values[c["arg"]] = value
            self.statements(s["body"])
            current = [self.values[c["next"]] for c in carried]
        for c, value in zip(carried, current, strict=True):
            self.values[c["result"]] = value

    # -- values --------------------------------------------------------------------------------------------------------

    def args(self, s: Statement, complete: bool = False) -> list[Whole]:
        values = [self.values[number] for number in s["args"]]
        if any(v.flat for v in values) and s["op"] != "reduce":
            raise self.refuse(s, f"{s['op']} uses the elements of a tile in one row")
        return [self.complete(s, v) for v in values] if complete else values

    def complete(self, s: Statement, v: Whole) -> Whole:
        """The value, if it does not depend on how axes are cut into tiles."""
        if v.form != COMPLETE:
            axes = ", ".join(sorted(v.form.axes)) or "a loop"
            raise self.refuse(s, f"{s['op']} uses a value that is still being accumulated over {axes}")
        if v.defect:
            raise self.refuse(s, f"{s['op']} uses an index that depends on where tiles of {', '.join(v.defect)} start")
        return v

    def _make(self, s: Statement, data: torch.Tensor, **fields: Any) -> Whole:
        _, scales, exact = self.shape(s)
        return Whole(data.to(DTYPES[s["dtype"]]), s["dtype"], scales, exact, **fields)

    def supported(self, s: Statement, dtype: str) -> None:
        if dtype in ("u16", "u32", "u64"):
            raise self.refuse(s, f"PyTorch has few operators for {dtype}")

    def filled(self, s: Statement, value: int | float | bool) -> Whole:
        extents, scales, exact = self.shape(s)
        data = torch.full((), value, dtype=DTYPES[s["dtype"]], device=self.device)
        return Whole(data.expand([1] * self.lead_count + extents), s["dtype"], scales, exact, number=value)

    def const(self, s: Statement) -> Whole:
        self.supported(s, s["dtype"])
        if s["dtype"] == "bool":
            return self.filled(s, bool(s["value"]))
        if s["dtype"] not in semantics.FLOATS:
            return self.filled(s, int(s["value"]))
        return self.filled(s, whole_ops.rounded_number(float(s["value"]), s["dtype"]))

    def size_value(self, s: Statement) -> Whole:
        p, defect = polynomial(s["size"]), {}
        for axis in self.axes:
            if axis.size is None or not p.symbols() & {axis.start, axis.size}:
                continue
            c = coefficient(p, axis.start)
            if axis.size in p.symbols() or c is None or c.constant is None:
                raise self.refuse(s, f"the number {s['size']} depends on how long or where a tile of {axis.name} is")
            defect[axis.name] = c.constant
        value = self.size(s["size"])
        if isinstance(value, torch.Tensor):
            return self._make(s, value, defect=defect)
        if isinstance(value, int):
            return replace(self.filled(s, value), defect=defect)
        data = torch.full((), value, dtype=torch.int64, device=self.device)
        return self._make(s, data.expand([1] * self.lead_count), defect=defect)

    def scalar_value(self, s: Statement) -> Whole:
        self.supported(s, s["dtype"])
        param = self.params[s["param"]]
        value: Any = self.arguments[s["param"]]
        if isinstance(value, torch.Tensor):
            data = value.to(DTYPES[param["dtype"]])
        else:
            data = torch.full((), value, dtype=DTYPES[param["dtype"]], device=self.device)
        return self._make(s, data.to(DTYPES[s["dtype"]]).expand([1] * self.lead_count))

    def iota(self, s: Statement) -> Whole:
        extents, scales, _ = self.shape(s)
        axis = s["axis"]
        positions = torch.arange(extents[axis], dtype=DTYPES[s["dtype"]], device=self.device)
        positions = positions.reshape([1] * self.lead_count + [-1 if d == axis else 1 for d in range(len(extents))])
        data = positions.expand([1] * self.lead_count + extents)
        return self._make(s, data, defect={name: -c for name, c in scales[axis].items()})

    def elementwise(self, s: Statement) -> Whole:
        op, args = s["op"], self.args(s)
        for dtype in (s["dtype"], *(a.dtype for a in args)):
            self.supported(s, dtype)
        form, defect = self._form(s, args), self._defect(s, args)
        if form.carried is not None and op in ("add", "max", "min"):
            carried, part = args if args[0].form.carried is not None else reversed(args)
            if carried.number == {"add": 0, "max": -math.inf, "min": math.inf}[op]:
                return self._make(s, part.data, form=form, alias=part.alias)  # the first part
        return self._make(s, whole_ops.scalar(op, args, s["dtype"]), form=form, defect=defect)

    def _defect(self, s: Statement, args: list[Whole]) -> dict[str, int]:
        op, defects = s["op"], [a.defect for a in args]
        if not any(defects):
            return {}
        integers = all(a.dtype in ("i32", "i64") for a in args)
        if op in ("add", "sub") and integers:
            sign = 1 if op == "add" else -1
            names = defects[0] | defects[1]
            total = {n: defects[0].get(n, 0) + sign * defects[1].get(n, 0) for n in names}
            return {n: c for n, c in total.items() if c}
        if op == "cast" and integers and s["dtype"] in ("i32", "i64"):
            return defects[0]
        if op == "mul" and integers:
            for a, b in ((args[0], args[1]), (args[1], args[0])):
                if isinstance(a.number, int) and not a.defect:
                    return {n: c * a.number for n, c in b.defect.items() if c * a.number}
        if op in ("eq", "ne", "lt", "le") and defects[0] == defects[1]:
            return {}
        for a in args:
            self.complete(s, replace(a, form=COMPLETE))
        return {}

    def _form(self, s: Statement, args: list[Whole]) -> Form:
        op, forms = s["op"], [a.form for a in args]
        if all(f == COMPLETE for f in forms):
            return COMPLETE
        a, b = (forms * 2)[:2] if len(forms) == 1 else forms[:2]
        kind = {"add": "sum", "sub": "sum", "mul": "prod", "max": "max", "min": "min", "or": "any", "and": "all"}.get(
            op
        )
        boolean = {("add", "bool"): "any", ("mul", "bool"): "all", ("max", "bool"): "any", ("min", "bool"): "all"}
        kind = boolean.get((op, args[0].dtype), kind)
        if len(forms) == 2 and kind is not None:
            if op != "sub" and b.carried is not None:
                a, b = b, a
            if b.kind == kind and b.carried is None:
                if a.carried is not None and a.kind in (None, kind) and a.axes in (frozenset(), b.axes):
                    return Form(kind, b.axes, a.carried)
                if a == b:
                    return a
        # A sum times something that does not run with the axis is a sum still.
        parts = [f for f in forms if f != COMPLETE]
        _, scales, _ = self.shape(s)
        if len(parts) == 1 and parts[0].carried is None:
            part, first = parts[0], forms[0] != COMPLETE
            apart = not any(scale.get(name) for scale in scales for name in part.axes)
            floats = all(v.dtype in semantics.FLOATS for v in args) and s["dtype"] in semantics.FLOATS
            if part.kind == "sum" and apart and (op in ("mul", "neg") or (op == "div" and first and floats)):
                return part
            if op == "cast" and floats:
                return part
        axes = ", ".join(sorted(frozenset().union(*(f.axes for f in forms)))) or "a loop"
        raise self.refuse(s, f"{op} uses a value that is still being accumulated over {axes}")

    def reshape(self, s: Statement) -> Whole:
        (x,) = self.args(s, complete=True)
        try:
            return self._reshaped(s, x)
        except NotWhole:
            if len(s["shape"]) != 1:
                raise
            return replace(x, flat=True)

    def _reshaped(self, s: Statement, x: Whole) -> Whole:
        extents, scales, _ = self.shape(s)
        before, after = list(x.scales), list(scales)
        lengths = list(x.data.shape[self.lead_count :]), list(extents)
        for end in (0, -1):  # what stands unchanged in front and behind
            while before and after and before[end] == after[end] and lengths[0][end] == lengths[1][end]:
                for items in (before, after, *lengths):
                    items.pop(end)
        if any(before) or any(after):
            raise self.refuse(s, "reshape mixes a tile's dimension with others")
        return self._make(s, x.data.reshape([*x.data.shape[: self.lead_count], *extents]), alias=x.alias)

    def concat(self, s: Statement) -> Whole:
        args, axis = self.args(s, complete=True), s["axis"]
        if any(a.scales[axis] for a in args):
            raise self.refuse(s, "concat puts tiles one behind the other")
        leads = torch.broadcast_shapes(*(a.data.shape[: self.lead_count] for a in args))
        parts = [a.data.expand([*leads, *a.data.shape[self.lead_count :]]) for a in args]
        return self._make(s, torch.cat(parts, self.lead_count + axis))

    def reduce(self, s: Statement) -> Whole:
        (x,) = self.args(s)
        kind = s["kind"]
        self.supported(s, x.dtype)
        if x.defect or x.form.carried is not None or x.form.kind not in (None, kind):
            self.complete(s, x)
        cut: set[str] = set()
        dims = range(len(x.scales)) if x.flat else s["axes"]
        for d in dims:
            if not x.scales[d]:
                continue
            if kind in ("argmax", "argmin") or set(x.scales[d]) != x.exact[d]:
                raise self.refuse(s, f"{kind} runs over tiles of {', '.join(x.scales[d])}")
            cut |= x.exact[d]
        if cut & x.form.axes:
            raise self.refuse(s, f"{kind} runs twice over tiles of {', '.join(sorted(cut & x.form.axes))}")
        data = whole_ops.reduce(kind, x.data, [self.lead_count + d for d in dims], x.dtype, s["dtype"])
        axes = x.form.axes | cut
        return self._make(s, data, form=Form(kind, axes) if axes else COMPLETE)

    def matmul(self, s: Statement) -> Whole:
        a, b = self.args(s, complete=True)
        form = COMPLETE
        if a.scales[-1] or b.scales[-2]:
            if a.scales[-1] != b.scales[-2] or set(a.scales[-1]) != a.exact[-1] or a.exact[-1] != b.exact[-2]:
                raise self.refuse(s, "matmul contracts over something else than tiles of one axis")
            form = Form("sum", a.exact[-1])
        return self._make(s, whole_ops.matmul(a.data, b.data, a.dtype, s["dtype"]), form=form)

    def scan(self, s: Statement) -> Whole:
        (x,) = self.args(s, complete=True)
        if x.scales[s["axis"]]:
            raise self.refuse(s, f"scan runs over tiles of {', '.join(x.scales[s['axis']])}")
        self.supported(s, x.dtype)
        return self._make(s, whole_ops.scan(s["kind"], x.data, self.lead_count + s["axis"]))

    def sort(self, s: Statement) -> tuple[Whole, Whole]:
        (x,) = self.args(s, complete=True)
        if x.scales[s["axis"]]:
            raise self.refuse(s, f"sort runs over tiles of {', '.join(x.scales[s['axis']])}")
        self.supported(s, x.dtype)
        axis, descending = self.lead_count + s["axis"], bool(s.get("descending", False))
        values, indices = torch.sort(x.data, dim=axis, descending=descending, stable=True)
        count = self.shape(s)[0][s["axis"]]
        values, indices = values.narrow(axis, 0, count), indices.narrow(axis, 0, count)
        return self._make(s, values), self._make(s | {"dtype": "i64"}, indices)

    # -- memory --------------------------------------------------------------------------------------------------------

    def _straight(
        self, s: Statement, entry: Statement, scales: Sequence[Mapping[str, int]], source: Mapping[str, int]
    ) -> None:
        """An index that runs along a tile must reach the same element however the axis is cut."""
        start = polynomial(entry["start"])
        steps = [(d, polynomial(step)) for d, step in entry["terms"]]
        for axis in self.axes:
            if axis.size is None:
                if any(axis.start in step.symbols() for _, step in steps):
                    raise self.refuse(s, f"a step depends on {axis.name}")
                continue
            moved = coefficient(start, axis.start)
            if (
                moved is None
                or axis.size in start.symbols()
                or any({axis.start, axis.size} & step.symbols() for _, step in steps)
            ):
                raise self.refuse(s, f"the index {entry['start']} depends on how {axis.name} is cut into tiles")
            runs = sizes.ZERO
            for d, step in steps:
                runs = runs + step * scales[d].get(axis.name, 0)
            if moved + source.get(axis.name, 0) != runs:
                raise self.refuse(s, f"an index takes part of a tile of {axis.name}, or moves otherwise than its tiles")

    def _entries(
        self,
        s: Statement,
        index: list[Statement],
        scales: Sequence[Mapping[str, int]],
        source: Sequence[Mapping[str, int]],
    ) -> list[Any]:
        """Index entries in the terms of whole_ops: dimensions count from the leading ones on."""
        entries: list[Any] = []
        for entry, from_tile in zip(index, source, strict=True):
            if "value" in entry:
                value = self.complete(s, self.values[entry["value"]])
                dims = entry["dims"]
                if from_tile:
                    raise self.refuse(s, "elements of a tile are gathered")
                order = sorted(range(len(dims)), key=lambda q: dims[q])
                lead = list(range(self.lead_count))
                data = value.data.permute([*lead, *(self.lead_count + q for q in order)])
                shape = [*data.shape[: self.lead_count], *(1 for _ in scales)]
                for q in order:
                    shape[self.lead_count + dims[q]] = value.data.shape[self.lead_count + q]
                entries.append(data.reshape(shape))
                continue
            self._straight(s, entry, scales, from_tile)
            terms = [(self.lead_count + d, self.size(step)) for d, step in entry["terms"]]
            start, rest = self._without_leads(entry["start"], terms)
            if isinstance(rest, torch.Tensor):
                rest = rest.reshape([*rest.shape, *(1 for _ in scales)])
            entries.append((rest, terms) if start is None else (start, terms))
        return entries

    def _without_leads(self, text: str, terms: list[tuple[Any, Any]]) -> tuple[Number | None, Number]:
        """Turns a start that is linear in scalar axes into one that is free of them, and terms; else None and the start as a tensor."""
        p = polynomial(text)
        rest = p
        found: list[tuple[Axis, int]] = []
        for axis in self.axes:
            if axis.lead is None or axis.start not in p.symbols():
                continue
            c = coefficient(p, axis.start)
            if c is None or c.constant is None:
                return None, self.size(text)
            begin = self.numbers[axis.start]
            assert isinstance(begin, torch.Tensor)
            found.append((axis, c.constant))
            rest = rest - sizes.symbol(axis.start) * c.constant
        start = self.size(rest.text())
        for axis, factor in found:
            terms.append((axis.lead, factor))
            start = start + factor * self.begins[axis.name]
        return start, start

    def _leads(self, entries: Sequence[Any], least: Sequence[Any]) -> list[Any]:
        """Extents of the leading dimensions of what is read: 1 (or `least`) along scalar axes on which no index depends."""
        leads = list(least)
        for entry in entries:
            start, terms = (entry, []) if isinstance(entry, torch.Tensor) else entry
            for g in range(self.lead_count):
                if any(d == g for d, _ in terms) or (isinstance(start, torch.Tensor) and start.shape[g] != 1):
                    leads[g] = self.leads[g]
        return leads

    def load(self, s: Statement) -> Whole:
        param = s["param"]
        self.supported(s, s["dtype"])
        extents, scales, _ = self.shape(s)
        memory = self._output(param)
        entries = self._entries(s, s["index"], scales, [{}] * memory.ndim)
        leads = self._leads(entries, [1] * self.lead_count)
        fill = s.get("fill")
        fill = float(fill) if isinstance(fill, str) else fill  # "inf", "-inf" and "nan", as in const
        return self._make(s, whole_ops.read(memory, entries, leads, extents, fill), alias=True)

    def view(self, s: Statement) -> Whole:
        (x,) = self.args(s)
        extents, scales, _ = self.shape(s)
        if x.form.carried is not None:
            self.complete(s, x)
        if x.number is not None:
            return replace(self.filled(s, x.number), defect=x.defect)
        own = [(0, [(g, 1)]) for g in range(self.lead_count)]
        entries = own + self._entries(s, s["map"], scales, x.scales)
        leads = self._leads(entries[self.lead_count :], x.data.shape[: self.lead_count])
        data = x.data.expand([*leads, *x.data.shape[self.lead_count :]])
        data = whole_ops.read(data, entries, leads, extents, None)
        return self._make(s, data, form=x.form, defect=x.defect, alias=x.alias)

    def store(self, s: Statement) -> None:
        value, adds = self.values[s["value"]], s["op"] == "atomic_add"
        if value.flat:
            raise self.refuse(s, f"{s['op']} uses the elements of a tile in one row")
        part = value.form if adds and value.form.kind == "sum" and value.form.carried is None else COMPLETE
        self.complete(s, replace(value, form=COMPLETE) if part.kind else value)
        param = s["param"]
        base = self._output(param)
        entries = self._entries(s, s["index"], value.scales, [{}] * base.ndim)
        runs = self._runs_with(s, value)
        for axis in self.axes:
            if axis.name in part.axes:
                continue
            if adds and axis.size is not None and axis.name not in frozenset().union(*value.exact):
                raise self.refuse(s, f"atomic_add happens once in every tile of {axis.name}")
            if not adds and axis.name not in runs and (axis.size is None or axis in self.grid):
                raise self.refuse(s, f"all grid points along {axis.name} write the same elements")
        extents = list(value.data.shape[self.lead_count :])
        data = value.data.expand([*self.leads, *extents]) if self.leads else value.data
        self.memory[param] = whole_ops.write(base, entries, data, adds, bool(s.get("clip")))
        self.aliases[param] = self.aliases[param] or value.alias

    def _runs_with(self, s: Statement, value: Whole) -> set[str]:
        """Axes along which a store goes to different elements."""
        runs: set[str] = set()
        for entry in s["index"]:
            if "value" in entry:
                index = self.values[entry["value"]]
                runs |= {name for scale in index.scales for name, c in scale.items() if c}
                runs |= {a.name for a in self.axes if a.lead is not None and index.data.shape[a.lead] != 1}
                continue
            runs |= {name for d, _ in entry["terms"] for name, c in value.scales[d].items() if c}
            runs |= {
                a.name for a in self.axes if a.lead is not None and a.start in polynomial(entry["start"]).symbols()
            }
        return runs


_REASONS = {
    "if": "`if` decides at run time",
    "while": "`while` decides at run time",
    "bind": "a size or index is computed from data",
    "assert": "only the kernel itself checks assertions",
    "print": "only the interpreter prints",
}

_VALUES: dict[str, Callable[[_Evaluator, Statement], Whole]] = {
    "const": _Evaluator.const,
    "size": _Evaluator.size_value,
    "scalar": _Evaluator.scalar_value,
    "iota": _Evaluator.iota,
    "view": _Evaluator.view,
    "reshape": _Evaluator.reshape,
    "concat": _Evaluator.concat,
    "reduce": _Evaluator.reduce,
    "matmul": _Evaluator.matmul,
    "scan": _Evaluator.scan,
    "load": _Evaluator.load,
}
