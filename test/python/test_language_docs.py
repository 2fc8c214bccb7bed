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

import tilewright as tw
from tilewright import switches
from tilewright.language import show

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
    with contextlib.redirect_stdout(output), switches.overridden(TILEWRIGHT_CACHE=str(tmp_path)):
        spec.loader.exec_module(module)
    assert printed is not None or not output.getvalue(), "the page does not show what is printed"
    assert output.getvalue() == (printed or "")


def test_the_page_has_programs():
    assert len(PROGRAMS) >= 14


COMMANDS = [
    line.partition("#")[0].split() for _, language, text in BLOCKS if language == "sh" for line in text.splitlines()
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: "_".join(words[3:]).replace("/", "."))
def test_command_shows_the_kernel(command, capsys, monkeypatch):
    """As tools/tilewright passes it on: the stage stands behind the kernel."""
    assert command[:3] == ["tilewright", "kernel", "show"]
    options = command[4:]
    stage = []
    if "--stage" in options:
        k = options.index("--stage")
        stage = [options[k + 1]]
        del options[k : k + 2]
    monkeypatch.chdir(_ROOT)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert show.main([command[3], *stage, *options]) == 0
    shown = capsys.readouterr().out
    wanted = {"asm": "\tret", "structure": "for", "explain": "raised to loop nests"}[stage[0] if stage else "explain"]
    assert wanted in shown


def test_kernel_of_the_readme_runs(tmp_path, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", (_ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (program,) = (text for text in blocks if "@tw.kernel" in text)
    file = tmp_path / "language_readme.py"
    file.write_text(program)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert capsys.readouterr().out == "tensor([1.0000, 1.0000, 1.0000, 1.0000])\n"


def test_cpp_block_is_the_example():
    (text,) = (text for _, language, text in BLOCKS if language == "cpp")
    assert text == (_ROOT / "examples" / "cpp" / "row_softmax.cpp").read_text()


# -- the reference -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("language_reference", _ROOT / "scripts" / "language_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("part", ["declarations", "functions", "kernel", "meeting", "results", "refused"])
def test_generated_part_is_current(reference, part):
    assert sorted(reference.PARTS) == ["declarations", "functions", "kernel", "meeting", "refused", "results"]
    (found,) = re.findall(rf"<!-- {part} -->\n(.*?)\n<!-- end -->", _PAGE.read_text(), re.DOTALL)
    assert found == reference.PARTS[part](), "python scripts/language_reference.py writes it anew"


def test_every_public_name_is_in_the_reference():
    text = _PAGE.read_text().partition("\n# Reference\n")[2].partition("\n# What is refused\n")[0]
    missing = [name for name in tw.language.__all__ if not re.search(rf"tw\.{name}\b", text)]
    assert not missing and len(tw.language.__all__) > 100


# -- what is not there -------------------------------------------------------------------------------------------------

M = tw.symbols("M")
T = tw.dtypes("T")


@tw.kernel
def copied(X: tw.In[T, M], Y: tw.Out[T, M]):
    for i in tw.parallel(M):
        Y[i] = X[i]


@tw.kernel
def added(X: tw.In[T, M], Y: tw.InOut[T, 1]):
    for i in tw.parallel(M):
        tw.atomic_add(Y, 0, tw.sum(X[i]).to(T))


@tw.kernel
def gathered(X: tw.In[T, M], Index: tw.In[tw.i64, M], Y: tw.Out[T, M]):
    for i in tw.parallel(M):
        Y[i] = X[Index[i]]


def test_dtypes_that_are_not_there():
    for dtype in (torch.float8_e4m3fn, torch.complex64):
        with pytest.raises(tw.KernelError, match=r"X has the dtype"):
            copied(torch.ones(3).to(dtype))


def test_functions_that_are_not_there():
    assert not {name for name in tw.language.__all__ if name.startswith("f8")}


def test_atomic_add_takes_wide_dtypes():
    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64):
        total = torch.ones(1, dtype=dtype)
        added(torch.ones(5, dtype=dtype), total)
        assert total.item() == 6
    for dtype in (torch.bfloat16, torch.float16, torch.int8):
        with pytest.raises(tw.UnsupportedError, match="atomic_add"):
            added(torch.ones(5, dtype=dtype), torch.ones(1, dtype=dtype))


def test_negative_indices_in_data_do_not_wrap():
    with pytest.raises(IndexError, match="index -1 is out of bounds for dimension 0 of X with size 3"):
        gathered(torch.ones(3), torch.tensor([0, -1, 2]))
