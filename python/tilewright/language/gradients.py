"""Gradients and vmap of kernels.

A kernel's gradient is what `kernel.backward(...)` declares, or, where the program has a whole-tensor form (whole.py), that form's; else a call with
inputs that require one is refused. vmap takes the whole-tensor form too, or gives the kernel one more axis (batching.py).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch._functorch.autograd_function import custom_function_call_vmap_helper
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from . import operators, whole
from .kernel import Kernel
from .parameters import NO_DEFAULT, Parameter

if TYPE_CHECKING:
    from .launch import LaunchableKernel

_PREFIXES = ("d", "d_", "grad_")

#: Computes gradients: (value by name, gradient by output's name) -> gradient by input's name.
Gradient = Callable[[Mapping[str, Any], Mapping[str, torch.Tensor]], Mapping[str, Any]]


def _gradient_of(name: str, names: Sequence[str]) -> str | None:
    """The parameter whose gradient `name` means."""
    return next((n for n in names if name in (f"{prefix}{n}" for prefix in _PREFIXES)), None)


def declared(kernel: LaunchableKernel, gradient: Callable[..., Any]) -> Gradient:
    """What `kernel.backward(gradient)` registers. Raises KernelError where a name means nothing."""
    outputs = [p.name for p in kernel.parameters if p.kind in ("out", "inout")]
    inputs = [p.name for p in kernel.parameters if p.kind in ("in", "inout")]
    values = [p.name for p in kernel.parameters]
    made: dict[str, str] = {}  # the gradient's output -> the input
    if isinstance(gradient, Kernel):
        parameters = [(p.name, p.default is not NO_DEFAULT) for p in gradient.parameters if p.kind != "out"]
        for p in gradient.parameters:
            if p.kind == "inout":
                kernel.fail(
                    f"the gradient {gradient.name} writes {p.name} in place",
                    None,
                    f"{p.name}: tw.In[...] and outputs tw.Out[...]",
                )
            target = _gradient_of(p.name, inputs) if p.kind == "out" else None
            if p.kind == "out" and target is None:
                _unknown(kernel, gradient.name, p.name, f"d{inputs[0]} for the gradient of {inputs[0]}")
            if target is not None:
                made[p.name] = target
    else:
        parameters = [(p.name, p.default is not p.empty) for p in inspect.signature(gradient).parameters.values()]
    title = getattr(gradient, "__name__", repr(gradient))
    taken: dict[str, tuple[str, str]] = {}
    for name, optional in parameters:
        output = _gradient_of(name, outputs)
        if name in values:
            taken[name] = ("value", name)
        elif output is not None:
            taken[name] = ("gradient", output)
        elif not optional:
            _unknown(
                kernel, title, name, f"d{outputs[0]} for the gradient of {outputs[0]}, or one of {', '.join(values)}"
            )

    def run(value: Mapping[str, Any], grads: Mapping[str, torch.Tensor]) -> Mapping[str, Any]:
        arguments = {n: value[of] if what == "value" else grads[of] for n, (what, of) in taken.items()}
        results = gradient(**arguments)
        if isinstance(gradient, Kernel):
            results = (results,) if isinstance(results, torch.Tensor) else results
            return dict(zip(made.values(), results, strict=True))
        if isinstance(results, Mapping):
            unknown = sorted(results.keys() - set(inputs))
            if unknown:
                raise ValueError(
                    f"{title}, the gradient of {kernel.name}, returns a gradient of {unknown[0]}, which is no tensor input"
                )
            return results
        results = (results,) if results is None or isinstance(results, torch.Tensor) else tuple(results)
        if len(results) != len(inputs):
            raise ValueError(
                f"{title}, the gradient of {kernel.name}, returns {len(results)} gradients for {len(inputs)} tensor inputs ({', '.join(inputs)})"
            )
        return dict(zip(inputs, results, strict=True))

    return run


def _unknown(kernel: LaunchableKernel, gradient: str, name: str, hint: str) -> None:
    kernel.fail(f"{name} of {gradient}, the gradient of {kernel.name}, means none of its parameters", None, hint)


# ----------------------------------------------------------------------------------------------------------------------
# The whole-tensor form


def results_of(kernel: LaunchableKernel, values: Sequence[Any]) -> list[torch.Tensor]:
    """The functional operator's results (outputs, then InOuts) by whole-tensor evaluation. Raises whole.NotWhole."""
    program = kernel._program_of(values)
    inputs = [v for p, v in zip(kernel.parameters, values, strict=True) if p.kind not in ("out", "const")]
    written = [p for p in kernel.parameters if p.kind in ("out", "inout")]
    found = zip(written, whole.evaluate(program, inputs, operators.told_of(values).sizes), strict=True)
    return [r for _, r in sorted(found, key=lambda item: item[0].kind == "inout")]


def _meta(value: Any) -> Any:
    """The same sizes without memory; for symbolic ones what they are now."""
    if isinstance(value, operators.Free):
        return operators.Free({n: _now(s) for n, s in value.sizes.items()}, value.dtypes)
    if not isinstance(value, torch.Tensor):
        return _now(value) if isinstance(value, torch.SymInt) else value
    return torch.empty([_now(s) for s in value.shape], dtype=value.dtype, device="meta")


