"""Kernels as PyTorch's operators: schemas, opcheck, torch.compile, gradients, vmap, export."""

from __future__ import annotations

import inspect

import pytest
import torch
from kernels_for_tests import (
    accumulate,
    add,
    decayed,
    first_columns,
    moments,
    ones,
    running_maximum,
    scaled,
    scaled_backward,
    scaled_softmax,
)
from torch.library import opcheck

import tilewright as tw
from tilewright.language import operators

pytestmark = pytest.mark.filterwarnings("ignore:.*has no native kernel on npu", "ignore:.*is no native operator")

M, N = tw.symbols("M N")
TESTS = {
    "cpu": ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"),
    "npu": (
        "test_schema",
        "test_faketensor",
        "test_aot_dispatch_dynamic",
    ),  # test_autograd_registration knows cpu, cuda, .. alone
}


def steps(function, *args):
    """Runs a compiled function and returns its result and the steps of its programs."""
    torch._dynamo.reset()
    tw.reset_compile_stats()
    result = torch.compile(function, backend="tilewright", fullgraph=True)(*args)
    return result, [step for g in tw.compile_stats().graphs for step in g.report["steps"]]


# ----------------------------------------------------------------------------------------------------------------------
# Operators


def test_the_schema_is_the_signature():
    assert (
        str(scaled_softmax.op.default._schema)
        == "tilewright_kernels::scaled_softmax(Tensor X, float scale=1.) -> Tensor"
    )
    assert (
        str(scaled_softmax.op.out._schema)
        == "tilewright_kernels::scaled_softmax.out(Tensor X, float scale, *, Tensor(w0!) out) -> Tensor(w0!)"
    )
    assert str(moments.op.default._schema) == "tilewright_kernels::moments(Tensor X) -> (Tensor, Tensor)"
    assert str(accumulate.op.default._schema) == (
        'tilewright_kernels::accumulate(Tensor A, Tensor(w0!) B, *, bool twice=False, str shift="None") -> Tensor'
    )
    assert str(accumulate.op.functional._schema) == (
        'tilewright_kernels::accumulate.functional(Tensor A, Tensor B, *, bool twice=False, str shift="None") -> (Tensor, Tensor)'
    )
    assert ones.op.overloads() == ["out"]


def test_operators_are_registered_when_they_are_asked_for():
    @tw.kernel
    def doubled_lazily(X: tw.In[tw.f32, N], Y: tw.Out[tw.f32, N]):
        for i in tw.parallel(N):
            Y[i] = X[i] * 2.0

    assert "doubled_lazily" not in operators.registered
    assert torch.ops.tilewright_kernels.doubled_lazily(torch.ones(2)).tolist() == [2.0, 2.0]
    assert "doubled_lazily" in operators.registered
    with pytest.raises(AttributeError):
        torch.ops.tilewright_kernels.no_such_kernel


def test_kernels_of_one_name_are_two_operators():
    def make(factor):
        @tw.kernel
        def times(X: tw.In[tw.f32, N], Y: tw.Out[tw.f32, N]):
            for i in tw.parallel(N):
                Y[i] = X[i] * factor

        return times

    two, three = make(2.0), make(3.0)
    x = torch.ones(1)
    assert [two.op(x).item(), three.op(x).item()] == [2.0, 3.0]
    assert two.op is not three.op


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_opcheck(device):
    def check(op, *args, **kwargs):
        results = opcheck(op, args, kwargs, test_utils=TESTS[device])
        assert set(results.values()) == {"SUCCESS"}

    x = torch.arange(12.0).reshape(3, 4).to(device)
    a, b = torch.arange(4.0).to(device), torch.ones(4).to(device)
    check(scaled_softmax.op.default, x)
    check(scaled_softmax.op.default, x.clone().requires_grad_(), 2.0)
    check(scaled_softmax.op.default, x.t(), scale=0.5)
    check(scaled_softmax.op.out, x, 1.0, out=torch.empty_like(x))
    check(moments.op.default, x)
    check(moments.op.out, x, Mean=x.new_empty(3), Square=x.new_empty(3))
    check(accumulate.op.default, a, b)
    check(accumulate.op.functional, a, b, twice=True, shift="(1.0,)")
    check(ones.op.out, out=a.clone())


