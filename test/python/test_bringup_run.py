"""`tilewright bringup` from SPEC to report: a model that is right, and one for each exit code."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tilewright
from tilewright import _C
from tilewright.bringup.__main__ import main

MODELS = Path(__file__).with_name("bringup_models.py")
COMMAND = Path(tilewright.__path__[0]).parents[1] / "bin/tilewright"
QUICK = ["--seconds", "0.1", "--search-seconds", "1"]
EIGHT = ["environment", "load", "sample", "compile", "numerics", "coverage", "memory", "speed"]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    limit = _C.memory_limit()
    yield
    _C.set_memory_limit(limit)
    torch.npu.empty_cache()
    torch._dynamo.reset()


def bringup(folder, factory, *options):
    """The exit code and the report, of a run in this process."""
    code = main([f"{MODELS}:{factory}", "--out", str(folder), *QUICK, *options])
    return code, json.loads((folder / "report.json").read_text())


def command(*arguments, **environment):
    """The native command, as users start it."""
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")} | environment
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, env=env, timeout=600, check=False
    )


def only_error(stderr):
    lines = [line for line in stderr.splitlines() if line.startswith("tilewright: error:")]
    assert len(lines) == 1, stderr
    return lines[0]


def test_native_command_brings_a_model_up(tmp_path):
    done = command(
        "bringup", f"{MODELS}:mlp", "--out", tmp_path, "--python", sys.executable, "--memory-limit", "64M", *QUICK
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [line for line in done.stderr.splitlines() if "error" in line]
    for number, step in enumerate(EIGHT, 1):
        assert f"[{number}/8] {step}" in done.stdout
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["status"] == "ok" and data["exit_code"] == 0 and data["verdict"]["level"] == "ok" and data["next"]
    assert [step["name"] for step in data["steps"]] == EIGHT
    assert data["environment"]["probe"]["python"] == sys.executable
    assert data["environment"]["memory_limit_bytes"] == 64 << 20
    assert data["load"]["parameters"] == 32 * 2 + 32 * 64 + 64 + 64 * 8 + 8
    assert sorted(os.listdir(tmp_path)) == ["report.html", "report.json"]
    html = (tmp_path / "report.html").read_text()
    for heading in ("Numerics, layer by layer", "Operator coverage", "Memory", "Latency and throughput", "First call"):
        assert f"<h2>{heading}</h2>" in html


def test_numbers_of_a_model_that_is_right(tmp_path):
    code, data = bringup(tmp_path, "mlp")
    assert code == 0
    numerics = data["numerics"]
    assert numerics["runs"] == ["cpu", "npu", "compiled"] and numerics["first_beyond"] == {}
    assert [(layer["name"], layer["type"]) for layer in numerics["layers"]] == [
        ("norm", "LayerNorm"), ("up", "Linear"), ("down", "Linear"), ("(output)", "MLP")
    ]  # fmt: skip
    for layer in numerics["layers"]:
        for run in numerics["runs"]:
            assert 0 <= layer[run]["max_abs"] < 1e-5 and layer[run]["ulp"]["p50"] <= layer[run]["ulp"]["max"]
    compiled = data["coverage"]["compiled"]
    assert (
        compiled["operators"]["native"] > 0 and compiled["operators"]["island"] == 0 and compiled["kernel_launches"] > 0
    )
    assert sum(data["coverage"]["eager"]["calls"].values()) > 0
    memory = data["memory"]
    assert memory["weight_bytes"] == 4 * data["load"]["parameters"]
    assert [entry["batch"] for entry in memory["batches"]] == [1, 4]
    assert all(
        entry[way]["peak_bytes"] >= entry[way]["call_bytes"] > 0
        for entry in memory["batches"]
        for way in ("npu", "compiled")
    )
    assert memory["largest"]["batch"] >= 4
    for row in data["speed"]["batches"]:
        assert row["rounds"] >= 3 and all(row[way]["median_seconds"] > 0 for way in ("cpu", "npu", "compiled"))
    parts = data["compile"]["parts"]
    assert data["compile"]["total_seconds"] > data["compile"]["second_call_seconds"] > 0
    assert parts["dynamo"] > 0 and sum(v for k, v in parts.items() if k.startswith("own_")) > 0
    assert data["compile"]["kernels_built"] > 0  # also where earlier runs have filled the user's cache


def test_largest_batch_is_found_between_what_fits_and_what_does_not(tmp_path):
    torch.npu.empty_cache()
    _C.set_memory_limit(48 << 20)
    code, data = bringup(tmp_path, "mlp", "--skip", "numerics,coverage,speed", "--search-seconds", "60")
    largest = data["memory"]["largest"]
    assert code == 0 and largest["stopped_by"] == ""
    assert 0 < largest["does_not_fit"] - largest["batch"] <= max(1, largest["batch"] // 64)
    rows = torch.randn(largest["does_not_fit"] * 2, 32)  # twice as much fails whatever the search did
    model = torch.nn.Linear(32, 64).to("npu")
    with pytest.raises(torch.OutOfMemoryError), torch.no_grad():
        [model(rows.to("npu")) for _ in range(8)]


@pytest.mark.parametrize(
    ("factory", "code", "step", "words"),
    [
        ("absent", 11, "load", "has no absent"),
        ("needs_package", 12, "load", "python -m pip install package_that_nobody_has"),
        ("raises", 13, "load", "KeyError"),
        ("float8", 14, "load", "float8_e4m3fn"),
        ("nan_everywhere", 16, "numerics", "NaN on the CPU already (first in layer up"),
        (
            "nan_on_npu",
            16,
            "numerics",
            "npu eager gives NaN or infinity where the reference has numbers (first in layer middle",
        ),
        ("off_on_npu", 17, "numerics", "layer middle (Identity)"),
        ("fails_on_cpu", 19, "sample", "eager on the CPU"),
        ("fails_on_npu", 20, "sample", "no npu here (npu eager"),
    ],
)
def test_what_goes_wrong_is_one_line_a_code_and_a_partial_report(tmp_path, capsys, factory, code, step, words):
    found, data = bringup(tmp_path, factory, "--skip", "coverage,memory,speed")
    assert found == code
    line = only_error(capsys.readouterr().err)
    assert words in line
    assert data["status"] == "failed" and data["exit_code"] == code and data["verdict"]["level"] == "failed"
    error = data["errors"][0]
    assert error["code"] == code and error["step"] == step and error["what"] and error["what_to_do"]
    assert next(s for s in data["steps"] if s["name"] == step)["status"] == "failed"
    assert error["what"].split(":")[0].split("'")[0] in (tmp_path / "report.html").read_text()


def test_out_of_memory_for_the_weights(tmp_path, capsys):
    torch.npu.empty_cache()
    _C.set_memory_limit(16 << 20)
    code, data = bringup(tmp_path, "large")
    assert code == 15 and data["errors"][0]["step"] == "sample" and "load" in data
    line = only_error(capsys.readouterr().err)
    assert "out of device memory" in line and "moving the model to npu" in line and "--memory-limit" in line


def test_out_of_memory_in_the_call(tmp_path, capsys):
    torch.npu.empty_cache()
    _C.set_memory_limit(32 << 20)
    code, data = bringup(tmp_path, "wide")
    assert code == 15 and data["errors"][0]["where"] == "npu eager"
    assert "npu eager" in only_error(capsys.readouterr().err)


def test_a_model_that_does_not_compile_is_still_compared_eagerly(tmp_path, capsys):
    code, data = bringup(tmp_path, "float8_inside", "--skip", "memory,speed")
    assert code == 18 and data["errors"][0]["step"] == "compile"
    line = only_error(capsys.readouterr().err)
    assert "does not compile" in line and "float8_e4m3fn" in line and "bringup_models.py" in line
    assert data["numerics"]["runs"] == ["cpu", "npu"] and data["coverage"]["compiled"] is None


def test_islands_are_listed_with_reason_and_time(tmp_path):
    code, data = bringup(tmp_path, "random_in_graph", "--skip", "numerics,memory,speed")
    compiled = data["coverage"]["compiled"]
    assert code == 0 and data["verdict"]["level"] == "warning"
    assert compiled["operators"]["island"] == len(compiled["islands"]) > 0
    assert all(island["op"] and island["reason"] for island in compiled["islands"])
    assert compiled["seconds"]["island"] > 0 and compiled["island_operators"]
    assert any("native in compiled graphs" in advice for advice in data["next"])


def test_named_inputs_and_results(tmp_path):
    code, data = bringup(tmp_path, "dictionary", "--skip", "coverage,memory")
    assert code == 0
    assert [output["name"] for output in data["sample"]["outputs"]] == ["output.probabilities", "output.input"]
    assert [row["batch"] for row in data["speed"]["batches"]] == [1, 4, 16]


def test_bfloat16_is_measured_in_its_own_units(tmp_path):
    code, data = bringup(tmp_path, "bfloat16", "--skip", "coverage,memory,speed")
    assert code == 0
    layer = data["numerics"]["layers"][1]
    assert layer["npu"]["dtype"] == "bfloat16" and layer["npu"]["ulp"]["p50"] <= 2


def test_a_folder_of_transformers(tmp_path):
    transformers = importlib.import_module("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    code = main([f"hf:{tmp_path / 'bert'}", "--out", str(tmp_path / "report"), "--skip", "coverage,memory,speed"])
    data = json.loads((tmp_path / "report/report.json").read_text())
    assert code == 0, data["errors"]
    assert [value["name"] for value in data["load"]["inputs"]] == ["input.input_ids", "input.attention_mask"]
    assert {"output.last_hidden_state", "output.pooler_output"} == {
        output["name"] for output in data["sample"]["outputs"]
    }


def test_a_crash_of_the_model_leaves_the_partial_report(tmp_path):
    done = command("bringup", f"{MODELS}:crashes", "--out", tmp_path, "--python", sys.executable, *QUICK)
    assert done.returncode == 21
    assert "SIGSEGV (in step sample)" in only_error(done.stderr)
    assert sorted(os.listdir(tmp_path)) == ["report.html", "report.json"]
    data = json.loads((tmp_path / "report.json").read_text())
    assert (
        data["exit_code"] == 21
        and data["load"]["parameters"]
        and data["steps"][-1] == data["steps"][-1] | {"name": "sample", "status": "failed"}
    )


def fake_environment(folder, packages):
    """A virtual environment's folders with a Python that has nothing."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    (folder / "bin/python").chmod(0o755)
    for package in packages:
        (folder / f"lib/python3.11/site-packages/{package}.dist-info").mkdir(parents=True)
    return folder


