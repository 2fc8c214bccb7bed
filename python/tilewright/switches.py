"""The environment variables that Tilewright reads: the only Python module that reads them.

`docs/switches.md` is the list with its meanings; the C++ side is lib/Support/Switches.cpp. Values set here (`set`, `overridden`) hold for this
process in Python and C++ alike; what was already derived from an old value (the pool's size, the allocator) stays.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
import warnings
from collections.abc import Iterator

#: name -> what may be written: a tuple of words, or a description of other values.
SWITCHES: dict[str, tuple[str, ...] | str] = {
    "TILEWRIGHT_ALLOC": ("caching", "guard"),
    "TILEWRIGHT_CACHE": "a directory, or off",
    "TILEWRIGHT_CHECK": ("0", "1"),
    "TILEWRIGHT_COMPILER": "a path",
    "TILEWRIGHT_CPU": ("x86-64", "avx2", "avx512", "avx512bf16"),
    "TILEWRIGHT_DEBUG": ("0", "1", "2", "3", "4"),
    "TILEWRIGHT_DEVICE": ("auto", "force", "off"),
    "TILEWRIGHT_DUMP": "a directory",
    "TILEWRIGHT_FALLBACK": ("warn", "silent", "error"),
    "TILEWRIGHT_GDB": ("0", "1"),
    "TILEWRIGHT_MEMORY_LIMIT": "bytes, with K, M or G, or a percentage such as 60%",
    "TILEWRIGHT_PERF": ("0", "1"),
    "TILEWRIGHT_THREADS": "1 .. 1024",
}

_overrides: dict[str, str] = {}
_reported: set[str] = set()


def get(name: str) -> str | None:
    """The text of a switch: what `set` gave, else the environment; None if neither is there or the text is empty.

    Raises KeyError for a name that is no switch and ValueError for a word that the switch does not know.
    """
    text = _overrides.get(_known(name)) or os.environ.get(name) or None
    if text is not None:
        _validate(name, text)
    return text


def set(name: str, value: str | int | None) -> None:
    """Overrides the environment in this process; None: back to the environment."""
    _known(name)
    if value is None:
        _overrides.pop(name, None)
    else:
        _validate(name, str(value))
        _overrides[name] = str(value)
    native = sys.modules.get("tilewright._C")
    if native is not None:
        native.set_switch(name, None if value is None else str(value))


@contextlib.contextmanager
def overridden(**values: str | int | None) -> Iterator[None]:
    """`with switches.overridden(TILEWRIGHT_FALLBACK="error"): ...`"""
    before = {name: _overrides.get(_known(name)) for name in values}
    try:
        for name, value in values.items():
            set(name, value)
        yield
    finally:
        for name, value in before.items():
            set(name, value)


def overrides() -> dict[str, str]:
    """What `set` gave: for whoever loads the native library later."""
    return dict(_overrides)


def fallback() -> str:
    """warn, silent or error."""
    return get("TILEWRIGHT_FALLBACK") or "warn"


def debug_level() -> int:
    return int(get("TILEWRIGHT_DEBUG") or "0")


def dump_directory() -> str | None:
    return get("TILEWRIGHT_DUMP")


def cache_directory() -> str | None:
    """Where compiled programs and tuning results are kept between processes: TILEWRIGHT_CACHE, resolved; None if switched off, or without a home."""
    text = get("TILEWRIGHT_CACHE")
    if text is not None:
        return None if text == "off" else text
    for variable, below in (("XDG_CACHE_HOME", ""), ("HOME", "/.cache")):
        root = os.environ.get(variable, "")
        if root.startswith("/"):
            return f"{root}{below}/tilewright"
    return None


def check() -> None:
    """Raises ValueError for a value that its switch does not know; warns once of a TILEWRIGHT_ variable that is no switch."""
    for name in SWITCHES:
        get(name)
    for name in os.environ:
        if name.startswith("TILEWRIGHT_") and name not in SWITCHES and name not in _reported:
            _reported.add(name)
            close = difflib.get_close_matches(name, SWITCHES, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            warnings.warn(
                f"tilewright: {name} is no switch{hint} (docs/switches.md lists them)", RuntimeWarning, stacklevel=3
            )


def _known(name: str) -> str:
    if name not in SWITCHES:
        raise KeyError(f"{name} is no switch; the switches are {', '.join(SWITCHES)}")
    return name


def _validate(name: str, text: str) -> None:
    values = SWITCHES[name]
    if isinstance(values, tuple) and text not in values:
        raise ValueError(f"{name}={text}: unknown value; use {', '.join(values[:-1])} or {values[-1]}")
