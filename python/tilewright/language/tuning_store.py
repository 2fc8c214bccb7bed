"""What `kernel.tune` has found, on disk and in memory.

One small JSON file for each result, `TUNING/KERNEL-DIGEST/DIGEST.json` in the cache folder. The first digest is of all that voids a result (the
machine, the compiler, the text of the kernel, its space), the second of the call's sizes, dtypes and constants. A kernel's folder is read once.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from .. import switches
from .parameters import closure_values
from .registry import BUILTINS
from .sizes import Size
from .source import KernelError, source_of
from .types import DType, DTypeParameter

if TYPE_CHECKING:
    from .launch import LaunchableKernel

VERSION = 1
FOLDER = "tuning"


@dataclass(frozen=True)
class Saved:
    """One result: the constants that were best, how long a call took, and where it is kept (None: in this process only)."""

    constants: dict[str, Any]
    seconds: float
    file: Path | None = None


@dataclass(frozen=True)
class CallKey:
    """What of a call a result depends on. A size stands for its class: n is in 2**(k - 1) + 1 .. 2**k for the class k (1 for 0)."""

    sizes: tuple[tuple[str, int], ...]
    dtypes: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, str], ...]  # those that are not chosen here, as `stable` writes them

    def record(self) -> dict[str, Any]:
        return {
            "sizes": {name: bounds(k) for name, k in self.sizes},
            "dtypes": dict(self.dtypes),
            "constants": dict(self.constants),
        }

    def text(self) -> str:
        return json.dumps(self.record(), sort_keys=True)

    def __str__(self) -> str:
        parts = [
            f"{name} in {low} .. {high}" if low != high else f"{name} = {low}"
            for name, (low, high) in self.record()["sizes"].items()
        ]
        parts += [f"{name} = {value}" for name, value in (*self.dtypes, *self.constants)]
        return ", ".join(parts) or "all calls"


def bounds(k: int) -> list[int]:
    """The smallest and the largest size of a class."""
    return [0, 1] if k == 0 else [(1 << (k - 1)) + 1, 1 << k]


def stable(value: Any) -> str:
    """A constant as text that is the same in every process."""
    if isinstance(value, (FunctionType, type)):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, tuple):
        return "(" + "".join(f"{stable(v)}, " for v in value) + ")"
    return repr(value)


# -- what voids results ------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """What of this machine and process results hold for."""
    from .. import _C

    found = _C.device_properties()
    return {
        "cpu": found["name"],
        "level": found["cpu_level"],
        "threads": found["multi_processor_count"],
        "caches": [found["l1_cache_size"], found["L2_cache_size"], found["l3_cache_size"]],
    }


def compiler() -> str:
    """The compiler's version: of the package, and of the library file, which every build writes anew."""
    from .. import _C, __version__

    path = switches.get("TILEWRIGHT_COMPILER") or str(Path(_C.__file__).with_name("libtilewright_compiler.so"))
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return __version__  # a compile would say what is missing
    return f"{__version__}-{status.st_size:x}-{status.st_mtime_ns:x}"


def program_of(kernel: LaunchableKernel) -> str:
    """A digest of the kernel's text and space, and of the helpers and plain values that it uses; comments and places do not count."""
    digest = hashlib.sha256()
    for text in _texts(kernel.function, set()):
        digest.update(text.encode() + b"\0")
    for p in kernel.parameters:
        digest.update(f"{p.name}: {stable(p.space)}\0".encode())
    return digest.hexdigest()


def _texts(function: FunctionType, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    try:
        tree = source_of(function).tree
    except KernelError:
        return  # a call that comes to it is refused
    yield function.__qualname__
    yield ast.unparse(tree.args)
    for statement in tree.body:
        yield ast.unparse(statement)
    around = {**function.__globals__, **closure_values(function)}
    for name, value in sorted(_used(tree, around).items()):
        if isinstance(value, FunctionType):
            if value not in BUILTINS:
                yield from _texts(value, seen)
        elif isinstance(value, (bool, int, float, str, tuple, enum.Enum, Size, DType, DTypeParameter)):
            yield f"{name} = {stable(value)}"


def _used(tree: ast.AST, around: Mapping[str, Any]) -> dict[str, Any]:
    """Names and attributes of modules that a function uses, with their values."""
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in around:
            found[node.id] = around[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = around.get(node.value.id)
            if isinstance(owner, ModuleType) and owner.__name__.partition(".")[0] not in ("tilewright", "torch"):
                found[f"{node.value.id}.{node.attr}"] = getattr(owner, node.attr, None)
    return found


# -- files -------------------------------------------------------------------------------------------------------------


class Store:
    """The results that hold for one kernel on this machine, by `CallKey.text`."""

    def __init__(self, kernel: LaunchableKernel) -> None:
        #: constant -> text -> member
        self.space = {p.name: {stable(v): v for v in p.space} for p in kernel.parameters if p.space}
        self.holds_for = {
            "version": VERSION,
            "kernel": kernel.name,
            "machine": machine(),
            "compiler": compiler(),
            "program": program_of(kernel),
        }
        root = switches.cache_directory()
        folder = f"{kernel.name}-{_digest(json.dumps(self.holds_for, sort_keys=True))}"
        # As for programs: a relative path would be another folder in each process.
        self.folder = Path(root) / FOLDER / folder if root is not None and root.startswith("/") else None
        self.results: dict[str, Saved] = dict(self._read())

    def _read(self) -> Iterator[tuple[str, Saved]]:
        wrong: list[str] = []
        files = sorted(self.folder.glob("*.json")) if self.folder is not None else []
        for file in files:
            try:
                record = json.loads(file.read_text())
                if {name: record[name] for name in self.holds_for} != self.holds_for:
                    raise ValueError("it is of another kernel, machine or compiler")
                constants = {name: self.space[name][text] for name, text in record["best"].items()}
                if constants.keys() != self.space.keys() - record["call"]["constants"].keys():
                    raise ValueError("it is of other constants")
                seconds = float(record["seconds"])
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                wrong.append(f"{file} ({type(error).__name__}: {error})")
                continue
            yield json.dumps(record["call"], sort_keys=True), Saved(constants, seconds, file)
        if wrong:
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            warnings.warn(
                f"tilewright: a saved tuning result cannot be read and is ignored: {wrong[0]}{more}",
                RuntimeWarning,
                stacklevel=2,
            )

    def save(self, key: CallKey, constants: Mapping[str, Any], seconds: float) -> Saved:
        """Keeps a result, on disk if there is a cache folder. A folder that cannot be written is told by a warning."""
        file = None if self.folder is None else self.folder / f"{_digest(key.text())}.json"
        if file is not None:
            best = {name: stable(value) for name, value in constants.items()}
            record = {**self.holds_for, "call": key.record(), "best": best, "seconds": seconds}
            try:
                _write(file, json.dumps(record, indent=1))
            except OSError as error:
                warnings.warn(
                    f"tilewright: the tuning result holds for this process only: {error}", RuntimeWarning, stacklevel=4
                )
                file = None
        saved = self.results[key.text()] = Saved(dict(constants), seconds, file)
        return saved


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _write(file: Path, text: str) -> None:
    """Whole or not at all."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".tmp-", dir=file.parent)
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text + "\n")
        os.replace(temporary, file)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
