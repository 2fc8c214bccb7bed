"""Packed weights are never stale: on npu and on cpu, frozen or not, whichever way the weight is written."""

import numpy as np
import pytest
import torch
from torch import nn

import tilewright

DEVICES = ["cpu", "npu"]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def through_numpy(weight, value):
    alias = weight.detach().numpy()
    np.copyto(alias, value.numpy())


WRITES = {
    "in place": lambda w, v: w.copy_(v),
    "data": lambda w, v: w.data.copy_(v),
    "data assigned": lambda w, v: setattr(w, "data", v.to(w.device)),
    "detached": lambda w, v: w.detach().copy_(v),
    "view": lambda w, v: w[1:].copy_(v[1:]) if w[:1].copy_(v[:1]) is not None else None,
    "set_": lambda w, v: w.set_(v.to(w.device)),
    "numpy": through_numpy,
    "dlpack": lambda w, v: torch.from_dlpack(w.detach()).copy_(v),
}
#: Writes that PyTorch does not count: what a frozen cpu model promises not to do.
UNCOUNTED = {"data", "numpy", "dlpack"}


def check(model, x):
    compiled = torch.compile(model, backend="tilewright")

    def agree():
        with torch.no_grad():
            expected = nn.functional.linear(x.cpu().double(), model.weight.cpu().double(), model.bias.cpu().double())
            torch.testing.assert_close(compiled(x).cpu().double(), expected, rtol=1e-4, atol=1e-4)

    return agree


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("device", DEVICES)
def test_written_weight_is_read_by_the_next_call(device, write):
    if device == "npu" and write == "numpy":
        pytest.skip("npu tensors have no NumPy alias")
    model = nn.Linear(64, 48).to(device)
    x = torch.randn(3, 64, device=device)
    agree = check(model, x)
    for _ in range(3):  # the third call may use a kept copy
        agree()
    with torch.no_grad():
        WRITES[write](model.weight, torch.randn(48, 64))
    for _ in range(3):
        agree()


@pytest.mark.parametrize("write", sorted(set(WRITES) - UNCOUNTED))
def test_frozen_model_notices_counted_writes(write):
    model = tilewright.freeze(nn.Linear(64, 48))
    assert tilewright.is_frozen(model.weight) and tilewright.is_frozen(model.weight[2:])
    agree = check(model, torch.randn(3, 64))
    for _ in range(3):
        agree()
    with torch.no_grad():
        WRITES[write](model.weight, torch.randn(48, 64))
    for _ in range(3):
        agree()


@pytest.mark.parametrize("write", sorted(UNCOUNTED))
def test_unfreezing_drops_what_was_kept(write):
    model = tilewright.freeze(nn.Linear(64, 48))
    agree = check(model, torch.randn(3, 64))
    for _ in range(3):
        agree()
    tilewright.unfreeze(model)
    assert not tilewright.is_frozen(model.weight)
    with torch.no_grad():
        WRITES[write](model.weight, torch.randn(48, 64))
    agree()
    tilewright.freeze(model)
    for _ in range(3):
        agree()


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_optimiser_and_load_state_dict(device, frozen):
    model = nn.Linear(64, 48).to(device)
    if frozen:
        tilewright.freeze(model)
    x = torch.randn(3, 64, device=device)
    agree = check(model, x)
    agree()
    agree()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(2):
        model(x).square().sum().backward()
        optimiser.step()
        agree()
        agree()
    model.load_state_dict(nn.Linear(64, 48).state_dict())
    agree()
    agree()


def test_freezing_keeps_packed_weights_and_not_freezing_does_not():
    def packed(model):
        before = tilewright._C.packed_weight_stats()["packed"]
        agree = check(model, torch.randn(40, 64))
        for _ in range(6):
            agree()
        return tilewright._C.packed_weight_stats()["packed"] - before

    unfrozen = packed(nn.Linear(64, 48))
    torch._dynamo.reset()
    frozen = packed(tilewright.freeze(nn.Linear(64, 48)))
    assert frozen < unfrozen or unfrozen == 0  # a kernel that reads the weight as it lies packs nothing


def test_memory_given_to_another_tensor_is_not_mistaken_for_the_frozen_one():
    for _ in range(20):
        model = tilewright.freeze(nn.Linear(64, 48))
        check(model, torch.randn(3, 64))()
        del model
        other = nn.Linear(64, 48)
        assert not tilewright.is_frozen(other.weight)
        check(other, torch.randn(3, 64))()
        torch._dynamo.reset()


def test_what_cannot_be_frozen():
    with pytest.raises(TypeError, match="module or tensors"):
        tilewright.freeze([1, 2])
    model = nn.Linear(4, 4).to("npu")
    assert tilewright.freeze(model) is model  # nothing to do on npu
