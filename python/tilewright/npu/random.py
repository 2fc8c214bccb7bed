"""The device's random state: a seed and an offset, 16 bytes."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from tilewright import _C

from .device import DeviceLike, index_of


def _generator() -> torch.Generator:
    return _C.default_generator()


def get_rng_state(device: DeviceLike = "npu") -> torch.Tensor:
    """A copy of the state, a ByteTensor on the CPU."""
    index_of(device)
    return _generator().get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "npu") -> None:
    index_of(device)
    _generator().set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state()]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    manual_seed(seed)


def seed() -> None:
    """Seeds from the system's randomness."""
    _generator().seed()


def seed_all() -> None:
    seed()


def initial_seed() -> int:
    return _generator().initial_seed()
