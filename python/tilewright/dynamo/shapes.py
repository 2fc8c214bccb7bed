"""When sizes become symbols.

Dynamo by itself compiles the first call with its sizes as constants and makes, at each later mismatch, only the dimensions symbolic that
differed: a model called with every batch and length needs three graphs and more. Our kernels do not depend on sizes, so nothing
is won by constants. Hence

* inference: the first graph already has symbolic sizes. When the first graph of a frame arrives with constant sizes, Dynamo's record of
  the frame (the one automatic dynamic shapes and PGO use) is told that all dimensions of its tensor inputs vary, and the frame
  is traced once more. Later calls trace once. 0 and 1 are always constants in PyTorch (broadcasting depends on them), so
  two free dimensions make at most four graphs.
* training: the first graph has constant sizes (tracing a joint graph symbolically is slow and batches rarely change), the second has all
  dimensions symbolic.
* a graph that cannot be compiled with symbolic sizes is traced again with constant ones and compiled per size; this is warned about once.
* `torch.compile(dynamic=False)` and `options={"dynamic_first": False}` are obeyed. Sizes that the model fixes (a linear layer's
  features) become constants again by Dynamo's guards. Ints and floats among the arguments are left to Dynamo.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch._dynamo import config, pgo
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._guards import TracingContext

from .errors import CompileError

# A local of the frame, or an element of containers that it holds; not what hangs on a module.
_ARGUMENT = re.compile(r"^L\['\w+'\](\[[^\]]*\]|\.[A-Za-z]\w*)*$")


class RetraceFrame(TensorifyScalarRestartAnalysis):
    """Asks Dynamo to trace the frame again. (The base class is the restart that Dynamo lets back ends raise.)"""


@dataclass
class TensorInput:
    name: str  # Dynamo's source, e.g. L['input_ids']
    sizes: tuple[int, ...]  # of this call
    symbolic: bool


def tensor_inputs(gm: torch.fx.GraphModule) -> list[TensorInput]:
    """The tensors among the arguments of the frame, parameters and buffers left out."""
    found = []
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            continue
        source = getattr(node, "_dynamo_source", None)
        value = node.meta.get("example_value")
        if source is None or not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
            continue
        if not _ARGUMENT.match(source.name) or value.dim() == 0:
            continue
        symbolic = any(isinstance(s, torch.SymInt) for s in value.size())
        found.append(TensorInput(source.name, tuple(_hint(s) for s in value.size()), symbolic))
    return found


def _hint(size: int | torch.SymInt) -> int:
    return size.node.hint if isinstance(size, torch.SymInt) else size


def prepare(gm: torch.fx.GraphModule, *, training: bool, dynamic_first: bool) -> None:
    """Called with each of Dynamo's graphs before it is compiled. Raises RetraceFrame if the frame is to be traced again."""
    if not config.automatic_dynamic_shapes or not config.assume_static_by_default:
        return  # dynamic=False, or dynamic=True: the user decided
    inputs = tensor_inputs(gm)
    if not inputs or any(i.symbolic for i in inputs) or _is_static_frame(inputs):
        return
    marked = [entry for i in inputs for entry in _entries(i) if _mark_dynamic(entry, i)]
    # A size of 1 stays constant however often the frame is traced.
    varies = any(size > 1 for i in inputs for size in i.sizes)
    if marked and varies and dynamic_first and not training:
        _restart("sizes of the inputs made symbolic")


def retrace_static(gm: torch.fx.GraphModule, error: CompileError) -> None:
    """A graph with symbolic sizes was refused: raises RetraceFrame with constant ones where that can help, else returns."""
    inputs = tensor_inputs(gm)
    if (
        not config.automatic_dynamic_shapes
        or not config.assume_static_by_default
        or not any(i.symbolic for i in inputs)
    ):
        return
    entries = [(entry, i) for i in inputs for entry in _entries(i, symbolic=True)]
    if not entries:
        return
    for entry, i in entries:
        entry.size = i.sizes
        entry.excluded_sizes = None
        _static.add(id(entry))
        _kept.append(entry)
    _pending.append(str(error))
    _restart("symbolic sizes refused")


def compiled() -> None:
    """A graph was compiled. If that is because its sizes are constants now, this is the moment to say so."""
    while _pending:
        message = _pending.pop()
        if message not in _warned:
            _warned.add(message)
            text = (
                f"{message}\n  The graph was compiled with constant sizes instead, and will be for each set of sizes."
            )
            warnings.warn(text, RuntimeWarning, stacklevel=3)


def refused() -> None:
    """A graph was refused for good."""
    _pending.clear()


# Records of frames that are compiled per size. They are kept alive so that the ids stay theirs.
_static: set[int] = set()
_kept: list[Any] = []
_pending: list[str] = []
_warned: set[str] = set()


def _is_static_frame(inputs: Sequence[TensorInput]) -> bool:
    return any(id(entry) in _static for i in inputs for entry in _entries(i))


def _entries(tensor: TensorInput, symbolic: bool = False) -> list[Any]:
    """Dynamo's records of this input: they stand under the code that first used it, the frame's or that of an inlined function."""
    traced = {(c.co_filename, c.co_firstlineno, c.co_name) for c in TracingContext.get_traced_code() or ()}
    found = []
    for code, state in pgo.get_code_state().items():
        if (code.filename, code.firstlineno, code.name) not in traced or tensor.name not in state.automatic_dynamic:
            continue
        entry = state.automatic_dynamic[tensor.name]
        if not isinstance(entry.size, tuple) or len(entry.size) != len(tensor.sizes):
            continue
        same = all(
            have is pgo.auto_dynamic or have == size for have, size in zip(entry.size, tensor.sizes, strict=True)
        )
        if same and (symbolic or any(type(s) is int for s in entry.size)):
            found.append(entry)
    return found


def _mark_dynamic(entry: Any, tensor: TensorInput) -> bool:
    before = copy.copy(entry.size)
    entry.size = tuple(pgo.auto_dynamic for _ in tensor.sizes)
    entry.excluded_sizes = None
    return before != entry.size


def _restart(reason: str) -> None:
    from torch._dynamo.symbolic_convert import InstructionTranslator

    tx = InstructionTranslator.current_tx()
    tx.speculation_log.clear()  # with symbols the trace may take other graph breaks
    raise RetraceFrame(restart_reason=f"tilewright: {reason}")
