"""torch.compile(backend="tilewright").

This package is found through the entry-point group `torch_dynamo_backends` and, where it is imported without being installed, through
`register`. Importing it imports neither torch._dynamo nor the compiler: both come with the first graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from .errors import CompileError, InternalError, UnsupportedError
from .lazy import register

__all__ = ["CompileError", "InternalError", "UnsupportedError", "backend", "register"]


def backend(
    gm: Any, example_inputs: Sequence[Any], *, mode: str | None = None, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """Compiles one of Dynamo's graphs, forward and backward. See docs/compile.md for the options.

    Raises CompileError (Dynamo wraps it in BackendCompilerFailed) naming operator, source line and what to do.
    """
    from ..stats import recorder

    start = time.perf_counter()
    from .backend import compile_dynamo_graph

    recorder.import_seconds += time.perf_counter() - start
    return compile_dynamo_graph(gm, example_inputs, mode=mode, options=options)
