"""A kernel's parameters as its annotations declare them, and what a call says about them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple

from .sizes import Size
from .source import FunctionSource, source_of
from .types import DTYPES, DType, DTypeParameter, ScalarType, TensorType, const, f64, i64
from .types import bool_ as bool_dtype

LAYOUTS = ("contiguous", "inner", "strided")
NO_DEFAULT = inspect.Parameter.empty


class TensorSpec(NamedTuple):
    """What a specialisation knows of a tensor: the dtype's name, and "contiguous", "inner" (the last dimension has stride 1) or "strided"."""

    dtype: str
    layout: str = "contiguous"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `type` is a TensorType, a ScalarType, or `tw.const`. `space`: what `kernel.tune` tries for a constant."""

    name: str
    type: Any
    default: Any = NO_DEFAULT
    keyword_only: bool = False
    space: tuple[Any, ...] = ()

    @property
    def kind(self) -> str:
        """ "in", "out", "inout", "scalar" or "const"."""
        if isinstance(self.type, TensorType):
            return self.type.kind
        return "scalar" if isinstance(self.type, ScalarType) else "const"


def closure_values(function: FunctionType) -> dict[str, Any]:
    """Names of enclosing functions that have a value by now."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:
            continue
    return values


def read_parameters(function: FunctionType, scope: Mapping[str, Any] | None = None) -> tuple[Parameter, ...]:
    """The parameters of a kernel. `scope` has the names that annotations written as strings may use beside the module's. Raises KernelError
    for what a kernel cannot take."""
    source = source_of(function)
    nodes = {a.arg: a for a in ast.walk(source.tree.args) if isinstance(a, ast.arg)}
    result = []
    for p in inspect.signature(function).parameters.values():
        node = nodes[p.name]
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            stars = "*" if p.kind == p.VAR_POSITIONAL else "**"
            raise source.error(f"a kernel takes no {stars}{p.name}", node, "each parameter by its name")
        annotation = _annotation(source, function, scope or {}, p.name, p.annotation, node)
        type_ = _type(source, p.name, annotation, node)
        if isinstance(type_, TensorType) and p.default is not NO_DEFAULT:
            raise source.error(f"the tensor {p.name} has a default", node, f"{p.name} without a default")
        if type_ is const and p.default is not NO_DEFAULT:
            _hashable(source, p.name, p.default, node)
        if isinstance(type_, ScalarType) and p.default is not NO_DEFAULT and not isinstance(p.default, (int, float)):
            raise source.error(f"the default of the scalar {p.name} is {p.default!r}", node, "a number")
        result.append(Parameter(p.name, type_, p.default, p.kind == p.KEYWORD_ONLY))
    if not any(isinstance(p.type, TensorType) for p in result):
        raise source.error(
            "a kernel has at least one tensor parameter", source.tree, "X: tw.In[tw.f32, M], Y: tw.Out[tw.f32, M]"
        )
    if not any(p.kind in ("out", "inout") for p in result):
        raise source.error("the kernel has no output", source.tree, "a parameter Y: tw.Out[...] or tw.InOut[...]")
    return tuple(result)


def _annotation(
    source: FunctionSource, function: FunctionType, scope: Mapping[str, Any], name: str, annotation: Any, node: ast.arg
) -> Any:
    if annotation is inspect.Parameter.empty:
        raise source.error(
            f"the parameter {name} has no annotation",
            node,
            f"{name}: tw.In[tw.f32, M, N], tw.Out[...], tw.InOut[...], float, int or tw.const",
        )
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, function.__globals__, {**scope, **closure_values(function)})
    except Exception as error:
        why, _, instead = str(error).partition("; write instead: ")
        raise source.error(
            f"the annotation of {name} cannot be read: {why}",
            node.annotation,
            "names that are defined before the kernel"
            if isinstance(error, NameError)
            else instead or 'tw.In[tw.f32, M, N], or T = tw.dtypes("T") for tw.f32',
        ) from None


def _type(source: FunctionSource, name: str, annotation: Any, node: ast.arg) -> Any:
    if isinstance(annotation, (TensorType, ScalarType)) or annotation is const:
        return annotation
    weak = {float: ScalarType(f64, True), int: ScalarType(i64, True), bool: ScalarType(bool_dtype)}
    if annotation in weak:
        return weak[annotation]
    if isinstance(annotation, (DType, DTypeParameter)):
        raise source.error(
            f"{name} is annotated with a dtype", node.annotation, f"tw.Scalar[{annotation}], or tw.In[{annotation}, M]"
        )
    raise source.error(
        f"{name} is annotated with {annotation!r}, which is no kernel parameter",
        node.annotation,
        "tw.In[...], tw.Out[...], tw.InOut[...], float, int, bool, tw.Scalar[...] or tw.const",
    )


