"""Checks an installed wheel; run by scripts/test-wheel.sh in an environment without LLVM and without the checkout's build."""

import os
import pathlib
import subprocess
import sys

import torch

import tilewright


def needed(library: pathlib.Path) -> list[str]:
    """The libraries that the loader resolves for `library`, as ldd prints them. torch's need not lie beside: it is imported before."""
    environment = os.environ | {"LD_LIBRARY_PATH": str(pathlib.Path(torch.__file__).parent / "lib")}
    result = subprocess.run(["ldd", str(library)], capture_output=True, text=True, check=True, env=environment)
    return result.stdout.splitlines()


def check_libraries(package: pathlib.Path) -> None:
    libraries = sorted(package.glob("*.so"))
    names = {library.name.split(".")[0] for library in libraries}
    assert names == {"_C", "libtilewright_runtime", "libtilewright_ops", "libtilewright_compiler"}, names
    for library in libraries:
        lines = needed(library)
        missing = [line for line in lines if "not found" in line]
        assert not missing, (library.name, missing)
        foreign = [line for line in lines if "LLVM" in line or "MLIR" in line or "libz3" in line or "libxml2" in line]
        assert not foreign, (library.name, foreign)
        print(f"{library.name}: {library.stat().st_size / 2**20:.2f} MiB")


def check_model() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 32)).eval()
    x = torch.randn(7, 64)
    with torch.no_grad():
        expected = model.double()(x.double())
        model = model.float().to("npu")
        compiled = torch.compile(model, backend="tilewright")
        for result in (model(x.to("npu")), compiled(x.to("npu"))):
            error = (result.cpu().double() - expected).abs().max().item()
            assert error < 1e-5, error
            print(f"MLP on {result.device}: error {error:.1e}")


class Encoder(torch.nn.Module):
    """MiniLM's kind, small: token ids and mask -> one vector of unit length per sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(500, 48), torch.nn.Embedding(64, 48)
        layer = torch.nn.TransformerEncoderLayer(48, 4, 96, batch_first=True, activation="gelu")
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        x = self.layers(x, src_key_padding_mask=mask == 0)
        weights = mask.unsqueeze(-1).to(x.dtype)
        return torch.nn.functional.normalize((x * weights).sum(1) / weights.sum(1), dim=1)


def check_encoder() -> None:
    torch.manual_seed(0)
    model = Encoder().eval()
    compiled = torch.compile(model, backend="tilewright")
    worst = 0.0
    with torch.no_grad():
        for device in ("cpu", "npu"):
            for batch, length in ((3, 7), (5, 33), (1, 12)):
                ids = torch.randint(0, 500, (batch, length))
                mask = (torch.arange(length) < torch.randint(1, length + 1, (batch, 1))).long()
                expected = model.cpu().double()(ids, mask)
                model.float().to(device)
                result = compiled(ids.to(device), mask.to(device))
                worst = max(worst, (result.cpu().double() - expected).abs().max().item())
    assert worst < 1e-6, worst
    islands = [g.islands for g in tilewright.compile_stats().graphs if g.islands]
    assert not islands, islands
    print(f"encoder on cpu and npu: error {worst:.1e}")


def check_versions() -> None:
    """Under another torch the device is refused with one message, and no library of ours is loaded."""
    code = """
import importlib.util, sys, warnings
class Other:
    def find_spec(self, name, path=None, target=None):
        if name != "torch.version":
            return None
        spec = importlib.util.spec_from_loader(name, self)
        return spec
    def create_module(self, spec): return None
    def exec_module(self, module):
        source = open(sys.argv[1]).read().replace(sys.argv[2], "2.12.9")
        exec(source, module.__dict__)
sys.meta_path.insert(0, Other())
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import torch
assert torch.__version__.startswith("2.12.9"), torch.__version__
ours = [str(w.message) for w in said if "Tilewright" in str(w.message)]
assert len(ours) == 1 and "built for PyTorch" in ours[0] and "2.12.9" in ours[0], ours
assert "libtilewright" not in open("/proc/self/maps").read()
try:
    import tilewright
except ImportError as error:
    assert "2.12.9" in str(error), error
else:
    raise SystemExit("import tilewright did not say anything")
print(ours[0])
"""
    version = pathlib.Path(torch.__file__).parent / "version.py"
    number = torch.__version__.split("+")[0]
    done = subprocess.run([sys.executable, "-c", code, str(version), number], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    print(done.stdout.strip())


def check_tool() -> None:
    tool = pathlib.Path(sys.executable).with_name("tilewright")
    print(subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.strip())


def main() -> None:
    package = pathlib.Path(tilewright.__file__).parent
    assert sys.prefix in str(package), f"not the wheel: {package}"
    check_libraries(package)
    check_tool()
    check_model()
    check_encoder()
    check_versions()
    print("the wheel works")


if __name__ == "__main__":
    main()
