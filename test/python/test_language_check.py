"""Run-time checking of kernel programs: every planted fault is found and named, and right programs are not accused."""

from __future__ import annotations

import pathlib
import re

import pytest
import torch
from hand_written_programs import (
    collatz_program,
    flash_attention_program,
    gather_program,
    matmul_program,
    softmax_program,
)
from program_builder import ALL, Builder, Part

from tilewright.language.check import Finding, KernelCheckError, check, check_or_raise


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, "\n".join(map(str, findings))
    return findings[0]


def assert_finding(finding: Finding, kind: str, message: str, source: str) -> None:
    assert finding.kind == kind
    assert re.search(message, finding.message), finding.message
    assert source in finding.source
    assert pathlib.Path(finding.file).name == "test_language_check.py"
    assert source in pathlib.Path(finding.file).read_text().splitlines()[finding.line - 1]
    assert str(finding).startswith(f"{finding.file}:{finding.line}: ")


@pytest.mark.parametrize("tiles", [None, 1, 3, 100])
def test_right_programs_are_not_accused(tiles):
    q, k, v = torch.randn(3, 2, 13, 4).unbind(0)
    for program, arguments in (
        (softmax_program(), [torch.randn(17, 5), torch.empty(17, 5)]),
        (softmax_program(), [torch.randn(0, 5), torch.empty(0, 5)]),
        (matmul_program("f32", "f32"), [torch.randn(7, 9), torch.randn(9, 13), torch.empty(7, 13)]),
        (gather_program(), [torch.randn(5, 3), torch.tensor([4, 0], dtype=torch.int32), torch.empty(2, 3)]),
        (flash_attention_program(True), [q, k, v, torch.empty(2, 13, 4)]),
        (collatz_program(), [torch.arange(1, 9, dtype=torch.int32), torch.empty(8, dtype=torch.int64)]),
    ):
        assert check(program, arguments, tiles=tiles) == []


def test_arguments_stay_as_they_are():
    x, y = torch.randn(4, 5), torch.full((4, 5), 3.0)
    check(softmax_program(), [x, y])
    assert (y == 3).all()
    expanded = torch.randn(1, 5).expand(4, 5)
    assert check(softmax_program(), [expanded, y]) == []


def shifted_store(by):
    b = Builder("off_by_one", "N")
    X, Y = b.tensor("X", "f32", ["s0"]), b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        b.store(Y, [i.shifted(by)], b.load(X, [i]))
    return b.program


def test_store_beyond_the_end_and_the_element_that_it_missed():
    beyond, missed = check(shifted_store(1), [torch.randn(12), torch.empty(12)])
    assert_finding(
        beyond,
        "out-of-bounds",
        r"store writes Y\[12\], but dimension 0 of Y has 12 elements \(0 .. 11\), at grid point \(i = 10..11\)",
        "b.store(Y, [i.shifted(by)]",
    )
    assert beyond.points == ({"i": (10, 2)},) and beyond.count == 1
    assert_finding(missed, "unwritten", r"Y\[0\] is never written", 'b.tensor("Y"')


def test_load_before_the_beginning():
    b = Builder("left", "N")
    X, Y = b.tensor("X", "f32", ["s0"]), b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        b.store(Y, [i], b.load(X, [i.shifted(-1)]))
    finding = only(check(b.program, [torch.randn(12), torch.empty(12)]))
    assert_finding(
        finding, "out-of-bounds", r"load reads X\[-1\], .* at grid point \(i = 0..4\)", "b.load(X, [i.shifted(-1)])"
    )


def test_off_by_one_loop_bound():
    b = Builder("loop", "M", "N")
    X, Y = b.tensor("X", "f32", ["s0", "s1"]), b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        with b.loop("k", "0", "s1 + 1", tile="scalar", carry=[b.full([i.size], 0)]) as loop:
            loop.next(b.add(loop.args[0], b.load(X, [i, loop.axis])))
        b.store(Y, [i], loop.results[0])
    finding = only(check(b.program, [torch.randn(6, 4), torch.empty(6)]))
    assert_finding(
        finding,
        "out-of-bounds",
        r"load reads X\[0, 4\], but dimension 1 of X has 4 elements",
        "b.load(X, [i, loop.axis])",
    )
    assert finding.count == 6  # rows, in two tiles


