"""Which dtype comes out when two dtypes meet. One rule: nothing is converted silently if a value could be lost.

Two tiles meet if one dtype holds every value of the other; that dtype is the result.

    bool -> every dtype
    i8 -> i16 -> i32 -> i64      u8 -> u16, i16      u16 -> u32, i32      u32 -> u64, i64
    bf16 -> f32 -> f64           f16 -> f32

Everything else is refused with the cast to write: integers with floats, i64 with u64, bf16 with f16, i8 with u8.

Python numbers, sizes and scalars annotated `float` or `int` are weak: they take the dtype of the tile they meet. An integer may meet any
number, a float only a float tile. bf16 and f16 tiles compute with a weak number that they cannot hold in f32, and round once.
A weak number that is stored, or carried by a loop, takes the dtype it meets there; one that meets none is i64 or f64.

`/` is for floats, `//` and `%` for both. Sums and products of integers and of bool are i64. `argmax`, `argmin`, `iota` give i64.
A matrix product of bf16 or f16 gives f32, of i8 gives i32, of f32 and f64 their own dtype.
"""

from __future__ import annotations

import struct

from .types import DType, bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

_WIDER: dict[DType, tuple[DType, ...]] = {
    i8: (i16, i32, i64),
    i16: (i32, i64),
    i32: (i64,),
    u8: (u16, u32, u64, i16, i32, i64),
    u16: (u32, u64, i32, i64),
    u32: (u64, i64),
    bf16: (f32, f64),
    f16: (f32, f64),
    f32: (f64,),
}


def widens(source: DType, target: DType) -> bool:
    """Whether every value of `source` is one of `target`, within integers or within floats."""
    return source == target or source.is_bool or target in _WIDER.get(source, ())


def common(a: DType, b: DType) -> DType | None:
    """The dtype in which tiles of a and b meet, or None if values could be lost."""
    if widens(a, b):
        return b
    return a if widens(b, a) else None


def holds(dtype: DType, value: int | float) -> bool:
    """Whether `dtype` holds this Python number: exactly for integers, within its range for floats."""
    if dtype.is_float:
        return True
    if isinstance(value, float):
        return False
    if dtype.is_bool:
        return value in (0, 1)
    bits = dtype.bytes * 8
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.kind == "int" else (0, (1 << bits) - 1)
    return low <= value <= high


def exact(dtype: DType, value: int | float) -> bool:
    """Whether a float dtype holds this Python number without rounding (NaN and infinities count as exact)."""
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        return True
    if dtype == f64:
        return True
    if dtype == bf16:
        return _as_f32(number) == number and struct.unpack("<I", struct.pack("<f", number))[0] & 0xFFFF == 0
    if dtype == f16:
        try:
            return struct.unpack("<e", struct.pack("<e", number))[0] == number
        except OverflowError:
            return False
    return _as_f32(number) == number


def _as_f32(number: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return float("inf")


def sum_dtype(dtype: DType) -> DType:
    return dtype if dtype.is_float else i64


def product_dtype(dtype: DType) -> DType | None:
    """The dtype of a matrix product whose operands have this one, or None if there is none."""
    return {f32: f32, f64: f64, bf16: f32, f16: f32, i8: i32}.get(dtype)
