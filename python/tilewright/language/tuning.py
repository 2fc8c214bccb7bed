"""Tuning: the compile-time constants for which a kernel declares a space, measured by `kernel.tune` and looked up by calls (docs/language.md)."""

from __future__ import annotations

import contextlib
import itertools
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..dynamo.dtypes import DTYPE_NAMES
from . import arrays
from .parameters import NO_DEFAULT, Parameter
from .source import KernelError
from .tuning_store import CallKey, Saved, Store, stable
from .types import DTypeParameter, ScalarType, TensorType

if TYPE_CHECKING:
    from .launch import LaunchableKernel

#: One turn of a measurement takes at least so long, unless it has this many calls.
TURN_SECONDS, TURN_CALLS = 2e-4, 100
#: Results of two members may differ by this many units of rounding, of the coarsest dtype in the call and relative to the typical element.
TOLERANCE = 256
#: Calls of which the choice is remembered by their exact sizes.
REMEMBERED = 1024


class _LeftOut:
    def __repr__(self) -> str:
        return "left out"


#: What stands in bound arguments for a tuned constant that a call leaves out.
LEFT_OUT = _LeftOut()


# -- declaration -------------------------------------------------------------------------------------------------------


def declared(kernel: LaunchableKernel, space: Mapping[str, Iterable[Any]]) -> tuple[Parameter, ...]:
    """The kernel's parameters with their spaces and defaults. KernelError for a space that does not fit them."""
    by_name = {p.name: p for p in kernel.parameters}
    for name, members in space.items():
        p = by_name.get(name)
        if p is None or p.kind != "const":
            constants = [q.name for q in kernel.parameters if q.kind == "const"]
            kernel.fail(
                f"the space has {name}, which is no compile-time constant of {kernel.name}",
                p,
                f"{name}: tw.const" if p is not None or not constants else ", ".join(constants),
            )
        members = tuple(members)
        if not members:
            kernel.fail(f"the space of {name} is empty", p, f'space={{"{name}": (32, 64, None)}}')
        for value in members:
            try:
                hash(value)
            except TypeError:
                kernel.fail(
                    f"the space of {name} has a {type(value).__name__}, which is not hashable",
                    p,
                    "tuples, numbers or strings",
                )
        if len({stable(v) for v in members}) < len(members):
            kernel.fail(f"the space of {name} has a value twice", p, "each value once")
        default = members[0] if p.default is NO_DEFAULT else p.default
        if stable(default) not in map(stable, members):
            kernel.fail(
                f"the default {default!r} of {name} is not in its space", p, f"one of {', '.join(map(repr, members))}"
            )
        by_name[name] = replace(p, default=default, space=members)
    return tuple(by_name.values())


# -- what a call uses --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """The tuned constants that a call uses. `source` is "saved", "default" or "given" (all of them in the call)."""

    constants: dict[str, Any]
    source: str
    reason: str

    def __str__(self) -> str:
        return f"{_shown(self.constants)}: {self.reason}"


def _shown(constants: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in constants.items())


def store_of(kernel: LaunchableKernel) -> Store:
    """The kernel's results, read at first use."""
    found: Store | None = kernel.__dict__.get("_tuning_store")
    if found is None:
        found = kernel.__dict__["_tuning_store"] = Store(kernel)
    return found


def forget(kernel: LaunchableKernel) -> None:
    """What is known of results; the next call reads them again."""
    kernel.__dict__.pop("_tuning_store", None)
    kernel.__dict__.pop("_tuned", None)


def _class_of(n: Any) -> int:
    """By comparisons, which is what a trace with symbolic sizes can guard."""
    k = 0
    while n > 1 << k:
        k += 1
    return k


def _sizes_and_dtypes(
    parameters: Sequence[Parameter], values: Sequence[Any]
) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, str], ...]] | None:
    """The classes of a call's sizes and its dtypes; None where the arguments do not say them."""
    sizes: dict[str, int] = {}
    dtypes: dict[str, str] = {}
    wanted: set[str] = set()
    for p, value in zip(parameters, values, strict=True):
        if not isinstance(p.type, TensorType):
            continue
        wanted |= {name for size in p.type.sizes for name in size.symbols()}
        if not isinstance(value, torch.Tensor) or value.dim() != len(p.type.sizes):
            continue
        for d, size in enumerate(p.type.sizes):
            if size.symbol is not None and size.symbol not in sizes:
                sizes[size.symbol] = _class_of(value.shape[d])
        if isinstance(p.type.dtype, DTypeParameter) and value.dtype in DTYPE_NAMES:
            dtypes.setdefault(p.type.dtype.name, DTYPE_NAMES[value.dtype])
    for p, value in zip(parameters, values, strict=True):
        if isinstance(p.type, ScalarType) and p.name in wanted and p.name not in sizes and value is not None:
            sizes[p.name] = _class_of(value)
    if wanted - sizes.keys():
        return None
    return tuple(sorted(sizes.items())), tuple(sorted(dtypes.items()))