def test_gather_and_scatter_outside():
    b = Builder("move", "N", "T")
    X, From, To = b.tensor("X", "f32", ["s0"]), b.tensor("From", "i64", ["s1"]), b.tensor("To", "i64", ["s1"])
    Y = b.tensor("Y", "f32", ["s0"], kind="inout")
    with b.parallel(("t", "s1")) as (t,):
        x = b.load(X, [b.load(From, [t])])
        b.store(Y, [b.load(To, [t])], x)
    arguments = [torch.randn(4), torch.tensor([0, 4, 2]), torch.tensor([0, 1, -2]), torch.randn(4)]
    gather, scatter = check(b.program, arguments)
    assert_finding(
        gather, "out-of-bounds", r"load reads X\[4\], but dimension 0 of X has 4 elements", "b.load(X, [b.load(From"
    )
    assert_finding(scatter, "out-of-bounds", r"store writes Y\[-2\]", "b.store(Y, [b.load(To")


def test_two_grid_points_write_one_element():
    b = Builder("columns", "M", "N")
    X, Y = b.tensor("X", "f32", ["s0", "s1"]), b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0"), ("j", "s1")) as (i, j):
        b.store(Y, [i], b.reduce("sum", b.load(X, [i, j]), 1))
    finding = only(check(b.program, [torch.randn(3, 7), torch.empty(3)]))
    assert_finding(
        finding,
        "race",
        r"grid point \(i = 0..2, j = 5..6\) writes Y\[0\], which grid point \(i = 0..2, j = 0..4\) writes too$",
        "b.store(Y, [i], b.reduce",
    )
    assert len(finding.points) == 2 and finding.count == 3
    assert check(b.program, [torch.randn(3, 5), torch.empty(3)]) == []  # one tile, one writer


def neighbour_program():
    b = Builder("neighbour", "N")
    Y = b.tensor("Y", "f32", ["s0"], kind="inout")
    with b.parallel(("i", "s0")) as (i,):
        y = b.load(Y, [i.shifted(1)], fill=0)
        b.store(Y, [i], y)
    return b.program


@pytest.mark.parametrize("order", ["row-major", "reversed", 3])
def test_a_grid_point_reads_what_another_writes(order):
    findings = check(neighbour_program(), [torch.randn(12)], order=order)
    assert {f.kind for f in findings} == {"race"}
    assert sum(f.count for f in findings) == 2  # at each of the two borders between tiles
    for f in findings:
        assert re.search(r"(reads|writes) Y\[\d+\], which grid point \(.*\) (reads|writes) \(line \d+\)", f.message)


def test_atomic_additions_do_not_race_with_each_other_but_with_reads_and_writes():
    def program(then):
        b = Builder("count", "N")
        H, Y = b.tensor("H", "i32", [1], kind="inout"), b.tensor("Y", "i32", ["s0"], kind="out")
        with b.parallel(("i", "s0", "scalar")) as (i,):
            b.atomic_add(H, [0], 1)
            if then == "read":
                b.store(Y, [i], b.load(H, [0]))
            else:
                b.store(Y, [i], 0)
            if then == "write":
                b.store(H, [0], 5)
        return b.program

    arguments = [torch.zeros(1, dtype=torch.int32), torch.empty(4, dtype=torch.int32)]
    assert check(program("nothing"), arguments) == []
    messages = [f.message for f in check(program("read"), arguments)]
    assert any(re.search(r"reads H\[0\], which grid point \(i = 0\) adds to \(line", m) for m in messages), messages
    messages = [f.message for f in check(program("write"), arguments)]
    assert any(re.search(r"adds to H\[0\], which grid point \(i = 0\) writes \(line", m) for m in messages), messages


