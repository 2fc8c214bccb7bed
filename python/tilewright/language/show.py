"""`tilewright kernel show FILE.py:NAME`: what a kernel becomes, as text. Exit codes: tools/tilewright/Commands.h."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import pathlib
import sys
from typing import Any, NoReturn

from .. import language
from . import inspection
from .launch import LaunchableKernel
from .source import KernelError
from .types import DType, DTypeParameter, TensorType

USAGE = 2


def _fail(message: str) -> NoReturn:
    print(f"tilewright: error: {message}", file=sys.stderr)
    raise SystemExit(USAGE)


def load(spec: str) -> LaunchableKernel:
    """The kernel that `file.py:name` or `package.module:name` means."""
    where, _, name = spec.rpartition(":")
    if not where or not name:
        _fail(f"{spec}: write file.py:name or package.module:name")
    if where.endswith(".py"):
        path = pathlib.Path(where).resolve()
        if not path.is_file():
            _fail(f"no file {where}")
        sys.path.insert(0, str(path.parent))
        described = importlib.util.spec_from_file_location(path.stem, path)
        assert described is not None and described.loader is not None
        module = importlib.util.module_from_spec(described)
        sys.modules[path.stem] = module
        described.loader.exec_module(module)
    else:
        sys.path.insert(0, "")
        try:
            module = importlib.import_module(where)
        except ModuleNotFoundError as error:
            _fail(f"{error}: the part before the colon is a file.py or a module that can be imported from here")
    found = getattr(module, name, None)
    if not isinstance(found, LaunchableKernel):
        kernels = [n for n, value in vars(module).items() if isinstance(value, LaunchableKernel)]
        _fail(f"{where} has no kernel {name}; it has {', '.join(kernels) or 'none'}")
    return found


def _pairs(given: list[str], option: str) -> dict[str, str]:
    result = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            _fail(f"{option} {text}: write {option} NAME=VALUE")
        result[name] = value
    return result


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tilewright kernel show")
    parser.add_argument("spec")
    parser.add_argument("stage", nargs="?", default="explain")
    parser.add_argument("--dtype", action="append", default=[])
    parser.add_argument("--const", action="append", default=[])
    options = parser.parse_args(argv)
    kernel = load(options.spec)
    tensors = {p.name: p.type.dtype for p in kernel.parameters if isinstance(p.type, TensorType)}
    chosen: dict[Any, Any] = {}  # what dtype parameters are
    for name, text in _pairs(options.dtype, "--dtype").items():
        if name not in tensors:
            _fail(f"--dtype {name}: {kernel.name} has the tensors {', '.join(tensors)}")
        dtype = getattr(language, text, None)
        if not isinstance(dtype, DType):
            _fail(f"--dtype {name}={text}: no dtype {text}; f32, bf16, i64, ...")
        if chosen.setdefault(tensors[name], dtype) != dtype:
            _fail(f"--dtype {name}={text}: {tensors[name]} is {chosen[tensors[name]].name} already")
    arguments: dict[str, Any] = {
        name: chosen.get(declared, language.f32 if isinstance(declared, DTypeParameter) else declared)
        for name, declared in tensors.items()
    }
    for name, text in _pairs(options.const, "--const").items():
        try:
            arguments[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            arguments[name] = text
    try:
        if options.stage == "explain":
            print(inspection.explain(kernel, **arguments))
        else:
            print(inspection.ir(kernel, options.stage, **arguments))
    except (KernelError, ValueError) as error:
        _fail(str(error))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
