"""Memory of the device: statistics, limit, the error when it is short, write epochs."""

import os
import subprocess
import sys

import pytest
import torch

import tilewright

pytestmark = pytest.mark.filterwarnings("ignore:.*has no native kernel on npu")

MIB = 1 << 20


@pytest.fixture
def limit():
    """Sets the device's limit to a number of bytes; restored afterwards."""
    before = tilewright._C.memory_limit()
    yield tilewright._C.set_memory_limit
    tilewright._C.set_memory_limit(before)


def test_allocated_follows_tensors_and_peak_stays():
    torch.npu.synchronize()
    before = torch.npu.memory_allocated()
    torch.npu.reset_peak_memory_stats()
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="npu")
    y = x[5:].view(-1)  # views cost nothing
    assert torch.npu.memory_allocated() - before == 3 * MIB
    del x, y
    assert torch.npu.memory_allocated() == before
    assert torch.npu.max_memory_allocated() >= before + 3 * MIB
    torch.npu.reset_max_memory_allocated()
    assert torch.npu.max_memory_allocated() == before


def test_statistics_have_pytorchs_names():
    torch.ones(1, device="npu")
    stats = torch.npu.memory_stats()
    for name in (
        "allocated_bytes.all.current",
        "reserved_bytes.all.peak",
        "active_bytes.small_pool.allocated",
        "num_ooms",
    ):
        assert isinstance(stats[name], int), name
    assert stats["allocated_bytes.all.current"] == torch.accelerator.memory_allocated() == torch.npu.memory_allocated()
    assert torch.npu.memory_reserved() >= torch.npu.memory_allocated()
    assert set(torch.npu.memory_by_purpose()) == {"tensor", "arena", "packed", "pinned"}


def test_empty_cache_gives_memory_back_and_mem_get_info_shows_it():
    x = torch.empty(64 * MIB, dtype=torch.uint8, device="npu")
    free, total = torch.npu.mem_get_info()
    del x
    torch.npu.empty_cache()
    assert torch.npu.mem_get_info() == torch.accelerator.get_memory_info()
    assert torch.npu.mem_get_info()[0] >= free + 64 * MIB and total == tilewright._C.memory_limit()


def test_snapshot_and_summary_show_a_held_block():
    x = torch.empty(7 * MIB, dtype=torch.uint8, device="npu")
    blocks = [block for segment in torch.npu.memory_snapshot() for block in segment["blocks"]]
    held = [b for b in blocks if b["address"] <= x.data_ptr() < b["address"] + b["size"]]
    assert [(b["requested_size"], b["state"]) for b in held] == [(7 * MIB, "active_allocated")]
    assert "allocated memory" in torch.npu.memory_summary()


def test_out_of_memory_says_what_was_asked_held_and_allowed(limit):
    torch.npu.empty_cache()
    held = torch.empty(32 * MIB, dtype=torch.uint8, device="npu")
    limit(torch.npu.memory_reserved() + 16 * MIB)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(100 * MIB, dtype=torch.uint8, device="npu")
    message = str(caught.value)
    for word in ("100.00 MiB", "limit", "32.00 MiB"):
        assert word in message, message
    assert torch.npu.memory_stats()["num_ooms"] >= 1
    assert torch.ones(3, device="npu").sum().item() == 3, "the device works on"
    del held


def test_memory_fraction_sets_the_limit(limit):
    total = torch.npu.get_device_properties().total_memory
    torch.npu.set_per_process_memory_fraction(0.25)
    assert torch.npu.mem_get_info()[1] == int(total * 0.25)
    for wrong, error in ((0.0, ValueError), (1.5, ValueError), (1, TypeError)):
        with pytest.raises(error):
            torch.npu.set_per_process_memory_fraction(wrong)


def test_memory_of_more_than_the_address_space_is_an_error():
    with pytest.raises((RuntimeError, torch.OutOfMemoryError)):
        torch.empty(1 << 62, device="npu")


WRITES = {
    "fill": lambda x, y: x.fill_(2),
    "zero": lambda x, y: x.zero_(),
    "copy from the device": lambda x, y: x.copy_(y),
    "copy from the host": lambda x, y: x.copy_(torch.ones(4, 4)),
    "copy through a view": lambda x, y: x[1].copy_(y[0]),
    "item": lambda x, y: x.__setitem__((0, 0), 5.0),
    "data": lambda x, y: x.data.copy_(y),
    "in place": lambda x, y: x.add_(y),
    "out": lambda x, y: torch.mul(y, y, out=x),
    "foreach": lambda x, y: torch._foreach_mul_([x], 2.0),
    "index_put": lambda x, y: x.index_put_((torch.tensor([1], device="npu"),), y[0]),
    "random": lambda x, y: x.normal_(),
    "under no_grad through detach": lambda x, y: x.detach().mul_(3),
    "address asked for": lambda x, y: x.data_ptr(),
    "address of the storage": lambda x, y: x.untyped_storage().data_ptr(),
    "optimizer": lambda x, y: _step(x),
    "load_state_dict": lambda x, y: _load(x),
    "non-blocking": lambda x, y: x.copy_(torch.ones(4, 4).pin_memory(), non_blocking=True),
}


def _step(x):
    p = torch.nn.Parameter(x)
    p.grad = torch.ones_like(x)
    torch.optim.SGD([p], 0.1).step()


def _load(x):
    module = torch.nn.Linear(4, 4, bias=False)
    module.weight = torch.nn.Parameter(x)
    module.load_state_dict({"weight": torch.ones(4, 4)})


@pytest.mark.parametrize("write", WRITES)
def test_every_write_raises_the_epoch(write):
    x, y = torch.ones(4, 4, device="npu"), torch.ones(4, 4, device="npu")
    before, other = tilewright._C.write_epoch(x), tilewright._C.write_epoch(y)
    assert before != 0 and before != other
    assert tilewright._C.write_epoch(x[1:].t()) == before, "one epoch for a whole storage"
    WRITES[write](x, y)
    assert tilewright._C.write_epoch(x) not in (0, before)
    assert tilewright._C.write_epoch(y) == other


def test_reads_keep_the_epoch():
    x = torch.ones(4, 4, device="npu")
    before = tilewright._C.write_epoch(x)
    x.cpu(), x + 1, x.sum().item(), x.sort(), x.clone(), repr(x), x.t() @ x, x.tolist()
    assert tilewright._C.write_epoch(x) == before


def test_memory_handed_out_by_dlpack_has_no_epoch_any_more():
    x = torch.arange(4.0, device="npu")
    alias = torch.from_dlpack(x)
    assert alias.device.type == "npu" and alias.data_ptr() == x.data_ptr()
    assert tilewright._C.write_epoch(x) == 0
    alias.add_(1)
    assert x.tolist() == [1, 2, 3, 4] and tilewright._C.write_epoch(x) == 0
    assert tilewright._C.write_epoch(torch.ones(4, device="npu")) != 0


def test_guard_allocator_runs_the_device():
    code = """
import torch, tilewright
x = torch.randn(65, 33, device="npu"); w = torch.randn(33, 17, device="npu")
assert torch.allclose((x @ w).cpu(), x.cpu() @ w.cpu(), atol=1e-5)
assert torch.empty(5, device="npu").isnan().all()
x[1:, ::2].t().contiguous().mul_(2).cpu()
p = torch.ones(1000).pin_memory(); y = p.npu(non_blocking=True); torch.npu.synchronize(); assert y.sum().item() == 1000
"""
    environment = {**os.environ, "TILEWRIGHT_ALLOC": "guard", "TILEWRIGHT_FALLBACK": "silent"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
