"""Kernels as operators of PyTorch: `torch.ops.tilewright_kernels.NAME`, registered at its first use.

Overloads, all with arguments named as the kernel's parameters:

* `NAME(inputs, scalars, constants) -> outputs`: outputs are allocated, InOut arguments are written in place.
* `NAME.out(inputs, scalars, constants, *, outputs) -> outputs`: for kernels without InOut. One output alone is called `out`, as everywhere in PyTorch.
* `NAME.functional(inputs, scalars, constants) -> outputs, new InOuts`: for kernels with InOut; nothing is written.

`NAME__differentiated` has the same overloads and is autograd's, for nobody else.

Where no input says what size or dtype an output has, `functional` takes them as `size_K` and `dtype_T`, and the others are given their outputs. A constant has the type of its default and its space (bool,
int, float, str); others are given as text: what Python writes for it ("(1, 2)", "None") or "tw.f32".

What runs is registered in C++ (lib/Torch/KernelOperator.cpp); here are the schema, the fake implementation, and the door to gradients.py.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch

from ..dynamo.dtypes import DTYPES
from . import size_text
from .parameters import NO_DEFAULT, Parameter
from .types import DTYPES as LANGUAGE_DTYPES
from .types import DType, DTypeParameter, TensorType

if TYPE_CHECKING:
    from .launch import LaunchableKernel

NAMESPACE = "tilewright_kernels"

_library = torch.library.Library(NAMESPACE, "FRAGMENT")

#: Operator names that are taken: by which kernel, and for good once it is registered.
_claimed: dict[str, weakref.ref[LaunchableKernel]] = {}
#: Kernels whose operators are registered. They live as long as PyTorch's dispatcher knows them.
registered: dict[str, LaunchableKernel] = {}


@dataclass(frozen=True)
class Operators:
    """A kernel's overloads; None for those that it does not have."""

    name: str
    packet: Any
    functional: Any  # writes nothing
    in_place: Any  # is given all that it writes
    out_names: dict[str, str]  # what outputs are called there
    free: Free  # what `functional` is told of outputs


@dataclass(frozen=True)
class Free:
    """Sizes and dtypes that outputs have and no input says. Of a kernel: by name, where an output says it: (parameter, dimension), parameter. Of a
    call: their values; it stands in the place of the first output."""

    sizes: dict[str, Any]
    dtypes: dict[str, Any]

    def __bool__(self) -> bool:
        return bool(self.sizes or self.dtypes)


def _path(kernel: LaunchableKernel) -> str:
    """What a kernel is that another one of its name replaces."""
    return f"{kernel.function.__module__}.{kernel.function.__qualname__}:{kernel.name}"


def claim(kernel: LaunchableKernel) -> str:
    """The kernel's name as an operator: its own, with a hash of module and qualified name behind it if that is another kernel's."""
    path = _path(kernel)
    unique = f"{kernel.name}_{hashlib.sha1(path.encode()).hexdigest()[:8]}"
    for name in itertools.chain((kernel.name, unique), (f"{unique}_{k}" for k in itertools.count(2))):
        owner = _claimed[name]() if name in _claimed else None
        redefined = (
            owner is not None and _path(owner) == path
        )  # in a notebook, say; the older one claims anew if it needs to
        if name not in registered and (owner is None or redefined):
            _claimed[name] = weakref.ref(kernel)
            return name
    raise AssertionError("unreachable")


class _Namespace(type(torch.ops.aten)):  # type: ignore[misc]
    """torch.ops.tilewright_kernels: an operator that is not registered yet is when it is asked for."""

    __module__ = type(torch.ops.aten).__module__  # from which the operators' own, by which they are pickled, is made

    def __getattr__(self, name: str) -> Any:
        owner = _claimed[name]() if name in _claimed else None
        if owner is not None and name not in registered:
            operators_of(owner)
        return super().__getattr__(name)


torch.ops.__dict__[NAMESPACE] = _Namespace(NAMESPACE)


def operators_of(kernel: LaunchableKernel) -> Operators:
    """Registers the kernel's operators, once."""
    found = kernel.__dict__.get("_operators")
    if found is None:
        found = kernel.__dict__["_operators"] = _register(kernel)
    return found


# ----------------------------------------------------------------------------------------------------------------------
# Schemas


