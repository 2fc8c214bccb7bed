"""Indexing: what parameters and tiles are read and written at, the ranges that must hold, and stores that could race."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import arithmetic, promotion, sizes
from .arguments import flag_argument
from .arithmetic import Span, is_number, is_size, plain, span
from .bounds import Axis, Local
from .builder import Builder, Param, Statement, Tile, active, describe, show_shape, show_size, show_tile
from .ops_tile import iota
from .registry import builtin
from .sizes import ONE, ZERO, Op, Size, size
from .types import i32, i64


@dataclass(slots=True)
class Slice:
    """`start:stop:step` as the source has it."""

    start: Any
    stop: Any
    step: Any


@dataclass(slots=True)
class Place:
    """Where a parameter or tile is read or written: an entry per dimension of it, and the shape of what comes out."""

    entries: list[Statement]
    shape: tuple[Size, ...]
    starts: list[Size | None]  # per dimension; None where a value is the index
    terms: list[list[tuple[int, Size]]]


def is_index(x: Any) -> bool:
    """Whether x says where something is in a dimension."""
    return is_size(x) or isinstance(x, (Axis, Span)) or (isinstance(x, Tile) and x.dtype.is_integer)


def example(param: Param, first: str = "i") -> str:
    """A tile of a parameter, with an index for each dimension."""
    names = [":"] * len(param.sizes) if first == ":" else [first, *"jklmnpq"]
    return f"{param.name}[{', '.join(names[: len(param.sizes)]) or '()'}]"


def access(param: Param, function: str = "", first: str = "i") -> str:
    """How a parameter is read or written. `function`: "load", "store", "atomic_add", or what its kind allows."""
    if len(param.sizes) != 1:
        first = "i"
    at = example(param, first)
    if function == "atomic_add":
        return f"tw.atomic_add({param.name}, {'(' + at[len(param.name) + 1 : -1] + ')' if len(param.sizes) > 1 else first}, value)"
    ways = {"load": [at], "store": [f"{at} = value"], "in": [at], "out": [f"{at} = value"]}
    return " or ".join(ways.get(function or param.type.kind, [at, f"{at} = value"]))


def items_of(index: Any) -> list[Any]:
    return list(index) if isinstance(index, tuple) else [index]


def _expanded(b: Builder, name: str, dims: Sequence[Size], index: Any) -> list[Any]:
    items = items_of(index)
    used = sum(1 for item in items if item is not None and item is not Ellipsis)
    rank = len(dims)
    ellipses = sum(1 for item in items if item is Ellipsis)
    if used > rank or (used < rank and not ellipses) or ellipses > 1:
        example = ", ".join(["i"] + [":"] * (rank - 1)) if rank else "()"
        b.fail(
            f"{name} has {rank} dimension{'s' if rank != 1 else ''} {show_shape(dims)}, and the index has {used} entr{'ies' if used != 1 else 'y'}",
            f"one entry per dimension, such as {name}[{example}]",
        )
    result: list[Any] = []
    for item in items:
        if item is Ellipsis:
            result += [Slice(None, None, None)] * (rank - used)
        else:
            result.append(item)
    return result


def place(
    b: Builder, name: str, dims: Sequence[Size], index: Any, verb: str, outside: bool, gather: bool = True
) -> Place:
    """Reads an index. `verb` is "load", "store", "add"; with `outside`, indices may leave the dimensions."""
    items = _expanded(b, name, dims, index)
    shape: list[Size] = []
    entries: list[Statement] = []
    starts: list[Size | None] = []
    all_terms: list[list[tuple[int, Size]]] = []
    gathers: list[tuple[int, Tile]] = []
    gather_at = -1
    d = 0
    raw: list[tuple[Size, list[tuple[int, Size]]] | Tile] = []
    for item in items:
        if item is None:
            shape.append(ONE)
            continue
        extent = dims[d]
        where = f"dimension {d} of {name}"
        if isinstance(item, Axis):
            item = span(item)
        if isinstance(item, Slice):
            item = _slice(b, item, extent, where, name)
            if item is None:
                raw.append((ZERO, [(len(shape), ONE)]))
                shape.append(extent)
                d += 1
                continue
        if isinstance(item, (bool, float)):
            b.fail(f"the index {item} of {where} is no integer", "an axis, a slice or an integer")
        if isinstance(item, Tile) and not item.dtype.is_integer:
            if item.dtype.is_bool:
                b.fail(
                    f"{where} is indexed by a bool tile: how many elements that selects depends on data, and shapes cannot",
                    "tw.where(mask, x, 0.0)",
                )
            b.fail(f"{where} is indexed by {show_tile(item)}", ".to(tw.i64)")
        if isinstance(item, Span) and item.offset is not None and outside:
            item = _indices(b, item)
        if isinstance(item, Tile) and item.size is not None and not item.shape:
            b.use_scalars(item.size)
            item = item.size
        if is_size(item):
            point = size(item)
            if not outside:
                _require_range(b, point, point + 1, extent, where, verb, None)
            raw.append((point, []))
        elif isinstance(item, Span):
            start = item.start
            reach = ONE
            for n, step in item.terms:
                # A range of no elements reaches nowhere; with step 1 that needs no case of its own.
                reach = reach + (n - 1) * step
            if item.offset is not None:
                moved = arithmetic.binary(b, "+", item.offset, plain(start))
                start = b.to_size(moved, f"the start of the range in {where}", end=extent - reach)
            elif not outside:
                _require_range(b, start, start + reach, extent, where, verb, item)
            raw.append((start, [(len(shape) + k, step) for k, (_, step) in enumerate(item.terms)]))
            shape += [n for n, _ in item.terms]
        elif isinstance(item, Tile):
            if not gather:
                if item.shape:
                    b.fail(
                        "a tile is indexed by a tile, and tiles are not gathered from",
                        "a load from a parameter at those indices",
                    )
                start = b.to_size(item, f"the index of {where}", end=extent - 1)
                raw.append((start, []))
            else:
                if item.shape and gather_at < 0:
                    gather_at = len(shape)
                gathers.append((len(raw), item))
                raw.append(item)
        else:
            b.fail(f"{where} is indexed by {describe(item)}", "an axis, an integer, a slice, or an integer tile")
        d += 1
    broadcast: tuple[Size, ...] = ()
    if gather_at >= 0:
        broadcast = b.common_shape([t for _, t in gathers], f"the indices of {name}")
        shape[gather_at:gather_at] = broadcast
    for entry in raw:
        if isinstance(entry, Tile):
            entries.append(_value_entry(b, entry, broadcast, gather_at))
            starts.append(None)
            all_terms.append([])
        else:
            start, terms = entry
            terms = [(q + len(broadcast) if gather_at >= 0 and q >= gather_at else q, step) for q, step in terms]
            entries.append({"start": b.text(start), "terms": [[q, b.text(step)] for q, step in terms]})
            starts.append(start)
            all_terms.append(terms)
    return Place(entries, tuple(shape), starts, all_terms)


def _value_entry(b: Builder, index: Tile, shape: tuple[Size, ...], at: int) -> Statement:
    """An integer tile as the index of one dimension; its own dimensions of size 1 do not run."""
    if index.dtype not in (i64, i32):
        if index.dtype.name == "u64":
            b.fail("an index of u64", ".to(tw.i64)")
        index = b.cast(index, i64)
    skipped = len(shape) - len(index.shape)
    running = [d for d, s in enumerate(index.shape) if b.same(s, shape[d + skipped])]
    if len(running) < len(index.shape):
        entries = [(0, [(running.index(d), 1)] if d in running else []) for d in range(len(index.shape))]
        index = b.view(index, tuple(index.shape[d] for d in running), entries)
    return {"value": index.id, "dims": [at + skipped + d for d in running]}


def _indices(b: Builder, s: Span) -> Tile:
    """The indices of a range with a run-time offset, as a tile with one dimension per term."""
    assert s.offset is not None
    total: Any = arithmetic.binary(b, "+", s.offset, plain(s.start))
    for k, (n, step) in enumerate(s.terms):
        numbers = arithmetic.binary(b, "*", iota(n), plain(step))
        rank = len(s.terms)
        column = b.view(numbers, tuple(n if q == k else ONE for q in range(rank)), [(0, [(k, 1)])])
        total = arithmetic.binary(b, "+", total, column)
    return total


def _slice(b: Builder, s: Slice, extent: Size, where: str, name: str) -> Span | None:
    """A slice of a parameter's dimension as a range; None is all of it."""
    if s.step not in (None, 1):
        b.fail(
            f"{where} is sliced with the step {describe(s.step)}",
            "an axis times a constant (i * 2), or a flip of the tile (x[::-1])",
        )
    if s.start is None and s.stop is None:
        return None
    ends = []
    for end, default in ((s.start, ZERO), (s.stop, extent)):
        if end is None:
            ends.append(default)
            continue
        if isinstance(end, Tile) and end.size is None:
            b.fail_size(
                end,
                f"{where} is sliced by a number that is known only from data: shapes cannot depend on data",
                "`for k in tw.range(begin, end)` and [k], or tw.iota(n) + begin as an index",
            )
        if isinstance(end, int) and end < 0:
            b.fail(f"the negative bound {end} of a slice of {where}", f"{show_size(extent)} - {-end}")
        ends.append(b.to_size(end, f"a bound of the slice of {where}"))
    if ends[0] == 0 and ends[1] == extent:
        return None
    b.require(
        ends[0],
        ends[1],
        f"the slice {show_size(ends[0])}:{show_size(ends[1])} of {where} has a negative length",
        f"line {b.place()[0]}: the slice of {where} begins at {{lhs}} and ends at {{rhs}}",
        "begin:end with begin <= end",
    )
    return Span(ends[0], ((ends[1] - ends[0], ONE),))