def test_autograd_registration_on_npu_sees_through_the_operator():
    """What opcheck's test of that name asks, which PyTorch does not run for other devices than its own."""
    x = torch.randn(3, 4).to("npu").requires_grad_()
    y = scaled_softmax.op.default(x)
    assert y.requires_grad and y.grad_fn is not None
    with torch.no_grad():
        assert not scaled_softmax.op.default(x).requires_grad


def test_operators_compute_what_calls_do():
    a, b = torch.randn(4), torch.randn(4)
    for keywords, text in (({"twice": True}, {"twice": True}), ({"shift": (2.0, 1)}, {"shift": "(2.0, 1)"})):
        b1, b2 = b.clone(), b.clone()
        assert torch.equal(accumulate(a, b1, **keywords), accumulate.op(a, b2, **text))
        assert torch.equal(b1, b2) and not torch.equal(b1, b)
        c, b3 = accumulate.op.functional(a, b, **text)
        assert torch.equal(c, accumulate(a, b.clone(), **keywords)) and torch.equal(b3, b1)
    out = torch.empty(3, 4)
    x = torch.randn(3, 4)
    assert scaled_softmax.op.out(x, 1.0, out=out) is out
    assert torch.equal(out, scaled_softmax(x))


def test_operators_refuse_as_calls_do():
    x = torch.randn(3, 4)
    with pytest.raises(tw.KernelError, match="dimension 0 of B is 3"):
        add(torch.randn(4), torch.randn(3))
    with pytest.raises(tw.KernelError, match="X of scaled_softmax has 2 dimensions"):
        scaled_softmax.op(x[0])
    with pytest.raises((tw.KernelError, ValueError), match="B"):
        add.op(torch.randn(4), torch.randn(3))
    with pytest.raises(tw.KernelError, match="the output C shares memory with A"):
        add.op.out(x[0], x[1], out=x[0])
    with pytest.raises(RuntimeError, match="dimension 0 of B is 3, and must be N"):
        with torch._subclasses.FakeTensorMode():
            add.op(torch.randn(4), torch.randn(3))
    with pytest.raises(Exception, match=r"shift is <function .*cannot be given"):  # in one of Dynamo's
        torch.compile(lambda a, b: accumulate(a, b, shift=operators.claim), backend="eager", fullgraph=True)(x[0], x[1])


# ----------------------------------------------------------------------------------------------------------------------
# torch.compile


def model(x, a, b):
    y = scaled_softmax(x * 2, scale=0.5)
    c = accumulate(a, b, shift=(2.0,))
    z = torch.empty_like(x)
    scaled_softmax(x, z)
    return y.relu() + z, c, b * 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", "tilewright"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_calls_are_traced_by_every_back_end(backend, dynamic):
    x, a, b = torch.randn(4, 6), torch.randn(8), torch.randn(8)
    b1, b2 = b.clone(), b.clone()
    expected = model(x, a, b1)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=dynamic)
    for result, want in zip(compiled(x, a, b2), expected, strict=True):
        torch.testing.assert_close(result, want)
    assert torch.equal(b1, b2)
    torch.testing.assert_close(compiled(x[:3], a[:5], b[:5].clone())[0], model(x[:3], a[:5], b[:5].clone())[0])


def test_operators_that_write_are_compiled():
    def f(x, a, b):
        c = torch.ops.tilewright_kernels.accumulate(a, b)
        out = torch.empty_like(x)
        y = torch.ops.tilewright_kernels.scaled_softmax.out(x, 1.0, out=out)
        return c * 2, y + out, b + 1

    x, a, b = torch.randn(4, 6), torch.randn(8), torch.randn(8)
    accumulate.op, scaled_softmax.op
    b1, b2 = b.clone(), b.clone()
    expected = f(x, a, b1)
    result, _ = steps(f, x, a, b2)
    for r, e in zip(result, expected, strict=True):
        torch.testing.assert_close(r, e)
    assert torch.equal(b1, b2)


