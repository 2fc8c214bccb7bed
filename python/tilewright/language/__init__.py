"""The tile kernel language: what `import tilewright as tw` offers to kernels (docs/language.md).

`@tw.kernel` makes a Python function a kernel; `trace` gives its program (docs/kernel-programs.md). Importing this loads neither torch's
compiler nor the native module.
"""

from . import ops_checks, ops_elementwise, ops_random, ops_reduce, ops_tile  # noqa: F401  (they register)
from .kernel import Kernel, kernel, trace
from .parameters import TensorSpec
from .registry import BUILTINS
from .source import KernelError
from .types import (
    In,
    InOut,
    Out,
    Scalar,
    bf16,
    bool_,
    const,
    dtypes,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    symbols,
    u8,
    u16,
    u32,
    u64,
)

_FUNCTIONS = {f.__name__: f for f in BUILTINS if f is not ops_elementwise.to}
globals().update(_FUNCTIONS)

__all__ = [
    "In",
    "InOut",
    "Kernel",
    "KernelError",
    "Out",
    "Scalar",
    "TensorSpec",
    "bf16",
    "bool_",
    "const",
    "dtypes",
    "f16",
    "f32",
    "f64",
    "i8",
    "i16",
    "i32",
    "i64",
    "kernel",
    "symbols",
    "trace",
    "u8",
    "u16",
    "u32",
    "u64",
]
__all__ += list(_FUNCTIONS)
