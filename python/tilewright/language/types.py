"""What a kernel's annotations are made of: dtypes, sizes, In, Out, InOut, scalars and compile-time constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import sizes
from .sizes import Size


@dataclass(frozen=True, slots=True)
class DType:
    """An element type. `name` is that of `Support/DType.h`; `kind` is "float", "int", "uint" or "bool". `parameter`: the dtype parameter or
    constant that it stands for in this specialisation, by which the kernel's author knows it."""

    name: str
    bytes: int
    kind: str
    parameter: str = field(default="", compare=False)

    def __repr__(self) -> str:
        return self.parameter or (f"tw.{self.name}" if self.kind != "bool" else "tw.bool_")

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"


f64 = DType("f64", 8, "float")
f32 = DType("f32", 4, "float")
bf16 = DType("bf16", 2, "float")
f16 = DType("f16", 2, "float")
i64 = DType("i64", 8, "int")
i32 = DType("i32", 4, "int")
i16 = DType("i16", 2, "int")
i8 = DType("i8", 1, "int")
u64 = DType("u64", 8, "uint")
u32 = DType("u32", 4, "uint")
u16 = DType("u16", 2, "uint")
u8 = DType("u8", 1, "uint")
bool_ = DType("bool", 1, "bool")

DTYPES: dict[str, DType] = {t.name: t for t in (f64, f32, bf16, f16, i64, i32, i16, i8, u64, u32, u16, u8, bool_)}


#: What PyTorch and NumPy call them.
OTHER_NAMES = {
    "float64": "f64", "float32": "f32", "bfloat16": "bf16", "float16": "f16", "bool": "bool",
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


def is_torch_dtype(value: Any) -> bool:
    """Without importing torch."""
    return str(type(value)) == "<class 'torch.dtype'>"


def from_torch(dtype: Any) -> DType | None:
    """A dtype of PyTorch's as ours; None if kernels have none like it."""
    return DTYPES.get(OTHER_NAMES.get(str(dtype).removeprefix("torch."), ""))


def spelling(value: Any) -> str:
    """How one writes the dtype that a text, a dtype of NumPy's or a Python type means; "" if it means none."""
    name = value if isinstance(value, str) else getattr(value, "__name__", None) or getattr(value, "name", None) or ""
    name = {"float": "f32", "int": "i64", "bool_": "bool"}.get(name, name) if isinstance(name, str) else ""
    dtype = DTYPES.get(OTHER_NAMES.get(name, name))
    return repr(dtype) if dtype is not None else ""


@dataclass(frozen=True, slots=True)
class DTypeParameter:
    """A dtype that a call's tensors decide."""

    name: str

    def __repr__(self) -> str:
        return self.name


def symbols(names: str) -> Any:
    """Sizes that a call's tensors decide: one `Size` for one name, a tuple for several ("M N K")."""
    made = tuple(sizes.symbol(name) for name in _names(names))
    return made[0] if len(made) == 1 else made


def dtypes(names: str) -> Any:
    """dtypes that a call's tensors decide: one `DTypeParameter` for one name, a tuple for several ("T U")."""
    made = tuple(DTypeParameter(name) for name in _names(names))
    return made[0] if len(made) == 1 else made


def _names(text: str) -> list[str]:
    names = text.replace(",", " ").split()
    if not names or not all(name.isidentifier() for name in names):
        raise ValueError(f"names separated by spaces or commas are expected, not {text!r}")
    return names


@dataclass(frozen=True, slots=True)
class TensorType:
    """`In[dtype, *sizes]` and its kin. `kind` is "in", "out" or "inout"."""

    kind: str
    dtype: DType | DTypeParameter
    sizes: tuple[Size, ...]

    def __repr__(self) -> str:
        name = {"in": "In", "out": "Out", "inout": "InOut"}[self.kind]
        return f"{name}[{', '.join([repr(self.dtype), *map(str, self.sizes)])}]"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A run-time number. `weak` ones act like Python numbers: they take the dtype of the tile they meet."""

    dtype: DType | DTypeParameter
    weak: bool = False


def _dtype(dtype: Any, expected: str) -> DType | DTypeParameter:
    """A dtype of an annotation. TypeError says what is `expected` and what to write instead."""
    if isinstance(dtype, (DType, DTypeParameter)):
        return dtype
    if is_torch_dtype(dtype):
        found = from_torch(dtype)
        if found is None:
            raise TypeError(f"{dtype} is no dtype of kernels, which are {', '.join(map(repr, DTYPES.values()))}")
        return found
    instead = spelling(dtype)
    raise TypeError(f"{expected}, not {dtype!r}" + (f"; write instead: {instead}" if instead else ""))


def _tensor_type(kind: str, items: Any) -> TensorType:
    items = items if isinstance(items, tuple) else (items,)
    dtype, *dims = items or (None,)
    dtype = _dtype(dtype, "the first entry is a dtype (tw.f32) or a dtype parameter")
    made = []
    for dim in dims:
        if isinstance(dim, bool) or not isinstance(dim, (int, Size)):
            raise TypeError(f"a size is an int or an expression of symbols, not {dim!r}")
        made.append(sizes.size(dim))
        constant = made[-1].constant
        if constant is not None and constant < 0:
            raise TypeError(f"a size is not negative: {constant}")
    return TensorType(kind, dtype, tuple(made))


class In:
    """`In[dtype, *sizes]`: a tensor that the kernel reads."""

    def __class_getitem__(cls, items: Any) -> TensorType:
        return _tensor_type("in", items)


class Out:
    """`Out[dtype, *sizes]`: a tensor that the kernel writes, every element of it, and does not read."""

    def __class_getitem__(cls, items: Any) -> TensorType:
        return _tensor_type("out", items)


class InOut:
    """`InOut[dtype, *sizes]`: a tensor that the kernel reads and writes in place."""

    def __class_getitem__(cls, items: Any) -> TensorType:
        return _tensor_type("inout", items)


class Scalar:
    """`Scalar[dtype]`: a run-time number of that dtype."""

    def __class_getitem__(cls, dtype: Any) -> ScalarType:
        return ScalarType(_dtype(dtype, "Scalar takes one dtype (tw.f32)"))


class const:
    """Annotation of a compile-time constant: any hashable value; a kernel is compiled for each value it is called with."""
