"""The Python side of the switches says what docs/switches.md says."""

import re
from pathlib import Path

import pytest

from tilewright import switches

TABLE = Path(__file__).parents[2] / "docs" / "switches.md"


def documented():
    rows = re.findall(r"^\| `(TILEWRIGHT_\w+)` \| (.*?) \|", TABLE.read_text(), re.M)
    return {name: re.findall(r"`([^`]+)`", values) for name, values in rows}


def test_names_and_words_are_those_of_the_documentation():
    rows = documented()
    assert list(switches.SWITCHES) == sorted(rows)
    for name, values in switches.SWITCHES.items():
        if isinstance(values, tuple) and name != "TILEWRIGHT_DEBUG":
            assert sorted(values) == sorted(rows[name]), name


def test_environment_then_override(monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_FALLBACK", raising=False)
    assert switches.get("TILEWRIGHT_FALLBACK") is None and switches.fallback() == "warn"
    monkeypatch.setenv("TILEWRIGHT_FALLBACK", "silent")
    assert switches.fallback() == "silent"
    with switches.overridden(TILEWRIGHT_FALLBACK="error", TILEWRIGHT_DEBUG=2):
        assert switches.fallback() == "error" and switches.debug_level() == 2
        assert switches.overrides()["TILEWRIGHT_FALLBACK"] == "error"
    assert switches.fallback() == "silent" and "TILEWRIGHT_FALLBACK" not in switches.overrides()


def test_wrong_names_and_values(monkeypatch):
    with pytest.raises(KeyError, match="TILEWRIGHT_SPEED"):
        switches.get("TILEWRIGHT_SPEED")
    with pytest.raises(ValueError, match="use warn, silent or error"):
        switches.set("TILEWRIGHT_FALLBACK", "never")
    monkeypatch.setenv("TILEWRIGHT_FALBACK", "error")
    with pytest.warns(RuntimeWarning, match="did you mean TILEWRIGHT_FALLBACK"):
        switches.check()
