"""What Import makes of a kernel's operations, as the compile report shows it: nothing is computed, checked or copied that need not be."""

from __future__ import annotations

import json

import torch

import tilewright.language as tw

B, M, N, K = tw.symbols("B M N K")
f32 = tw.f32


def structure(kernel, *arguments):
    """The report's text, after a call that is compared with nothing."""
    kernel(*arguments)
    return "\n".join(s.get("structure", "") for s in json.loads(kernel.compiled[-1].graph.report)["steps"])


def test_vector_times_matrix_is_a_reduction():
    @tw.kernel
    def k(X: tw.In[f32, M, K], W: tw.In[f32, K, N], Y: tw.Out[f32, M, N], Z: tw.Out[f32, M, K]):
        for i in tw.parallel(M, tile=1):
            y = X[i, :] @ W[:, :]
            Y[i, :] = tw.exp(y)
            Z[i, :] = W[:, :] @ y

    x, w = torch.randn(5, 19, dtype=torch.float64), torch.randn(19, 33, dtype=torch.float64)
    y, z = torch.empty(5, 33), torch.empty(5, 19)
    text = structure(k, x.float(), w.float(), y, z)
    torch.testing.assert_close(y, (x @ w).exp().float(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(z, (x @ w @ w.T).float(), rtol=1e-4, atol=1e-4)
    assert text.count("reduce sum") == 2 and "contract" not in text, text


def test_operand_of_two_products_is_computed_once():
    @tw.kernel
    def k(X: tw.In[f32, M, K], W: tw.In[f32, K, N], V: tw.In[f32, K, N], Y: tw.Out[f32, M, N], Z: tw.Out[f32, M, N]):
        for i in tw.parallel(M):
            x = X[i, :] * 2.0
            Y[i, :] = x @ W[:, :]
            Z[i, :] = x @ V[:, :]

    x, w, v = torch.randn(7, 9), torch.randn(9, 5), torch.randn(9, 5)
    y, z = torch.empty(7, 5), torch.empty(7, 5)
    text = structure(k, x, w, v, y, z)
    torch.testing.assert_close(y, x * 2 @ w)
    torch.testing.assert_close(z, x * 2 @ v)
    assert text.count("mul(") == 1 and text.count("contract (") == 2, text


def test_single_index_of_the_grid_is_inside():
    @tw.kernel
    def k(X: tw.In[f32, B, M, K], W: tw.In[f32, K, N], Y: tw.Out[f32, B, M, N]):
        for b, i in tw.parallel(B, M, tile=(1, None)):
            Y[b, i, :] = tw.load(X, (b, i - 1, ...), fill=0.0) @ W[:, :]

    x, w, y = torch.randn(3, 7, 9), torch.randn(9, 5), torch.empty(3, 7, 5)
    text = structure(k, x, w, y)
    torch.testing.assert_close(y, torch.nn.functional.pad(x, (0, 0, 1, 0))[:, :-1] @ w)
    assert text.count("lt(") == 1, text