def _require_range(b: Builder, start: Size, end: Size, extent: Size, where: str, verb: str, item: Span | None) -> None:
    constant = start.constant
    if constant is not None and constant < 0:
        b.fail(f"the negative index {constant} of {where}", f"{show_size(extent)} - {-constant}, counted from the end")
    axis = item.axis if item is not None else None
    other = axis is not None and axis.begin == 0 and axis.end != extent and axis.end.symbol and extent.symbol
    if axis is not None and other and b.bounds.is_global(axis.end) and not b.bounds.proves(extent - axis.end):
        b.fail(
            f"the axis {axis.name} runs over {show_size(axis.end)}, and {where} has the size {show_size(extent)}",
            f"one symbol for both sizes if they are equal, an axis over {show_size(extent)}, or"
            f" tw.static_assert({show_size(axis.end)} <= {show_size(extent)}) before the loop",
        )
    if b.bounds.proves(start) and b.bounds.proves(extent - end):
        return
    does = {"load": "a load reads", "store": "a store writes", "add": "an atomic add writes", "view": "an index reads"}
    what, line = does[verb], b.place()[0]
    hint = {
        "load": "tw.load(.., fill=..) to read outside",
        "store": "tw.store(.., clip=True) to leave out what lies outside",
    }
    upper = b.bounds.upper(end)
    b.require(
        ZERO,
        start,
        f"{what} below a valid extent: {where} begins at 0, and the range begins at {show_size(start)}",
        f"line {line}: {what} {where} from {{rhs}}, which is negative",
        hint.get(verb, "a range that begins at 0 or above"),
    )
    b.require(
        end,
        extent,
        f"{what} beyond a valid extent: {where} has the size {show_size(extent)}, and the range ends at"
        f" {show_size(upper if upper is not None else end)}",
        f"line {line}: {what} {where} up to {{lhs}}, but its size ({show_size(extent)}) is {{rhs}}",
        hint.get(verb, "a range inside of the parameter"),
        f"{what} {where}, whose size is {show_size(extent)}",
    )


