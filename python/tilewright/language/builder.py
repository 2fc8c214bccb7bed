"""Builds one kernel program: symbols, values, blocks, relations. Knows dtypes and shapes, and nothing of Python's syntax."""

from __future__ import annotations

import ast
import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from . import promotion, sizes
from .bounds import Axis, Bounds, Local
from .sizes import ONE, Size, size
from .source import FunctionSource, KernelError
from .types import DType, TensorType, bool_, f64, i64

Statement = dict[str, Any]

#: Per dimension of a view's source: where it starts, and (dimension of the view, step) pairs.
ViewEntry = tuple[Size, tuple[tuple[int, Size], ...]]

#: A tile beyond this does not stay in a core's cache.
LARGEST_TILE = 4 << 20


@dataclass(slots=True, eq=False)
class Tile:
    """A value of the program. `weak`: it acts like a Python number. `size`: the size that a rank-0 integer is known to equal."""

    id: int
    dtype: DType
    shape: tuple[Size, ...]
    weak: bool = False
    size: Size | None = None
    line: int = 0


@dataclass(slots=True, eq=False)
class Param:
    """A tensor parameter."""

    index: int
    name: str
    type: TensorType
    dtype: DType
    sizes: tuple[Size, ...]


@dataclass(slots=True)
class Frame:
    """A function that is being traced, and the node it has come to."""

    source: FunctionSource
    node: ast.AST | None = None


