"""What campaigns share: seeded cases run one after another until time is up; the next run goes on where this one stopped."""

import argparse
import json
import pathlib
import random
import sys
import time
import traceback
from collections.abc import Callable


def run(case: Callable[[random.Random, argparse.Namespace], None]) -> None:
    """Runs `case(rng, arguments)` for seeds 0, 1, ...; a case that raises is a failure. Exits with 1 if there was any.
    `arguments.seed` is the seed, for campaigns that go through a list."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--state", type=pathlib.Path, help="JSON file with the next seed and the failures so far")
    parser.add_argument("--case", type=int, help="run this seed alone")
    parser.add_argument("--device", default="npu")
    parser.add_argument("--backend", default="tilewright", help="of torch.compile")
    arguments = parser.parse_args()

    if arguments.case is not None:
        arguments.seed = arguments.case
        case(random.Random(arguments.case), arguments)
        print(f"case {arguments.case} passed")
        return

    state = {"next": 0, "failures": []}
    if arguments.state and arguments.state.exists():
        state = json.loads(arguments.state.read_text())
    deadline = time.monotonic() + arguments.seconds
    passed = failed = 0
    while time.monotonic() < deadline:
        seed = state["next"]
        state["next"] += 1
        arguments.seed = seed
        try:
            case(random.Random(seed), arguments)
            passed += 1
        except Exception:
            failed += 1
            state["failures"].append(seed)
            traceback.print_exc()
            print(f"reproduce: .venv/bin/python {sys.argv[0]} --case {seed}", flush=True)
        if arguments.state:
            arguments.state.write_text(json.dumps(state))
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