# -- parameters --------------------------------------------------------------------------------------------------------


def load_param(b: Builder, param: Param, index: Any, fill: Any = None) -> Tile:
    if param.type.kind == "out":
        b.fail(
            f"{param.name} is an Out, which is written and not read",
            f"{param.name}: InOut[...] to read what the caller put there, or a variable that holds the tile",
        )
    at = place(b, param.name, param.sizes, index, "load", outside=fill is not None)
    attributes: dict[str, Any] = {}
    if fill is not None:
        if not is_number(fill):
            b.fail(f"the fill of a load is {describe(fill)}", "a compile-time number, and tw.where for other values")
        if param.dtype.is_bool:
            fill = bool(fill)
        elif not promotion.holds(param.dtype, fill):
            b.fail(
                f"the fill {fill} of a load from {param.name}, which is {param.dtype.name}",
                f"a number of {param.dtype.name}",
            )
        number = float(fill) if param.dtype.is_float else fill
        attributes["fill"] = str(number) if number != number or number in (float("inf"), float("-inf")) else number
    return b.emit("load", (), param.dtype, at.shape, param=param.index, index=at.entries, **attributes)


def store_param(b: Builder, param: Param, index: Any, value: Any, clip: bool = False, add: bool = False) -> None:
    verb = "add" if add else "store"
    if param.type.kind == "in":
        b.fail(f"{param.name} is an In, which is read and not written", f"{param.name}: Out[...] or InOut[...]")
    if add and param.type.kind == "out":
        b.fail(
            f"{param.name} is an Out, and an atomic add reads what is there",
            f"{param.name}: InOut[...], which the caller fills with zeros",
        )
    if add and param.dtype.is_bool:
        b.fail("an atomic add to bool", "tw.store, or an integer parameter")
    at = place(b, param.name, param.sizes, index, verb, outside=clip)
    tile = arithmetic.assigned(b, value, param.dtype, f"the parameter {param.name}")
    if tile.shape != at.shape:
        if not b.broadcasts(tile.shape, at.shape):
            b.fail(
                f"{show_tile(tile)} is stored to a place of the shape {show_shape(at.shape)} in {param.name}",
                "a tile of that shape, or one that broadcasts to it",
            )
        tile = b.broadcast(tile, at.shape)
    statement: Statement = {
        "op": "atomic_add" if add else "store",
        "param": param.index,
        "index": at.entries,
        "value": tile.id,
    }
    if clip:
        statement["clip"] = True
    statement["loc"] = b.place()
    b.append(statement)
    if not add:
        _check_race(b, param, at)


