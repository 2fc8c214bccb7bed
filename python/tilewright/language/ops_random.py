"""Random numbers that are functions of a seed and a counter: the same on every machine and for every tile size.

These functions have a meaning only inside `@tw.kernel` functions and their helpers. Unless said otherwise, x is a tile or a run-time number,
shapes broadcast as NumPy's do, dtypes meet as promotion.py says, and what does not fit is refused with KernelError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import arithmetic
from .builder import Builder, Tile, active, describe
from .registry import builtin
from .types import f32, i32, i64, u32


@builtin
def philox(seed: Any, c0: Any, c1: Any = 0, c2: Any = 0, c3: Any = 0) -> Any:
    """Four u32 tiles: Philox4x32-10 of the counter (c0, c1, c2, c3) under the key (low, high 32 bits of seed).

    Ten rounds, each: with p = 0xD2511F53 * c0 and q = 0xCD9E8D57 * c2 (64-bit products),
    (c0, c1, c2, c3) = (high(q) ^ c1 ^ k0, low(q), high(p) ^ c3 ^ k1, low(p)); then k0 += 0x9E3779B9, k1 += 0xBB67AE85, all modulo 2**32.
    """
    b = active("philox")
    return tuple(b.cast(w, u32) for w in _philox(b, seed, (c0, c1, c2, c3)))


@builtin
def random_bits(seed: Any, offset: Any) -> Any:
    """A u32 tile: the first word of tw.philox(seed, low 32 bits of offset, high 32 bits of offset). `offset`: an integer tile."""
    b = active("random_bits")
    return b.cast(_first_word(b, seed, offset, "random_bits"), u32)


@builtin
def uniform(seed: Any, offset: Any) -> Any:
    """An f32 tile in [0, 1): the upper 24 bits of tw.random_bits(seed, offset), times 2**-24."""
    b = active("uniform")
    bits = arithmetic.binary(b, ">>", _first_word(b, seed, offset, "uniform"), 8)
    return arithmetic.binary(b, "*", b.cast(b.cast(bits, i32), f32), 2.0**-24)


def _first_word(b: Builder, seed: Any, offset: Any, name: str) -> Tile:
    offset = b.value(offset)
    if not offset.dtype.is_integer:
        b.fail(f"tw.{name} with an offset of {offset.dtype.name}", "an integer tile, such as tw.indices(i)")
    wide = b.cast(offset, i64)
    return _philox(b, seed, (wide, arithmetic.binary(b, ">>", wide, 32), 0, 0))[0]


def _philox(b: Builder, seed: Any, counter: Sequence[Any]) -> list[Tile]:
    # 64-bit words that hold 32 bits: products wrap modulo 2**64, and `&` makes the arithmetic shift a logical one.
    mask = 0xFFFFFFFF

    def word(x: Any) -> Any:
        if isinstance(x, int):
            return int(x) & mask
        x = b.value(x)
        if not x.dtype.is_integer:
            b.fail(f"tw.philox of {x.dtype.name}", "integers")
        return arithmetic.binary(b, "&", b.cast(x, i64), mask)

    def high(p: Any) -> Any:
        return arithmetic.binary(b, "&", arithmetic.binary(b, ">>", p, 32), mask)

    def low(p: Any) -> Any:
        return arithmetic.binary(b, "&", p, mask)

    def times(constant: int, x: Any) -> Any:
        # A signed constant: 64-bit products wrap, and Python's own do not.
        product = arithmetic.binary(b, "*", x, constant)
        return product & (2**64 - 1) if isinstance(product, int) else product

    def xor(x: Any, y: Any) -> Any:
        return arithmetic.binary(b, "^", x, y)

    wide_seed = seed if isinstance(seed, int) else b.value(seed)
    if isinstance(wide_seed, Tile):
        if not wide_seed.dtype.is_integer:
            b.fail(f"the seed of random numbers is {describe(seed)}", "an integer")
        wide_seed = b.cast(wide_seed, i64)
    k0, k1 = word(wide_seed), word(arithmetic.binary(b, ">>", wide_seed, 32))
    c = [word(x) for x in counter]
    for _ in range(10):
        p, q = times(0xD2511F53, c[0]), times(0xCD9E8D57, c[2])
        c = [xor(xor(high(q), c[1]), k0), low(q), xor(xor(high(p), c[3]), k1), low(p)]
        k0, k1 = low(arithmetic.binary(b, "+", k0, 0x9E3779B9)), low(arithmetic.binary(b, "+", k1, 0xBB67AE85))
    return [b.value(x) for x in c]
