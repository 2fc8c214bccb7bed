"""Calling kernels: arguments, specialisations, errors that point to the parameter, streams, processes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import re
import sys

import kernels_for_tests as kernels
import numpy
import pytest
import torch
from kernels_for_tests import accumulate, add, moments, ones, power, running_maximum, scaled_softmax, shifted, step

import tilewright as tw
from tilewright import switches
from tilewright.language.check import KernelCheckError

N = tw.symbols("N")


@pytest.fixture(autouse=True)
def no_specialisations():
    for kernel in (accumulate, add, moments, ones, power, running_maximum, scaled_softmax, shifted, step):
        kernel.clear()


def refused(call, *patterns):
    with pytest.raises(tw.KernelError) as error:
        call()
    text = str(error.value)
    for pattern in patterns:
        assert re.search(pattern, text), text
    return text


# ----------------------------------------------------------------------------------------------------------------------
# Arguments


def test_outputs_are_written_in_place_or_returned():
    a, b, c = torch.randn(8), torch.randn(8), torch.empty(8)
    assert add(a, b, c) is None
    assert torch.equal(c, a + b)
    assert torch.equal(add(a, b), a + b)
    assert torch.equal(add(B=b, A=a), a + b)
    assert torch.equal(add(a, b, None), a + b)


def test_several_outputs_are_a_tuple_and_some_may_be_given():
    x, square = torch.randn(3, 5), torch.empty(3)
    mean, other = moments(x)
    torch.testing.assert_close(mean, x.mean(1))
    torch.testing.assert_close(other, (x * x).mean(1))
    torch.testing.assert_close(moments(x, Square=square), x.mean(1))
    assert torch.equal(square, other)


def test_npu_tensors_give_npu_results():
    x = torch.arange(12.0).reshape(3, 4)
    y = scaled_softmax(x.to("npu"))
    assert y.device.type == "npu"
    torch.testing.assert_close(y.cpu(), torch.softmax(x, 1))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (70, 129)])
def test_sizes_make_no_specialisation(shape):
    scaled_softmax(torch.randn(2, 3))
    before = scaled_softmax.compile_count
    x = torch.randn(shape)
    torch.testing.assert_close(scaled_softmax(x), torch.softmax(x, 1))
    assert scaled_softmax.compile_count == before
    assert scaled_softmax.specialisations == 1


def test_dtypes_layouts_and_constants_make_specialisations():
    x = torch.randn(6, 8)
    for argument in (x, x.double(), x.bfloat16(), x.half(), x[:, :4], x.t(), x.to("npu")):
        result = scaled_softmax(argument)
        assert result.dtype == argument.dtype
        torch.testing.assert_close(result.cpu(), torch.softmax(argument.cpu(), 1), atol=1e-2, rtol=1e-2)
    assert scaled_softmax.specialisations == 7
    scaled_softmax(x.clone(), scale=3.0)  # a run-time number
    assert scaled_softmax.specialisations == 7
    v = torch.randn(4)
    for times in (1, 2, 1, 2):
        assert torch.equal(power(v, times=times), v * times)
    assert power.specialisations == 2


def test_constants_that_are_equal_but_of_another_type_are_different():
    v = torch.randn(4)
    for times in (1, True, 1.0):
        power(v, times=times)
    assert power.specialisations == 3


def test_specialisations_are_bounded_and_the_message_says_what_varies(monkeypatch):
    monkeypatch.setattr(power, "specialisation_limit", 3, raising=False)
    v = torch.randn(4)
    for times in range(3):
        power(v, times=times)
    refused(
        lambda: power(v, times=3), r"power has 3 specialisations", r"times alone came as", r"times as a run-time scalar"
    )
    assert torch.equal(power(v, times=2), v * 2)
    power.clear()
    assert torch.equal(power(v, times=3), v * 3)


def test_a_captured_constant_that_changes_is_seen(monkeypatch):
    v = torch.zeros(3)
    assert step(v).tolist() == [1.0] * 3
    monkeypatch.setattr(kernels, "STEP", 2.5)
    assert step(v).tolist() == [2.5] * 3
    assert step.op(v).tolist() == [2.5] * 3
    monkeypatch.setattr(kernels, "STEP", 1.0)
    assert step(v).tolist() == [1.0] * 3
    assert step.specialisations == 1


def test_closures_over_constants_are_seen_too():
    value = 2.0

    @tw.kernel
    def local(X: tw.In[tw.f32, N], Y: tw.Out[tw.f32, N]):
        for i in tw.parallel(N):
            Y[i] = X[i] * value

    assert local(torch.ones(2)).tolist() == [2.0, 2.0]
    value = 5.0
    assert local(torch.ones(2)).tolist() == [5.0, 5.0]


def test_scalars_take_the_dtype_of_their_tensor():
    assert torch.equal(shifted(torch.tensor([1, 2], dtype=torch.int32), by=3), torch.tensor([4, 5], dtype=torch.int32))
    assert torch.equal(shifted(torch.tensor([1.0, 2.0]), by=0.5), torch.tensor([1.5, 2.5]))
    assert torch.equal(shifted(torch.tensor([1.0, 2.0]), by=3), torch.tensor([4.0, 5.0]))
    assert torch.equal(shifted(torch.tensor([1.0]), None, numpy.float32(0.25), numpy.int8(2)), torch.tensor([3.25]))
    with pytest.raises(TypeError, match="by is an integer for tensors of these dtypes"):
        shifted(torch.tensor([1, 2]), by=0.5)
    refused(
        lambda: shifted(torch.tensor([1.0]), 0.5),
        r"Y is a tensor, and a float is given",
        r"the arguments behind Y by name",
    )
    refused(lambda: shifted(torch.tensor([1.0]), by=0.0, small=200), r"small is 200, which i8 does not hold")
    refused(lambda: shifted(torch.tensor([1.0]), by=0.0, small=1.5), r"small is an integer, and 1.5 is given")


def test_strided_views_are_read_and_written_where_they_lie():
    x = torch.randn(4, 6)
    expected = torch.softmax(x[:, :3], 1)
    scaled_softmax(x[:, :3], x[:, 3:])  # columns of one tensor: their memory interleaves and does not meet
    torch.testing.assert_close(x[:, 3:], expected)
    y = torch.empty(3, 4).t()
    scaled_softmax(x[:, :3], y)
    torch.testing.assert_close(y, torch.softmax(x[:, :3], 1))


def test_in_place_writes_count_as_writes():
    a = torch.randn(4)
    c = torch.zeros(4)
    version = c._version
    add(a, a, c)
    assert c._version == version + 1


def test_meta_tensors_and_fake_tensors_give_shapes():
    assert scaled_softmax(torch.empty(3, 4, device="meta")).shape == (3, 4)
    with torch._subclasses.FakeTensorMode():
        assert scaled_softmax(torch.empty(5, 2)).shape == (5, 2)


def test_inference_mode():
    with torch.inference_mode():
        a = torch.randn(4)
        c = add(a, a)
        add(a, c, a.clone())
    assert torch.equal(c, a + a)


# ----------------------------------------------------------------------------------------------------------------------
# NumPy


@pytest.mark.filterwarnings("error")
def test_arrays_are_used_where_they_lie_also_those_that_must_not_be_written():
    a, b, c = numpy.arange(4, dtype="f4"), numpy.ones(4, "f4"), numpy.zeros(4, "f4")
    a.flags.writeable = False
    assert add(a, b, c) is None
    assert c.tolist() == [1.0, 2.0, 3.0, 4.0]
    result = add(a, b)
    assert isinstance(result, numpy.ndarray) and result.tolist() == c.tolist()
    assert add.specialisations == 2  # with C, and without
    refused(lambda: add(c, b, a), r"C is written, and the array must not be")


def test_strided_arrays_and_mixtures_with_tensors():
    x = numpy.random.default_rng(0).standard_normal((4, 6)).astype("f4")
    expected = torch.softmax(torch.from_numpy(x[:, ::2].copy()), 1)
    result = scaled_softmax(x[:, ::2])
    assert isinstance(result, numpy.ndarray)
    torch.testing.assert_close(torch.from_numpy(result), expected)
    out = torch.empty(4, 3)
    scaled_softmax(x[:, ::2], out)
    torch.testing.assert_close(out, expected)
    assert isinstance(add(x[0].copy(), torch.ones(6)), torch.Tensor)
    refused(lambda: scaled_softmax(x[::-1]), r"negative stride")
    refused(lambda: scaled_softmax(x.astype(">f4")), r"byte order")
    refused(lambda: scaled_softmax(x.astype("U4")), r"the dtype <U4")


def test_bfloat16_arrays():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = numpy.array([[1.0, 2.0]], dtype=bfloat16)
    result = scaled_softmax(x)
    assert result.dtype == bfloat16
    torch.testing.assert_close(
        torch.tensor(result.astype("f4")), torch.softmax(torch.tensor([[1.0, 2.0]]), 1), atol=1e-2, rtol=0
    )


# ----------------------------------------------------------------------------------------------------------------------
# What is refused


def test_arguments_that_do_not_fit_are_refused_at_the_parameter():
    a, b, c = torch.randn(8), torch.randn(8), torch.empty(8)
    text = refused(
        lambda: add(a), r"kernels_for_tests.py:\d+:\d+: add is called without B", r"write instead: add\(A, B, C\)"
    )
    assert "B: tw.In[tw.f32, N]" in text
    refused(lambda: add(a, b[:4], c), r"dimension 0 of B is 4, and must be N = 8 \(dimension 0 of A\)")
    refused(lambda: add(a, b, c[:4]), r"dimension 0 of C is 4, and must be N = 8")
    refused(lambda: add(a, b.double(), c), r"B is declared as f32 and called with f64")
    refused(lambda: add(a, b.view(2, 4), c), r"B of add has 1 dimension \[N\], and the argument has 2")
    refused(lambda: add(a, 3, c), r"B is a tensor, and a int is given")
    refused(lambda: add(a, b.to("npu"), c), r"B is on npu, and A on cpu")
    refused(lambda: add(a, b, c, c), r"add takes 3 arguments by position, and 4 are given")
    refused(lambda: add(a, b, A=c), r"A is given twice")
    refused(lambda: add(a, b, D=c), r"add has no parameter D")
    refused(lambda: add(a, torch.randn(8, dtype=torch.complex64)), r"B has the dtype c64")
    refused(lambda: add(a, b.to_sparse()), r"B is not dense")
    refused(
        lambda: scaled_softmax(torch.randn(2, 2), 1.0),
        r"Y is a tensor, and a float is given",
        r"the arguments behind Y by name",
    )
    refused(lambda: scaled_softmax(torch.randn(2, 2), scale="2"), r"scale is a number, and a str is given")
    refused(
        lambda: scaled_softmax(torch.randn(2, 2), scale=torch.ones(())),
        r"scale is a number, and a tensor is given",
        r"scale.item\(\)",
    )
    refused(
        lambda: scaled_softmax(torch.randn(2, 2), torch.empty(2, 2, dtype=torch.float64)),
        r"share the dtype T, and are f32 and f64",
    )
    refused(lambda: accumulate(a, b, twice=True, shift=[1]), r"constant shift is a list, which is not hashable")
    refused(lambda: ones(), r"ones is called without a tensor")


def test_sizes_that_nothing_says_are_asked_for():
    @tw.kernel
    def spread(X: tw.In[tw.f32, 1], Y: tw.Out[tw.f32, N]):
        for i in tw.parallel(N):
            Y[i] = tw.full([i], 2.0, tw.f32)

    refused(lambda: spread(torch.ones(1)), r"Y is not given, and no argument says what its size N is", r"Y=tensor")
    y = torch.empty(5)
    spread(torch.ones(1), y)
    assert y.tolist() == [2.0] * 5


def test_outputs_that_share_memory_are_refused():
    a = torch.randn(8)
    refused(lambda: add(a, torch.randn(8), a), r"the output C shares memory with A", r"tw.InOut")
    refused(lambda: add(a[:4], torch.randn(4), a[2:6]), r"the output C shares memory with A")
    refused(lambda: add(a, a, torch.empty(1).expand(8)), r"elements of the output C share memory")
    refused(
        lambda: add(a, a, torch.empty(8).to("npu").cpu().expand(8)[None][0].as_strided((8,), (0,))), r"share memory"
    )
    n = a.to("npu")
    refused(lambda: add(n, n, n), r"the output C shares memory with A")
    square, mean = torch.empty(3), torch.empty(4)
    refused(lambda: moments(torch.randn(3, 2), mean[:3], mean[1:]), r"the output Mean shares memory with Square")
    moments(torch.randn(3, 2), mean[:3], square)
    add(a[:4], a[:4], a[4:])  # inputs may be one, and neighbours do not meet
    assert torch.equal(a[4:], 2 * a[:4])


# ----------------------------------------------------------------------------------------------------------------------
# Ahead of time, checking, streams


def test_compiling_ahead_of_time_spares_the_first_call():
    made = scaled_softmax.compile(X=torch.float64)
    assert made.fresh == ("Y",) and made.device == "cpu"
    count = scaled_softmax.compile_count
    scaled_softmax(torch.randn(3, 4, dtype=torch.float64))
    assert scaled_softmax.compile_count == count
    assert scaled_softmax.compile(tw.f64).graph is made.graph
    scaled_softmax.compile((tw.f32, "inner"), tw.f32, device="npu")
    count = scaled_softmax.compile_count
    scaled_softmax(torch.randn(3, 4).to("npu")[:, :2], torch.empty(3, 2).to("npu"))
    assert scaled_softmax.compile_count == count
    power.compile(times=4)
    count = power.compile_count
    power(torch.ones(2), times=4)
    assert power.compile_count == count
    refused(lambda: scaled_softmax.compile(), r"the dtype T of X is not given")
    with pytest.raises(ValueError, match="device 'cuda'"):
        power.compile(device="cuda")


def gathering():
    @tw.kernel
    def take(X: tw.In[tw.f32, N], I: tw.In[tw.i64, N], Y: tw.Out[tw.f32, N]):
        for i in tw.parallel(N):
            Y[i] = X[I[i]]

    return take


def test_errors_of_data_are_raised():
    take, x = gathering(), torch.arange(3.0)
    assert take(x, torch.tensor([2, 0, 1])).tolist() == [2.0, 0.0, 1.0]
    with pytest.raises(IndexError):
        take(x, torch.tensor([2, 0, 3]))


def test_check_finds_what_is_wrong_and_the_switch_raises_it():
    take, x = gathering(), torch.arange(3.0)
    good, bad = torch.tensor([2, 0, 1]), torch.tensor([2, 0, 3])
    assert [f.kind for f in take.check(x, bad)] == ["out-of-bounds"]
    assert take.check(x, good) == []
    with switches.overridden(TILEWRIGHT_CHECK=1):
        for call in (take, take.op, lambda x, i: take(x.numpy(), i.numpy())):
            with pytest.raises(KernelCheckError, match="1 fault found in take"):
                call(x, bad)
            assert numpy.asarray(call(x, good)).tolist() == [2.0, 0.0, 1.0]
    with pytest.raises(IndexError):
        take(x, bad)


def test_launches_on_streams():
    stream = torch.npu.Stream()
    x = torch.arange(6.0).reshape(2, 3)
    on_device = x.to("npu")
    torch.npu.synchronize()
    first = scaled_softmax.on(stream)(on_device)
    with torch.npu.stream(stream):
        second = scaled_softmax(on_device)
    stream.synchronize()
    for y in (first, second):
        torch.testing.assert_close(y.cpu(), torch.softmax(x, 1))
    with pytest.raises(TypeError, match=r"scaled_softmax.on takes a stream"):
        scaled_softmax.on(3)


def test_a_launch_waits_for_its_stream_and_not_for_others():
    import threading

    gate = threading.Event()
    stream = torch.npu.Stream()
    a, c = torch.ones(4).to("npu"), torch.zeros(4).to("npu")
    torch.npu.synchronize()
    torch.npu.launch_host_function(stream, gate.wait)
    add.on(stream)(a, a, c)
    assert c.cpu().tolist() == [0.0] * 4  # on the default stream
    gate.set()
    stream.synchronize()
    assert c.cpu().tolist() == [2.0] * 4


def test_profiles_name_the_kernel():
    x = torch.randn(2, 3)
    scaled_softmax(x)
    with torch.profiler.profile() as profile:
        scaled_softmax(x)
    assert "scaled_softmax" in [event.name for event in profile.events()]


# ----------------------------------------------------------------------------------------------------------------------
# Copies and processes


def test_copies_are_the_kernel_itself():
    assert copy.copy(scaled_softmax) is scaled_softmax
    assert copy.deepcopy({"k": scaled_softmax})["k"] is scaled_softmax
    assert pickle.loads(pickle.dumps(scaled_softmax)) is scaled_softmax
    with pytest.raises(pickle.PicklingError, match=r"gathering.<locals>.take cannot be pickled"):
        pickle.dumps(gathering())


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_other_processes_call_kernels(how):
    if how == "fork":
        code = "import test_language_launch as t; t.fork_from_a_fresh_process()"
        import subprocess

        path = [entry for entry in sys.path if entry]
        subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"], check=True, timeout=300)
        return
    context = multiprocessing.get_context(how)
    queue = context.Queue()
    process = context.Process(target=kernels.sum_in_child, args=(scaled_softmax, queue))
    process.start()
    assert queue.get(timeout=300) == pytest.approx(2.0)
    process.join()


def fork_from_a_fresh_process():
    """Forks after a call: the child goes on with what the parent had compiled. (A process of its own, without pytest's threads.)"""
    import os

    scaled_softmax(torch.ones(4, 3))
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, str(scaled_softmax(torch.ones(2, 3)).sum().item()).encode())
        os._exit(0)
    assert float(os.read(read, 100)) == pytest.approx(2.0)


