"""Compiled programs on cpu and npu give what PyTorch gives."""

import gc
import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tilewright
from tilewright import switches


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture(params=["cpu", "npu"])
def device(request):
    return request.param


def to(value, device):
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, (tuple, list)):
        return type(value)(to(v, device) for v in value)
    return value


def compare(fn, *args, device="cpu", rtol=1e-4, atol=1e-5, **options):
    """The compiled function on the device against eager PyTorch on cpu."""
    with torch.no_grad():
        expected = fn(*args)
        if isinstance(fn, nn.Module):
            fn = fn.to(device)
        result = torch.compile(fn, backend="tilewright", **options)(*to(args, device))
    for value in torch.utils._pytree.tree_leaves(result):
        assert not isinstance(value, torch.Tensor) or value.device.type == device
    torch.testing.assert_close(to(result, "cpu"), expected, rtol=rtol, atol=atol)
    return result


def test_multilayer_perceptron(device):
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8), nn.Softmax(-1)).eval()
    compare(model, torch.randn(5, 16), device=device)


def test_attention_encoder(device):
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu").eval()
    compare(layer, torch.randn(2, 7, 32), device=device)


def test_results_keep_pytorchs_strides(device):
    def f(x):
        return x.t() + 1, (x * 2).transpose(0, 1), x.sum(0, keepdim=True)

    results = compare(f, torch.randn(4, 6), device=device)
    assert [r.stride() for r in results] == [r.stride() for r in f(torch.randn(4, 6))]


@pytest.mark.parametrize("dynamic", [False, None])
def test_results_that_are_parts_of_other_values_keep_their_strides(device, dynamic):
    def f(x):
        y = x * 2
        q, k = (x + 1).chunk(2, -1)
        return y[:, :4], y[1:, ::2], q.exp() * k, k, y.t()[2:5], x[:0, 2:] + 0, y[:0, 2:]

    x = torch.randn(5, 8)
    results = compare(f, x, device=device, dynamic=dynamic)
    assert [r.stride() for r in results] == [r.stride() for r in f(x)]


def test_many_sizes_one_program(device):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
    expected = {n: model(torch.ones(n, 8)) for n in range(1, 20)}
    compiled = torch.compile(model.to(device), backend="tilewright")
    with torch.no_grad():
        for n in [5, 2, 19, 1, 7, 3, 18, 4]:
            torch.testing.assert_close(
                compiled(torch.ones(n, 8, device=device)).cpu(), expected[n], rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_products_with_few_rows_and_with_many(device, dtype):
    """Weights are read as they lie for few rows, and packed for many; a parameter's packed copy is kept once it was seen twice."""
    k, n = 40, 37
    linear = nn.Linear(k, n).to(dtype)
    square = torch.randn(k, n, dtype=dtype)

    def f(x, w, batched):
        return (
            F.gelu(linear(x)),
            x @ w + 1,
            x @ w[:, :5],
            torch.relu(x[None] @ batched.transpose(1, 2)),
            x @ w[::2, :1].expand(-1, 3).repeat(2, 1),
        )

    compiled = torch.compile(f, backend="tilewright", dynamic=True)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 2e-2)
    batched = torch.randn(3, 6, k, dtype=dtype)
    expected, results = [], []
    rows = [0, 2, 3, 4, 11, 12, 13, 40, 2, 2, 2, 13, 1]
    inputs = [torch.randn(m, k, dtype=dtype) for m in rows]
    with torch.no_grad():
        for x in inputs:
            expected.append(
                f(x.double(), square.double(), batched.double()) if dtype == torch.float64 else f(x, square, batched)
            )
        linear.to(device)
        for x in inputs:
            results.append(to(compiled(*to((x, square, batched), device)), "cpu"))
    for m, r, e in zip(rows, results, expected, strict=True):
        torch.testing.assert_close(r, e, rtol=tolerance, atol=tolerance * 8, msg=lambda text, m=m: f"{m} rows: {text}")


def test_repeated_calls_give_the_same_bits(device):
    linear = nn.Linear(300, 40).to(device)
    compiled = torch.compile(linear, backend="tilewright")
    with torch.no_grad():
        for rows in (3, 30):
            x = torch.randn(rows, 300, device=device)
            first = compiled(x).clone()
            assert all(torch.equal(compiled(x), first) for _ in range(4))


def test_empty_tensors(device):
    compare(lambda a, b: a @ b + 1, torch.empty(4, 0), torch.empty(0, 3), device=device)
    compare(lambda a: (a.sum(0), a * 2), torch.empty(0, 5), device=device)


def test_input_itself_comes_back(device):
    x = torch.randn(3, device=device)
    with torch.no_grad():
        same, view, other = torch.compile(lambda x: (x, x[1:], x + 1), backend="tilewright")(x)
    assert same is x and view.data_ptr() == x.data_ptr() + 4
    torch.testing.assert_close(other, x + 1)


