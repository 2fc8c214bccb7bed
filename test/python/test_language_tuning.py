"""kernel.tune and what calls make of its results."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import sys
import warnings
from pathlib import Path

import kernels_for_tests
import numpy
import pytest
import torch
from kernels_for_tests import add, constants_in_use, tuned_rows, tuned_update

import tilewright as tw
from tilewright import switches
from tilewright.language import tuning, tuning_store

M, N = tw.symbols("M N")
FASTEST = {"BLOCK": 8, "SPLIT": True}


@pytest.fixture(autouse=True)
def cache(tmp_path):
    """Results in a folder of the test's own."""
    with switches.overridden(TILEWRIGHT_CACHE=str(tmp_path / "cache")):
        for kernel in (tuned_rows, tuned_update):
            kernel.clear()
        yield tmp_path / "cache"
    for kernel in (tuned_rows, tuned_update):
        kernel.clear()


@pytest.fixture
def clock(monkeypatch):
    """Turns take what the test says: members that are not named a second, `fast` a tenth. The list has the turns in order."""
    turns = []

    def seconds_of(trial, calls):
        turns.append(dict(trial.constants))
        return 0.1 if all(FASTEST.get(name) == value for name, value in trial.constants.items()) else 1.0

    monkeypatch.setattr(tuning, "seconds_of", seconds_of)
    return turns


def choice_in(kernel, *args, **kwargs):
    kernel.clear()
    return constants_in_use(kernel, *args, **kwargs)


def files(cache):
    return sorted((cache / "tuning").rglob("*.json"))


# -- what is measured --------------------------------------------------------------------------------------------------


def test_the_fastest_member_is_used_by_calls_of_this_kind(clock):
    x = torch.randn(30, 20)
    report = tuned_rows.tune(x)
    assert report.best == FASTEST
    assert [m.seconds for m in report.members if m.constants == FASTEST] == [0.1]
    assert len(report.members) == 6
    assert choice_in(tuned_rows, x) == FASTEST
    assert choice_in(tuned_rows, torch.randn(17, 32)) == FASTEST
    assert choice_in(tuned_rows, torch.randn(33, 20)) == {"BLOCK": 4, "SPLIT": False}
    assert choice_in(tuned_rows, x.double()) == {"BLOCK": 4, "SPLIT": False}
    assert choice_in(tuned_rows, x, shift=1) == {"BLOCK": 4, "SPLIT": False}
    torch.testing.assert_close(tuned_rows(x, scale=2.0), x * 2)


def test_members_take_turns(clock):
    tuned_rows.tune(torch.randn(3, 4), rounds=3)
    turns = clock[1:]  # the first says how many calls a turn has
    assert len(turns) == 18
    for k in range(0, 18, 6):
        assert len({json.dumps(t, sort_keys=True) for t in turns[k : k + 6]}) == 6
    assert turns[0] != turns[6]


def test_a_turn_is_the_mean_of_calls():
    x = torch.randn(8, 8)
    report = tuned_rows.tune(x, rounds=1)
    assert all(m.seconds is not None and 0 < m.seconds < 10 for m in report.members)
    assert "(best)" in str(report) and "M in 5 .. 8" in str(report)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_arguments_stay_as_they_are(device):
    x, total = torch.randn(100), torch.randn(200)[::2]
    y = torch.full((100,), 7.0)
    x, total, y = x.to(device), total.to(device) if device == "npu" else total, y.to(device)
    before = [t.cpu().clone() for t in (x, total, y)]
    versions = [t._version for t in (x, total, y)]
    report = tuned_update.tune(x, total, y, rounds=2)
    assert not any(m.refused for m in report.members)
    for t, old, version in zip((x, total, y), before, versions, strict=True):
        assert torch.equal(t.cpu(), old) and t._version == version


def test_tuning_makes_no_specialisations_of_the_kernel(clock):
    tuned_rows.tune(torch.randn(3, 4))
    assert tuned_rows.specialisations == 0


def test_a_gradient_may_be_wanted(clock):
    x = torch.randn(3, 4, requires_grad=True)
    assert tuned_rows.tune(x).best == FASTEST


def test_members_that_are_wrong_are_told(clock):
    @tw.kernel(space={"FACTOR": (1, 2), "BLOCK": (4, 0, 8)})
    def twice(X: tw.In[tw.f32, M], Y: tw.Out[tw.f32, M], FACTOR: tw.const, BLOCK: tw.const):
        for i in tw.parallel(M, tile=BLOCK):
            Y[i] = X[i] * FACTOR

    with pytest.warns(RuntimeWarning) as told:
        report = twice.tune(torch.ones(10))
    texts = [str(w.message) for w in told]
    assert len(texts) == 4
    assert any(
        "FACTOR=2, BLOCK=4 is not measured: its result is not that of FACTOR=1, BLOCK=4: Y[0] is 2.0 instead of 1.0"
        in t
        for t in texts
    ), texts
    assert sum("does not compile" in t and "a tile size is 0" in t for t in texts) == 2, texts
    assert {m.constants["FACTOR"] for m in report.members if m.seconds is not None} == {1}
    assert "a tile size is 0" in str(report)


