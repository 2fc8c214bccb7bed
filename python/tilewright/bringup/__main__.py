"""What the native command starts; also `python -m tilewright.bringup`."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys

from . import runner
from .failure import BringupError, ExitCode
from .report import Report
from .session import Options
from .verdict import conclude


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="tilewright bringup", description="Brings a model up on npu and writes a report."
    )
    parser.add_argument("spec", metavar="SPEC", help="package.module:factory, file.py:factory or hf:DIRECTORY")
    parser.add_argument("--out", default="tilewright-report")
    parser.add_argument("--probe", help="what the native command found, JSON")
    parser.add_argument("--batches", type=_sizes, default=[])
    parser.add_argument("--skip", type=_steps, default=set(), metavar="STEP,...")
    parser.add_argument("--tolerance", type=float)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--search-seconds", type=float, default=30.0)
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument(
        "--crashed", type=int, metavar="SIGNAL", help="say in the report of --out that its process ended so"
    )
    given = parser.parse_args(arguments)
    if given.crashed is not None:
        report = _crashed(given.spec, given.out, given.crashed)
    else:
        report = _run(given)
    for error in report.data["errors"][:1]:
        where = f" ({error['where']})" if error["where"] else ""
        what_to_do = f". {error['what_to_do']}" if error["what_to_do"] else ""
        print(f"tilewright: error: {error['what']}{where}{what_to_do}", file=sys.stderr, flush=True)
    return report.exit_code


def _run(given: argparse.Namespace) -> Report:
    report = Report(given.spec, given.out)
    options = Options(given.tolerance, given.batches, given.seconds, given.search_seconds)
    progress = runner.Progress(given.quiet)
    runner.bring_up(report, given.spec, options, given.probe, given.skip, progress)
    if not given.quiet and report.data["verdict"]:
        print(f"\n{report.data['verdict']['text']}")
        for advice in report.data["next"]:
            print(f"  - {advice}")
        print(f"\n{given.out}/report.html, {given.out}/report.json")
    return report


def _crashed(spec: str, folder: str, number: int) -> Report:
    try:
        report = Report.read(folder)
    except (OSError, ValueError):
        report = Report(spec, folder)
    shutil.rmtree(runner.cache_folder(report), ignore_errors=True)
    running = [step["name"] for step in report.data["steps"] if step["status"] == "running"]
    step = running[-1] if running else "start"
    for entry in report.data["steps"]:
        if entry["status"] == "running":
            entry["status"] = "failed"
    name = signal.Signals(number).name if number in list(signal.Signals) else str(number)
    killed = number == signal.SIGKILL
    report.fail(
        BringupError(
            ExitCode.CRASH,
            f"the model's process was ended by {name}",
            f"in step {step}",
            "It was killed, most likely by the system for want of memory: give a smaller example or --memory-limit"
            if killed
            else "TILEWRIGHT_ALLOC=guard finds wrong accesses; the core dump or `python -X faulthandler` shows where",
        ),
        step,
    )
    report.finish()
    conclude(report.data)
    report.write()
    return report


def _steps(text: str) -> set[str]:
    steps = set(text.split(","))
    if unknown := steps - set(runner.OPTIONAL):
        raise argparse.ArgumentTypeError(
            f"{', '.join(sorted(unknown))}: no step that can be left out; these are {', '.join(runner.OPTIONAL)}"
        )
    return steps


def _sizes(text: str) -> list[int]:
    sizes = [int(part) for part in text.split(",")]
    if any(size <= 0 for size in sizes):
        raise argparse.ArgumentTypeError("batch sizes are positive")
    return sizes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
