"""What each operation of a kernel program computes, in the plainest way that PyTorch's CPU operators allow.

Values are *held* in few types, so that each operation is written once: floats of at most 32 bits in float32 and f64 in float64 (rounded to
their own type after every operation), integers in int64 within their type's range (u64: its bits), bool as bool.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import torch

from ..dynamo.dtypes import DTYPES

FLOATS = ("f32", "f64", "bf16", "f16")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
ALL = (*FLOATS, *INTEGERS, "bool")

_SMALLEST = -(2**63)


def bits(dtype: str) -> int:
    return 8 * DTYPES[dtype].itemsize


def holder(dtype: str) -> torch.dtype:
    """The type in which values of `dtype` are held."""
    if dtype == "f64":
        return torch.float64
    return torch.float32 if dtype in FLOATS else torch.bool if dtype == "bool" else torch.int64


def as_signed(x: torch.Tensor) -> torch.Tensor:
    """The same bits in a type for which PyTorch has every operator (it has few for uint16, uint32 and uint64)."""
    return x.view(
        {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}.get(x.dtype, x.dtype)
    )


def hold(x: torch.Tensor, dtype: str) -> torch.Tensor:
    """A tensor of `dtype`, or `as_signed` of one, as a held value."""
    x = x.to(holder(dtype))
    return wrap(x, dtype) if dtype in INTEGERS else x


def release(x: torch.Tensor, dtype: str) -> torch.Tensor:
    """A held value as a tensor of `dtype`; the inverse of `hold`."""
    if dtype in ("u16", "u32", "u64"):
        signed = {"u16": torch.int16, "u32": torch.int32, "u64": torch.int64}[dtype]
        return x.to(signed).view(DTYPES[dtype])
    return x.to(DTYPES[dtype])


def wrap(x: torch.Tensor, dtype: str) -> torch.Tensor:
    """The low bits of int64 as a value of an integer type."""
    n = bits(dtype)
    if n == 64:
        return x
    if dtype in UNSIGNED:
        return x & (2**n - 1)
    return ((x + 2 ** (n - 1)) & (2**n - 1)) - 2 ** (n - 1)


def rounded(x: torch.Tensor, dtype: str) -> torch.Tensor:
    """A result of an operation, computed in what the operands are held in or wider, as a held value of `dtype`."""
    if dtype in INTEGERS:
        return wrap(x.to(torch.int64), dtype)
    if dtype in ("bf16", "f16"):
        return x.to(torch.float32).to(DTYPES[dtype]).to(torch.float32)
    return x.to(holder(dtype))


# ----------------------------------------------------------------------------------------------------------------------
# Scalar operations (include/tilewright/Import/LoopIR.h)


def _maximum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.where((x == 0) & (y == 0), x + y, torch.maximum(x, y))  # +0 is above -0


def _minimum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return -_maximum(-x, -y)


def _exact_fma(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # which has the sign
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)


def _fma(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    if x.dtype == torch.float32:  # a product of two is exact in float64
        return x.double() * y.double() + z.double()
    exact = [_exact_fma(*v) for v in zip(*(t.flatten().tolist() for t in (x, y, z)), strict=True)]
    return torch.tensor(exact, dtype=torch.float64).reshape(x.shape)


def _float_mod(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    r = torch.fmod(x, y)
    return torch.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)


def _float_floordiv(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """As CPython divides floats."""
    r = torch.fmod(x, y)
    quotient = (x - r) / y
    quotient = torch.where((r != 0) & ((r < 0) != (y < 0)), quotient - 1, quotient)
    floored = torch.floor(quotient)
    floored = torch.where(quotient - floored > 0.5, floored + 1, floored)
    floored = torch.where(quotient == 0, torch.copysign(torch.zeros_like(x), x / y), floored)
    return torch.where(y == 0, x / y, floored)


def _wide(f: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """An elementary function, computed in float64: what is rounded afterwards is as good as the true value."""
    return lambda *x: f(*(t.double() for t in x))


_FLOAT_OPS: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "fdiv": _float_floordiv,
    "mod": _float_mod,
    "fmod": torch.fmod,
    "fma": _fma,
    "max": _maximum,
    "min": _minimum,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "copysign": torch.copysign,
    "neg": torch.neg,
    "abs": torch.abs,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "round": torch.round,
    "sqrt": _wide(torch.sqrt),
    "rsqrt": _wide(lambda x: 1 / torch.sqrt(x)),
    "pow": _wide(torch.pow),
    "atan2": _wide(torch.atan2),
    **{
        name: _wide(getattr(torch, name))
        for name in [
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "tanh",
            "asin",
            "acos",
            "atan",
            "asinh",
            "acosh",
            "atanh",
            "erf",
            "erfc",
        ]
    },
}


def _divide(f: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A zero divisor counts as 1 (the interpreter has reported it); the smallest integer by -1 wraps."""

    def divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return f(x, torch.where(y == 0, torch.ones_like(y), y))

    return divide


