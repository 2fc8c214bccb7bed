"""docs/language.md: every program on it runs and prints what it says."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import sys
from pathlib import Path

import pytest
import torch

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "language.md"

#: (line, language, text) of each fenced block.
BLOCKS = [
    (_PAGE.read_text()[: m.start()].count("\n") + 1, m[1], m[2])
    for m in re.finditer(r"^```(\w*)\n(.*?)^```$", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
]
PROGRAMS = [
    pytest.param(text, after[2] if after[1] == "text" else None, id=f"line{line}")
    for (line, language, text), after in zip(BLOCKS, [*BLOCKS[1:], (0, "", "")], strict=True)
    if language == "python"
]


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_program_prints_what_the_page_says(program, printed, tmp_path, request):
    name = f"language_page_{request.node.callspec.id}"
    file = tmp_path / f"{name}.py"
    file.write_text(program)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    torch.manual_seed(0)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        spec.loader.exec_module(module)
    assert printed is not None or not output.getvalue(), "the page does not show what is printed"
    assert output.getvalue() == (printed or "")


def test_the_page_has_programs():
    assert len(PROGRAMS) >= 14


def test_cpp_block_is_the_example():
    (text,) = (text for _, language, text in BLOCKS if language == "cpp")
    assert text == (_ROOT / "examples" / "cpp" / "row_softmax.cpp").read_text()
