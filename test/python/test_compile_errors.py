"""What cannot be compiled is refused: operator, line of the user's program, what to do. Never run eagerly in silence."""

import functools
import warnings

import pytest
import torch
from graph_interpreter import build_interpreted
from torch._dynamo.exc import BackendCompilerFailed

from tilewright.dynamo.backend import compile_dynamo_graph
from tilewright.dynamo.errors import CompileError, InternalError, UnsupportedError, error_from_report

INTERPRETED = functools.partial(compile_dynamo_graph, builder=build_interpreted)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def refused(fn, *args, backend=INTERPRETED, **options):
    with pytest.raises(BackendCompilerFailed) as caught, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")  # a refusal is an error, not also a warning
        torch.compile(fn, backend=backend, **options)(*args)
    return caught.value


def test_message_survives_dynamo_and_names_operator_line_and_remedy():
    def build(description, text, stats):
        node = description.json["nodes"][0]
        raise UnsupportedError("sums of this dtype", op=node["op"], source=node["source"], hint="cast it")

    error = refused(lambda x: x + 1, torch.ones(3), backend=functools.partial(compile_dynamo_graph, builder=build))
    inner = error.inner_exception
    assert isinstance(inner, UnsupportedError) and isinstance(inner, CompileError)
    for text in (str(error), str(inner)):
        assert "sums of this dtype" in text
        assert "operator: aten.add.Tensor" in text
        assert "at: test_compile_errors.py:" in text and "lambda x: x + 1" in text
        assert "what to do: cast it" in text


def test_error_of_the_compiler_becomes_an_exception_of_its_kind():
    report = {
        "kind": "unsupported",
        "op": "aten.foo.default",
        "source": "m.py:1 in f: foo(x)",
        "message": "no",
        "hint": "do",
    }
    error = error_from_report(report)
    assert isinstance(error, UnsupportedError) and (error.op, error.source, error.hint) == (
        "aten.foo.default",
        "m.py:1 in f: foo(x)",
        "do",
    )
    internal = error_from_report({"kind": "internal", "message": "a contradiction", "op": "", "source": "", "hint": ""})
    assert isinstance(internal, InternalError) and "report it" in str(internal)
    assert type(error_from_report({"kind": "invalid", "message": "x"})) is CompileError


def test_unknown_dtype():
    error = refused(lambda x: x.to(torch.float8_e4m3fn).to(torch.float32), torch.ones(3))
    assert "float8_e4m3fn" in str(error) and "aten._to_copy.default" in str(error)


def test_higher_order_operator():
    def f(x):
        return torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))

    error = refused(f, torch.ones(3))
    assert "higher-order operator cond" in str(error) and "torch.compiler.disable" in str(error)


def test_result_size_that_depends_on_data():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        error = refused(lambda x: x.nonzero() + 1, torch.tensor([0.0, 1.0, 2.0]))
    assert "known only after running an operator" in str(error)
    assert "capture_dynamic_output_shape_ops" in str(error)


def test_graph_breaks_at_data_dependent_operators_by_default():
    def f(x):
        return (x * 2)[x > 0].sum() + 1

    x = torch.tensor([0.5, -1.0, 2.0])
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(f, backend=INTERPRETED)(x), f(x))


def test_exceptions_that_dynamo_takes_for_a_wish_to_run_eagerly():
    def build(description, text, stats):
        raise torch._subclasses.fake_tensor.UnsupportedOperatorException(torch.ops.aten.add.Tensor)

    error = refused(lambda x: x + 1, torch.ones(3), backend=functools.partial(compile_dynamo_graph, builder=build))
    assert isinstance(error.inner_exception, UnsupportedError) and "aten.add.Tensor" in str(error)


def test_unknown_options_and_modes():
    for options, word in (({"options": {"speed": 11}}, "speed"), ({"options": {"dynamic_first": 3}}, "dynamic_first")):
        with pytest.raises(Exception, match=word):
            torch.compile(lambda x: x + 1, backend="tilewright_under_test", **options)(torch.ones(2))
    with pytest.raises(Exception, match="mode 'fastest'"):
        torch.compile(lambda x: x + 1, backend="tilewright_under_test", mode="fastest")(torch.ones(2))


@pytest.fixture(autouse=True, scope="module")
def registered():
    from torch._dynamo.backends import registry

    def backend(gm, example_inputs, **kwargs):
        return compile_dynamo_graph(gm, example_inputs, builder=build_interpreted, **kwargs)

    registry.register_backend(backend, name="tilewright_under_test")
    yield
    del registry._COMPILER_FNS["tilewright_under_test"], registry._BACKENDS["tilewright_under_test"]


def test_misspelt_switch_value_is_refused(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_FALLBACK", "never")
    error = refused(lambda x: x + 1, torch.ones(3))
    assert "TILEWRIGHT_FALLBACK=never" in str(error) and "warn, silent or error" in str(error)