def _check_race(b: Builder, param: Param, at: Place) -> None:
    """Every parallel axis must move where the store writes, and by itself."""
    for axis in b.axes:
        if not axis.parallel:
            continue
        (name,) = axis.start.symbols()
        number = b.symbols[name]
        if any(depends(b, guard["cond"], number) for guard in b.guards if "cond" in guard):
            continue
        moving = [
            start for start in at.starts if start is not None and _moves(b, start, name, axis.tile or int(axis.scalar))
        ]
        if not moving:
            if any(start is not None and _begins_by(b, start, number) for start in at.starts):
                continue
            if any("value" in e and depends(b, e["value"], number) for e in at.entries):
                continue
            b.fail(
                f"two grid points write the same element of {param.name}: the parallel axis {axis.name} does not move where this store writes",
                f"{axis.name} in the index, tw.range instead of tw.parallel for {axis.name}, or tw.atomic_add to an InOut",
            )
        for other in b.axes:
            if other is not axis and len(moving) == 1 and _meet(b, at.starts, moving[0], axis, other):
                b.fail(
                    f"two grid points write the same element of {param.name}: it is written at the sum of {axis.name} and {other.name}, which is"
                    " the same for several of them",
                    f"{axis.name} and {other.name} in dimensions of their own, or tw.atomic_add to an InOut",
                )


