"""Calling kernels: specialisations, ahead-of-time compilation, checking, streams. What a warm call does is lib/Torch/KernelLaunch.cpp; it asks
here where a call is not plain (a new specialisation, arrays of NumPy, gradients) or wrong.
"""

from __future__ import annotations

import ast
import functools
import json
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, NoReturn, cast

import torch

from .. import switches
from ..dynamo.dtypes import DTYPE_NAMES, DTYPES
from . import arrays, gradients, operators, tuning
from .frontend_names import Capture
from .interpreter import Order
from .kernel import Kernel, Specialisation, _typed
from .parameters import NO_DEFAULT, Parameter, TensorSpec
from .source import KernelError
from .types import DType, DTypeParameter, ScalarType, TensorType

DEVICES = ("cpu", "npu")


class Compiled(NamedTuple):
    """One specialisation. `signature` is what `Kernel.program` takes; `fresh` names the outputs that the call allocates."""

    device: str
    signature: tuple[tuple[str, Any], ...]
    fresh: tuple[str, ...]
    program: dict[str, Any]
    graph: Any  # tilewright._C.CompiledGraph: report, seconds, cached, memory


class LaunchableKernel(Kernel):
    """A kernel that can be called.

    `kernel(A, B, C)` runs it on tensors of one device (cpu or npu) or arrays of NumPy, in the order of its parameters or by name. Outputs that
    are left out, or None, are allocated and returned: one, or a tuple; the others are written in place. On npu the call returns
    before the work is done, as every operator does. Raises KernelError (which points to the parameter) for arguments that do not fit.
    """

    #: Most specialisations (dtypes, layouts, device, constants) of one kernel. More are refused: see `_refuse_specialisation`.
    specialisation_limit = 64

    def __init__(
        self,
        function: Callable[..., Any],
        scope: Mapping[str, Any] | None = None,
        name: str | None = None,
        space: Mapping[str, Iterable[Any]] | None = None,
    ) -> None:
        super().__init__(function, scope)
        self.name = name or self.name
        if space is not None:
            self.parameters = tuning.declared(self, space)
        self.operator_name = operators.claim(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return operators.call_in_trace(self, args, kwargs)
        tuned = self._tuned
        if tuned is not None:
            try:
                more = tuned.remembered[tuned.key(*args, **kwargs)]
            except (KeyError, TypeError, AttributeError):
                more = tuned.constants(args, kwargs)
            return self._launcher(*args, **kwargs, **more)
        return self._launcher(*args, **kwargs)

    # -- what a user may ask ---------------------------------------------------------------------------------------------

    @property
    def specialisations(self) -> int:
        """How many specialisations there are now."""
        return self._launcher.count

    @functools.cached_property
    def compiled(self) -> list[Compiled]:
        """All that were compiled, in order; the last for a signature is the one in use."""
        return []

    @property
    def compile_count(self) -> int:
        """How many specialisations were compiled or fetched from the program cache since the kernel was defined."""
        return len(self.compiled)

    def clear(self) -> None:
        """Forgets all specialisations. Saved results of `tune` are read again."""
        self._launcher.clear()
        tuning.forget(self)

    def compile(self, *args: Any, device: str = "cpu", **kwargs: Any) -> Compiled:
        """Compiles for arguments of a kind, ahead of the first call.

        Takes what a call takes, but a dtype (torch's or tilewright's), a (dtype, layout) pair or a tensor stands for a tensor argument; sizes do not
        matter. Inputs that are left out are contiguous and of their declared dtype; outputs that are left out are such as the call allocates.
        Scalars may be left out.
        """
        if device not in DEVICES:
            raise ValueError(f"device {device!r}: kernels run on {' or '.join(DEVICES)}")
        described: list[Any] = []
        for p, value in zip(self.parameters, self._bind(args, kwargs, complete=False), strict=True):
            if p.kind in ("scalar", "const"):
                described.append(value if p.kind == "const" else None)
            elif value is None and p.kind == "out":
                described.append(None)
            elif value is None:
                if isinstance(p.type.dtype, DTypeParameter):
                    self.fail(
                        f"the dtype {p.type.dtype} of {p.name} is not given", p, f"{self.name}.compile({p.name}=tw.f32)"
                    )
                described.append((p.type.dtype.name, "contiguous"))
            else:
                if isinstance(value, torch.Tensor) and value.device.type in DEVICES:
                    device = value.device.type
                described.append(self._described(p, value))
        graph = self._launcher.prepare(device, described)
        return next(c for c in reversed(self.compiled) if c.graph is graph)

    def on(self, stream: Any) -> Callable[..., Any]:
        """The kernel, launched on a stream of npu: `kernel.on(stream)(A, B, C)`. As `with torch.npu.stream(stream):` does."""
        if getattr(stream, "device_type", None) is None and getattr(stream, "device", None) is None:
            raise TypeError(f"{self.name}.on takes a stream (torch.npu.Stream()), not {type(stream).__name__}")

        def launch(*args: Any, **kwargs: Any) -> Any:
            with cast(Any, torch).npu.stream(stream):
                return self(*args, **kwargs)

        return launch

    def check(
        self, *args: Any, tiles: int | Mapping[str, int] | None = None, order: Order = "row-major", **kwargs: Any
    ) -> list[Any]:
        """Runs the kernel in the interpreter on copies of the arguments and returns what is wrong (check.Finding), the first few of each kind."""
        from . import check

        values = self._converted(self._bind(args, kwargs))
        self._check_arguments(values)
        return check.check(self._program_of(values), self._with_outputs(values), tiles=tiles, order=order)

    def verify(self, *args: Any, level: str | None = None, **kwargs: Any) -> Any:
        """Runs the kernel after every pass of the compiler, on copies of the arguments; says which pass changes a value first, if one does, as
        verification.Verification. `level`: a CPU level other than this process's. Slow: for small arguments."""
        from . import verification

        values = self._converted(self._bind(args, kwargs))
        self._check_arguments(values)
        return verification.verify(self._program_of(values), self._with_outputs(values), level=level)

    # -- tuning --------------------------------------------------------------------------------------------------------------

    def tune(self, *args: Any, rounds: int = 7, **kwargs: Any) -> tuning.Tuning:
        """Measures a call for each member of the declared space, in turns, and keeps which is fastest for this machine, the dtypes and sizes of this
        kind. Takes what a call takes and leaves it unchanged; constants that are given stay as they are. Members that do not compile or give another result are
        told in a warning. The result is a tuning.Tuning: `best`, `members` with their seconds, `file`."""
        self._require_space("tune")
        return tuning.tune(self, args, kwargs, rounds)

    def tuned(self, *args: Any, **kwargs: Any) -> tuning.Choice:
        """Which constants of the declared space a call with these arguments uses and why, as a tuning.Choice: `constants`, `source` ("given", "saved" or
        "default"), `reason`."""
        self._require_space("tuned")
        return tuning.choice(self, args, kwargs)

    @functools.cached_property
    def _tuned(self) -> tuning.Tuned | None:
        """What chooses constants that calls leave out; None where nothing is saved, and defaults hold."""
        if not any(p.space for p in self.parameters) or not tuning.store_of(self).results:
            return None
        return tuning.Tuned(self)

    def _require_space(self, what: str) -> None:
        if not any(p.space for p in self.parameters):
            constant = next((p for p in self.parameters if p.kind == "const"), None)
            name = "BLOCK" if constant is None else constant.name
            self.fail(
                f"{self.name}.{what}: the kernel declares no space",
                constant,
                f'@tw.kernel(space={{"{name}": (32, 64, None)}}), where {name} is a tw.const',
            )

    # -- looking at it -----------------------------------------------------------------------------------------------------

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """What was decided and why, as an inspection.Explanation: tiles, bytes and operations, code, and with tensors which limit it meets.
        Takes what `compile` takes."""
        from . import inspection

        return inspection.explain(self, *args, **kwargs)

    def ir(self, stage: str, *args: Any, **kwargs: Any) -> str:
        """The kernel at a stage (inspection.STAGES) or after a pass (docs/tile-dialect.md). Takes what `compile` takes."""
        from . import inspection

        return inspection.ir(self, stage, *args, **kwargs)

    def asm(self, *args: Any, **kwargs: Any) -> str:
        """The assembly of all its launches. Takes what `compile` takes."""
        return self.ir("asm", *args, **kwargs)

    # -- gradients, operators ---------------------------------------------------------------------------------------------

    @property
    def op(self) -> Any:
        """The operator `torch.ops.tilewright_kernels.NAME`; registered at its first use. See operators.py for its overloads."""
        return operators.operators_of(self).packet

    def backward(self, gradient: Callable[..., Any]) -> Callable[..., Any]:
        """Registers what computes gradients: another kernel, or a Python function that calls some. May be used as a decorator.

        Arguments are found by name. `dY` (or `d_Y`, `grad_Y`) is the gradient of the output Y; the name of an input, output, scalar or constant is its
        value in the call. A kernel's outputs `dX` are gradients of the inputs X; a function returns a dict from names of
        inputs to gradients, or a tuple with one gradient (or None) per tensor input, in order. Gradients have their input's shape and dtype.
        """
        self._gradient = gradients.declared(self, gradient)
        return gradient

    _gradient: Any = None

    # -- copies ---------------------------------------------------------------------------------------------------------

    def __copy__(self) -> LaunchableKernel:
        return self

    def __deepcopy__(self, memo: Any) -> LaunchableKernel:
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        """By name, as functions are."""
        try:
            found = _by_name(self.function.__module__, self.function.__qualname__)
        except (ImportError, AttributeError):
            found = None
        if found is not self:
            raise pickle.PicklingError(
                f"the kernel {self.function.__qualname__} cannot be pickled: it is pickled by its name, and {self.function.__module__} has none of it; "
                "write it at the module's level"
            )
        return _by_name, (self.function.__module__, self.function.__qualname__)

    # -- the native half ---------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _launcher(self) -> Any:
        from .. import _C

        described = []
        for p in self.parameters:
            rank = len(p.type.sizes) if isinstance(p.type, TensorType) else 0
            default: tuple[Any, ...] = () if p.default is NO_DEFAULT else (p.default,)
            kind, low, high = p.kind, -(2**63), 2**63 - 1
            if isinstance(p.type, ScalarType):
                kind = scalar_kind(p.type)
                if kind == "float":
                    default = tuple(map(float, default))
                elif kind == "int":
                    low, high = _integer_range(p.type)
            described.append((kind, p.name, rank, p.keyword_only, default, low, high))
        return _C.KernelLauncher(self.name, described, self)

    def _compile_for(self, device: str, described: Sequence[Any]) -> tuple[Any, list[Any], Any]:
        """A new specialisation: per parameter (dtype, layout), None for outputs to be allocated and scalars, or a constant's value."""
        from .. import _C
        from ..dynamo.errors import error_from_report

        switches.check()
        signature, fresh = self._signature(described)
        if self._launcher.count >= self.specialisation_limit:
            self._refuse_specialisation()
        key = self.specialise(signature)
        program = self.program(key)
        params = [{**p, "fresh": True} if p["name"] in fresh else p for p in program["params"]]
        inputs = len(params) - len(fresh)
        try:
            graph = _C.compile_graph(
                json.dumps({**program, "params": params}),
                inputs,
                list(range(inputs)),
                [("tensor", k) for k in range(len(fresh))],
                [device] * len(fresh),
                device,
            )
        except _C.CompileFailure as failure:
            raise error_from_report(json.loads(str(failure))) from None
        self.compiled.append(Compiled(device, key, fresh, program, graph))
        guards, check = _guards(self.captures(key))
        return graph, guards, check

    def captures(self, key: Specialisation) -> Sequence[Capture]:
        """What the program of a specialisation has used from around the kernel."""
        return self._programs[_typed(key)][1]

    def _signature(self, described: Sequence[Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """What `program` takes, and the outputs that are to be allocated. KernelError where nothing says what they are."""
        signature: dict[str, Any] = {}
        fresh: list[str] = []
        dtypes: dict[str, str] = {}
        known: set[str] = set()
        for p, given in zip(self.parameters, described, strict=True):
            if p.kind == "const":
                signature[p.name] = given
            elif p.kind == "scalar":
                known.add(p.name)
            elif given is not None:
                signature[p.name] = TensorSpec(*given)
                if isinstance(p.type.dtype, DTypeParameter):
                    dtypes.setdefault(p.type.dtype.name, given[0])
                known.update(s.symbol for s in p.type.sizes if s.symbol is not None)
        for p, given in zip(self.parameters, described, strict=True):
            declared = p.type.dtype if isinstance(p.type, (TensorType, ScalarType)) else None
            if p.kind == "scalar" and isinstance(declared, DTypeParameter):
                if declared.name not in dtypes:
                    self.fail(
                        f"the dtype {declared.name} of the scalar {p.name} is given by no tensor",
                        p,
                        "tw.Scalar[tw.f32]",
                    )
                signature[p.name] = TensorSpec(dtypes[declared.name])
            if p.kind != "out" or given is not None:
                continue
            unknown = sorted({symbol for size in p.type.sizes for symbol in size.symbols()} - known)
            if unknown:
                self.fail(
                    f"{p.name} is not given, and no argument says what its size {unknown[0]} is",
                    p,
                    f"{self.name}(..., {p.name}=tensor)",
                )
            if isinstance(declared, DTypeParameter) and declared.name not in dtypes:
                self.fail(
                    f"{p.name} is not given, and no argument says what its dtype {declared} is",
                    p,
                    f"{self.name}(..., {p.name}=tensor)",
                )
            dtype = dtypes[declared.name] if isinstance(declared, DTypeParameter) else declared.name  # type: ignore[union-attr]
            signature[p.name] = TensorSpec(dtype)
            fresh.append(p.name)
        return signature, tuple(fresh)

    def _refuse_specialisation(self) -> NoReturn:
        values: dict[str, set[str]] = {}
        for c in self.compiled:
            for name, value in c.signature:
                values.setdefault(name, set()).add(str(value))
        name = max(values, key=lambda n: len(values[n]))
        p = next(p for p in self.parameters if p.name == name)
        self.fail(
            f"{self.name} has {self._launcher.count} specialisations, and a call asks for one more; {name} alone came as {len(values[name])} kinds",
            p,
            f"{name} as a run-time scalar (int, float)"
            if p.kind == "const"
            else "arguments of fewer dtypes and layouts, "
            f"or {self.name}.specialisation_limit = {2 * self.specialisation_limit}, or {self.name}.clear()",
        )

    # -- calls that are not plain ---------------------------------------------------------------------------------------

    def _call_slowly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = self._bind(args, kwargs)
        values = self._converted(given)
        as_arrays = any(map(arrays.is_array, given)) and not any(isinstance(v, torch.Tensor) for v in given)
        if switches.get("TILEWRIGHT_CHECK") == "1":
            self._check_arguments(values)
            self._check_call(values)
        results = self._run(values)
        if not as_arrays or results is None:
            return results
        like = next((v for v in given if arrays.is_array(v) and v.dtype.name == "bfloat16"), None)
        if isinstance(results, tuple):
            return tuple(arrays.array_of(r, like) for r in results)
        return arrays.array_of(results, like)

    def _run(self, values: list[Any]) -> Any:
        if not any(_is_transformed(v) for v in values):
            results = self._launcher.call_bound(values)
            if results is not NotImplemented:
                return results
        self._check_arguments(values)
        made = operators.operators_of(self)
        if made.functional is not None and gradients.transformed(values):
            inputs = [None if p.kind == "out" else v for p, v in zip(self.parameters, values, strict=True)]
            return operators.distribute(self, values, gradients.call_transformed(self, inputs))
        return operators.call_functional(self, made, values)

    def _check_call(self, values: Sequence[Any]) -> None:
        """TILEWRIGHT_CHECK: raises KernelCheckError if the interpreter finds something wrong with a call."""
        from . import check

        check.check_or_raise(self._program_of(values), self._with_outputs(values))

    def _bind(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], complete: bool = True, settled: bool = True
    ) -> list[Any]:
        """One value per parameter; None for outputs that are left out, and for others only if not `complete`. Tuned constants that are left out
        are what a call uses, or tuning.LEFT_OUT if not `settled`."""
        rest = dict(kwargs)
        values: list[Any] = []
        left_out = False
        positional = [p for p in self.parameters if not p.keyword_only]
        if len(args) > len(positional):
            self.fail(
                f"{self.name} takes {len(positional)} arguments by position, and {len(args)} are given",
                None,
                self._usage(),
            )
        for i, p in enumerate(self.parameters):
            if i < len(args) and not p.keyword_only:
                if p.name in rest:
                    self.fail(f"{p.name} is given twice, by position and by name", p, self._usage())
                value = args[i]
            elif p.name in rest:
                value = rest.pop(p.name)
            elif p.space:
                value, left_out = tuning.LEFT_OUT, True
            elif p.default is not NO_DEFAULT:
                value = p.default
            elif complete and p.kind != "out":
                self._converted(values)  # what stands in a wrong place is more to the point
                self.fail(f"{self.name} is called without {p.name}", p, self._usage())
            else:
                value = None
            values.append(value)
        if rest:
            self.fail(f"{self.name} has no parameter {min(rest)}", None, self._usage())
        return tuning.settle(self, values) if left_out and settled else values

    def _usage(self) -> str:
        return f"{self.name}({', '.join(p.name if p.default is NO_DEFAULT else f'{p.name}={p.default!r}' for p in self.parameters)})"

    def _converted(self, values: Sequence[Any]) -> list[Any]:
        """Arrays as tensors, numbers as Python's. Raises KernelError for what is neither. There may be fewer values than parameters."""
        result = []
        for p, value in zip(self.parameters, values, strict=False):
            if p.kind == "const":
                result.append(value)
            elif p.kind == "scalar":
                result.append(self._number(p, value))
            elif arrays.is_array(value):
                if p.kind != "in" and not value.flags.writeable:
                    self.fail(
                        f"{p.name} is written, and the array must not be",
                        p,
                        "an array that is its own, or array.copy()",
                    )
                try:
                    result.append(arrays.tensor_of(value))
                except ValueError as error:
                    self.fail(f"the array {p.name} cannot be used as it lies: {error}", p)
            elif isinstance(value, torch.Tensor) or (value is None and p.kind == "out"):
                result.append(value)
            else:
                what = "None" if value is None else f"a {type(value).__name__}"
                hint = (
                    "a tensor or an array"
                    if p.kind != "out"
                    else f"a tensor, None to have it allocated, or the arguments behind {p.name} by name"
                )
                self.fail(f"{p.name} is a tensor, and {what} is given", p, hint)
        return result

    def _number(self, p: Parameter, value: Any) -> int | float | bool:
        kind = scalar_kind(p.type)
        if arrays.is_number(value):
            value = value.item()
        if isinstance(value, torch.Tensor):
            self.fail(
                f"{p.name} is a number, and a tensor is given",
                p,
                f"{p.name}.item(), or a parameter {p.name}: tw.In[dtype]",
            )
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            value = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(value)](value)
        if not isinstance(value, (int, float)):
            self.fail(f"{p.name} is a number, and a {type(value).__name__} is given", p)
        if kind == "bool" and not isinstance(value, bool):
            self.fail(f"{p.name} is a bool, and {value!r} is given", p, "True or False")
        if kind == "int":
            if isinstance(value, float):
                self.fail(
                    f"{p.name} is an integer, and {value!r} is given", p, f"int(...), or a parameter {p.name}: float"
                )
            low, high = _integer_range(p.type)
            if high < value < 2**64 and p.type.dtype.name == "u64":
                self.fail(
                    f"{p.name} is {value}, and a scalar of u64 is given in 63 bits",
                    p,
                    f"a number in 0 .. {high}, or a tensor of no dimensions: {p.name}: tw.In[tw.u64]",
                )
            if not low <= value <= high:
                self.fail(
                    f"{p.name} is {value}, which {p.type.dtype.name} does not hold", p, f"a number in {low} .. {high}"
                )
        if kind == "bool":
            return value
        return float(value) if kind == "float" else int(value) if isinstance(value, int) else value

    def _check_arguments(self, values: Sequence[Any]) -> None:
        """Raises KernelError unless devices, dtypes, ranks and sizes fit the declaration."""
        device: tuple[str, str] | None = None
        signature: dict[str, Any] = {}
        ranks: dict[str, int] = {}
        for p, value in zip(self.parameters, values, strict=True):
            if p.kind == "const":
                signature[p.name] = value
            if p.kind in ("const", "scalar") or value is None:
                continue
            if (
                value.layout is not torch.strided
                or value.is_nested
                or value.is_quantized
                or value.is_conj()
                or value.is_neg()
            ):
                kind = (
                    "lazily conjugated or negated"
                    if value.is_conj() or value.is_neg()
                    else f"not dense ({value.layout})"
                )
                self.fail(
                    f"{p.name} is {kind}", p, "x.resolve_conj().resolve_neg()" if "lazily" in kind else "x.to_dense()"
                )
            found = value.device.type
            if found not in (*DEVICES, "meta"):
                self.fail(f"{p.name} is on {value.device}", p, "a tensor on cpu or npu")
            if device is not None and device[0] != found:
                self.fail(
                    f"{p.name} is on {found}, and {device[1]} on {device[0]}",
                    p,
                    f"all tensors on one device: {p.name}.to({device[0]!r})",
                )
            device = device or (found, p.name)
            ranks[p.name] = value.dim()
            signature[p.name] = self._described(p, value)
        if device is None:
            self.fail(f"{self.name} is called without a tensor, so nothing says where it runs", None, self._usage())
        described = [signature.get(p.name) for p in self.parameters]
        bound, _ = self._signature(described)
        self.specialise(bound, ranks)
        self._check_sizes(values)

    def _check_sizes(self, values: Sequence[Any]) -> None:
        known: dict[str, int] = {}
        source: dict[str, str] = {}
        for p, value in zip(self.parameters, values, strict=True):
            if p.kind == "scalar" and isinstance(value, int):
                known.setdefault(p.name, value)
            if not isinstance(p.type, TensorType) or value is None:
                continue
            for d, (size, have) in enumerate(zip(p.type.sizes, value.shape, strict=True)):
                if size.symbol is not None and size.symbol not in known:
                    known[size.symbol] = have
                    source[size.symbol] = f" (dimension {d} of {p.name})"
        for p, value in zip(self.parameters, values, strict=True):
            if not isinstance(p.type, TensorType) or value is None:
                continue
            for d, (size, have) in enumerate(zip(p.type.sizes, value.shape, strict=True)):
                missing = sorted(size.symbols() - known.keys())
                if missing:
                    self.fail(
                        f"no argument gives the size {missing[0]} of {p.name}",
                        p,
                        f"a parameter with the size {missing[0]} alone",
                    )
                wanted = size.evaluate(known)
                if have != wanted:
                    meaning = (
                        str(wanted)
                        if size.constant is not None
                        else f"{size} = {wanted}{source.get(size.symbol or '', '')}"
                    )
                    self.fail(
                        f"dimension {d} of {p.name} is {have}, and must be {meaning}",
                        p,
                        f"a tensor {p.type!r} of agreeing sizes",
                    )

    def _explain(self, values: Sequence[Any], text: str) -> NoReturn:
        """The runtime refuses a call, saying `text` if anything: what is wrong, in the kernel's words."""
        given = [None if v is None else v for v in values]
        self._check_arguments(given)
        text = text.split("\n")[0].removeprefix(f"{self.name}: ") or "the arguments do not fit the kernel"
        self.fail(text, None)

    def _refuse_overlap(self, tensors: Sequence[torch.Tensor | None]) -> None:
        """Called where memory may be shared: KernelError if an output shares some."""
        for i, (p, out) in enumerate(zip(self.parameters, tensors, strict=True)):
            if out is None or p.kind not in ("out", "inout") or out.numel() == 0:
                continue
            if not out.is_contiguous() and arrays.overlaps_itself(out):
                self.fail(
                    f"elements of the output {p.name} share memory",
                    p,
                    "a tensor that is not expanded: its .contiguous() copy",
                )
            for j, (other_p, other) in enumerate(zip(self.parameters, tensors, strict=True)):
                if i != j and other is not None and other.numel() and arrays.shares_memory(out, other):
                    self.fail(
                        f"the output {p.name} shares memory with {other_p.name}, and grid points run in any order",
                        p,
                        f"{p.name} with memory of its own, or one parameter tw.InOut[...] for both",
                    )

    def _described(self, p: Parameter, value: Any) -> tuple[str, str]:
        """(dtype, layout) of a tensor, an array, a dtype, or such a pair."""
        if isinstance(value, tuple) and len(value) == 2:
            return self._described(p, value[0])[0], value[1]
        if arrays.is_array(value):
            value = arrays.tensor_of(value)
        if isinstance(value, DType):
            return value.name, "contiguous"
        dtype = value if isinstance(value, torch.dtype) else getattr(value, "dtype", None)
        if isinstance(value, str) and value in DTYPES:
            return value, "contiguous"
        if dtype not in DTYPE_NAMES:
            self.fail(
                f"{p.name} is {value!r:.80}"
                if dtype is None
                else f"{p.name} has the dtype {dtype}, which kernels do not have",
                p,
                "tw.f32, torch.float32, or a tensor",
            )
        layout = "contiguous"
        if isinstance(value, torch.Tensor) and not value.is_contiguous():
            layout = "inner" if value.shape[-1] <= 1 or value.stride(-1) == 1 else "strided"
        return DTYPE_NAMES[dtype], layout

    def _program_of(self, values: Sequence[Any]) -> dict[str, Any]:
        return self.program(self._signature(self._described_call(values))[0])

    def _described_call(self, values: Sequence[Any], contiguous: bool = False) -> list[Any]:
        """What `_compile_for` takes, of one value per parameter. `contiguous`: as if all tensors were."""
        told = operators.told_of(values)
        described: list[Any] = []
        for p, value in zip(self.parameters, values, strict=True):
            if p.kind == "const":
                described.append(value)
            elif isinstance(value, torch.Tensor):
                dtype, layout = self._described(p, value)
                described.append((dtype, "contiguous" if contiguous else layout))
            elif p.kind == "out" and told:
                described.append((DTYPE_NAMES[operators.output_dtype(self, p, values)], "contiguous"))
            else:
                described.append(None)
        return described

    def _with_outputs(self, values: Sequence[Any]) -> list[Any]:
        """The arguments of the program: without constants, and with memory for outputs that are left out."""
        result = []
        for p, value in zip(self.parameters, values, strict=True):
            if p.kind == "const":
                continue
            if value is None:
                value = operators.empty_output(self, p, values)
            result.append(value)
        return result

    def _constant_of(self, index: int, value: Any) -> Any:
        """A constant as the operator's schema has it."""
        return operators.decode_constant(self.parameters[index], value)

    def fail(self, message: str, p: Parameter | None, hint: str = "") -> NoReturn:
        """Raises KernelError that points to a parameter, or to the kernel."""
        node: ast.AST = self.source.tree
        if p is not None:
            node = next(a for a in ast.walk(self.source.tree.args) if isinstance(a, ast.arg) and a.arg == p.name)
        raise self.source.error(message, node if p is not None else None, hint)


def _by_name(module: str, qualname: str) -> Any:
    import importlib

    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def scalar_kind(type_: ScalarType) -> str:
    """How the native half reads it: "int", "float", "bool", or "number" where a tensor's dtype decides."""
    if isinstance(type_.dtype, DTypeParameter):
        return "number"
    return "float" if type_.dtype.is_float else "bool" if type_.dtype.is_bool else "int"


def _integer_range(type_: ScalarType) -> tuple[int, int]:
    assert isinstance(type_.dtype, DType)
    bits = min(8 * type_.dtype.bytes, 63 if type_.dtype.kind == "uint" else 64)
    return (0, 2**bits - 1) if type_.dtype.kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _is_transformed(value: Any) -> bool:
    """Whether a tensor is more than memory: a subclass, or one whose gradient is wanted. The native half sees functorch's and modes."""
    if not isinstance(value, torch.Tensor):
        return False
    if gradients.is_dual(value) or (value.requires_grad and torch.is_grad_enabled()):
        return True
    return type(value) not in (torch.Tensor, torch.nn.Parameter)


def _guards(captures: Sequence[Capture]) -> tuple[list[tuple[Any, str, Any]], Callable[[], bool] | None]:
    """Captured values as the native half checks them at every call: (dict or cell, name, value); the rest in one function."""
    guards: list[tuple[Any, str, Any]] = []
    others = []
    for c in captures:
        if isinstance(c.holder, dict):
            guards.append((c.holder, c.name, c.value))
        elif isinstance(c.holder, FunctionType):
            cells = dict(zip(c.holder.__code__.co_freevars, c.holder.__closure__ or (), strict=True))
            guards.append((cells[c.name], c.name, c.value))
        elif isinstance(c.holder, ModuleType):
            guards.append((vars(c.holder), c.name, c.value))
        else:
            others.append(c)
    return guards, (lambda: all(c.unchanged() for c in others)) if others else None


__all__ = ["Compiled", "KernelError", "LaunchableKernel"]
