"""How the device gets into PyTorch, and how it stays out: entry point, import orders, failures, other back ends."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

import tilewright
from tilewright import _autoload

PACKAGE_PARENT = Path(tilewright.__file__).parent.parent

USE = "x = torch.ones(2, device='npu'); assert x.sum().item() == 2; assert torch.npu.device_count() == 1"
ABSENT = "assert not hasattr(torch, 'npu'); assert torch.ones(2).sum().item() == 2"


@pytest.fixture
def site(tmp_path):
    """A folder of packages: ours as an installed distribution with its entry point, and what a test adds."""

    class Site:
        path = tmp_path

        def package(self, name: str, code: str, entry_point: str | None = None) -> None:
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "__init__.py").write_text(textwrap.dedent(code))
            if entry_point:
                self.distribution(name, entry_point)

        def distribution(self, name: str, entry_point: str) -> None:
            info = tmp_path / f"{name}-1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            (info / "entry_points.txt").write_text(f"[torch.backends]\n{name} = {entry_point}\n")

        def ours(self, *, without: str = "", replace: dict[str, str] | None = None) -> None:
            """Our package, by links to the one under test; some files left out or with other contents."""
            target = tmp_path / "tilewright"
            target.mkdir()
            for entry in (PACKAGE_PARENT / "tilewright").iterdir():
                if entry.name == "__pycache__" or (without and entry.name.startswith(without)):
                    continue
                if entry.name in (replace or {}):
                    (target / entry.name).write_text(replace[entry.name])
                else:
                    (target / entry.name).symlink_to(entry.resolve())
            self.distribution("tilewright", "tilewright._autoload:load")

        def run(self, code: str, *options: str, fails: bool = False, **environment: str) -> subprocess.CompletedProcess:
            clean = {k: v for k, v in os.environ.items() if not k.startswith(("TORCH_DEVICE", "TILEWRIGHT_", "PYTHON"))}
            clean.update(PYTHONPATH=str(tmp_path), TILEWRIGHT_FALLBACK="silent", **environment)
            done = subprocess.run(
                [sys.executable, *options, "-c", code], capture_output=True, text=True, env=clean, cwd=tmp_path
            )
            assert (done.returncode != 0) == fails, done.stderr
            return done

    return Site()


@pytest.mark.parametrize("imports", ["import torch", "import tilewright, torch", "import torch, tilewright"])
def test_both_import_orders_and_torch_alone(site, imports):
    site.ours()
    done = site.run(f"{imports}\n{USE}\nimport tilewright\nassert torch.npu.__name__ == 'tilewright.npu'")
    assert done.stderr == ""


@pytest.mark.parametrize("imports", ["import tilewright, torch", "import torch, tilewright"])
def test_without_autoload_import_tilewright_registers(site, imports):
    site.ours()
    done = site.run(f"import os\n{imports}\n{USE}", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stderr == ""
    site.run(f"import torch\n{ABSENT}", TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_neither_dynamo_nor_the_compiler_nor_the_language_is_loaded(site):
    site.ours()
    code = """
    import sys, torch
    assert torch.npu.is_available()
    assert "torch._dynamo" not in sys.modules and "sympy" not in sys.modules
    assert not [m for m in sys.modules if m.startswith("tilewright.language")]
    maps = open("/proc/self/maps").read()
    assert "libtilewright_runtime" in maps and "libtilewright_compiler" not in maps and "libMLIR" not in maps
    """
    site.run(textwrap.dedent(code))


def test_back_end_is_found_when_dynamo_comes(site):
    site.ours()
    site.run("import torch, torch._dynamo\nassert 'tilewright' in torch._dynamo.list_backends(None)")


def test_missing_extension_is_one_warning_and_torch_works(site):
    site.ours(without="_C")
    done = site.run(f"import torch\n{ABSENT}")
    assert done.stderr.count("RuntimeWarning") == 1 and "its extension does not load" in done.stderr
    assert "PyTorch works without it" in done.stderr
    done = site.run("import tilewright", fails=True)
    assert "DeviceUnavailableError: its extension does not load" in done.stderr.splitlines()[-1]


def test_library_that_does_not_load_is_one_warning(site):
    site.ours(without="libtilewright_runtime")
    (site.path / "tilewright" / "libtilewright_runtime.so").write_text("no library")
    extension = next((PACKAGE_PARENT / "tilewright").glob("_C*.so"))
    copy = site.path / "tilewright" / extension.name
    copy.unlink()
    copy.write_bytes(extension.read_bytes())  # a copy looks for libraries beside itself
    done = site.run(f"import torch\n{ABSENT}")
    assert done.stderr.count("RuntimeWarning") == 1 and "libtilewright_runtime.so" in done.stderr


def test_broken_package_file_is_one_warning(site):
    site.ours(without="npu")
    (site.path / "tilewright" / "npu").mkdir()
    (site.path / "tilewright" / "npu" / "__init__.py").write_text("1 / 0")
    done = site.run(f"import torch\n{ABSENT}")
    assert done.stderr.count("RuntimeWarning") == 1 and "division by zero" in done.stderr


def test_warnings_as_errors_do_not_break_torch(site):
    site.ours(without="_C")
    done = site.run(f"import torch\n{ABSENT}", "-W", "error::RuntimeWarning")
    assert "its extension does not load" in done.stderr


def test_another_torch_version_is_told_before_a_library_is_loaded(site):
    other = (PACKAGE_PARENT / "tilewright" / "_autoload.py").read_text().replace('"2.13.0"', '"2.12.1"')
    assert "2.12.1" in other
    site.ours(replace={"_autoload.py": other})
    done = site.run(f"import torch\n{ABSENT}\nassert 'libtilewright' not in open('/proc/self/maps').read()")
    assert "built for PyTorch 2.12.1, and this is 2.13.0" in done.stderr and "Install torch==2.12.1" in done.stderr
    assert "2.12.1" in site.run("import tilewright", fails=True).stderr


def test_the_version_in_python_is_the_one_built_against():
    assert tilewright._C.torch_version == _autoload.TORCH_VERSION == torch.__version__.split("+")[0]


FAKE_NPU = """
    import torch
    def load():
        torch.utils.rename_privateuse1_backend("npu")
        torch.npu_is_theirs = True