def test_rounding_is_no_difference():
    @tw.kernel(space={"BLOCK": (None, 3)})
    def total(X: tw.In[tw.f32, M, N], Y: tw.Out[tw.f32, M], BLOCK: tw.const):
        for i in tw.parallel(M, tile=1):
            s = tw.zeros((), tw.f32)
            for j in tw.range(N, tile=BLOCK):
                s += tw.sum(X[i, j])
            Y[i] = s

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(m.seconds for m in total.tune(torch.randn(3, 5000), rounds=1).members)


def test_a_kernel_of_which_no_member_compiles_raises():
    @tw.kernel(space={"BLOCK": (0, -1)})
    def nothing(X: tw.In[tw.f32, M], Y: tw.Out[tw.f32, M], BLOCK: tw.const):
        for i in tw.parallel(M, tile=BLOCK):
            Y[i] = X[i]

    with pytest.raises(tw.KernelError, match="a tile size is 0"):
        nothing.tune(torch.ones(3))


def test_errors_of_data_say_the_member():
    @tw.kernel(space={"BLOCK": (2, 4)})
    def pick(X: tw.In[tw.f32, M], Index: tw.In[tw.i64, N], Y: tw.Out[tw.f32, N], BLOCK: tw.const):
        for i in tw.parallel(N, tile=BLOCK):
            Y[i] = X[Index[i]]

    with pytest.raises(IndexError) as error:
        pick.tune(torch.ones(3), torch.tensor([5]))
    assert any("BLOCK=2" in note for note in error.value.__notes__)


def test_tune_refuses_what_a_call_refuses():
    with pytest.raises(tw.KernelError, match="dtype"):
        tuned_update.tune(torch.ones(3).double(), torch.ones(3))
    with pytest.raises(tw.KernelError, match="declares no space"):
        add.tune(torch.ones(3), torch.ones(3))
    with pytest.raises(tw.KernelError, match="nothing is left to choose"):
        tuned_rows.tune(torch.ones(3, 3), BLOCK=4, SPLIT=True)
    with pytest.raises(ValueError, match="rounds"):
        tuned_rows.tune(torch.ones(3, 3), rounds=0)
    with pytest.raises(tw.KernelError, match="plain tensors"):
        torch.func.vmap(lambda x: tuned_rows.tune(x).best["BLOCK"] or x)(torch.ones(2, 3, 3))


# -- what a call uses --------------------------------------------------------------------------------------------------


def test_a_call_measures_nothing(clock):
    x = torch.randn(3, 4)
    tuned_rows(x)
    tuned_rows.tuned(x)
    tuned_rows.explain(x)
    torch.compile(lambda x: tuned_rows(x), backend="eager")(x)
    assert clock == []


def test_what_the_call_gives_wins(clock):
    x = torch.randn(30, 20)
    tuned_rows.tune(x)
    assert choice_in(tuned_rows, x, BLOCK=None, SPLIT=False) == {"BLOCK": None, "SPLIT": False}
    # With one of them given, the other is what was tuned for that one, or its default.
    assert choice_in(tuned_rows, x, BLOCK=4) == {"BLOCK": 4, "SPLIT": False}
    assert tuned_rows.tune(x, BLOCK=4).best == {"SPLIT": True}
    assert choice_in(tuned_rows, x, BLOCK=4) == {"BLOCK": 4, "SPLIT": True}
    assert choice_in(tuned_rows, x) == FASTEST


def test_defaults_are_declared_or_the_first(clock):
    assert choice_in(tuned_rows, torch.randn(3, 4)) == {"BLOCK": 4, "SPLIT": False}

    @tw.kernel(space={"BLOCK": (4, 8, None)})
    def k(X: tw.In[tw.f32, M], Y: tw.Out[tw.f32, M], BLOCK: tw.const = 8):
        for i in tw.parallel(M, tile=BLOCK):
            Y[i] = X[i]

    assert choice_in(k, torch.randn(3)) == {"BLOCK": 8}
    assert k.tune(torch.randn(3)).members[0].constants == {"BLOCK": 8}


