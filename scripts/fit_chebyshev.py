"""Print the module of Chebyshev coefficients: `treadle.tensor.functions.chebyshev`.

    python scripts/fit_chebyshev.py > src/treadle/tensor/functions/chebyshev.py

Each function is interpolated at Chebyshev's nodes with 40 digits, and what is below float64's
rounding is left out. Needs mpmath.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import mpmath
from mpmath import exp, log, mp, mpf, pi, sqrt

mp.dps = 40
NODES = 80
LEAST = mpf(10) ** -18


def coefficients(f: Callable[[mpf], mpf]) -> list[float]:
    """Of f on -1 to 1, up to what counts in float64."""
    nodes = [mpmath.cos(pi * (2 * k + 1) / (2 * NODES)) for k in range(NODES)]
    values = [f(x) for x in nodes]
    found = [
        2
        * sum(v * mpmath.cos(pi * n * (2 * k + 1) / (2 * NODES)) for k, v in enumerate(values))
        / NODES
        for n in range(NODES)
    ]
    found[0] /= 2
    largest = max(map(abs, found))
    last = max(n for n, c in enumerate(found) if abs(c) > LEAST * largest)
    rest = sum(mpmath.chebyt(n, mpf(1) / 3) * c for n, c in enumerate(found[: last + 1])) - f(
        mpf(1) / 3
    )
    assert abs(rest) < 100 * LEAST * largest, rest
    return [float(c) for c in found[: last + 1]]


def wave(order: int, part: int) -> Callable[[mpf], mpf]:
    """P or Q of Hankel's form J = sqrt(2 / pi x) (P cos - Q sin), in (8 / x)^2 on 0 to 1."""

    def f(t: mpf) -> mpf:
        x = 8 / sqrt((t + 1) / 2)
        angle = x - pi / 4 - order * pi / 2
        j, y = mpmath.besselj(order, x), mpmath.bessely(order, x)
        both = (
            j * mpmath.cos(angle) + y * mpmath.sin(angle),
            y * mpmath.cos(angle) - j * mpmath.sin(angle),
        )
        return sqrt(pi * x / 2) * both[part] * (x / 8 if part else 1)

    return f


def near(f: Callable[[mpf], mpf]) -> Callable[[mpf], mpf]:
    """In x^2, for x from 0 to 8."""
    return lambda t: f(sqrt(32 * (t + 1)))


def decaying(f: Callable[[mpf], mpf], begin: int) -> Callable[[mpf], mpf]:
    """In 1 / x, for x from `begin` on."""
    return lambda t: f(2 * begin / (t + 1))


def bent(t: mpf) -> mpf:
    """(1 + 2 x) exp(x^2) erfc(x) in (x - 15/4) / (x + 15/4): Shepherd and Laframboise (1981)."""
    x = mpf(15) / 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * exp(x * x) * mpmath.erfc(x)


def quantile(t: mpf) -> mpf:
    """z (z - log(z) / z - x) in 1 / z, where z = sqrt(-2 log p) from 2 to 40, p = ndtr(-x)."""
    low, high = mpf(1) / 40, mpf(1) / 2
    z = 1 / (low + (high - low) * (t + 1) / 2)
    goal, x = -z * z / 2, z - log(z) / z
    for _ in range(30):
        tail = mpmath.erfc(x / sqrt(2)) / 2
        step = (log(tail) - goal) * tail / (exp(-x * x / 2) / sqrt(2 * pi))
        x += step
        if abs(step) < mpf(10) ** -38:
            break
    return z * (z - log(z) / z - x)


def _without_pole(x: mpf) -> mpf:
    pole = 2 / pi * (log(x) * mpmath.besselj(1, x) - 1 / x)
    return (mpmath.bessely(1, x) - pole) / x


TABLES = {
    "I0_FAR": ("sqrt(x) exp(-x) I0(x) in 16 / x - 1, x > 8",
               decaying(lambda x: sqrt(x) * exp(-x) * mpmath.besseli(0, x), 8)),
    "I1_FAR": ("sqrt(x) exp(-x) I1(x) in 16 / x - 1, x > 8",
               decaying(lambda x: sqrt(x) * exp(-x) * mpmath.besseli(1, x), 8)),
    "K0_FAR": ("sqrt(x) exp(x) K0(x) in 4 / x - 1, x > 2",
               decaying(lambda x: sqrt(x) * exp(x) * mpmath.besselk(0, x), 2)),
    "K1_FAR": ("sqrt(x) exp(x) K1(x) in 4 / x - 1, x > 2",
               decaying(lambda x: sqrt(x) * exp(x) * mpmath.besselk(1, x), 2)),
    "J0_NEAR": ("J0(x) in x^2 / 32 - 1, x < 8", near(lambda x: mpmath.besselj(0, x))),
    "J1_NEAR": ("J1(x) / x in x^2 / 32 - 1, x < 8", near(lambda x: mpmath.besselj(1, x) / x)),
    "Y0_NEAR": ("Y0(x) - 2 / pi log(x) J0(x) in x^2 / 32 - 1, x < 8",
                near(lambda x: mpmath.bessely(0, x) - 2 / pi * log(x) * mpmath.besselj(0, x))),
    "Y1_NEAR": ("(Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x in x^2 / 32 - 1, x < 8",
                near(_without_pole)),
    "P0": ("Hankel's P of order 0 in 128 / x^2 - 1, x > 8", wave(0, 0)),
    "Q0": ("Hankel's Q x / 8 of order 0 in 128 / x^2 - 1, x > 8", wave(0, 1)),
    "P1": ("Hankel's P of order 1 in 128 / x^2 - 1, x > 8", wave(1, 0)),
    "Q1": ("Hankel's Q x / 8 of order 1 in 128 / x^2 - 1, x > 8", wave(1, 1)),
    "ERFCX": ("(1 + 2 x) exp(x^2) mpmath.erfc(x) in (x - 3.75) / (x + 3.75), x > 0", bent),
    "NDTRI": ("z (z - log(z) / z + ndtri(exp(-z^2 / 2))) in 1 / z, z from 2 to 40", quantile),
}  # fmt: skip


def main() -> None:
    print('"""Coefficients of Chebyshev series, lowest first; made by scripts/fit_chebyshev.py."""')
    names = textwrap.fill(", ".join(f'"{name}"' for name in sorted(TABLES)), 96)
    print(f"\n__all__ = [\n{textwrap.indent(names, '    ')},\n]  # fmt: skip\n")
    for name, (meaning, f) in TABLES.items():
        lines = textwrap.wrap(", ".join(map(repr, coefficients(f))), 96)
        print(f"# of {meaning}\n{name} = (")
        print(textwrap.indent("\n".join(lines), "    ") + ",\n)  # fmt: skip")


if __name__ == "__main__":
    main()
