"""`kernel.verify`: right kernels are not accused on any CPU level, and a wrong pass is found and named."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
from hand_written_programs import (
    collatz_program,
    flash_attention_program,
    gather_program,
    matmul_program,
    softmax_program,
)

import tilewright as tw
from tilewright import _C
from tilewright.language import verification
from tilewright.language.interpreter import DataError

M, N, K = tw.symbols("M N K")
T = tw.dtypes("T")

#: avx512bf16 needs no test machine: what the CPU cannot run is interpreted.
LEVELS = ["x86-64", "avx2", "avx512", "avx512bf16"]
NATIVE = _C.device_properties()["cpu_level"]
PASSES = [
    "tile-peel-tails",
    "tile-unroll",
    "tile-to-vector",
    "tile-lower-contract",
    "tile-lower-grid",
    "expand-math",
    "tile-to-llvm",
]
STAGES = ["tile", *PASSES, "machine code"]


@tw.kernel
def softmax(X: tw.In[T, M, N], Y: tw.Out[T, M, N]):
    for i in tw.parallel(M):
        x = X[i, :].to(tw.f32)
        e = tw.exp(x - tw.max(x, axis=1)[:, None])
        Y[i, :] = (e / tw.sum(e, axis=1)[:, None]).to(T)


@tw.kernel
def matmul_gelu(A: tw.In[T, M, K], B: tw.In[T, K, N], C: tw.Out[T, M, N]):
    for i, j in tw.parallel(M, N):
        acc = tw.zeros((i, j), tw.f32)
        for k in tw.range(K):
            acc += A[i, k] @ B[k, j]
        C[i, j] = (0.5 * acc * (1 + tw.erf(acc * 0.7071067811865476))).to(T)


@tw.kernel
def pick(X: tw.In[T, M, N], Index: tw.In[tw.i64, K], Y: tw.Out[T, K, N]):
    for k in tw.parallel(K, tile=3):
        Y[k, :] = X[Index[k], :]


@tw.kernel
def clamp_positive(X: tw.In[T, M, N], low: float, Y: tw.Out[T, M, N], Where: tw.Out[tw.bool_, M, N]):
    for i, j in tw.parallel(M, N):
        x = X[i, j].to(tw.f32)
        Y[i, j] = tw.where(x > low, x, 0.0).to(T)
        Where[i, j] = x > low


@tw.kernel
def divide(X: tw.In[tw.i32, N], Y: tw.In[tw.i32, N], Q: tw.Out[tw.i32, N], R: tw.Out[tw.i64, N]):
    for i in tw.parallel(N):
        Q[i] = X[i] // Y[i]
        R[i] = (X[i] % Y[i]).to(tw.i64)


def cases(dtype):
    generator = torch.Generator().manual_seed(0)
    normal = lambda *shape: torch.randn(*shape, generator=generator).to(dtype)  # noqa: E731
    return {
        "softmax": (softmax, (normal(5, 37),)),
        "matmul": (matmul_gelu, (normal(13, 20), normal(20, 35))),
        "matmul of transposed": (matmul_gelu, (normal(13, 20), normal(35, 20).T)),
        "gather": (pick, (normal(7, 19), torch.tensor([3, 0, 6, 6, 1]))),
        "where": (clamp_positive, (normal(6, 21), 0.25)),
    }


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["f32", "bf16", "f16"])
@pytest.mark.parametrize("name", list(cases(torch.float32)))
def test_right_kernels_are_not_accused(name, dtype, level):
    kernel, inputs = cases(dtype)[name]
    names = [p.name for p in kernel.parameters if p.kind != "out"]
    found = kernel.verify(**dict(zip(names, inputs, strict=True)), level=level)
    assert found, str(found)
    runs_here = LEVELS.index(level) <= LEVELS.index(NATIVE)
    assert found.level == level and found.machine == runs_here
    assert found.stages == (STAGES if runs_here else STAGES[:-1])
    exact = {r.stage for r in found.runs if r.equal == "bits"}
    assert {"tile-peel-tails", "tile-to-vector", "tile-lower-grid", "tile-to-llvm"} <= exact


@pytest.mark.parametrize("level", LEVELS)
def test_structured_programs_are_not_accused(level):
    q, k, v = torch.randn(3, 2, 13, 4).unbind(0)
    for program, arguments in (
        (softmax_program(), [torch.randn(17, 5), torch.empty(17, 5)]),
        (matmul_program("f32", "f32"), [torch.randn(6, 7), torch.randn(7, 9), torch.empty(6, 9)]),
        (flash_attention_program(True), [q, k, v, torch.empty(2, 13, 4)]),
        (flash_attention_program(False), [q, k, v, torch.empty(2, 13, 4)]),
        (gather_program(), [torch.randn(9, 4), torch.tensor([8, 0, 3], dtype=torch.int32), torch.empty(3, 4)]),
        (collatz_program(), [torch.tensor([27, 1, 6], dtype=torch.int32), torch.empty(3, dtype=torch.int64)]),
    ):
        found = verification.verify(program, arguments, level=level)
        assert found, f"{program['name']}: {found}"


def test_integers_take_the_same_bits_everywhere():
    x = torch.tensor([7, -7, 7, -7, 2**31 - 1], dtype=torch.int32)
    y = torch.tensor([2, 2, -2, -2, -1], dtype=torch.int32)
    found = divide.verify(x, y)
    assert found and {r.equal for r in found.runs} == {"bits"}


def test_arguments_are_not_written_and_may_be_strided_misaligned_empty_or_arrays():
    memory = torch.randn(11, 64)
    x, y = memory[1:6, 3:40], torch.full((5, 37), 7.0)
    before = memory.clone()
    assert softmax.verify(x, y)
    assert torch.equal(memory, before) and (y == 7).all()
    assert softmax.verify(memory.T[3:9])
    assert softmax.verify(torch.empty(0, 5)) and softmax.verify(torch.empty(5, 0))
    assert softmax.verify(np.ones((3, 4), np.float32))


def test_errors_of_data_are_raised():
    with pytest.raises(DataError, match="4"):
        pick.verify(torch.randn(4, 5), torch.tensor([1, 4, 0]))


def test_a_level_that_is_none_is_refused():
    with pytest.raises(ValueError, match="no CPU level 'sse9'"):
        softmax.verify(torch.randn(2, 3), level="sse9")


# ----------------------------------------------------------------------------------------------------------------------
# Wrong passes


def planted(after: str, number: int, arguments, level=None):
    program = softmax._program_of([*arguments, None])
    return verification.verify(program, softmax._with_outputs([*arguments, None]), level=level, fault=(after, number))


@pytest.mark.parametrize("after", ["tile", *PASSES])
def test_a_fault_planted_after_a_pass_is_found_there(after):
    """One constant or comparison is wrong. Some have no effect; what has one is told of this very pass."""
    arguments = [torch.randn(3, 21)]
    told = set()
    for number in range(0, 24, 2):
        try:
            found = planted(after, number, arguments)
        except IndexError:
            break  # there are not so many
        if not found:
            assert found.difference.stage == after, f"fault {number}: {found}"
            told.add(found.difference.kind)
            assert found.stages[-1] == after, "what comes after the difference is not run"
    assert "value" in told, f"no fault after {after} changed a value: {told}"


def test_a_wrong_value_is_told_with_its_place():
    arguments = [torch.randn(3, 21)]
    texts = []
    for number in range(40):
        try:
            found = planted("expand-math", number, arguments)
        except IndexError:
            break
        if not found and found.difference.kind == "value":
            difference = found.difference
            assert difference.buffer == "Y" and len(difference.index) == 2
            assert difference.previous == "tile-lower-grid" and difference.count >= 1
            texts.append(str(found))
    assert texts
    pattern = r"expand-math of \w+ differs from tile-lower-grid: Y\[\d+, \d+\] is \S+ before and \S+ after \(they may be \S+ apart\)"
    assert any(re.search(pattern, text) for text in texts), texts[0]


def test_the_report_is_json_and_the_text_is_readable():
    found = softmax.verify(torch.randn(3, 21))
    text = str(found)
    assert text.splitlines()[0] == f"kernel softmax for {NATIVE}"
    assert text.splitlines()[-1] == "every stage is right"
    assert re.search(r"tile-to-vector of \w+ +the same bits", text)
    program = softmax._program_of([torch.randn(3, 21), None])
    options = {"arguments": [{"sizes": [3, 21], "strides": [21, 1]}] * 2}
    x, y = torch.randn(3, 21), torch.empty(3, 21)
    report = json.loads(_C.verify_kernel(json.dumps(program), json.dumps(options), [x, y], [None, x.softmax(1)]))
    assert report["difference"] is None and report["version"] == 1
    wrong = json.loads(_C.verify_kernel(json.dumps(program), json.dumps(options), [x, y], [None, x.softmax(0)]))
    assert wrong["difference"]["stage"] == "tile" and wrong["difference"]["buffer"] == "Y"
    with pytest.raises(ValueError, match="2 arguments are described, 1 and 2 given"):
        _C.verify_kernel(json.dumps(program), json.dumps(options), [x], [None, y])