def test_tuned_says_what_and_why(clock):
    x = torch.randn(30, 20)
    told = tuned_rows.tuned(x)
    assert told.source == "default" and told.constants == {"BLOCK": 4, "SPLIT": False}
    assert "nothing is saved for M in 17 .. 32, N in 17 .. 32, T = f32" in str(told)
    tuned_rows.tune(x)
    told = tuned_rows.tuned(x)
    assert told.source == "saved" and told.constants == FASTEST and "100 ms, saved in" in told.reason
    assert tuned_rows.tuned(x, None, 1.0, True, BLOCK=4).source == "given"
    assert tuned_rows.tuned(X=tw.f32).source == "default"
    assert str(told) in str(tuned_rows.explain(x))
    with pytest.raises(tw.KernelError, match="declares no space"):
        add.tuned(torch.ones(3), torch.ones(3))


def test_arrays_and_device_tensors_use_it_too(clock):
    x = torch.randn(30, 20)
    tuned_rows.tune(x.numpy())
    assert choice_in(tuned_rows, x.numpy()) == FASTEST
    assert isinstance(tuned_rows(x.numpy()), numpy.ndarray)
    assert choice_in(tuned_rows, x.to("npu")) == FASTEST
    assert choice_in(tuned_rows, X=x, Y=torch.empty(30, 20)) == FASTEST
    assert choice_in(tuned_rows, x.requires_grad_()) == FASTEST


def test_warm_calls_look_up_once(clock, monkeypatch):
    x = torch.randn(30, 20)
    tuned_rows.tune(x)
    tuned_rows(x)
    monkeypatch.setattr(tuning, "settle", None)
    tuned_rows(x)
    tuned_rows(x + 1.0, scale=3.0)


def test_wrong_calls_are_refused_as_ever(clock):
    tuned_rows.tune(torch.randn(30, 20))
    with pytest.raises(tw.KernelError, match="without X"):
        tuned_rows()
    with pytest.raises(tw.KernelError, match="no parameter wrong"):
        tuned_rows(torch.ones(3, 3), wrong=1)
    with pytest.raises(tw.KernelError, match="dimension"):
        tuned_rows(torch.ones(3))
    with pytest.raises(tw.KernelError, match="not hashable"):
        tuned_rows(torch.ones(3, 3), shift=[1])


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_functions_settle_constants_while_tracing(clock, dynamic):
    tuned_rows.tune(torch.randn(30, 20))
    seen = []

    def backend(graph, inputs):
        seen.append([n for n in graph.graph.nodes if n.op == "call_function" and "tuned_rows" in str(n.target)])
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(lambda x: tuned_rows(x * 2.0, scale=0.5), backend=backend, dynamic=dynamic, fullgraph=True)
    for shape in ((30, 20), (29, 21), (40, 20)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), x)
    used = [calls[0].kwargs["BLOCK"] for calls in seen]
    assert used == (["8", "4"] if dynamic else ["8", "8", "4"])


def test_compiled_functions_need_no_results():
    torch._dynamo.reset()
    count = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(lambda x: tuned_rows(x), backend=count, dynamic=True, fullgraph=True)
    for shape in ((30, 20), (300, 200), (3000, 2)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), x)
    assert count.frame_count == 1


# -- what is saved -----------------------------------------------------------------------------------------------------


def test_a_result_is_a_file_for_each_kind_of_call(clock, cache):
    tuned_rows.tune(torch.randn(30, 20))
    tuned_rows.tune(torch.randn(31, 21))
    report = tuned_rows.tune(torch.randn(300, 20))
    assert len(files(cache)) == 2 and report.file in files(cache)
    record = json.loads(report.file.read_text())
    assert record["kernel"] == "tuned_rows" and record["machine"]["threads"] >= 1
    assert record["call"]["sizes"] == {"M": [257, 512], "N": [17, 32]}
    assert record["best"] == {"BLOCK": "8", "SPLIT": "True"}
    assert not list(cache.rglob(".tmp-*"))


def test_another_process_uses_it(clock, cache, monkeypatch):
    tuned_rows.tune(torch.randn(30, 20))
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(cache))
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=kernels_for_tests.tuned_in_child, args=(tuned_rows, [(30, 20), (3, 20)], queue))
    process.start()
    told = queue.get(timeout=120)
    process.join()
    assert told == [
        ("saved", FASTEST, FASTEST),
        ("default", {"BLOCK": 4, "SPLIT": False}, {"BLOCK": 4, "SPLIT": False}),
    ]


def test_clear_reads_results_anew(clock, cache):
    x = torch.randn(30, 20)
    tuned_rows.tune(x)
    for file in files(cache):
        file.unlink()
    assert tuned_rows.tuned(x).source == "saved"
    tuned_rows.clear()
    assert tuned_rows.tuned(x).source == "default"


