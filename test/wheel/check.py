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


def check_tool() -> None:
    tool = pathlib.Path(sys.executable).with_name("tilewright")
    print(subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.strip())


def main() -> None:
    package = pathlib.Path(tilewright.__file__).parent
    assert sys.prefix in str(package), f"not the wheel: {package}"
    check_libraries(package)
    check_tool()
    check_model()
    print("the wheel works")


if __name__ == "__main__":
    main()
