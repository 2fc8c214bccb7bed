"""`@tw.kernel`: a Python function as a kernel, and its programs for each specialisation."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, cast, overload

from .frontend_names import Capture
from .frontend_trace import run_trace
from .parameters import Parameter, bind_specialisation, check_rank, read_parameters
from .source import FunctionSource, KernelError, source_of

if TYPE_CHECKING:
    from .launch import LaunchableKernel

Specialisation = tuple[tuple[str, Any], ...]


def _typed(key: Specialisation) -> Any:
    """1, 1.0 and True are equal as keys and different as constants."""
    return tuple((name, type(value), value) for name, value in key)


def public_names() -> Mapping[str, Any]:
    """What `tw.NAME` is inside of kernels."""
    from .. import language

    return {name: getattr(language, name) for name in language.__all__}


def trace(function: Callable[..., Any], signature: Mapping[str, Any]) -> dict[str, Any]:
    """The kernel program (docs/kernel-programs.md) of a Python function, as JSON-able data.

    `signature` says of each tensor parameter its dtype and layout (a TensorSpec, ("f32", "strided"), or "f32" for contiguous) and of each
    compile-time constant its value; see parameters.bind_specialisation for what may be left out. Raises KernelError for kernels that are wrong.
    """
    kernel_ = function if isinstance(function, Kernel) else Kernel(function)
    return kernel_.program(signature)


class Kernel:
    """A kernel: `name`, `parameters` and `program`. What `@tw.kernel` makes is a `launch.LaunchableKernel`, which can be called."""

    __tilewright_kernel__ = True

    #: Specialisations that are kept; the oldest goes first.
    CACHED = 256

    def __init__(self, function: Callable[..., Any], scope: Mapping[str, Any] | None = None) -> None:
        if not isinstance(function, FunctionType):
            raise TypeError(f"@tw.kernel takes a Python function, not {function!r}")
        self.function = function
        self.name = function.__name__
        self.source: FunctionSource = source_of(function)
        self.parameters: tuple[Parameter, ...] = read_parameters(function, scope)
        self._programs: dict[Any, tuple[dict[str, Any], tuple[Capture, ...]]] = {}
        functools.update_wrapper(cast(Any, self), function)

    def specialise(self, signature: Mapping[str, Any], ranks: Mapping[str, int] | None = None) -> Specialisation:
        """The key of a specialisation: dtypes, layouts and constants, checked against the declaration. KernelError says what does not fit."""
        for p in self.parameters:
            if ranks and p.name in ranks:
                check_rank(self.name, self.function, p, ranks[p.name])
        return bind_specialisation(self.name, self.function, self.parameters, signature)

    def program(self, signature: Mapping[str, Any] | Specialisation) -> dict[str, Any]:
        """The program for a signature or specialisation. The same object is returned while nothing that the kernel captures has changed."""
        key = signature if isinstance(signature, tuple) else self.specialise(signature)
        typed = _typed(key)
        found = self._programs.get(typed)
        if found is not None and all(c.unchanged() for c in found[1]):
            return found[0]
        try:
            traced = run_trace(self.source, self.name, self.parameters, key, public_names())
        except KernelError as error:
            # What matters is where the kernel is wrong, and the message says it.
            raise error.with_traceback(None) from None
        while len(self._programs) >= self.CACHED:
            del self._programs[next(iter(self._programs))]
        self._programs[typed] = traced
        return traced[0]

    def is_current(self, signature: Mapping[str, Any] | Specialisation) -> bool:
        """Whether `program` would return what it has already."""
        key = signature if isinstance(signature, tuple) else self.specialise(signature)
        found = self._programs.get(_typed(key))
        return found is not None and all(c.unchanged() for c in found[1])

    def __getitem__(self, grid: Any) -> NoReturn:
        call = f"{self.name}({', '.join(p.name for p in self.parameters)})"
        raise TypeError(
            f"{self.name}[...]: there is no grid to give, tw.parallel(...) inside of the kernel is it; write instead: {call}"
        )

    def __repr__(self) -> str:
        return f"<tilewright kernel {self.name}>"


@overload
def kernel(function: Callable[..., Any]) -> LaunchableKernel: ...
@overload
def kernel(*, space: Mapping[str, Iterable[Any]]) -> Callable[[Callable[..., Any]], LaunchableKernel]: ...
def kernel(function: Callable[..., Any] | None = None, *, space: Mapping[str, Iterable[Any]] | None = None) -> Any:
    """Decorator: makes a Python function over tiles a kernel. `@tw.kernel(space={"BLOCK": (32, 64, None)})` says which values of compile-time
    constants `kernel.tune` tries."""
    from .launch import LaunchableKernel

    # Under `from __future__ import annotations` the names in annotations are no closure variables: they are looked up where the kernel stands.
    scope = sys._getframe(1).f_locals

    def make(function: Callable[..., Any]) -> LaunchableKernel:
        return LaunchableKernel(function, scope, space=space)

    return make if function is None else make(function)
