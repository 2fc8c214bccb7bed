"""Vector addition: Z[i] = X[i] + Y[i]."""

from gallery import FLOATS, Case

import tilewright as tw

M = tw.symbols("M")
T = tw.dtypes("T")


@tw.kernel
def add(X: tw.In[T, M], Y: tw.In[T, M], Z: tw.Out[T, M]):
    for i in tw.parallel(M):
        Z[i] = X[i] + Y[i]


CASES = [
    Case(
        "add",
        add,
        sizes=lambda draw: {"M": draw.size(100_000)},
        arguments=lambda draw, n, dtype: {
            "X": draw.normal(n.M, dtype=dtype),
            "Y": draw.normal(n.M, dtype=dtype),
            "Z": draw.out(n.M, dtype=dtype),
        },
        reference=lambda a: {"Z": a.X + a.Y},
        dtypes=FLOATS,
        tolerance=1,
        bench=({"M": 1 << 12}, {"M": 1 << 25}),
        peer=lambda a: a.X + a.Y,
    )
]