class SymbolNeededError(Exception):
    """An integer scalar parameter is used as a size: the trace starts again with a symbol for it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class _Active(threading.local):
    builder: Builder | None = None


_active = _Active()


def active(what: str) -> Builder:
    """The builder of the kernel that this thread is tracing. RuntimeError outside of kernels."""
    if _active.builder is None:
        raise RuntimeError(f"tw.{what} has a meaning only inside a @tw.kernel function and the helpers it calls")
    return _active.builder


@contextlib.contextmanager
def activated(builder: Builder) -> Iterator[None]:
    outer, _active.builder = _active.builder, builder
    try:
        yield
    finally:
        _active.builder = outer


class Builder:
    def __init__(self, name: str, source: FunctionSource) -> None:
        self.name = name
        self.kernel_source = source
        self.frames = [Frame(source)]
        self.symbols: dict[str, int] = {}  # name -> number, the kernel's own first
        self.bounds = Bounds()
        self.params: list[Statement] = []
        self.relations: list[Statement] = []
        self.producers: dict[int, Statement] = {}
        self.blocks: list[list[Statement]] = [[]]
        self.known_values: list[dict[Any, Tile]] = [{}]
        self.guards: list[Statement] = []  # the `if` and `while` statements around the current place
        self.axes: list[Axis] = []  # the axes around the current place, outermost first
        self.scalars: set[str] = set()  # names of integer scalar parameters
        self.aliases: dict[int, int] = {}  # arguments of loops that turned out not to be carried -> their values
        self.kernel_symbols = 0  # how many symbols are the kernel's own
        self._views: dict[int, tuple[Tile, tuple[ViewEntry, ...]]] = {}
        self.call: Callable[
            [Any, list[Any], dict[str, Any]], Any
        ]  # the front end's call of a function that is given to a function
        self._next_id = 0
        self.shapes: dict[int, tuple[Size, ...]] = {}  # of every value
        self.sizes_of_texts: dict[str, Size] = {}
        self._texts: dict[Size, str] = {}
        self._shape_texts: dict[tuple[Size, ...], list[str]] = {}

    # -- places --------------------------------------------------------------------------------------------------------

    @property
    def node(self) -> ast.AST | None:
        return self.frames[-1].node

    def place(self) -> list[int]:
        """Line and column in the kernel's file: of the call where a helper comes from another file."""
        for frame in reversed(self.frames):
            if frame.source.file == self.kernel_source.file and frame.node is not None:
                return [frame.node.lineno, frame.node.col_offset]  # type: ignore[attr-defined]
        return [0, 0]

    def error(self, message: str, hint: str = "", node: ast.AST | None = None) -> KernelError:
        frame = self.frames[-1]
        notes = []
        for caller, callee in zip(reversed(self.frames[:-1]), reversed(self.frames[1:]), strict=True):
            line = getattr(caller.node, "lineno", 0)
            file = caller.source.file.rsplit("/", 1)[-1]
            notes.append(
                f"in the helper `{callee.source.tree.name}`, called at {file}:{line}: {caller.source.line(line).strip()}"
            )
        return frame.source.error(message, node if node is not None else frame.node, hint, tuple(notes))

    def fail(self, message: str, hint: str = "", node: ast.AST | None = None) -> NoReturn:
        raise self.error(message, hint, node)

    # -- symbols and texts ---------------------------------------------------------------------------------------------

    def declare(self, name: str) -> Size:
        self.symbols.setdefault(name, len(self.symbols))
        return sizes.symbol(name)

    def local(self, name: str) -> tuple[str, int]:
        """A fresh local symbol: its key and number."""
        number = len(self.symbols)
        key = f"{name}@{number}"
        self.symbols[key] = number
        return key, number

    def text(self, e: Size) -> str:
        found = self._texts.get(e)
        if found is None:
            found = self._texts[e] = e.text(lambda name: f"s{self.symbols[name]}")
            self.sizes_of_texts[found] = e
        return found

    def texts(self, shape: tuple[Size, ...]) -> list[str]:
        found = self._shape_texts.get(shape)
        if found is None:
            found = self._shape_texts[shape] = [self.text(e) for e in shape]
        return found

    # -- emission ------------------------------------------------------------------------------------------------------

    def append(self, statement: Statement) -> Statement:
        self.blocks[-1].append(statement)
        return statement

    def fresh(
        self, dtype: DType, shape: tuple[Size, ...], statement: Statement | None = None, weak: bool = False
    ) -> Tile:
        self._next_id += 1
        tile = Tile(self._next_id - 1, dtype, shape, weak, None, getattr(self.node, "lineno", 0))
        self.shapes[tile.id] = shape
        if statement is not None:
            self.producers[tile.id] = statement
        return tile

    def emit(
        self,
        op: str,
        args: Sequence[Tile],
        dtype: DType,
        shape: tuple[Size, ...] = (),
        weak: bool = False,
        **attributes: Any,
    ) -> Tile:
        statement: Statement = {"op": op}
        tile = self.fresh(dtype, shape, statement, weak)
        statement["id"] = tile.id
        if args:
            statement["args"] = [a.id for a in args]
        statement.update(attributes)
        statement["dtype"] = dtype.name
        statement["shape"] = self.texts(shape)
        statement["loc"] = self.place()
        self._check_bytes(tile)
        self.blocks[-1].append(statement)
        return tile

    def emit_once(
        self,
        key: tuple[Any, ...],
        op: str,
        args: Sequence[Tile],
        dtype: DType,
        shape: tuple[Size, ...],
        **attributes: Any,
    ) -> Tile:
        """As emit, but a value that this block or one around it has already is used again. For cheap operations without effects."""
        key = (op, tuple(a.id for a in args), dtype, shape, key)
        for known in reversed(self.known_values):
            if key in known:
                return known[key]
        tile = self.known_values[-1][key] = self.emit(op, args, dtype, shape, **attributes)
        return tile

    def _check_bytes(self, tile: Tile) -> None:
        count = tile.dtype.bytes
        for dim in tile.shape:
            longest = dim.constant
            if longest is None:
                bound = dim.symbol and next((x.tile for x in self.bounds.locals if x.extent == dim.symbol), None)
                if not bound:
                    return
                longest = bound
            count *= longest
        if count > LARGEST_TILE:
            self.fail(
                f"a tile {show_shape(tile.shape)} of {tile.dtype.name} takes {count / (1 << 20):.0f} MiB; tiles that large do not stay in"
                f" cache (the limit is {LARGEST_TILE >> 20} MiB)",
                "smaller tile sizes, or leave `tile` to the compiler",
            )

    def open_block(self) -> list[Statement]:
        block: list[Statement] = []
        self.blocks.append(block)
        self.known_values.append({})
        return block

    def close_block(self) -> list[Statement]:
        self.known_values.pop()
        return self.blocks.pop()

    def checkpoint(self) -> tuple[int, int, int, int, int, int, dict[Any, Tile]]:
        """A place in the trace to which rollback can return, in the same block."""
        return (
            len(self.blocks[-1]),
            len(self.symbols),
            len(self.relations),
            len(self.bounds.locals),
            len(self.bounds.known),
            self._next_id,
            dict(self.known_values[-1]),
        )

    def rollback(self, mark: tuple[int, int, int, int, int, int, dict[Any, Tile]]) -> None:
        statements, symbols, relations, local, known, next_id, values = mark
        del self.blocks[-1][statements:]
        for name in list(self.symbols)[symbols:]:
            del self.symbols[name]
        del self.relations[relations:]
        del self.bounds.locals[local:]
        del self.bounds.known[known:]
        for number in range(next_id, self._next_id):
            self.producers.pop(number, None)
            self._views.pop(number, None)
            self.aliases.pop(number, None)
        self._next_id = next_id
        self.known_values[-1] = values
        # Numbers of locals are given again, so texts and producers of what is gone must go too.
        self._texts.clear()
        self._shape_texts.clear()

    # -- numbers -------------------------------------------------------------------------------------------------------

    def constant(self, value: int | float | bool, dtype: DType) -> Tile:
        """A rank-0 value. The number must be one that `dtype` holds."""
        if dtype.is_float:
            number = float(value)
            written: Any = (
                number if math.isfinite(number) else "nan" if number != number else "inf" if number > 0 else "-inf"
            )
        elif dtype.is_bool:
            written = bool(value)
        else:
            written = int(value)
        return self.emit_once((str(written),), "const", (), dtype, (), value=written)

    def size_value(self, e: Size) -> Tile:
        """A size as a rank-0 weak i64."""
        tile = self.emit_once((e,), "size", (), i64, (), size=self.text(e))
        tile.weak, tile.size = True, e
        return tile

    def value(self, x: Any) -> Tile:
        """A tile for whatever has a value at run time. Python numbers and sizes become weak."""
        if isinstance(x, Tile):
            return x
        if isinstance(x, Axis):
            self.fail(
                f"the axis {x.name} is a range of indices, not a value",
                f"tw.indices({x.name}) for the indices as a tile, or {x.name}.start",
            )
        if isinstance(x, Param):
            self.fail(
                f"{x.name} is a whole parameter, not a tile", f"{x.name}[{', '.join(':' * len(x.sizes)) or '()'}]"
            )
        if isinstance(x, Size):
            return self.size_value(x)
        if isinstance(x, bool):
            return self.constant(x, bool_)
        if isinstance(x, (int, float)):
            if isinstance(x, int) and not promotion.holds(i64, x):
                self.fail(f"{x} does not fit 64 bits")
            tile = self.constant(x, i64 if isinstance(x, int) else f64)
            return Tile(tile.id, tile.dtype, (), True, None, tile.line)
        self.fail(f"{describe(x)} has no value at run time", "a number, a size or a tile")

    def cast(self, x: Tile, dtype: DType, weak: bool = False) -> Tile:
        if x.dtype == dtype:
            return marked(x, weak)
        return marked(self.emit_once((), "cast", (x,), dtype, x.shape), weak)

    # -- shapes --------------------------------------------------------------------------------------------------------

    def view(
        self, x: Tile, shape: tuple[Size, ...], entries: Sequence[tuple[Size | int, Sequence[tuple[int, Size | int]]]]
    ) -> Tile:
        """Element j of the result is x at, per dimension of x, start + sum(step * j[dim])."""
        if shape == x.shape and all(
            start == 0 and len(terms) == 1 and terms[0] == (d, 1) for d, (start, terms) in enumerate(entries)
        ):
            return x
        key = tuple((size(start), tuple((d, size(step)) for d, step in terms)) for start, terms in entries)
        if x.id in self._views:  # a view of a view is one view
            weak = x.weak
            x, inner = self._views[x.id]
            x, key = marked(x, weak), tuple(_composed(entry, key) for entry in inner)
        written = [
            {"start": self.text(start), "terms": [[d, self.text(step)] for d, step in terms]} for start, terms in key
        ]
        tile = self.emit_once(key, "view", (x,), x.dtype, shape, map=written)
        self._views[tile.id] = (x, key)
        return marked(tile, x.weak)

    def _agreement(self, a: Size, c: Size) -> str:
        if a.constant is not None and c.constant is not None:
            return "tiles of equal sizes"
        hint = "the same axis or size on both, or x[:, None] to line dimensions up"
        if self.bounds.is_global(a - c):
            hint += f"; if the sizes are equal, tw.static_assert({show_size(a)} == {show_size(c)})"
        return hint

    def same(self, a: Size, c: Size) -> bool:
        """Whether two sizes are equal, as polynomials or because the author says so (static_assert)."""
        if a == c:
            return True
        return bool(self.bounds.known) and self.bounds.proves(a - c) and self.bounds.proves(c - a)

    def same_shape(self, a: tuple[Size, ...], c: tuple[Size, ...]) -> bool:
        return a == c or (len(a) == len(c) and all(map(self.same, a, c)))

    def broadcasts(self, shape: tuple[Size, ...], to: tuple[Size, ...]) -> bool:
        skipped = len(to) - len(shape)
        return skipped >= 0 and all(s == 1 or self.same(s, to[d + skipped]) for d, s in enumerate(shape))

    def broadcast(self, x: Tile, shape: tuple[Size, ...]) -> Tile:
        """NumPy's broadcast; that it is possible has been checked."""
        if x.shape == shape:
            return x
        skipped = len(shape) - len(x.shape)
        entries = [
            (0, [(d + skipped, 1)] if self.same(extent, shape[d + skipped]) else []) for d, extent in enumerate(x.shape)
        ]
        return self.view(x, shape, entries)

    def common_shape(self, tiles: Sequence[Tile], what: str) -> tuple[Size, ...]:
        first = tiles[0].shape
        if all(t.shape == first or not t.shape for t in tiles):
            return first
        rank = max(len(t.shape) for t in tiles)
        result: list[Size] = []
        for d in range(-rank, 0):
            extent, owner = ONE, tiles[0]
            for t in tiles:
                if len(t.shape) < -d or t.shape[d] == 1:
                    continue
                if extent != 1 and not self.same(extent, t.shape[d]):
                    self.fail(
                        f"shapes do not agree in {what}: {show_tile(owner)} and {show_tile(t)} differ in dimension"
                        f" {d}: {show_size(extent)} and {show_size(t.shape[d])}",
                        self._agreement(extent, t.shape[d]),
                    )
                if extent == 1:
                    extent, owner = t.shape[d], t
            result.append(extent)
        return tuple(result)

    # -- sizes from values ---------------------------------------------------------------------------------------------

    def to_size(self, x: Any, what: str, end: Size | None = None, clamp: bool = False, name: str = "value") -> Size:
        """x as a size. A value that is known only at run time is bound to a local symbol, which must lie in 0 .. end (an error of data if it
        does not) or, with `clamp`, becomes 0 below; messages call it `name`."""
        if isinstance(x, Size):
            return x
        if isinstance(x, int) and not isinstance(x, bool):
            return size(x)
        if isinstance(x, Axis):
            if x.scalar:
                return x.start
            self.fail(f"{what} is the axis {x.name}, which is a range", f"{x.name}.start or {x.name}.size")
        if not isinstance(x, Tile) or x.shape or not x.dtype.is_integer:
            self.fail(
                f"{what} is {describe(x)}; an integer is expected",
                "an int, a size, or a run-time integer without dimensions",
            )
        if x.size is not None:
            self.use_scalars(x.size)
            return x.size
        if clamp:
            x = self.emit("max", (self.cast(x, i64), self.constant(0, i64)), i64)
        key, number = self.local(name)
        record = self.append(
            {"op": "bind", "symbol": number, "value": self.cast(x, i64).id, "min": "0", "loc": self.place()}
        )
        record["message"] = f"{what} is {{index}}, and must not be negative"
        if end is not None:
            record.update(
                max=self.text(end), message=f"{what} is {{index}}, and must be at least 0 and below {{bound}}"
            )
        self.bounds.define(Local(key, None, size(0), None if end is None else end + 1, record=record, what=what))
        return sizes.symbol(key)

    def use_scalars(self, e: Size) -> None:
        """Integer scalar parameters that become sizes must not be negative. Raises SymbolNeededError for one that is no symbol yet."""
        for name in e.symbols() & self.scalars:
            if name not in self.symbols:
                raise SymbolNeededError(name)
            rhs = self.text(sizes.symbol(name))
            message = f"the parameter {name} is used as a size or an index (line {self.place()[0]}) and must not be negative: it is {{rhs}}"
            if not any(r["lhs"] == "0" and r["rhs"] == rhs for r in self.relations):
                self.relations.append({"op": "le", "lhs": "0", "rhs": rhs, "message": message})

    def fail_size(self, x: Tile, message: str, hint: str) -> NoReturn:
        """x is no size: `message` if it is data, and else that it is a scalar parameter of a dtype that sizes do not have."""
        producer = self.producers.get(x.id, {})
        while producer.get("op") == "cast":
            producer = self.producers.get(producer["args"][0], {})
        if producer.get("op") == "scalar":
            name, dtype = (self.params[producer["param"]][key] for key in ("name", "dtype"))
            if dtype != "i64":
                self.fail(
                    f"{name} is a scalar of {dtype}, and sizes are i64", f"{name}: int in the kernel's parameters"
                )
        self.fail(message, hint)

    # -- relations -----------------------------------------------------------------------------------------------------

    def relate(self, op: str, lhs: Size, rhs: Size, message: str) -> None:
        self.use_scalars(lhs)
        self.use_scalars(rhs)
        relation = {"op": op, "lhs": self.text(lhs), "rhs": self.text(rhs), "message": message}
        if not any(
            r["op"] == op and r["lhs"] == relation["lhs"] and r["rhs"] == relation["rhs"] for r in self.relations
        ):
            self.relations.append(relation)

    def require(self, small: Size, large: Size, refusal: str, message: str, hint: str, why: str = "") -> None:
        """small <= large for all tiles: seen now, or checked when sizes are bound (`message`) or values are (for which `why` says what for), or
        refused now (`refusal`)."""
        gap = large - small
        if self.bounds.proves(gap):
            return
        bound = self.bounds.lower(gap)
        if bound is not None and bound.constant is not None and bound.constant < 0:
            self.fail(refusal, hint)
        if self._tighten(small, large, why):
            return
        lhs, rhs = self.bounds.upper(small), self.bounds.lower(large)
        if bound is None or lhs is None or rhs is None:
            self.fail(f"{refusal}, as far as can be seen", hint)
        self.relate("le", self._where_something_runs(lhs, rhs), rhs, message)

    def _where_something_runs(self, lhs: Size, rhs: Size) -> Size:
        """lhs, or something smaller if an axis around this place is empty and lhs <= rhs would not hold then by itself."""
        count = ONE
        for axis in self.axes:
            name = axis.end.symbol if axis.begin == 0 else None
            if name and name in lhs.symbols() and not self.bounds.proves(rhs - lhs.replace(name, size(0))):
                count = count * axis.end
        return lhs if count == 1 else sizes.minimum(lhs, lhs * count)

    def _tighten(self, small: Size, large: Size, why: str) -> bool:
        """Gives the bound value that `small` depends on the maximum under which small <= large. False if it depends on none."""
        for local in reversed(self.bounds.locals):
            if not local.names & small.symbols():
                continue
            if local.record is None:
                inner = self.bounds.upper_without(small, local)
                if inner is None:
                    return False
                small = inner
                continue
            symbol = sizes.symbol(local.start)
            rest = small.replace(local.start, size(0))
            factor = sizes.divide_exactly(small - rest, symbol)
            if factor is None or not factor.constant or factor.constant < 0:
                return False
            limit = (large - rest) // factor
            later = self.bounds.locals[self.bounds.locals.index(local) :]
            if limit.symbols() & {name for other in later for name in other.names}:
                return False
            limit = limit if local.end is None else sizes.minimum(limit, local.end - 1)
            local.record["max"], local.end = self.text(limit), limit + 1
            local.record["message"] = f"{local.what} is {{index}}, and must be at least 0 and below {{bound}}"
            if why:
                local.record["message"] += f": {why} (line {self.place()[0]})"
            return self.bounds.proves(large - small)
        return False


