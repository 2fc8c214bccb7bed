"""What one writes here for names of Triton, NumPy and PyTorch: hints where a name is not found."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from .types import DTYPES
from .types import OTHER_NAMES as DTYPE_NAMES

_DTYPES = {
    **{name: repr(DTYPES[ours]) for name, ours in DTYPE_NAMES.items()},
    "double": "tw.f64", "float": "tw.f32", "half": "tw.f16", "long": "tw.i64", "int": "tw.i32", "short": "tw.i16", "char": "tw.i8",
    "byte": "tw.u8", "int1": "tw.bool_",
}  # fmt: skip

#: Their functions that are operators here.
_OPERATORS = {
    "add": "x + y", "sub": "x - y", "subtract": "x - y", "mul": "x * y", "multiply": "x * y", "div": "x / y", "divide": "x / y",
    "true_divide": "x / y", "fdiv": "x / y", "div_rn": "x / y, which is rounded correctly", "floor_divide": "x // y",
    "remainder": "x % y", "mod": "x % y", "neg": "-x", "negative": "-x", "float_power": "x ** y", "power": "x ** y",
    "square": "x * x", "reciprocal": "1.0 / x", "eq": "x == y", "equal": "x == y", "ne": "x != y", "not_equal": "x != y",
    "lt": "x < y", "less": "x < y", "le": "x <= y", "less_equal": "x <= y", "gt": "x > y", "greater": "x > y", "ge": "x >= y",
    "greater_equal": "x >= y", "logical_and": "x & y", "bitwise_and": "x & y", "logical_or": "x | y", "bitwise_or": "x | y",
    "logical_xor": "x ^ y", "bitwise_xor": "x ^ y", "logical_not": "~x", "bitwise_not": "~x", "invert": "~x",
    "left_shift": "x << n", "right_shift": "x >> n",
}  # fmt: skip

_MATRIX_PRODUCT = "x @ y"
_NO_ATOMIC = "tw.atomic_add; others are not there: a loop in one grid point that owns the element"
_LENGTHS = "nothing: how long tiles are and where they lie is the compiler's business"
_RANDOM = "tw.uniform(seed, offset) for f32 in [0, 1)"
_SYNCHRONISATION = "nothing: a grid point runs in order, and what waits for other grid points is a second kernel"
_RESHAPE = "tw.reshape(x, (-1,))"
_EXACT = "an output parameter Y: tw.Out[...]; tw.full(shape, value, dtype) for a tile"
_POINTERS = "X[i, j]: parameters are tensors, which know their sizes and strides"
_MATH = "functions of tw: tw.exp, tw.log, tw.erf, tw.tanh, .."

NAMES: dict[str, str] = {
    # Kernels and their grid.
    "jit": "@tw.kernel",
    "autotune": "@tw.kernel(space={...}) and kernel.tune(...); or no tile= at all: the compiler chooses",
    "heuristics": "tile= left out: the compiler chooses; or @tw.kernel(space={...}) and kernel.tune(...)",
    "Config": "@tw.kernel alone: the compiler chooses tile sizes; tile=64 in tw.parallel overrides one",
    "constexpr": "c: tw.const",
    "program_id": "for i in tw.parallel(M): i is the range of indices of this grid point, and i.start its first",
    "num_programs": "the size that tw.parallel is given, such as M",
    "cdiv": "tw.parallel(M): the last range is shorter; (M + 3) // 4 for the number itself",
    "next_power_of_2": "the size itself: tiles may have any, and nothing is padded",
    "tl": "tw (import tilewright as tw)",
    "triton": "tw (import tilewright as tw)",
    "grid": "for i in tw.parallel(M) inside of the kernel",
    "multiple_of": _LENGTHS,
    "max_contiguous": _LENGTHS,
    "max_constancy": _LENGTHS,
    "assume": "tw.static_assert(condition) on sizes",
    "debug_barrier": _SYNCHRONISATION,
    "barrier": _SYNCHRONISATION,
    "syncthreads": _SYNCHRONISATION,
    "device_print": 'tw.print("x =", x), which kernel.check(...) shows',
    "static_print": 'tw.print("x =", x), which kernel.check(...) shows',
    "device_assert": 'tw.assert_(condition, "text")',
    # Memory.
    "make_block_ptr": _POINTERS,
    "make_tensor_descriptor": _POINTERS,
    "advance": _POINTERS,
    "pointer_type": _POINTERS,
    "data_ptr": _POINTERS,
    "stride": _POINTERS,
    "strides": _POINTERS,
    "atomic_max": _NO_ATOMIC,
    "atomic_min": _NO_ATOMIC,
    "atomic_cas": _NO_ATOMIC,
    "atomic_xchg": _NO_ATOMIC,
    "atomic_and": _NO_ATOMIC,
    "atomic_or": _NO_ATOMIC,
    "atomic_xor": _NO_ATOMIC,
    "scatter_add": "tw.atomic_add(Y, index, value)",
    "index_add": "tw.atomic_add(Y, index, value)",
    "scatter": "Y[index] = value",
    "gather": "X[index], with an integer tile as the index of a parameter",
    "take": "X[index], with an integer tile as the index of a parameter",
    "index_select": "X[index, :], with an integer tile as the index of a parameter",
    # Making tiles.
    "empty": _EXACT,
    "empty_like": _EXACT,
    "tensor": "tw.full(shape, value, dtype)",
    "array": "tw.full(shape, value, dtype)",
    "ones_like": "tw.full_like(x, 1)",
    "eye": "(tw.iota(n)[:, None] == tw.iota(n)).to(tw.f32)",
    "identity": "(tw.iota(n)[:, None] == tw.iota(n)).to(tw.f32)",
    "tril": "tw.where(tw.indices(i)[:, None] >= tw.indices(j), x, 0.0)",
    "triu": "tw.where(tw.indices(i)[:, None] <= tw.indices(j), x, 0.0)",
    "linspace": "tw.iota(n).to(tw.f32) * step + start",
    "rand": _RANDOM,
    "random": _RANDOM,
    "randn": "tw.sqrt(-2.0 * tw.log(1.0 - u)) * tw.cos(6.283185307 * v), where u and v are tw.uniform(seed, offset) of two offsets",
    "randint": "tw.random_bits(seed, offset) for u32, of which `%` takes what it needs",
    "randint4x": "tw.philox(seed, c0)",
    "rand4x": "tw.philox(seed, c0)",
    # Shapes.
    "trans": "x.T, or tw.transpose(x)",
    "t": "x.T",
    "swapaxes": "tw.transpose(x, first, second)",
    "moveaxis": "tw.permute(x, 0, 2, 1)",
    "cat": "tw.concat((x, y), axis=0)",
    "concatenate": "tw.concat((x, y), axis=0)",
    "hstack": "tw.concat((x, y), axis=1)",
    "vstack": "tw.concat((x, y), axis=0)",
    "join": "tw.stack((x, y), axis=-1)",
    "interleave": "Y[.., 2 * j] = a and Y[.., 2 * j + 1] = b, two stores",
    "split": "x[:, :n] and x[:, n:]",
    "chunk": "x[:, :n] and x[:, n:]",
    "view": "tw.reshape(x, shape), or tw.bitcast(x, dtype)",
    "ravel": _RESHAPE,
    "flatten": _RESHAPE,
    "unsqueeze": "tw.expand_dims(x, axis), or x[:, None]",
    "newaxis": "None, as in x[:, None]",
    "repeat": "tw.broadcast_to(x[:, None], shape), then tw.reshape",
    "tile": "tw.broadcast_to(x[None, :], shape), then tw.reshape",
    "roll": "tw.concat((x[n:], x[:n]))",
    "pad": "tw.load(X, i - 1, fill=0.0), which reads outside",
    "contiguous": "x itself: tiles are values",
    "clone": "x itself: tiles are values",
    "copy": "x itself: tiles are values",
    "detach": "x itself",
    "item": "x itself: a tile of no dimensions is a number",
    "size": "x.shape",
    "dim": "x.ndim",
    "numel": "the product of x.shape, such as x.shape[0] * x.shape[1]",
    # Elementwise.
    "relu": "tw.maximum(x, 0.0)",
    "leaky_relu": "tw.where(x > 0.0, x, 0.01 * x)",
    "elu": "tw.where(x > 0.0, x, tw.expm1(x))",
    "silu": "x * tw.sigmoid(x)",
    "swish": "x * tw.sigmoid(x)",
    "gelu": "0.5 * x * (1.0 + tw.erf(x * 0.7071067811865476))",
    "softplus": "tw.maximum(x, 0.0) + tw.log1p(tw.exp(-tw.abs(x)))",
    "sign": "tw.where(x > 0, 1, tw.where(x < 0, -1, tw.zeros_like(x)))",
    "clip": "tw.clamp(x, low, high)",
    "absolute": "tw.abs(x)",
    "fabs": "tw.abs(x)",
    "sqrt_rn": "tw.sqrt(x), which is rounded correctly",
    "libdevice": _MATH,
    "math": _MATH,
    "masked_fill": "tw.where(mask, value, x)",
    "umulhi": "((x.to(tw.u64) * y.to(tw.u64)) >> 32).to(tw.u32)",
    "astype": "x.to(dtype)",
    "type": "x.to(dtype)",
    "pi": "math.pi",
    "inf": 'float("inf")',
    "nan": 'float("nan")',
    # Along dimensions.
    "reduce": "tw.sum, tw.prod, tw.max, tw.min, tw.any or tw.all; for another function a `range` loop that carries",
    "amax": "tw.max(x, axis=1)",
    "amin": "tw.min(x, axis=1)",
    "argsort": "tw.sort(x)[1]",
    "softmax": "e = tw.exp(x - tw.max(x, axis=1, keepdims=True)), then e / tw.sum(e, axis=1, keepdims=True)",
    "log_softmax": "y = x - tw.max(x, axis=1, keepdims=True), then y - tw.log(tw.sum(tw.exp(y), axis=1, keepdims=True))",
    "logsumexp": "top = tw.max(x, axis=1, keepdims=True), then top + tw.log(tw.sum(tw.exp(x - top), axis=1, keepdims=True))",
    "norm": "tw.sqrt(tw.sum(x * x, axis=1))",
    "var": "d = x - tw.mean(x, axis=1, keepdims=True), then tw.mean(d * d, axis=1)",
    "std": "d = x - tw.mean(x, axis=1, keepdims=True), then tw.sqrt(tw.mean(d * d, axis=1))",
    "histogram": "tw.atomic_add(H, index, 1)",
    "bincount": "tw.atomic_add(H, index, 1)",
    # Matrix products.
    "mm": _MATRIX_PRODUCT,
    "bmm": _MATRIX_PRODUCT,
    "mv": _MATRIX_PRODUCT,
    "inner": _MATRIX_PRODUCT,
    "linear": "x @ w.T + b",
    "einsum": "x @ y of tiles that tw.permute brings in order, or tw.sum of a product",
    "outer": "x[:, None] * y",
    **_OPERATORS,
    **_DTYPES,
    **{name: "tw.u8, which integer arithmetic decodes" for name in ("float8e4nv", "float8e5", "float8_e4m3fn", "float8_e5m2")},
}  # fmt: skip

#: Names that are something else behind a tile.
METHODS = {name: f"x.to({ours})" for name, ours in _DTYPES.items()}

_NO_MASK = "no mask: a tile is as long as it is valid; fill= of tw.load and clip= of tw.store for what lies outside, tw.where for the rest"

#: Arguments of loads and stores.
KEYWORDS = {
    "mask": _NO_MASK,
    "other": "fill=, a number, for what lies outside",
    "boundary_check": _NO_MASK,
    "padding_option": _NO_MASK,
}


def instead_of(name: str, known: Iterable[str], form: str = "{}") -> str:
    """What to write for a name that is not there: what the table says, a known name that is really close in this form, or nothing."""
    if name in NAMES:
        return NAMES[name]
    close = difflib.get_close_matches(name, known, 1, 0.8)
    if close:
        return form.format(close[0])
    meant = difflib.get_close_matches(name, NAMES, 1, 0.9)
    return NAMES[meant[0]] if meant else ""
