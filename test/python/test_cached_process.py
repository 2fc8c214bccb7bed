"""A process whose programs are all in the cache on disk never opens the compiler."""

import os
import subprocess
import sys

CODE = """
import sys, torch, tilewright
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 3)).eval()
with torch.no_grad():
    for device in ("cpu", "npu"):
        there = model.to(device)
        compiled = torch.compile(there, backend="tilewright")
        for rows in (5, 9):
            x = torch.ones(rows, 16, device=device)
            torch.testing.assert_close(compiled(x).cpu(), there(x).cpu(), rtol=1e-4, atol=1e-5)
        torch._dynamo.reset()
torch.npu.synchronize()
assert not torch.npu.fallback_counts(), torch.npu.fallback_counts()
print("mapped" if "libtilewright_compiler" in open("/proc/self/maps").read() else "not mapped")
"""


def test_a_fully_cached_process_never_maps_the_compiler(tmp_path):
    environment = {**os.environ, "TILEWRIGHT_CACHE": str(tmp_path)}
    environment.pop("TILEWRIGHT_DEBUG", None)
    said = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.strip())
    assert said == ["mapped", "not mapped"]
