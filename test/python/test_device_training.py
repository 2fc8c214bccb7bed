"""Training on the device gives the CPU's losses."""

import copy

import pytest
import torch
from torch.nn import functional as F

import tilewright  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore:.*has no native kernel on npu")

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-3),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, 1e-3, foreach=True),
    "adamw_single": lambda p: torch.optim.AdamW(p, 1e-3, foreach=False),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_mlp_has_the_losses_of_the_cpu_for_50_steps(name):
    torch.manual_seed(0)
    host = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 4))
    x, y = torch.randn(128, 16), torch.randint(0, 4, (128,))
    losses = []
    for place in ("cpu", "npu"):
        model = copy.deepcopy(host).to(place)
        optimizer = OPTIMIZERS[name](model.parameters())
        inputs, targets, history = x.to(place), y.to(place), []
        for step in range(50):
            rows = slice(step % 4 * 32, step % 4 * 32 + 32)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs[rows]), targets[rows])
            loss.backward()
            optimizer.step()
            history.append(loss.detach())
        losses.append(torch.stack(history).cpu())
    assert losses[0][-1] < losses[0][0]
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=1e-5)


def test_a_small_convolutional_network_trains():
    torch.manual_seed(0)
    host = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Dropout(0.0), torch.nn.Linear(8 * 16, 5),
    )  # fmt: skip
    x, y = torch.randn(8, 3, 8, 8), torch.randint(0, 5, (8,))
    results = []
    for place in ("cpu", "npu"):
        model = copy.deepcopy(host).to(place)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(5):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(place)), y.to(place))
            loss.backward()
            optimizer.step()
        results.append([loss.detach().cpu(), *(p.detach().cpu() for p in model.state_dict().values())])
    for got, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_hooks_functions_and_forward_mode():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            assert grad.device.type == "npu"
            return grad * 2

    x = torch.ones(3, device="npu", requires_grad=True)
    seen = []
    x.register_hook(lambda grad: seen.append(grad.device.type))
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2] and seen == ["npu"]
    value, tangent = torch.func.jvp(torch.sin, (torch.zeros(2, device="npu"),), (torch.ones(2, device="npu"),))
    assert value.tolist() == [0, 0] and tangent.tolist() == [1, 1]
    batched = torch.vmap(torch.dot)(torch.ones(4, 3, device="npu"), torch.ones(4, 3, device="npu"))
    assert batched.tolist() == [3, 3, 3, 3]
    assert torch.autograd.gradcheck(torch.tanh, torch.randn(4, dtype=torch.float64, device="npu", requires_grad=True))
