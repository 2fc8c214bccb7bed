"""Kernels that several tests of launching and of PyTorch call. In a module of its own, so that spawned processes find them by name."""

import torch

import tilewright as tw

M, N, K, D = tw.symbols("M N K D")
T, U = tw.dtypes("T U")
STEP = 1.0


@tw.kernel
def add(A: tw.In[tw.f32, N], B: tw.In[tw.f32, N], C: tw.Out[tw.f32, N]):
    for i in tw.parallel(N):
        C[i] = A[i] + B[i]


@tw.kernel
def scaled_softmax(X: tw.In[T, M, N], Y: tw.Out[T, M, N], scale: float = 1.0):
    for i in tw.parallel(M):
        x = X[i, :] * scale
        e = tw.exp(x - tw.max(x, axis=1, keepdims=True))
        Y[i, :] = e / tw.sum(e, axis=1, keepdims=True)


@tw.kernel
def moments(X: tw.In[tw.f32, M, N], Mean: tw.Out[tw.f32, M], Square: tw.Out[tw.f32, M]):
    for i in tw.parallel(M):
        x = X[i, :]
        Mean[i] = tw.mean(x, axis=1)
        Square[i] = tw.mean(x * x, axis=1)


@tw.kernel
def accumulate(
    A: tw.In[tw.f32, N],
    B: tw.InOut[tw.f32, N],
    C: tw.Out[tw.f32, N],
    *,
    twice: tw.const = False,
    shift: tw.const = None,
):
    for i in tw.parallel(N):
        x = A[i] * 2.0 if twice else A[i]
        if shift is not None:
            x = x + shift[0]
        C[i] = x + B[i]
        B[i] = B[i] + 1.0


@tw.kernel
def ones(Y: tw.Out[tw.f32, N]):
    for i in tw.parallel(N):
        Y[i] = tw.full([i], 1.0, tw.f32)


@tw.kernel
def step(X: tw.In[tw.f32, N], Y: tw.Out[tw.f32, N]):
    for i in tw.parallel(N):
        Y[i] = X[i] + STEP


@tw.kernel
def power(X: tw.In[tw.f32, N], Y: tw.Out[tw.f32, N], times: tw.const = 1):
    for i in tw.parallel(N):
        Y[i] = X[i] * float(times)


@tw.kernel
def shifted(X: tw.In[T, N], Y: tw.Out[T, N], by: tw.Scalar[T], small: tw.Scalar[tw.i8] = 0):
    for i in tw.parallel(N):
        Y[i] = X[i] + by + tw.cast(small, T)


@tw.kernel
def running_maximum(X: tw.In[tw.f32, M, N], Y: tw.Out[tw.f32, M]):
    """A program that has no whole-tensor form: the loop carries what is no plain accumulation."""
    for i in tw.parallel(M):
        best = tw.zeros([i], tw.f32)
        for j in tw.range(N):
            best = tw.max(X[i, j], axis=1) + best * 0.5
        Y[i] = best


@tw.kernel
def decayed(
    X: tw.In[T, M, N],
    State: tw.InOut[T, M],
    Y: tw.Out[T, M, N],
    rows: int,
    decay: float = 0.5,
    *,
    negate: tw.const = False,
):
    """A recurrence along rows, of the first `rows` rows only; with InOut, scalars and a constant, and no raised form."""
    for i in tw.parallel(M, tile=1):
        state = State[i]
        if i < rows:
            for j in tw.range(N, tile=1):
                state = state * decay + X[i, j]
                Y[i, j] = -state if negate else state
        else:
            Y[i, :] = tw.zeros([N], T)
        State[i] = state


@tw.kernel
def first_columns(X: tw.In[T, M, N], Y: tw.Out[U, M, K]):
    """Converts as many columns as the output has: nothing but the output says how many, and to which dtype."""
    tw.static_assert(K <= N, "more columns than there are")
    for i in tw.parallel(M):
        Y[i, :] = (X[i, 0:K] * 2.0).to(U)


@tw.kernel
def scaled(X: tw.In[tw.f32, M, N], W: tw.In[tw.f32, N], Y: tw.Out[tw.f32, M, N]):
    for i, j in tw.parallel(M, N):
        Y[i, j] = X[i, j] * W[j]


@tw.kernel
def scaled_backward(
    dY: tw.In[tw.f32, M, N],
    X: tw.In[tw.f32, M, N],
    W: tw.In[tw.f32, N],
    dX: tw.Out[tw.f32, M, N],
    dW: tw.Out[tw.f32, N],
):
    for j in tw.parallel(N):
        dX[:, j] = dY[:, j] * W[j]
        dW[j] = tw.sum(dY[:, j] * X[:, j], axis=0)


def sum_in_child(kernel, queue):
    """What another process runs."""
    queue.put(kernel(torch.ones(2, 3)).sum().item())


@tw.kernel(space={"BLOCK": (4, 8, None), "SPLIT": (False, True)})
def tuned_rows(
    X: tw.In[T, M, N],
    Y: tw.Out[T, M, N],
    scale: float = 1.0,
    SPLIT: tw.const = False,
    *,
    BLOCK: tw.const,
    shift: tw.const = 0,
):
    for i in tw.parallel(M, tile=BLOCK):
        if SPLIT:
            for j in tw.range(N):
                Y[i, j] = X[i, j] * scale + shift
        else:
            Y[i, :] = X[i, :] * scale + shift


@tw.kernel(space={"BLOCK": (16, 32)})
def tuned_update(X: tw.In[tw.f32, M], Total: tw.InOut[tw.f32, M], Y: tw.Out[tw.f32, M], BLOCK: tw.const):
    for i in tw.parallel(M, tile=BLOCK):
        Y[i] = X[i] + Total[i]
        Total[i] = Total[i] + 1.0


def constants_in_use(kernel, *args, **kwargs):
    """The tuned constants of the specialisation that a first call makes."""
    before = len(kernel.compiled)
    kernel(*args, **kwargs)
    assert len(kernel.compiled) == before + 1
    return {name: value for name, value in kernel.compiled[-1].signature if name in ("BLOCK", "SPLIT")}


def tuned_in_child(kernel, shapes, queue):
    told = []
    for shape in shapes:
        x = torch.randn(shape)
        choice = kernel.tuned(x)
        told.append((choice.source, choice.constants, constants_in_use(kernel, x)))
    queue.put(told)
