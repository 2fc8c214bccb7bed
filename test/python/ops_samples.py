"""Samples of ATen calls: OpInfo's for breadth, and direct calls for operators that no OpInfo reaches in eager mode."""

from __future__ import annotations

import itertools
import random
import warnings
from collections import defaultdict
from collections.abc import Callable

import torch
from ops_harness import Call, record

aten = torch.ops.aten
# OpInfos that call entries of another name.
OTHER_OPINFOS = ("nn.functional.pad", "nn.functional.interpolate", "__getitem__", "nn.functional.prelu")
# Beyond this many elements an interpreted call takes too long.
MAX_ELEMENTS = 20000


class Samples:
    """Distinct calls by operator, at most `limit` for an operator and dtype."""

    def __init__(self, native: set[str], limit: int) -> None:
        self.native, self.limit = native, limit
        self.calls: dict[str, list[Call]] = defaultdict(list)
        self._seen: set[str] = set()
        self._count: dict[tuple[str, torch.dtype | None], int] = defaultdict(int)

    def add(self, fn: Callable[[], object], dtype: torch.dtype | None = None, composed: bool = True) -> None:
        def wanted(name: str) -> bool:
            return name in self.native and self._count[name, dtype] < self.limit

        for call in record(fn, wanted, composed):
            key, elements = str(call), sum(r.numel() for r in call.results if r is not None)
            if key in self._seen or elements > MAX_ELEMENTS or self._count[call.name, dtype] >= self.limit:
                continue
            self._seen.add(key)
            self._count[call.name, dtype] += 1
            self.calls[call.name].append(call)


def add_opinfo(samples: Samples, counts: dict[torch.dtype, int]) -> None:
    """OpInfo's samples of the operators that have an entry of their name: `counts` of them for each dtype."""
    from torch.testing._internal.common_methods_invocations import op_db

    torch.manual_seed(0)
    rng = random.Random(0)
    names = {name.split(".")[1] for name in samples.native}
    for op in op_db:
        if op.name not in OTHER_OPINFOS and op.aten_name not in names and op.name.split(".")[-1] not in names:
            continue
        for dtype, count in counts.items():
            if dtype not in op.supported_dtypes("cpu"):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # Not sample_inputs: it looks through the whole call stack at every sample.
                inputs = list(itertools.islice(op.sample_inputs_func(op, "cpu", dtype, requires_grad=False), 24))
                for sample in rng.sample(inputs, min(count, len(inputs))):
                    samples.add(lambda s=sample, f=op.op: f(s.input, *s.args, **s.kwargs), dtype)