def _now(size: Any) -> int:
    return size if isinstance(size, int) else size.node.hint if size.node.has_hint() else 8


def why_not_whole(kernel: LaunchableKernel, values: Sequence[Any]) -> str | None:
    """Why the specialisation that a call has is not of whole-tensor form, or None if it is."""
    return _whole_form(kernel, values)[0]


def whole_operators(kernel: LaunchableKernel, values: Sequence[Any]) -> frozenset[str]:
    """PyTorch's operators that the whole-tensor form consists of ("aten::add")."""
    return _whole_form(kernel, values)[1]


def _whole_form(kernel: LaunchableKernel, values: Sequence[Any]) -> tuple[str | None, frozenset[str]]:
    """Kept for each program."""
    program = kernel._program_of(values)
    known: dict[int, tuple[Any, str | None, frozenset[str]]] = kernel.__dict__.setdefault("_whole", {})
    found = known.get(id(program))
    if found is None or found[0] is not program:
        reason, names = None, _Names()
        with _disable_current_modes():  # whatever watches the call is not to see this
            meta = [_meta(v) for v in values]
            try:
                with names:
                    results_of(kernel, meta)
            except whole.NotWhole as error:
                reason = str(error)
        found = known[id(program)] = (program, reason, frozenset(names.seen))
    return found[1], found[2]


class _Names(TorchDispatchMode):
    """Notes the operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(func._schema.name)
        return func(*args, **(kwargs or {}))


# ----------------------------------------------------------------------------------------------------------------------
# Autograd


def _is_differentiable(p: Parameter, value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and p.kind in ("in", "inout")


def autograd(kernel: LaunchableKernel, writes: bool) -> Callable[..., Any]:
    """What runs where an input requires a gradient: (keyset, arguments of the operator) -> its results."""
    if writes:
        return functools.partial(_refuse_writing, kernel)

    def differentiated(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        values = operators.named_arguments(kernel, args, kwargs)
        if kernel._gradient is None:
            _require_gradient(kernel, values)
            if transformed(values):  # differentiated is what the kernel consists of
                results = results_of(kernel, values)
                return results[0] if len(results) == 1 else tuple(results)
        return function_of(kernel).apply(keyset, *values)

    return differentiated


def transformed(values: Sequence[Any]) -> bool:
    """Whether one of torch.func's transforms is active, or a value is a dual number."""
    return torch._C._functorch.peek_interpreter_stack() is not None or any(map(is_dual, values))


def is_dual(value: Any) -> bool:
    """Whether it is a tensor with a tangent (forward-mode differentiation)."""
    if forward_ad._current_level < 0 or not isinstance(value, torch.Tensor):
        return False
    return forward_ad.unpack_dual(value).tangent is not None


def _refuse_writing(kernel: LaunchableKernel, keyset: Any, *args: Any, **kwargs: Any) -> None:
    kernel.fail(
        "an argument requires a gradient, and this operator writes into its arguments",
        None,
        f"{kernel.name}(...) itself, the operator that returns its results, or torch.no_grad()",
    )


def call_transformed(kernel: LaunchableKernel, values: Sequence[Any]) -> list[torch.Tensor]:
    """The functional operator's results under torch.func's transforms, which do not see through operators."""
    if kernel._gradient is None and why_not_whole(kernel, values) is None:
        return results_of(kernel, values)
    if kernel._gradient is not None:
        results = function_of(kernel).apply(None, *values)
    else:
        results = operators.call_operator(kernel, values)
    return [results] if isinstance(results, torch.Tensor) else list(results)


def _require_gradient(kernel: LaunchableKernel, values: Sequence[Any]) -> None:
    """KernelError if there is none."""
    reason = why_not_whole(kernel, values)
    if reason is not None:
        names = [
            p.name
            for p, v in zip(kernel.parameters, values, strict=True)
            if isinstance(v, torch.Tensor) and (v.requires_grad or is_dual(v))
        ]
        p = next(p for p in kernel.parameters if p.name == names[0])
        kernel.fail(
            f"{names[0]} requires a gradient, and {kernel.name} has none: none was given by {kernel.name}.backward(...), and none can be derived, "
            f"since {reason}",
            p,
            f"{kernel.name}.backward(another_kernel), {names[0]}.detach(), or the call under torch.no_grad()",
        )


def function_of(kernel: LaunchableKernel) -> type[torch.autograd.Function]:
    """The kernel as a function that autograd and torch.func know: apply(keyset or None, one value per parameter)."""
    found = kernel.__dict__.get("_function")
    if found is None:
        found = kernel.__dict__["_function"] = _make_function(kernel)
    return found


