"""Fits the minimax polynomials of `treadle.lower.polynomials` and prints them as Python tables.

That of ASIN is in `treadle.tensor.basis.reals`.

    python scripts/fit_polynomials.py             all of them
    python scripts/fit_polynomials.py EXP LOG     some of them

Each fit is a discrete Remez exchange in mpmath: the polynomial whose largest weighted error on a
dense grid is least. The printed comment is that error, in bits. Coefficients run from the constant
term upwards and are rounded to the element type.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 60
GRID = 900


@dataclass(frozen=True)
class Fit:
    """Approximate `function` on [low, high], errors weighed by `weight`."""

    name: str
    function: Callable[[Any], Any]
    weight: Callable[[Any], Any]
    low: Any
    high: Any
    count32: int
    count64: int = 0  # none: one table serves both types


def _power(c: list[Any], x: Any) -> Any:
    return mp.polyval(c[::-1], x)


def remez(fit: Fit, count: int, high: Any) -> tuple[list[Any], Any]:
    """`count` coefficients and the largest weighted error of the best polynomial on the grid."""
    middle, half = (high + fit.low) / 2, (high - fit.low) / 2
    xs = [middle - half * mp.cos(mp.pi * i / (GRID - 1)) for i in range(GRID)]
    wanted, weights = [fit.function(x) for x in xs], [fit.weight(x) for x in xs]
    picks = [round((GRID - 1) * i / count) for i in range(count + 1)]
    for _ in range(30):
        rows = [[xs[i] ** k for k in range(count)] + [(-1) ** n / weights[i]]
                for n, i in enumerate(picks)]  # fmt: skip
        solved = list(mp.lu_solve(mp.matrix(rows), mp.matrix([wanted[i] for i in picks])))
        coefficients, level = solved[:-1], abs(solved[-1])
        error = [
            (_power(coefficients, x) - g) * w for x, g, w in zip(xs, wanted, weights, strict=True)
        ]
        worst = max(abs(e) for e in error)
        if worst < level * 1.001:
            break
        picks = _extrema(error, count + 1)
    return coefficients, worst


def _extrema(error: list[Any], count: int) -> list[int]:
    """The largest error of each run of one sign; the ends are dropped until `count` remain."""
    runs: list[list[int]] = [[0]]
    for i in range(1, len(error)):
        if (error[i] > 0) == (error[i - 1] > 0):
            runs[-1].append(i)
        else:
            runs.append([i])
    peaks = [max(run, key=lambda i: abs(error[i])) for run in runs]
    while len(peaks) > count:
        peaks.pop(0 if abs(error[peaks[0]]) < abs(error[peaks[-1]]) else -1)
    if len(peaks) < count:
        raise ValueError(f"only {len(peaks)} extrema of {count}")
    return peaks


def _odd_log(z: Any, terms: int) -> Any:
    """log((1+s)/(1-s)) / s with z = s*s, less its first terms, over the power that remains."""
    return mp.nsum(lambda k: 2 * z ** (k - terms) / (2 * k + 1), [terms, 90])


def _log_erfc(x: Any) -> Any:
    return mp.log(mp.erfc(x))


def _scaled_erfc(u: Any) -> Any:
    """(x + 1) exp(x^2) erfc(x) where u = 1/4 - 1 / (x + 1)."""
    x = 1 / (mp.mpf(0.25) - u) - 1
    return (x + 1) * mp.exp(x * x) * mp.erfc(x)


def _erfc_place(x: float) -> Any:
    return mp.mpf(0.25) - 1 / (mp.mpf(x) + 1)


def _erfinv_of_log(w: Any) -> tuple[Any, Any]:
    """y and erfinv(y) where w = -log(1 - y^2)."""
    y = mp.sqrt(-mp.expm1(-w))
    return y, mp.erfinv(y)


def _erfinv_ratio(w: Any) -> Any:
    y, x = _erfinv_of_log(w)
    return x / y


def _erfinv_at_root(s: Any) -> Any:
    """erfinv(y) where s = sqrt(w - 3/4)."""
    return _erfinv_of_log(s * s + 0.75)[1]


def _root_of_log(w: float) -> Any:
    return mp.sqrt(mp.mpf(w) - 0.75)


LN2 = mp.log(2)
ERFC_SWITCH, ERFC_END = 0.75, {32: 10.5, 64: 27.5}
ERFINV_SWITCH, ERFINV_END = 4.0, {32: 16.0, 64: 36.8}
ROOT = mp.mpf(2.75)  # the fit beyond is in sqrt(w - 3/4) - 2.75
Z_LOG = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
Z_PI = (mp.pi / 4) ** 2
TINY = mp.mpf("1e-12")


def _root(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda z: function(mp.sqrt(z))


FITS = (
    Fit("EXP", lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: r**2 + 0.02, -LN2 / 2 * 1.001,
        LN2 / 2 * 1.001, 5, 10),
    Fit("LOG", lambda z: _odd_log(z, 1), lambda z: z + 0.001, TINY, Z_LOG * 1.001, 3, 7),
    Fit("LOG_TAIL", lambda z: _odd_log(z, 2), lambda z: z + 0.001, TINY, Z_LOG * 1.001, 3, 7),
    Fit("SIN", _root(lambda r: (mp.sin(r) - r) / r**3), lambda z: z + 0.02, TINY, Z_PI * 1.01,
        3, 6),
    Fit("COS", _root(lambda r: (mp.cos(r) - 1 + r * r / 2) / r**4), lambda z: z * z + 0.02, TINY,
        Z_PI * 1.01, 3, 6),
    Fit("TAN", _root(lambda r: (mp.tan(r) - r) / r**3), lambda z: z + 0.02, TINY, Z_PI * 1.01,
        7, 15),
    # more terms than values need: derivatives are those of the polynomial, second ones too
    Fit("ASIN", _root(lambda s: (mp.asin(s) - s) / s**3), lambda z: z + 0.01, TINY,
        mp.mpf(0.25) * 1.001, 8, 16),
    Fit("TANH", _root(lambda r: (mp.tanh(r) - r) / r**3), lambda z: z + 0.02, TINY,
        mp.mpf(0.625) ** 2, 5, 11),
    # closest where erfc is 1 less it
    Fit("ERF", _root(lambda r: mp.erf(r) / r - 1),
        _root(lambda x: 1 / mp.erfc(min(x, ERFC_SWITCH))), TINY, mp.mpf(1), 7, 12),
    Fit("ERFC", _log_erfc, mp.erfc, mp.mpf(1), mp.mpf(6), 7, 18),
    Fit("ATANH", _root(lambda r: (mp.atanh(r) - r) / r**3), lambda z: z + 0.01, TINY,
        mp.mpf(0.25), 6, 14),
    Fit("ACOSH", lambda t: (mp.acosh(1 + t) / mp.sqrt(2 * t) - 1) / t, lambda t: t + 0.01, TINY,
        mp.mpf(1), 6, 15),
    Fit("ERFC_TAIL", _scaled_erfc, lambda u: 1 / _scaled_erfc(u), _erfc_place(ERFC_SWITCH),
        _erfc_place(ERFC_END[64]), 11, 26),
    Fit("ERFINV_CENTRE", lambda w: _erfinv_ratio(w) - 1, lambda w: 1 / _erfinv_ratio(w), TINY,
        mp.mpf(ERFINV_SWITCH), 10),
    Fit("ERFINV_TAIL", lambda s: _erfinv_at_root(s + ROOT) - s - ROOT,
        lambda s: 1 / _erfinv_at_root(s + ROOT), _root_of_log(ERFINV_SWITCH) - ROOT,
        _root_of_log(ERFINV_END[64]) - ROOT, 9, 9),
)  # fmt: skip
HIGH32 = {
    "ERFC": mp.mpf(4), "ERFC_TAIL": _erfc_place(ERFC_END[32]),
    "ERFINV_TAIL": _root_of_log(ERFINV_END[32]) - ROOT,
}  # fmt: skip


def _rounded(value: Any, bits: int) -> str:
    return repr(float(np.float32(float(value)))) if bits == 32 else repr(float(value))


def main() -> None:
    names = sys.argv[1:]
    for fit in FITS:
        if names and fit.name not in names:
            continue
        counts = {bits: n for bits, n in ((32, fit.count32), (64, fit.count64)) if n}
        print(f"{fit.name} = {{")
        for bits, count in counts.items():
            high = HIGH32.get(fit.name, fit.high) if bits == 32 else fit.high
            coefficients, worst = remez(fit, count, high)
            print(f"    {bits}: (  # error 2**{float(mp.log(worst, 2)):.1f}")
            for c in coefficients:
                print(f"        {_rounded(c, bits)},")
            print("    ),")
        print("}")


if __name__ == "__main__":
    main()
