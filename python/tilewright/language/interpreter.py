"""Runs kernel programs (docs/kernel-programs.md): one grid point after another, one operation after another, slow and obviously right.

What an operation computes stands in semantics.py; here are control flow, memory and sizes. An `Observer` is told what is read and written
and what goes wrong: the one here raises at the first error of data, check.py's collects what it finds.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from ..dynamo.dtypes import DTYPE_NAMES, DTYPES
from . import semantics, size_text

Statement = dict[str, Any]
Order = str | int  # "row-major", "reversed", or the seed of a random order


class DataError(IndexError):
    """An error of data: an index outside its tensor, a zero divisor, an assertion that does not hold."""


@dataclass
class Value:
    """A held value (semantics.py) and its dtype's name."""

    dtype: str
    data: torch.Tensor


class Observer:
    """What the interpreter tells while it runs. Elements are row-major numbers of a parameter's elements, one-dimensional int64."""

    def start(self, interpreter: Interpreter) -> None:
        """The sizes are bound, nothing has run."""

    def enter(self, point: dict[str, tuple[int, int | None]]) -> None:
        """A grid point begins: its axes' starts and sizes (None for a scalar axis). Not called for what stands before `parallel`."""

    def read(self, statement: Statement, param: int, elements: torch.Tensor) -> None: ...

    def write(self, statement: Statement, param: int, elements: torch.Tensor) -> None: ...

    def atomic(self, statement: Statement, param: int, elements: torch.Tensor) -> None: ...

    def operation(self, statement: Statement, args: Sequence[Value]) -> None:
        """A scalar operation, a reduction or a scan is about to be computed."""

    def data_error(self, statement: Statement, kind: str, text: str, count: int = 1) -> None:
        """`kind` is out-of-bounds, zero-divisor, bound or assert. If this returns, the interpreter goes on: reads give 0, writes do nothing,
        divisors count as 1 and bound values are brought into their range."""
        raise DataError(f"{self.where(statement)}: {text}")

    def finish(self) -> None:
        """Everything has run."""

    file = "<kernel>"

    def where(self, statement: Statement) -> str:
        line, _ = statement.get("loc", (0, 0))
        return f"{self.file}:{line}"


#: How many indices a tile of an axis has that leaves it to the compiler: a number, by the axis's name, or by how many there are.
Tiles: TypeAlias = int | Mapping[str, int] | Callable[[int], int] | None


