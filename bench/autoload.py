"""What Tilewright adds to `import torch`: processes with and without its entry point, in turns.

    python bench/autoload.py [--processes 20]

Prints the median of the differences between neighbours, which a drift of the machine's speed hits alike, and the
difference of the medians; and, for busy machines, what the entry point takes where torch is there already. Also checks
that neither the compiler nor torch._dynamo was loaded.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

CODE = """
import time
start = time.perf_counter()
import torch
took = time.perf_counter() - start
import sys
assert "torch._dynamo" not in sys.modules
maps = open("/proc/self/maps").read()
assert "libtilewright_compiler" not in maps
print(took, time.process_time(), int("libtilewright_ops" in maps))
"""
LOAD = """
import time
import torch, importlib.metadata
elapsed, cpu = time.perf_counter(), time.process_time()
next(e for e in importlib.metadata.entry_points(group="torch.backends") if e.name == "tilewright").load()()
print(time.perf_counter() - elapsed, time.process_time() - cpu)
assert torch.npu.is_available()
"""


def run(mode: str) -> tuple[float, float]:
    """Seconds that the import took, and CPU seconds of the process."""
    environment = {**os.environ, "TILEWRIGHT_DEVICE": "auto"}
    if mode == "without":
        # As if Tilewright were not installed: no entry point is looked at.
        environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=environment, check=True)
    took, cpu, loaded = done.stdout.split()
    assert int(loaded) == (mode == "with"), f"{mode} Tilewright: its libraries say otherwise"
    return float(took), float(cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=20, help="of each kind")
    count = parser.parse_args().processes
    times: dict[str, list[tuple[float, float]]] = {"with": [], "without": []}
    for mode in times:  # files come into the page cache
        run(mode)
    for i in range(count):
        for mode in ("with", "without") if i % 2 else ("without", "with"):
            times[mode].append(run(mode))
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    alone = [
        subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, env=environment, check=True)
        for _ in range(count)
    ]
    for kind, what in enumerate(("elapsed", "CPU")):
        own = sorted(float(done.stdout.split()[kind]) * 1e3 for done in alone)
        print(f"{what:8} of the entry point alone: median {statistics.median(own):6.1f} ms, least {own[0]:6.1f} ms")
    for kind, what in enumerate(("elapsed", "CPU")):
        a, b = ([t[kind] * 1e3 for t in times[mode]] for mode in ("with", "without"))
        pairs = statistics.median(x - y for x, y in zip(a, b, strict=True))
        print(
            f"{what:8} with {statistics.median(a):7.1f} ms, without {statistics.median(b):7.1f} ms, "
            f"difference of medians {statistics.median(a) - statistics.median(b):6.1f} ms, "
            f"median of {count} pairs {pairs:6.1f} ms, of the fastest {min(a) - min(b):6.1f} ms"
        )


if __name__ == "__main__":
    main()