def test_one_store_writes_an_element_twice():
    b = Builder("scatter", "N", "T")
    Indices, Y = b.tensor("I", "i64", ["s1"]), b.tensor("Y", "f32", ["s0"], kind="inout")
    with b.parallel(("t", "s1")) as (t,):
        b.store(Y, [b.load(Indices, [t])], 1)
    finding = only(check(b.program, [torch.tensor([2, 0, 2]), torch.zeros(3)]))
    assert_finding(
        finding, "race", r"one store writes Y\[2\] 2 times, at grid point \(t = 0..2\)", "b.store(Y, [b.load(Indices"
    )


def test_unwritten_tail():
    b = Builder("halves", "N")
    X, Y = b.tensor("X", "f32", ["s0"]), b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "0", "s0 // 2 * 2", None)) as (i,):
        b.store(Y, [i], b.load(X, [i]))
    assert check(b.program, [torch.randn(8), torch.empty(8)]) == []
    finding = only(check(b.program, [torch.randn(9), torch.empty(9)]))
    assert_finding(finding, "unwritten", r"Y\[8\] is never written", 'b.tensor("Y"')


def test_unwritten_elements_are_counted():
    b = Builder("corner", "M", "N")
    Y = b.tensor("Y", "f32", ["s0", "s1"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        b.store(Y, [i, Part("0", "1")], 0)
    finding = only(check(b.program, [torch.empty(3, 4)]))
    assert finding.message == "Y[0, 1] and 8 more of its elements are never written" and finding.count == 9


def test_an_empty_grid_writes_nothing_and_is_legal():
    b = Builder("rows", "M", "N")
    X, Y = b.tensor("X", "f32", ["s0", "s1"]), b.tensor("Y", "f32", ["s1"], kind="out")
    with b.parallel(("i", "s0", "scalar")) as (i,):
        b.store(Y, [ALL], b.load(X, [i, ALL]))
    assert check(b.program, [torch.empty(0, 3), torch.empty(3)]) == []


def test_reading_an_output_before_it_is_written():
    b = Builder("accumulate", "N")
    X, Y = b.tensor("X", "f32", ["s0"]), b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        b.store(Y, [i], b.add(b.load(Y, [i]), b.load(X, [i])))
        b.store(Y, [i], b.mul(b.load(Y, [i]), 2))  # by now it is written
    finding = only(check(b.program, [torch.randn(7), torch.empty(7)]))
    assert_finding(
        finding,
        "uninitialised",
        r"load reads Y\[0\] before anything has written it, at grid point",
        "b.load(Y, [i]), b.load(X",
    )
    assert finding.count == 7


def test_adding_to_an_output_before_it_is_written():
    b = Builder("histogram", "N", "B")
    X, H = b.tensor("X", "i64", ["s0"]), b.tensor("H", "i32", ["s1"], kind="out")
    with b.parallel(("i", "s0")) as (i,):
        b.atomic_add(H, [b.load(X, [i])], 1)
    finding = next(f for f in check(b.program, [torch.tensor([1, 1, 0]), torch.empty(2, dtype=torch.int32)]))
    assert_finding(
        finding, "uninitialised", r"atomic_add adds to H\[1\] before anything has written it", "b.atomic_add(H"
    )


def overflowing_program(kind):
    b = Builder("offsets", "N", "T")
    X, P = b.tensor("X", "f32", ["s0"]), b.tensor("P", "i32", ["s1"])
    Y = b.tensor("Y", "f32", ["s1"], kind="out")
    with b.parallel(("t", "s1")) as (t,):
        p = b.load(P, [t])
        if kind == "i32":
            index = b.mod(b.mul(p, 65536), b.cast(b.size("s0"), "i32"))
        elif kind == "i64":
            index = b.mod(b.mul(b.cast(p, "i64"), 65536), b.size("s0"))
        elif kind == "cast":
            index = b.mod(b.cast(b.mul(b.cast(p, "i64"), 65536), "i32"), b.cast(b.size("s0"), "i32"))
        else:  # only decides, and is no index
            index = b.select(b.lt(b.mul(p, 65536), 0), 0, b.mod(p, b.cast(b.size("s0"), "i32")))
        b.store(Y, [t], b.load(X, [index]))
    return b.program


def test_indices_that_overflow():
    arguments = [torch.randn(7), torch.tensor([1, 2, 40000], dtype=torch.int32), torch.empty(3)]
    assert_finding(
        only(check(overflowing_program("i32"), arguments)),
        "overflow",
        r"mul of 40000, 65536 does not fit i32, and an index is computed from it \(at \[2\]\); compute indices in i64",
        "b.mul(p, 65536)",
    )
    assert_finding(
        only(check(overflowing_program("cast"), arguments)),
        "overflow",
        "cast of 2621440000 does not fit i32",
        'b.cast(b.mul(b.cast(p, "i64")',
    )
    assert check(overflowing_program("i64"), arguments) == []
    assert check(overflowing_program("condition"), arguments) == []
    assert (
        check(overflowing_program("i32"), [arguments[0], torch.tensor([1, 2, 3], dtype=torch.int32), arguments[2]])
        == []
    )


def test_failed_assertions_zero_divisors_and_bounds():
    b = Builder("data", "N")
    X, L = b.tensor("X", "i32", ["s0"]), b.tensor("L", "i64", ["s0"])
    Y = b.tensor("Y", "i32", ["s0"], kind="out")
    with b.parallel(("i", "s0", "scalar")) as (i,):
        x = b.load(X, [i])
        b.assert_(b.lt(x, 5), "X stays below five")
        n = b.bind(b.load(L, [i]), "0", "s0")
        total = b.reduce("sum", b.load(X, [Part("0", n)]), 0)
        b.store(Y, [i], b.fdiv(total, x))
    x, n = torch.tensor([1, 0, 9, 9], dtype=torch.int32), torch.tensor([1, 4, 3, 7])
    findings = check(b.program, [x, n, torch.empty(4, dtype=torch.int32)])
    failed, divided, bound = (
        next(f for f in findings if f.kind == kind) for kind in ("assert", "zero-divisor", "bound")
    )
    assert len(findings) == 3
    assert_finding(failed, "assert", r"assertion failed: X stays below five, at grid point \(i = 2\)", "b.assert_(")
    assert failed.count == 2
    assert_finding(
        divided, "zero-divisor", r"an integer is divided by zero, at grid point \(i = 1\)", "b.fdiv(total, x)"
    )
    assert_finding(bound, "bound", r"is 7, which must lie in \[0, 4\], at grid point \(i = 3\)", "b.bind(")


def test_only_the_first_few_of_a_kind_are_told():
    b = Builder("many", "N")
    X = b.tensor("X", "f32", ["s0"])
    Y = b.tensor("Y", "f32", ["s0"], kind="out")
    with b.parallel(("i", "s0", "scalar")) as (i,):
        total = b.const(0)
        for k in range(1, 8):
            total = b.add(total, b.load(X, [f"{i.start} + {k}"]))
        b.store(Y, [i], total)
    findings = check(b.program, [torch.zeros(4), torch.empty(4)])
    assert [f.kind for f in findings] == ["out-of-bounds"] * 3
    assert [f.message[: len("load reads X[4]")] for f in findings] == [
        "load reads X[4]",
        "load reads X[5]",
        "load reads X[6]",
    ]
    assert [f.count for f in findings] == [4, 4, 4]


def test_error_lists_the_findings():
    with pytest.raises(
        KernelCheckError, match=r"2 faults found in off_by_one:\n.*Y\[12\].*\n.*b.store.*\n.*Y\[0\] is never"
    ) as error:
        check_or_raise(shifted_store(1), [torch.randn(12), torch.empty(12)])
    assert [f.kind for f in error.value.findings] == ["out-of-bounds", "unwritten"]
    check_or_raise(shifted_store(0), [torch.randn(12), torch.empty(12)])


def test_arguments_that_do_not_fit_are_no_findings():
    with pytest.raises(ValueError, match="dimension 0 of Y is 3, but must be N = 4"):
        check(shifted_store(0), [torch.randn(4), torch.empty(3)])
