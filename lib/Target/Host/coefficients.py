"""Fits the polynomials of MathFunctions*.cpp and writes MathCoefficients.h.

Each fit is a minimax polynomial by Remez's exchange algorithm, in 60 digits: P minimises the largest |P(x) - f(x)| * w(x). The
weight w makes that the relative error of the function that P is a part of. Run: python coefficients.py > MathCoefficients.h
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import numpy as np

mp.mp.dps = 60
Function = Callable[[mp.mpf], mp.mpf]


def remez(f: Function, weight: Function, low: float, high: float, degree: int) -> tuple[list[mp.mpf], mp.mpf]:
    """Coefficients from degree 0 up, and the largest weighted error."""
    low, high = mp.mpf(low), mp.mpf(high)
    count = degree + 2
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    points = [x if abs(x) > 1e-12 else (high - low) / 100 for x in points]  # weights may vanish at zero
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / 600) for i in range(601)]
    grid = [x for x in grid if abs(x) > 1e-12]  # quotients that are 0/0 at zero
    wanted = [f(x) for x in grid]
    weights = [weight(x) for x in grid]
    coefficients: list[mp.mpf] = []
    largest = mp.mpf(0)
    for _ in range(12):
        rows = [[x**k for k in range(degree + 1)] + [(-1) ** i / weight(x)] for i, x in enumerate(points)]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([f(x) for x in points]))
        coefficients = [solution[k] for k in range(degree + 1)]
        errors = [(mp.polyval(coefficients[::-1], x) - y) * w for x, y, w in zip(grid, wanted, weights, strict=False)]
        # One extremum per run of equal sign.
        extrema: list[int] = []
        for i, error in enumerate(errors):
            if not extrema or mp.sign(error) != mp.sign(errors[extrema[-1]]):
                extrema.append(i)
            elif abs(error) > abs(errors[extrema[-1]]):
                extrema[-1] = i
        while len(extrema) > count:  # drop the smaller end
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        largest = max(abs(error) for error in errors)
        if len(extrema) < count:
            break  # the error is at the limit of the grid
        points = [grid[i] for i in extrema]
        if largest - abs(solution[degree + 1]) < largest * mp.mpf("1e-4"):
            break
    return coefficients, largest


def emit(name: str, comment: str, coefficients: list[mp.mpf], error: mp.mpf, single: bool) -> None:
    print(f"// {comment}\n// Largest error 2^{float(mp.log(error, 2)):.1f}.")
    numbers = [float(np.float32(float(c))) if single else float(c) for c in coefficients]
    print(f"inline constexpr double {name}[] = {{")
    for number in numbers:
        print(f"    {number.hex()},")
    print("};\n")


def fit(
    name: str, comment: str, f: Function, weight: Function, low: float, high: float, degree: int, single: bool
) -> None:
    coefficients, error = remez(f, weight, low, high, degree)
    emit(name, comment, coefficients, error, single)


def fit_table(name: str, comment: str, f: Function, step: float, degree: int) -> None:
    """16 polynomials of t = x - k step, |t| <= step / 2, for k = 0..15; relative error. Rows are degrees; degree 0 has two: what f32
    holds of the coefficient, and the rest."""
    columns, largest = [], mp.mpf(0)
    for k in range(16):
        low = max(0.0, (k - 0.5) * step)

        def shifted(t: mp.mpf, k: int = k) -> mp.mpf:
            return f(t + k * step)

        coefficients, error = remez(shifted, lambda t, k=k: 1 / f(t + k * step), low - k * step, step / 2, degree)
        columns.append(coefficients)
        largest = max(largest, error)
    print(f"// {comment}\n// Largest error 2^{float(mp.log(largest, 2)):.1f}.")
    print(f"inline constexpr double {name}Step = {float(step).hex()};")
    print(f"inline constexpr float {name}[][16] = {{")
    high = [float(np.float32(float(column[0]))) for column in columns]
    rest = [float(np.float32(float(column[0] - mp.mpf(h)))) for column, h in zip(columns, high, strict=False)]
    rows = [[float(np.float32(float(column[row]))) for column in columns] for row in range(1, degree + 1)]
    for numbers in [high, rest, *rows]:
        print("    {" + ", ".join(number.hex() + "f" for number in numbers) + "},")
    print("};\n")


def main() -> None:
    half_ln2 = float(mp.log(2) / 2) * 1.001  # rounding of the quotient may leave a little more than half
    print(
        "//===- MathCoefficients.h - written by coefficients.py -----------*- C++ -*-===//\n#pragma once\n\n// clang-format off\n"
    )
    print("namespace tilewright::host::coefficients {\n")

    # exp: e^r = 1 + r + r^2 P(r).
    def exp_part(r: mp.mpf) -> mp.mpf:
        return (mp.expm1(r) - r) / r**2 if r else mp.mpf(1) / 2

    fit(
        "expF32",
        "(e^r - 1 - r) / r^2 on |r| <= ln(2)/2; error relative to e^r",
        exp_part,
        lambda r: r**2 / mp.exp(r),
        -half_ln2,
        half_ln2,
        4,
        True,
    )
    fit(
        "expm1F32",
        "(e^r - 1 - r) / r^2 on |r| <= ln(2)/2; error relative to e^r - 1",
        exp_part,
        lambda r: abs(r**2 / mp.expm1(r)) if r else mp.mpf(0),
        -half_ln2,
        half_ln2,
        5,
        True,
    )
    fit(
        "expF64",
        "(e^r - 1 - r) / r^2 on |r| <= ln(2)/2; error relative to e^r - 1",
        exp_part,
        lambda r: abs(r**2 / mp.expm1(r)) if r else mp.mpf(0),
        -half_ln2,
        half_ln2,
        8,
        False,
    )
    # exp2: 2^r = 1 + r P(r).
    fit(
        "exp2F32",
        "(2^r - 1) / r on |r| <= 1/2; error relative to 2^r",
        lambda r: mp.expm1(r * mp.log(2)) / r if r else mp.log(2),
        lambda r: abs(r) / mp.power(2, r),
        -0.501,
        0.501,
        5,
        True,
    )

    # log: with f = m - 1, log(1 + f) = f - f^2/2 + f^3 P(f).
    low, high = float(mp.sqrt(0.5)) - 1 - 1e-3, float(mp.sqrt(2)) - 1 + 1e-3

    def log_part(f: mp.mpf) -> mp.mpf:
        return (mp.log1p(f) - f + f**2 / 2) / f**3 if f else mp.mpf(1) / 3

    fit(
        "logF32",
        "(log(1 + f) - f + f^2/2) / f^3 on sqrt(1/2) <= 1 + f <= sqrt(2); error relative to log(1 + f)",
        log_part,
        lambda f: abs(f**3 / mp.log1p(f)) if f else mp.mpf(0),
        low,
        high,
        8,
        True,
    )
    # log in double precision: with s = f / (2 + f), log(1 + f) = 2 atanh(s) = 2 s + s^3 P(s^2).
    top = 0.1721**2
    fit(
        "logF64",
        "(2 atanh(s) - 2 s) / s^3 as a polynomial of s^2, s^2 <= 0.0296; error relative to 2 atanh(s)",
        lambda u: (2 * mp.atanh(mp.sqrt(u)) - 2 * mp.sqrt(u)) / mp.sqrt(u) ** 3 if u else mp.mpf(2) / 3,
        lambda u: u / 2,
        0,
        top,
        5,
        False,
    )

    # tanh(x) = x + x^3 P(x^2) near zero.
    fit(
        "tanhF32",
        "(tanh(x) - x) / x^3 as a polynomial of x^2, |x| <= 0.65; error relative to tanh(x)",
        lambda u: (mp.tanh(mp.sqrt(u)) / mp.sqrt(u) - 1) / u if u else -mp.mpf(1) / 3,
        lambda u: u * mp.sqrt(u) / mp.tanh(mp.sqrt(u)) if u else mp.mpf(0),
        0,
        0.65**2,
        5,
        True,
    )

    # erf: x + x P(x^2) near zero, else 1 - exp(-x Q(x)) up to where it is 1.
    fit(
        "erfNearF32",
        "erf(x) / x - 1 as a polynomial of x^2, |x| <= 1; error relative to erf(x)",
        lambda u: mp.erf(mp.sqrt(u)) / mp.sqrt(u) - 1 if u else 2 / mp.sqrt(mp.pi) - 1,
        lambda u: mp.sqrt(u) / mp.erf(mp.sqrt(u)) if u else mp.sqrt(mp.pi) / 2,
        0,
        1.002,
        6,
        True,
    )
    fit(
        "erfFarF32",
        "-log(erfc(x)) / x as a polynomial of x, 1 <= x <= 4; error relative to erf(x)",
        lambda x: -mp.log(mp.erfc(x)) / x,
        lambda x: x * mp.erfc(x) / mp.erf(x),
        0.998,
        4.0,
        6,
        True,
    )

    # erfc(x) = exp(-x^2) P(t) with t = (x - 2) / (x + 2).
    def mapped(t: mp.mpf) -> mp.mpf:
        return 2 * (1 + t) / (1 - t)

    fit(
        "erfcF64",
        "erfc(x) exp(x^2) as a polynomial of t = (x - 2) / (x + 2), 0.5 <= x <= 10.3; relative error",
        lambda t: mp.erfc(mapped(t)) * mp.exp(mapped(t) ** 2),
        lambda t: 1 / (mp.erfc(mapped(t)) * mp.exp(mapped(t) ** 2)),
        -0.6001,
        (10.3 - 2) / (10.3 + 2),
        15,
        False,
    )
    fit(
        "erfF64",
        "erf(x) / x as a polynomial of x^2, |x| <= 1/2; relative error",
        lambda u: mp.erf(mp.sqrt(u)) / mp.sqrt(u) if u else 2 / mp.sqrt(mp.pi),
        lambda u: mp.sqrt(u) / mp.erf(mp.sqrt(u)) if u else mp.sqrt(mp.pi) / 2,
        0,
        0.2501,
        7,
        False,
    )

    # Trigonometric functions in double precision on |r| <= pi/4.
    quarter = float(mp.pi / 4) * 1.0001
    fit(
        "sinF64",
        "(sin(r) - r) / r^3 as a polynomial of r^2; error relative to sin(r)",
        lambda u: (mp.sin(mp.sqrt(u)) / mp.sqrt(u) - 1) / u if u else -mp.mpf(1) / 6,
        lambda u: u * mp.sqrt(u) / mp.sin(mp.sqrt(u)) if u else mp.mpf(0),
        0,
        quarter**2,
        4,
        False,
    )
    fit(
        "cosF64",
        "(cos(r) - 1 + r^2/2) / r^4 as a polynomial of r^2; error relative to cos(r)",
        lambda u: (mp.cos(mp.sqrt(u)) - 1 + u / 2) / u**2 if u else mp.mpf(1) / 24,
        lambda u: u**2 / mp.cos(mp.sqrt(u)),
        0,
        quarter**2,
        4,
        False,
    )
    fit(
        "atanF64",
        "(atan(x) - x) / x^3 as a polynomial of x^2, |x| <= tan(pi/8); error relative to atan(x)",
        lambda u: (mp.atan(mp.sqrt(u)) / mp.sqrt(u) - 1) / u if u else -mp.mpf(1) / 3,
        lambda u: u * mp.sqrt(u) / mp.atan(mp.sqrt(u)) if u else mp.mpf(0),
        0,
        float(mp.tan(mp.pi / 8)) ** 2 * 1.0001,
        8,
        False,
    )

    # Tables of 16, which one instruction of AVX-512 looks up.
    fit_table(
        "erfTable",
        "erf(x) / x for x <= 4.1",
        lambda x: mp.erf(x) / x if abs(x) > 1e-12 else 2 / mp.sqrt(mp.pi),
        17 / 64,
        5,
    )
    fit_table(
        "tanhTable", "tanh(x) / x for x <= 9.2", lambda x: mp.tanh(x) / x if abs(x) > 1e-12 else mp.mpf(1), 19 / 32, 7
    )
    print("} // namespace tilewright::host::coefficients")


if __name__ == "__main__":
    main()
