"""Arguments that many functions of kernels take: dtypes, axes, shapes."""

from __future__ import annotations

from typing import Any

from .arithmetic import is_size
from .bounds import Axis
from .builder import Builder, Tile, describe, show_shape, show_tile
from .sizes import Size, size
from .types import DType, spelling


def dtype_argument(b: Builder, dtype: Any, what: str) -> DType:
    if isinstance(dtype, DType):
        return dtype
    b.fail(f"{what} takes a dtype, not {describe(dtype)}", spelling(dtype) or "tw.f32, x.dtype or a dtype parameter")


def flag_argument(b: Builder, flag: Any, name: str) -> bool:
    if isinstance(flag, bool):
        return flag
    b.fail(f"{name} is {describe(flag)}, and no compile-time bool", f"{name}=True or {name}=False")


def axes_argument(b: Builder, x: Tile, axis: Any, what: str) -> list[int]:
    if axis is None:
        return list(range(len(x.shape)))
    axes = []
    for a in axis if isinstance(axis, tuple) else (axis,):
        axes.append(axis_argument(b, x, a, what))
    if len(set(axes)) != len(axes):
        b.fail(f"{what} names a dimension twice: axis={axis}", "each dimension once")
    return sorted(axes)


def axis_argument(b: Builder, x: Tile, axis: Any, what: str) -> int:
    if not isinstance(axis, int) or isinstance(axis, bool):
        b.fail(f"the axis of {what} is {describe(axis)}", "a compile-time int, such as axis=1")
    rank = len(x.shape)
    if not -rank <= axis < rank:
        b.fail(
            f"{what} along axis {axis} of a tile {show_shape(x.shape)}, which has {rank} dimensions",
            f"an axis in {-rank} .. {rank - 1}" if rank else "the number itself",
        )
    return axis % rank


def shape_argument(b: Builder, shape: Any, what: str) -> tuple[Size, ...]:
    entries = shape if isinstance(shape, (tuple, list)) else (shape,)
    result = []
    for e in entries:
        if isinstance(e, Axis):
            result.append(e.size)
        elif is_size(e):
            if isinstance(e, int) and e < 0:
                b.fail(f"{what} of the negative size {e}", "a size of at least 0")
            result.append(size(e))
        elif isinstance(e, Tile):
            if e.size is not None:
                b.use_scalars(e.size)
                result.append(e.size)
            else:
                b.fail_size(
                    e,
                    f"{what} with a size that is known only from data ({show_tile(e)}): shapes cannot depend on data",
                    "a loop over `tw.range(n)`, whose tiles have the shape [axis]",
                )
        else:
            b.fail(f"{what} with the size {describe(e)}", "axes, ints and sizes: (i, 4)")
    return tuple(result)