def test_producers_and_consumers_fuse_into_the_kernel():
    x, b = torch.randn(64, 33), torch.randn(33)
    result, found = steps(lambda x, b: torch.relu(scaled_softmax(x * 2.0) + b), x, b)
    torch.testing.assert_close(result, torch.relu(torch.softmax(x * 2, 1) + b))
    assert len(found) == 1, found
    assert "scaled_softmax" not in found[0].get("op", "")  # not an island


def test_a_structured_kernel_is_a_step_of_the_graph():
    x = torch.rand(5, 40)
    result, found = steps(lambda x: torch.relu(running_maximum(x * 2.0) - 1), x)
    torch.testing.assert_close(result, torch.relu(running_maximum(x * 2.0) - 1))
    assert len(found) == 3 and not any("island" in step for step in found)
    assert "for j" in found[1]["structure"]


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_structured_kernels_take_views_scalars_constants_and_what_they_update(device, dynamic):
    def f(x, state, rows):
        y = decayed(x[:, 1:].t() + 1, state, rows=rows, decay=0.25, negate=True)
        z = decayed(x[2:, ::2], state[: x.shape[0] - 2], rows=x.shape[0])
        return y * 2, z.t().contiguous()

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="tilewright", fullgraph=True, dynamic=dynamic)
    for shape, rows in (((9, 8), 3), ((6, 12), 20), ((6, 12), 0)):
        x = torch.randn(shape).to(device)
        state = torch.randn(shape[1] - 1).to(device)
        expected_state, found_state = state.clone(), state.clone()
        expected, found = f(x, expected_state, rows), compiled(x, found_state, rows)
        for r, e in zip((*found, found_state), (*expected, expected_state), strict=True):
            torch.testing.assert_close(r.cpu(), e.cpu())
    assert not any(g.islands for g in tw.compile_stats().graphs[-1:])


def test_structured_kernels_of_different_layouts_share_nothing_they_must_not():
    x, y = torch.rand(6, 8), torch.rand(8, 6)
    result, _ = steps(lambda x, y: running_maximum(x * 1.0) + running_maximum(y.t()), x, y)
    torch.testing.assert_close(result, running_maximum(x) + running_maximum(y.t()))


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_sizes_and_dtypes_that_only_outputs_have(device):
    assert str(first_columns.op.functional._schema) == (
        "tilewright_kernels::first_columns.functional(Tensor X, *, SymInt size_K, ScalarType dtype_U) -> Tensor"
    )

    def f(x, k):
        y = x.new_empty((x.shape[0], k), dtype=torch.float64)
        first_columns(x + 1, y)
        return y * 2

    x = torch.randn(6, 9).to(device)
    expected = (x.cpu()[:, :4] + 1).double() * 4
    torch.testing.assert_close(f(x, 4).cpu(), expected)
    for backend in ("aot_eager", "tilewright"):
        torch._dynamo.reset()
        compiled = torch.compile(f, backend=backend, fullgraph=True)
        for k in (4, 7, 0):
            torch.testing.assert_close(compiled(x, k).cpu(), f(x, k).cpu())
    made = first_columns.op.functional(x, size_K=4, dtype_U=torch.float64)
    torch.testing.assert_close(made.cpu(), (x.cpu()[:, :4] * 2).double())
    results = opcheck(
        first_columns.op.functional, (x,), {"size_K": 4, "dtype_U": torch.float64}, test_utils=TESTS[device]
    )
    assert set(results.values()) == {"SUCCESS"}
    w = torch.randn(6, 9).to(device).requires_grad_()
    y = torch.empty(6, 2, device=device)
    first_columns(w, y)
    y.sum().backward()
    assert torch.equal(w.grad.cpu(), torch.cat([torch.full((6, 2), 2.0), torch.zeros(6, 7)], 1))
    with pytest.raises(Exception, match="Y is not given, and no argument says what its size"):
        torch._dynamo.reset()
        torch.compile(lambda x: first_columns(x), backend="eager", fullgraph=True)(x)