def a_dozen_tiles(indices: int) -> int:
    """A tile size that gives at most a dozen tiles, and mostly a tail."""
    return max(5, -(-indices // 12))


def run(
    program: Mapping[str, Any],
    arguments: Sequence[Any],
    *,
    tiles: Tiles = None,
    checker: Observer | None = None,
    order: Order = "row-major",
) -> None:
    """Runs a program on CPU tensors and Python numbers in the order of its parameters, writing outputs in place.

    `tiles` is the tile size of axes that leave it to the compiler (for all of them, by name, or as a function of how many indices there are);
    None is `a_dozen_tiles`. `order` is the order of grid points: "row-major", "reversed", or a seed. Results depend on neither but for
    the order of sums (and races).

    Raises ValueError if arguments do not fit the program or a relation between sizes does not hold, TypeError if one is of another kind,
    DataError (an IndexError) for errors of data.
    """
    Interpreter(program, arguments, tiles=tiles, checker=checker, order=order).run()


class Interpreter:
    """One run of one program."""

    def __init__(
        self,
        program: Mapping[str, Any],
        arguments: Sequence[Any],
        *,
        tiles: Tiles = None,
        checker: Observer | None = None,
        order: Order = "row-major",
    ) -> None:
        self.program, self.arguments, self.tiles, self.order = program, list(arguments), tiles, order
        self.params: list[Statement] = program["params"]
        self.observer = checker or Observer()
        self.observer.file = program.get("file") or "<kernel>"
        self.symbols = bind_sizes(program, self.arguments)
        self.values: dict[int, Value] = {}

    def run(self) -> None:
        self.observer.start(self)
        with torch.no_grad():
            self._statements(self.program["body"])
        self.observer.finish()

    # ------------------------------------------------------------------------------------------------------------------
    # Control flow

    def size(self, text: str | int) -> int:
        return int(size_text.evaluate(text, self.symbols))

    def _statements(self, statements: list[Statement]) -> None:
        for statement in statements:
            op = statement["op"]
            handler = _STATEMENTS.get(op)
            if handler is not None:
                handler(self, statement)
                continue
            if op in _VALUES:
                results = [_VALUES[op](self, statement)]
            elif op == "sort":
                results = list(self._sort(statement))
            elif op in semantics.ARITY:
                results = [self._scalar_operation(statement)]
            else:
                raise self.malformed(statement, f"there is no operation {op!r}")
            ids = statement["ids"] if op == "sort" else [statement["id"]]
            shape = [self.size(s) for s in statement["shape"]]
            for number, data in zip(ids, results, strict=True):
                dtype = "i64" if op == "sort" and number == ids[1] else statement["dtype"]
                if list(data.shape) != shape or data.dtype != semantics.holder(dtype):
                    raise self.malformed(
                        statement, f"{op} gives {list(data.shape)} of {data.dtype} where {shape} of {dtype} is declared"
                    )
                self.values[number] = Value(dtype, data)

    def malformed(self, statement: Statement, text: str) -> ValueError:
        return ValueError(f"{self.observer.where(statement)}: the program is wrong: {text}")

    def value(self, statement: Statement, number: int) -> Value:
        if number not in self.values:
            raise self.malformed(statement, f"value {number} has not been computed")
        return self.values[number]

    def args(self, statement: Statement) -> list[Value]:
        return [self.value(statement, number) for number in statement["args"]]

    def _axis_points(self, axis: Statement) -> list[tuple[int, int | None]]:
        """Starts and sizes of an axis's tiles, in order."""
        begin, end, tile = self.size(axis["begin"]), self.size(axis["end"]), axis["tile"]
        if tile == "scalar":
            return [(i, None) for i in range(begin, end)]
        if tile is None:
            tile = self.tiles.get(axis["name"]) if isinstance(self.tiles, Mapping) else self.tiles
            if tile is None or callable(tile):
                tile = (tile or a_dozen_tiles)(end - begin)
        return [(start, min(tile, end - start)) for start in range(begin, end, tile)]

    def _enter_axis(self, axis: Statement, point: tuple[int, int | None]) -> None:
        self.symbols[f"s{axis['start']}"] = point[0]
        if point[1] is not None:
            self.symbols[f"s{axis['size']}"] = point[1]

    def _parallel(self, statement: Statement) -> None:
        axes = statement["axes"]
        points = list(itertools.product(*(self._axis_points(axis) for axis in axes)))
        if self.order == "reversed":
            points.reverse()
        elif self.order != "row-major":
            random.Random(self.order).shuffle(points)
        for point in points:
            for axis, tile in zip(axes, point, strict=True):
                self._enter_axis(axis, tile)
            self.observer.enter({axis["name"]: tile for axis, tile in zip(axes, point, strict=True)})
            self._statements(statement["body"])

    def _for(self, statement: Statement) -> None:
        carried = statement.get("carried", [])
        current = [self.value(statement, c["init"]) for c in carried]
        for point in self._axis_points(statement["axis"]):
            self._enter_axis(statement["axis"], point)
            self._bind_carried(carried, "arg", current)
            self._statements(statement["body"])
            current = self._carry(statement, carried, current)
        self._bind_carried(carried, "result", current)

    def _while(self, statement: Statement) -> None:
        carried = statement.get("carried", [])
        current = [self.value(statement, c["init"]) for c in carried]
        while True:
            self._bind_carried(carried, "arg", current)
            self._statements(statement["condition"])
            if not bool(self.value(statement, statement["cond"]).data):
                break
            self._statements(statement["body"])
            current = self._carry(statement, carried, current)
        self._bind_carried(carried, "result", current)

    def _bind_carried(self, carried: list[Statement], role: str, current: list[Value]) -> None:
        for c, value in zip(carried, current, strict=True):
            self.values[c[role]] = value

    def _carry(self, statement: Statement, carried: list[Statement], current: list[Value]) -> list[Value]:
        following = [self.value(statement, c["next"]) for c in carried]
        for before, after in zip(current, following, strict=True):
            if before.dtype != after.dtype or before.data.shape != after.data.shape:
                raise self.malformed(
                    statement,
                    f"a carried value turns from {before.dtype}{list(before.data.shape)} into {after.dtype}{list(after.data.shape)}",
                )
        return following

    def _if(self, statement: Statement) -> None:
        branch = "then" if bool(self.value(statement, statement["cond"]).data) else "else"
        self._statements(statement.get(branch, []))
        for result in statement.get("results", []):
            self.values[result["result"]] = self.value(statement, result[branch])

    def _bind(self, statement: Statement) -> None:
        value = int(self.value(statement, statement["value"]).data)
        low, high = (self.size(statement[k]) if statement.get(k) is not None else None for k in ("min", "max"))
        if (low is not None and value < low) or (high is not None and value > high):
            text = statement.get("message", "")
            if text:
                marks = {"{index}": value - (low or 0), "{bound}": 2**63 - 1 if high is None else high + 1 - (low or 0)}
                for mark, number in marks.items():
                    text = text.replace(mark, str(number))
            else:
                text = f"a size or index computed from data is {value}, which must lie in [{low}, {high}]"
            self.observer.data_error(statement, "bound", text)
            value = max(value, low) if low is not None else value
            value = min(value, high) if high is not None else value
        self.symbols[f"s{statement['symbol']}"] = value

    def _assert(self, statement: Statement) -> None:
        failed = ~self.args(statement)[0].data
        if failed.any():
            text = f"assertion failed: {statement['message']}"
            if failed.ndim:
                text += f" (at {_first(failed)} of {list(failed.shape)})"
            self.observer.data_error(statement, "assert", text, int(failed.sum()))

    def _print(self, statement: Statement) -> None:
        print(statement.get("text", ""), *(semantics.release(a.data, a.dtype).tolist() for a in self.args(statement)))

    # ------------------------------------------------------------------------------------------------------------------
    # Values

    def _const(self, statement: Statement) -> torch.Tensor:
        value, dtype = statement["value"], statement["dtype"]
        if dtype in semantics.FLOATS:
            return semantics.rounded(torch.tensor(float(value), dtype=torch.float64), dtype)
        if dtype == "bool":
            return torch.tensor(bool(value))
        value = int(value)
        return semantics.wrap(torch.tensor(value - 2**64 if value >= 2**63 else value), dtype)

    def _size(self, statement: Statement) -> torch.Tensor:
        return torch.tensor(self.size(statement["size"]))

    def _scalar(self, statement: Statement) -> torch.Tensor:
        param = self.params[statement["param"]]
        value = self.arguments[statement["param"]]
        dtype = torch.float64 if isinstance(value, float) else torch.bool if isinstance(value, bool) else torch.int64
        source = DTYPE_NAMES[dtype]
        own = semantics.cast(torch.tensor(value, dtype=dtype), source, param["dtype"])
        return semantics.cast(own, param["dtype"], statement["dtype"])

    def _iota(self, statement: Statement) -> torch.Tensor:
        shape, axis = [self.size(s) for s in statement["shape"]], statement["axis"]
        positions = torch.arange(shape[axis]).reshape([n if d == axis else 1 for d, n in enumerate(shape)])
        return semantics.rounded(positions, statement["dtype"]).expand(shape)

    def _scalar_operation(self, statement: Statement) -> torch.Tensor:
        op, args = statement["op"], self.args(statement)
        if len(args) != semantics.ARITY[op] or any(a.data.shape != args[0].data.shape for a in args):
            raise self.malformed(statement, f"{op} of {[(a.dtype, list(a.data.shape)) for a in args]}")
        self.observer.operation(statement, args)
        if op in semantics.DIVISIONS and args[0].dtype in semantics.INTEGERS and (args[1].data == 0).any():
            zero = args[1].data == 0
            where = f" at {_first(zero)} of {list(zero.shape)}" if zero.ndim else ""
            self.observer.data_error(
                statement, "zero-divisor", f"an integer is divided by zero{where}", int(zero.sum())
            )
        try:
            return semantics.scalar(op, [a.data for a in args], [a.dtype for a in args], statement["dtype"])
        except KeyError:
            raise self.malformed(statement, f"there is no {op} of {args[0].dtype}") from None

    def _view(self, statement: Statement) -> torch.Tensor:
        (source,) = self.args(statement)
        shape = [self.size(s) for s in statement["shape"]]
        index = self._positions(statement, statement["map"], shape)
        for d, positions in enumerate(index):
            if positions.numel() and (positions.min() < 0 or positions.max() >= source.data.shape[d]):
                raise self.malformed(
                    statement,
                    f"a view reads {int(positions.min())} .. {int(positions.max())} of dimension {d} of {list(source.data.shape)}",
                )
        return source.data[tuple(index)] if index else source.data.expand(shape)

    def _reshape(self, statement: Statement) -> torch.Tensor:
        (source,) = self.args(statement)
        return source.data.reshape([self.size(s) for s in statement["shape"]])

    def _concat(self, statement: Statement) -> torch.Tensor:
        return torch.cat([a.data for a in self.args(statement)], statement["axis"])

    def _reduce(self, statement: Statement) -> torch.Tensor:
        (source,) = self.args(statement)
        self.observer.operation(statement, [source])
        return semantics.reduce(statement["kind"], source.data, statement["axes"], source.dtype, statement["dtype"])

    def _matmul(self, statement: Statement) -> torch.Tensor:
        a, b = self.args(statement)
        if a.dtype != b.dtype or a.data.shape[:-2] != b.data.shape[:-2] or a.data.shape[-1] != b.data.shape[-2]:
            raise self.malformed(
                statement, f"matmul of {a.dtype}{list(a.data.shape)} and {b.dtype}{list(b.data.shape)}"
            )
        return semantics.matmul(a.data, b.data, a.dtype, statement["dtype"])

    def _scan(self, statement: Statement) -> torch.Tensor:
        (source,) = self.args(statement)
        self.observer.operation(statement, [source])
        return semantics.scan(statement["kind"], source.data, statement["axis"], source.dtype)

    def _sort(self, statement: Statement) -> tuple[torch.Tensor, torch.Tensor]:
        (source,) = self.args(statement)
        axis = statement["axis"]
        both = semantics.sort(source.data, axis, bool(statement.get("descending", False)), source.dtype)
        values, indices = (t.narrow(axis, 0, self.size(statement["shape"][axis])) for t in both)
        return values, indices

    # ------------------------------------------------------------------------------------------------------------------
    # Memory

    def _positions(self, statement: Statement, index: list[Statement], shape: list[int]) -> list[torch.Tensor]:
        """Per dimension of what is indexed, the position that each element of a tile of `shape` has there."""
        return [self._position(statement, entry, shape) for entry in index]

    def _position(self, statement: Statement, entry: Statement, shape: list[int]) -> torch.Tensor:
        def along(values: torch.Tensor, dim: int) -> torch.Tensor:
            return values.reshape([-1 if d == dim else 1 for d in range(len(shape))])

        if "value" in entry:
            index, dims = self.value(statement, entry["value"]).data, entry["dims"]
            if len(dims) != index.ndim or [shape[d] for d in dims] != list(index.shape):
                raise self.malformed(
                    statement, f"an index of shape {list(index.shape)} runs with dimensions {dims} of {shape}"
                )
            index = index.permute(sorted(range(index.ndim), key=lambda q: dims[q]))
            return index.reshape([n if d in dims else 1 for d, n in enumerate(shape)]).expand(shape)
        position = torch.tensor(self.size(entry["start"])).expand(shape)
        for dim, step in entry["terms"]:
            position = position + self.size(step) * along(torch.arange(shape[dim]), dim)
        return position

    def _address(self, statement: Statement, shape: list[int], quiet: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Row-major numbers of the parameter's elements that a tile of `shape` stands for, and which of them exist. What does not exist
        has number 0 and is reported unless `quiet`."""
        param = statement["param"]
        sizes = list(self.arguments[param].shape)
        index = self._positions(statement, statement["index"], shape)
        if len(index) != len(sizes):
            raise self.malformed(
                statement, f"{len(index)} indices for {len(sizes)} dimensions of {self.params[param]['name']}"
            )
        valid = torch.ones(shape, dtype=torch.bool)
        number = torch.zeros(shape, dtype=torch.int64)
        for position, size in zip(index, sizes, strict=True):
            valid = valid & (position >= 0) & (position < size)
            number = number * size + position
        if not valid.all() and not quiet:
            self._report_out_of_bounds(statement, index, ~valid)
        return torch.where(valid, number, 0), valid

    def _report_out_of_bounds(self, statement: Statement, index: list[torch.Tensor], outside: torch.Tensor) -> None:
        tensor, name = self.arguments[statement["param"]], self.params[statement["param"]]["name"]
        first = _first(outside)
        position = [int(i[tuple(first)]) for i in index]
        verb = {"load": "reads", "store": "writes", "atomic_add": "adds to"}[statement["op"]]
        dim, size = next((d, n) for d, n in enumerate(tensor.shape) if not 0 <= position[d] < n)
        self.observer.data_error(
            statement,
            "out-of-bounds",
            f"{statement['op']} {verb} {name}{position}, but dimension {dim} of {name} has {size} elements"
            + (f" (0 .. {size - 1})" if size else ""),
            int(outside.sum()),
        )

    def _load(self, statement: Statement) -> torch.Tensor:
        param, dtype = statement["param"], statement["dtype"]
        shape = [self.size(s) for s in statement["shape"]]
        fill = statement.get("fill")
        fill = float(fill) if isinstance(fill, str) else fill  # "inf", "-inf" and "nan", as in const
        number, valid = self._address(statement, shape, quiet=fill is not None)
        self.observer.read(statement, param, number[valid])
        if self.params[param]["dtype"] != dtype:
            raise self.malformed(statement, f"{dtype} is loaded from {self.params[param]['dtype']}")
        memory = _Memory(self.arguments[param])
        outside = semantics.rounded(torch.tensor(fill or 0, dtype=torch.float64), dtype) if dtype in semantics.FLOATS else (
            torch.tensor(bool(fill)) if dtype == "bool" else semantics.wrap(torch.tensor(int(fill or 0)), dtype)
        )  # fmt: skip
        result = outside.expand(shape).clone()
        result[valid] = semantics.hold(memory.read(number[valid]), dtype)
        return result

    def _target(self, statement: Statement) -> tuple[Value, torch.Tensor, torch.Tensor]:
        value = self.value(statement, statement["value"])
        if value.dtype != self.params[statement["param"]]["dtype"]:
            raise self.malformed(statement, f"{value.dtype} is stored to {self.params[statement['param']]['dtype']}")
        number, valid = self._address(statement, list(value.data.shape), quiet=bool(statement.get("clip")))
        return value, number, valid

    def _store(self, statement: Statement) -> None:
        value, number, valid = self._target(statement)
        number, data = number[valid], value.data[valid]
        self.observer.write(statement, statement["param"], number)
        last = {n: i for i, n in enumerate(number.tolist())}  # of several writes to one element the last counts
        kept = torch.tensor(list(last.values()), dtype=torch.int64)
        memory = _Memory(self.arguments[statement["param"]])
        memory.write(number[kept], semantics.release(data[kept], value.dtype))

    def _atomic_add(self, statement: Statement) -> None:
        value, number, valid = self._target(statement)
        number, data = number[valid], value.data[valid]
        self.observer.atomic(statement, statement["param"], number)
        memory = _Memory(self.arguments[statement["param"]])
        targets, which = number.unique(return_inverse=True)
        total = semantics.hold(memory.read(targets), value.dtype)
        if value.dtype in semantics.FLOATS:
            total, data = total.double(), data.double()
        total = semantics.rounded(total.index_add(0, which, data), value.dtype)
        memory.write(targets, semantics.release(total, value.dtype))


class _Memory:
    """The elements of a tensor by their row-major number, whatever its strides."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = semantics.as_signed(tensor)

    def _index(self, number: torch.Tensor) -> tuple[torch.Tensor, ...]:
        index = []
        for size in reversed(self.tensor.shape):
            index.append(number % max(size, 1))
            number = number // max(size, 1)
        return tuple(reversed(index))

    def read(self, number: torch.Tensor) -> torch.Tensor:
        return self.tensor[self._index(number)] if self.tensor.ndim else self.tensor.expand(number.shape)

    def write(self, number: torch.Tensor, values: torch.Tensor) -> None:
        values = semantics.as_signed(values)
        if self.tensor.ndim:
            self.tensor[self._index(number)] = values
        elif number.numel():
            self.tensor.fill_(values[-1])


def _first(mask: torch.Tensor) -> list[int]:
    return [int(i) for i in mask.nonzero()[0]]


def walk(statements: list[Statement]) -> Iterator[Statement]:
    """Every statement; a body's stand behind the statement that has it."""
    for statement in statements:
        yield statement
        for key in ("condition", "body", "then", "else"):
            if isinstance(statement.get(key), list):
                yield from walk(statement[key])


# ----------------------------------------------------------------------------------------------------------------------
# Arguments


def bind_sizes(program: Mapping[str, Any], arguments: Sequence[Any]) -> dict[str, int]:
    """The symbols' values, after checking arguments against parameters and relations. Raises as `run` does."""
    params, names, kernel = program["params"], program["symbols"], program["name"]
    if len(arguments) != len(params):
        raise TypeError(
            f"{kernel} takes {len(params)} arguments ({', '.join(p['name'] for p in params)}), not {len(arguments)}"
        )
    symbols: dict[str, int] = {}
    source: dict[str, str] = {}
    for param, argument in zip(params, arguments, strict=True):
        _check_kind(kernel, param, argument)
        if param["kind"] == "scalar":
            if param.get("symbol") is not None:
                symbols.setdefault(f"s{param['symbol']}", int(argument))
                source.setdefault(f"s{param['symbol']}", param["name"])
            continue
        for d, text in enumerate(param["sizes"]):
            if isinstance(text, str) and text[:1] == "s" and text[1:].isdigit():
                symbols.setdefault(text, argument.shape[d])
                source.setdefault(text, f"dimension {d} of {param['name']}")
    for k, name in enumerate(names):
        if f"s{k}" not in symbols:
            raise ValueError(f"{kernel}: no argument gives the size {name}")
    for param, argument in zip(params, arguments, strict=True):
        for d, text in enumerate(param["sizes"] if param["kind"] != "scalar" else []):
            expected = size_text.evaluate(text, symbols)
            if argument.shape[d] != expected:
                label = _named(text, names)
                why = f" (from {source[text]})" if text in source else ""
                meaning = f"{label} = {expected}" if label != str(expected) else label
                raise ValueError(
                    f"{kernel}: dimension {d} of {param['name']} is {argument.shape[d]}, but must be {meaning}{why}"
                )
    for relation in program.get("relations", []):
        lhs, rhs = (size_text.evaluate(relation[side], symbols) for side in ("lhs", "rhs"))
        if not _RELATIONS[relation["op"]](lhs, rhs):
            raise ValueError(f"{kernel}: " + relation["message"].replace("{lhs}", str(lhs)).replace("{rhs}", str(rhs)))
    _check_overlap(kernel, params, arguments)
    return symbols


_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "le": lambda a, b: a <= b,
    "lt": lambda a, b: a < b,
}


def _named(text: str | int, names: list[str]) -> str:
    """A size expression with the names that its author gave."""
    text = str(text)
    for k in reversed(range(len(names))):
        text = text.replace(f"s{k}", names[k]) if not text[1:].isdigit() or text == f"s{k}" else text
    return text


def _check_kind(kernel: str, param: Statement, argument: Any) -> None:
    name = param["name"]
    if param["kind"] == "scalar":
        if not isinstance(argument, (int, float)):
            raise TypeError(f"{kernel}: {name} is a number, not {type(argument).__name__}")
        if isinstance(argument, float) and param["dtype"] not in semantics.FLOATS:
            raise TypeError(f"{kernel}: {name} is an integer, not {argument!r}")
        return
    if not isinstance(argument, torch.Tensor):
        raise TypeError(f"{kernel}: {name} is a tensor, not {type(argument).__name__}")
    if argument.device.type != "cpu":
        raise TypeError(f"{kernel}: the interpreter runs on CPU tensors, and {name} is on {argument.device}")
    if argument.dtype != DTYPES[param["dtype"]]:
        raise TypeError(f"{kernel}: {name} must be {param['dtype']}, not {argument.dtype}")
    if argument.ndim != len(param["sizes"]):
        raise ValueError(f"{kernel}: {name} has {len(param['sizes'])} dimensions, not {argument.ndim}")
    layout = param.get("layout", "strided")
    if layout == "contiguous" and not argument.is_contiguous():
        raise ValueError(f"{kernel}: {name} must be contiguous")
    if layout == "inner" and argument.ndim and argument.shape[-1] > 1 and argument.stride(-1) != 1 and argument.numel():
        raise ValueError(f"{kernel}: the last dimension of {name} must have stride 1, not {argument.stride(-1)}")


def _addresses(tensor: torch.Tensor) -> torch.Tensor:
    number = torch.zeros(tensor.shape, dtype=torch.int64)
    for d, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        number = number + stride * torch.arange(size).reshape([-1 if e == d else 1 for e in range(tensor.ndim)])
    return (number * tensor.element_size() + tensor.data_ptr()).flatten()


def _check_overlap(kernel: str, params: list[Statement], arguments: Sequence[Any]) -> None:
    """No two elements of an output share memory, and none shares memory with another argument."""
    tensors = [(p, a) for p, a in zip(params, arguments, strict=True) if p["kind"] != "scalar" and a.numel()]
    for k, (param, tensor) in enumerate(tensors):
        if param["kind"] == "in":
            continue
        if not tensor.is_contiguous() and _addresses(tensor).unique().numel() != tensor.numel():
            raise ValueError(
                f"{kernel}: elements of the output {param['name']} share memory; give a tensor that is not expanded"
            )
        for other_param, other in tensors[:k] + tensors[k + 1 :]:
            if tensor.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
                continue
            if torch.isin(_addresses(tensor), _addresses(other)).any():
                raise ValueError(
                    f"{kernel}: the output {param['name']} overlaps {other_param['name']}; give it memory of its own"
                )


_STATEMENTS: dict[str, Callable[[Interpreter, Statement], None]] = {
    "parallel": Interpreter._parallel,
    "for": Interpreter._for,
    "while": Interpreter._while,
    "if": Interpreter._if,
    "bind": Interpreter._bind,
    "assert": Interpreter._assert,
    "print": Interpreter._print,
    "store": Interpreter._store,
    "atomic_add": Interpreter._atomic_add,
}

_VALUES: dict[str, Callable[[Interpreter, Statement], torch.Tensor]] = {
    "const": Interpreter._const,
    "size": Interpreter._size,
    "scalar": Interpreter._scalar,
    "iota": Interpreter._iota,
    "view": Interpreter._view,
    "reshape": Interpreter._reshape,
    "concat": Interpreter._concat,
    "reduce": Interpreter._reduce,
    "matmul": Interpreter._matmul,
    "scan": Interpreter._scan,
    "load": Interpreter._load,
}
