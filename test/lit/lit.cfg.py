"""Configuration of the lit tests: one file per pass, checked with FileCheck.

lit -D build=build/release test/lit
"""

import os

import lit.formats

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
build = os.path.abspath(lit_config.params.get("build", os.path.join(root, "build", "release")))  # noqa: F821
llvm = os.environ.get("LLVM_ROOT", "/usr/lib/llvm-19")

config.name = "tilewright"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir", ".json", ".test"]  # noqa: F821
config.excludes = ["Inputs"]  # noqa: F821
config.test_source_root = os.path.dirname(os.path.abspath(__file__))  # noqa: F821
config.test_exec_root = os.path.join(build, "test", "lit")  # noqa: F821
config.environment["PATH"] = os.pathsep.join(  # noqa: F821
    [os.path.join(build, "bin"), os.path.join(llvm, "bin"), os.environ["PATH"]]
)
for name in ("LLVM_PROFILE_FILE", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LD_LIBRARY_PATH", "TILEWRIGHT_CPU"):
    if name in os.environ:
        config.environment[name] = os.environ[name]  # noqa: F821