def test_forms_with_operators_that_have_no_native_code_stay_whole():
    @tw.kernel
    def spread(X: tw.In[tw.f32, N], I: tw.In[tw.i64, N], Y: tw.InOut[tw.f32, M]):
        for i in tw.parallel(N):
            tw.atomic_add(Y, I[i], X[i])

    x, i, y = torch.ones(5), torch.tensor([0, 1, 1, 2, 2]), torch.zeros(4)
    expected = y.index_add(0, i, 2 * x)

    def f(x, i, y):
        spread(x * 2, i, y)
        return y + 1

    result, found = steps(f, x, i, y)
    assert torch.equal(y, expected) and torch.equal(result, expected + 1)
    assert not any("island" in step for step in found)


def test_sizes_that_do_not_agree_are_refused_inside_of_graphs():
    @tw.kernel
    def prefix(X: tw.In[tw.f32, N], Most: tw.In[tw.f32, M], Y: tw.Out[tw.f32, M]):
        for i in tw.parallel(M, tile=1):
            total = tw.zeros([], tw.f32)
            for j in tw.range(N, tile=1):
                total = tw.where(X[j] < Most[i], total * 0.5 + X[j], total)
            Y[i] = total

    compiled = torch.compile(lambda x, y: prefix(x, y) + 1, backend="tilewright", fullgraph=True)
    x, y = torch.rand(5), torch.rand(3)
    torch.testing.assert_close(compiled(x, y), prefix(x, y) + 1)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="dimension 0 of B is 3, and must be N"):
        torch.compile(lambda x, y: add(x, y), backend="tilewright", fullgraph=True)(x, y)


def test_compiled_training_has_the_gradients_of_eager():
    x, w = torch.randn(5, 6, requires_grad=True), torch.randn(6, requires_grad=True)

    def loss(x, w):
        return (scaled_softmax(x * w) * torch.arange(6.0)).sum()

    expected = torch.autograd.grad((torch.softmax(x * w, 1) * torch.arange(6.0)).sum(), (x, w))
    for backend in ("aot_eager", "tilewright"):
        torch._dynamo.reset()
        found = torch.autograd.grad(torch.compile(loss, backend=backend, fullgraph=True)(x, w), (x, w))
        for f, e in zip(found, expected, strict=True):
            torch.testing.assert_close(f, e)


def test_export_and_functional_modules():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(6))
            self.kernel = scaled_softmax

        def forward(self, x):
            return self.kernel(x * self.w)

    m, x = Module(), torch.randn(4, 6)
    program = torch.export.export(m, (x,), dynamic_shapes={"x": {0: torch.export.Dim("rows")}})
    assert "tilewright_kernels.scaled_softmax" in program.graph_module.code
    longer = torch.randn(9, 6)
    torch.testing.assert_close(program.module()(longer), m(longer))
    torch.testing.assert_close(torch.func.functional_call(m, {"w": torch.zeros(6)}, (x,)), torch.full((4, 6), 1 / 6))


def test_autocast_passes_arguments_as_they_are():
    x = torch.randn(3, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert scaled_softmax(x).dtype == torch.float32
        assert scaled_softmax(torch.mm(x, x.t())).dtype == torch.bfloat16


# ----------------------------------------------------------------------------------------------------------------------
# Gradients and vmap


def test_gradients_are_derived():
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: scaled_softmax(x, scale=0.7), (x,))
    assert torch.autograd.gradgradcheck(lambda x: scaled_softmax(x, scale=0.7), (x,))
    y = torch.empty_like(x)
    scaled_softmax(x, y)  # into memory that is given: a copy, which autograd sees
    y.sum().backward()
    assert x.grad is not None


def test_gradients_on_npu():
    x = torch.randn(3, 4)
    on_cpu, on_npu = x.clone().requires_grad_(), x.to("npu").requires_grad_()
    weight = torch.arange(4.0)
    (torch.softmax(on_cpu, 1) * weight).sum().backward()
    (scaled_softmax(on_npu) * weight.to("npu")).sum().backward()
    torch.testing.assert_close(on_npu.grad.cpu(), on_cpu.grad)


