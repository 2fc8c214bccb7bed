"""Streams, events, asynchronous copies, threads and forks."""

import os
import subprocess
import sys
import threading
import time

import pytest
import torch

import tilewright  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore:.*has no native kernel on npu")


def block(stream) -> threading.Event:
    """Work that keeps a stream busy until the returned event is set."""
    gate = threading.Event()
    torch.npu.launch_host_function(stream, gate.wait)
    return gate


def test_copies_and_fills_on_the_device_return_before_they_are_done():
    stream = torch.npu.current_stream()
    x, y = torch.empty(1000, device="npu"), torch.empty(1000, device="npu")
    torch.npu.synchronize()
    gate = block(stream)
    x.fill_(3)
    y.copy_(x)
    z = y.clone()
    assert not stream.query()
    gate.set()
    assert z.cpu().eq(3).all() and stream.query()


def test_pinned_memory_is_copied_asynchronously_both_ways():
    source = torch.arange(1000.0).pin_memory()
    target = torch.zeros(1000, pin_memory=True)
    assert source.is_pinned() and target.is_pinned() and not torch.ones(1).is_pinned()
    stream = torch.npu.current_stream()
    torch.npu.synchronize()
    gate = block(stream)
    x = source.to("npu", non_blocking=True)
    target.copy_(x, non_blocking=True)
    done = stream.record_event()
    assert not done.query() and target.eq(0).all()
    gate.set()
    done.synchronize()
    assert torch.equal(target, source)


def test_pinned_memory_is_not_reused_before_the_copy_is_done():
    stream = torch.npu.current_stream()
    torch.npu.synchronize()
    gate = block(stream)
    x = torch.full((100_000,), 5.0).pin_memory().to("npu", non_blocking=True)
    others = [torch.full((100_000,), -1.0, pin_memory=True) for _ in range(4)]
    gate.set()
    assert x.cpu().eq(5).all() and all(o.eq(-1).all() for o in others)


@pytest.mark.parametrize("elements", [10, 1_000_000])
def test_pageable_memory_may_be_changed_as_soon_as_the_copy_returns(elements):
    source = torch.ones(elements)
    stream = torch.npu.current_stream()
    torch.npu.launch_host_function(stream, lambda: time.sleep(0.05))
    x = source.to("npu", non_blocking=True)
    source.fill_(9)
    assert x.cpu().eq(1).all()


def test_streams_are_current_per_thread_and_context():
    side = torch.npu.Stream()
    assert side.device.type == "npu" and side != torch.npu.default_stream()
    with torch.npu.stream(side):
        assert torch.npu.current_stream() == side == torch.accelerator.current_stream()
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.npu.current_stream()))
        thread.start()
        thread.join()
        assert seen == [torch.npu.default_stream()]
    with side:
        assert torch.accelerator.current_stream() == side
    assert torch.npu.current_stream() == torch.npu.default_stream()
    assert isinstance(side, torch.npu.Stream) and isinstance(side.record_event(), torch.npu.Event)
    with torch.npu.stream(None):
        assert torch.npu.current_stream() == torch.npu.default_stream()


def test_an_event_orders_streams():
    producer, consumer = torch.npu.Stream(), torch.npu.Stream()
    x = torch.zeros(1000, device="npu")
    torch.npu.synchronize()
    gate = block(producer)
    with torch.npu.stream(producer):
        x.fill_(4)
        written = torch.npu.Event()
        written.record()
    consumer.wait_event(written)
    with torch.npu.stream(consumer):
        y = x.clone()
    assert not consumer.query() and not written.query()
    gate.set()
    consumer.synchronize()
    assert y.cpu().eq(4).all() and written.query()


def test_elapsed_time():
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    with pytest.raises(ValueError, match="recorded"):
        start.elapsed_time(end)
    start.record()
    torch.npu.launch_host_function(torch.npu.current_stream(), lambda: time.sleep(0.02))
    assert torch.npu.current_stream().record_event(end) == end
    end.synchronize()
    assert start.elapsed_time(end) >= 20
    with pytest.raises(NotImplementedError, match="between processes"):
        torch.npu.Event(interprocess=True)


def test_waiting_releases_the_gil():
    stream = torch.npu.Stream()
    gate = block(stream)
    threading.Timer(0.05, gate.set).start()  # cannot run while somebody holds the GIL
    stream.synchronize()
    gate = block(torch.npu.current_stream())
    x = torch.ones(3, device="npu")
    threading.Timer(0.05, gate.set).start()
    assert x.sum().item() == 3
    gate = block(stream)
    threading.Timer(0.05, gate.set).start()
    torch.npu.synchronize()


def test_an_error_of_queued_work_is_raised_once_and_the_device_works_on():
    stream = torch.npu.Stream()

    def fail():
        raise ValueError("deliberate")

    torch.npu.launch_host_function(stream, fail)
    with pytest.raises(RuntimeError, match="deliberate"):
        stream.synchronize()
    stream.synchronize()
    assert torch.ones(2, device="npu").sum().item() == 2


def test_threads_share_the_device():
    def work(results, seed):
        generator = torch.Generator().manual_seed(seed)
        with torch.npu.stream(torch.npu.Stream()):
            total = torch.zeros(64, 64, device="npu")
            expected = torch.zeros(64, 64)
            for _ in range(30):
                x = torch.randn(64, 64, generator=generator)
                total += x.npu().t()
                expected += x.t()
            torch.npu.current_stream().synchronize()
            results.append(torch.equal(total.cpu(), expected))

    results: list[bool] = []
    threads = [threading.Thread(target=work, args=(results, seed)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4


def run(code: str) -> str:
    environment = {**os.environ, "TILEWRIGHT_FALLBACK": "silent"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


FORK = """
import os, torch, tilewright
{before}
child = os.fork()
if child == 0:
    code = 1
    try:
        assert torch.equal(torch.ones(300, 300) @ torch.ones(300, 300), torch.full((300, 300), 300.0))
        {inside}
        code = 0
    except BaseException as error:
        print(type(error).__name__, error, flush=True)
    os._exit(code)
_, status = os.waitpid(child, 0)
assert status == 0, status
{after}
"""


def test_a_child_of_a_parent_that_used_the_device_cannot_use_it():
    run(
        FORK.format(
            before="x = torch.ones(1000, 100, device='npu'); x.t().contiguous(); torch.npu.synchronize()",
            inside="""
        assert torch.npu._is_in_bad_fork()
        del x
        for use in (lambda: torch.ones(1, device='npu'), lambda: torch.ones(3).npu()):
            try:
                use()
            except RuntimeError as error:
                assert 'forked subprocess' in str(error), error
            else:
                raise AssertionError('not refused')
        torch.manual_seed(3)""",
            after="assert x.sum().item() == 100000",
        )
    )


def test_a_child_of_a_parent_that_only_imported_the_device_can_use_it():
    run(
        FORK.format(
            before="",
            inside="assert torch.ones(3, 3, device='npu').mul(2).sum().item() == 18",
            after="torch.ones(1).npu()",
        )
    )


def test_import_starts_no_thread():
    count = "len(os.listdir('/proc/self/task'))"
    out = run(
        f"import os, torch; before = {count}\nimport tilewright; torch.npu.get_device_properties(); print({count} - before)"
    )
    assert out.strip() == "0"


def test_a_backward_pass_as_the_last_act_of_a_script_ends_well():
    for _ in range(5):
        run("import torch, tilewright\nw = torch.ones(3, device='npu', requires_grad=True)\n(w * 2).sum().backward()")