# ----------------------------------------------------------------------------------------------------------------------
# Ranges and sizes from data

M = tw.symbols("M")


@tw.kernel
def window(X: tw.In[tw.f32, M], Begin: tw.In[tw.i64, 1], Y: tw.Out[tw.f32, N]):
    for i in tw.parallel(N):
        Y[i] = X[i + Begin[0]]


@tw.kernel
def first_ones(X: tw.In[tw.f32, M], End: tw.In[tw.i64, N], Y: tw.Out[tw.f32, N]):
    for i in tw.parallel(N, tile=1):
        total = 0.0
        for k in tw.range(End[i]):
            total += tw.sum(X[k])
        Y[i] = total


@tw.kernel
def last_ones(X: tw.In[tw.f32, M], Begin: tw.In[tw.i64, N], Y: tw.Out[tw.f32, N]):
    for i in tw.parallel(N, tile=1):
        total = 0.0
        for k in range(Begin[i], M):
            total += X[k]
        Y[i] = total


@tw.kernel
def element_of_a_tile(X: tw.In[tw.f32, M], Index: tw.In[tw.i64, N], Y: tw.Out[tw.f32, N]):
    for i in tw.parallel(N, tile=1):
        x = X[:]
        Y[i] = x[Index[i]]


@tw.kernel
def part_of_a_tile(X: tw.In[tw.f32, M], Begin: tw.In[tw.i64, N], Y: tw.Out[tw.f32, N, 2]):
    tw.static_assert(M >= 2)
    for i in tw.parallel(N, tile=1):
        Y[i, :] = tw.slice(X[:], Begin[i], 2)