def uninferable(kernel: LaunchableKernel) -> Parameter | None:
    """The first output of which no input says size or dtype, or the first output if there is no tensor among the inputs."""
    inputs = [p for p in kernel.parameters if p.kind in ("in", "inout")]
    outputs = [p for p in kernel.parameters if p.kind == "out"]
    known = {s.symbol for p in inputs for s in p.type.sizes if s.symbol is not None}
    known |= {p.name for p in kernel.parameters if p.kind == "scalar"}
    dtypes = {p.type.dtype for p in inputs}
    for p in outputs:
        symbols = {symbol for size in p.type.sizes for symbol in size.symbols()}
        if not inputs or symbols - known or (isinstance(p.type.dtype, DTypeParameter) and p.type.dtype not in dtypes):
            return p
    return None


def free(kernel: LaunchableKernel) -> Free | None:
    """What no input says of outputs; None where outputs do not say it either, or there is no tensor that says where to compute."""
    inputs = [p for p in kernel.parameters if p.kind in ("in", "inout")]
    known = {s.symbol for p in inputs for s in p.type.sizes} | {p.name for p in kernel.parameters if p.kind == "scalar"}
    dtypes = {p.type.dtype for p in inputs}
    result = Free({}, {})
    wanted: set[str] = set()
    for k, p in enumerate(kernel.parameters):
        if p.kind != "out":
            continue
        wanted |= {symbol for size in p.type.sizes for symbol in size.symbols()} - known
        for d, size in enumerate(p.type.sizes):
            if size.symbol is not None and size.symbol not in known:
                result.sizes.setdefault(size.symbol, (k, d))
        if isinstance(p.type.dtype, DTypeParameter) and p.type.dtype not in dtypes:
            result.dtypes.setdefault(p.type.dtype.name, k)
    return result if inputs and wanted == result.sizes.keys() else None


def constant_type(p: Parameter) -> str:
    """The schema's type of a constant; "text" for those that are given as text."""
    kinds = {type(value) for value in (p.default, *p.space)}
    return type(p.default).__name__ if len(kinds) == 1 and kinds <= {bool, int, float, str} else "text"


def encode_constant(kernel: LaunchableKernel, p: Parameter, value: Any) -> Any:
    """A constant as an argument of the operator. KernelError if it cannot be one."""
    kind = constant_type(p)
    if kind == "text":
        text = f"tw.{value.name}" if isinstance(value, DType) else repr(value)
        try:
            same = decode_constant(p, text) == value
        except (ValueError, SyntaxError):
            same = False
        if not same:
            kernel.fail(
                f"the constant {p.name} is {value!r:.80}, which an operator of PyTorch cannot be given",
                p,
                "numbers, strings, dtypes, None, and tuples of them",
            )
        return text
    if type(value).__name__ != kind and not (kind == "float" and type(value) is int):
        kernel.fail(
            f"the constant {p.name} is {value!r:.80}, and the operator takes a {kind} as its default is one",
            p,
            f"a {kind}, or the default None, with which the operator takes any constant",
        )
    return value


def decode_constant(p: Parameter, value: Any) -> Any:
    if constant_type(p) != "text":
        return value
    if isinstance(value, str) and value.startswith("tw."):
        return LANGUAGE_DTYPES[value.removeprefix("tw.")]
    return ast.literal_eval(value)


def _default(p: Parameter, kind: str) -> str | None:
    """As the schema writes it; None: none, or one that it cannot write."""
    if p.default is NO_DEFAULT or (isinstance(p.default, float) and not math.isfinite(p.default)):
        return None
    if kind == "str":
        text = (
            p.default
            if constant_type(p) == "str"
            else f"tw.{p.default.name}"
            if isinstance(p.default, DType)
            else repr(p.default)
        )
        return None if any(c in text for c in '"\\\n') else f'"{text}"'
    return {"float": lambda: repr(float(p.default)), "bool": lambda: str(bool(p.default))}.get(
        kind, lambda: repr(p.default)
    )()


def _schema_type(p: Parameter) -> str:
    from .launch import scalar_kind

    if p.kind == "const":
        return {"text": "str"}.get(constant_type(p), constant_type(p))
    return {"int": "SymInt", "number": "Scalar"}.get(scalar_kind(p.type), scalar_kind(p.type))


def out_names(kernel: LaunchableKernel) -> dict[str, str]:
    """What outputs are called as arguments of an operator."""
    outs = [p.name for p in kernel.parameters if p.kind == "out"]
    if len(outs) == 1 and all(p.name != "out" for p in kernel.parameters):
        return {outs[0]: "out"}
    return {name: name for name in outs}


