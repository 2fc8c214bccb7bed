"""Graph descriptions of real programs mean what the programs mean: run by the interpreter, compared with eager PyTorch."""

import functools

import pytest
import torch
import torch.nn.functional as F
from graph_interpreter import build_interpreted
from torch import nn

from tilewright.dynamo.backend import compile_dynamo_graph
from tilewright.dynamo.graph import GraphDescription

INTERPRETED = functools.partial(compile_dynamo_graph, builder=build_interpreted)


class Recorder:
    """A back end that keeps the descriptions it was asked to build."""

    def __init__(self):
        self.graphs: list[GraphDescription] = []

    def __call__(self, gm, example_inputs, **kwargs):
        def build(description, text, stats):
            self.graphs.append(description)
            return build_interpreted(description, text, stats)

        return compile_dynamo_graph(gm, example_inputs, builder=build, **kwargs)

    @property
    def operators(self):
        return [op for g in self.graphs for op in g.operators]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def recorder():
    return Recorder()


def compare(fn, *args, backend=INTERPRETED, rtol=1e-5, atol=1e-6, **options):
    with torch.no_grad():
        expected = fn(*args)
        result = torch.compile(fn, backend=backend, **options)(*args)
    torch.testing.assert_close(result, expected, rtol=rtol, atol=atol)
    return result


def test_mlp(recorder):
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8), nn.Softmax(-1)).eval()
    compare(model, torch.randn(5, 16), backend=recorder)
    assert {
        "aten.addmm.default",
        "aten.gelu.default",
        "aten.native_layer_norm.default",
        "aten._softmax.default",
    } <= set(recorder.operators)


def test_parameters_are_told_from_inputs(recorder):
    compare(nn.Linear(16, 32), torch.randn(5, 16), backend=recorder)
    roles = {(tuple(i["sizes"]), i["role"]) for i in recorder.graphs[-1].json["inputs"] if i["kind"] == "tensor"}
    assert ((32, 16), "parameter") in roles
    assert any(role == "input" and sizes[-1] == 16 and len(sizes) == 2 for sizes, role in roles)


def test_source_lines_name_the_users_code(recorder):
    def f(x):
        y = x + 1
        return torch.relu(y)

    compare(f, torch.randn(4), backend=recorder)
    sources = [n["source"] for n in recorder.graphs[-1].json["nodes"]]
    assert any(s.startswith("test_compile_graphs.py:") and s.endswith("in f: y = x + 1") for s in sources)


def test_convolution_network_reaches_the_graph_as_operators(recorder):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 16, 10),
    ).eval()
    compare(model, torch.randn(2, 3, 8, 8), backend=recorder)
    assert "aten.convolution.default" in recorder.operators


def test_operator_with_several_results():
    compare(lambda x: torch.topk(x, 3, dim=-1), torch.randn(4, 9))
    compare(lambda x: x.split(3, dim=1), torch.randn(4, 9))
    compare(lambda x: torch.max(x, dim=1), torch.randn(4, 9))


def test_infinite_and_complex_scalars():
    compare(lambda x: torch.where(x > 0, x, float("-inf")), torch.randn(4, 9))
    compare(lambda x: torch.full_like(x, float("nan")).nan_to_num(1.5) + x, torch.randn(4))
    compare(lambda x: x * (2 + 1j), torch.randn(4))


def test_constants_belong_to_the_graph():
    table = torch.tensor([3, 1, 2])
    compare(lambda x: x[table] + torch.tensor([1.0, 2.0, 3.0]), torch.randn(4))


def test_input_mutation_is_written_back():
    def update(cache, new, position):
        cache.index_copy_(1, position, new)
        return cache.sum(1)

    def check(backend):
        cache, new = torch.zeros(3, 8), torch.arange(6.0).view(3, 2)
        f = torch.compile(update, backend=backend) if backend else update
        with torch.no_grad():
            return f(cache, new, torch.tensor([2, 5])), cache

    torch.testing.assert_close(check(INTERPRETED), check(None))


