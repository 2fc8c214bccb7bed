"""The parts of bringup: comparison with float64, taps, specs, report and page."""

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from tilewright.bringup import compare, failure, memory, spec, taps
from tilewright.bringup.failure import BringupError, ExitCode
from tilewright.bringup.page import page
from tilewright.bringup.report import Report
from tilewright.bringup.trees import Inputs, map_tensors, tensors_of
from tilewright.bringup.verdict import conclude

ROOT = Path(__file__).parents[2]
MODELS = Path(__file__).with_name("bringup_models.py")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_ulp_is_the_distance_of_neighbouring_numbers(dtype):
    values = torch.tensor([1.0, 1.5, 3.0, 1000.0, 1e-3, 6e-5, 0.0], dtype=dtype)
    following = torch.nextafter(values, torch.tensor(math.inf, dtype=dtype))
    assert torch.equal(compare.ulp_of(values.double(), dtype), following.double() - values.double())


def test_difference_measures_against_float64():
    reference = torch.tensor([1.0, -4.0, 2.0], dtype=torch.float64)
    found = torch.tensor([1.0, -4.0, 2.0 + 2**-21], dtype=torch.float32)
    result = compare.difference(found, reference)
    assert result.max_abs == 2**-21 and result.scale == 4 and result.relative == 2**-23
    assert result.ulp["max"] == 2 and result.ulp["p50"] == 0 and result.not_finite == 0


def test_infinities_may_agree_and_nan_may_not_appear():
    reference = torch.tensor([-math.inf, 1.0], dtype=torch.float64)
    assert compare.difference(torch.tensor([-math.inf, 1.0]), reference).not_finite == 0
    bad = compare.difference(torch.tensor([-math.inf, math.nan]), reference)
    assert bad.not_finite == 1 and math.isnan(bad.max_abs)
    assert compare.difference(torch.tensor([3.0, 1.0]), reference).not_finite == 1


def test_integers_are_compared_exactly():
    wrong = compare.difference(torch.tensor([1, 2, 4]), torch.tensor([1, 2, 3]))
    assert wrong.max_abs == 1 and wrong.ulp is None and compare.beyond(wrong, None, None)
    assert not compare.beyond(compare.difference(torch.tensor([1, 2]), torch.tensor([1, 2])), None, None)


def test_empty_and_complex_results_are_compared():
    assert compare.difference(torch.empty(0, 3), torch.empty(0, 3, dtype=torch.float64)).elements == 0
    assert compare.difference(torch.tensor([1 + 2j]), torch.tensor([1 + 1j])).max_abs == 1


def test_what_eager_cpu_errs_too_is_within_tolerance():
    reference = torch.ones(2, dtype=torch.float64)
    off = compare.difference(torch.tensor([1.0, 1.01]), reference)
    assert compare.beyond(off, None, None)
    assert compare.beyond(off, compare.difference(torch.ones(2), reference), None)
    assert not compare.beyond(off, compare.difference(torch.tensor([0.992, 1.0]), reference), None)
    assert not compare.beyond(off, None, 0.1)


def test_trees_keep_their_form():
    nest = {"a": (torch.ones(2), [torch.zeros(1), 3]), "b": None}
    assert [name for name, _ in tensors_of(nest)] == [".a[0]", ".a[1][0]"]
    twice = map_tensors(nest, lambda t: t * 2)
    assert torch.equal(twice["a"][0], torch.full((2,), 2.0)) and twice["a"][1][1] == 3 and twice["b"] is None


def test_another_batch_size_repeats_rows_and_leaves_other_tensors():
    example = Inputs.of((torch.arange(3).unsqueeze(1), torch.ones(5), torch.tensor(2.0)))
    seven = example.with_batch(7)
    assert (
        seven.args[0].flatten().tolist() == [0, 1, 2, 0, 1, 2, 0]
        and seven.args[1].shape == (5,)
        and seven.args[2].dim() == 0
    )


def test_taps_see_every_call_and_survive_changes_in_place():
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
            self.clear = torch.nn.ReLU(inplace=True)

        def forward(self, x):
            return self.clear(self.linear(self.linear(x))) + 0

    model = Twice()
    tapped = taps.Tapped(model)
    x = torch.randn(2, 3)
    found = taps.collect(tapped, Inputs.of(x))
    assert list(found) == [("linear", 0, ""), ("linear", 1, ""), ("clear", 0, ""), ("", 0, "")]
    tapped.remove()
    assert torch.equal(found["linear", 1, ""], model.linear(model.linear(x)))
    assert torch.equal(found["", 0, ""], model(x))


