"""The PyTorch side of whole.py: operations of kernel programs on whole tensors, differentiable and traceable."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy
import torch

from ..dynamo.dtypes import DTYPES
from . import semantics

if TYPE_CHECKING:
    from .whole_values import Whole

#: A tensor of positions that broadcasts over all dimensions of the tile, or (start, [(dimension, step)]).
Entry = Any


def minimum(a: Any, b: Any) -> Any:
    """Of sizes: integers, symbolic integers and tensors of them."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return torch.clamp(a, max=b) if isinstance(a, torch.Tensor) else torch.clamp(b, max=a)
    return torch.sym_min(a, b)


def maximum(a: Any, b: Any) -> Any:
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return torch.clamp(a, min=b) if isinstance(a, torch.Tensor) else torch.clamp(b, min=a)
    return torch.sym_max(a, b)


def rounded_number(value: float, dtype: str) -> float:
    """A float rounded to `dtype` without a tensor, which a tracer would see."""
    if dtype == "f64":
        return value
    with numpy.errstate(over="ignore"):
        if dtype != "bf16":
            return float((numpy.float16 if dtype == "f16" else numpy.float32)(value))
        single = numpy.float32(value)
    if not numpy.isfinite(single):
        return float(single)
    bits = int(single.view(numpy.uint32))
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return float(numpy.uint32(bits).view(numpy.float32))


# ----------------------------------------------------------------------------------------------------------------------
# Scalar operations