def _schema(
    kernel: LaunchableKernel, name: str, overload: str, written: Sequence[str], returned: Sequence[str], aliased: bool
) -> str:
    """`written`: parameters that are arguments and written. `returned`: results, in order; `aliased` if they are arguments."""
    letters = {p: f"(w{k}!)" for k, p in enumerate(written)}
    outputs = out_names(kernel)
    positional: list[tuple[str, str | None]] = []
    named: list[str] = []
    for p in kernel.parameters:
        if isinstance(p.type, TensorType):
            if p.kind == "out":
                continue
            item: tuple[str, str | None] = (f"Tensor{letters.get(p.name, '')} {p.name}", None)
        else:
            kind = _schema_type(p)
            # Inductor turns calls of an operator into calls of its `out`, where both have the same arguments, and passes defaults twice.
            item = (f"{kind} {p.name}", None if aliased else _default(p, kind))
        if p.keyword_only:
            named.append("=".join(filter(None, item)))
        else:
            positional.append(item)
    if not aliased and not written and (unsaid := free(kernel)):
        named += [f"SymInt size_{name}" for name in unsaid.sizes] + [
            f"ScalarType dtype_{name}" for name in unsaid.dtypes
        ]
    last = max((k for k, (_, default) in enumerate(positional) if default is None), default=-1)
    arguments = [
        text if k < last or default is None else f"{text}={default}" for k, (text, default) in enumerate(positional)
    ]
    named += [f"Tensor{letters[p]} {outputs[p]}" for p in written if p in outputs]
    if named:
        arguments += ["*", *named]
    results = ", ".join(f"Tensor{letters[p] if aliased else ''}" for p in returned)
    return f"{name}{'.' + overload if overload else ''}({', '.join(arguments)}) -> {results if len(returned) == 1 else f'({results})'}"


# ----------------------------------------------------------------------------------------------------------------------
# Registration


def _register(kernel: LaunchableKernel) -> Operators:
    if kernel.operator_name in registered or _claimed[kernel.operator_name]() is not kernel:
        kernel.operator_name = claim(kernel)
    name = kernel.operator_name
    outs = [p.name for p in kernel.parameters if p.kind == "out"]
    inouts = [p.name for p in kernel.parameters if p.kind == "inout"]
    inferable, unsaid = uninferable(kernel) is None, free(kernel)

    def add(overload: str, written: Sequence[str], returned: Sequence[str], aliased: bool = False) -> None:
        # Inductor takes for granted that one output is called `out`.
        usual = aliased and (len(outs) > 1 or outs[0] != out_names(kernel)[outs[0]])
        tags = [torch.Tag.pt2_compliant_tag, *([torch.Tag.out] if usual else [])]
        hidden = f"{name}__differentiated"
        for n in (name, hidden):
            _library.define(_schema(kernel, n, overload, written, returned, aliased), tags=tags)
        # Outputs whose sizes only Python knows are allocated there.
        allocating = not written and not inferable
        _C.register_kernel_operator(name, overload, None if allocating else kernel._launcher)
        if allocating:
            for key in ("CPU", "PrivateUse1"):
                _library.impl(f"{name}.{overload}", _allocating(kernel), key)
        full = f"{NAMESPACE}::{name}" + (f".{overload}" if overload else "")
        torch.library.register_fake(full, _fake(kernel, written, aliased), lib=_library)
        _library.impl(
            hidden + (f".{overload}" if overload else ""),
            gradients.autograd(kernel, bool(written)),
            "Autograd",
            with_keyset=True,
        )
        if not written:
            _library.impl(full.partition("::")[2], gradients.vmap(kernel), "FuncTorchBatched")

    from .. import _C
    from . import gradients

    registered[name] = kernel
    if inferable:
        add("", inouts, outs)
        if inouts:
            add("functional", [], [*outs, *inouts])
    else:
        if inouts:
            add("", [*inouts, *outs], [])
        if unsaid is not None:
            add("functional", [], [*outs, *inouts])
    if outs and not inouts:
        add("out", outs, outs, aliased=True)
    packet = super(_Namespace, getattr(torch.ops, NAMESPACE)).__getattr__(name)
    functional = "functional" if inouts or not inferable else "default"
    in_place = "out" if outs and not inouts else "default"
    return Operators(
        name,
        packet,
        getattr(packet, functional) if unsaid is not None else None,
        getattr(packet, in_place),
        out_names(kernel),
        unsaid or Free({}, {}),
    )


def _allocating(kernel: LaunchableKernel) -> Callable[..., Any]:
    """The functional operator of a kernel with free sizes or dtypes."""

    def run(*args: Any, **kwargs: Any) -> Any:
        values = named_arguments(kernel, args, kwargs)
        written = []
        for kind in ("out", "inout"):
            for k, p in enumerate(kernel.parameters):
                if p.kind == kind:
                    made = empty_output(kernel, p, values) if kind == "out" else values[k].clone()
                    written.append((k, made))
        for k, made in written:
            values[k] = made
        if kernel._launcher.call_bound(values) is NotImplemented:
            kernel._explain(values, "")
        return written[0][1] if len(written) == 1 else tuple(made for _, made in written)

    return run


