"""SPEC: where the model comes from."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..dynamo.dtypes import DTYPE_NAMES
from .failure import BringupError, ExitCode, detail_of, first_sentence, missing_package, user_frame
from .trees import Inputs

_FORMS = "SPEC is package.module:factory, path/to/file.py:factory or hf:DIRECTORY"
_RETURNS = "The factory returns (model, inputs) or (model, inputs, [batch sizes])"


@dataclass
class Loaded:
    model: torch.nn.Module
    example: Inputs
    batches: list[int]  # empty: not said
    make_inputs: Callable[[int], Inputs]  # inputs with that many rows


def load(spec: str) -> Loaded:
    """The model in evaluation mode, its example inputs and batch sizes. Raises BringupError."""
    if spec.startswith("hf:"):
        from .hub import load_folder

        return checked(spec, load_folder(spec[len("hf:") :]))
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise BringupError(ExitCode.SPEC, f"{spec!r} is no SPEC", "", _FORMS)
    factory = _find(spec, place, name)
    torch.manual_seed(0)  # so that a model with random weights is the same one at each run
    try:
        result = factory()
    except ImportError as error:
        raise missing_package(error, spec) from error
    except Exception as error:
        raise BringupError(
            ExitCode.FACTORY,
            f"the factory {name} failed: {first_sentence(error)}",
            user_frame(error.__traceback__) or spec,
            "Call it by hand: its traceback is in the report",
            detail_of(error),
        ) from error
    return checked(spec, result)


def _find(spec: str, place: str, name: str) -> Callable[[], Any]:
    module = _import_file(spec, place) if place.endswith(".py") or os.sep in place else _import_module(spec, place)
    factory = getattr(module, name, None)
    if factory is None:
        functions = sorted(
            n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__
        )
        raise BringupError(
            ExitCode.SPEC,
            f"{place} has no {name}",
            spec,
            f"It defines {', '.join(functions)}" if functions else "It defines no function",
        )
    if not callable(factory):
        raise BringupError(ExitCode.SPEC, f"{name} is no function but a {type(factory).__name__}", spec, _RETURNS)
    return factory


def _import_file(spec: str, place: str) -> Any:
    if not os.path.isfile(place):
        raise BringupError(ExitCode.SPEC, f"there is no file {place}", spec, _FORMS)
    path = os.path.abspath(place)
    sys.path.insert(0, os.path.dirname(path))  # as `python file.py` does
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules:
        name = f"{name}_of_spec"  # a file may be called as a package is
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise BringupError(ExitCode.SPEC, f"{place} is no Python file", spec, _FORMS)
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # so that classes defined in it can be copied and pickled
    return _execute(spec, place, lambda: found.loader.exec_module(module) or module)  # type: ignore[union-attr]


def _import_module(spec: str, place: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return _execute(spec, place, lambda: importlib.import_module(place))


def _execute(spec: str, place: str, run: Callable[[], Any]) -> Any:
    try:
        return run()
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(error.name + ".")):
            raise BringupError(
                ExitCode.SPEC,
                f"there is no module {error.name}",
                spec,
                f"{_FORMS}; modules are looked for here and in the Python that runs the model",
            ) from error
        raise missing_package(error, spec) from error
    except ImportError as error:
        raise missing_package(error, spec) from error
    except SyntaxError as error:
        raise BringupError(
            ExitCode.SPEC,
            f"{place} is no valid Python: {error.msg}",
            f"{error.filename}:{error.lineno}",
            "Correct this line",
        ) from error
    except Exception as error:
        raise BringupError(
            ExitCode.FACTORY,
            f"importing {place} failed: {first_sentence(error)}",
            user_frame(error.__traceback__) or spec,
            "Its traceback is in the report",
            detail_of(error),
        ) from error


def checked(spec: str, result: Any) -> Loaded:
    """What a factory returned, if it is what it should be."""

    def wrong(what: str) -> BringupError:
        return BringupError(ExitCode.FACTORY, what, spec, _RETURNS)

    if not isinstance(result, tuple) or len(result) not in (2, 3):
        shape = f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__
        raise wrong(f"the factory returned {shape}")
    model, inputs, batches = (*result, None)[:3]
    if not isinstance(model, torch.nn.Module):
        raise wrong(f"the factory's model is no torch.nn.Module but a {type(model).__name__}")
    sizes = [] if batches is None else list(batches)
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise wrong(f"the factory's batch sizes are no positive integers: {sizes}")
    if callable(inputs):
        make = _guarded(spec, inputs)
        # An example of two or more rows shows more: sizes of 1 broadcast by accident.
        example = make(next((size for size in sizes if size > 1), sizes[0] if sizes else 2))
    else:
        example = Inputs.of(inputs)
        make = example.with_batch
    loaded = Loaded(model.eval(), example, sorted(set(sizes)), make)
    if not example.tensors():
        raise wrong("the factory's inputs contain no tensor")
    _require_dtypes(spec, loaded)
    _require_cpu(spec, loaded)
    return loaded


def _guarded(spec: str, make: Callable[[int], Any]) -> Callable[[int], Inputs]:
    def inputs(size: int) -> Inputs:
        try:
            return Inputs.of(make(size))
        except Exception as error:
            where = user_frame(error.__traceback__) or spec
            raise BringupError(
                ExitCode.FACTORY,
                f"the function of inputs failed for batch size {size}: {first_sentence(error)}",
                where,
                "Call it by hand",
                detail_of(error),
            ) from error

    return inputs


def _everything(loaded: Loaded) -> list[tuple[str, torch.Tensor]]:
    return [*loaded.model.named_parameters(), *loaded.model.named_buffers(), *loaded.example.tensors()]


def _require_dtypes(spec: str, loaded: Loaded) -> None:
    for name, tensor in _everything(loaded):
        if tensor.dtype not in DTYPE_NAMES or tensor.is_quantized:
            raise BringupError(
                ExitCode.DTYPE,
                f"{name} has the dtype {str(tensor.dtype).removeprefix('torch.')}, which npu does not have",
                spec,
                "Convert it, e.g. to float32 or bfloat16; the dtypes are "
                + ", ".join(str(d).removeprefix("torch.") for d in DTYPE_NAMES),
            )
        if tensor.layout is not torch.strided:
            raise BringupError(
                ExitCode.DTYPE,
                f"{name} has the layout {tensor.layout}, which npu does not have",
                spec,
                "Convert it by to_dense()",
            )


def _require_cpu(spec: str, loaded: Loaded) -> None:
    for name, tensor in _everything(loaded):
        if tensor.device.type != "cpu":
            raise BringupError(
                ExitCode.FACTORY,
                f"{name} lies on {tensor.device}",
                spec,
                "The factory returns everything on cpu; bringup moves it to npu itself",
            )
