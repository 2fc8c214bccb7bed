"""Layer by layer: what each module gives on npu, eager and compiled, against the same model in float64 on the CPU.

Errors are those that have gathered up to a layer, since each run goes through the whole model in its own numbers; the first layer beyond
tolerance is where to look. "compiled" is the whole model compiled with every module's result as a further result of the graph. That
changes what can be fused, so the report also says whether the plain compiled model gives the same bits.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import torch

from .compare import CPU_FACTOR, TOLERANCE, Difference, beyond, difference, worst
from .failure import BringupError, ExitCode, first_sentence, while_running
from .session import Session
from .taps import Tapped, Taps, collect
from .trees import tensors_of

#: The runs that are compared; eager CPU in the model's own dtype shows what the model itself makes of rounding.
RUNS = ("cpu", "npu", "compiled")
TITLES = {"cpu": "eager CPU", "npu": "npu eager", "compiled": "npu compiled"}


def numerics(session: Session) -> dict[str, Any]:
    result: dict[str, Any] = {
        "reference": "float64 on the CPU",
        "tolerance": session.tolerance
        if session.tolerance is not None
        else {str(dtype).removeprefix("torch."): value for dtype, value in TOLERANCE.items()},
        "cpu_factor": CPU_FACTOR,
        "runs": [],
        "layers": [],
        "first_beyond": {},
    }
    reference = _reference(session, result)
    runs: dict[str, Taps] = {}
    for name in RUNS:
        taps = _run(session, name)
        if taps is not None:
            runs[name] = taps
    result["runs"] = list(runs)
    types = {name: type(module).__name__ for name, module in session.model.named_modules()}
    with _one_thread():
        result["layers"] = _layers(session, reference, runs, types)
    _judge(session, result)
    if "compiled" in runs:
        result["compiled_same_bits"] = _same_bits(session, runs["compiled"])
    return result


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """For thousands of small operators on the CPU, between which PyTorch's idle threads would spin (on a busy machine that made the step ten times as long)."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _reference(session: Session, result: dict[str, Any]) -> Taps:
    """In float64; a model that insists on its dtype gets a reference in that one, and the report says so."""
    try:
        model = copy.deepcopy(session.model).double()
        tapped = Tapped(model)
        inputs = session.example.map(lambda t: t.double() if t.is_floating_point() else t)
        return collect(tapped, inputs)
    except RuntimeError as error:
        result["reference"] = "the model's own dtype on the CPU"
        session.report.find(
            "numerics",
            f"The model does not run in float64 ({first_sentence(error)}), so the reference is the CPU in the model's own dtype: errors that "
            "both make are not seen.",
        )
    tapped = Tapped(session.model)
    try:
        return collect(tapped, session.example)
    finally:
        tapped.remove()


def _run(session: Session, name: str) -> Taps | None:
    """None: this run is not possible, which the session has reported."""
    if (name == "npu" and not session.npu_runs) or (name == "compiled" and not session.compiles):
        return None
    tapped = Tapped(session.model if name == "cpu" else session.npu_model)
    run: Any = tapped
    inputs = session.example
    try:
        if name != "cpu":
            inputs = inputs.to("npu")
        if name == "compiled":
            # Constant sizes: kernels do not depend on them, and tracing takes less than half of the time.
            run = torch.compile(tapped, backend="tilewright", options={"dynamic_first": False})
        return collect(run, inputs)
    except Exception as error:
        failure = while_running(error, f"{TITLES[name]}, with every layer's result", ExitCode.NPU_RUN)
        if name == "compiled":  # the plain model compiles, so this is a limit of looking into it
            session.report.find("numerics", f"No comparison layer by layer of the compiled model: {failure.line()}.")
            return _outputs_only(session)
        session.report.fail(failure, "numerics")
        return None
    finally:
        tapped.remove()


def _outputs_only(session: Session) -> Taps:
    return {("", 0, path): tensor.cpu() for path, tensor in tensors_of(session.compiled_example())}