def _meet(b: Builder, starts: Sequence[Size | None], start: Size, axis: Axis, other: Axis) -> bool:
    """Whether a parallel axis and another one are only seen as their sum (times something): another point then has the same one."""
    (name,) = axis.start.symbols()
    names = [s for s in other.start.symbols() if "@" in s]
    if len(names) != 1 or name in other.begin.symbols() or other.begin.symbols() & {name}:
        return False
    (second,) = names
    if other.first == 0 and b.bounds.proves(other.begin) and b.bounds.proves(axis.size - other.end):
        return False  # the sum stays inside of the axis's tile
    if any(s is None or (s is not start and second in _origin(b, s, second).symbols()) for s in starts):
        return False
    start = _origin(b, start, second)
    factors = {}
    for symbol in (name, second):
        without = start.replace(symbol, ZERO)
        factors[symbol] = sizes.divide_exactly(start - without, sizes.symbol(symbol))
    return factors[name] is not None and factors[name] != 0 and factors[name] == factors[second]


def _origin(b: Builder, e: Size, kept: str) -> Size:
    """e where the loops begin whose begin is part of another axis: what it is as a sum of other axes."""
    for local in reversed(b.bounds.locals):
        if local.start != kept and local.start in e.symbols() and any("@" in s for s in local.begin.symbols()):
            e = e.replace(local.start, local.begin)
    return e


def check_before_parallel(b: Builder, axes: Sequence[Axis], statements: Sequence[Statement]) -> None:
    """A store before the parallel loop is done by every grid point."""
    for s in statements:
        if s["op"] == "store" and axes:
            b.fail(
                f"every grid point repeats the store of line {s['loc'][0]}, which stands before the parallel loop",
                "the store inside of the loop, with the axes in its index",
            )
        for key in ("body", "then", "else"):
            check_before_parallel(b, axes, s.get(key, ()))


def _moves(b: Builder, start: Size, name: str, tile: int | None) -> bool:
    """Whether `start` differs where the symbol does. Under //, min and max several of its values can be one, but for the number of a tile;
    an axis that runs over a part of another moves with it."""
    for atom in start.atoms():
        if isinstance(atom, Op):
            if (
                atom.kind == "//"
                and tile
                and atom.rhs.constant
                and tile % atom.rhs.constant == 0
                and _moves(b, atom.lhs, name, tile)
            ):
                return True
        elif atom == name:
            return True
        elif "@" in atom:
            local = next((x for x in b.bounds.locals if x.start == atom), None)
            if local is not None and _moves(b, _begin(b, local), name, tile):
                return True
    return False


def _begin(b: Builder, local: Local) -> Size:
    """Where a loop begins if it runs at all: from min(a, c) to at most c it runs only where that is a."""
    atoms = list(local.begin.atoms())
    if len(atoms) == 1 and isinstance(atoms[0], Op) and atoms[0].kind == "min" and local.end is not None:
        for side, limit in ((atoms[0].lhs, atoms[0].rhs), (atoms[0].rhs, atoms[0].lhs)):
            if local.begin == sizes.minimum(side, limit) and b.bounds.proves(limit - local.end):
                return side
    return local.begin


def _begins_by(b: Builder, start: Size, number: int) -> bool:
    """Whether `start` is that of a loop whose begin is data that may depend on the symbol `s<number>`, as the rows of ragged groups are."""
    for local in b.bounds.locals:
        if local.start in start.symbols():
            if local.record is not None and depends(b, local.record["value"], number):
                return True
            if local.begin != 0 and _begins_by(b, local.begin, number):
                return True
    return False


_SYMBOL = re.compile(r"s(\d+)")


def depends(b: Builder, value: int, number: int, seen: set[int] | None = None) -> bool:
    """Whether a value may depend on the symbol `s<number>`. What comes out of loops and branches may depend on anything."""
    seen = set() if seen is None else seen
    if value in seen:
        return False
    seen.add(value)
    statement = b.producers.get(value)
    if statement is None:
        return True
    texts = [statement.get("size", "")]
    for entry in [*statement.get("index", ()), *statement.get("map", ())]:
        if "value" in entry:
            if depends(b, entry["value"], number, seen):
                return True
        else:
            texts.append(entry["start"])
    if any(int(n) == number for text in texts for n in _SYMBOL.findall(text)):
        return True
    return any(depends(b, a, number, seen) for a in statement.get("args", ()))


