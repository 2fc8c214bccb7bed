"""Every importer entry against PyTorch on CPU: result dtype, shape, strides and values, with constant and symbolic sizes."""

from __future__ import annotations

import subprocess
from collections import defaultdict

import pytest
import torch
from ops_harness import DTYPES, TORCH_DTYPES, Call, Imported, find_tool, import_and_run
from ops_samples import collect
from torch.utils._pytree import tree_map

# Results that PyTorch leaves undefined.
UNDEFINED = ("aten.empty", "aten.new_empty", "aten.log_sigmoid_forward")
# Where the strides of an undescribed result differ for a reason.
OTHER_STRIDES = {
    "aten.empty_strided.default": "a result that is not dense keeps its strides only where the graph describes them",
    "aten.new_empty_strided.default": "a result that is not dense keeps its strides only where the graph describes them",
    "tilewright.sdpa.default": "heads lie side by side in a row, for the projection that follows",
    "aten.scaled_dot_product_attention.default": "likewise",
}


# Nodes of graphs that are no operators of PyTorch: test_language_torch.py compares what they compute.
NO_OPERATOR = {"tilewright.kernel.default"}


@pytest.fixture(scope="module")
def tool() -> str:
    found = find_tool()
    assert found, "tilewright-ops is not built: ninja tilewright-ops"
    return found


@pytest.fixture(scope="module")
def native(tool: str) -> set[str]:
    return set(subprocess.run([tool], capture_output=True, text=True, check=True).stdout.split())


@pytest.fixture(scope="module")
def calls(native: set[str]) -> dict[str, list[Call]]:
    return collect(native, limit=4, counts={torch.float32: 4, torch.bfloat16: 2, torch.int64: 1, torch.bool: 1})


def _strides(shape: torch.Size, strides: list[int] | tuple[int, ...]) -> list[int]:
    return [s for n, s in zip(shape, strides, strict=True) if n != 1]


def _in_double(call: Call) -> list[torch.Tensor]:
    """The results in double precision, for narrow types in which PyTorch rounds between steps."""

    def wide(x: object) -> object:
        return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    namespace, name, overload = call.name.split(".")
    args, kwargs = tree_map(wide, call.args), {k: wide(v) for k, v in call.kwargs.items()}
    args = tuple(torch.float64 if isinstance(a, torch.dtype) and a.is_floating_point else a for a in args)
    out = getattr(getattr(getattr(torch.ops, namespace), name), overload)(*args, **kwargs)
    return list(out) if isinstance(out, (tuple, list)) else [out]


def _close(got: torch.Tensor, want: torch.Tensor) -> bool:
    tolerance = {torch.float32: (2e-5, 1e-5), torch.float64: (1e-9, 1e-9)}.get(want.dtype, (1.6e-2, 1e-5))
    if not want.dtype.is_floating_point:
        return torch.equal(got, want)
    return torch.allclose(got.double(), want.double(), *tolerance, equal_nan=True)


def values_agree(call: Call, k: int, got: torch.Tensor, want: torch.Tensor) -> bool:
    if _close(got, want):
        return True
    try:
        exact = _in_double(call)[k]
    except (RuntimeError, TypeError):
        return False
    # At least as near to the truth as PyTorch's own result, but for one rounding.
    error, theirs = (got.double() - exact).abs().nan_to_num(), (want.double() - exact).abs().nan_to_num()
    unit = torch.finfo(want.dtype).eps if want.dtype.is_floating_point else 0
    return bool((error <= theirs.max() + exact.abs() * unit).all())


def _complaint(call: Call, imported: Imported) -> str | None:
    # Constant strides beside symbolic sizes do not tell in which order dimensions lie, nor whether a view is possible.
    unclear = bool(imported.symbols) and not all(t.is_contiguous() for t in call.inputs)
    own_strides = call.name in OTHER_STRIDES or unclear
    report = imported.report
    if "error" in report:
        return f"{report['error']}: {report['message']}"
    for k, (want, got, said) in enumerate(zip(call.results, imported.results, report["results"], strict=True)):
        if want is None:
            continue
        strides = [imported.number(s) for s in said["strides"]]
        if TORCH_DTYPES[said["dtype"]] != want.dtype:
            return f"result {k} has dtype {said['dtype']}, not {DTYPES[want.dtype]}"
        if got.shape != want.shape:
            return f"result {k} has sizes {said['sizes']}, not {list(want.shape)}"
        if want.numel() and not own_strides and _strides(want.shape, strides) != _strides(want.shape, want.stride()):
            return f"result {k} has strides {said['strides']}, not {list(want.stride())}"
        if not call.name.startswith(UNDEFINED) and not values_agree(call, k, got, want):
            return f"result {k}:\n{got}\nis not\n{want}"
    return None


@pytest.mark.parametrize("symbolic", [False, True], ids=["constant", "symbolic"])
def test_entries_agree_with_pytorch(tool: str, calls: dict[str, list[Call]], symbolic: bool) -> None:
    every = [call for name in sorted(calls) for call in calls[name]]
    complaints, compared = [], defaultdict(int)
    for call, imported in zip(every, import_and_run(tool, every, symbolic), strict=True):
        message = imported.report.get("message", "")
        if imported.report.get("error") == "unsupported" or imported.report.get("islands"):
            assert "no native code" in message, message
            continue
        compared[call.name] += 1
        if (complaint := _complaint(call, imported)) is not None:
            complaints.append(f"{call}\n    {complaint}")
    assert not complaints, f"{len(complaints)} of {len(every)} calls differ:\n" + "\n".join(complaints[:20])
    if not symbolic:
        assert len(compared) > 300, f"only {len(compared)} operators were compared"


def test_every_entry_has_a_sample(native: set[str], calls: dict[str, list[Call]]) -> None:
    assert sorted(native - set(calls) - NO_OPERATOR) == []


def test_every_entry_names_an_operator_of_pytorch(native: set[str]) -> None:
    import tilewright.dynamo.sdpa  # noqa: F401  (registers tilewright::sdpa)

    for entry in native - NO_OPERATOR:
        namespace, name, overload = entry.split(".")
        assert hasattr(getattr(getattr(torch.ops, namespace), name), overload), entry
