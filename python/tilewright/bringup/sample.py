"""Steps load and sample: the model, and one call of it on the CPU and on npu."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import torch

from .failure import ExitCode, while_running
from .session import Session
from .spec import load
from .trees import tensors_of


def load_model(session: Session, spec: str) -> dict[str, Any]:
    start = time.perf_counter()
    session.loaded = load(spec)
    model = session.model
    parameters = list(model.parameters())
    return {
        "seconds": time.perf_counter() - start,
        "class": f"{type(model).__module__}.{type(model).__qualname__}",
        "modules": sum(1 for _ in model.modules()),
        "module_types": dict(
            Counter(type(m).__name__ for m in model.modules() if not list(m.children())).most_common(12)
        ),
        "parameters": sum(p.numel() for p in parameters),
        "weight_bytes": weight_bytes(model),
        "dtypes": dict(Counter(str(p.dtype).removeprefix("torch.") for p in parameters)),
        "inputs": session.example.describe(),
        "batches": session.batches(),
    }


def weight_bytes(model: torch.nn.Module) -> int:
    """Parameters and buffers, each memory once (tied weights share theirs)."""
    storages = {
        t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in [*model.parameters(), *model.buffers()]
    }
    return sum(storages.values())


def single_sample(session: Session) -> dict[str, Any]:
    """Raises BringupError if the model does not run on the CPU, or does not fit npu; a failure of npu eager is reported, and the rest goes on."""
    result: dict[str, Any] = {}
    start = time.perf_counter()
    try:
        outputs = session.cpu_example()
    except Exception as error:
        raise while_running(error, "eager on the CPU", ExitCode.CPU_RUN) from error
    result["cpu_seconds"] = time.perf_counter() - start
    result["outputs"] = [
        {"name": f"output{path}", "shape": list(t.shape), "dtype": str(t.dtype).removeprefix("torch.")}
        for path, t in tensors_of(outputs)
    ]
    where = "moving the model to npu"
    try:
        _ = session.npu_model
        where = "npu eager"
        start = time.perf_counter()
        session.example.to("npu").call(session.npu_model)
        torch.npu.synchronize()  # type: ignore[attr-defined]
        result["npu_seconds"] = time.perf_counter() - start
        session.npu_runs = True
    except Exception as error:
        failure = while_running(error, where, ExitCode.NPU_RUN)
        if where != "npu eager" or failure.code == ExitCode.OUT_OF_MEMORY:
            raise failure from error
        session.report.fail(failure, "sample")
    return result
