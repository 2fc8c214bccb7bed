"""The machine and the software: what the native command found, and what torch says."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from typing import Any

import torch

import tilewright

from .failure import BringupError, ExitCode


def environment(probe_file: str | None) -> dict[str, Any]:
    """Raises BringupError if npu is not our device."""
    result: dict[str, Any] = {"python": platform.python_version(), "executable": sys.executable}
    if probe_file is not None:
        with open(probe_file, encoding="utf-8") as file:
            result["probe"] = json.load(file)
    npu = getattr(torch, "npu", None)
    if npu is None or not getattr(npu, "__name__", "").startswith("tilewright"):
        raise BringupError(
            ExitCode.ENVIRONMENT,
            "the device npu is not Tilewright's",
            sys.executable,
            "Another package has the slot for such devices, or TILEWRIGHT_DEVICE=off: see TILEWRIGHT_DEVICE in docs/switches.md",
        )
    properties = npu.get_device_properties()
    result |= {
        "tilewright": tilewright.__version__,
        "torch": str(torch.__version__),
        "device": properties.name,
        "cpu_level": properties.cpu_level,
        "vector_bits": properties.vector_bits,
        "npu_threads": properties.multi_processor_count,
        "cpu_threads": torch.get_num_threads(),
        "memory_limit_bytes": npu.mem_get_info()[1],
        "packages": {name: version for name in ("numpy", "transformers", "safetensors") if (version := _version(name))},
    }
    return result


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
