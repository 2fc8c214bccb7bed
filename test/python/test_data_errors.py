"""Errors that only the data shows: raised as the CPU's class, wherever the operator runs, and nothing wrong is read."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from tilewright import switches

WAYS = ["eager npu", "compiled npu", "compiled cpu"]


def indices(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


TABLE, ROW = torch.arange(12.0).reshape(4, 3), torch.arange(4.0)
ONE, ZERO = torch.tensor([7, -8, 9]), torch.tensor([1, 0, 2])

WRONG = {
    "embedding": (lambda t, i: F.embedding(i, t), TABLE, indices(0, 4)),
    "embedding, negative": (lambda t, i: F.embedding(i, t), TABLE, indices(-1)),
    "index_select": (lambda t, i: t.index_select(0, i), TABLE, indices(1, 9)),
    "gather": (lambda t, i: t.gather(0, i[:, None]), TABLE, indices(5, 1)),
    "index": (lambda t, i: t[i], TABLE, indices(0, -5)),
    "take": (lambda t, i: t.take(i), ROW, indices(-5)),
    "one_hot": (lambda t, i: F.one_hot(i, 4) + t.long(), ROW, indices(4, 0)),
    "index_fill": (lambda t, i: t.index_fill(0, i, 1.0), TABLE, indices(7)),
    "nll_loss": (lambda t, i: F.nll_loss(t, i), TABLE, indices(0, 1, 3, 2)),
    "cross_entropy": (lambda t, i: F.cross_entropy(t, i), TABLE, indices(0, 1, 9, 2)),
    "floor_divide": (lambda a, b: a // b, ONE, ZERO),
    "div, trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), ONE, ZERO),
    "remainder": (lambda a, b: a % b, ONE, ZERO),
    "fmod": (torch.fmod, ONE, ZERO),
    "of a number": (lambda a, b: torch.remainder(7, b) + a, ONE, ZERO),
    "by a number": (lambda a, b: a // 0 + b, ONE, ZERO),
    "small integers": (lambda a, b: a.to(torch.int8) // b.to(torch.int8), ONE, ZERO),
    "unsigned": (lambda a, b: a.to(torch.uint8) % b.to(torch.uint8), ONE, ZERO),
    "many, one is wrong": (lambda a, b: a // b, torch.ones(10007).int(), (torch.arange(10007) - 9000).int()),
    "reduced": (lambda a, b: (a // b).sum(), ONE, ZERO),
}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def run(way: str, function, *tensors: torch.Tensor) -> torch.Tensor:
    how, device = way.split()
    call = function if how == "eager" else torch.compile(function, backend="tilewright")
    with torch.no_grad():
        result = call(*(t.to(device) for t in tensors)).cpu()
        torch.npu.synchronize()
    return result


# torch.compile takes these apart: into gather, whose error is a RuntimeError, and into operators that are islands.
INTO_GATHER, INTO_ISLANDS = ("nll_loss", "cross_entropy"), ("one_hot", "index_fill")
CASES = [(name, way) for way in WAYS for name in WRONG if way == "eager npu" or name not in INTO_ISLANDS]


@pytest.mark.parametrize(("name", "way"), CASES)
def test_a_wrong_value_raises_what_the_cpu_raises(name, way):
    function, *tensors = WRONG[name]
    with pytest.raises((IndexError, RuntimeError)) as expected:
        function(*tensors)
    wanted = RuntimeError if name in INTO_GATHER and way != "eager npu" else type(expected.value)
    fallback = "silent" if name == "one_hot" else "error"
    with switches.overridden(TILEWRIGHT_FALLBACK=fallback), pytest.raises((IndexError, RuntimeError)) as got:
        run(way, function, *tensors)
    assert type(got.value) is wanted
    if "ZeroDivisionError" in str(expected.value):
        assert "ZeroDivisionError" in str(got.value)
    torch.npu.synchronize()  # the device is usable after
    assert torch.equal(torch.ones(3, device="npu").cpu() + 1, torch.full((3,), 2.0))


@pytest.mark.parametrize("way", WAYS)
def test_integers_that_may_be_divided(way):
    a, b = torch.randint(-99, 99, (37, 41)), torch.randint(1, 9, (37, 41)) * (1 - 2 * torch.randint(0, 2, (37, 41)))
    functions = [
        lambda a, b: a // b,
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        lambda a, b: a % b,
        torch.fmod,
        lambda a, b: a // -7 + b % 5,
        lambda a, b: a[:0] // b[:0],
    ]
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8):
        for function in functions:
            x, y = a.to(dtype), b.to(dtype)
            assert torch.equal(run(way, function, x, y), function(x, y))
    assert torch.equal(
        run(way, lambda a, b: a // b, torch.empty(0, 4).int(), torch.zeros(4).int()), torch.empty(0, 4).int()
    )


EMPTY = {
    "embedding": lambda t, i: F.embedding(i, t),
    "embedding and more": lambda t, i: F.layer_norm(F.embedding(i, t) * 2, (t.shape[1],)),
    "index_select": lambda t, i: t.index_select(0, i),
    "gather": lambda t, i: t.gather(0, i[:, None].expand(-1, t.shape[1])),
    "index": lambda t, i: t[i],
    "transposed": lambda t, i: t.t()[:, i],
    "view that ends with its memory": lambda t, i: torch.cat([t, t.new_ones(3, t.shape[1])])[3:][i],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", EMPTY)
def test_a_table_without_rows_has_none_to_read(name, way):
    function, table = EMPTY[name], torch.empty(0, 5)
    with pytest.raises((IndexError, RuntimeError)):
        run(way, function, table, indices(0, 0, 0))
    assert run(way, function, table, indices()).numel() == 0, "no index, no error"


def test_all_of_it_under_the_guard_allocator():
    """There one element read beyond a block ends the process."""
    assert os.environ.get("TILEWRIGHT_ALLOC") != "guard", "this test has started itself"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", "not guard_allocator"]
    environment = {**os.environ, "TILEWRIGHT_ALLOC": "guard"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_out_of_another_size_is_resized_as_on_the_cpu():
    x, i = torch.randn(4, 3), indices(2, 0)
    for call in (
        lambda x, i, out: torch.index_select(x, 0, i, out=out),
        lambda x, i, out: torch.gather(x, 0, i[:, None], out=out),
        lambda x, i, out: torch.add(x, 1, out=out),
    ):
        outs = []
        for device in ("cpu", "npu"):
            outs.append(torch.empty(3, 3, device=device))
            with pytest.warns(UserWarning, match="was resized"):
                torch._C._set_warnAlways(True)
                try:
                    call(x.to(device), i.to(device), outs[-1])
                finally:
                    torch._C._set_warnAlways(False)
        assert torch.equal(outs[1].cpu(), outs[0])