def _make_function(kernel: LaunchableKernel) -> type[torch.autograd.Function]:
    parameters = kernel.parameters

    class Differentiated(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(keyset: Any, *values: Any) -> Any:
            if keyset is None:
                return operators.call_operator(kernel, values)
            with torch._C._AutoDispatchBelowAutograd():
                return operators.call_operator(kernel, values, keyset & torch._C._after_autograd_keyset)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            values = inputs[1:]
            results = (output,) if isinstance(output, torch.Tensor) else tuple(output)
            ctx.mark_non_differentiable(*(r for r in results if not r.is_floating_point()))
            saved = [v for v in values if isinstance(v, torch.Tensor)]
            ctx.tensors = [isinstance(v, torch.Tensor) for v in values]
            ctx.others = [None if isinstance(v, torch.Tensor) else v for v in values]
            ctx.save_for_backward(*saved, *(results if kernel._gradient is not None else ()))

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            saved = list(ctx.saved_tensors)
            values = [
                saved.pop(0) if is_tensor else other for is_tensor, other in zip(ctx.tensors, ctx.others, strict=True)
            ]
            wanted = [
                k for k, p in enumerate(parameters) if ctx.needs_input_grad[k + 1] and _is_differentiable(p, values[k])
            ]
            if kernel._gradient is not None:
                made = _declared_gradients(kernel, values, saved, grads)
            else:
                made = _derived_gradients(kernel, values, grads, wanted)
            results: list[Any] = [None] * (len(parameters) + 1)
            for k in wanted:
                name, value = parameters[k].name, values[k]
                results[k + 1] = gradient = made.get(name)
                if gradient is not None and (gradient.shape != value.shape or gradient.dtype != value.dtype):
                    raise ValueError(
                        f"{kernel.name}: the gradient of {name} is {list(gradient.shape)} of {gradient.dtype}, "
                        f"and {name} is {list(value.shape)} of {value.dtype}"
                    )
            return tuple(results)

    Differentiated.__name__ = Differentiated.__qualname__ = f"{kernel.name}_backward"
    return Differentiated


def _declared_gradients(
    kernel: LaunchableKernel, values: Sequence[Any], results: Sequence[Any], grads: Sequence[Any]
) -> Mapping[str, Any]:
    value = {p.name: v for p, v in zip(kernel.parameters, values, strict=True)}
    written = sorted((p for p in kernel.parameters if p.kind in ("out", "inout")), key=lambda p: p.kind == "inout")
    value.update({p.name: r for p, r in zip(written, results, strict=True) if p.kind == "out"})
    return kernel._gradient(value, {p.name: g for p, g in zip(written, grads, strict=True)})


def _derived_gradients(
    kernel: LaunchableKernel, values: Sequence[Any], grads: Sequence[Any], wanted: Sequence[int]
) -> Mapping[str, Any]:
    def forward(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = list(values)
        for k, value in zip(wanted, inputs, strict=True):
            given[k] = value
        return tuple(r for r in results_of(kernel, given) if r.is_floating_point())

    inputs = [values[k] for k in wanted]
    written = sorted((p for p in kernel.parameters if p.kind in ("out", "inout")), key=lambda p: p.kind == "inout")
    needed = tuple(g for p, g in zip(written, grads, strict=True) if g is not None and g.is_floating_point())
    pullback = torch.func.vjp(forward, *inputs)[1]
    return {kernel.parameters[k].name: g for k, g in zip(wanted, pullback(needed), strict=True)}


# ----------------------------------------------------------------------------------------------------------------------
# vmap


def vmap(kernel: LaunchableKernel) -> Callable[..., Any]:
    """The functional operator with batched arguments: PyTorch's batching rules of the operators that the whole-tensor form consists of, or the kernel with
    one more axis."""

    def batched(*args: Any, **kwargs: Any) -> Any:
        values = operators.named_arguments(kernel, args, kwargs)
        if why_not_whole(kernel, values) is None:
            results = results_of(kernel, values)
            return results[0] if len(results) == 1 else tuple(results)
        interpreter = cast(Any, retrieve_current_functorch_interpreter())
        op = operators.operators_of(kernel).functional
        return custom_function_call_vmap_helper(interpreter, functools.partial(_with_axis, kernel), op, *args, **kwargs)

    return batched


def _with_axis(kernel: LaunchableKernel, info: Any, in_dims: Sequence[int | None], *args: Any, **kwargs: Any) -> Any:
    """A batching rule: (results, their batch dimensions)."""
    from .batching import CannotBatch, batched_kernel

    values = operators.named_arguments(kernel, args, kwargs)
    positional = [k for k, p in enumerate(kernel.parameters) if p.kind != "out" and not p.keyword_only]
    dims = dict(zip(positional, in_dims, strict=False))
    for k, p in enumerate(kernel.parameters):
        if dims.get(k) is not None:
            values[k] = values[k].movedim(dims[k], 0)
        elif p.kind == "inout":
            values[k] = values[k].expand(info.batch_size, *values[k].shape)
    marked = tuple(p.kind in ("out", "inout") or dims.get(k) is not None for k, p in enumerate(kernel.parameters))
    other = batched_kernel(kernel, marked)
    try:
        other._program_of(values)
    except CannotBatch as error:
        kernel.fail(
            f"vmap of {kernel.name} is not possible: {error}",
            None,
            "loads inside of the parallel loop, or the batch as a dimension of the parameters",
        )
    results = operators.call_operator(other, values)
    return results, 0 if isinstance(results, torch.Tensor) else (0,) * len(results)
