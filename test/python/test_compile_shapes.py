"""How many graphs Dynamo makes as sizes change, and what becomes of graphs that refuse symbolic sizes."""

import functools
import itertools
import random
import warnings

import pytest
import torch
from graph_interpreter import build_interpreted
from torch import nn
from torch._dynamo.utils import counters

from tilewright.dynamo.backend import compile_dynamo_graph
from tilewright.dynamo.errors import UnsupportedError

INTERPRETED = functools.partial(compile_dynamo_graph, builder=build_interpreted)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def graphs():
    return counters["stats"]["unique_graphs"]


class Encoder(nn.Module):
    """Batch and length are free; the rest is the model's."""

    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(50, 16), nn.Embedding(40, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
        self.register_buffer("ids", torch.arange(40))

    def forward(self, tokens, mask):
        x = self.words(tokens) + self.positions(self.ids[: tokens.shape[1]])
        x = self.layer(x, src_key_padding_mask=~mask)
        weights = mask.unsqueeze(-1).to(x.dtype)
        return (x * weights).sum(1) / weights.sum(1)


def encoder_inputs(batch, length):
    mask = torch.ones(batch, length, dtype=torch.bool)
    mask[-1, (length + 1) // 2 :] = False
    return torch.randint(0, 50, (batch, length)), mask


@pytest.mark.parametrize("seed", range(2))
def test_free_batch_and_length_need_one_graph_and_at_most_four_with_size_one(seed):
    model = Encoder().eval()
    compiled = torch.compile(model, backend=INTERPRETED)
    shapes = [(2, 3), (3, 3), (3, 17), (33, 5), (8, 40), (2, 2)]
    ones = [(1, 1), (1, 9), (7, 1)]
    random.Random(seed).shuffle(shapes)
    before = graphs()
    with torch.no_grad():
        for shape in shapes:
            inputs = encoder_inputs(*shape)
            torch.testing.assert_close(compiled(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)
        assert graphs() - before == 1
        for shape in ones + shapes:
            inputs = encoder_inputs(*shape)
            torch.testing.assert_close(compiled(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)
    assert graphs() - before <= 4


def test_size_one_in_any_order():
    orders = list(itertools.permutations([(1, 1), (1, 5), (4, 1), (3, 6)]))
    for order in random.Random(0).sample(orders, 4):
        torch._dynamo.reset()
        before = graphs()
        compiled = torch.compile(lambda x, y: (x + y).softmax(-1) * 2, backend=INTERPRETED)
        with torch.no_grad():
            for shape in [*order, (5, 9), (1, 7), (6, 1), (1, 1)]:
                x, y = torch.randn(shape), torch.randn(shape)
                torch.testing.assert_close(compiled(x, y), (x + y).softmax(-1) * 2)
        assert graphs() - before <= 4, order


def test_training_needs_two_graphs():
    compiled = torch.compile(lambda w, x: torch.tanh(x @ w).square().sum(), backend=INTERPRETED)
    w = torch.randn(8, 4, requires_grad=True)
    before = graphs()
    for batch in (5, 5, 7, 12, 3):
        compiled(w, torch.randn(batch, 8)).backward()
    assert graphs() - before == 2


def test_static_is_obeyed():
    for options in ({"dynamic": False}, {"options": {"dynamic_first": False}}):
        torch._dynamo.reset()
        seen = []

        def build(description, text, stats, seen=seen):
            seen.append(len(description.json["symbols"]))
            return build_interpreted(description, text, stats)

        def backend(gm, inputs, build=build, **kwargs):
            return compile_dynamo_graph(gm, inputs, builder=build, **kwargs)

        compiled = torch.compile(lambda x: x * 2, backend=backend, **options)
        with torch.no_grad():
            compiled(torch.randn(3, 4))
        assert seen == [0]


def test_feature_sizes_stay_constants():
    seen = []

    def build(description, text, stats):
        seen.append(description.json)
        return build_interpreted(description, text, stats)

    compiled = torch.compile(nn.Linear(8, 3), backend=functools.partial(compile_dynamo_graph, builder=build))
    with torch.no_grad():
        compiled(torch.randn(5, 8))
    (graph,) = seen
    assert len(graph["symbols"]) == 1
    assert ["s0", 8] in [i["sizes"] for i in graph["inputs"] if i["kind"] == "tensor"]


def test_refused_symbolic_sizes_are_compiled_per_size_with_a_warning():
    def build(description, text, stats):
        if description.json["symbols"]:
            raise UnsupportedError("symbolic sizes of this kind", op="aten.mul.Tensor")
        return build_interpreted(description, text, stats)

    compiled = torch.compile(lambda x: x * 2, backend=functools.partial(compile_dynamo_graph, builder=build))
    before = graphs()
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for size in (3, 4, 3, 5, 4):
            x = torch.randn(size, size + 1)
            torch.testing.assert_close(compiled(x), x * 2)
    assert graphs() - before == 3
    messages = [str(w.message) for w in caught if "constant sizes instead" in str(w.message)]
    assert len(messages) == 1 and "aten.mul.Tensor" in messages[0]


def test_graph_break_before_and_after():
    def f(x):
        y = torch.relu(x) + 1
        torch._dynamo.graph_break()
        return y.sum(-1) * 2

    compiled = torch.compile(f, backend=INTERPRETED)
    before = graphs()
    with torch.no_grad():
        for shape in [(3, 4), (5, 4), (5, 9), (2, 2)]:
            x = torch.randn(shape)
            torch.testing.assert_close(compiled(x), f(x))
    assert graphs() - before == 2


def test_containers_of_tensors():
    def f(batch):
        return batch["a"] * 2 + batch["b"][0]

    compiled = torch.compile(f, backend=INTERPRETED)
    before = graphs()
    with torch.no_grad():
        for shape in [(3, 4), (5, 4), (5, 9)]:
            batch = {"a": torch.randn(shape), "b": [torch.randn(shape)]}
            torch.testing.assert_close(compiled(batch), f(batch))
    assert graphs() - before == 1