def test_cache_updated_in_place(device):
    def step(cache, new, position: int):
        cache[:, position : position + 1].copy_(new)
        return cache[:, : position + 1].sum(1)

    compiled = torch.compile(step, backend="tilewright")
    mine, theirs = torch.zeros(2, 10, 4, device=device), torch.zeros(2, 10, 4)
    for position in range(6):
        new = torch.randn(2, 1, 4)
        with torch.no_grad():
            result, expected = compiled(mine, new.to(device), position), step(theirs, new, position)
        torch.testing.assert_close(result.cpu(), expected)
    torch.testing.assert_close(mine.cpu(), theirs)


def test_write_bumps_the_version_that_autograd_checks(device):
    x = torch.randn(3, device=device)
    before = x._version
    with torch.no_grad():
        torch.compile(lambda x: x.add_(1), backend="tilewright")(x)
    assert x._version > before


def gated(x, w):
    gate, up = (x @ w).chunk(2, -1)
    return F.silu(gate) * up


def heads(x, w):
    q, k, v = (x @ w).view(5, 6, 3, 2, 2).unbind(2)
    return F.softmax(q @ k.transpose(-1, -2), -1) @ v


def sliced(x, w):
    y = x * w[0].sum()
    q = y[:, :4]
    return q.exp() * q + y[:, 4:].cumsum(1)


@pytest.mark.parametrize("dynamic", [False, None])
@pytest.mark.parametrize("fn", [gated, heads, sliced])
def test_training_saves_parts_of_values(device, fn, dynamic):
    """Views of values of the forward graph come to the backward graph with the strides that it was traced with."""
    given = torch.randn(30 if fn is heads else 5, 8), torch.randn(8, 12)

    def gradients(call, where):
        inputs = [t.to(where).requires_grad_() for t in (g.clone() for g in given)]
        y = call(*inputs)
        (y * y).sum().backward()
        return [t.grad.cpu() for t in inputs]

    compiled = torch.compile(fn, backend="tilewright", dynamic=dynamic)
    torch.testing.assert_close(gradients(compiled, device), gradients(fn, "cpu"), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.AdamW])
def test_training(device, optimiser):
    def losses(compiled, where):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 5)).to(where)
        step = torch.compile(model, backend="tilewright") if compiled else model
        opt = optimiser(model.parameters(), lr=1e-2)
        data = [(torch.randn(8, 12), torch.randint(0, 5, (8,))) for _ in range(6)]
        result = []
        for x, y in data:
            opt.zero_grad()
            loss = F.cross_entropy(step(x.to(where)), y.to(where))
            loss.backward()
            opt.step()
            result.append(loss.item())
        return result

    torch.testing.assert_close(losses(True, device), losses(False, "cpu"), rtol=1e-4, atol=1e-5)


