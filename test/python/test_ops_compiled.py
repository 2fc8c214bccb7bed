"""Operators compiled one by one, with symbolic sizes, against PyTorch on CPU."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
import torch
from ops_harness import Call, describe, find_tool
from ops_samples import collect
from test_ops_import import UNDEFINED, values_agree

_C = pytest.importorskip("tilewright._C", reason="the extension is not built")


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    tool = find_tool()
    assert tool, "tilewright-ops is not built: ninja tilewright-ops"
    native = set(subprocess.run([tool], capture_output=True, text=True, check=True).stdout.split())
    found = collect(native, limit=2, counts={torch.float32: 2, torch.bfloat16: 1, torch.int64: 1, torch.bool: 1})
    return [call for name in sorted(found) for call in found[name]]


def _run(call: Call) -> list[torch.Tensor]:
    graph, _ = describe(call, symbolic=True)
    graph["outputs"] = [o for o in graph["outputs"] if o is not None]
    count = len(graph["outputs"])
    results: list[tuple[str, Any]] = [("tensor", i) for i in range(count)]
    inputs = list(range(len(call.inputs)))
    compiled = _C.compile_graph(json.dumps(graph), len(inputs), inputs, results, ["cpu"] * count, "cpu")
    return compiled(list(call.inputs))


def _complaint(call: Call) -> str | None:
    wanted = [r for r in call.results if r is not None]
    for k, (want, got) in enumerate(zip(wanted, _run(call), strict=True)):
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"result {k} is {got.dtype} {list(got.shape)}, not {want.dtype} {list(want.shape)}"
        if not call.name.startswith(UNDEFINED) and not values_agree(call, k, got, want):
            return f"result {k}:\n{got}\nis not\n{want}"
    return None


def test_compiled_operators_agree_with_pytorch(calls: list[Call]) -> None:
    complaints, compared = [], set()
    for call in calls:
        try:
            complaint = _complaint(call)
        except _C.CompileFailure as failure:
            report = json.loads(str(failure))
            if "no native code" in report["message"]:  # a use that the entry leaves to PyTorch
                continue
            complaint = f"{report['kind']}: {report['message']}"
        compared.add(call.name)
        if complaint is not None:
            complaints.append(f"{call}\n    {complaint}")
    assert not complaints, f"{len(complaints)} of {len(calls)} calls differ:\n" + "\n".join(complaints[:20])
    assert len(compared) > 300, f"only {len(compared)} operators were compared"
