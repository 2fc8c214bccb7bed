"""The CPU fallback: each of its rules, with operators of our own that have a CPU kernel only."""

import subprocess
import sys

import pytest
import torch

import tilewright

pytestmark = pytest.mark.filterwarnings("ignore:.*has no native kernel on npu")

library = torch.library.Library("device_fallback_test", "DEF")
ops = torch.ops.device_fallback_test


def operator(schema: str, tags: tuple = ()):
    """Defines an operator with a CPU kernel."""

    def decorate(function):
        library.define(schema, tags=tags)
        library.impl(schema.split("(")[0], function, "CPU")
        return function

    return decorate


@operator("tail(Tensor(a) x) -> Tensor(a)")
def _tail(x):
    return x[1:]


@operator("grow_(Tensor(a!) x, int size) -> Tensor(a!)")
def _grow_(x, size):
    old = x.numel()
    x.resize_(size)
    x[old:] = 7
    return x


@operator("replace_(Tensor(a!) x) -> ()")
def _replace_(x):
    x.set_(torch.full((2, 3), 5.0))


@operator("rows(Tensor x) -> (Tensor, Tensor)")
def _rows(x):
    fresh = x.clone()
    return fresh[0], fresh[1]


@operator("twice(Tensor x) -> (Tensor, Tensor)")
def _twice(x):
    fresh = x + 1
    return fresh, fresh


@operator("scale_(Tensor(a!)[] xs, float factor) -> ()")
def _scale_(xs, factor):
    for x in xs:
        x *= factor


@operator("pieces(Tensor(a) x) -> Tensor(a)[]")
def _pieces(x):
    return list(x.unbind(0))


@operator("pick(Tensor x, Tensor?[] indices) -> Tensor")
def _pick(x, indices):
    assert indices[0] is None
    return x[:, indices[1]]


@operator("share(Tensor a, Tensor b) -> bool")
def _share(a, b):
    assert a.device.type == b.device.type == "cpu"
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


@operator("geometry(Tensor x) -> int[]")
def _geometry(x):
    return [x.storage_offset(), *x.stride(), int(x.is_conj())]


@operator("move(Tensor x, *, Device? device=None) -> Tensor")
def _move(x, *, device=None):
    assert device is None or device.type == "cpu"
    return x + 1


@operator("draw(Tensor like, *, Generator? generator=None) -> Tensor", (torch.Tag.nondeterministic_seeded,))
def _draw(like, *, generator=None):
    return torch.rand(like.shape, generator=generator)


@operator("noise(Tensor x) -> Tensor", (torch.Tag.nondeterministic_seeded,))
def _noise(x):
    return torch.rand(x.shape)


@operator("add(Tensor a, Tensor b) -> Tensor")
def _add(a, b):
    return a + b


@operator("break_(Tensor(a!) x) -> ()")
def _break_(x):
    x += 1
    raise ValueError("half way")


@operator("lengths(Tensor x, Tensor lengths) -> Tensor")
def _lengths(x, lengths):
    return x[: int(lengths[0])]


def test_an_alias_of_an_argument_is_a_view_of_the_device_tensor():
    x = torch.arange(4.0, device="npu")
    tail = ops.tail(x)
    assert tail.device.type == "npu" and tail.data_ptr() == x[1].data_ptr()
    tail.fill_(9)
    assert x.tolist() == [0, 9, 9, 9]


def test_an_enlarged_argument_keeps_its_contents_and_its_views_see_the_new_memory():
    x = torch.arange(3.0, device="npu")
    view = x[:2]
    result = ops.grow_(x, 1000)
    assert result is x and x.shape == (1000,) and x.device.type == "npu"
    assert x[:5].tolist() == [0, 1, 2, 7, 7]
    x[0] = 4
    assert view[0].item() == 4, "the storage is shared still"
    assert x.untyped_storage().nbytes() == 4000


def test_an_enlarged_argument_is_counted_as_device_memory():
    x = torch.zeros(3, device="npu")
    before = torch.npu.memory_allocated()
    ops.grow_(x, 1 << 20)
    assert torch.npu.memory_allocated() - before >= (1 << 22) - 512
    del x
    assert torch.npu.memory_allocated() < before


