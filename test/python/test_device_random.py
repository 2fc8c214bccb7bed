"""The device's random state."""

import copy
import pickle

import pytest
import torch

import tilewright  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore:.*has no native kernel on npu")


def test_state_is_seed_and_offset():
    torch.npu.manual_seed(12345)
    state = torch.npu.get_rng_state()
    assert state.dtype == torch.uint8 and state.device.type == "cpu" and state.shape == (16,)
    assert state.view(torch.int64).tolist() == [12345, 0]
    assert torch.npu.initial_seed() == 12345
    torch.rand(5, device="npu")
    seed, offset = torch.npu.get_rng_state().view(torch.int64).tolist()
    assert seed == 12345 and offset > 0 and offset % 4 == 0


def test_wrong_states_are_refused_and_leave_the_generator_alone():
    torch.npu.manual_seed(5)
    for wrong in (torch.zeros(15, dtype=torch.uint8), torch.zeros(16), torch.tensor([1, 3]).view(torch.uint8)):
        with pytest.raises((RuntimeError, TypeError)):
            torch.npu.set_rng_state(wrong)
    assert torch.npu.get_rng_state().view(torch.int64).tolist() == [5, 0]


def test_generators_of_ones_own():
    one, two = torch.Generator("npu").manual_seed(1), torch.Generator(device="npu:0").manual_seed(1)
    x = torch.empty(100, device="npu")
    assert torch.equal(x.normal_(generator=one).clone(), x.normal_(generator=two))
    clone = one.clone_state()
    assert torch.equal(torch.rand(9, generator=one, device="npu"), torch.rand(9, generator=clone, device="npu"))
    assert one.device == torch.device("npu:0") and one.initial_seed() == 1
    one.seed()
    assert one.initial_seed() != 1


def test_generators_are_copied_and_pickled():
    generator = torch.Generator("npu").manual_seed(8)
    torch.rand(3, generator=generator, device="npu")
    for other in (copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))):
        assert torch.equal(other.get_state(), generator.get_state()) and other.device.type == "npu"


def test_fork_rng_restores_the_device():
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0], device_type="npu"):
        first = torch.rand(4, device="npu")
    assert torch.equal(torch.rand(4, device="npu"), first)


def test_seeding_functions_reach_the_device():
    draws = []
    for seed in (torch.manual_seed, torch.npu.manual_seed, torch.npu.manual_seed_all):
        seed(77)
        draws.append(torch.randn(6, device="npu"))
    assert all(torch.equal(d, draws[0]) for d in draws)
    torch.npu.seed_all()
    assert torch.npu.initial_seed() != 77
    states = torch.npu.get_rng_state_all()
    first = torch.rand(3, device="npu")
    torch.npu.set_rng_state_all(states)
    assert torch.equal(torch.rand(3, device="npu"), first)


def test_dropout_and_its_gradient_use_one_mask():
    x = torch.ones(1000, device="npu", requires_grad=True)
    out = torch.nn.functional.dropout(x, 0.25)
    out.sum().backward()
    assert torch.equal(out, x.grad) and 150 < int((out == 0).sum()) < 350
