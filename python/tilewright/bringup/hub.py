"""SPEC hf:DIRECTORY: a local folder of a transformers model. Nothing is downloaded and no code of the folder is run."""

from __future__ import annotations

import os
from typing import Any

import torch

from .failure import BringupError, ExitCode, detail_of, first_sentence, missing_package

_BATCH, _LENGTH = 2, 16


def load_folder(folder: str) -> tuple[torch.nn.Module, Any, None]:
    spec = f"hf:{folder}"
    if not os.path.isdir(folder):
        raise BringupError(
            ExitCode.SPEC,
            f"there is no folder {folder}",
            spec,
            "hf: takes a local folder with config.json and weights; nothing is downloaded",
        )
    if not os.path.isfile(os.path.join(folder, "config.json")):
        raise BringupError(
            ExitCode.SPEC,
            f"{folder} has no config.json",
            spec,
            "hf: takes the folder that transformers' save_pretrained writes",
        )
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported
    try:
        import transformers
    except ImportError as error:
        raise missing_package(error, spec) from error
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(0)
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        model = transformers.AutoModel.from_pretrained(folder, local_files_only=True, config=config)
    except ImportError as error:
        raise missing_package(error, spec) from error
    except Exception as error:
        raise BringupError(
            ExitCode.FACTORY,
            f"transformers cannot load it: {first_sentence(error)}",
            spec,
            "Its traceback is in the report",
            detail_of(error),
        ) from error
    if getattr(config, "use_cache", False):
        model.config.use_cache = False  # a key-value cache is no output to compare
    return model, _example(spec, model, config), None


def _example(spec: str, model: Any, config: Any) -> dict[str, torch.Tensor]:
    """Inputs under the model's own main name: tokens with a mask, or images."""
    name = model.main_input_name
    if name == "pixel_values":
        size = (
            config.image_size
            if isinstance(config.image_size, (list, tuple))
            else (config.image_size, config.image_size)
        )
        return {name: torch.randn(_BATCH, getattr(config, "num_channels", 3), *size, dtype=model.dtype)}
    if name != "input_ids":
        raise BringupError(
            ExitCode.SPEC,
            f"a model that takes {name} has no example inputs here",
            spec,
            "Write a factory that returns the model and inputs of yours: file.py:factory",
        )
    text = config.get_text_config()
    length = min(_LENGTH, getattr(text, "max_position_embeddings", None) or _LENGTH)
    inputs = {name: torch.randint(0, text.vocab_size, (_BATCH, length))}
    inputs["attention_mask"] = torch.ones(_BATCH, length, dtype=torch.long)
    inputs["attention_mask"][-1, length * 3 // 4 :] = 0
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = torch.randint(0, text.vocab_size, (_BATCH, length))
    return inputs