def test_gradients_of_several_outputs_some_of_which_are_not_used():
    x = torch.randn(3, 5, requires_grad=True)
    mean, square = moments(x)
    (g,) = torch.autograd.grad(square.sum(), x, retain_graph=True)
    torch.testing.assert_close(g, 2 * x / 5)
    (g,) = torch.autograd.grad(mean.sum() + square.sum(), x)
    torch.testing.assert_close(g, 2 * x / 5 + 1 / 5)


def test_a_kernel_without_a_gradient_refuses_with_the_reason():
    x = torch.rand(3, 40, requires_grad=True)
    for call in (running_maximum, running_maximum.op):
        with pytest.raises(
            tw.KernelError,
            match=r"X requires a gradient, and running_maximum has none: (.|\n)*kernels_for_tests.py:\d+: running_maximum has no whole-tensor form: ",
        ):
            call(x)
    with torch.no_grad():
        running_maximum(x)
    running_maximum(x.detach())
    with pytest.raises(tw.KernelError, match="this operator writes into its arguments"):
        scaled_softmax.op.out(x, 1.0, out=torch.empty(3, 40))


@pytest.fixture
def without_gradients():
    yield
    for kernel in (scaled, running_maximum):
        kernel._gradient = None


def reference(x, w):
    return torch.autograd.grad(((x * w) ** 2).sum(), (x, w))


def test_a_kernel_as_gradient(without_gradients):
    assert scaled.backward(scaled_backward) is scaled_backward
    x, w = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    expected = reference(x, w)
    before = scaled_backward.compile_count
    for f, e in zip(torch.autograd.grad((scaled(x, w) ** 2).sum(), (x, w)), expected, strict=True):
        torch.testing.assert_close(f, e)
    assert scaled_backward.compile_count > before or scaled_backward.specialisations
    (only_w,) = torch.autograd.grad(scaled(x.detach(), w).sum(), w)
    torch.testing.assert_close(only_w, x.detach().sum(0))
    found = torch.func.grad(lambda x, w: (scaled(x, w) ** 2).sum(), argnums=(0, 1))(x.detach(), w.detach())
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e)
    for backend in ("aot_eager", "tilewright"):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x, w: (scaled(x, w) ** 2).sum(), backend=backend, fullgraph=True)
        for f, e in zip(torch.autograd.grad(compiled(x, w), (x, w)), expected, strict=True):
            torch.testing.assert_close(f, e)


def test_a_function_as_gradient(without_gradients):
    x, w = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)

    @scaled.backward
    def by_tuple(grad_Y, X, W):
        return grad_Y * W, (grad_Y * X).sum(0)

    for f, e in zip(torch.autograd.grad((scaled(x, w) ** 2).sum(), (x, w)), reference(x, w), strict=True):
        torch.testing.assert_close(f, e)

    scaled.backward(lambda dY, X, Y: {"W": (dY * X).sum(0) + 0 * Y.sum()})
    gx, gw = torch.autograd.grad((scaled(x, w) ** 2).sum(), (x, w), allow_unused=True)
    assert gx is None
    torch.testing.assert_close(gw, reference(x, w)[1])

    scaled.backward(lambda dY: (dY.double(), None))
    with pytest.raises(
        ValueError, match=r"the gradient of X is \[4, 3\] of torch.float64, and X is \[4, 3\] of torch.float32"
    ):
        torch.autograd.grad(scaled(x, w).sum(), x)
    scaled.backward(lambda dY: (dY,))
    with pytest.raises(ValueError, match="returns 1 gradients for 2 tensor inputs"):
        torch.autograd.grad(scaled(x, w).sum(), x)
    with pytest.raises(tw.KernelError, match=r"what of .*means none of its parameters"):
        scaled.backward(lambda what: what)
    with pytest.raises(tw.KernelError, match=r"X of scaled_softmax|Y of scaled_softmax"):
        scaled.backward(scaled_softmax)


