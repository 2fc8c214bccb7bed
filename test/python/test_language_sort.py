"""Sort and top-k of tiles against PyTorch: ties, NaN, infinities and signed zeros, every dtype, both orders, short and long results."""

import pytest
import torch

import tilewright as tw

M, N, K = tw.symbols("M N K")
T = tw.dtypes("T")
DTYPES = [
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float64,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.uint8,
]


@tw.kernel
def rows(X: tw.In[T, M, N], V: tw.Out[T, M, K], I: tw.Out[tw.i64, M, K], k: tw.const, largest: tw.const = True):
    tw.static_assert(k == K)
    for i in tw.parallel(M):
        V[i, :], I[i, :] = tw.topk(X[i, :], k, axis=1, largest=largest)


@tw.kernel
def columns(X: tw.In[T, N, M], V: tw.Out[T, K, M], I: tw.Out[tw.i64, K, M], k: tw.const, largest: tw.const = True):
    tw.static_assert(k == K)
    for i in tw.parallel(M):
        V[:, i], I[:, i] = tw.topk(X[:, i], k, axis=0, largest=largest)


@tw.kernel
def of_any_length(X: tw.In[T, M, N], V: tw.Out[T, M, K], I: tw.Out[tw.i64, M, K], largest: tw.const = True):
    tw.static_assert(K <= N)
    for i in tw.parallel(M):
        V[i, :], I[i, :] = tw.topk(X[i, :], K, axis=1, largest=largest)


def draw(dtype, m, n):
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        x = torch.randint(-3 if info.min else 0, 4, (m, n)).to(dtype)
        x[::3, ::5], x[1::3, ::7] = info.min, info.max
        return x
    x = (torch.randn(m, n) * 2).round().to(dtype)  # many ties, and zeros of both signs
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, -float("nan")], dtype=dtype)
    where = torch.rand(m, n) < 0.3
    x[where] = special[torch.randint(0, 6, (int(where.sum()),))]
    return x


def wanted(x, k, axis, largest):
    """As torch.sort orders: stable, NaN as the largest."""
    values, indices = torch.sort(x, dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, k), indices.narrow(axis, 0, k)


def agree(found, expected):
    torch.testing.assert_close(found[1], expected[1], rtol=0, atol=0)
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0, equal_nan=True)
    if found[0].dtype.is_floating_point:
        finite = ~expected[0].isnan()
        assert torch.equal(found[0].signbit()[finite], expected[0].signbit()[finite])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_first_elements_in_order(dtype, largest):
    torch.manual_seed(0)
    for kernel in (rows, columns, of_any_length):
        kernel.clear()
    for m, n, k in ((5, 37, 1), (7, 8, 8), (3, 65, 5), (2, 70, 32), (2, 70, 33), (1, 1, 1), (0, 9, 2), (40, 6, 2)):
        x = draw(dtype, m, n)
        outputs = torch.empty(m, k, dtype=dtype), torch.empty(m, k, dtype=torch.int64)
        for kernel in (rows, of_any_length):
            more = {"k": k} if kernel is rows else {}
            kernel(x, *outputs, **more, largest=largest)
            agree(outputs, wanted(x, k, 1, largest))
            assert kernel.check(x, *outputs, **more, largest=largest) == []
        outputs = torch.empty(k, m, dtype=dtype), torch.empty(k, m, dtype=torch.int64)
        columns(x.t().contiguous(), *outputs, k=k, largest=largest)
        agree(outputs, wanted(x.t(), k, 0, largest))


def test_gradients_go_to_the_elements_that_were_chosen():
    x = torch.randn(6, 20, requires_grad=True)
    v, i = torch.empty(6, 4), torch.empty(6, 4, dtype=torch.int64)
    rows(x, v, i, k=4)
    weight = torch.randn(6, 4)
    (found,) = torch.autograd.grad((v * weight).sum(), x)
    (expected,) = torch.autograd.grad((torch.topk(x, 4).values * weight).sum(), x)
    torch.testing.assert_close(found, expected)