"""


@pytest.mark.parametrize("imports", ["import torch, tilewright", "import tilewright, torch"])
def test_torch_npu_keeps_its_device(site, imports):
    site.ours()
    site.package("torch_npu", FAKE_NPU, "torch_npu:load")
    done = site.run(f"{imports}\nassert torch.npu_is_theirs and not hasattr(torch, 'npu')")
    assert done.stderr.count("Tilewright leaves the device npu alone") == 1


def test_force_takes_the_device_from_torch_npu(site):
    site.ours()
    site.package("torch_npu", FAKE_NPU, "torch_npu:load")
    done = site.run(
        f"import tilewright, torch\n{USE}\nassert not hasattr(torch, 'npu_is_theirs')", TILEWRIGHT_DEVICE="force"
    )
    assert done.stderr == ""


def test_broken_torch_npu_beside_us(site):
    site.ours()
    site.package("torch_npu", "raise ImportError('libascendcl.so: cannot open shared object file')")
    done = site.run(f"import torch\n{ABSENT}")
    assert "torch_npu is installed" in done.stderr and "TILEWRIGHT_DEVICE=force" in done.stderr
    site.run(f"import tilewright, torch\n{USE}", TILEWRIGHT_DEVICE="force")


def test_broken_torch_npu_with_an_entry_point_is_not_made_worse(site):
    """Its entry point fails `import torch` for everybody; forcing ours, which switches entry points off, works."""
    site.ours()
    site.package("torch_npu", "raise ImportError('libascendcl.so')", "torch_npu:load")
    done = site.run("import torch", fails=True)
    assert "Failed to load the backend extension: torch_npu" in done.stderr
    site.run(f"import tilewright, torch\n{USE}", TILEWRIGHT_DEVICE="force")


def test_another_device_in_the_slot(site):
    site.ours()
    site.package(
        "aardvark",
        "def load():\n        import torch\n        torch.utils.rename_privateuse1_backend('aardvark')",
        "aardvark:load",
    )
    (site.path / "aardvark" / "__init__.py").write_text(
        "def load():\n    import torch\n    torch.utils.rename_privateuse1_backend('aardvark')\n"
    )
    code = "import torch\nif torch._C._get_privateuse1_backend_name() == 'aardvark':\n    import tilewright\nprint(torch._C._get_privateuse1_backend_name())"
    done = site.run(
        "import os; os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'; import torch, aardvark; aardvark.load()\n" + code
    )
    assert done.stdout.strip() == "aardvark"
    assert "the device aardvark of another package has the slot" in done.stderr


def test_another_accelerator_goes_first(site):
    site.ours()
    pretend = "import torch; torch.accelerator.is_available = lambda: True; torch.accelerator.current_accelerator = lambda: torch.device('cuda')\n"
    done = site.run(pretend + f"import tilewright\n{ABSENT}", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert "PyTorch has the accelerator cuda" in done.stderr and done.stderr.count("RuntimeWarning") == 1
    assert (
        site.run(
            pretend + f"import tilewright\n{USE}", TORCH_DEVICE_BACKEND_AUTOLOAD="0", TILEWRIGHT_DEVICE="force"
        ).stderr
        == ""
    )


def test_switched_off(site):
    site.ours()
    assert site.run(f"import torch, tilewright\n{ABSENT}", TILEWRIGHT_DEVICE="off").stderr == ""


def test_a_wrong_word_in_the_switch(site):
    site.ours()
    done = site.run(f"import torch\n{ABSENT}", TILEWRIGHT_DEVICE="maybe")
    assert "TILEWRIGHT_DEVICE=maybe: unknown value; use auto, force or off" in done.stderr
