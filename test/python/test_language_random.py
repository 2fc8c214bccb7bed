"""A few of the campaign's random kernel programs, and whether it finds and shrinks a fault."""

from __future__ import annotations

import importlib.util
import pathlib
import random
import sys

import pytest

from tilewright.language import semantics

FOLDER = pathlib.Path(__file__).parent.parent / "campaign"


@pytest.fixture(scope="module")
def campaign():
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("kernel_program_campaign", FOLDER / "programs.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


@pytest.mark.parametrize("seed", range(12))
def test_random_program(campaign, seed):
    made = campaign.generate(random.Random(seed))
    campaign.examine(made, [campaign.other_tiles, campaign.whole], "x86-64")


@pytest.mark.parametrize("seed", [0, 2, 4, 9])
def test_random_program_compiled(campaign, seed):
    made = campaign.generate(random.Random(seed))
    campaign.examine(made, [campaign.compiled], campaign.levels()[-1 if seed % 2 else 0])


def test_the_generator_repeats_itself(campaign):
    first, second = (campaign.generate(random.Random(5)) for _ in range(2))
    assert first == second
    assert all(
        a.equal(b) if hasattr(a, "equal") else a == b
        for a, b in zip(first.arguments(), second.arguments(), strict=True)
    )


def test_a_planted_fault_is_found_and_shrunk(campaign, monkeypatch):
    """One side takes max for min: the program that shows it shrinks to little more than one."""

    def faulty(case, level):
        with monkeypatch.context() as patch:
            patch.setitem(semantics._FLOAT_OPS, "exp", lambda x: semantics.torch.exp(x.double()) * 1.01)
            return campaign.other_tiles(case, level)

    for seed in range(100):
        made = campaign.generate(random.Random(seed))
        if any(s["op"] == "exp" for s in campaign.walk(made.program["body"])):
            try:
                campaign.examine(made, [faulty], "x86-64")
            except campaign.DisagreementError as error:
                text = str(error)
                break
    else:
        pytest.fail("no program showed the fault")
    assert '"op": "exp"' in text
    statements = text.count('"op": ')
    assert statements < sum(1 for _ in campaign.walk(made.program["body"]))
    assert statements <= 12, text
