"""Registration with Dynamo when Dynamo is imported, not before: `import tilewright` stays cheap."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

_DYNAMO = "torch._dynamo"


def register() -> None:
    """Makes back end and device known to Dynamo: now if it is loaded, else as soon as somebody imports it. Idempotent."""
    module = sys.modules.get(_DYNAMO)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        _register_now()
    elif not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport())


def _register_now() -> None:
    import torch._dynamo.backends.registry as registry

    from . import backend
    from .device import register_device

    # Where the entry point has been discovered, PyTorch registers what it loads from it, and refuses a second one.
    discovered = registry._BACKENDS.get("tilewright") is not None
    if not discovered and "tilewright" not in registry._COMPILER_FNS:
        registry.register_backend(backend, name="tilewright")
    register_device()


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds torch._dynamo as the other finders do, with a loader that registers us once the module has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _DYNAMO:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _RegisteringLoader(spec.loader)
        return spec


class _RegisteringLoader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)  # resources and sources: as the true loader answers

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _register_now()