@pytest.mark.parametrize("what", ["machine", "compiler"])
def test_another_machine_or_compiler_has_its_own(clock, monkeypatch, what):
    x = torch.randn(30, 20)
    tuned_rows.tune(x)
    found = getattr(tuning_store, what)()
    other = {**found, "threads": 77} if what == "machine" else "another"
    with monkeypatch.context() as patch:
        patch.setattr(tuning_store, what, lambda: other)
        tuned_rows.clear()
        assert tuned_rows.tuned(x).source == "default"
    tuned_rows.clear()
    assert tuned_rows.tuned(x).source == "saved"


SOURCE = """
import tilewright as tw
M = tw.symbols("M")
SHIFT = 0.0

def helper(x):
    return x + SHIFT

@tw.kernel(space={"BLOCK": (4, 8)})
def changing(X: tw.In[tw.f32, M], Y: tw.Out[tw.f32, M], BLOCK: tw.const):
    for i in tw.parallel(M, tile=BLOCK):
        Y[i] = helper(X[i])
"""


def _module(folder, text, number=[0]):  # noqa: B006
    number[0] += 1
    file = Path(folder) / f"changing_{number[0]}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("changing", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["changing"] = module
    spec.loader.exec_module(module)
    return module.changing


@pytest.mark.parametrize(
    ("old", "new", "source"),
    [
        ("\nM =", "\n# a comment\nM =", "saved"),
        ("helper(X[i])", "helper(X[i]) * 1.0", "default"),
        ("return x + SHIFT", "return x - SHIFT", "default"),
        ("SHIFT = 0.0", "SHIFT = 1.0", "default"),
        ("(4, 8)", "(4, 8, 16)", "default"),
    ],
)
def test_a_changed_kernel_voids_results(clock, tmp_path, old, new, source):
    x = torch.ones(5)
    assert _module(tmp_path, SOURCE).tune(x).best == {"BLOCK": 8}
    assert _module(tmp_path, SOURCE).tuned(x).source == "saved"
    assert _module(tmp_path, SOURCE.replace(old, new)).tuned(x).source == source


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"version": 1}', "{}"])
def test_files_that_are_wrong_are_ignored_with_one_warning(clock, cache, text):
    x = torch.randn(30, 20)
    good = tuned_rows.tune(torch.randn(300, 20)).file
    bad = tuned_rows.tune(x).file
    bad.write_text(text)
    good.with_name("foreign.json").write_text(good.read_text().replace('"tuned_rows"', '"another"'))
    tuned_rows.clear()
    with pytest.warns(RuntimeWarning, match="cannot be read and is ignored") as told:
        assert tuned_rows.tuned(x).source == "default"
        tuned_rows(x)
    assert len(told) == 1 and "1 more" in str(told[0].message)
    assert tuned_rows.tuned(torch.randn(300, 20)).source == "saved"
    tuned_rows.tune(x)
    assert tuned_rows.tuned(x).source == "saved"


def test_a_member_that_is_not_in_the_space_is_ignored(clock, cache):
    x = torch.randn(30, 20)
    file = tuned_rows.tune(x).file
    file.write_text(file.read_text().replace('"BLOCK": "8"', '"BLOCK": "999"'))
    tuned_rows.clear()
    with pytest.warns(RuntimeWarning, match="ignored"):
        assert tuned_rows.tuned(x).source == "default"


def test_without_a_cache_a_result_holds_for_the_process(clock, cache):
    x = torch.randn(30, 20)
    with switches.overridden(TILEWRIGHT_CACHE="off"):
        tuned_rows.clear()
        assert tuned_rows.tune(x).file is None
        assert tuned_rows.tuned(x).source == "saved" and "in this process" in tuned_rows.tuned(x).reason
        tuned_rows.clear()
        assert tuned_rows.tuned(x).source == "default"
    assert not files(cache)


def test_a_folder_that_cannot_be_written_is_told(clock, tmp_path):
    (tmp_path / "file").write_text("")
    with switches.overridden(TILEWRIGHT_CACHE=str(tmp_path / "file")):
        tuned_rows.clear()
        with pytest.warns(RuntimeWarning, match="for this process only"):
            report = tuned_rows.tune(torch.randn(30, 20))
    assert report.file is None and report.best == FASTEST


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TILEWRIGHT_CACHE": "/a"}, "/a"),
        ({"TILEWRIGHT_CACHE": "off"}, None),
        ({"XDG_CACHE_HOME": "/b"}, "/b/tilewright"),
        ({"XDG_CACHE_HOME": "b", "HOME": "/c"}, "/c/.cache/tilewright"),
        ({"HOME": ""}, None),
    ],
)
def test_the_cache_folder_is_where_programs_are(monkeypatch, environment, expected):
    for name in ("TILEWRIGHT_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with switches.overridden(TILEWRIGHT_CACHE=None):
        assert switches.cache_directory() == expected
