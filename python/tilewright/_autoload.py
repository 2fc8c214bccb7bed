"""Registers the device `npu` with PyTorch: called by `import torch` (entry point) and by `import tilewright`.

The entry point runs inside everybody's `import torch`, where an exception would make torch unusable. So `load` never raises: what goes
wrong is one warning. `import tilewright` asks for the device by name and raises (unless torch came first and has warned).
"""

from __future__ import annotations

import os
import sys
import warnings

#: The version that the extension is built against. PyTorch's C++ interface changes with every release.
TORCH_VERSION = "2.13.0"

NAME = "npu"

_registered = False
_failure: str | None = None  # why the device cannot work here
_said: set[str] = set()


class DeviceUnavailableError(ImportError):
    """The device cannot be registered; the message says why and what to do."""


def load() -> None:
    """The entry point `torch.backends`. Never raises."""
    try:
        _register()
    except Exception as error:
        _say(f"Tilewright's device {NAME} is not available: {_describe(error)} PyTorch works without it.")


def on_import() -> None:
    """What `import tilewright` does. Raises DeviceUnavailableError."""
    if _mode() == "force" and "torch" not in sys.modules:
        # The order of entry points cannot be relied on: no other back end may take the slot before us.
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    try:
        import torch  # noqa: F401  (calls load, where entry points are enabled)
    except ImportError as error:
        raise DeviceUnavailableError(f"Tilewright needs PyTorch {TORCH_VERSION}: {error}") from error
    if _failure is not None:
        raise DeviceUnavailableError(_failure)
    _register()
    from . import dynamo

    dynamo.register()  # the compiler works on cpu tensors where the device stands back, too


def _register() -> None:
    global _registered, _failure
    if _registered or _failure is not None:
        return
    import torch

    if _mode() == "off":
        return
    reason = _why_stand_back(torch)
    if reason is not None:
        _say(f"Tilewright leaves the device {NAME} alone: {reason}")
        return
    try:
        _check_version(torch)
        _load_extension(torch)
    except Exception as error:
        _failure = _describe(error)
        raise
    _registered = True


def _mode() -> str:
    mode = os.environ.get("TILEWRIGHT_DEVICE") or "auto"
    if mode not in ("auto", "force", "off"):
        raise DeviceUnavailableError(f"TILEWRIGHT_DEVICE={mode}: unknown value; use auto, force or off.")
    return mode


def _why_stand_back(torch) -> str | None:
    """PyTorch has one slot for a device of its own, and one current accelerator: others come first."""
    taken = torch._C._get_privateuse1_backend_name()
    if taken != "privateuseone":
        return f"the device {taken} of another package has the slot for such devices (PrivateUse1)."
    if _mode() == "force":
        return None
    from importlib.util import find_spec

    force = "Set TILEWRIGHT_DEVICE=force and import tilewright before torch to have it all the same."
    if "torch_npu" in sys.modules or find_spec("torch_npu") is not None:
        return f"torch_npu is installed, and {NAME} is its device. {force}"
    if torch.accelerator.is_available():
        return f"PyTorch has the accelerator {torch.accelerator.current_accelerator()}. {force}"
    return None


def _check_version(torch) -> None:
    found = str(torch.__version__)
    if found.split("+")[0] != TORCH_VERSION:
        raise DeviceUnavailableError(
            f"it is built for PyTorch {TORCH_VERSION}, and this is {found}; the two do not fit together. "
            f"Install torch=={TORCH_VERSION}, or a Tilewright for your version."
        )


def _load_extension(torch) -> None:
    try:
        from . import _C
    except ImportError as error:
        raise DeviceUnavailableError(f"its extension does not load: {error}. Was it built for this Python?") from error
    if _C.torch_version != TORCH_VERSION:
        raise DeviceUnavailableError(
            f"its extension was built for PyTorch {_C.torch_version}, the package for {TORCH_VERSION}."
        )
    from . import dynamo, npu

    npu._install(torch, _C)
    dynamo.register()


def _describe(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text if text.endswith(".") else text + "."


def _say(message: str) -> None:
    """One warning per process and message, also where warnings are errors."""
    if message in _said:
        return
    _said.add(message)
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:
        print(f"RuntimeWarning: {message}", file=sys.stderr)
