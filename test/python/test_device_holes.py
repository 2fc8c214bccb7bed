"""What PyTorch's default path for a device of one's own gets wrong (ARCHITECTURE: holes), closed one by one."""

import copy

import pytest
import torch
from torch.nn import functional as F

import tilewright

pytestmark = pytest.mark.filterwarnings("ignore:.*has no native kernel on npu")


@pytest.mark.parametrize("make", [torch.conj, lambda z: z.conj().imag, lambda z: z.conj().real, torch._neg_view])
def test_lazily_conjugated_and_negated_views_are_copied_everywhere(make):
    z = torch.tensor([[1 + 2j, 3 - 4j], [0.5j, -1]])
    expected = make(z).resolve_conj().resolve_neg()
    lazy = make(z.npu())
    assert torch.equal(lazy.cpu(), expected)
    assert torch.equal(lazy.clone().cpu(), expected)
    for target in (torch.empty_like(expected), torch.empty_like(expected, device="npu")):
        assert torch.equal(target.copy_(lazy).cpu(), expected)
    lazy_target = make(torch.zeros_like(z, device="npu"))
    lazy_target.copy_(expected)
    assert torch.equal(lazy_target.cpu(), expected)


def test_conj_physical_in_place_on_a_lazy_view():
    z = torch.tensor([1 + 2j, 3j])
    assert torch.equal(z.npu().conj().conj_physical_().cpu(), z.clone().conj().conj_physical_())


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions_and_their_gradients(rank, transposed):
    torch.manual_seed(0)
    x = torch.randn(2, 4, *[7] * rank)
    w = torch.randn(4, 3, *[3] * rank) if transposed else torch.randn(6, 2, *[3] * rank)
    b = torch.randn(6)
    convolve = getattr(F, f"conv{'_transpose' if transposed else ''}{rank}d")

    def run(place):
        leaves = [t.detach().to(place).requires_grad_() for t in (x, w, b)]
        out = convolve(*leaves, stride=2, padding=1, groups=2)
        out.backward(torch.ones_like(out))
        return [out.detach(), *(leaf.grad for leaf in leaves)]

    for got, expected in zip(run("npu"), run("cpu"), strict=True):
        torch.testing.assert_close(got.cpu(), expected)


def test_convolution_overrideable_and_its_backward():
    x, w, b = torch.randn(2, 4, 7), torch.randn(6, 2, 3), torch.randn(6)
    geometry = ([2], [1], [1], False, [0], 2)
    overrideable, backward = torch.ops.aten.convolution_overrideable, torch.ops.aten.convolution_backward_overrideable
    out = overrideable(x.npu(), w.npu(), b.npu(), *geometry)
    torch.testing.assert_close(out.cpu(), torch.convolution(x, w, b, *geometry))
    grad = torch.randn(out.shape)
    got = backward(grad.npu(), x.npu(), w.npu(), *geometry, [True, True, True])
    expected = torch.ops.aten.convolution_backward(grad, x, w, [6], *geometry, [True, True, True])
    for g, e in zip(got, expected, strict=True):
        torch.testing.assert_close(g.cpu(), e)


def test_batch_norm_writes_its_running_statistics():
    host = torch.nn.BatchNorm1d(3)
    npu = copy.deepcopy(host).npu()
    epochs = [tilewright._C.write_epoch(t) for t in (npu.running_mean, npu.running_var)]
    for _ in range(3):
        x = torch.randn(5, 3)
        torch.testing.assert_close(npu(x.npu()).cpu(), host(x))
    torch.testing.assert_close(npu.running_mean.cpu(), host.running_mean)
    torch.testing.assert_close(npu.running_var.cpu(), host.running_var)
    assert npu.num_batches_tracked.item() == 3
    for before, t in zip(epochs, (npu.running_mean, npu.running_var), strict=True):
        assert tilewright._C.write_epoch(t) != before


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layer_norm_gives_the_cpus_statistics(dtype):
    x, w, b = (torch.randn(s).to(dtype) for s in ((4, 8), (8,), (8,)))
    expected = torch.native_layer_norm(x, [8], w, b, 1e-5)
    for got, wanted in zip(torch.native_layer_norm(x.npu(), [8], w.npu(), b.npu(), 1e-5), expected, strict=True):
        assert got.dtype == wanted.dtype
        torch.testing.assert_close(got.cpu(), wanted)


def test_record_stream_keeps_memory_until_the_stream_has_passed():
    side = torch.npu.Stream()
    x = torch.full((1 << 16,), 3.0, device="npu")
    torch.npu.synchronize()
    import time

    torch.npu.launch_host_function(side, lambda: time.sleep(0.1))
    with torch.npu.stream(side):
        y = torch.empty_like(x)
        y.copy_(x)
    x.record_stream(side)
    address = torch._C.TensorBase.data_ptr(x)
    del x
    others = [torch.full((1 << 16,), -1.0, device="npu") for _ in range(4)]
    assert address not in [torch._C.TensorBase.data_ptr(o) for o in others]
    side.synchronize()
    assert y.cpu().eq(3).all()


def test_tied_weights_stay_tied():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(5, 3)
            self.head = torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.embedding.weight

    model = Tied()
    held = model.head.weight
    moved = model.to("npu")
    assert moved.head.weight is moved.embedding.weight is held and held.device.type == "npu"
    with torch.no_grad():
        moved.embedding.weight.zero_()
    assert moved.head.weight.abs().max().item() == 0
    assert model.to("cpu").head.weight is held and held.device.type == "cpu"


def test_data_of_a_parameter_can_become_a_device_tensor():
    p = torch.nn.Parameter(torch.ones(2))
    p.data = torch.full((3,), 2.0, device="npu")
    assert p.device.type == "npu" and p.tolist() == [2, 2, 2]
    assert torch._has_compatible_shallow_copy_type(torch.ones(1), p)
    assert not torch._has_compatible_shallow_copy_type(p.detach(), torch.ones(2, 2).to_sparse())


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_repeats_dropout(reentrant):
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(4096, device="npu", requires_grad=True)
    out = checkpoint(lambda t: F.dropout(t, 0.5) * t, x, use_reentrant=reentrant)
    out.sum().backward()
    assert torch.equal(x.grad, 2 * out.detach()), "the backward pass drew another mask"


def test_svd_and_mode_with_out():
    a = torch.randn(4, 3)
    out = tuple(torch.empty(0, device="npu") for _ in range(3))
    torch.svd(a.npu(), out=out)
    torch.testing.assert_close((out[0] @ out[1].diag() @ out[2].mT).cpu(), a)
    values, indices = torch.empty(0, device="npu"), torch.empty(0, dtype=torch.int64, device="npu")
    torch.mode(torch.tensor([[1.0, 2.0, 2.0]], device="npu"), out=(values, indices))
    assert (values.tolist(), indices.tolist()) == ([2], [2])


def test_modules_of_the_device_have_what_pytorch_looks_for():
    assert torch.npu._initialized is True and torch.npu._is_in_bad_fork() is False
    with torch.npu.device(0), torch.npu.device("npu:0"), torch.npu.device(torch.device("npu")):
        assert torch.npu.current_device() == 0
    with pytest.raises(RuntimeError, match="no npu:1"):
        torch.npu.device(1)
    with pytest.raises(RuntimeError, match="no npu:1"):
        torch.ones(1, device="npu:1")
    with pytest.raises(ValueError, match="expected a device npu"):
        torch.npu.set_device("cpu")
