"""What Python code does with tensors and modules of the device: moving, printing, saving, pickling, autocast, data loading."""

import copy
import io
import pickle

import pytest
import torch
from torch.nn import functional as F

import tilewright  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore:.*has no native kernel on npu")


def through_file(value, **options):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


def test_tensors_modules_and_storages_move_by_name():
    x = torch.ones(2)
    for moved in (x.npu(), x.to("npu"), x.to("npu:0"), x.to(torch.device("npu", 0)), x.npu(0)):
        assert moved.device == torch.device("npu:0") and moved.is_npu and not moved.is_cpu
    assert not x.is_npu and x.untyped_storage().npu().device.type == "npu"
    module = torch.nn.Linear(2, 2).npu()
    assert module.weight.is_npu and module.cpu().weight.is_cpu
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)]).npu()
    assert packed.data.is_npu and packed.batch_sizes.is_cpu
    assert torch.device("npu").type == "npu" and torch.accelerator.current_accelerator().type == "npu"


def test_printing_needs_no_operator_of_the_device():
    torch.npu.reset_fallback_counts()
    x = torch.tensor([[1.0, 2.5], [-3.0, 1e-5]])
    assert repr(x.npu()) == repr(x)[:-1] + ", device='npu:0')"
    for text in (repr(torch.nn.Parameter(x.npu())), repr(torch.arange(5000).npu()), repr(torch.ones(1).npu().conj())):
        assert "device='npu:0'" in text
    assert repr(torch.tensor([1 + 2j]).npu().conj()) == "tensor([1.-2.j], device='npu:0')"
    assert f"{torch.tensor(1.5).npu():.2f}" == "1.50"
    assert torch.npu.fallback_counts() == {}


def test_saving_keeps_device_strides_sharing_and_parameters():
    base = torch.arange(12.0, device="npu").view(3, 4)
    saved = {"t": base.t(), "row": base[1], "p": torch.nn.Parameter(base.clone())}
    loaded = through_file(saved)
    assert loaded["t"].device.type == "npu" and loaded["t"].stride() == (1, 4) and torch.equal(loaded["t"], base.t())
    loaded["row"].zero_()
    assert loaded["t"][:, 1].tolist() == [0, 0, 0, 0], "views of one storage share one again"
    assert isinstance(loaded["p"], torch.nn.Parameter)
    assert through_file(saved, map_location="cpu")["row"].is_cpu
    assert through_file(base.cpu(), map_location="npu:0").is_npu
    assert through_file(base, map_location={"npu:0": "cpu"}).is_cpu


def test_pickle_and_deepcopy():
    x = torch.randn(3, 4, device="npu").t()
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert other.device == x.device and other.stride() == x.stride() and torch.equal(other, x)
        assert other.untyped_storage()._cdata != x.untyped_storage()._cdata
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).npu()
    twin = copy.deepcopy(module)
    assert all(
        torch.equal(a, b) and a is not b
        for a, b in zip(module.state_dict().values(), twin.state_dict().values(), strict=True)
    )


def test_default_device():
    torch.set_default_device("npu")
    try:
        assert torch.ones(2).is_npu and torch.nn.Linear(2, 2).weight.is_npu and torch.tensor([1]).is_npu
        assert torch.randperm(5).sort().values.tolist() == [0, 1, 2, 3, 4]
    finally:
        torch.set_default_device(None)
    with torch.device("npu"):
        assert torch.zeros(1).is_npu
    assert torch.ones(2).is_cpu


def test_factories_and_likes():
    x = torch.empty_strided((2, 3), (1, 2), device="npu")
    assert x.stride() == (1, 2) and torch.empty_like(x).stride() == (1, 2)
    image = torch.empty(2, 3, 4, 5, device="npu", memory_format=torch.channels_last)
    assert image.is_contiguous(memory_format=torch.channels_last)
    assert torch.full((2,), 3, device="npu").tolist() == [3, 3]
    assert torch.arange(3, device="npu").tolist() == [0, 1, 2] and torch.eye(2, device="npu").tolist() == [
        [1, 0],
        [0, 1],
    ]
    with pytest.raises(RuntimeError, match="pinned"):
        torch.empty(2, device="npu", pin_memory=True)
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.full((2,), 300, dtype=torch.uint8, device="npu")


def test_resize_set_and_storage_resize():
    x = torch.arange(4.0, device="npu")
    x.resize_(2, 3)
    assert x.flatten()[:4].tolist() == [0, 1, 2, 3] and x.untyped_storage().nbytes() >= 24
    y = torch.empty(0, device="npu").set_(x)
    assert y.data_ptr() == x.data_ptr() and y.is_set_to(x)
    y.set_()
    assert y.numel() == 0 and y.is_npu
    z = torch.empty(0, device="npu").set_(x.untyped_storage(), 1, (2,), (2,))
    assert z.tolist() == [1, 3]
    z.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0
    with pytest.raises(RuntimeError, match="device"):
        torch.empty(0, device="npu").set_(torch.ones(2).untyped_storage(), 0, (2,), (1,))