def test_island_runs_through_pytorch_and_is_announced_and_listed(device):
    def f(x):
        return torch.linalg.inv(x * 2) + 1

    x = torch.eye(4) + 0.1 * torch.randn(4, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compare(f, x, device=device)
        with torch.no_grad():
            explanation = tilewright.explain(f, x.to(device))
    assert sum("linalg_inv" in str(w.message) and "no native operator" in str(w.message) for w in caught) <= 1
    inverse, check = explanation.islands
    assert "linalg_inv" in inverse["op"] and inverse["reason"] and "test_compile_run.py" in inverse["source"]
    assert "linalg_inv" in str(explanation) and explanation.to_dict()["graphs"][0]["islands"] == [inverse, check]
    with pytest.raises(RuntimeError, match="singular"), torch.no_grad():  # an operator that is run for its effect
        torch.compile(f, backend="tilewright")(torch.zeros(4, 4, device=device))
    compare(f, x, device=device)


def test_numbers_of_all_kinds_reach_an_island(device):
    compare(lambda x: (torch.view_as_complex(x) * (2 - 1j)).angle() + 1, torch.randn(5, 2), device=device)
    compare(lambda x: torch.nn.functional.fold(x, (4, 5), [2, 2], stride=(1, 1)), torch.randn(1, 8, 12), device=device)
    compare(lambda x: torch.histc(x, bins=4, min=-1, max=1), torch.randn(50), device=device)
    compiled = torch.compile(
        lambda x, n: torch.special.bessel_j1(x * n) + torch.lerp(x, x + 1, n), backend="tilewright"
    )
    x = torch.rand(4)
    for n in (0.5, 0.25, 0.125):
        with torch.no_grad():
            result = compiled(x.to(device), n).cpu()
        torch.testing.assert_close(result, torch.special.bessel_j1(x * n) + torch.lerp(x, x + 1, n))


def test_fallback_error_refuses_islands():
    with switches.overridden(TILEWRIGHT_FALLBACK="error"), torch.no_grad():
        with pytest.raises(Exception) as caught:
            torch.compile(lambda x: torch.linalg.inv(x) + 1, backend="tilewright")(torch.eye(3))
    message = str(caught.value)
    assert "linalg_inv" in message and "test_compile_run.py" in message and "TILEWRIGHT_FALLBACK" in message


def test_random_island_follows_the_seed(device):
    module = torch.npu if device == "npu" else torch
    compiled = torch.compile(lambda x: torch.rand_like(x) + x, backend="tilewright")
    x = torch.zeros(1000, device=device)
    draws = []
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for seed in (1, 1, 2):
            module.manual_seed(seed)
            draws.append((compiled(x), compiled(x)))
    assert torch.equal(draws[0][0], draws[1][0]) and torch.equal(draws[0][1], draws[1][1])
    assert not torch.equal(draws[0][0], draws[0][1]) and not torch.equal(draws[0][0], draws[2][0])
    assert 0.4 < draws[0][0].mean().item() < 0.6


def test_index_out_of_range_is_an_error_and_the_device_usable_after(device):
    compiled = torch.compile(lambda t, i: F.embedding(i, t) * 2, backend="tilewright")
    table = torch.randn(5, 3, device=device)
    with torch.no_grad():
        good = compiled(table, torch.tensor([0, 4], device=device))
        with pytest.raises(IndexError, match="embedding"):
            compiled(table, torch.tensor([0, 5], device=device))
            torch.accelerator.synchronize()
        again = compiled(table, torch.tensor([0, 4], device=device))
    torch.testing.assert_close(again, good)


def test_constant_tensor_on_cpu_in_a_graph_on_npu():
    def f(x):
        return x * torch.tensor([1.0, 2.0, 3.0])[:2].sum().to(x.device) + torch.tensor(2.0)

    x = torch.randn(4)
    with torch.no_grad():
        result = torch.compile(f, backend="tilewright")(x.to("npu"))
    torch.testing.assert_close(result.cpu(), f(x))


def test_result_moved_to_cpu_inside_the_graph():
    f = torch.compile(lambda x: ((x * 3).cpu(), x + 1), backend="tilewright")
    x = torch.randn(1000)
    with torch.no_grad():
        host, device = f(x.to("npu"))
    assert host.device.type == "cpu" and device.device.type == "npu"
    torch.testing.assert_close(host, x * 3)
    torch.testing.assert_close(device.cpu(), x + 1)


def test_calls_follow_the_current_stream():
    f = torch.compile(lambda x: x * 2 + 1, backend="tilewright")
    x = torch.ones(1 << 16, device="npu")
    streams = [torch.npu.Stream() for _ in range(3)]
    results = []
    with torch.no_grad():
        torch.npu.synchronize()
        for stream in streams:
            with torch.npu.stream(stream):
                y = x
                for _ in range(8):
                    y = f(y)
                results.append(y)
        for stream in streams:
            stream.synchronize()
    assert all(y.eq(511).all().item() for y in results)


def test_threads_call_one_program():
    f = torch.compile(lambda x: (x * 2).sum(-1), backend="tilewright")
    with torch.no_grad():
        f(torch.ones(3, 4))
    wrong = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for size in range(2, 30):
                x = torch.randn(size, 4, generator=generator)
                if not torch.allclose(f(x), (x * 2).sum(-1), atol=1e-5):
                    wrong.append(size)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_arguments_are_freed_and_results_do_not_leak():
    f = torch.compile(lambda x: (x * 2).relu() + 1, backend="tilewright")
    x = torch.ones(1 << 18, device="npu")
    with torch.no_grad():
        for _ in range(3):
            f(x)
        torch.npu.synchronize()
        gc.collect()
        before = torch.npu.memory_allocated()
        for _ in range(20):
            f(x)
        torch.npu.synchronize()
        assert torch.npu.memory_allocated() == before


def test_inference_mode(device):
    f = torch.compile(lambda x: x * 2 + 1, backend="tilewright")
    with torch.inference_mode():
        x = torch.ones(3, device=device)
        y = f(x)
        assert y.is_inference() and y.cpu().eq(3).all()


def test_explanation_and_statistics(device):
    tilewright.reset_compile_stats()
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8)).to(device).eval()
    with torch.no_grad():
        explanation = tilewright.explain(model, torch.randn(4, 16, device=device))
    assert explanation.islands == [] and "no islands" in str(explanation)
    (graph,) = explanation.graphs
    assert graph.device == device and graph.groups and "gelu" in str(graph)
    stats = tilewright.compile_stats()
    assert stats.own_seconds > 0 and stats.first_run_seconds > 0 and "describe" in stats.phases
    assert [g.device for g in stats.graphs] == [device]
    assert stats.to_dict()["graphs"][0]["nodes"] == graph.operators
    assert graph.name in str(stats)


def test_recompiles_are_listed_with_reasons():
    tilewright.reset_compile_stats()
    f = torch.compile(lambda x, flag: x + 1 if flag else x - 1, backend="tilewright")
    with torch.no_grad():
        f(torch.ones(3), True)
        f(torch.ones(3), False)
    (recompile,) = tilewright.compile_stats().recompiles
    assert "flag" in recompile.reason
