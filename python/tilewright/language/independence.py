"""Results must not depend on how long the compiler makes tiles: refuses programs of which that can be seen.

The tiles of a parallel axis without `tile=` have lengths that the compiler chooses, so the index g of an element is what counts, not its place p
in the tile (g = start + p). A value is right if it is a function of g. What follows values through the program:

- *drift*: a value, or an index, that is a function of g plus a multiple of `start`. `tw.iota(i)` drifts by -1 (it is g - start), `i.start` by
  1, their sum by 0. Only sums and multiples may drift.
- *partial*: a sum along the axis, of this tile's elements only. Linear operations keep it, and an atomic add makes it whole.
- *zero*: nothing but zeros, which is also a partial sum.

Anything else of a tile's length or place cannot be told to be right and is refused where it is stored. What only decides whether and how often
code runs (conditions, ends of loops) is not followed: masks and loops that end early are written so, and `kernel.check` compares two tilings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from . import sizes
from .builder import Builder, Statement
from .sizes import ONE, ZERO, Op, Size
from .types import DTYPES


@dataclass(slots=True, frozen=True, eq=False)
class _Fault:
    """Why a value depends on the tiles of an axis, and the statement where that began."""

    axis: str
    statement: Statement
    why: str


@dataclass(slots=True)
class _State:
    fault: _Fault | None = None
    partial: frozenset[str] = frozenset()
    reduced: _Fault | None = None  # what a partial sum is told as, where it must not be one
    drift: dict[str, Size] = field(default_factory=dict)  # axis -> multiple of its start; no zeros
    zero: bool = False

    def settled(self, statement: Statement) -> _Fault | None:
        """What is wrong with the value where it must be a function of indices alone."""
        if self.fault is not None or self.partial:
            return self.fault or self.reduced
        for axis in self.drift:
            return _Fault(axis, statement, _PLACE)
        return None


@dataclass(slots=True, frozen=True)
class _Axis:
    name: str
    start: str
    extent: str


_PLACE = "a place inside of the tile counts"
_WHOLE = _State()


def refuse_dependence(b: Builder, body: Sequence[Statement], refuse: Callable[[Statement, str, str], NoReturn]) -> None:
    """Calls `refuse(statement, message, hint)` for the first store of something that depends on tiles that the compiler chooses."""
    for s in body:
        if s["op"] == "parallel":
            names = {number: name for name, number in b.symbols.items()}
            axes = [_Axis(a["name"], names[a["start"]], names[a["size"]]) for a in s["axes"] if a["tile"] is None]
            if axes:
                _Analysis(b, axes, refuse).block(s["body"], guarded=False)


class _Analysis:
    def __init__(self, b: Builder, axes: Sequence[_Axis], refuse: Callable[[Statement, str, str], NoReturn]) -> None:
        self.b = b
        self.axes = axes
        self.own = {name for a in axes for name in (a.start, a.extent)}
        self.bound: dict[str, dict[str, Size]] = {}  # symbols of bound values that drift
        self.names = {number: name for name, number in b.symbols.items()}
        self.refuse = refuse
        self.states: dict[int, _State] = {}
        self.sizes = b.sizes_of_texts
        self.linear: dict[Size, tuple[dict[str, Size], dict[str, Size]] | str] = {}

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def parts(self, e: Size) -> tuple[dict[str, Size], dict[str, Size]] | str:
        """The multiples of axes' starts and of their lengths in a size, by axis; the name of an axis that stands in it in another way."""
        found = self.linear.get(e)
        if found is None:
            found = self.linear[e] = self._parts(e)
        return found

    def _parts(self, e: Size) -> tuple[dict[str, Size], dict[str, Size]] | str:
        starts: dict[str, Size] = {}
        lengths: dict[str, Size] = {}
        if not self.own & e.symbols():
            return starts, lengths
        for term, k in e.terms:
            for name, drift in self.bound.items():
                if name in term:
                    factor = Size(((tuple(a for a in term if a != name), k),))
                    for moved, multiple in drift.items():
                        starts[moved] = starts.get(moved, ZERO) + factor * multiple
            for axis in self.axes:
                own = {axis.start, axis.extent}
                if any(isinstance(a, Op) and own & (a.lhs.symbols() | a.rhs.symbols()) for a in term):
                    return axis.name
                inside = [a for a in term if a in own]
                if not inside:
                    continue
                rest = tuple(a for a in term if a not in own)
                if len(inside) > 1 or any(isinstance(a, str) and a in self.own for a in rest):
                    return axis.name
                into = starts if inside[0] == axis.start else lengths
                into[axis.name] = into.get(axis.name, ZERO) + Size(((rest, k),))
        return starts, lengths

    def lengths(self, extent: Size) -> dict[str, Size]:
        """How many elements of a dimension stand for each index of an axis; nothing where that cannot be told."""
        found = self.parts(extent)
        return {} if isinstance(found, str) else found[1]

    def moved(self, start: str, terms: Iterable[Sequence[Any]], shape: Sequence[Size]) -> dict[str, Size] | str:
        """By what multiples of axes' starts `start + sum(step * place)` is off from a function of indices."""
        found = self.parts(self.sizes[start])
        if isinstance(found, str):
            return found
        starts, lengths = found
        if lengths:
            return next(iter(lengths))
        off = dict(starts)
        for d, step in terms:
            for axis, n in self.lengths(shape[d]).items():
                off[axis] = off.get(axis, ZERO) - self.sizes[step] * n
        return {axis: e for axis, e in off.items() if e != ZERO}

    # -- statements ----------------------------------------------------------------------------------------------------

    def block(self, statements: Iterable[Statement], guarded: bool) -> None:
        for s in statements:
            self.statement(s, guarded)

    def statement(self, s: Statement, guarded: bool) -> None:
        op = s["op"]
        if op == "if":
            self.block(s["then"], True)
            self.block(s["else"], True)
            for r in s["results"]:
                self.states[r["result"]] = self.join(s, self.of(r["then"]), self.of(r["else"]))
        elif op in ("for", "while"):
            self.loop(s, guarded)
        elif op in ("store", "atomic_add"):
            self.write(s, guarded)
        elif op == "bind":
            drift = self.of(s["value"]).drift
            if drift:
                name = self.names[s["symbol"]]
                self.bound[name] = drift
                self.own.add(name)
        elif "id" in s or "ids" in s:
            state = self.value(s)
            for i in s["ids"] if "ids" in s else (s["id"],):
                self.states[i] = state

    def loop(self, s: Statement, guarded: bool) -> None:
        for c in s["carried"]:
            self.states[c["arg"]] = self.of(c["init"])
        quiet, self.refuse = self.refuse, _ignore
        try:
            while True:
                self.block(s.get("condition", ()), guarded)
                self.block(s["body"], guarded)
                changed = False
                for c in s["carried"]:
                    before, after = self.of(c["arg"]), self.join(s, self.of(c["arg"]), self.of(c["next"]))
                    if after != before:
                        self.states[c["arg"]], changed = after, True
                if not changed:
                    break
        finally:
            self.refuse = quiet
        self.block(s.get("condition", ()), guarded)
        self.block(s["body"], guarded)
        for c in s["carried"]:
            self.states[c["result"]] = self.of(c["arg"])

    def join(self, s: Statement, x: _State, y: _State) -> _State:
        if x == y:
            return x
        if x.fault or y.fault:
            return _State(fault=x.fault or y.fault)
        if x.partial != y.partial:
            if not (x.zero or y.zero):
                return _State(fault=x.reduced or y.reduced)
            return y if x.zero else x
        if x.drift != y.drift:
            return _State(fault=_Fault(next(iter(x.drift or y.drift)), s, _PLACE))
        return _State(partial=x.partial, reduced=x.reduced or y.reduced, drift=x.drift, zero=x.zero and y.zero)

    def of(self, value: int) -> _State:
        return self.states.get(value, _WHOLE)

    def write(self, s: Statement, guarded: bool) -> None:
        state = self.of(s["value"])
        shape = self.b.shapes[s["value"]]
        fault = self.index_fault(s, shape)
        adds = s["op"] == "atomic_add"
        if fault is None and not (adds and state.partial and state.fault is None):
            fault = state.settled(s)
        if fault is not None:
            self.tell(fault)
        if adds and not guarded and not state.zero:
            for axis in self.axes:
                if axis.name not in state.partial and not any(axis.name in self.lengths(n) for n in shape):
                    self.tell(_Fault(axis.name, s, "it adds once for every grid point"))

    def index_fault(self, s: Statement, shape: Sequence[Size]) -> _Fault | None:
        for entry in s["index"]:
            if "value" in entry:
                fault = self.of(entry["value"]).settled(s)
                if fault is not None:
                    return fault
                continue
            off = self.moved(entry["start"], entry["terms"], shape)
            if off:
                return _Fault(off if isinstance(off, str) else next(iter(off)), s, _PLACE)
        return None

    def tell(self, fault: _Fault) -> None:
        s, axis = fault.statement, fault.axis
        self.refuse(
            s,
            f"the result depends on how long the tiles of {axis} are, which the compiler chooses: {fault.why}",
            f"`:` or a tw.range loop for a whole dimension, tw.indices({axis}) for indices, tw.atomic_add for sums over the grid,"
            " or tw.parallel(.., tile=..) if this very tile is meant",
        )

    # -- values --------------------------------------------------------------------------------------------------------

    def value(self, s: Statement) -> _State:
        arguments = [self.of(a) for a in s.get("args", ())]
        fault = next((x.fault for x in arguments if x.fault), None)
        if fault is not None:
            return _State(fault=fault)
        return _RULES.get(s["op"], _Analysis.elementwise)(self, s, arguments)

    def elementwise(self, s: Statement, arguments: Sequence[_State]) -> _State:
        for x in arguments:
            fault = x.settled(s)
            if fault is not None:
                return _State(fault=fault)
        return _WHOLE

    def _const(self, s: Statement, _: Sequence[_State]) -> _State:
        return _State(zero=s["value"] == 0)

    def _size(self, s: Statement, _: Sequence[_State]) -> _State:
        found = self.parts(self.sizes[s["size"]])
        if isinstance(found, str):
            return _State(fault=_Fault(found, s, _PLACE))
        starts, lengths = found
        if lengths:
            axis = next(iter(lengths))
            return _State(fault=_Fault(axis, s, f"{axis}.size or {axis}.stop is part of it"))
        return _State(drift={axis: e for axis, e in starts.items() if e != ZERO})

    def _iota(self, s: Statement, _: Sequence[_State]) -> _State:
        found = self.parts(self.b.shapes[s["id"]][s["axis"]])
        if isinstance(found, str):
            return _State(fault=_Fault(found, s, _PLACE))
        return _State(drift={axis: -n for axis, n in found[1].items()})

    def _load(self, s: Statement, _: Sequence[_State]) -> _State:
        return _State(fault=self.index_fault(s, self.b.shapes[s["id"]]))

    def _view(self, s: Statement, arguments: Sequence[_State]) -> _State:
        (x,) = arguments
        if x.zero:
            return x
        source = self.b.shapes[s["args"][0]]
        for extent, entry in zip(source, s["map"], strict=True):
            off = self.moved(entry["start"], entry["terms"], self.b.shapes[s["id"]])
            if isinstance(off, str):
                return _State(fault=_Fault(off, s, _PLACE))
            lengths = self.lengths(extent)
            for axis in {*off, *lengths}:
                if off.get(axis, ZERO) + lengths.get(axis, ZERO) != ZERO:
                    return _State(fault=_Fault(axis, s, _PLACE))
        return x

    def _reshape(self, s: Statement, arguments: Sequence[_State]) -> _State:
        (x,) = arguments
        if x.zero:
            return x
        places = [self._row_major(shape) for shape in (self.b.shapes[s["args"][0]], self.b.shapes[s["id"]])]
        for axis in {*places[0], *places[1]}:
            if places[0].get(axis) != places[1].get(axis):
                return _State(fault=_Fault(axis, s, _PLACE))
        return x

    def _row_major(self, shape: Sequence[Size]) -> dict[str, tuple[Size, ...]]:
        """For each axis the number of elements before each dimension that runs along it."""
        found: dict[str, tuple[Size, ...]] = {}
        before = ONE
        for extent in shape:
            for axis in self.lengths(extent):
                found[axis] = (*found.get(axis, ()), before)
            before = before * extent
        return found

    def _concat(self, s: Statement, arguments: Sequence[_State]) -> _State:
        if all(x.zero for x in arguments):
            return arguments[0]
        for a in s["args"]:
            along = self.parts(self.b.shapes[a][s["axis"]])
            if isinstance(along, str) or along[1]:
                axis = along if isinstance(along, str) else next(iter(along[1]))
                return _State(fault=_Fault(axis, s, f"tiles are put together along {axis}"))
        return self.elementwise(s, arguments)

    def _along(self, s: Statement, argument: int, axes: Iterable[int]) -> dict[str, str]:
        """The axes that some dimensions of an argument run along, each with what is told of it."""
        shape = self.b.shapes[s["args"][argument]]
        found: dict[str, str] = {}
        for d in axes:
            along = self.parts(shape[d])
            for axis in [along] if isinstance(along, str) else along[1]:
                found[axis] = f"it runs along {axis}, of which there is only this grid point's tile"
        return found

    def _reduce(self, s: Statement, arguments: Sequence[_State]) -> _State:
        return self._sum(s, self._along(s, 0, s["axes"]), arguments, s["kind"] == "sum")

    def _matmul(self, s: Statement, arguments: Sequence[_State]) -> _State:
        if all(not x.partial for x in arguments):
            return self._sum(s, self._along(s, 0, [-1]), arguments, True)
        one, other = arguments if arguments[0].partial else (arguments[1], arguments[0])
        if other.settled(s) is None and not self._along(s, 0, [-1]):
            return one
        return _State(fault=one.reduced)

    def _sum(self, s: Statement, along: Mapping[str, str], arguments: Sequence[_State], linear: bool) -> _State:
        if all(x.zero for x in arguments):
            return arguments[0]
        drifting = next((axis for x in arguments for axis in x.drift), None)
        if drifting is not None:
            return _State(fault=_Fault(drifting, s, _PLACE))
        if not along and linear:
            return _State(partial=arguments[0].partial, reduced=arguments[0].reduced)
        for x in arguments:
            fault = x.settled(s)
            if fault is not None and not (linear and x.partial):
                return _State(fault=fault)
        if not along:
            return _WHOLE
        axis, why = next(iter(along.items()))
        told = _Fault(axis, s, why)
        if not linear:
            return _State(fault=told)
        return _State(partial=frozenset(along).union(*(x.partial for x in arguments)), reduced=told)

    def _scan(self, s: Statement, arguments: Sequence[_State]) -> _State:
        for axis, why in self._along(s, 0, [s["axis"]]).items():
            return _State(fault=_Fault(axis, s, why))
        return self.elementwise(s, arguments)

    def _add(self, s: Statement, arguments: Sequence[_State], sign: int = 1) -> _State:
        x, y = arguments
        if x.partial != y.partial and not (x.zero or y.zero):
            return _State(fault=x.reduced or y.reduced)
        drift = {
            axis: e
            for axis in {*x.drift, *y.drift}
            if (e := x.drift.get(axis, ZERO) + y.drift.get(axis, ZERO) * sign) != ZERO
        }
        partial = x if x.partial else y
        if partial.partial and drift:
            return _State(fault=partial.reduced)
        return _State(partial=partial.partial, reduced=partial.reduced, drift=drift, zero=x.zero and y.zero)

    def _sub(self, s: Statement, arguments: Sequence[_State]) -> _State:
        return self._add(s, arguments, -1)

    def _neg(self, s: Statement, arguments: Sequence[_State]) -> _State:
        (x,) = arguments
        return _State(partial=x.partial, reduced=x.reduced, drift={a: -e for a, e in x.drift.items()}, zero=x.zero)

    def _cast(self, s: Statement, arguments: Sequence[_State]) -> _State:
        (x,) = arguments
        source = DTYPES[self.b.producers[s["args"][0]]["dtype"]] if s["args"][0] in self.b.producers else None
        target = DTYPES[s["dtype"]]
        if x.drift and not target.is_integer:
            return self.elementwise(s, arguments)
        if x.partial and not target.is_float and (source is None or source.is_float):
            return self.elementwise(s, arguments)
        return x

    def _mul(self, s: Statement, arguments: Sequence[_State]) -> _State:
        x, y = arguments
        if x.zero or y.zero:  # zero times an infinity is NaN on every tile
            return x if x.zero else y
        for one, other, factor in ((x, y, 1), (y, x, 0)):
            if other.settled(s) is not None:
                continue
            if one.partial:
                return one
            k = self._factor(s["args"][factor]) if one.drift else None
            if k is not None:
                return _State(drift={a: e * k for a, e in one.drift.items()})
        return self.elementwise(s, arguments)

    def _factor(self, value: int) -> Size | None:
        """A value as a size, if it is one."""
        producer = self.b.producers.get(value)
        while producer is not None and producer["op"] in ("cast", "view"):
            value = producer["args"][0]
            producer = self.b.producers.get(value)
        if producer is None:
            return None
        if producer["op"] == "const" and isinstance(producer["value"], int):
            return sizes.size(producer["value"])
        return self.sizes[producer["size"]] if producer["op"] == "size" else None

    def _div(self, s: Statement, arguments: Sequence[_State]) -> _State:
        x, y = arguments
        if x.partial and DTYPES[s["dtype"]].is_float and y.settled(s) is None:
            return x
        return self.elementwise(s, arguments)

    def _select(self, s: Statement, arguments: Sequence[_State]) -> _State:
        condition, x, y = arguments
        if condition.settled(s) is not None:
            return self.elementwise(s, [condition])
        return self.join(s, x, y)

    def _fma(self, s: Statement, arguments: Sequence[_State]) -> _State:
        return self._add(s, [self._mul({**s, "args": s["args"][:2]}, arguments[:2]), arguments[2]])


_RULES: dict[str, Callable[[_Analysis, Statement, Sequence[_State]], _State]] = {
    "const": _Analysis._const,
    "size": _Analysis._size,
    "iota": _Analysis._iota,
    "load": _Analysis._load,
    "view": _Analysis._view,
    "reshape": _Analysis._reshape,
    "concat": _Analysis._concat,
    "reduce": _Analysis._reduce,
    "matmul": _Analysis._matmul,
    "scan": _Analysis._scan,
    "sort": _Analysis._scan,
    "add": _Analysis._add,
    "sub": _Analysis._sub,
    "neg": _Analysis._neg,
    "cast": _Analysis._cast,
    "mul": _Analysis._mul,
    "div": _Analysis._div,
    "select": _Analysis._select,
    "fma": _Analysis._fma,
}


def _ignore(*_: Any) -> Any:
    """While a loop's states are not settled."""
