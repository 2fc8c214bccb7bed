"""What each file of the gallery says of its kernels: `CASES`, which test/python/test_gallery.py and bench/kernels.py iterate over.

`load()` imports the files beside this one and returns their cases by name.
"""

from __future__ import annotations

import importlib.util
import pathlib
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)

_EDGES = [m + d for m in (4, 8, 16, 32, 64, 128, 256, 512, 1024) for d in (-1, 0, 1)]
_PRIMES = [p for p in range(2, 1100) if all(p % q for q in range(2, int(p**0.5) + 1))]


class Draw:
    """Random sizes and tensors; equal seeds draw equal ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)

    def size(self, limit: int = 300, least: int = 0, multiple: int = 1) -> int:
        """A size of least .. limit: an end, a prime, a neighbour of a power of two, or any, times `multiple`."""
        kinds = [[least, max(least, 1)], _PRIMES, _EDGES, range(least, limit // multiple + 1), [least, max(least, 1)]]
        fitting = [n for n in self.random.choice(kinds[:4]) if least <= n * multiple <= limit]
        return self.random.choice(fitting or [least]) * multiple

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> torch.Tensor:
        return (torch.randn(shape, generator=self.generator) * scale).to(dtype)

    def uniform(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """In [0, 1)."""
        return torch.rand(shape, generator=self.generator).to(dtype)

    def integers(self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """In low .. high - 1; no elements where there is none to choose."""
        if low >= high:
            return torch.zeros(shape, dtype=dtype)
        return torch.randint(low, high, shape, generator=self.generator).to(dtype)

    def bools(self, *shape: int, probability: float = 0.5) -> torch.Tensor:
        return torch.rand(shape, generator=self.generator) < probability

    def out(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Memory for an Out: what a kernel leaves unwritten is seen."""
        return torch.full(shape, float("nan") if dtype.is_floating_point else 77).to(dtype)


@dataclass(frozen=True)
class Case:
    """A kernel with what a test and a benchmark need.

    kernel: the `@tw.kernel`.
    sizes(draw): random sizes, as a dict, zero among them where the kernel takes it.
    arguments(draw, n, dtype): the kernel's arguments by name, outputs and constants too; n.M is the size "M".
    reference(a): outputs and InOuts after the call, by name, from the arguments a.X, whose float tensors are float64.
    dtypes: what `arguments` takes as dtype.
    tolerance: allowed error, in units of the output dtype's epsilon times (|expected| + the mean magnitude of the expected tensor + `floor`).
    bench: sizes for benchmarks; peer(a): the same by torch's own functions; flops(n): operations, for kernels that computing limits.
    """

    name: str
    kernel: Any
    sizes: Callable[[Draw], dict[str, int]]
    arguments: Callable[[Draw, SimpleNamespace, torch.dtype], dict[str, Any]]
    reference: Callable[[SimpleNamespace], dict[str, torch.Tensor]]
    dtypes: tuple[torch.dtype, ...] = (torch.float32,)
    tolerance: float = 16.0
    floor: float = 0.0
    bench: tuple[dict[str, int], ...] = ()
    peer: Callable[[SimpleNamespace], Any] | None = None
    flops: Callable[[SimpleNamespace], float] | None = None

    def draw(self, seed: int, dtype: torch.dtype, sizes: dict[str, int] | None = None) -> dict[str, Any]:
        """Arguments of random sizes, or of the given ones."""
        draw = Draw(seed)
        n = self.sizes(draw) if sizes is None else sizes
        return self.arguments(draw, SimpleNamespace(**n), dtype)

    def expected(self, arguments: dict[str, Any]) -> dict[str, torch.Tensor]:
        wide = {
            name: a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
            for name, a in arguments.items()
        }
        return self.reference(SimpleNamespace(**wide))

    def errors(self, expected: dict[str, torch.Tensor], actual: dict[str, torch.Tensor]) -> list[str]:
        """A line for each output that is wrong."""
        found = []
        for name, want in expected.items():
            got = actual[name]
            if got.shape != want.shape:
                found.append(f"{name}: shape {tuple(got.shape)}, expected {tuple(want.shape)}")
                continue
            if not got.is_floating_point():
                wrong = got != want.to(got.dtype)
            else:
                want = want.double()
                finite = want[want.isfinite()]
                typical = finite.abs().mean().item() if finite.numel() else 0.0
                allowed = self.tolerance * torch.finfo(got.dtype).eps * (want.abs() + typical + self.floor)
                got = got.double()
                close = (got - want).abs() <= allowed
                wrong = ~(close | (got == want) | (got.isnan() & want.isnan()))
            if wrong.any():
                at = tuple(wrong.nonzero()[0].tolist())
                found.append(
                    f"{name}: {int(wrong.sum())} of {wrong.numel()} elements are wrong; at {at} {got[at].item()!r}, expected {want[at].item()!r}"
                )
        return found


def load() -> dict[str, Case]:
    """The cases of every file of the gallery."""
    folder = pathlib.Path(__file__).parent
    sys.modules.setdefault("gallery", sys.modules[__name__])
    cases: dict[str, Case] = {}
    for file in sorted(folder.glob("*.py")):
        if file.stem == "gallery":
            continue
        name = f"tilewright_gallery_{file.stem}"
        module = sys.modules.get(name)
        if module is None:
            spec = importlib.util.spec_from_file_location(name, file)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
        for case in module.CASES:
            assert case.name not in cases, f"two cases are named {case.name}"
            cases[case.name] = case
    return cases