def test_an_argument_with_another_storage_gets_device_memory():
    x = torch.zeros(1, device="npu")
    ops.replace_(x)
    assert x.device.type == "npu" and x.shape == (2, 3) and x.untyped_storage().device.type == "npu"
    assert x.cpu().eq(5).all()


def test_fresh_results_are_counted_device_memory_and_share_storage_where_the_cpu_ones_do():
    x = torch.arange(6.0, device="npu").view(2, 3)
    before = torch.npu.memory_allocated()
    first, second = ops.rows(x)
    assert torch.npu.memory_allocated() > before
    assert first.untyped_storage()._cdata == second.untyped_storage()._cdata
    assert (first.tolist(), second.tolist(), second.storage_offset()) == ([0, 1, 2], [3, 4, 5], 3)


def test_a_result_that_comes_twice_is_one_tensor():
    first, second = ops.twice(torch.zeros(2, device="npu"))
    first.fill_(3)
    assert second.tolist() == [3, 3]


def test_lists_are_written_and_returned():
    xs = [torch.ones(2, device="npu"), torch.ones(3, device="npu")]
    ops.scale_(xs, 3.0)
    assert [x.tolist() for x in xs] == [[3, 3], [3, 3, 3]]
    x = torch.arange(6.0, device="npu").view(3, 2)
    pieces = ops.pieces(x)
    pieces[2].zero_()
    assert x[2].tolist() == [0, 0] and all(p.device.type == "npu" for p in pieces)


def test_lists_of_optional_tensors():
    x = torch.arange(6.0, device="npu").view(2, 3)
    assert ops.pick(x, [None, torch.tensor([2, 0], device="npu")]).tolist() == [[2, 0], [5, 3]]


def test_a_device_argument_says_where_the_result_goes():
    x = torch.ones(2, device="npu")
    assert ops.move(x).device.type == ops.move(x, device="npu").device.type == "npu"
    assert ops.move(x, device="cpu").device.type == "cpu"
    made = torch.tril_indices(2, 2, device="npu")  # no tensor argument at all
    assert made.device.type == "npu" and made.tolist() == [[0, 1, 1], [0, 0, 1]]


def test_tensors_that_share_a_device_storage_share_one_cpu_storage():
    x = torch.zeros(6, device="npu")
    assert ops.share(x[:3], x[3:])
    assert not ops.share(x, x.clone())


def test_strides_offset_and_conj_bit_reach_the_cpu_kernel():
    x = torch.zeros(4, 6, dtype=torch.complex64, device="npu")
    assert ops.geometry(x[1:, ::2].t()) == [6, 2, 6, 0]


def test_output_that_overlaps_an_input_is_refused():
    x = torch.arange(6.0, device="npu")
    with pytest.raises(RuntimeError, match=r"overlap|single memory location"):
        torch.lgamma(x[:-1], out=x[1:])
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.lgamma(x, out=torch.zeros(1, device="npu").expand(6))
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_out_is_resized():
    out = torch.empty(0, device="npu")
    indices = torch.empty(0, dtype=torch.int64, device="npu")
    torch.sort(torch.tensor([3.0, 1.0, 2.0], device="npu"), out=(out, indices))
    assert out.tolist() == [1, 2, 3] and indices.tolist() == [1, 2, 0] and out.device.type == "npu"


def test_default_generator_is_the_devices_and_moves_on():
    x = torch.zeros(8, device="npu")
    state, host = torch.npu.get_rng_state(), torch.get_rng_state()
    first, second = ops.draw(x), ops.draw(x)
    assert not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), host), "the CPU's generator is left alone"
    torch.npu.set_rng_state(state)
    assert torch.equal(ops.draw(x), first) and torch.equal(ops.draw(x), second)


def test_random_operator_without_a_generator_argument_draws_from_the_device():
    x = torch.zeros(16, device="npu")
    state, host = torch.npu.get_rng_state(), torch.get_rng_state()
    first = ops.noise(x)
    assert not torch.equal(ops.noise(x), first) and torch.equal(torch.get_rng_state(), host)
    torch.npu.set_rng_state(state)
    assert torch.equal(ops.noise(x), first)


