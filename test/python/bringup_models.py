"""Factories for test_bringup_*.py: one that works, and one for each thing that can go wrong."""

import os
import signal

import torch


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.up = torch.nn.Linear(32, 64)
        self.down = torch.nn.Linear(64, 8)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(self.norm(x)))).softmax(-1)


class OnNpu(torch.nn.Module):
    """Does something to the hidden layer, only on npu."""

    def __init__(self, change):
        super().__init__()
        self.first, self.middle, self.last = torch.nn.Linear(32, 16), torch.nn.Identity(), torch.nn.Linear(16, 4)
        self.change = change
        self.middle.forward = self._change

    def _change(self, x):
        return self.change(x) if x.device.type == "npu" else x

    def forward(self, x):
        return self.last(self.middle(self.first(x)))


def inputs(rows=4):
    return (torch.randn(rows, 32, generator=torch.Generator().manual_seed(rows)),)


def mlp():
    return MLP(), inputs, [1, 4]


def no_tuple():
    return MLP()


def no_module():
    return (lambda x: x), inputs()


def raises():
    return {}["weights"], inputs()


def needs_package():
    import package_that_nobody_has  # noqa: F401


def float8():
    model = MLP()
    model.scale = torch.nn.Buffer(torch.ones(3).to(torch.float8_e4m3fn))
    return model, inputs()


def large():
    return torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]), (torch.randn(2, 1024),)


def wide():
    """Weights fit where activations do not."""
    return torch.nn.Sequential(torch.nn.Linear(8, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1)), (
        torch.randn(8192, 8),
    )


def nan_everywhere():
    model = MLP()
    with torch.no_grad():
        model.up.bias[3] = float("nan")
    return model, inputs()


def nan_on_npu():
    return OnNpu(lambda x: x / (x * 0)), inputs()


def off_on_npu():
    return OnNpu(lambda x: x * 1.01), inputs()


def fails_on_cpu():
    return MLP(), (torch.randn(4, 31),)


def _fail(x):
    raise NotImplementedError("no npu here")


def fails_on_npu():
    return OnNpu(_fail), inputs()


def random_in_graph():
    class Noise(torch.nn.Module):
        def forward(self, x):
            return x + 0 * torch.rand_like(x)

    return torch.nn.Sequential(torch.nn.Linear(32, 8), Noise()), inputs()


def float8_inside():
    class Through8Bits(torch.nn.Module):
        def forward(self, x):
            return x.to(torch.float8_e4m3fn).to(torch.float32)

    return torch.nn.Sequential(torch.nn.Linear(32, 8), Through8Bits()), inputs()


def crashes():
    return OnNpu(lambda x: os.kill(os.getpid(), signal.SIGSEGV)), inputs()


def dictionary():
    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mlp = MLP()

        def forward(self, *, x, scale=1.0):
            return {"probabilities": self.mlp(x) * scale, "input": x}

    return Named(), {"x": inputs()[0], "scale": 2.0}


def bfloat16():
    return MLP().bfloat16(), (inputs()[0].bfloat16(),)