def _layers(session: Session, reference: Taps, runs: dict[str, Taps], types: dict[str, str]) -> list[dict[str, Any]]:
    parts: dict[tuple[str, int], list[str]] = {}
    for name, call, path in reference:
        parts.setdefault((name, call), []).append(path)
    layers = []
    for (name, call), paths in parts.items():
        layer: dict[str, Any] = {
            "name": name or "(output)",
            "type": types.get(name, ""),
            "call": call,
            "shapes": [list(reference[name, call, p].shape) for p in paths],
        }
        compared: dict[str, Difference] = {}
        for run, taps in runs.items():
            found = [
                (taps[name, call, path], reference[name, call, path]) for path in paths if (name, call, path) in taps
            ]
            if len(found) == len(paths):
                compared[run] = worst([_difference(session, run, name, *pair) for pair in found])
        for run, value in compared.items():
            layer[run] = value.to_dict() | {
                "beyond": run != "cpu" and beyond(value, compared.get("cpu"), session.tolerance)
            }
        layers.append(layer)
    return layers


def _difference(session: Session, run: str, layer: str, found: torch.Tensor, reference: torch.Tensor) -> Difference:
    try:
        return difference(found, reference)
    except ValueError as error:
        raise BringupError(
            ExitCode.NUMERICS,
            f"{TITLES[run]}: {error}",
            f"layer {layer or '(output)'}",
            "This is a bug of Tilewright: please report it with the model",
        ) from error


def _judge(session: Session, result: dict[str, Any]) -> None:
    """The first layer that is beyond tolerance, and errors for what reaches the model's result."""
    layers = result["layers"]
    cpu_overflows = any(layer["name"] == "(output)" and layer.get("cpu", {}).get("not_finite") for layer in layers)
    for run in result["runs"]:
        found = [layer for layer in layers if run in layer and layer[run]["beyond"]]
        if found:
            result["first_beyond"][run] = found[0]["name"]
    _report_nan(session, result, cpu_overflows)
    for run, name in result["first_beyond"].items():
        layer = next(layer for layer in layers if layer["name"] == name and run in layer and layer[run]["beyond"])
        if layer[run]["not_finite"]:
            continue  # reported as NaN
        output = layers[-1].get(run, {})
        where = f"layer {name} ({layer['type']})" if layer["type"] else name
        what = (
            f"{TITLES[run]} is off by {layer[run]['max_abs']:.3g} ({layer[run]['relative']:.2g} of the largest value)"
        )
        if not output.get("beyond", True):
            session.report.find("numerics", f"{what} in {where}; the model's result is within tolerance.")
            continue
        session.report.fail(
            BringupError(
                ExitCode.NUMERICS,
                f"numerics beyond tolerance: {what}",
                where,
                "Compare this layer alone; if it is right for your model, raise --tolerance",
            ),
            "numerics",
        )


def _report_nan(session: Session, result: dict[str, Any], cpu_overflows: bool) -> None:
    layers = result["layers"]
    in_example = _special(session.cpu_example())
    if in_example or cpu_overflows:
        first = next(layer["name"] for layer in layers if layer["cpu"]["nan"] or layer["cpu"]["not_finite"])
        place = f"first in layer {first}"
        session.report.fail(
            BringupError(
                ExitCode.NAN,
                f"the model's outputs contain {in_example or 'NaN or infinity'} on the CPU already",
                place,
                "Check the weights and the example inputs (masks that hide everything, divisions by zero)",
            ),
            "numerics",
        )
        return
    for run in ("npu", "compiled"):
        bad = [layer for layer in layers if layer.get(run, {}).get("not_finite")]
        if bad and layers[-1].get(run, {}).get("not_finite"):
            session.report.fail(
                BringupError(
                    ExitCode.NAN,
                    f"{TITLES[run]} gives NaN or infinity where the reference has numbers",
                    f"first in layer {bad[0]['name']}",
                    "This is a bug of Tilewright: please report it with the model",
                ),
                "numerics",
            )


def _special(outputs: Any) -> str:
    for _, tensor in tensors_of(outputs):
        if (tensor.is_floating_point() or tensor.is_complex()) and tensor.isnan().any():
            return "NaN"
    return ""  # infinities may be meant: hidden logits are -inf


def _same_bits(session: Session, tapped: Taps) -> bool:
    """Whether compiling without a look into the layers gives the very same result."""
    return all(
        torch.equal(tensor.cpu(), tapped["", 0, path]) or bool(tensor.isnan().any())
        for path, tensor in tensors_of(session.compiled_example())
    )
