"""tw.associative_scan: compiled, in the interpreter, and after every pass."""

from __future__ import annotations

import pytest
import torch

import tilewright as tw

B, M, N = tw.symbols("B M N")
T = tw.dtypes("T")
SIZES = [(3, 1), (3, 2), (1, 3), (5, 17), (4, 64), (2, 65), (64, 1000), (7, 4097), (2, 0), (0, 3), (0, 0)]


def plus(a, b):
    return a + b


def times(a, b):
    return a * b


def later(a, b):
    return b + 0 * a


def linear(p, q):
    """The map x -> b * x + g after the map x -> a * x + h."""
    (a, h), (b, g) = p, q
    return a * b, b * h + g


def matrices(p, q):
    """Products of 2x2 matrices: associative, and not commutative."""
    a, b, c, d = p
    e, f, g, h = q
    return e * a + f * c, e * b + f * d, g * a + h * c, g * b + h * d


@tw.kernel
def scan(X: tw.In[T, M, N], Y: tw.Out[T, M, N], combine: tw.const = plus):
    for i in tw.parallel(M):
        Y[i, :] = tw.associative_scan(X[i, :], combine)


@tw.kernel
def recurrence(A: tw.In[tw.f32, M, N], X: tw.In[tw.f32, M, N], H: tw.Out[tw.f32, M, N]):
    for i in tw.parallel(M):
        _, H[i, :] = tw.associative_scan((A[i, :], X[i, :]), linear, axis=1)


@tw.kernel
def long_recurrence(A: tw.In[tw.f32, M, N], X: tw.In[tw.f32, M, N], H: tw.Out[tw.f32, M, N]):
    for i in tw.parallel(M, tile=1):
        state = tw.zeros((), tw.f32)
        for j in tw.range(N, tile=16):
            a, h = tw.associative_scan((A[i, j], X[i, j]), linear)
            h = h + a * state
            H[i, j] = h
            state = h[-1]


@tw.kernel
def columns(X: tw.In[tw.f64, B, M, N], Y: tw.Out[tw.f64, B, M, N]):
    for b, j in tw.parallel(B, N):
        Y[b, :, j] = tw.associative_scan(X[b, :, j], plus, axis=1)


@tw.kernel
def products(X: tw.In[tw.f64, 4, N], Y: tw.Out[tw.f64, 4, N]):
    p = tw.associative_scan((X[0, :], X[1, :], X[2, :], X[3, :]), matrices)
    for k in tw.static_range(4):
        Y[k, :] = p[k]


def sequential(a, x):
    h, out = torch.zeros(a.shape[0], dtype=torch.float64), []
    for t in range(a.shape[1]):
        h = a[:, t].double() * h + x[:, t].double()
        out.append(h)
    return torch.stack(out, 1) if out else torch.zeros(a.shape, dtype=torch.float64)


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_sums_products_and_extrema(shape, device):
    x = torch.randn(shape)
    y = x.to(device)
    torch.testing.assert_close(scan(y).cpu(), x.cumsum(1), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(scan(y.sign(), combine=times).cpu(), x.sign().cumprod(1))
    if shape[1]:
        assert torch.equal(scan(y, combine=tw.maximum).cpu(), x.cummax(1).values)
    assert torch.equal(scan(y, combine=later).cpu(), x)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.int32, torch.int64, torch.uint8]
)
def test_dtypes(dtype):
    x = torch.randint(0, 3, (5, 77)).to(dtype)
    got = scan(x)
    assert got.dtype == dtype
    assert torch.equal(got, x.long().cumsum(1).to(dtype))


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("kernel", [recurrence, long_recurrence])
def test_linear_recurrence(kernel, shape):
    a, x = torch.rand(shape), torch.randn(shape)
    torch.testing.assert_close(kernel(a, x).double(), sequential(a, x), atol=1e-4, rtol=1e-4)


def test_other_dimensions_and_strides():
    x = torch.randn(3, 37, 50, dtype=torch.float64)
    torch.testing.assert_close(columns(x), x.cumsum(1))
    z = torch.randn(40, 60)[::2, ::3].t()
    torch.testing.assert_close(scan(z), z.cumsum(1), atol=1e-4, rtol=1e-4)


def test_the_order_of_operands_is_kept():
    x = torch.randn(4, 23, dtype=torch.float64)
    m, wanted = torch.eye(2, dtype=torch.float64), []
    for t in range(23):
        m = x[:, t].reshape(2, 2) @ m
        wanted.append(m.flatten())
    torch.testing.assert_close(products(x), torch.stack(wanted, 1))


@pytest.mark.parametrize("shape", [(3, 1), (5, 17), (2, 0), (3, 40)])
def test_the_interpreter_and_every_pass_agree(shape):
    a, x = torch.rand(shape), torch.randn(shape)
    assert recurrence.check(a, x) == []
    assert scan.check(x) == []
    assert long_recurrence.check(a, x) == []
    verification = recurrence.verify(a, x)
    assert verification, str(verification)


def test_in_compiled_functions():
    a, x = torch.rand(6, 30), torch.randn(6, 30)
    compiled = torch.compile(lambda a, x: recurrence(a * 0.5, x) + 1.0, backend="tilewright", fullgraph=True)
    torch.testing.assert_close(compiled(a, x).double(), sequential(a * 0.5, x) + 1.0, atol=1e-5, rtol=1e-5)


def test_under_vmap():
    a, x = torch.rand(4, 6, 30), torch.randn(4, 6, 30)
    wanted = torch.stack([sequential(*pair) for pair in zip(a, x, strict=True)])
    torch.testing.assert_close(torch.func.vmap(recurrence)(a, x).double(), wanted, atol=1e-5, rtol=1e-5)


def test_branches_in_the_function():
    def larger(a, b, sign):
        if sign == "up":
            return tw.maximum(a, b)
        return tw.minimum(a, b)

    def up(a, b):
        return larger(a, b, "up")

    @tw.kernel
    def k(X: tw.In[tw.f32, N], Y: tw.Out[tw.f32, N], n: int):
        x = X[:]
        if n > 0:
            x = tw.associative_scan(x, up)
        Y[:] = x

    x = torch.randn(100)
    assert torch.equal(k(x, n=1), x.cummax(0).values)
    assert torch.equal(k(x, n=0), x)
