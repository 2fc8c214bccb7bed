"""The steps of a bringup, in order. Reads as the table of contents of the report."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch

from .. import switches
from .coverage import coverage
from .environment import environment
from .failure import BringupError, ExitCode, detail_of, first_sentence
from .first_call import first_call
from .memory import memory
from .numerics import numerics
from .report import Report
from .sample import load_model, single_sample
from .session import Options, Session
from .speed import speed
from .text import bytes_text
from .verdict import conclude

STEPS = ("environment", "load", "sample", "compile", "numerics", "coverage", "memory", "speed")
OPTIONAL = STEPS[4:]  # what --skip may leave out


class Progress:
    """One line a step on standard output; on a terminal the line of the running step is written over."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.terminal = quiet, sys.stdout.isatty()
        self._step = ""

    def begin(self, step: str) -> None:
        self._step = f"[{STEPS.index(step) + 1}/{len(STEPS)}] {step:<12}"
        self.within("...")

    def within(self, text: str) -> None:
        if self.terminal and not self.quiet:
            print(f"\r\033[K{self._step} {text}", end="", flush=True)

    def end(self, text: str) -> None:
        if not self.quiet:
            print(f"{chr(13) + chr(27) + '[K' if self.terminal else ''}{self._step} {text}", flush=True)


class Runner:
    def __init__(self, report: Report, progress: Progress, skip: set[str]) -> None:
        self.report, self.progress, self.skip = report, progress, skip

    def step(self, name: str, run: Callable[[], dict[str, Any]], summary: Callable[[dict[str, Any]], str]) -> bool:
        """Runs one step and writes the report. False: it failed."""
        if name in self.skip:
            self.report.data["steps"].append({"name": name, "status": "skipped", "seconds": 0.0})
            self.progress.begin(name)
            self.progress.end("skipped")
            return True
        entry = {"name": name, "status": "running", "seconds": 0.0}
        self.report.data["steps"].append(entry)
        self.report.write()
        self.progress.begin(name)
        start, errors = time.perf_counter(), len(self.report.data["errors"])
        text = ""
        try:
            self.report.data[name] = run()
            text = summary(self.report.data[name])
        except BringupError as failure:
            self.report.fail(failure, name)
        except KeyboardInterrupt:
            self.report.fail(BringupError(ExitCode.INTERRUPTED, "interrupted", f"step {name}"), name)
            raise
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            self.report.fail(
                BringupError(
                    ExitCode.INTERNAL,
                    f"step {name}: {first_sentence(error)}",
                    f"{os.path.basename(at.filename)}:{at.lineno}",
                    "This is a bug of Tilewright: please report it",
                    detail_of(error),
                ),
                name,
            )
        finally:
            entry["seconds"] = time.perf_counter() - start
            failed = len(self.report.data["errors"]) > errors
            entry["status"] = "failed" if failed else "ok"
            self.report.write()
        if failed:
            text = f"FAILED: {self.report.data['errors'][errors]['what']}"
        self.progress.end(f"{entry['seconds']:6.1f} s  {text}")
        return not failed


def cache_folder(report: Report) -> str:
    """Where this run keeps compiled programs; removed at its end, also after a crash."""
    return os.path.join(os.path.abspath(report.folder), "program-cache")


def bring_up(report: Report, spec: str, options: Options, probe: str | None, skip: set[str], progress: Progress) -> int:
    """Returns the exit code; the report is on disk."""
    runner = Runner(report, progress, skip)
    # A first call is measured: programs of earlier runs must not be there.
    cache = cache_folder(report)
    shutil.rmtree(cache, ignore_errors=True)
    # Everything that falls back is counted and listed in the report; a warning for each would say it twice.
    fallback = switches.get("TILEWRIGHT_FALLBACK") or "silent"
    with (
        switches.overridden(TILEWRIGHT_CACHE=cache, TILEWRIGHT_FALLBACK=fallback),
        contextlib.suppress(KeyboardInterrupt),
    ):
        _steps(runner, spec, options, probe)
    shutil.rmtree(cache, ignore_errors=True)
    report.finish()
    conclude(report.data)
    report.write()
    return report.exit_code


def _steps(runner: Runner, spec: str, options: Options, probe: str | None) -> None:
    if not runner.step(
        "environment",
        lambda: environment(probe),
        lambda r: f"{r['device']}, torch {r['torch']}, limit {bytes_text(r['memory_limit_bytes'])}",
    ):
        return
    session = Session(runner.report, options)
    with torch.no_grad():
        if not runner.step(
            "load",
            lambda: load_model(session, spec),
            lambda r: f"{r['class']}, {r['parameters']:,} parameters, {bytes_text(r['weight_bytes'])}",
        ):
            return
        runner.step(
            "sample",
            lambda: single_sample(session),
            lambda r: ", ".join(f"{o['name']} {o['dtype']}{o['shape']}" for o in r["outputs"][:3]),
        )
        if "sample" not in runner.report.data:
            return
        runner.step(
            "compile",
            lambda: first_call(session),
            lambda r: (
                f"first call {r['total_seconds']:.1f} s, of which ours {r['own_seconds']:.2f} s; {r['kernels_built']} kernels"
            ),
        )
        if not session.npu_runs and not session.compiles:
            return
        runner.step("numerics", lambda: numerics(session), _numbers)
        runner.step("coverage", lambda: coverage(session), _covered)
        runner.step("memory", lambda: memory(session), _fits)
        runner.step("speed", lambda: speed(session, runner.progress.within), _fast)


def _numbers(result: dict[str, Any]) -> str:
    output = result["layers"][-1]
    found = [f"{run} {output[run]['max_abs']:.1e}" for run in result["runs"] if run in output]
    return f"{len(result['layers'])} layers; largest error of the result: {', '.join(found)}"


def _covered(result: dict[str, Any]) -> str:
    parts = []
    if eager := result["eager"]:
        parts.append(
            f"eager {eager['calls']['native'] + eager['calls']['view']} native, {eager['calls']['fallback']} fallbacks"
        )
    if compiled := result["compiled"]:
        parts.append(
            f"compiled {compiled['operators']['native']} native, {compiled['operators']['island']} islands, {compiled['kernel_launches']} launches"
        )
    return "; ".join(parts)


def _fits(result: dict[str, Any]) -> str:
    text = f"weights {bytes_text(result['weight_bytes'])}"
    if largest := result["largest"]:
        least = "at least " if largest["does_not_fit"] is None else ""
        text += f"; largest batch {least}{largest['batch']} of {bytes_text(result['limit_bytes'])}"
    return text


def _fast(result: dict[str, Any]) -> str:
    return "compiled / eager CPU: " + ", ".join(
        f"{row['compiled']['times_cpu']:.2f} at batch {row['batch']}" for row in result["batches"] if "compiled" in row
    )