def call_key(kernel: LaunchableKernel, values: Sequence[Any]) -> CallKey | None:
    """The key of a call with bound values, of which tuned constants may be LEFT_OUT; None where sizes are not known."""
    values = [arrays.tensor_of(v) if arrays.is_array(v) else v for v in values]
    known = _sizes_and_dtypes(kernel.parameters, values)
    if known is None:
        return None
    pairs = zip(kernel.parameters, values, strict=True)
    constants = tuple((p.name, stable(v)) for p, v in pairs if p.kind == "const" and v is not LEFT_OUT)
    return CallKey(*known, constants)


def saved_for(kernel: LaunchableKernel, values: Sequence[Any]) -> Saved | None:
    results = store_of(kernel).results
    key = call_key(kernel, values) if results else None
    return None if key is None else results.get(key.text())


def settle(kernel: LaunchableKernel, values: list[Any]) -> list[Any]:
    """Bound values, with a value for each tuned constant that is left out: the saved one, else the default."""
    if torch.compiler.is_dynamo_compiling():
        return _settle_in_trace(kernel, values)
    saved = saved_for(kernel, values)
    return with_constants(kernel, values, {} if saved is None else saved.constants)


def with_constants(kernel: LaunchableKernel, values: Sequence[Any], constants: Mapping[str, Any]) -> list[Any]:
    """The values with constants in the place of those that are left out, which have their default if they are not named."""
    return [
        constants.get(p.name, p.default) if v is LEFT_OUT else v for p, v in zip(kernel.parameters, values, strict=True)
    ]


@torch._dynamo.assume_constant_result
def _has_results(kernel: LaunchableKernel) -> bool:
    return bool(store_of(kernel).results)


@torch._dynamo.assume_constant_result
def _look_up(kernel: LaunchableKernel, sizes: Any, dtypes: Any, given: Any) -> Any:
    """Per parameter in order: the constant, of those that are not in `given`; None if nothing is saved."""
    key = CallKey(sizes, dtypes, tuple((name, stable(v)) for name, v in given))
    saved = store_of(kernel).results.get(key.text())
    chosen = {} if saved is None else saved.constants
    return tuple(chosen.get(p.name, p.default) if p.space else None for p in kernel.parameters)


def _settle_in_trace(kernel: LaunchableKernel, values: list[Any]) -> list[Any]:
    """In a trace of Dynamo: what is saved is looked up while tracing, and symbolic sizes are guarded only where something is."""
    known = _sizes_and_dtypes(kernel.parameters, values) if _has_results(kernel) else None
    if known is None:
        return with_constants(kernel, values, {})
    pairs = zip(kernel.parameters, values, strict=True)
    given = tuple((p.name, v) for p, v in pairs if p.kind == "const" and v is not LEFT_OUT)
    constants = _look_up(kernel, known[0], known[1], given)
    return [c if v is LEFT_OUT else v for c, v in zip(constants, values, strict=True)]