def test_mutation_through_a_view_and_aliased_output():
    def f(x):
        x[1].mul_(2)
        return x.view(-1), x.t()

    mine, theirs = torch.arange(6.0).view(2, 3), torch.arange(6.0).view(2, 3)
    with torch.no_grad():
        flat, transposed = torch.compile(f, backend=INTERPRETED)(mine)
        f(theirs)
    torch.testing.assert_close(mine, theirs)
    assert flat.data_ptr() == mine.data_ptr() and transposed.data_ptr() == mine.data_ptr()
    flat[0] = 7
    assert mine[0, 0] == 7


def test_input_returned_as_it_is():
    x = torch.randn(3)
    with torch.no_grad():
        same, other = torch.compile(lambda x: (x, x + 1), backend=INTERPRETED)(x)
    assert same is x
    torch.testing.assert_close(other, x + 1)


@pytest.mark.parametrize("view", [lambda b: b[2:], lambda b: b[:, 3:], lambda b: b.t(), lambda b: b[1::2, ::3]])
def test_strided_inputs(view):
    compare(lambda x: torch.tanh(x) * 3 - x, view(torch.randn(6, 10)))


def test_empty_inputs():
    compare(lambda a, b: a @ b + 1, torch.empty(4, 0), torch.empty(0, 3))
    compare(lambda a: a.sum(0), torch.empty(0, 5))


def test_sizes_as_numbers_and_views():
    def f(x):
        b, s, h = x.shape
        y = x.view(b, s, 4, h // 4).transpose(1, 2).reshape(b * 4, s, -1)
        return y.sum(-1) / (b * s), x.flatten(0, 1)[: s - 1], torch.arange(s) + b

    compiled = torch.compile(f, backend=INTERPRETED)
    for shape in [(2, 5, 8), (3, 7, 8), (1, 4, 8), (6, 2, 8)]:
        x = torch.randn(shape)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), f(x))


def train(model, data, compiled, steps=4, optimiser=torch.optim.AdamW):
    step = torch.compile(model, backend=INTERPRETED) if compiled else model
    opt = optimiser(model.parameters(), lr=1e-2)
    losses = []
    for x, y in data[:steps]:
        opt.zero_grad()
        loss = F.cross_entropy(step(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def test_training_gives_the_losses_of_eager():
    def model():
        torch.manual_seed(1)
        return nn.Sequential(
            nn.Embedding(20, 16), nn.Flatten(), nn.Linear(80, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 5)
        )

    data = [(torch.randint(0, 20, (b, 5)), torch.randint(0, 5, (b,))) for b in (8, 8, 3, 1)]
    torch.testing.assert_close(train(model(), data, True), train(model(), data, False), rtol=1e-4, atol=1e-5)


def test_training_with_attention_gives_the_gradients_of_eager(recorder):
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, activation="gelu")
    x, weight = torch.randn(2, 6, 16), torch.randn(2, 6, 16)
    (layer(x) * weight).sum().backward()
    expected = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    (torch.compile(layer, backend=recorder)(x) * weight).sum().backward()
    torch.testing.assert_close([p.grad for p in layer.parameters()], expected, rtol=1e-3, atol=1e-4)
    assert "tilewright.sdpa.default" not in recorder.operators
    assert {g.json["name"].rsplit(".", 1)[1] for g in recorder.graphs} == {"forward", "backward"}


def test_float_argument_is_no_constant_of_the_program():
    def f(x, factor):
        return x * factor

    compiled = torch.compile(f, backend=INTERPRETED)
    x = torch.randn(4)
    for factor in (0.5, 0.25, -3.0, 7.125):
        torch.testing.assert_close(compiled(x, factor), f(x, factor))


def test_int_argument():
    def f(x, n):
        return x[:n] * n

    compiled = torch.compile(f, backend=INTERPRETED)
    x = torch.randn(9)
    for n in (5, 6, 3, 1, 0, 8):
        torch.testing.assert_close(compiled(x, n), f(x, n))


def test_half_precision_and_autocast():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))

    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    compare(f, torch.randn(4, 16), rtol=2e-2, atol=2e-2)
    compare(model.bfloat16(), torch.randn(4, 16, dtype=torch.bfloat16), rtol=2e-2, atol=2e-2)