def _hashable(source: FunctionSource, name: str, value: Any, node: ast.AST | None) -> None:
    try:
        hash(value)
    except TypeError:
        raise source.error(
            f"the compile-time constant {name} is a {type(value).__name__}, which is not hashable",
            node,
            "a tuple, a number or a string",
        ) from None


def bind_specialisation(
    name: str, function: FunctionType, parameters: tuple[Parameter, ...], signature: Mapping[str, Any]
) -> tuple[tuple[str, Any], ...]:
    """A signature made complete and hashable: (name, TensorSpec) for tensors and dtype-parametrised scalars, (name, value) for constants.

    `signature` maps tensors to a TensorSpec, a (dtype, layout) pair or a dtype's name, constants to their value. Tensors that are not named
    are contiguous and have their declared dtype; constants that are not named have their default.
    """
    source = source_of(function)
    nodes = {a.arg: a for a in ast.walk(source.tree.args) if isinstance(a, ast.arg)}
    unknown = signature.keys() - {p.name for p in parameters}
    if unknown:
        raise source.error(f"{name} has no parameter {min(unknown)}", None, ", ".join(p.name for p in parameters))
    bound: list[tuple[str, Any]] = []
    dtypes: dict[str, tuple[str, str]] = {}
    for p in parameters:
        node = nodes[p.name]
        given = signature.get(p.name, NO_DEFAULT)
        if p.kind == "const":
            value = p.default if given is NO_DEFAULT else given
            if value is NO_DEFAULT:
                raise source.error(
                    f"the compile-time constant {p.name} of {name} has no value", node, f"{p.name}=... in the call"
                )
            _hashable(source, p.name, value, node)
            bound.append((p.name, value))
            continue
        declared = p.type.dtype
        if p.kind == "scalar" and not isinstance(declared, DTypeParameter):
            continue
        if given is NO_DEFAULT:
            if isinstance(declared, DTypeParameter) and declared.name not in dtypes:
                if p.kind == "scalar":
                    raise source.error(
                        f"the dtype {declared.name} of the scalar {p.name} is given by no tensor before it",
                        node,
                        f"tw.Scalar[tw.f32], or a tensor of {declared.name} first",
                    )
                raise source.error(
                    f"the dtype {declared.name} of {p.name} is not given", node, f'{{"{p.name}": "f32"}}'
                )
            given = dtypes[declared.name][0] if isinstance(declared, DTypeParameter) else declared.name
        spec = TensorSpec(given) if isinstance(given, str) else TensorSpec(*given)
        dtype_name = spec.dtype.name if isinstance(spec.dtype, DType) else spec.dtype
        spec = TensorSpec(dtype_name, spec.layout)
        if dtype_name not in DTYPES:
            raise source.error(
                f"{p.name} has the dtype {dtype_name}, which kernels do not take", node, ", ".join(DTYPES)
            )
        if spec.layout not in LAYOUTS:
            raise source.error(f"{p.name} has the layout {spec.layout!r}", node, ", ".join(LAYOUTS))
        if isinstance(declared, DType) and declared.name != dtype_name:
            raise source.error(
                f"{p.name} is declared as {declared.name} and called with {dtype_name}",
                node,
                f'T = tw.dtypes("T") and {p.name}: tw.{_word(p)}[T, ...] for a kernel of several dtypes, or convert the argument',
            )
        if isinstance(declared, DTypeParameter):
            first = dtypes.setdefault(declared.name, (dtype_name, p.name))
            if first[0] != dtype_name:
                raise source.error(
                    f"{first[1]} and {p.name} share the dtype {declared.name}, and are {first[0]} and {dtype_name}",
                    node,
                    "arguments of one dtype, or a dtype parameter of its own",
                )
        bound.append((p.name, spec if p.kind != "scalar" else TensorSpec(dtype_name)))
    return tuple(bound)


def _word(p: Parameter) -> str:
    return {"in": "In", "out": "Out", "inout": "InOut", "scalar": "Scalar"}[p.kind]


def check_rank(name: str, function: FunctionType, parameter: Parameter, rank: int) -> None:
    """Raises KernelError if a call's tensor has another number of dimensions than declared."""
    dims: tuple[Size, ...] = parameter.type.sizes
    if rank != len(dims):
        source = source_of(function)
        node = next(a for a in ast.walk(source.tree.args) if isinstance(a, ast.arg) and a.arg == parameter.name)
        raise source.error(
            f"{parameter.name} of {name} has {len(dims)} dimension{'s' if len(dims) != 1 else ''}"
            f" [{', '.join(map(str, dims))}], and the argument has {rank}",
            node,
            "an argument of that rank (reshape or unsqueeze it)",
        )
