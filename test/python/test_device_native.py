"""Eager operators that run natively: the CPU's results in all their forms, no fallback, and PyTorch's own errors."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import tilewright

pytestmark = pytest.mark.filterwarnings("ignore:.*has no native kernel on npu")


@pytest.fixture
def native():
    """The test must run without a fallback."""
    torch.npu.reset_fallback_counts()
    yield
    assert torch.npu.fallback_counts() == {}


def compare(function, *tensors: torch.Tensor) -> None:
    torch.testing.assert_close(function(*(t.npu() for t in tensors)).cpu(), function(*tensors), rtol=1e-5, atol=1e-5)


X, Y = torch.randn(5, 7), torch.randn(5, 7)

CALLS = {
    "add": lambda a, b: a + b,
    "number on either side": lambda a, b: 2 - a * 3.5,
    "broadcast and views": lambda a, b: a[:, 1:] * b[2, :-1] + a[:, :1],
    "transposed": lambda a, b: a.t() + b.t().contiguous(),
    "promotion": lambda a, b: a + b.to(torch.bfloat16),
    "comparison": lambda a, b: (a > b) & (a != 0),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "matmul": lambda a, b: a @ b.t(),
    "linear": lambda a, b: F.linear(a, b, b[:, 0]),
    "softmax": lambda a, b: torch.softmax(a, -1) + torch.log_softmax(b, 0),
    "layer norm": lambda a, b: F.layer_norm(a, (7,), b[0], b[1]),
    "gelu": lambda a, b: F.gelu(a) + F.gelu(b, approximate="tanh"),
    "reductions": lambda a, b: a.sum(0) + a.mean() + b.amax((0, 1)),
    "cat": lambda a, b: torch.cat([a, b, a], 1),
    "embedding": lambda a, b: F.embedding((b.abs() * 2).long().clamp(max=4), a),
    "index": lambda a, b: a[(b[:, 0] > 9).long()],
    "cast": lambda a, b: a.to(torch.float64) + b.to(torch.int32),
    "arange": lambda a, b: a + torch.arange(7, device=a.device),
    "tanh pooling": lambda a, b: torch.tanh(a[:, 0]),
    "empty": lambda a, b: a[:0] + b[:0],
}


@pytest.mark.parametrize("name", CALLS)
def test_call_gives_the_cpus_result_natively(native, name):
    compare(CALLS[name], X, Y)


def test_in_place_and_out_forms_write_where_they_should(native):
    base = torch.zeros(5, 9, device="npu")
    view = base[:, 1:8]
    view.add_(X.npu()).mul_(2)
    torch.testing.assert_close(view.cpu(), X * 2)
    assert base[:, 0].abs().sum().item() == base[:, 8].abs().sum().item() == 0
    out = torch.full((5, 7), 9.0, device="npu")
    assert torch.sub(X.npu(), Y.npu(), out=out) is out
    torch.testing.assert_close(out.cpu(), X - Y)
    ids = torch.arange(4, device="npu")
    ids += 2
    assert ids.tolist() == [2, 3, 4, 5]


def test_writing_raises_the_epoch():
    x = torch.ones(4, device="npu")
    before = tilewright._C.write_epoch(x)
    x.add_(1)
    middle = tilewright._C.write_epoch(x)
    torch.mul(x, 2, out=x)
    assert len({before, middle, tilewright._C.write_epoch(x)}) == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.add(x, torch.ones(3, device=x.device)),
        lambda x: x @ torch.ones(4, 4, device=x.device),
        lambda x: x.int().div_(2),
        lambda x: torch.add(x, 1.5, out=torch.empty(5, 7, dtype=torch.int64, device=x.device)),
        lambda x: x[0].expand(3, 7).mul_(2),
        lambda x: x.flatten()[1:].add_(x.flatten()[:-1]),
        lambda x: torch.cat([x, x[0]]),
        lambda x: x.sum(5),
        lambda x: x.add_(torch.ones(2, 5, 7, device=x.device)),
    ],
)
def test_wrong_calls_raise_what_the_cpu_raises(call):
    with pytest.raises((RuntimeError, IndexError)) as expected:
        call(X.clone())
    with pytest.raises(type(expected.value)) as got:
        call(X.npu())
    assert str(got.value).split("\n")[0][:40] == str(expected.value).split("\n")[0][:40]


def test_out_of_another_shape_is_resized():
    out = torch.empty(0, device="npu")
    torch.add(X.npu(), Y.npu(), out=out)
    torch.testing.assert_close(out.cpu(), X + Y)


def test_default_dtype_of_factories():
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.arange(0.0, 1.0, 0.1, device="npu").dtype == torch.float64
        assert torch.equal(torch.arange(0.0, 1.0, 0.1, device="npu").cpu(), torch.arange(0.0, 1.0, 0.1))
        assert torch.eye(2, device="npu").dtype == torch.linspace(0, 1, 3, device="npu").dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.arange(3, device="npu").dtype == torch.int64


def test_new_sizes_compile_nothing_new(native):
    """Sizes are run-time values: only 0 and 1 have code of their own."""
    for rows in (2, 3, 17, 100, 1000):
        x = torch.randn(rows, 6)
        compare(lambda t: torch.softmax(t * 2, -1), x)


def test_an_index_out_of_range_is_raised_at_the_next_wait_and_work_goes_on():
    table = X.npu()
    with pytest.raises(IndexError):
        table.index_select(0, torch.tensor([99], device="npu")).cpu()
    torch.npu.synchronize()
    assert table.index_select(0, torch.tensor([1], device="npu")).cpu().equal(X[1:2])


def _heads(length: int = 9, keys: int = 9, heads: int = 3, size: int = 8, batch: int = 2) -> list[torch.Tensor]:
    return [torch.randn(batch, heads, n, size) for n in (length, keys, keys)]


MASKED_OUT = torch.rand(2, 1, 9, 9) > 0.4
MASKED_OUT[0, 0, 2] = False
ATTENTION = {
    "plain": (_heads(), {}),
    "causal": (_heads(), {"is_causal": True}),
    "scale": (_heads(), {"scale": 0.7}),
    "one query": (_heads(length=1), {}),
    "wide values": ([*_heads()[:2], torch.randn(2, 3, 9, 20)], {}),
    "mask": (_heads(), {"attn_mask": MASKED_OUT}),
    "added mask": (_heads(keys=5), {"attn_mask": torch.randn(9, 5)}),
    "projections": ([t.transpose(1, 2).contiguous().transpose(1, 2) for t in _heads()], {}),
}


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_one_kernel(native, name):
    tensors, options = ATTENTION[name]
    exact = {k: v.double() if k == "attn_mask" and v.is_floating_point() else v for k, v in options.items()}
    there = {k: v.npu() if k == "attn_mask" else v for k, v in options.items()}
    with Seen() as seen:
        got = F.scaled_dot_product_attention(*(t.npu() for t in tensors), **there)
    expected = F.scaled_dot_product_attention(*(t.double() for t in tensors), **exact)
    torch.testing.assert_close(got.cpu(), expected.float(), rtol=1e-5, atol=1e-5)
    assert not any("softmax" in op or "mm" in op for op in seen.names), seen.names


BACKENDS = [torch.nn.attention.SDPBackend.OVERRIDEABLE, torch.nn.attention.SDPBackend.MATH]


@pytest.mark.parametrize("changed", ["gradient", "dropout", "bfloat16", "grouped", "math asked for"])
def test_attention_that_is_left_to_pytorch(changed):
    tensors = _heads()
    options = {}
    if changed == "gradient":
        tensors[1].requires_grad_()
    elif changed == "dropout":
        options["dropout_p"] = 0.5
    elif changed == "bfloat16":
        tensors = [t.bfloat16() for t in tensors]
    elif changed == "grouped":
        tensors[1:] = _heads(heads=1)[1:]
        options["enable_gqa"] = True
    moved = [t.detach().npu().requires_grad_(t.requires_grad) for t in tensors]
    with torch.nn.attention.sdpa_kernel(BACKENDS[changed == "math asked for" :]):
        got = F.scaled_dot_product_attention(*moved, **options)
    if changed == "dropout":
        assert got.shape == tensors[0].shape and got.isfinite().all().item()
        return
    expected = F.scaled_dot_product_attention(*tensors, **options)
    tolerance = 2e-2 if changed == "bfloat16" else 1e-5
    torch.testing.assert_close(got.cpu(), expected, rtol=tolerance, atol=tolerance)
    if changed == "gradient":
        got.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close(moved[1].grad.cpu(), tensors[1].grad, rtol=1e-4, atol=1e-5)