class Tuned:
    """The choice for calls of a kernel that has saved results, remembered by exact sizes so that a warm call finds it quickly."""

    def __init__(self, kernel: LaunchableKernel) -> None:
        self.kernel = kernel
        self.remembered: dict[Any, dict[str, Any]] = {}
        self.key = _fast_key(kernel.parameters)

    def constants(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The tuned constants that a call leaves out; the next call of its sizes finds them in `remembered`."""
        bound = self.kernel._bind(args, kwargs, complete=False, settled=False)
        settled = settle(self.kernel, bound)
        pairs = zip(self.kernel.parameters, bound, settled, strict=True)
        found = {p.name: after for p, before, after in pairs if before is LEFT_OUT}
        if len(self.remembered) >= REMEMBERED:
            self.remembered.clear()
        with contextlib.suppress(
            TypeError, AttributeError
        ):  # a wrong call, or a constant that is not hashable: the launcher says so
            self.remembered[self.key(*args, **kwargs)] = found
        return found


def _fast_key(parameters: Sequence[Parameter]) -> Callable[..., Any]:
    """A function of a call's arguments: the shapes, dtypes and constants that decide, of as few arguments as say them."""
    items: list[str] = []
    sizes: set[str] = set()
    dtypes: set[str] = set()
    for p in sorted(parameters, key=lambda p: p.kind == "out"):  # outputs may be left out
        if p.kind == "const":
            items.append(p.name if p.space else f"__type({p.name}), {p.name}")
        elif isinstance(p.type, TensorType):
            new = {size.symbol for size in p.type.sizes if size.symbol is not None} - sizes
            if new:
                items.append(f"{p.name}.shape")
                sizes |= new
            if isinstance(p.type.dtype, DTypeParameter) and p.type.dtype.name not in dtypes:
                items.append(f"{p.name}.dtype")
                dtypes.add(p.type.dtype.name)
    wanted = {name for p in parameters if isinstance(p.type, TensorType) for s in p.type.sizes for name in s.symbols()}
    items += [p.name for p in parameters if p.kind == "scalar" and p.name in wanted - sizes]
    names = [f"{p.name}={'__left_out' if p.space else '__none'}" for p in parameters]
    scope = {"__left_out": LEFT_OUT, "__none": None, "__type": type}
    return eval(f"lambda {', '.join(names)}: ({', '.join(items)},)", scope)


def choice(kernel: LaunchableKernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Choice:
    """What `kernel.tuned` says."""
    values = kernel._bind(args, kwargs, complete=False, settled=False)
    open_ = [p for p, v in zip(kernel.parameters, values, strict=True) if v is LEFT_OUT]
    key = call_key(kernel, values)
    saved = store_of(kernel).results.get(key.text()) if key is not None else None
    settled = with_constants(kernel, values, {} if saved is None else saved.constants)
    constants = {p.name: v for p, v in zip(kernel.parameters, settled, strict=True) if p.space}
    if not open_:
        return Choice(constants, "given", "given in the call")
    if saved is not None:
        where = f", saved in {saved.file}" if saved.file is not None else ", in this process"
        return Choice(constants, "saved", f"tuned for {key}: {saved.seconds * 1e3:.4g} ms{where}")
    why = "sizes are not known" if key is None else f"nothing is saved for {key} on this machine"
    return Choice(constants, "default", f"the default, since {why}")


# -- measuring ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """A member of the space: seconds of a call (the median of the turns), or why it is out of question."""

    constants: dict[str, Any]
    seconds: float | None
    refused: str = ""


@dataclass(frozen=True)
class Tuning:
    """What `kernel.tune` has measured. `file` is where the result is kept; None: in this process only."""

    kernel: str
    best: dict[str, Any]
    members: tuple[Member, ...]
    call: CallKey
    file: Path | None

    def __str__(self) -> str:
        lines = [f"{self.kernel}, {self.call}:"]
        for m in sorted(self.members, key=lambda m: math.inf if m.seconds is None else m.seconds):
            told = m.refused if m.seconds is None else f"{m.seconds * 1e3:.4g} ms"
            lines.append(f"  {_shown(m.constants)}: {told}{' (best)' if m.constants == self.best else ''}")
        return "\n".join(lines)


class _Trial:
    """One member on copies of what it writes. Its specialisation is not the kernel's, which has a limit for them."""

    def __init__(self, kernel: LaunchableKernel, values: Sequence[Any], constants: dict[str, Any]) -> None:
        self.constants = constants
        self.kernel = object.__new__(type(kernel))
        kept = {k: v for k, v in kernel.__dict__.items() if k not in ("_launcher", "compiled", "_programs")}
        self.kernel.__dict__.update(kept, _programs={})
        self.values = with_constants(kernel, values, constants)
        #: (copy, original) of what calls begin with
        self.updated: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.written: list[tuple[str, torch.Tensor]] = []
        self.turns: list[float] = []
        for k, (p, value) in enumerate(zip(kernel.parameters, self.values, strict=True)):
            if not isinstance(value, torch.Tensor):
                continue
            self.values[k] = value = value.detach()
            if p.kind in ("out", "inout"):
                self.values[k] = _copied(value)
                self.written.append((p.name, self.values[k]))
                if p.kind == "inout":
                    self.updated.append((self.values[k], value))

    def run(self) -> Any:
        result = self.kernel._launcher.call_bound(self.values)
        if result is NotImplemented:
            self.kernel.fail(
                "tune takes plain tensors or arrays, outside of torch.func's transforms",
                None,
                f"{self.kernel.name}.tune(x.detach())",
            )
        if any(isinstance(v, torch.Tensor) and v.device.type == "npu" for v in self.values):
            torch.npu.synchronize()  # type: ignore[attr-defined]
        return result

    def restore(self) -> None:
        for copy, original in self.updated:
            copy.copy_(original)

    def results(self) -> list[tuple[str, torch.Tensor]]:
        """All that a call writes, by name."""
        self.restore()
        returned = self.run()
        fresh = [
            p.name for p, v in zip(self.kernel.parameters, self.values, strict=True) if p.kind == "out" and v is None
        ]
        returned = returned if isinstance(returned, tuple) else (returned,)
        made = list(zip(fresh, returned, strict=True)) if fresh else []
        return [(name, t.detach().cpu().clone()) for name, t in (*self.written, *made)]


def _copied(x: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides."""
    if x.numel() == 0:
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    copy = torch.empty(extent, dtype=x.dtype, device=x.device).as_strided(x.shape, x.stride())
    return copy.copy_(x)


def seconds_of(trial: _Trial, calls: int) -> float:
    """One turn: seconds of a call, as the mean of so many."""
    total = 0.0
    for _ in range(calls):
        trial.restore()
        start = time.perf_counter()
        trial.run()
        total += time.perf_counter() - start
    return total / calls


def tune(kernel: LaunchableKernel, args: Sequence[Any], kwargs: Mapping[str, Any], rounds: int) -> Tuning:
    """What `kernel.tune` does."""
    from ..dynamo.errors import CompileError

    if torch.compiler.is_compiling():
        raise RuntimeError(f"{kernel.name}.tune measures: it cannot be called in what torch.compile compiles")
    if rounds < 1:
        raise ValueError(f"{kernel.name}.tune with {rounds} rounds: at least one is needed")
    values = kernel._bind(args, kwargs, settled=False)
    open_ = [p for p, v in zip(kernel.parameters, values, strict=True) if v is LEFT_OUT]
    if not open_:
        named = ", ".join(p.name for p in kernel.parameters if p.space)
        kernel.fail(
            f"{kernel.name}.tune is given {named}: nothing is left to choose",
            None,
            "a call without a constant that is to be tuned",
        )
    values = kernel._converted(values)
    kernel._check_arguments(with_constants(kernel, values, {}))
    key = call_key(kernel, values)
    assert key is not None, "checked arguments say all sizes"
    defaults = {p.name: p.default for p in open_}
    space = [dict(zip(defaults, member, strict=True)) for member in itertools.product(*(p.space for p in open_))]
    space.sort(key=lambda member: member != defaults)  # stable: the default first, which the others are compared with

    refused: dict[int, str] = {}
    trials: list[tuple[int, _Trial]] = []
    wanted: list[tuple[str, torch.Tensor]] | None = None
    first_error: Exception | None = None
    with torch.no_grad():
        for k, constants in enumerate(space):
            trial = _Trial(kernel, values, constants)
            try:
                results = trial.results()
            except (KernelError, CompileError) as error:
                first_error = first_error or error
                refused[k] = f"it does not compile: {str(error).splitlines()[0]}"
                continue
            except Exception as error:
                error.add_note(f"while {kernel.name}.tune ran it with {_shown(constants)}")
                raise
            if wanted is None:
                wanted, reference = results, constants
            elif difference := _difference(wanted, results, values):
                refused[k] = f"its result is not that of {_shown(reference)}: {difference}"
                continue
            trials.append((k, trial))
        if not trials:
            assert first_error is not None
            raise first_error
        for k, why in refused.items():
            warnings.warn(
                f"tilewright: {kernel.name} with {_shown(space[k])} is not measured: {why}",
                RuntimeWarning,
                stacklevel=3,
            )
        calls = max(1, min(TURN_CALLS, math.ceil(TURN_SECONDS / max(seconds_of(trials[0][1], 1), 1e-9))))
        for turn in range(rounds):
            for n in range(len(trials)):
                trial = trials[(n + turn) % len(trials)][1]
                trial.turns.append(seconds_of(trial, calls))
    medians = {k: statistics.median(trial.turns) for k, trial in trials}
    best = min(medians, key=lambda k: medians[k])
    saved = store_of(kernel).save(key, space[best], medians[best])
    kernel.__dict__["_tuned"] = Tuned(kernel)
    members = tuple(Member(constants, medians.get(k), refused.get(k, "")) for k, constants in enumerate(space))
    return Tuning(kernel.name, space[best], members, key, saved.file)


def _difference(
    wanted: Sequence[tuple[str, torch.Tensor]], got: Sequence[tuple[str, torch.Tensor]], values: Sequence[Any]
) -> str:
    """Where two results differ by more than rounding; "" if nowhere."""
    floats = [
        t.dtype for t in (*values, *(t for _, t in wanted)) if isinstance(t, torch.Tensor) and t.is_floating_point()
    ]
    unit = max((torch.finfo(d).eps for d in floats), default=0.0)
    for (name, a), (_, b) in zip(wanted, got, strict=True):
        if torch.equal(a, b):
            continue
        if a.is_floating_point():
            x, y = a.double(), b.double()
            finite = x[x.isfinite()].abs()
            typical = finite.mean().item() if finite.numel() else 0.0
            same = (x - y).abs() <= TOLERANCE * unit * (x.abs() + typical)
            wrong = ~(same | (x == y) | (x.isnan() & y.isnan()))
        else:
            wrong = a != b
        if wrong.any():
            at = tuple(wrong.nonzero()[0].tolist())
            return f"{name}{list(at)} is {b[at].item()!r} instead of {a[at].item()!r}"
    return ""
