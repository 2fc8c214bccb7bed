"""Every kernel of examples/kernels against float64: random sizes, contiguous and strided, all its dtypes, on each CPU level.

TILEWRIGHT_GALLERY_SIZES is the number of random sizes for each kernel and dtype.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
import sys
import zlib

import pytest
import torch

from tilewright import _C

_FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "kernels"
sys.path.insert(0, str(_FOLDER))
gallery = importlib.import_module("gallery")

CASES = gallery.load()
SIZES = int(os.environ.get("TILEWRIGHT_GALLERY_SIZES", "8"))
LEVELS = ("x86-64", "avx2", "avx512")
NATIVE = _C.device_properties()["cpu_level"]

WORK = [(name, dtype) for name, case in CASES.items() for dtype in case.dtypes]
IDS = [f"{name}-{str(dtype).removeprefix('torch.')}" for name, dtype in WORK]


def strided(x: torch.Tensor, seed: int) -> torch.Tensor:
    """The same elements, no dimension of which has stride 1: every second element of memory in another order of dimensions."""
    order = list(range(x.dim()))
    if seed % 2:
        order.reverse()
    memory = torch.zeros([x.shape[d] for d in order] + [2], dtype=x.dtype)
    view = memory[..., 1].permute([order.index(d) for d in range(x.dim())])
    view.copy_(x)
    return view


def run(case, arguments):
    case.kernel(**arguments)
    return {p.name: arguments[p.name] for p in case.kernel.parameters if p.kind in ("out", "inout")}


@pytest.mark.parametrize(("name", "dtype"), WORK, ids=IDS)
@pytest.mark.parametrize("layout", ["contiguous", "strided"])
def test_right(name, dtype, layout):
    case = CASES[name]
    case.kernel.clear()  # all dtypes in all layouts are more specialisations than a kernel keeps
    for number in range(SIZES):
        seed = zlib.crc32(f"{name} {dtype} {number}".encode())
        arguments = case.draw(seed, dtype)
        expected = case.expected({k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in arguments.items()})
        if layout == "strided":
            arguments = {k: strided(v, seed) if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
        wrong = case.errors(expected, run(case, arguments))
        shapes = {k: tuple(v.shape) if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
        assert not wrong, f"{name}, seed {seed}, {shapes}: " + "; ".join(wrong)


@pytest.mark.parametrize("level", LEVELS)
def test_right_on_cpu_level(level):
    if LEVELS.index(level) >= LEVELS.index(NATIVE.removesuffix("bf16")):
        pytest.skip(f"this machine has {NATIVE}, on which test_right runs")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", __file__, "-k", "test_right and not level"],
        env={**os.environ, "TILEWRIGHT_CPU": level, "TILEWRIGHT_GALLERY_SIZES": str(-(-SIZES // 4))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def tile_code(name):
    case = CASES[name]
    return case.kernel.ir("tile", **case.draw(1, case.dtypes[0], case.bench[0]))


def test_sums_of_columns_read_along_rows():
    for name in ("rms_norm_backward_weights", "layer_norm_backward_weights"):
        text = tile_code(name)
        assert "tile.load" in text and "strides [%" not in text, text


def test_what_is_updated_in_place_is_not_streamed():
    assert "tile.misalignment" in tile_code("add")
    assert "tile.misalignment" not in tile_code("adamw")


def test_transposes_gather_short_strips():
    text = tile_code("transpose")
    assert "strides [%" in text and "arith.constant 32 : index" in text and "arith.constant 4096 : index" not in text, (
        text
    )
