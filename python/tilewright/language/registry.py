"""Functions that kernels call: the front end knows them by identity, tiles have some of them as methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BUILTINS: set[Callable[..., Any]] = set()

#: Methods of tiles: name -> function whose first argument is the tile.
METHODS: dict[str, Callable[..., Any]] = {}


def builtin(function: Callable[..., Any]) -> Callable[..., Any]:
    BUILTINS.add(function)
    return function


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    METHODS[function.__name__] = function
    return builtin(function)
