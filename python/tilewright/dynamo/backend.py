"""From one of Dynamo's graphs to compiled forward and backward graphs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import exceptions_allowed_to_be_fallback
from torch._guards import CompileContext, TracingContext

from .. import switches
from ..stats import GraphStats, recorder
from . import shapes
from .compiler import build
from .decompositions import with_kernels
from .errors import CompileError, UnsupportedError
from .graph import GraphDescription, describe
from .rewrites import rewrite

#: Makes the callable that runs a graph: takes a list of arguments, returns the list of results.
Builder = Callable[[GraphDescription, str, GraphStats], Callable[[list[Any]], Sequence[Any]]]

# torch.compile's modes tune Inductor; they are accepted so that a script need not change, and have no effect.
_MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclass(frozen=True)
class Options:
    """torch.compile(..., options={...})."""

    dynamic_first: bool = True  # see shapes.py

    @staticmethod
    def of(mode: str | None, options: dict[str, Any] | None) -> Options:
        if mode not in _MODES:
            raise CompileError(f"mode {mode!r} is unknown", hint=f"use one of {', '.join(map(str, _MODES[1:]))}")
        known = {"dynamic_first": bool}
        for key, value in (options or {}).items():
            if key not in known:
                raise CompileError(f"option {key!r} is unknown", hint=f"use one of {', '.join(known)}")
            if not isinstance(value, known[key]):
                raise CompileError(f"option {key!r} is {value!r}", hint=f"give a {known[key].__name__}")
        return Options(**(options or {}))


def compile_dynamo_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    builder: Builder = build,
) -> Callable[..., Any]:
    """What `torch.compile(backend="tilewright")` calls. `builder` is exchanged by tests."""
    chosen = Options.of(mode, options)
    switches.check()
    context = CompileContext.try_get()
    compile_id = str(context.compile_id) if context is not None and context.compile_id is not None else "?"
    recorder.compile_ids.add(compile_id)
    inputs = [n.meta.get("example_value") for n in gm.graph.nodes if n.op == "placeholder"]
    training = torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in inputs)
    shapes.prepare(gm, training=training, dynamic_first=chosen.dynamic_first)

    with recorder.phase("prepare"):
        rewrite(gm)
        table = with_kernels()
    name = _name(gm)

    def compiler(kind: str) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
        def compile_aot_graph(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
            return _compile(graph, name=name, kind=kind, compile_id=compile_id, builder=builder)

        return compile_aot_graph

    aot = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=table,
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    try:
        run = aot(gm, example_inputs)
    except UnsupportedError as error:
        shapes.retrace_static(gm, error)
        shapes.refused()
        raise
    except exceptions_allowed_to_be_fallback as error:
        # Dynamo would take these for a wish to run the graph eagerly.
        raise UnsupportedError(
            f"an operator whose result depends on data or that has no shape rule: {error}",
            hint="keep it out of the compiled function (torch.compiler.disable), or register a fake implementation for it",
        ) from error
    shapes.compiled()
    return run


def _compile(
    graph: torch.fx.GraphModule, *, name: str, kind: str, compile_id: str, builder: Builder
) -> Callable[[list[Any]], Sequence[Any]]:
    stats = GraphStats(name, kind, compile_id, device="?", nodes=0, symbols=0)
    with recorder.phase("describe", stats):
        description = describe(graph, name=f"{name}.{kind}", roles=_roles(graph, kind))
        text = json.dumps(description.json)
    stats.device = description.device
    stats.nodes, stats.symbols = len(description.operators), len(description.json["symbols"])
    run = builder(description, text, stats)
    stats.executable = run
    with recorder.lock:
        recorder.graphs.append(stats)
    if not getattr(run, "_boxed_call", False):
        raise TypeError("a builder's callable takes its arguments as one list and says so by _boxed_call")
    return run


def _name(gm: torch.fx.GraphModule) -> str:
    """The compiled function's name, for profiles and reports."""
    context = TracingContext.try_get()
    if context is not None:
        from torch._dynamo.symbolic_convert import InstructionTranslator

        try:
            return InstructionTranslator.current_tx().f_code.co_qualname
        except AttributeError:  # not called by Dynamo
            pass
    return type(gm).__name__


def _roles(graph: torch.fx.GraphModule, kind: str) -> dict[int, str]:
    """Which arguments are parameters or buffers. The backward graph calls what it saved by the forward graph's names (primals_N)."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return {}
    static = set(metadata.static_input_indices)
    names = [n.name for n in graph.graph.nodes if n.op == "placeholder"]
    if kind != "backward":
        return {i: "parameter" for i in range(len(names)) if i in static}
    return {
        i: "parameter"
        for i, name in enumerate(names)
        if name.startswith("primals_")
        and name[len("primals_") :].isdigit()
        and int(name[len("primals_") :]) - 1 in static
    }
