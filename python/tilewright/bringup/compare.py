"""How far a tensor is from its float64 reference."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

#: Largest |error| / largest |reference| of a layer that is taken for rounding. About 1000 units of the dtype's precision for float32:
#: a sum of n rounded products errs by up to n units (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1), typically by sqrt(n),
#: and layers add up. 16-bit types: few units, since sums are kept in float32.
TOLERANCE: dict[torch.dtype, float] = {
    torch.float64: 1e-10,
    torch.float32: 1e-4,
    torch.float16: 1e-2,
    torch.bfloat16: 5e-2,
}
#: An error within this factor of eager CPU's own error in the same dtype comes from the model, not from npu.
CPU_FACTOR = 4.0

#: (bits of the fraction, smallest normal exponent): IEEE 754-2019, table 3.5; bfloat16 has binary32's exponents.
_FORMATS = {torch.float64: (52, -1022), torch.float32: (23, -126), torch.float16: (10, -14), torch.bfloat16: (7, -126)}

_QUANTILES = (0.5, 0.9, 0.99)
_SAMPLE = 1 << 16  # elements that quantiles are taken from, evenly spaced; maxima see all


@dataclass
class Difference:
    """`relative`: max_abs / largest |reference|. ULP: |error| in units of the last place of the reference in `dtype`."""

    dtype: str
    max_abs: float
    mean_abs: float
    relative: float
    scale: float  # largest finite |reference|
    ulp: dict[str, float] | None  # p50, p90, p99, max; None for types that are compared exactly
    not_finite: int  # elements that are NaN or infinite where the reference is not, or differ where it is infinite
    elements: int
    nan: int  # elements that are NaN, also where the reference is

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def ulp_of(reference: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance of neighbouring numbers of `dtype` at each element of a float64 tensor; at 0 and below the normal numbers
    that of the denormals."""
    fraction, least = _FORMATS[dtype]
    exponent = torch.frexp(reference).exponent - 1  # frexp's fraction lies in [0.5, 1)
    exponent = torch.where(reference == 0, least, exponent).clamp(min=least)
    return torch.ldexp(torch.ones_like(reference), exponent - fraction)


def difference(found: torch.Tensor, reference: torch.Tensor) -> Difference:
    """`found` in the model's dtype, `reference` in float64 (or an integer type), both on cpu and of one shape."""
    name = str(found.dtype).removeprefix("torch.")
    if found.shape != reference.shape:
        raise ValueError(f"the result has the shape {list(found.shape)}, the reference {list(reference.shape)}")
    if found.is_complex():
        found, reference = torch.view_as_real(found), torch.view_as_real(reference)
    if found.numel() == 0:
        return Difference(name, 0.0, 0.0, 0.0, 0.0, None, 0, 0, 0)
    dtype, exact = found.dtype, reference.to(torch.float64)
    mine = found.to(torch.float64)
    finite = torch.isfinite(exact)
    both = finite & torch.isfinite(mine)
    bad = nan = 0
    if bool(both.all()):  # the usual case, without copies
        exact_part, mine_part = exact.flatten(), mine.flatten()
        scale = _largest(exact_part)
    else:
        exact_part, mine_part = exact[both], mine[both]
        scale = _largest(exact[finite])
        same_special = ~finite & ((mine == exact) | (mine.isnan() & exact.isnan()))
        bad, nan = int((~(both | same_special)).sum()), int(mine.isnan().sum())
    error = (mine_part - exact_part).abs()
    largest = math.nan if bad else _largest(error)
    relative = largest / scale if scale > 0 else (0.0 if largest == 0 else math.nan if bad else math.inf)
    ulp = None
    if dtype in _FORMATS and error.numel():
        units = error / ulp_of(exact_part, dtype)
        sample = units[:: max(1, math.ceil(units.numel() / _SAMPLE))]
        points = torch.quantile(sample, torch.tensor(_QUANTILES, dtype=torch.float64)).tolist()
        ulp = {f"p{round(q * 100)}": p for q, p in zip(_QUANTILES, points, strict=True)}
        ulp["max"] = float(units.max())
    mean = float(error.mean()) if error.numel() else 0.0
    return Difference(name, largest, mean, relative, scale, ulp, bad, found.numel(), nan)


def _largest(values: torch.Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0


def worst(parts: list[Difference]) -> Difference:
    """Of a layer's several results the one that is farthest off."""
    return max(parts, key=lambda d: (d.not_finite > 0, math.inf if math.isnan(d.relative) else d.relative))


def beyond(found: Difference, cpu: Difference | None, tolerance: float | None) -> bool:
    """Whether an error is more than rounding explains. `cpu`: eager CPU's own error in the same dtype."""
    if found.not_finite:
        return not (cpu and cpu.not_finite)
    dtype = getattr(torch, found.dtype)
    limit = tolerance if tolerance is not None else TOLERANCE.get(dtype, 0.0)
    if not found.relative > limit:
        return False
    return cpu is None or not found.max_abs <= CPU_FACTOR * cpu.max_abs