def test_a_module_that_returns_several_tensors_is_one_call():
    model = torch.nn.Sequential()
    model.add_module("rnn", torch.nn.LSTM(3, 4))
    found = taps.collect(taps.Tapped(model), Inputs.of(torch.randn(5, 2, 3)))
    assert [key[:2] for key in found if key[0]] == [("rnn", 0)] * 3


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("nothing", ExitCode.SPEC, "is no SPEC"),
        ("no_such_module_here:f", ExitCode.SPEC, "no module no_such_module_here"),
        ("missing.py:f", ExitCode.SPEC, "no file missing.py"),
        (f"{MODELS}:absent", ExitCode.SPEC, "has no absent"),
        (f"{MODELS}:torch", ExitCode.SPEC, "is no function"),
        ("hf:/no/such/folder", ExitCode.SPEC, "no folder"),
        (f"hf:{MODELS.parent}", ExitCode.SPEC, "no config.json"),
        (f"{MODELS}:needs_package", ExitCode.PACKAGE, "package_that_nobody_has"),
        (f"{MODELS}:raises", ExitCode.FACTORY, "KeyError: 'weights'"),
        (f"{MODELS}:no_tuple", ExitCode.FACTORY, "returned MLP"),
        (f"{MODELS}:no_module", ExitCode.FACTORY, "no torch.nn.Module but a function"),
        (f"{MODELS}:float8", ExitCode.DTYPE, "scale has the dtype float8_e4m3fn"),
    ],
)
def test_a_spec_that_is_wrong_is_refused(text, code, words):
    with pytest.raises(BringupError) as caught:
        spec.load(text)
    assert caught.value.code == code
    assert words in caught.value.what
    assert caught.value.what_to_do


def test_a_file_with_a_mistake_is_named_with_its_line(tmp_path):
    (tmp_path / "broken.py").write_text("import torch\ndef f(:\n")
    with pytest.raises(BringupError) as caught:
        spec.load(f"{tmp_path}/broken.py:f")
    assert caught.value.code == ExitCode.SPEC and caught.value.where.endswith("broken.py:2")


def test_an_error_of_the_factory_is_placed_in_the_users_file():
    with pytest.raises(BringupError) as caught:
        spec.load(f"{MODELS}:raises")
    line = next(i for i, text in enumerate(MODELS.read_text().splitlines(), 1) if '["weights"]' in text)
    assert caught.value.where.endswith(f"bringup_models.py:{line}")


def test_next_batch_size_follows_the_growth_inside_the_bracket():
    assert memory._estimate([(1, 110), (2, 120)], 200) == 10
    assert memory._next(2, None, 10) == 10 and memory._next(2, None, 1000) == 16 and memory._next(2, None, None) == 4
    assert memory._next(8, 20, 12) == 12 and memory._next(8, 20, 30) == 14


def sample_report(folder):
    report = Report("<script>alert(1)</script>:f", str(folder))
    report.data["steps"].append({"name": "load", "status": "running", "seconds": 0.0})
    report.data["findings"].append({"step": "load", "text": "a < b & c"})
    return report


def test_json_has_no_nan_and_is_read_back(tmp_path):
    report = sample_report(tmp_path)
    report.data["load"] = {"x": [math.nan, math.inf, -math.inf, 1.5]}
    report.data.pop("load")
    report.data["extra"] = {"x": [math.nan, math.inf, -math.inf, 1.5]}
    report.write()
    data = json.loads((tmp_path / "report.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    assert data["extra"]["x"] == ["nan", "inf", "-inf", 1.5] and data["schema"]["version"] == 1
    assert Report.read(str(tmp_path)).data == data


class Balance(HTMLParser):
    """Fails on tags that do not close in order."""

    VOID = frozenset({"meta", "rect", "line", "circle", "polyline", "br"})

    def __init__(self):
        super().__init__()
        self.open, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in self.VOID or tag in ("rect", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()


def test_page_escapes_and_needs_no_other_file(tmp_path):
    report = sample_report(tmp_path)
    report.fail(BringupError(ExitCode.SPEC, "<b>what</b>", "where", "do"), "load")
    report.finish()
    conclude(report.data)
    report.write()
    text = (tmp_path / "report.html").read_text()
    checker = Balance()
    checker.feed(text)
    assert checker.open == [] and "script" not in checker.tags and "link" not in checker.tags
    assert "&lt;b&gt;what" in text and "a &lt; b &amp; c" in text
    assert "prefers-color-scheme:dark" in text and "@media print" in text
    assert not re.search(r"https?://|src=|@import|url\(", text)


def test_page_of_a_report_with_nothing_in_it():
    assert "Still running" in page(Report("m:f", "unused").data)


def test_exit_codes_are_the_same_everywhere():
    numbers = {int(code): code.name for code in ExitCode}
    docs = (ROOT / "docs/bringup.md").read_text()
    table = {int(n) for n in re.findall(r"^\| (\d+) \|", docs, re.MULTILINE)}
    assert table == set(numbers)
    header = (ROOT / "tools/tilewright/Commands.h").read_text()
    native = {int(n) for n in re.findall(r"^  \w+ = (\d+),", header, re.MULTILINE)}
    assert native <= set(numbers)
    shown = (ROOT / "tools/tilewright/Bringup.cpp").read_text()
    listed = {
        int(n) for n in re.findall(r"(?:^|  ) *(\d{1,2}) (?=[a-zN])", shown[shown.index("Exit codes") :], re.MULTILINE)
    }
    assert listed | {130} == set(numbers)


def test_schema_page_names_every_top_level_field():
    schema = (ROOT / "docs/report-schema.md").read_text()
    for field in Report("m:f", "unused").data:
        assert f"`{field}" in schema, field


def test_out_of_memory_is_recognised_inside_dynamos_error():
    from torch._dynamo.exc import BackendCompilerFailed

    inner = torch.OutOfMemoryError("asked 5 MiB")
    wrapped = BackendCompilerFailed(lambda: None, inner, None)
    assert failure.while_running(wrapped, "npu", ExitCode.NPU_RUN).code == ExitCode.OUT_OF_MEMORY
