"""The tile kernel language: what `import tilewright as tw` offers to kernels (docs/language.md).

`@tw.kernel` makes a Python function a kernel; `trace` gives its program (docs/kernel-programs.md). Importing this loads neither torch's
compiler nor the native module.
"""

from . import indexing, loops, ops  # noqa: F401  (loops and indexing add to ops.BUILTINS)
from .kernel import Kernel, kernel, trace
from .parameters import TensorSpec
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

_FUNCTIONS = {f.__name__: f for f in ops.BUILTINS if f is not ops.to}
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
