"""The gallery beside what the machine can do and beside PyTorch, in turns, in one process.

    python bench/kernels.py [NAME...] [--dtypes DTYPE...] [--threads N] [--turns N] [--inductor] [--cpu-time] [--overheads] [--markdown FILE]

Limits are measured, not looked up (bench/roof.cpp): for kernels that move bytes a loop written by hand over the very buffers, for kernels that
multiply a loop of fused multiply-adds on registers. A ratio is the median over turns of one time by another that was taken next to it;
on a shared machine nothing else means much. `share` is roof time / our time (1.0: at the limit), `torch` and `inductor` are their time / ours.
On a machine that is busy with other things, `--cpu-time` runs all on one thread and takes the processor time of that thread.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

CPU_TIME = "--cpu-time" in sys.argv
if CPU_TIME:
    os.environ["TILEWRIGHT_THREADS"] = "1"

import torch  # noqa: E402

import tilewright  # noqa: E402

now = time.thread_time if CPU_TIME else time.perf_counter
ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build/release"))
LARGE = 1 << 20  # bytes: what is smaller does not count as a stream
SHORT, SLOW = 2e-4, 0.05  # seconds


class Roof:
    """bench/roof.cpp."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.loops = ctypes.CDLL(str(BUILD / "bench/libroof.so"))
        self.loops.roof_fma.restype = ctypes.c_double
        self.loops.roof_fma.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_double]
        self.loops.roof_stream.restype = None
        pointers = ctypes.POINTER(ctypes.c_void_p)
        self.loops.roof_stream.argtypes = [
            pointers,
            ctypes.c_int,
            pointers,
            ctypes.c_int,
            ctypes.c_int64,
            ctypes.c_int,
            ctypes.c_int,
        ]

    def fma(self, bf16: bool = False) -> float:
        """FLOP/s."""
        return float(self.loops.roof_fma(self.threads, int(bf16), 0.02)) * 1e9

    def stream(self, reads: list[torch.Tensor], writes: list[torch.Tensor], past: bool) -> Callable[[], None]:
        """Reads and writes tensors of several sizes: as many side by side as there are bytes left in."""
        parts: list[tuple[Any, int, Any, int, int]] = []
        left = [(t.data_ptr(), t.numel() * t.element_size(), w) for w, ts in ((0, reads), (1, writes)) for t in ts]
        while left:
            step = min(n for _, n, _ in left)
            lists = [[p for p, _, w in left if w == k] for k in (0, 1)]
            arrays = [(ctypes.c_void_p * max(1, len(ps)))(*ps) for ps in lists]
            parts.append((arrays[0], len(lists[0]), arrays[1], len(lists[1]), step // 256 * 256))
            left = [(p + step // 64 * 64, n - step, w) for p, n, w in left if n - step >= LARGE]

        aligned = all(t.data_ptr() % 64 == 0 for t in writes)

        def run(_alive: tuple[list[torch.Tensor], ...] = (reads, writes)) -> None:
            for r, rn, w, wn, n in parts:
                self.loops.roof_stream(r, rn, w, wn, n, self.threads, int(past and aligned))

        return run


def turns(functions: dict[str, Callable[[], Any]], count: int) -> dict[str, list[float]]:
    """Seconds of a call, turn by turn. Short calls are repeated within a turn; what takes 20 times ours and more gets two turns."""

    def seconds(function: Callable[[], Any], repeats: int) -> float:
        time.sleep(0.01)  # threads of what ran before stop spinning
        start = now()
        for _ in range(repeats):
            function()
        return (now() - start) / repeats

    first = {}
    for name, function in functions.items():
        function()
        first[name] = seconds(function, 1)
    repeats = max(1, min(50, int(SHORT / max(first["ours"], 1e-9))))
    slow = {name for name, t in first.items() if t > 20 * first["ours"] and t > SLOW}
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(count):
        for name, function in functions.items():
            if name not in slow or turn < 2:
                times[name].append(seconds(function, 1 if name in slow else repeats))
    return times


def ratio(times: dict[str, list[float]], name: str, by: str = "ours") -> float:
    return statistics.median(t / other for t, other in zip(times[name], times[by], strict=False))


def streams_of(case: Any, arguments: dict[str, Any]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    reads, writes = [], []
    for p in case.kernel.parameters:
        value = arguments.get(p.name)
        if not isinstance(value, torch.Tensor) or value.numel() * value.element_size() < LARGE:
            continue
        if p.kind in ("in", "inout"):
            reads.append(value)
        if p.kind in ("out", "inout"):
            writes.append(value)
    return reads, writes


def measure(
    case: Any, sizes: dict[str, int], dtype: torch.dtype, roof: Roof, options: argparse.Namespace
) -> dict[str, Any]:
    arguments = case.draw(1, dtype, sizes)
    outputs = {p.name for p in case.kernel.parameters if p.kind == "out"}
    fresh = {name: value for name, value in arguments.items() if name not in outputs}
    space = SimpleNamespace(**arguments)
    functions: dict[str, Callable[[], Any]] = {"ours": lambda: case.kernel(**arguments)}
    reads, writes = streams_of(case, arguments)
    moved = sum(t.numel() * t.element_size() for t in (*reads, *writes))
    if reads or writes:
        large = moved > 48 << 20
        functions["roof"] = roof.stream(reads, [torch.empty_like(w) for w in writes], large)
    try:
        case.kernel(**fresh)
        functions["fresh"] = lambda: case.kernel(**fresh)
    except tilewright.KernelError as error:  # sizes that only the output tells
        print(f"{case.name}: no fresh outputs: {error}".splitlines()[0])
    if case.peer is not None:
        functions["torch"] = lambda: case.peer(space)
        if options.inductor:
            compiled = torch.compile(case.peer, backend="inductor", dynamic=False)
            functions["inductor"] = lambda: compiled(space)
    with torch.no_grad():
        times = turns(functions, options.turns)
    row: dict[str, Any] = {"kernel": case.name, "sizes": sizes, "dtype": str(dtype).removeprefix("torch.")}
    row["ms"] = statistics.median(times["ours"]) * 1e3
    if case.flops is not None:
        work = case.flops(SimpleNamespace(**sizes))
        peaks = [roof.fma(dtype == torch.bfloat16) for _ in range(3)]
        row["GFLOP/s"] = work / statistics.median(times["ours"]) / 1e9
        if max(peaks):
            row["share of FMA"] = work / statistics.median(times["ours"]) / statistics.median(peaks)
    elif "roof" in times:
        row["GB/s"] = moved / statistics.median(times["ours"]) / 1e9
        row["share of roof"] = ratio(times, "roof")
    for peer in ("torch", "inductor"):
        if peer in times:
            row[f"{peer} / ours"] = ratio(times, peer)
            if "fresh" in times:
                row[f"{peer} / fresh"] = ratio(times, peer, by="fresh")
    return row


def overheads() -> list[tuple[str, str]]:
    """What a call and a compilation cost."""
    import tilewright.language as tw

    n = tw.symbols("N")

    @tw.kernel
    def add(A: tw.In[tw.f32, n], B: tw.In[tw.f32, n], C: tw.Out[tw.f32, n]):
        for i in tw.parallel(n):
            C[i] = A[i] + B[i]

    a, b, c = (torch.zeros(8) for _ in range(3))
    rows = []

    def median_of_calls(call: Callable[[], Any]) -> float:
        call()
        times = []
        for _ in range(10_000):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return statistics.median(times) * 1e6

    rows.append(("warm call, three tensors of 8 elements, cpu", f"{median_of_calls(lambda: add(a, b, c)):.2f} us"))
    operator = add.op
    rows.append(("the same through torch.ops, fresh result", f"{median_of_calls(lambda: operator(a, b)):.2f} us"))
    if torch.npu.is_available():
        x, y, z = (t.npu() for t in (a, b, c))

        def queued() -> None:
            add(x, y, z)
            torch.npu.synchronize()

        rows.append(("the same on npu, with synchronize", f"{median_of_calls(queued):.2f} us"))
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:.3g}" if value < 100 else f"{value:.0f}"
        if isinstance(value, dict):
            return " ".join(f"{k}={v}" for k, v in value.items())
        return "" if value is None else str(value)

    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell(row.get(c)) for c in columns) + " |" for row in rows]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases of examples/kernels; all by default")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--inductor", action="store_true", help="compile the peers with Inductor too (slow to start)")
    parser.add_argument("--cpu-time", action="store_true", help="one thread, its processor time")
    parser.add_argument("--dtypes", nargs="*", help="only these (float32, bfloat16, ..)")
    parser.add_argument("--overheads", action="store_true", help="what calls cost too, where names are given")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the tables to this file too")
    options = parser.parse_args()
    if options.cpu_time:
        options.threads = 1
    torch.set_num_threads(options.threads)
    sys.path.insert(0, str(ROOT / "examples/kernels"))
    import gallery

    cases = gallery.load()
    unknown = [name for name in options.names if name not in cases]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(cases)}")
    roof = Roof(options.threads)
    rows = []
    for name, case in cases.items():
        if options.names and name not in options.names:
            continue
        for sizes in case.bench:
            for dtype in case.dtypes[:1] if case.flops is None else case.dtypes:
                name_of_dtype = str(dtype).removeprefix("torch.")
                if name_of_dtype in ("float16", "float64") or name_of_dtype not in (options.dtypes or [name_of_dtype]):
                    continue
                rows.append(measure(case, sizes, dtype, roof, options))
                print(rows[-1], flush=True)
    text = table(rows)
    if options.overheads or not options.names:
        text += "\n\n" + "\n".join(f"- {what}: {cost}" for what, cost in overheads())
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n")


if __name__ == "__main__":
    main()