def named_arguments(kernel: LaunchableKernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """An operator's arguments (the dispatcher leaves defaults out) as one value per parameter, constants decoded, None for outputs that are none."""
    positional = [p for p in kernel.parameters if p.kind != "out" and not p.keyword_only]
    given = {**{p.name: a for p, a in zip(positional, args, strict=False)}, **kwargs}
    called = out_names(kernel)
    values = []
    for p in kernel.parameters:
        if p.kind == "out":
            values.append(given.get(called[p.name]))
        elif p.name in given:
            values.append(decode_constant(p, given[p.name]) if p.kind == "const" else given[p.name])
        else:
            values.append(p.default)
    sizes = {name.removeprefix("size_"): v for name, v in kwargs.items() if name.startswith("size_")}
    dtypes = {name.removeprefix("dtype_"): v for name, v in kwargs.items() if name.startswith("dtype_")}
    if unsaid := free(kernel):
        told = Free(
            {n: sizes[n] for n in unsaid.sizes if n in sizes}, {n: dtypes[n] for n in unsaid.dtypes if n in dtypes}
        )
        if told:
            values[next(k for k, p in enumerate(kernel.parameters) if p.kind == "out")] = told
    return values


def told_of(values: Sequence[Any]) -> Free:
    """What a call is told of its outputs."""
    return next((v for v in values if isinstance(v, Free)), Free({}, {}))


def known_sizes(kernel: LaunchableKernel, values: Sequence[Any]) -> dict[str, Any]:
    """What the arguments say that symbols are: integers, or torch.SymInt where a trace has them."""
    known: dict[str, Any] = dict(told_of(values).sizes)
    for p, value in zip(kernel.parameters, values, strict=True):
        if p.kind == "scalar" and not isinstance(value, float):
            known.setdefault(p.name, value)
        elif isinstance(value, torch.Tensor):
            for size, have in zip(p.type.sizes, value.shape, strict=True):
                if size.symbol is not None:
                    known.setdefault(size.symbol, have)
    return known


def _size(size: Any, known: Mapping[str, Any]) -> Any:
    return size_text.evaluate(size.text(), known, torch.sym_min, torch.sym_max)


def empty_output(kernel: LaunchableKernel, p: Parameter, values: Sequence[Any]) -> torch.Tensor:
    """Memory for an output that is left out."""
    first = next(v for v in values if isinstance(v, torch.Tensor))
    known = known_sizes(kernel, values)
    return first.new_empty([_size(s, known) for s in p.type.sizes], dtype=output_dtype(kernel, p, values))


def output_dtype(kernel: LaunchableKernel, p: Parameter, values: Sequence[Any]) -> torch.dtype:
    """The dtype of an output that is left out."""
    dtype = p.type.dtype
    if isinstance(dtype, DTypeParameter):
        told = told_of(values).dtypes
        if dtype.name in told:
            return told[dtype.name]
        return next(
            v.dtype
            for q, v in zip(kernel.parameters, values, strict=True)
            if isinstance(q.type, TensorType) and q.type.dtype == dtype and isinstance(v, torch.Tensor)
        )
    return DTYPES[dtype.name]


def _fake(kernel: LaunchableKernel, written: Sequence[str], aliased: bool) -> Callable[..., Any]:
    def fake(*args: Any, **kwargs: Any) -> Any:
        values = named_arguments(kernel, args, kwargs)
        dtypes: dict[DTypeParameter, torch.dtype] = {}
        known: dict[str, Any] | None = None
        for p, value in zip(kernel.parameters, values, strict=True):
            if not isinstance(p.type, TensorType) or not isinstance(value, torch.Tensor):
                continue
            if value.dim() != len(p.type.sizes):
                raise RuntimeError(
                    f"{kernel.name}: {p.name} has {len(p.type.sizes)} dimensions, and the argument has {value.dim()}"
                )
            declared = p.type.dtype
            wanted = (
                dtypes.setdefault(declared, value.dtype)
                if isinstance(declared, DTypeParameter)
                else DTYPES[declared.name]
            )
            if value.dtype != wanted:
                raise RuntimeError(f"{kernel.name}: {p.name} has the dtype {wanted}, and the argument {value.dtype}")
        known = known_sizes(kernel, values)
        for p, value in zip(kernel.parameters, values, strict=True):
            if isinstance(p.type, TensorType) and isinstance(value, torch.Tensor):
                for d, (size, have) in enumerate(zip(p.type.sizes, value.shape, strict=True)):
                    torch._check(
                        have == _size(size, known),
                        lambda p=p, d=d, size=size, have=have: (
                            f"{kernel.name}: dimension {d} of {p.name} is {have}, and must be {size}"
                        ),
                    )
        results = []
        for p, value in zip(kernel.parameters, values, strict=True):
            if p.kind == "out" and (aliased or p.name not in written):
                results.append(value if aliased else empty_output(kernel, p, values))
        for p, value in zip(kernel.parameters, values, strict=True):
            if p.kind == "inout" and p.name not in written:
                results.append(torch.empty_like(value, memory_format=torch.contiguous_format))
        return results[0] if len(results) == 1 else tuple(results) if results else None

    return fake


# ----------------------------------------------------------------------------------------------------------------------
# Calls


@torch._dynamo.assume_constant_result
def _prepare(kernel: LaunchableKernel) -> int:
    operators_of(kernel)
    return 0


@torch._dynamo.assume_constant_result
def _encoded(kernel: LaunchableKernel, index: int, value: Any) -> Any:
    return encode_constant(kernel, kernel.parameters[index], value)


def call_in_trace(kernel: LaunchableKernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call that Dynamo traces: it sees the operator."""
    _prepare(kernel)
    return call_functional(kernel, cast(Any, kernel)._operators, kernel._bind(args, kwargs))


def call_functional(
    kernel: LaunchableKernel, operators: Operators, values: Sequence[Any], returns_outputs: bool = False
) -> Any:
    """The kernel's call by its operator; what it writes is copied to where it belongs. `values`: one per parameter. Returns the outputs that
    were allocated, or all (`returns_outputs`, as the overload `out` does)."""
    given = {}
    for k, p in enumerate(kernel.parameters):
        if p.kind == "const":
            given[p.name] = _encoded(kernel, k, values[k])
        elif p.kind != "out":
            given[p.name] = values[k]
    if operators.functional is None:
        for k, p in enumerate(kernel.parameters):
            if p.kind == "out":
                given[operators.out_names[p.name]] = values[k]
        operators.in_place(**given)
        return None
    for k in (*(k for k, _ in operators.free.sizes.values()), *operators.free.dtypes.values()):
        if values[k] is None:
            raise ValueError(
                f"{kernel.name}: {kernel.parameters[k].name} is not given, and no argument says what its size or dtype is"
            )
    for name, (k, d) in operators.free.sizes.items():
        given[f"size_{name}"] = values[k].shape[d]
    for name, k in operators.free.dtypes.items():
        given[f"dtype_{name}"] = values[k].dtype
    results = operators.functional(**given)
    return distribute(kernel, values, results if isinstance(results, (tuple, list)) else (results,), returns_outputs)


def call_operator(kernel: LaunchableKernel, values: Sequence[Any], keyset: Any = None) -> Any:
    """The functional operator on one value per parameter (None for outputs), as it is or below the keys that are not in `keyset`."""
    op = operators_of(kernel).functional
    args, kwargs = [], {}
    for p, value in zip(kernel.parameters, values, strict=True):
        if p.kind == "out":
            continue
        value = encode_constant(kernel, p, value) if p.kind == "const" else value
        if p.keyword_only:
            kwargs[p.name] = value
        else:
            args.append(value)
    told = told_of(values)
    kwargs.update({f"size_{name}": v for name, v in told.sizes.items()})
    kwargs.update({f"dtype_{name}": v for name, v in told.dtypes.items()})
    return op(*args, **kwargs) if keyset is None else op.redispatch(keyset, *args, **kwargs)


def distribute(
    kernel: LaunchableKernel, values: Sequence[Any], results: Sequence[torch.Tensor], returns_outputs: bool = False
) -> Any:
    """The functional operator's results to where a call wants them."""
    fresh = []
    k = 0
    for kind in ("out", "inout"):
        for p, value in zip(kernel.parameters, values, strict=True):
            if p.kind != kind:
                continue
            if value is None or (returns_outputs and kind == "out"):
                fresh.append(results[k] if value is None else value)
            if value is not None:
                if value.shape != results[k].shape or value.dtype != results[k].dtype:
                    raise ValueError(
                        f"{kernel.name}: {p.name} is {list(value.shape)} of {value.dtype}, "
                        f"and the kernel writes {list(results[k].shape)} of {results[k].dtype}"
                    )
                value.copy_(results[k])
            k += 1
    return None if not fresh else fresh[0] if len(fresh) == 1 else tuple(fresh)