def test_a_declared_gradient_serves_what_has_no_whole_tensor_form(without_gradients):
    running_maximum.backward(lambda dY, X: (dY[:, None].expand(X.shape) * 2.0,))
    x = torch.rand(3, 40, requires_grad=True)
    (g,) = torch.autograd.grad(running_maximum(x).sum(), x)
    assert torch.equal(g, torch.full((3, 40), 2.0))


def test_vmap():
    x = torch.randn(3, 4, 5)
    torch.testing.assert_close(torch.vmap(scaled_softmax)(x), torch.softmax(x, 2))
    torch.testing.assert_close(torch.vmap(scaled_softmax, in_dims=2)(x), torch.softmax(x, 1).movedim(2, 0))
    torch.testing.assert_close(torch.vmap(torch.vmap(add, in_dims=(0, None)), in_dims=(0, 0))(x, x[:, 0]), x + x[:, :1])
    mean, square = torch.vmap(moments)(x)
    torch.testing.assert_close(mean, x.mean(2))
    torch.testing.assert_close(square, (x * x).mean(2))


def each(function, *columns):
    """What vmap over the first dimension should give."""
    results = [function(*row) for row in zip(*columns, strict=True)]
    if isinstance(results[0], tuple):
        return tuple(map(torch.stack, zip(*results, strict=True)))
    return torch.stack(results)


def test_vmap_of_structured_kernels_is_one_more_axis():
    x = torch.rand(3, 4, 40)
    torch.testing.assert_close(torch.vmap(running_maximum)(x), each(running_maximum, x))
    torch.testing.assert_close(torch.vmap(running_maximum, in_dims=1)(x), each(running_maximum, x.movedim(1, 0)))
    nested = torch.rand(2, 3, 4, 40)
    expected = torch.stack([each(running_maximum, row) for row in nested])
    torch.testing.assert_close(torch.vmap(torch.vmap(running_maximum))(nested), expected)

    state = torch.rand(3, 4)

    def f(x, state):
        state = state.clone()
        return decayed(x, state, rows=3, decay=0.25, negate=True), state

    for r, e in zip(torch.vmap(f)(x, state), each(f, x, state), strict=True):
        torch.testing.assert_close(r, e)
    shared = torch.vmap(f, in_dims=(0, None))
    with pytest.raises(RuntimeError, match="vmap"):  # what is written in place would have to be several
        shared(x, state[0])
    functional = decayed.op.functional
    for r, e in zip(
        torch.vmap(lambda x, s: functional(x, s, 3), in_dims=(0, None))(x, state[0]),
        each(lambda x: functional(x, state[0], 3), x),
        strict=True,
    ):
        torch.testing.assert_close(r, e)


def test_forward_mode():
    from torch.autograd import forward_ad

    x, t = torch.randn(3, 4), torch.randn(3, 4)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        expected = forward_ad.unpack_dual(torch.softmax(dual, 1)).tangent
        for call in (scaled_softmax, scaled_softmax.op):
            torch.testing.assert_close(forward_ad.unpack_dual(call(dual)).tangent, expected)
        with pytest.raises(tw.KernelError, match="X requires a gradient, and running_maximum has none"):
            running_maximum(dual)


def test_transforms_compose():
    x = torch.randn(3, 4)
    weight = torch.arange(4.0)

    def f(row, function):
        return (function(row[None])[0] * weight).sum()

    expected = torch.vmap(torch.func.grad(lambda r: f(r, lambda v: torch.softmax(v, 1))))(x)
    torch.testing.assert_close(torch.vmap(torch.func.grad(lambda r: f(r, scaled_softmax)))(x), expected)
    torch.testing.assert_close(
        torch.func.jacrev(scaled_softmax)(x), torch.func.jacrev(lambda v: torch.softmax(v, 1))(x)
    )
    torch.testing.assert_close(
        torch.func.jacfwd(scaled_softmax)(x), torch.func.jacfwd(lambda v: torch.softmax(v, 1))(x)
    )


def test_the_kernel_keeps_what_its_function_says_of_itself():
    assert scaled_softmax.__name__ == "scaled_softmax"
    assert list(inspect.signature(scaled_softmax).parameters) == ["X", "Y", "scale"]