def _composed(inner: ViewEntry, outer: tuple[ViewEntry, ...]) -> ViewEntry:
    """Where a dimension of the source is read, in terms of the outer view's dimensions."""
    start = inner[0]
    steps: dict[int, Size] = {}
    for dim, step in inner[1]:
        start = start + outer[dim][0] * step
        for d, outer_step in outer[dim][1]:
            steps[d] = steps.get(d, size(0)) + outer_step * step
    return start, tuple(sorted(steps.items()))


def marked(x: Tile, weak: bool) -> Tile:
    return x if x.weak == weak else Tile(x.id, x.dtype, x.shape, weak, x.size, x.line)


def show_size(e: Size | int) -> str:
    """A size as its author knows it: `i` for the length of the axis i."""
    text = e.text() if isinstance(e, Size) else str(e)
    return text.removesuffix(".size") if isinstance(e, Size) and e.symbol else text


def show_shape(shape: Sequence[Size]) -> str:
    return "[" + ", ".join(map(show_size, shape)) + "]"


def show_tile(x: Tile) -> str:
    kind = "a number" if not x.shape else "a tile " + show_shape(x.shape)
    return f"{kind} of {x.dtype.name}" + (f" (line {x.line})" if x.line else "")


def describe(x: Any) -> str:
    """Anything that an expression can be, in words, for messages."""
    if isinstance(x, Tile):
        return show_tile(x)
    if isinstance(x, Axis):
        return f"the axis {x.name}"
    if isinstance(x, Param):
        return f"the parameter {x.name}"
    if isinstance(x, Size):
        return show_size(x)
    if x is None or isinstance(x, (bool, int, float, str, DType)):
        return repr(x)
    if isinstance(x, tuple):
        return "a tuple"
    if type(x).__name__ in ("Slice", "Span"):
        return "a slice" if type(x).__name__ == "Slice" else "a range of indices"
    name = getattr(x, "__name__", None) if callable(x) else None
    return f"the function {name}" if name else f"a {type(x).__name__}"