def test_given_generator_is_used_and_advanced():
    x = torch.zeros(8, device="npu")
    generator = torch.Generator("npu").manual_seed(3)
    default = torch.npu.get_rng_state()
    first, second = (ops.draw(x, generator=generator) for _ in range(2))
    assert torch.equal(torch.npu.get_rng_state(), default)
    again = torch.Generator("npu").manual_seed(3)
    assert torch.equal(ops.draw(x, generator=again), first) and not torch.equal(first, second)
    with pytest.raises(RuntimeError, match="Expected a 'npu' device type for generator but found 'cpu'"):
        ops.draw(x, generator=torch.Generator())


def test_tensors_of_two_devices_are_refused_and_scalars_are_not():
    x = torch.ones(3, device="npu")
    with pytest.raises(RuntimeError, match=r"same device.*argument 'b' of device_fallback_test::add"):
        ops.add(x, torch.ones(3))
    assert ops.add(x, torch.tensor(2.0)).tolist() == [3, 3, 3]
    assert ops.lengths(x, torch.tensor([2])).tolist() == [1, 1], "lengths live in host memory on every device"


def test_every_call_is_counted_by_overload_name():
    torch.npu.reset_fallback_counts()
    x = torch.ones(3, device="npu")
    ops.add(x, x)
    ops.add(x, x)
    assert torch.npu.fallback_counts()["device_fallback_test::add"] == 2
    torch.npu.reset_fallback_counts()
    assert torch.npu.fallback_counts() == {}


def test_written_arguments_get_a_new_write_epoch_and_others_keep_theirs():
    epoch = tilewright._C.write_epoch
    a, b = torch.ones(3, device="npu"), torch.ones(3, device="npu")
    before = epoch(a), epoch(b)
    ops.add(a, b)
    assert (epoch(a), epoch(b)) == before
    ops.scale_([a], 2.0)
    assert epoch(a) != before[0] and epoch(b) == before[1]
    middle = epoch(a)
    with pytest.raises(ValueError, match="half way"):
        ops.break_(a)
    assert epoch(a) != middle, "it may have been written before it failed"


def test_no_kernel_anywhere_names_the_operator():
    with pytest.raises(NotImplementedError, match="aten::_cudnn_rnn_flatten_weight runs neither natively"):
        torch._cudnn_rnn_flatten_weight([torch.ones(1, device="npu")], 1, 1, 1, 1, 0, 1, False, False)


def test_operators_with_a_cpu_kernel_beside_a_composite_one_use_the_cpu_kernel():
    """A composite kernel would win over the fallback, and differ from what the CPU computes."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    composite = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")
    names = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::") and has(n, "CPU")]
    both = [n for n in names if any(has(n, key) for key in composite)]
    assert len(both) > 10
    assert [n for n in both if not has(n, "PrivateUse1")] == []


def run(code: str, **environment: str) -> subprocess.CompletedProcess:
    import os

    code = "import torch, tilewright\nx = torch.tensor([1.5, 2.5], device='npu')\n" + code
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}
    )


def test_announced_once_per_operator():
    done = run("x.lgamma(); x.lgamma(); x.digamma()", TILEWRIGHT_FALLBACK="warn")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("aten::lgamma.out has no native kernel") == 1
    assert done.stderr.count("aten::digamma.out has no native kernel") == 1


def test_silent_says_nothing_but_counts():
    done = run("x.lgamma(); print(torch.npu.fallback_counts())", TILEWRIGHT_FALLBACK="silent")
    assert done.stderr == "" and "'aten::lgamma.out': 1" in done.stdout


def test_error_refuses_and_copies_and_printing_still_work():
    done = run("print(x); print(x.cpu(), x[1].item(), x.clone().zero_())\nx.lgamma()", TILEWRIGHT_FALLBACK="error")
    assert "NotImplementedError: aten::lgamma.out has no native kernel on npu" in done.stderr
    assert "TILEWRIGHT_FALLBACK=warn" in done.stderr and "tensor([1.5000, 2.5000], device='npu:0')" in done.stdout


def test_a_word_that_is_no_mode_is_an_error():
    done = run("x.lgamma()", TILEWRIGHT_FALLBACK="loud")
    assert done.returncode != 0 and "TILEWRIGHT_FALLBACK" in done.stderr and "loud" in done.stderr
