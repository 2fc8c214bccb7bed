"""What `kernel.explain`, `kernel.ir`, `kernel.asm` and `tilewright kernel show` say."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch

import tilewright as tw
from tilewright.language import inspection

M, N, K = tw.symbols("M N K")
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/kernels"


@tw.kernel
def scale(X: tw.In[tw.f32, M, N], Y: tw.Out[tw.f32, M, N]):
    for i in tw.parallel(M):
        Y[i, :] = X[i, :] * 2.0


@tw.kernel
def running_maximum(X: tw.In[tw.f32, M, N], Y: tw.Out[tw.f32, M]):
    for i in tw.parallel(M):
        m = tw.full((i,), -1.0, tw.f32)
        for j in tw.range(N, tile=32):
            m = tw.maximum(m * 0.5, tw.max(X[i, j], axis=1))
        Y[i] = m


def test_explain_says_how_a_kernel_was_compiled():
    text = str(scale.explain())
    assert "raised to loop nests" in text
    assert re.search(r"vectors of (16|32|64) bytes, \d+ instructions, 0 vector spills", text)
    assert "give tensors" in text
    structured = str(running_maximum.explain())
    assert "test_language_inspection.py" in structured.split("more than loop nests:")[1].splitlines()[1]
    assert "for j" in structured and "by 32" in structured and "scratch" in structured


@tw.kernel
def product(A: tw.In[tw.f32, M, K], B: tw.In[tw.f32, K, N], C: tw.Out[tw.f32, M, N]):
    for i, j in tw.parallel(M, N):
        acc = tw.zeros((i, j))
        for k in tw.range(K):
            acc += A[i, k] @ B[k, j]
        C[i, j] = acc


@pytest.mark.parametrize("kernel", [scale, running_maximum])
def test_explain_takes_tensors_of_any_strides(kernel):
    for x in (
        torch.randn(64, 130),
        torch.randn(130, 64).T,
        torch.randn(64, 260)[:, ::2],
        torch.randn(64, 1).expand(64, 130),
    ):
        assert re.search(
            r"runs in .* ms: \d+\.\d GB/s, .*\nshould meet the limit of (memory|arithmetic): ", str(kernel.explain(x))
        )


@pytest.mark.parametrize(("rows", "operations"), [(2, 2 * 2 * 64 * 48), (64, 2 * 64 * 64 * 48)])
def test_explain_counts_the_product_that_runs(rows, operations):
    explanation = product.explain(torch.randn(rows, 64), torch.randn(64, 48))
    assert "reads the operand as it lies" in str(explanation)
    running = [s for s in explanation.making.report["steps"] if explanation.runs(s)]
    assert [s["role"] for s in running] == (["unpacked"] if rows == 2 else ["packs", "packed"])
    counted = sum(explanation._value(s["flops"]) for s in running)
    assert counted >= operations


def test_explain_with_tensors_measures_the_limit():
    x = torch.randn(300, 200)
    explanation = scale.explain(x, torch.empty_like(x))
    assert explanation.symbols == {"s0": 300, "s1": 200}
    assert "should meet the limit of memory" in str(explanation)


def test_ir_shows_every_stage_and_every_pass():
    for stage in ("program", "nests", "groups", "tile", "passes", "asm", "tile-to-vector", "tile-to-llvm"):
        assert scale.ir(stage).strip(), stage
    assert "tile.grid" in scale.ir("tile")
    assert "vector<" in scale.ir("tile-to-vector") and "tile.load" not in scale.ir("tile-to-vector")
    assert "for j" in running_maximum.ir("structure")
    with pytest.raises(ValueError, match=r"no stage 'nest'.*tile-to-vector"):
        scale.ir("nest")


def test_large_results_bypass_the_caches_behind_an_alignment_loop_and_a_fence():
    """Streaming stores stand behind a test of the size and of the alignment, and a fence stands before the return."""
    code = inspection.make(scale).codes[0]
    assert code.streams
    lines = [line.strip() for line in code.asm.splitlines()]
    stores = [i for i, line in enumerate(lines) if "movnt" in line]
    fence = lines.index("sfence")
    returns = [i for i, line in enumerate(lines) if line.startswith("ret")]
    assert max(stores) < fence < max(returns)
    tile = code.tile
    assert "tile.misalignment" in tile and "streaming" in tile
    assert f"arith.constant {48 << 20} : index" in tile
    # A product's result is read soon: it is not streamed.
    assert not inspection.make(running_maximum).codes[0].streams


def test_streamed_results_are_right_whatever_the_alignment():
    rows, columns = 13, 1_000_003
    memory = torch.empty(rows * columns + 16)
    x = torch.randn(rows, columns)
    for shift in (0, 1, 7):
        y = memory[shift : shift + rows * columns].view(rows, columns)
        memory.fill_(-7)
        scale(x, y)
        assert torch.equal(y, x * 2)
        assert (memory[:shift] == -7).all() and (memory[shift + rows * columns :] == -7).all()


def show(*arguments):
    command = shutil.which("tilewright") or str(
        pathlib.Path(os.environ.get("BUILD_DIR", "build/release")) / "bin/tilewright"
    )
    if not pathlib.Path(command).exists():
        command = str(pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/tilewright")
    return subprocess.run(
        [command, "kernel", "show", *arguments, "--python", sys.executable], capture_output=True, text=True, timeout=120
    )


def test_the_command_shows_a_kernel_of_a_file():
    done = show(f"{EXAMPLES}/softmax.py:softmax")
    assert done.returncode == 0, done.stderr
    assert "kernel softmax" in done.stdout and "launches:" in done.stdout
    done = show(f"{EXAMPLES}/softmax.py:softmax", "--stage", "tile", "--dtype", "X=bf16", "--dtype", "Y=bf16")
    assert done.returncode == 0 and "bf16" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((f"{EXAMPLES}/softmax.py:sofmax",), "has no kernel sofmax; it has"),
        ((f"{EXAMPLES}/nothing.py:softmax",), "no file"),
        (("softmax",), "write file.py:name or package.module:name"),
        ((f"{EXAMPLES}/softmax.py:softmax", "--stage", "vectors"), "no stage 'vectors'"),
        ((f"{EXAMPLES}/softmax.py:softmax", "--dtype", "Q=f32"), "has the tensors X, Y"),
        ((f"{EXAMPLES}/softmax.py:softmax", "--dtype", "X=f33"), "no dtype f33"),
    ],
)
def test_the_command_refuses_with_one_line(arguments, message):
    done = show(*arguments)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