@pytest.mark.parametrize("source", ["cpu", "npu"])
@pytest.mark.parametrize("target", ["cpu", "npu"])
def test_copies_between_all_layouts_and_dtypes(source, target):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(6, 5, 4, generator=generator) * 10
    layouts = {
        "plain": lambda t: t,
        "permuted": lambda t: t.permute(2, 0, 1).contiguous().permute(1, 2, 0),
        "sliced": lambda t: F.pad(t, (1, 2))[..., 1:-2],
        "strided": lambda t: t.repeat_interleave(2, 1)[:, ::2],
    }
    dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.uint8, torch.bool, torch.complex64)
    for dtype_in in dtypes:
        for dtype_out in (dtype_in, torch.float32, torch.complex64):
            if dtype_in.is_complex and not dtype_out.is_complex:
                continue
            for name_in, make_in in layouts.items():
                for name_out, make_out in layouts.items():
                    given = make_in(values.abs().to(dtype_in))
                    wanted = make_out(torch.zeros(values.shape, dtype=dtype_out))
                    got = (
                        wanted.to(target).as_strided(wanted.shape, wanted.stride(), wanted.storage_offset())
                        if name_out == "plain"
                        else make_out(torch.zeros(values.shape, dtype=dtype_out, device=target))
                    )
                    given_there = make_in(values.abs().to(dtype_in).to(source))
                    got.copy_(given_there)
                    wanted.copy_(given)
                    assert torch.equal(got.cpu(), wanted), (dtype_in, dtype_out, name_in, name_out)


def test_broadcasting_and_overlapping_copies():
    x = torch.zeros(3, 4, device="npu")
    x.copy_(torch.arange(4.0, device="npu"))
    x[:2].copy_(torch.tensor([[7.0]]))
    assert x.tolist() == [[7] * 4, [7] * 4, [0, 1, 2, 3]]
    with pytest.raises(RuntimeError, match=r"memory location|overlap"):
        torch.zeros(1, device="npu").expand(3).copy_(torch.ones(3, device="npu"))
    with pytest.raises(RuntimeError, match=r"overlap|memory location"):
        y = torch.arange(6.0, device="npu")
        y[1:].copy_(y[:-1])
    with pytest.raises(RuntimeError, match=r"expand|size"):
        x.copy_(torch.ones(5, device="npu"))
    assert torch.zeros(1, device="npu").expand(3).fill_(2).tolist() == [2, 2, 2], "a fill may write a cell thrice"


def test_large_transposes_and_rows():
    x = torch.arange(1_500 * 1_100, dtype=torch.int32).view(1500, 1100)
    assert torch.equal(x.npu().t().contiguous().cpu(), x.t().contiguous())
    assert torch.equal(x.npu()[:, 1:].clone().cpu(), x[:, 1:])
    assert torch.equal(x.npu().flatten().clone().cpu(), x.flatten())
    assert torch.equal(x.byte().npu().t().contiguous().cpu(), x.byte().t().contiguous())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype):
    layer, x = torch.nn.Linear(4, 3).npu(), torch.randn(2, 4, device="npu")
    with torch.autocast("npu", dtype=dtype):
        assert torch.is_autocast_enabled("npu")
        out = layer(x)
        assert out.dtype == dtype and torch.exp(out).dtype == torch.float32  # one of each of PyTorch's lists
        assert torch.addcmul(out, x[:, :3], x[:, :3]).dtype == torch.float32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(torch.rand(2, device="npu"), torch.rand(2, device="npu"))
    assert layer(x).dtype == torch.float32
    with torch.npu.amp.autocast(dtype=dtype):
        assert F.conv1d(x[None], torch.ones(1, 2, 1, device="npu")).dtype == dtype


def test_autocast_has_the_lists_of_cuda():
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")]
    theirs = {n for n in names if has(n, "AutocastXPU")}
    ours = {n for n in names if has(n, "AutocastPrivateUse1")}
    assert len(theirs) > 50 and theirs - ours == set()


def test_gradient_scaler():
    model = torch.nn.Linear(4, 1).npu()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("npu", init_scale=4.0)
    before = model.weight.detach().clone()
    scaler.scale(model(torch.ones(2, 4, device="npu")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close(model.weight.detach(), before - 0.1 * 2)
    optimizer.zero_grad()
    scaler.scale(model(torch.full((2, 4), float("inf"), device="npu")).sum()).backward()
    after = model.weight.detach().clone()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(model.weight, after) and scaler.get_scale() == 2.0


@pytest.mark.parametrize("workers", [0, 1])
def test_data_loader_pins(workers):
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers)
    batches = [batch[0] for batch in loader]
    assert all(b.is_pinned() for b in batches)
    assert torch.cat([b.npu(non_blocking=True) for b in batches]).tolist() == list(range(8))


def test_deterministic_mode_fills_fresh_memory():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(5, device="npu").isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_names_that_scripts_use():
    properties = torch.npu.get_device_properties("npu:0")
    assert properties.total_memory > 0 and torch.npu.get_device_name(0) == properties.name
    assert torch.npu.is_available() and torch.npu.device_count() == 1 and torch.npu.current_device() == 0
    torch.npu.set_device("npu:0")
    missing = [name for name in torch.npu.__all__ if not hasattr(torch.npu, name)]
    assert missing == [] and torch.get_device_module("npu") is torch.npu
    with torch.npu.device_of(torch.ones(1, device="npu")), torch.npu.device_of(torch.ones(1)):
        pass