def _fma(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    return x.to(wide) * y.to(wide) + z.to(wide)


def _divide(rounding: str) -> Callable[..., torch.Tensor]:
    return lambda x, y: torch.div(x, y, rounding_mode=rounding)


def _extremum(function: Callable[..., torch.Tensor], limit: str) -> Callable[..., torch.Tensor]:
    return lambda x, y: function(x, y) if isinstance(y, torch.Tensor) else torch.clamp(x, **{limit: y})


_OPS: dict[str, Callable[..., torch.Tensor]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "fdiv": _divide("floor"),
    "mod": torch.remainder,
    "fmod": torch.fmod,
    "fma": _fma,
    "max": _extremum(torch.maximum, "min"),
    "min": _extremum(torch.minimum, "max"),
    "pow": torch.pow,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "shl": torch.bitwise_left_shift,
    "shr": torch.bitwise_right_shift,
    "not": torch.bitwise_not,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "select": torch.where,
}
#: Operations whose second operand may be a number, and those whose first may.
_NUMBER_SECOND = ("add", "sub", "mul", "div", "fdiv", "mod", "fmod", "pow", "max", "min", "eq", "ne", "lt", "le")
_NUMBER_FIRST = ("add", "sub", "mul", "eq", "ne", "lt", "le")


def scalar(op: str, args: Sequence[Whole], dtype: str) -> torch.Tensor:
    """One scalar operation; the result may still be of a wider type than `dtype`."""
    x = args[0]
    if op == "cast":
        return x.data != 0 if dtype == "bool" else x.data.to(DTYPES[dtype])
    if op == "bitcast":
        return x.data.view(DTYPES[dtype])
    floats = x.dtype in semantics.FLOATS
    if x.dtype == "bool" and op in ("add", "mul", "sub"):
        op = {"add": "or", "mul": "and", "sub": "xor"}[op]
    operands: list[Any] = [a.data for a in args]
    if len(args) == 2 and x.dtype != "bool":
        first, second = (a.number for a in args)
        if second is not None and second == second and op in _NUMBER_SECOND and first is None:
            operands[1] = second
        elif first is not None and second is None and (op in _NUMBER_FIRST or (op == "div" and floats)):
            operands[0] = first
    if op == "div":
        return operands[0] / operands[1] if floats else _divide("trunc")(*operands)
    function = _OPS.get(op) or getattr(torch, op)
    return function(*operands)


# ----------------------------------------------------------------------------------------------------------------------
# Reductions, scans, products


def reduce(kind: str, x: torch.Tensor, axes: list[int], source: str, dtype: str) -> torch.Tensor:
    axes = sorted(axes, reverse=True)
    if kind in ("any", "all"):
        x = x != 0
        for axis in axes:
            x = x.any(axis) if kind == "any" else x.all(axis)
        return x
    if not axes:
        return x
    if kind == "sum":
        return x.sum(axes, dtype=DTYPES[dtype] if dtype != "bool" else None)
    if kind == "prod":
        for axis in axes:
            x = x.prod(axis)
        return x
    if any(x.shape[a] == 0 for a in axes):
        shape = [n for d, n in enumerate(x.shape) if d not in axes]
        return (
            x.new_full(shape, 0, dtype=torch.int64)
            if kind in ("argmax", "argmin")
            else x.new_full(shape, semantics.identity(kind, source))
        )
    if kind in ("argmax", "argmin"):
        x = x.to(torch.int32) if source == "bool" else x
        return x.argmax(axes[0]) if kind == "argmax" else x.argmin(axes[0])
    return x.amax(axes) if kind == "max" else x.amin(axes)


def scan(kind: str, x: torch.Tensor, axis: int) -> torch.Tensor:
    if kind in ("sum", "prod"):
        return x.cumsum(axis) if kind == "sum" else x.cumprod(axis)
    if x.shape[axis] == 0:
        return x.clone()
    return (x.cummax(axis) if kind == "max" else x.cummin(axis)).values


def matmul(a: torch.Tensor, b: torch.Tensor, source: str, dtype: str) -> torch.Tensor:
    if source in semantics.FLOATS:
        return a @ b if source == dtype else a.to(DTYPES[dtype]) @ b.to(DTYPES[dtype])
    wide = DTYPES[dtype] if dtype in ("i32", "i64") else torch.int32
    return a.to(wide) @ b.to(wide)


# ----------------------------------------------------------------------------------------------------------------------
# Memory


def _slices(entries: Sequence[Entry]) -> bool:
    """Whether each entry is a position or a slice along a dimension of its own."""
    dims = []
    for entry in entries:
        if isinstance(entry, torch.Tensor) or isinstance(entry[0], torch.Tensor) or len(entry[1]) > 1:
            return False
        for dim, step in entry[1]:
            if not isinstance(step, int) or step == 0:
                return False
            dims.append(dim)
    return len(set(dims)) == len(dims)


def _is_all(entry: Entry, size: Any, extents: Sequence[Any]) -> bool:
    if isinstance(entry, torch.Tensor) or isinstance(entry[0], torch.Tensor) or len(entry[1]) != 1:
        return False
    dim, step = entry[1][0]
    return bool(entry[0] == 0 and step == 1 and extents[dim] == size)


def _positions(entry: Entry, extents: Sequence[Any], device: torch.device) -> torch.Tensor:
    if isinstance(entry, torch.Tensor):
        return entry.to(torch.int64)
    position, terms = entry
    for dim, step in terms:
        along = torch.arange(extents[dim], device=device).reshape([-1 if d == dim else 1 for d in range(len(extents))])
        position = position + along * step
    if isinstance(position, torch.Tensor):
        return position
    return torch.full([1] * len(extents), position, dtype=torch.int64, device=device)


def read(
    tensor: torch.Tensor, entries: Sequence[Entry], leads: Sequence[Any], extents: Sequence[Any], fill: float | None
) -> torch.Tensor:
    """Elements of a tensor as a tile of shape `leads + extents`; outside the tensor `fill`, if it is given."""
    shape = [*leads, *extents]
    inside = fill is None or all(_is_all(e, n, shape) for e, n in zip(entries, tensor.shape, strict=True))
    if inside and _slices(entries):
        return _sliced(tensor, entries, shape)
    positions = [_positions(e, shape, tensor.device) for e in entries]
    if fill is None:
        return tensor[tuple(positions)].expand(shape)
    number = bool(fill) if tensor.dtype == torch.bool else fill if tensor.dtype.is_floating_point else int(fill)
    if any(n == 0 for n in tensor.shape):
        return tensor.new_full(shape, number)
    valid = _inside(positions, tensor.shape)
    clamped = [p.clamp(0, n - 1) for p, n in zip(positions, tensor.shape, strict=True)]
    return torch.where(valid, tensor[tuple(clamped)], number).expand(shape)


def _inside(positions: Sequence[torch.Tensor], sizes: Sequence[Any]) -> torch.Tensor:
    valid = (positions[0] >= 0) & (positions[0] < sizes[0])
    for position, size in zip(positions[1:], sizes[1:], strict=True):
        valid = valid & (position >= 0) & (position < size)
    return valid


def _sliced(tensor: torch.Tensor, entries: Sequence[Entry], shape: list[Any]) -> torch.Tensor:
    dims: list[int] = []
    flipped: list[int] = []
    for d in reversed(range(len(entries))):
        start, terms = entries[d]
        if not terms:
            tensor = tensor.select(d, start)
            continue
        dim, step = terms[0]
        dims.insert(0, dim)
        count = shape[dim]
        if step < 0:
            start, step = start + step * (count - 1), -step
            flipped.append(dim)
        if not _is_all((start, [(dim, step)]), tensor.shape[d], shape):
            tensor = torch.ops.aten.slice.Tensor(tensor, d, start, start + step * count, step)
    tensor = tensor.permute(sorted(range(len(dims)), key=lambda k: dims[k]))
    for dim in range(len(shape)):
        if dim not in dims:
            tensor = tensor.unsqueeze(dim)
    return (tensor.flip(flipped) if flipped else tensor).expand(shape)


def write(base: torch.Tensor, entries: Sequence[Entry], data: torch.Tensor, adds: bool, clip: bool) -> torch.Tensor:
    """`base` with a tile stored (or added) at the entries' positions; `clip` leaves out what lies outside."""
    shape = list(data.shape)
    if base.ndim == 0:
        if adds:
            return base + data.sum().to(base.dtype)
        return data.reshape([-1])[-1] if data.numel() else base
    if not adds and _slices(entries) and all(_covers(e, n, shape) for e, n in zip(entries, base.shape, strict=True)):
        dims = [e[1][0][0] if e[1] else None for e in entries]
        if all(dim in dims or shape[dim] == 1 for dim in range(len(shape))):
            for dim in reversed(range(len(shape))):
                if dim not in dims:
                    data = data.select(dim, 0)
            kept = sorted(d for d in dims if d is not None)
            data = data.permute([kept.index(d) for d in dims if d is not None])
            for d, used in enumerate(dims):
                if used is None:
                    data = data.unsqueeze(d)
            return data
    positions = [_positions(e, shape, base.device) for e in entries]
    if not clip:
        return torch.index_put(base, tuple(p.expand(shape) for p in positions), data, adds)
    # What lies outside goes to a place behind the end, which is cut off again.
    valid = _inside(positions, base.shape)
    padded = torch.constant_pad_nd(base, [0, 1] * base.ndim)
    targets = [torch.where(valid, p, n).expand(shape) for p, n in zip(positions, base.shape, strict=True)]
    padded = torch.index_put(padded, tuple(targets), data, adds)
    for d, n in enumerate(base.shape):
        padded = padded.narrow(d, 0, n)
    return padded


def _covers(entry: Entry, size: Any, shape: Sequence[Any]) -> bool:
    return _is_all(entry, size, shape) or bool(not entry[1] and entry[0] == 0 and size == 1)
