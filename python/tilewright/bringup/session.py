"""What the steps share: the model on both sides, and which of its ways to run work."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ..stats import GraphStats
from .report import Report
from .spec import Loaded
from .trees import Inputs


@dataclass
class Options:
    tolerance: float | None = None
    batches: list[int] = field(default_factory=list)
    seconds: float = 4.0  # to measure each batch size
    search_seconds: float = 30.0  # to search the largest batch


class Session:
    def __init__(self, report: Report, options: Options) -> None:
        self.report, self.options = report, options
        self.loaded: Loaded | None = None
        self._npu_model: torch.nn.Module | None = None
        self._compiled: Callable[..., Any] | None = None
        self._cpu_example: Any = None
        self.npu_runs = False  # eager
        self.compiles = False
        self.graphs: list[GraphStats] = []  # of the compiled model's first call; later calls and steps compile others

    @property
    def tolerance(self) -> float | None:
        return self.options.tolerance

    @property
    def model(self) -> torch.nn.Module:
        """On the CPU, as loaded."""
        assert self.loaded is not None
        return self.loaded.model

    @property
    def example(self) -> Inputs:
        assert self.loaded is not None
        return self.loaded.example

    @property
    def npu_model(self) -> torch.nn.Module:
        if self._npu_model is None:
            self._npu_model = copy.deepcopy(self.model).to("npu")
        return self._npu_model

    @property
    def compiled(self) -> Callable[..., Any]:
        if self._compiled is None:
            self._compiled = torch.compile(self.npu_model, backend="tilewright")
        return self._compiled

    def batches(self) -> list[int]:
        """The sizes to measure: asked for, or the factory's, or some around the example's."""
        assert self.loaded is not None
        own = self.example.batch()
        if self.options.batches or self.loaded.batches:
            return sorted(set(self.options.batches or self.loaded.batches))
        return sorted({1, own, 4 * own}) if own else []

    def inputs(self, batch: int) -> Inputs:
        assert self.loaded is not None
        return self.loaded.make_inputs(batch)

    def cpu_example(self) -> Any:
        if self._cpu_example is None:
            self._cpu_example = self.example.call(self.model)
        return self._cpu_example

    def compiled_example(self) -> Any:
        result = self.example.to("npu").call(self.compiled)
        torch.npu.synchronize()  # type: ignore[attr-defined]
        return result
