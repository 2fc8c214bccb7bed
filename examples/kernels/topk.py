"""The k largest elements of each row in order, and where they stand; of equal ones the first is taken first."""

import torch
from gallery import Case

import tilewright as tw

M, N, K = tw.symbols("M N K")
T = tw.dtypes("T")


@tw.kernel
def topk(X: tw.In[T, M, N], Values: tw.Out[T, M, K], Indices: tw.Out[tw.i64, M, K]):
    for i in tw.parallel(M):
        Values[i, :], Indices[i, :] = tw.topk(X[i, :], K)


def _sizes(draw):
    columns = draw.size(300)
    return {"M": draw.size(70), "N": columns, "K": draw.size(min(columns, 40))}


def _arguments(draw, n, dtype):
    few = draw.integers(-20, 20, n.M, n.N, dtype=dtype)  # many equal ones
    return {
        "X": draw.normal(n.M, n.N, dtype=dtype) if draw.random.random() < 0.5 else few,
        "Values": draw.out(n.M, n.K, dtype=dtype),
        "Indices": draw.out(n.M, n.K, dtype=torch.int64),
    }


def _reference(a):
    values, indices = a.X.sort(dim=1, descending=True, stable=True)
    k = a.Values.shape[1]
    return {"Values": values[:, :k], "Indices": indices[:, :k]}


CASES = [
    Case(
        "topk",
        topk,
        sizes=_sizes,
        arguments=_arguments,
        reference=_reference,
        dtypes=(torch.float32, torch.bfloat16, torch.float64, torch.int32, torch.int64),
        tolerance=0,
        bench=({"M": 128, "N": 64, "K": 8}, {"M": 4096, "N": 1024, "K": 8}),
        peer=lambda a: torch.topk(a.X, a.Values.shape[1], 1),
    )
]
