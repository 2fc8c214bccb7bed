"""scaled_dot_product_attention reaches the graph as one node where nothing is differentiated, and means what PyTorch's means."""

import functools

import pytest
import torch
import torch.nn.functional as F
from graph_interpreter import build_interpreted

from tilewright.dynamo.backend import compile_dynamo_graph
from tilewright.dynamo.sdpa import attention_math


class Recorder:
    def __init__(self):
        self.operators, self.graphs = [], []

    def __call__(self, gm, example_inputs):
        def build(description, text, stats):
            self.operators += description.operators
            self.graphs.append(description)
            return build_interpreted(description, text, stats)

        return compile_dynamo_graph(gm, example_inputs, builder=build)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def qkv(batch=2, heads=4, length=9, size=16, keys=None, kv_heads=None, dtype=torch.float32):
    keys, kv_heads = keys or length, kv_heads or heads
    q = torch.randn(batch, heads, length, size, dtype=dtype)
    return (
        q,
        torch.randn(batch, kv_heads, keys, size, dtype=dtype),
        torch.randn(batch, kv_heads, keys, size, dtype=dtype),
    )


CASES = {
    "plain": (qkv(), {}),
    "causal": (qkv(), {"is_causal": True}),
    "scale": (qkv(), {"scale": 0.5}),
    "bool mask": (qkv(), {"attn_mask": torch.rand(2, 1, 9, 9) > 0.3}),
    "row masked out": (qkv(), {"attn_mask": torch.arange(9)[:, None] > torch.arange(9)}),
    "float mask": (qkv(keys=5), {"attn_mask": torch.randn(9, 5)}),
    "grouped queries": (qkv(heads=8, kv_heads=2), {"enable_gqa": True}),
    "three dimensions": ((torch.randn(3, 5, 8), torch.randn(3, 7, 8), torch.randn(3, 7, 8)), {}),
    "double": (qkv(dtype=torch.float64), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_one_node_with_eager_result(name):
    args, options = CASES[name]
    recorder = Recorder()
    f = functools.partial(F.scaled_dot_product_attention, **options)
    with torch.no_grad():
        result = torch.compile(lambda q, k, v: f(q, k, v), backend=recorder)(*args)
    torch.testing.assert_close(result, f(*args), rtol=1e-5, atol=1e-5)
    assert recorder.operators.count("tilewright.sdpa.default") == 1


@pytest.mark.parametrize("name", CASES)
def test_math_path_equals_eager(name):
    args, options = CASES[name]
    torch.testing.assert_close(
        attention_math(*args, **options), F.scaled_dot_product_attention(*args, **options), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("name", ["plain", "causal", "float mask", "grouped queries"])
def test_gradients_equal_eager(name):
    args, options = CASES[name]
    recorder = Recorder()

    def gradients(f):
        leaves = [a.clone().requires_grad_() for a in args]
        weight = torch.arange(leaves[0].numel(), dtype=torch.float32).view_as(leaves[0]).sin()
        (f(*leaves) * weight).sum().backward()
        return [leaf.grad for leaf in leaves]

    f = functools.partial(F.scaled_dot_product_attention, **options)
    compiled = torch.compile(lambda q, k, v: f(q, k, v), backend=recorder)
    torch.testing.assert_close(gradients(compiled), gradients(f), rtol=1e-4, atol=1e-5)
    assert "tilewright.sdpa.default" not in recorder.operators
    assert "aten.bmm.default" in recorder.operators


def test_frozen_parameters_keep_the_node_in_grad_mode():
    recorder = Recorder()
    args = qkv()
    torch.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), backend=recorder)(*args)
    assert recorder.operators == ["tilewright.sdpa.default"]


def test_autocast_computes_in_low_precision():
    recorder = Recorder()

    def f(q, k, v):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.scaled_dot_product_attention(q, k, v)

    args = qkv()
    with torch.no_grad():
        result = torch.compile(f, backend=recorder)(*args)
    assert result.dtype == f(*args).dtype == torch.bfloat16
    torch.testing.assert_close(result, f(*args), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mask", ["none", "positions", "keys", "both"])
def test_encoder_layer_is_taken_apart_in_inference(norm_first, mask):
    recorder = Recorder()
    layer = torch.nn.TransformerEncoderLayer(
        16, 2, 32, batch_first=True, activation="gelu", norm_first=norm_first
    ).eval()
    options = {}
    if mask in ("positions", "both"):
        options["src_mask"] = torch.triu(torch.ones(6, 6, dtype=torch.bool), 1)
    if mask in ("keys", "both"):
        options["src_key_padding_mask"] = torch.arange(6) >= torch.tensor([[6], [4]])
    x = torch.randn(2, 6, 16)
    with torch.no_grad():
        torch.testing.assert_close(
            torch.compile(layer, backend=recorder)(x, **options), layer(x, **options), rtol=1e-4, atol=1e-5
        )
    assert recorder.operators.count("tilewright.sdpa.default") == 1
    assert not any("transformer" in op or "multi_head" in op for op in recorder.operators)


@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention_module(need_weights):
    recorder = Recorder()
    module = torch.nn.MultiheadAttention(16, 2, batch_first=True)
    x = torch.randn(2, 6, 16)
    for trained in (False, True):
        module.train(trained)
        with torch.set_grad_enabled(trained):
            expected, weights = module(x, x, x, need_weights=need_weights)
            result, compiled_weights = torch.compile(
                lambda x: module(x, x, x, need_weights=need_weights), backend=recorder
            )(x)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(compiled_weights, weights, rtol=1e-4, atol=1e-5)
    assert not any("flash" in op for op in recorder.operators)
