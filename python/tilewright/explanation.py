"""`tilewright.explain(fn, *args)`: what the compiler made of a function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from .stats import GraphStats, recorder


@dataclass
class GraphExplanation:
    """One graph: what was fused, what runs through PyTorch and why, kernels and memory."""

    name: str
    kind: str
    device: str
    operators: int
    symbols: int
    groups: list[dict[str, Any]]
    islands: list[dict[str, Any]]
    kernels_built: int
    kernels_reused: int
    memory: dict[str, int]
    report: dict[str, Any]  # everything the compiler said

    def __str__(self) -> str:
        lines = [
            f"{self.name} ({self.kind}) on {self.device}: {self.operators} operators, {self.symbols} symbolic sizes"
        ]
        lines.append(f"  {len(self.groups)} groups; kernels: {self.kernels_built} built, {self.kernels_reused} reused")
        lines += [f"    {_line(group)}" for group in self.groups]
        if self.islands:
            lines.append(f"  {len(self.islands)} islands, run through PyTorch:")
            for island in self.islands:
                where = f" at {island['source']}" if island.get("source") else ""
                lines.append(f"    {island.get('op')}{where}: {island.get('reason')}")
        else:
            lines.append("  no islands: everything is native")
        if self.memory:
            lines.append(
                "  memory: " + ", ".join(f"{k.removesuffix('_bytes')} {v:,} bytes" for k, v in self.memory.items())
            )
        return "\n".join(lines)


def _line(group: dict[str, Any]) -> str:
    text = f"{group.get('kernel', '?')}: {', '.join(map(str, group.get('ops', [])))}"
    return text + (f"  [{group['source']}]" if group.get("source") else "")


@dataclass
class Explanation:
    graphs: list[GraphExplanation] = field(default_factory=list)
    graph_breaks: list[str] = field(default_factory=list)
    result: Any = None

    @property
    def islands(self) -> list[dict[str, Any]]:
        return [island for graph in self.graphs for island in graph.islands]

    def to_dict(self) -> dict[str, Any]:
        return {"graphs": [vars(graph) for graph in self.graphs], "graph_breaks": list(self.graph_breaks)}

    def __str__(self) -> str:
        lines = [str(graph) for graph in self.graphs]
        if not self.graphs:
            lines.append("no graph was compiled: the function has no tensor operators, or Dynamo skips it")
        if self.graph_breaks:
            lines.append(f"{len(self.graph_breaks)} graph breaks (Python runs between the graphs):")
            lines += [f"  {reason}" for reason in self.graph_breaks]
        return "\n".join(lines)


def explain(fn: Any, *args: Any, backend: Any = "tilewright", **kwargs: Any) -> Explanation:
    """Compiles `fn` (a function or module, compiled or not) for these arguments, calls it once, and says what became of it.

    The call is a real one: in-place operators change the arguments. Backward graphs are listed where the call itself made them
    (PyTorch compiles them with the forward graph if no size is symbolic). Errors of compiling are raised as they are.
    """
    import torch._dynamo
    from torch._dynamo.utils import counters

    original = getattr(fn, "_orig_mod", None) or getattr(fn, "_torchdynamo_orig_callable", None) or fn
    call = original.forward if isinstance(original, torch.nn.Module) and not _has_hooks(original) else original
    torch._dynamo.reset_code_caches()  # what was compiled before is compiled again, so that it is seen
    breaks_before = dict(counters["graph_break"])
    with recorder.lock:
        first = len(recorder.graphs)
    compiled = torch.compile(lambda *a, **k: call(*a, **k), backend=backend)
    result = compiled(*args, **kwargs)
    with recorder.lock:
        graphs = recorder.graphs[first:]
    breaks = [r for r, n in counters["graph_break"].items() if n > breaks_before.get(r, 0)]
    return Explanation([_explain(graph) for graph in graphs], [b.strip().splitlines()[0] for b in breaks], result)


def _has_hooks(module: torch.nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _explain(graph: GraphStats) -> GraphExplanation:
    memory = dict(graph.report.get("memory", {}))
    memory.update(getattr(graph.executable, "memory", None) or {})
    return GraphExplanation(
        name=graph.name,
        kind=graph.kind,
        device=graph.device,
        operators=graph.nodes,
        symbols=graph.symbols,
        groups=[step for step in graph.report.get("steps", []) if "island" not in step],
        islands=graph.islands,
        kernels_built=graph.kernels_built,
        kernels_reused=graph.kernels_reused,
        memory=memory,
        report=graph.report,
    )