def _r(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


def _integer_calls() -> list[Callable[[], object]]:
    i, j = torch.randint(-40, 40, (3, 5)), torch.randint(0, 6, (3, 5))
    calls = [
        lambda f=getattr(aten, n).Tensor: f(i, j) for n in ("__and__", "__or__", "__xor__", "__lshift__", "__rshift__")
    ]
    calls += [
        lambda f=getattr(aten, n).Scalar: f(i, 3) for n in ("__and__", "__or__", "__xor__", "__lshift__", "__rshift__")
    ]
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        calls += [lambda f=getattr(aten, name): f.Scalar(i, 6), lambda f=getattr(aten, name): f.Scalar_Tensor(6, i)]
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        calls += [
            lambda f=getattr(aten, name): f.Tensor_Scalar(i, 2),
            lambda f=getattr(aten, name): f.Scalar_Tensor(-9, j),
        ]
        calls += [lambda f=getattr(aten, name): f.Tensor(i, torch.tensor([-1, 0, 63, 64, 100]))]
    return [
        *calls,
        lambda: aten.floor_divide.Scalar(i, -7),
        lambda: aten.fmod.Scalar(i, 7),
        lambda: aten.remainder.Scalar_Tensor(-9, j + 1),
        lambda: aten.div.Scalar_mode(i, -7, rounding_mode="floor"),
        lambda: aten.one_hot.default(j, 6),
        lambda: aten.repeat_interleave.self_int(i, 3, 1),
    ]


def _scalar_calls(dtype: torch.dtype) -> list[Callable[[], object]]:
    x, y = _r(4, 6, dtype=dtype), _r(6, 4, dtype=dtype).t()
    c = x > 0
    compared = [lambda f=getattr(aten, n).Scalar: f(x.round(), 1) for n in ("eq", "ne", "lt", "le", "gt", "ge")]
    return [
        *compared,
        lambda: aten.alias.default(x),
        lambda: aten.copysign.Scalar(x, -0.0),
        lambda: aten.clamp.default(x, -0.5, 0.3),
        lambda: aten.clamp.default(x, None, 0.3),
        lambda: aten.clamp_min.default(x, -0.1),
        lambda: aten.sub.Scalar(x, 0.3, 2),
        lambda: aten.rsub.Scalar(x, 0.3),
        lambda: aten.remainder.Scalar(x, -0.7),
        lambda: aten._prelu_kernel.default(x, x[0]),
        lambda: aten.fmod.Scalar(x, 0.7),
        lambda: aten.div.Scalar_mode(x, -0.3, rounding_mode="floor"),
        lambda: aten.true_divide.Tensor(x, y),
        lambda: aten.true_divide.Scalar(x, 3),
        lambda: aten.div.Scalar(x, 3),
        lambda: aten.multiply.Tensor(x, y),
        lambda: aten.max.other(x, y),
        lambda: aten.min.other(x, y),
        lambda: aten.clamp_max.default(x, 0.3),
        lambda: aten.pow.Scalar(1.7, x),
        lambda: aten.square.default(x),
        lambda: aten.xlogy.Scalar_Self(2.0, x.abs()),
        lambda: aten.xlogy.Scalar_Other(x, 2.0),
        lambda: aten.where.ScalarSelf(c, 2, y),
        lambda: aten.where.ScalarOther(c, y, 2.5),
        lambda: aten.where.Scalar(c, 1, 2),
        lambda: aten.isclose.default(x, x + 1e-06),
        lambda: aten.isfinite.default(x / 0),
        lambda: aten.fix.default(x * 5),
        lambda: aten.fill.Tensor(y, torch.tensor(2)),
        lambda: aten.zero.default(y),
        lambda: aten.copy.default(y, _r(6, dtype=dtype)),
        lambda: aten.lift_fresh_copy.default(x),
        lambda: aten.contiguous.default(y),
        lambda: aten.view.dtype(x, torch.int32 if dtype == torch.float32 else torch.int16),
        lambda: aten.to.dtype(x, torch.float64),
        lambda: torch.ops.prims.convert_element_type.default(y, torch.int32),
        lambda: aten.special_erf.default(x),
        lambda: aten.special_erfc.default(x),
        lambda: aten.relu6.default(x * 5),
        lambda: aten.log_sigmoid.default(x * 5),
        lambda: aten.l1_loss.default(x, y),
        *(
            lambda f=getattr(aten, n).default: f(x)
            for n in ("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh")
        ),
        lambda: aten.arctan2.default(x, y),
    ]


def _gradient_calls(dtype: torch.dtype) -> list[Callable[[], object]]:
    g, x = _r(5, 8, dtype=dtype), _r(5, 8, dtype=dtype) * 4
    y, p = torch.sigmoid(x), torch.rand(5, 8).to(dtype)
    soft, logs, t = torch.softmax(x, 1), torch.log_softmax(x, 1), torch.tensor([0, 7, -100, 3, 1])
    w, b = _r(8, dtype=dtype), _r(8, dtype=dtype)
    _out, mean, rstd = aten.native_layer_norm.default(x, [8], w, b, 1e-5)
    calls = [
        lambda f=getattr(aten, n + "_backward").default: f(g, x)
        for n in ("gelu", "silu", "mish", "hardsigmoid", "hardswish")
    ]
    for reduction in (0, 1, 2):
        grad = g if reduction == 0 else _r(dtype=dtype)
        rows = _r(5, dtype=dtype) if reduction == 0 else grad
        calls += [
            lambda r=reduction, d=grad: aten.mse_loss_backward.default(d, x, g, r),
            lambda r=reduction, d=grad: aten.smooth_l1_loss_backward.default(d, x, g, r, 0.7),
            lambda r=reduction, d=grad: aten.binary_cross_entropy_backward.default(d, p, y, None, r),
        ]
        for weight in (None, w.abs()):
            _loss, total = aten.nll_loss_forward.default(logs, t, weight, reduction, -100)
            calls += [
                lambda r=reduction, v=weight: aten.nll_loss_forward.default(logs, t, v, r, -100),
                lambda r=reduction, v=weight, d=rows, s=total: aten.nll_loss_backward.default(
                    d, logs, t, v, r, -100, s
                ),
            ]
    return [
        *calls,
        lambda: aten.gelu_backward.default(g, x, approximate="tanh"),
        lambda: aten.tanh_backward.default(g, y),
        lambda: aten.sigmoid_backward.default(g, y),
        lambda: aten.threshold_backward.default(g, x, 0),
        lambda: aten.hardtanh_backward.default(g, x, -1, 2),
        lambda: aten.leaky_relu_backward.default(g, x, 0.2, False),
        lambda: aten.softplus_backward.default(g, x, 1.5, 3),
        lambda: aten.elu_backward.default(g, 1.2, 1.1, 0.9, False, x),
        lambda: aten.elu_backward.default(g, 1.2, 1.0, 1.0, True, x),
        lambda: aten.log_sigmoid_backward.default(g, x, aten.log_sigmoid_forward.default(x)[1]),
        lambda: aten._softmax_backward_data.default(g, soft, 1, dtype),
        lambda: aten._log_softmax_backward_data.default(g, logs, -1, dtype),
        lambda: aten.native_layer_norm_backward.default(g, x, [8], mean, rstd, w, b, [True, True, True]),
        lambda: aten.native_layer_norm_backward.default(g, x, [8], mean, rstd, None, None, [True, False, False]),
        lambda: aten.slice_backward.default(g, [5, 20], 1, 2, 18, 2),
        lambda: aten.select_backward.default(g, [5, 3, 8], 1, -1),
    ]


def _shape_calls(dtype: torch.dtype) -> list[Callable[[], object]]:
    x, q = _r(4, 6, 5, dtype=dtype), _r(2, 4, 5, 8, dtype=dtype)
    k, m = _r(2, 2, 7, 8, dtype=dtype), torch.rand(5, 7) > 0.3
    w, b = _r(7, 5, dtype=dtype), _r(7, dtype=dtype)
    channels = [_r(6, dtype=dtype), _r(6, dtype=dtype), _r(6, dtype=dtype), _r(6, dtype=dtype).abs()]
    image = _r(2, 3, 5, 6, dtype=dtype)
    sdpa = aten.scaled_dot_product_attention.default
    return [
        lambda: aten.arange.default(7, dtype=torch.float32),
        lambda: aten.arange.start(3, 11),
        lambda: aten.index.Tensor(x, [None, torch.tensor([0, -1]), torch.tensor([[2], [4]])]),
        lambda: aten.index.Tensor(x, [torch.tensor([3, 1]), None, torch.tensor([0, 2])]),
        lambda: aten.reflection_pad1d.default(x, [2, 3]),
        lambda: aten.reflection_pad2d.default(image, [1, 2, 3, 4]),
        lambda: aten.reflection_pad3d.default(image[None], [1, 0, 3, 4, 2, 1]),
        lambda: aten.replication_pad1d.default(x, [2, 7]),
        lambda: aten.replication_pad2d.default(image, [1, 2, 3, 4]),
        lambda: aten.replication_pad3d.default(image[None], [1, 0, 3, 4, 2, 1]),
        lambda: aten.upsample_nearest1d.default(x, [11]),
        lambda: aten.upsample_nearest2d.default(image, [10, 9], 2.0, 1.5),
        lambda: aten.upsample_nearest3d.default(image[None], [4, 7, 6]),
        lambda: aten.chunk.default(x, 3, 1),
        lambda: aten.unflatten.int(x, 1, [2, -1]),
        lambda: aten.flatten.using_ints(x.transpose(0, 1), 1, 2),
        lambda: aten.reshape.default(x.transpose(0, 1), [-1, 3]),
        lambda: aten._reshape_alias.default(x, [24, 5], [5, 1]),
        lambda: aten.narrow.default(x, 1, 2, 3),
        lambda: aten.movedim.int(x, 0, 2),
        lambda: aten.movedim.intlist(x, [2, 0], [0, 1]),
        lambda: aten.lift.default(x),
        lambda: aten.squeeze.default(x[None, :, None]),
        lambda: aten._unsafe_index.Tensor(x, [None, torch.tensor([[0, 5], [-1, 2]])]),
        lambda: torch.ops.prims.iota.default(7, start=3, step=2, dtype=torch.int64, device="cpu", requires_grad=False),
        lambda: aten.outer.default(x[0, 0], x[:, 0, 0]),
        lambda: aten.ger.default(x[0, 0], x[:, 0, 0]),
        lambda: aten.linear.default(x, w, b),
        lambda: aten.linear.default(x[0, 0], w),
        lambda: aten.matmul.default(x, w.t()),
        lambda: aten.matmul.default(x, x.transpose(1, 2)),
        lambda: aten.matmul.default(w, x[0, 0]),
        lambda: aten.matmul.default(x[0, 0], w.t()),
        lambda: aten.matmul.default(x[0, 0], x[0, 1]),
        lambda: aten.softmax.int(x, 1),
        lambda: aten.log_softmax.int(x.transpose(0, 2), 1, torch.float32),
        lambda: aten.native_dropout.default(x, 0.0, True),
        lambda: aten.native_dropout.default(x, 0.4, False),
        lambda: aten._native_batch_norm_legit_no_training.default(x, *channels, 0.1, 1e-5),
        lambda: aten._fused_rms_norm.default(x, [6, 5], _r(6, 5, dtype=dtype), 1e-5),
        lambda: aten.std.default(x),
        lambda: aten.std.dim(x, [0, 2], unbiased=False),
        lambda: aten.var.default(x, unbiased=False),
        lambda: aten.var.dim(x, [1], keepdim=True),
        lambda: aten.var_mean.default(x),
        lambda: aten.var_mean.dim(x, [0]),
        lambda: sdpa(q, q, q, is_causal=True),
        lambda: sdpa(q, k, k, m, enable_gqa=True),
        lambda: sdpa(q[0], q[0], q[0], scale=0.3),
        lambda: sdpa(q, q, q, _r(2, 1, 5, 5, dtype=dtype)),
        lambda: torch.ops.tilewright.sdpa.default(q, q, q, is_causal=True),
    ]


def add_direct(samples: Samples) -> None:
    import tilewright.dynamo.sdpa  # noqa: F401  (registers tilewright::sdpa)

    torch.manual_seed(1)
    for dtype in (torch.float32, torch.bfloat16):
        for calls in (_scalar_calls, _gradient_calls, _shape_calls):
            for call in calls(dtype):
                samples.add(call, composed=False)
    for call in _integer_calls():
        samples.add(call, composed=False)


def collect(native: set[str], limit: int, counts: dict[torch.dtype, int]) -> dict[str, list[Call]]:
    """Calls of the operators of `native`, at most `limit` of each and dtype."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on a busy machine the threads of tiny operators wait for one another
    try:
        samples = Samples(native, limit)
        add_direct(samples)
        add_opinfo(samples, counts)
    finally:
        torch.set_num_threads(threads)
    return samples.calls