@pytest.mark.parametrize(
    ("kernel", "value", "wanted"),
    [
        (window, -2, "the start of the range in dimension 0 of X is -2, and must be at least 0 and below 5"),
        (window, 7, "the start of the range in dimension 0 of X is 7, and must be at least 0 and below 5"),
        (first_ones, 7, r"the end of the loop is 7, .* below 6: a load reads dimension 0 of X, whose size is M \(line \d+\)"),
        (last_ones, -2, "the begin of the loop is -2, and must not be negative"),
        (element_of_a_tile, -2, "the index of dimension 0 of the tile is -2, and must be at least 0 and below 5"),
        (element_of_a_tile, 5, "the index of dimension 0 of the tile is 5, and must be at least 0 and below 5"),
        (part_of_a_tile, 4, "the start of tw.slice is 4, and must be at least 0 and below 4"),
    ],
)  # fmt: skip
def test_error_of_a_range_from_data_says_of_what(kernel, value, wanted):
    arguments = [torch.arange(5.0), torch.tensor([value])]
    if kernel is window:
        arguments.append(torch.empty(1))
    with pytest.raises(IndexError, match=f"{kernel.name}: {wanted}"):
        kernel(*arguments)
    (finding,) = kernel.check(*arguments)
    assert finding.kind == "bound" and re.search(wanted, finding.message)


def test_scalar_of_u64_says_what_it_takes():
    @tw.kernel
    def shifted_by(X: tw.In[tw.u64, M], n: tw.Scalar[tw.u64], Y: tw.Out[tw.u64, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] + n

    @tw.kernel
    def shifted_by_a_tensor(X: tw.In[tw.u64, M], n: tw.In[tw.u64], Y: tw.Out[tw.u64, M]):
        for i in tw.parallel(M):
            Y[i] = X[i] + n[()]

    x = torch.ones(2, dtype=torch.uint64)
    assert shifted_by(x, 2**63 - 1).tolist() == [2**63] * 2
    refused(
        lambda: shifted_by(x, 2**63),
        "n is 9223372036854775808, and a scalar of u64 is given in 63 bits",
        r"n: tw\.In\[tw\.u64\]",
    )
    refused(lambda: shifted_by(x, 2**64), "n is 18446744073709551616, which u64 does not hold")
    refused(lambda: shifted_by(x, -1), "n is -1, which u64 does not hold")
    assert shifted_by_a_tensor(x, torch.tensor(2**63, dtype=torch.uint64)).tolist() == [2**63 + 1] * 2