def test_another_torch_is_found_before_python_is_started(tmp_path):
    python = fake_environment(tmp_path / "env", ["torch-2.12.1+cpu"])
    done = command("bringup", "m:f", "--out", tmp_path / "out", "--python", python)
    assert done.returncode == 10 and "PyTorch is 2.12.1+cpu" in only_error(done.stderr)
    data = json.loads((tmp_path / "out/report.json").read_text())
    assert data["exit_code"] == 10 and data["environment"]["probe"]["packages"] == {"torch": "2.12.1+cpu"}
    assert "2.12.1" in (tmp_path / "out/report.html").read_text()


def test_a_python_without_torch_is_an_error_of_the_environment(tmp_path):
    python = fake_environment(tmp_path / "env", [])
    done = command("bringup", "m:f", "--out", tmp_path / "out", "--python", python)
    assert done.returncode == 10
    assert "does not work with" in only_error(done.stderr)
    assert json.loads((tmp_path / "out/report.json").read_text())["errors"][0]["kind"] == "environment"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["bringup"],
        ["bringup", "m:f", "--batches", "0"],
        ["bringup", "m:f", "--skip", "load"],
        ["bringup", "m:f", "--python", "/no/python"],
        ["fly"],
    ],
)
def test_wrong_arguments_give_one_line(arguments, tmp_path):
    done = command(*arguments)
    assert done.returncode == 2
    only_error(done.stderr)


def test_a_wrong_switch_is_refused_before_python_starts(tmp_path):
    done = command("bringup", "m:f", "--out", tmp_path, TILEWRIGHT_MEMORY_LIMIT="much")
    assert done.returncode == 2 and "TILEWRIGHT_MEMORY_LIMIT" in only_error(done.stderr)


def test_env_shows_machine_and_python(tmp_path):
    fake = fake_environment(tmp_path / "env", ["torch-2.13.0+cpu"])
    data = json.loads(
        command("env", "--json", VIRTUAL_ENV=str(fake), TILEWRIGHT_THREADS="3", TILEWRIGHT_TREADS="3").stdout
    )
    assert data["python"] == str(fake / "bin/python") and data["python_found_by"] == "$VIRTUAL_ENV"
    assert data["packages"] == {"torch": "2.13.0+cpu"} and data["threads"] == 3
    assert data["switches"]["TILEWRIGHT_THREADS"] == "3" and data["unknown_switches"] == ["TILEWRIGHT_TREADS"]
    assert str(fake) in command("env", VIRTUAL_ENV=str(fake)).stdout
    assert command("--version").stdout.strip() == f"tilewright {tilewright.__version__}"
