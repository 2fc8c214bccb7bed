"""Tilewright: a PyTorch model on an accelerator on day zero.

`import tilewright` (or plain `import torch`, through the entry-point group `torch.backends`) registers the device `npu`;
`torch.compile(model, backend="tilewright")` compiles for `npu` and `cpu` tensors.

Importing this package loads neither torch._dynamo nor the compiler. It raises ImportError if the device cannot work here (another torch
version, a library that does not load); where another accelerator is there it stands back and says so once.
"""

from __future__ import annotations

import sys
from typing import Any

__version__ = "0.1.0"

#: Names that come with their module at first use: name -> module.
_LAZY: dict[str, str] = {
    "CompileError": "tilewright.dynamo.errors",
    "InternalError": "tilewright.dynamo.errors",
    "UnsupportedError": "tilewright.dynamo.errors",
    "compile_stats": "tilewright.stats",
    "explain": "tilewright.explanation",
    "freeze": "tilewright.freezing",
    "is_frozen": "tilewright.freezing",
    "reset_compile_stats": "tilewright.stats",
    "unfreeze": "tilewright.freezing",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    module = _LAZY.get(name)
    if module is None:
        # The kernel language: its names stay out of this module's globals, where `range` and `max` are Python's.
        if name == "language" or not (name.startswith("_") or _is_unloaded_submodule(name)):
            language = import_module("tilewright.language")
            if name == "language":
                return language
            if name in language.__all__:
                return getattr(language, name)
            instead = import_module("tilewright.language.other_names").instead_of(name, language.__all__, "tw.{}")
            if instead:
                raise AttributeError(f"module 'tilewright' has no attribute {name!r}; write instead: {instead}")
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def _is_unloaded_submodule(name: str) -> bool:
    """`from tilewright import npu` asks for an attribute first, also inside `import torch`, where the language costs 100 ms."""
    from importlib.util import find_spec

    return "tilewright.language" not in sys.modules and find_spec(f"tilewright.{name}") is not None


def __dir__() -> list[str]:
    from . import language

    return sorted({*globals(), *_LAZY, *language.__all__})


def _torch_is_importing() -> bool:
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


# While torch itself is being imported, its entry point calls _autoload.load; here nothing may fail or import torch.
if not _torch_is_importing():
    from . import _autoload

    _autoload.on_import()
