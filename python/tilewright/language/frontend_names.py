"""Names and attributes that a kernel takes from around it: what may be captured, and what was, so that a changed constant is noticed."""

from __future__ import annotations

import builtins
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from .builder import Builder
from .other_names import instead_of
from .parameters import closure_values
from .sizes import Size
from .types import DType, DTypeParameter, ScalarType, TensorType, is_torch_dtype

_MISSING = object()


@dataclass(frozen=True, slots=True)
class Capture:
    """A value that a trace has used: `holder` is a dict, a module or class, or a function (whose closure is meant)."""

    holder: Any
    name: str
    value: Any

    def unchanged(self) -> bool:
        if isinstance(self.holder, dict):
            now = self.holder.get(self.name, _MISSING)
        elif isinstance(self.holder, FunctionType):
            now = closure_values(self.holder).get(self.name, _MISSING)
        else:
            now = getattr(self.holder, self.name, _MISSING)
        return now is self.value or (
            type(now) is type(self.value) and not isinstance(now, FunctionType) and bool(now == self.value)
        )


def look_up(
    b: Builder, function: FunctionType, name: str, captures: dict[tuple[int, str], Capture], public: Mapping[str, Any]
) -> Any:
    """A name that is no variable of the function: from around it, the module, or Python."""
    if name in function.__code__.co_freevars:
        values = closure_values(function)
        if name not in values:
            b.fail(f"the name {name} has no value yet", f"{name} assigned before the kernel is called")
        value = values[name]
        captures[id(function), name] = Capture(function, name, value)
    elif name in function.__globals__:
        value = function.__globals__[name]
        captures[id(function.__globals__), name] = Capture(function.__globals__, name, value)
    elif hasattr(builtins, name):
        return getattr(builtins, name)
    else:
        around = [*function.__code__.co_varnames, *function.__globals__]
        in_tw = f"tw.{name}" if name in public else ""
        b.fail(
            f"the name {name} is not defined",
            in_tw or instead_of(name, around) or f"a parameter, a variable or a constant called {name}",
        )
    return check_capture(b, name, value)


def check_capture(b: Builder, name: str, value: Any) -> Any:
    """Refuses what a kernel cannot take from around it."""
    if is_kernel(value) or isinstance(value, (ModuleType, FunctionType)):
        return value
    if isinstance(value, (list, dict, set, bytearray)):
        b.fail(
            f"the {type(value).__name__} {name} is captured, and it may change while compiled code does not",
            f"a tuple, or a parameter {name}: tw.const" if isinstance(value, list) else "numbers or a tuple of them",
        )
    if hasattr(value, "__array__") or hasattr(value, "data_ptr"):
        b.fail(
            f"the array or tensor {name} is captured: kernels read tensors through parameters",
            f"a parameter {name}: tw.In[dtype, ...]",
        )
    if isinstance(value, tuple):
        for item in value:
            check_capture(b, f"in {name}", item)
        return value
    plain = (
        bool,
        int,
        float,
        str,
        type(None),
        Size,
        DType,
        DTypeParameter,
        TensorType,
        ScalarType,
        type,
        enum.Enum,
        range,
    )
    if isinstance(value, (*plain, ModuleType, FunctionType, BuiltinFunctionType)):
        return value
    if _is_frozen(value):
        return value
    if hasattr(value, "__name__") or is_torch_dtype(value):
        return value
    b.fail(
        f"{name} is a {type(value).__name__}, which a kernel cannot capture",
        "numbers, strings, tuples, dtypes, functions, or a frozen dataclass of them",
    )


def _is_frozen(value: Any) -> bool:
    """Whether it is an instance of a frozen dataclass."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def is_kernel(value: Any) -> bool:
    return bool(getattr(type(value), "__tilewright_kernel__", False))


def attribute(
    b: Builder, value: Any, name: str, captures: dict[tuple[int, str], Capture], public: Mapping[str, Any]
) -> Any:
    """`value.name` of something that is there at compile time."""
    if isinstance(value, ModuleType):
        if value.__name__ in ("tilewright", "tilewright.language"):
            if name in public:
                return public[name]
            hint = instead_of(name, public, "tw.{}") or "a function that docs/language.md lists"
            b.fail(f"tilewright has no {name} for kernels", hint)
        if not hasattr(value, name):
            b.fail(f"the module {value.__name__} has no {name}", "a name that it has")
        found = getattr(value, name)
        captures[id(value), name] = Capture(value, name, found)
        return check_capture(b, f"{value.__name__}.{name}", found)
    if isinstance(value, type) and hasattr(value, name):
        found = getattr(value, name)
        captures[id(value), name] = Capture(value, name, found)
        return check_capture(b, f"{value.__name__}.{name}", found)
    allowed: tuple[Callable[[], bool], ...] = (
        lambda: isinstance(value, (enum.Enum, DType)),
        lambda: _is_frozen(value),
        lambda: isinstance(value, tuple) and name in getattr(value, "_fields", ()),
        lambda: isinstance(value, (int, float, str)) and not name.startswith("_"),
    )
    if hasattr(value, name) and any(test() for test in allowed):
        return getattr(value, name)
    b.fail(
        f"a {type(value).__name__} has no attribute {name} in a kernel", "a tile, an axis or a parameter before the dot"
    )