def _quotient(rounding: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def quotient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        negated = y == -1  # of which the processor has no quotient of the smallest integer
        return torch.where(
            negated, -x, torch.div(x, torch.where(negated, torch.ones_like(y), y), rounding_mode=rounding)
        )

    return quotient


def _remainder(
    f: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    return lambda x, y: torch.where(y == -1, torch.zeros_like(x), f(x, torch.where(y == -1, torch.ones_like(y), y)))


_INTEGER_OPS: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": _divide(_quotient("trunc")),
    "fdiv": _divide(_quotient("floor")),
    "mod": _divide(_remainder(torch.remainder)),
    "fmod": _divide(_remainder(torch.fmod)),
    "max": torch.maximum,
    "min": torch.minimum,
    "fmax": torch.maximum,
    "fmin": torch.minimum,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "not": torch.bitwise_not,
    "neg": torch.neg,
    "abs": torch.abs,
}
DIVISIONS = ("div", "fdiv", "mod", "fmod")


def _python(f: Callable[[int, int], int | bool]) -> Callable[..., torch.Tensor]:
    """An operation on u64, which PyTorch does not have, on Python's integers."""

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        results = [f(a % 2**64, b % 2**64) for a, b in zip(x.flatten().tolist(), y.flatten().tolist(), strict=True)]
        boolean = f(0, 1) is True or f(0, 1) is False
        signed = results if boolean else [r - 2**64 if r >= 2**63 else r for r in results]
        return torch.tensor(signed, dtype=torch.bool if boolean else torch.int64).reshape(x.shape)

    return run


_U64_OPS: dict[str, Callable[..., torch.Tensor]] = {
    "div": _python(lambda a, b: a // (b or 1)),
    "fdiv": _python(lambda a, b: a // (b or 1)),
    "mod": _python(lambda a, b: a % (b or 1)),
    "fmod": _python(lambda a, b: a % (b or 1)),
    "max": _python(max),
    "min": _python(min),
    "fmax": _python(max),
    "fmin": _python(min),
    "lt": _python(lambda a, b: a < b),
    "le": _python(lambda a, b: a <= b),
    "shr": _python(lambda a, b: a >> b if b < 64 else 0),
    "abs": lambda x: x,
}

_BOOL_OPS: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.logical_or,
    "sub": torch.logical_xor,
    "mul": torch.logical_and,
    "max": torch.logical_or,
    "min": torch.logical_and,
    "and": torch.logical_and,
    "or": torch.logical_or,
    "xor": torch.logical_xor,
    "not": torch.logical_not,
    "lt": lambda x, y: ~x & y,
    "le": lambda x, y: ~x | y,
}

_COMPARISONS: dict[str, Callable[..., torch.Tensor]] = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le}

#: Names of the scalar operations and how many operands they take.
ARITY: dict[str, int] = {
    **{
        name: 1 for name in ("cast", "bitcast", "not", "neg", "abs", "floor", "ceil", "trunc", "round", "sqrt", "rsqrt")
    },
    **{
        name: 1
        for name in [
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "tanh",
            "asin",
            "acos",
            "atan",
            "asinh",
            "acosh",
            "atanh",
            "erf",
            "erfc",
        ]
    },
    **{
        name: 2
        for name in [
            "add",
            "sub",
            "mul",
            "div",
            "fdiv",
            "mod",
            "fmod",
            "max",
            "min",
            "fmax",
            "fmin",
            "pow",
            "atan2",
            "copysign",
            "and",
            "or",
            "xor",
            "shl",
            "shr",
            "eq",
            "ne",
            "lt",
            "le",
        ]
    },
    **{name: 3 for name in ("fma", "select")},
}


def _shift(op: str, x: torch.Tensor, y: torch.Tensor, dtype: str) -> torch.Tensor:
    """By the width or more gives 0, or the sign: a negative amount is a large one."""
    n = bits(dtype)
    big = (y < 0) | (y >= n)
    if op == "shr" and dtype in SIGNED:
        return x >> torch.where(big, n - 1, y)
    shifted = x << torch.where(big, 0, y) if op == "shl" else x >> torch.where(big, 0, y)
    return torch.where(big, 0, shifted)


def scalar(op: str, args: list[torch.Tensor], types: list[str], dtype: str) -> torch.Tensor:
    """One scalar operation on held values of one shape. Raises KeyError if it does not exist for these types."""
    if op == "cast":
        return cast(args[0], types[0], dtype)
    if op == "bitcast":
        return hold(as_signed(release(args[0], types[0]).contiguous().view(DTYPES[dtype])), dtype)
    if op == "select":
        return torch.where(args[0], args[1], args[2])
    operand = types[0]
    if operand == "u64" and op in _U64_OPS:
        return _U64_OPS[op](*args)
    if operand == "bool" and op in _BOOL_OPS:
        return _BOOL_OPS[op](*args)
    if op in _COMPARISONS:
        return _COMPARISONS[op](*args)
    if op in ("shl", "shr") and operand in INTEGERS:
        return rounded(_shift(op, args[0], args[1], operand), dtype)
    table = _FLOAT_OPS if operand in FLOATS else _INTEGER_OPS if operand in INTEGERS else {}
    return rounded(table[op](*args), dtype)


def cast(x: torch.Tensor, source: str, target: str) -> torch.Tensor:
    """Float to integer truncates; what does not fit gives the processor's "indefinite" integer, the smallest one of 32 bits (64 for
    targets of 64 bits), of which 8 and 16 bits keep the low bits."""
    if target == "bool":
        return x != 0
    if source in FLOATS and target in INTEGERS:
        limit = 2.0 ** (bits(target) - 1) if bits(target) >= 32 else 2.0**31
        t = torch.trunc(x.double())
        fits = (t >= -limit) & (t < limit)
        return wrap(torch.where(fits, torch.where(fits, t, 0.0).to(torch.int64), int(-limit)), target)
    if source == "u64" and target in FLOATS:
        whole = [v % 2**64 for v in x.flatten().tolist()]
        # Rounded once: float() of a Python integer is right for f64; f32 goes through NumPy's conversion of uint64.
        if target == "f64":
            return torch.tensor([float(v) for v in whole], dtype=torch.float64).reshape(x.shape)
        return rounded(torch.from_numpy(release(x, "u64").numpy().astype("float32")), target)
    return rounded(x, target)


# ----------------------------------------------------------------------------------------------------------------------
# Reductions, scans, sorts, products


def identity(kind: str, dtype: str) -> float | int | bool:
    if dtype == "bool":
        return kind in ("min", "all", "prod")
    if kind in ("sum", "prod"):
        return 1 if kind == "prod" else 0
    if dtype in FLOATS:
        return -math.inf if kind == "max" else math.inf
    n = bits(dtype)
    low, high = (0, 2**n - 1) if dtype in UNSIGNED else (-(2 ** (n - 1)), 2 ** (n - 1) - 1)
    value = low if kind == "max" else high
    return value - 2**64 if value >= 2**63 else value


def _ordered(x: torch.Tensor, dtype: str) -> torch.Tensor:
    """Held values so that PyTorch's order is theirs: u64 is held as its bits."""
    return x ^ _SMALLEST if dtype == "u64" else x


def reduce(kind: str, x: torch.Tensor, axes: list[int], source: str, dtype: str) -> torch.Tensor:
    """A reduction of a held value of type `source` to one of `dtype`. Nothing to reduce gives the identity, argmax and argmin 0."""
    if kind in ("any", "all"):
        x = x != 0
        for axis in sorted(axes, reverse=True):
            x = x.any(axis) if kind == "any" else x.all(axis)
        return x.to(holder(dtype))
    if kind in ("argmax", "argmin"):
        return _first_extremum(kind, _ordered(x, source), axes[0])
    if kind in ("sum", "prod"):
        x = x.double() if source in FLOATS else x.to(torch.int64)  # which keeps the sum as f32 does, or better
        for axis in sorted(axes, reverse=True):
            x = x.sum(axis) if kind == "sum" else x.prod(axis)
        return rounded(rounded(x, "f64" if source == "f64" else "f32") if source in FLOATS else x, dtype)
    shape = [n for d, n in enumerate(x.shape) if d not in axes]
    if any(x.shape[a] == 0 for a in axes):
        return torch.full(shape, identity(kind, source), dtype=x.dtype)
    if not axes:
        return x
    x = _ordered(x, source)
    x = x.int() if source == "bool" else x
    x = x.amax(axes) if kind == "max" else x.amin(axes)
    return x != 0 if source == "bool" else _ordered(x, source)


def _first_extremum(kind: str, x: torch.Tensor, axis: int) -> torch.Tensor:
    n = x.shape[axis]
    if n == 0:
        return torch.zeros([s for d, s in enumerate(x.shape) if d != axis], dtype=torch.int64)
    x = x.int() if x.dtype == torch.bool else x
    extremum = x.amax(axis, keepdim=True) if kind == "argmax" else x.amin(axis, keepdim=True)
    hit = (x == extremum) | (x != x)  # the extremum is NaN if there is one, and then equals nothing
    positions = torch.arange(n).reshape([n if d == axis else 1 for d in range(x.ndim)])
    return torch.where(hit, positions, n).amin(axis)


def scan(kind: str, x: torch.Tensor, axis: int, dtype: str) -> torch.Tensor:
    """Inclusive, along `axis`; sums and products of floats in float64 and rounded at the end."""
    exact = kind in ("sum", "prod") and dtype != "bool"

    def combine(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if exact:
            return a + b if kind == "sum" else a * b
        return scalar({"sum": "add", "prod": "mul"}.get(kind, kind), [a, b], [dtype, dtype], dtype)

    if kind in ("sum", "prod") and dtype in FLOATS:
        x = x.double()
    slices = list(x.unbind(axis))
    for i in range(1, len(slices)):
        slices[i] = combine(slices[i - 1], slices[i])
    result = torch.stack(slices, axis) if slices else x
    return result if dtype == "bool" else rounded(result, dtype)


def sort(x: torch.Tensor, axis: int, descending: bool, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Sorted values and where they stood. PyTorch's order is ours: stable, NaN above everything."""
    values, indices = torch.sort(_ordered(x, dtype), dim=axis, descending=descending, stable=True)
    return _ordered(values, dtype), indices


def matmul(a: torch.Tensor, b: torch.Tensor, source: str, dtype: str) -> torch.Tensor:
    """`[.., m, k]` by `[.., k, n]`; floats in float64, rounded to f32 as the sum is kept (f64: not) and then to `dtype`."""
    if source in FLOATS:
        return rounded(rounded(a.double() @ b.double(), "f64" if source == "f64" else "f32"), dtype)
    return rounded(wrap(a.to(torch.int64) @ b.to(torch.int64), dtype if dtype in INTEGERS else "i32"), dtype)