# -- tiles -------------------------------------------------------------------------------------------------------------


def index_tile(b: Builder, x: Tile, index: Any) -> Tile:
    """`x[..]` of a tile: new dimensions, constant and symbolic slices, `::-1`, integers and axes."""
    items: list[Any] = []
    d = 0
    expanded = _expanded(b, "the tile", x.shape, index)
    flips: list[int] = []
    position = 0
    for item in expanded:
        if item is None:
            items.append(None)
            position += 1
            continue
        extent = x.shape[d]
        d += 1
        if isinstance(item, Slice):
            if item.step == -1 and item.start is None and item.stop is None:
                flips.append(position)
                item = Slice(None, None, None)
            elif isinstance(item.step, int) and item.step > 1:
                items.append(_stepped(b, item, extent))
                position += 1
                continue
            elif item.step not in (None, 1):
                b.fail(f"a tile is sliced with the step {describe(item.step)}", "a positive step, or x[::-1]")
            bounds = [plain(extent + e) if isinstance(e, int) and e < 0 else e for e in (item.start, item.stop)]
            items.append(Slice(bounds[0], bounds[1], None))
            position += 1
        elif isinstance(item, int) and not isinstance(item, bool) and item < 0:
            items.append(plain(extent + item))
        else:
            items.append(item)
            position += len(item.terms) if isinstance(item, Span) else 1 if isinstance(item, Axis) else 0
    at = place(b, "the tile", x.shape, tuple(items), "view", outside=False, gather=False)
    entries = []
    for start, terms in zip(at.starts, at.terms, strict=True):
        assert start is not None
        flipped = [(q, -step) if q in flips else (q, step) for q, step in terms]
        for q, step in terms:
            if q in flips:
                start = start + (at.shape[q] - 1) * step
        entries.append((start, flipped))
    return b.view(x, at.shape, entries)


def _stepped(b: Builder, s: Slice, extent: Size) -> Span:
    """`a:b:step` of a tile."""
    ends = []
    for end, default in ((s.start, ZERO), (s.stop, extent)):
        e = default if end is None else b.to_size(end, "a bound of a slice")
        ends.append(extent + e if e.constant is not None and e.constant < 0 else e)
    count = sizes.ceildiv(ends[1] - ends[0], s.step)
    return Span(ends[0], ((count, size(s.step)),))


@builtin
def load(param: Any, index: Any, fill: Any = None) -> Any:
    """`tw.load(X, (i - 1, j), fill=0.0)`: as `X[i - 1, j]`, and elements outside of X read as `fill`. A `:` is written `slice(None)` here."""
    b = active("load")
    if not isinstance(param, Param):
        b.fail(
            f"tw.load from {describe(param)}",
            "tw.load(parameter, (i, j), fill=0.0)",
        )
    return load_param(b, param, index, fill)


@builtin
def store(param: Any, index: Any, value: Any, clip: bool = False) -> None:
    """`tw.store(Y, (i, j), value)`: as `Y[i, j] = value`; with `clip=True` elements outside of Y are not written."""
    b = active("store")
    if not isinstance(param, Param):
        b.fail(
            f"tw.store to {describe(param)}",
            "tw.store(parameter, (i, j), value)",
        )
    flag_argument(b, clip, "clip")
    store_param(b, param, index, value, clip)


@builtin
def atomic_add(param: Any, index: Any, value: Any) -> None:
    """Adds `value` to what an InOut has there; grid points may meet. The order of float sums is not fixed."""
    b = active("atomic_add")
    if not isinstance(param, Param):
        b.fail(
            f"tw.atomic_add to {describe(param)}",
            "tw.atomic_add(parameter, (i,), value)",
        )
    store_param(b, param, index, value, add=True)
