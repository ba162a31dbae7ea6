"""HIP programs that clang compiles and lld links, on emulated GPUs, against NumPy.

No header or library of HIP's is used. `programs.hip` has the kernels.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.emulate.amd.foreign import CodeObject, launched, loaded

SOURCE = Path(__file__).with_name("programs.hip")
CLANG, LLD = "clang-22", "ld.lld-22"
CHIPS = ("gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1201")
LEVELS = ("-O1", "-O3")
ITEMS = 256
Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """A launch, and what its arrays hold afterwards, by their places among the arrays.

    Results are within `error` of the largest one and `relative` of each. `of_wave` makes those that
    depend on a wave's width.
    """

    groups: int
    arguments: list[Any]
    expected: dict[int, Array]
    error: float = 0
    of_wave: Callable[[int], dict[int, Array]] | None = None
    relative: float = 0


def drawn(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def whole(low: int, high: int, *shape: int, kind: type = np.int32, seed: int = 2) -> Array:
    return np.random.default_rng(seed).integers(low, high, shape, kind)


def vector_add() -> Case:
    a, b = drawn(2, 1000).astype(np.float32)
    return Case(2, [np.zeros_like(a), a, b, np.int32(1000)], {0: a + b})


def reduce() -> Case:
    x = drawn(1500).astype(np.float32)
    sums = [x[(np.arange(1500) // ITEMS) % 3 == group].sum(dtype=float) for group in range(3)]
    return Case(3, [np.zeros(3, np.float32), x, np.int32(1500)], {0: np.array(sums)}, 1e-6)


def transpose() -> Case:
    x = drawn(37, 50).astype(np.float32)
    return Case(12, [np.zeros((50, 37), np.float32), x, np.int32(37), np.int32(50)], {0: x.T})


def atomics() -> Case:
    x = whole(-1000, 1000, 700)
    first = np.array([0, -5000, 5000, 0, 0, -1, 0], np.int32)
    extremes = [
        x.sum(),
        x.max(),
        x.min(),
        *(how.reduce(x) for how in (np.bitwise_xor, np.bitwise_or, np.bitwise_and)),
        np.abs(x).max(),
    ]
    given = [first, np.zeros(1, np.float32), np.zeros(1, np.uint64), np.zeros(1), x, np.int32(700)]
    wide = np.array([(int(x.sum()) << 20) % (1 << 64)], np.uint64)
    after = {0: np.array(extremes), 1: np.array([x.sum()]), 2: wide, 3: np.array([x.sum()])}
    return Case(3, given, after)


def scan() -> Case:
    x = whole(-1000, 1000, 2, ITEMS)
    return Case(2, [np.zeros_like(x), x], {0: np.cumsum(x, 1)})


def softmax() -> Case:
    x = (5 * drawn(3, 400)).astype(np.float32)
    powers = np.exp(x.astype(float) - x.max(1, keepdims=True))
    result = powers / powers.sum(1, keepdims=True)
    return Case(3, [np.zeros_like(x), x, np.int32(400)], {0: result}, 1e-6)


def matmul(kind: type, error: float) -> Case:
    a, b = drawn(2, 37, 37).astype(kind)
    result = a.astype(float) @ b.astype(float)
    return Case(9, [np.zeros_like(a), a, b, np.int32(37)], {0: result}, error)


def sort() -> Case:
    x = whole(-100, 100, 2, ITEMS)
    return Case(2, [np.zeros_like(x), x], {0: np.sort(x, 1)})


def histogram() -> Case:
    x = whole(0, 256, 2000, kind=np.uint8)
    given = [np.zeros(256, np.uint32), x, np.int32(2000)]
    return Case(3, given, {0: np.bincount(x, minlength=256)})


def functions() -> Case:
    x = (3 * drawn(500)).astype(np.float32)
    v, u, count = x.astype(float), np.abs(x.astype(float)), len(x)
    rounded = np.trunc(np.abs(v) + 0.5) * np.sign(v)
    rows = [
        np.exp(v), np.log(u), np.sqrt(u), 1 / v, np.floor(v) + np.ceil(v) + np.trunc(v), v * v - 1,
        np.exp2(v), np.log10(u), np.ldexp(v, np.arange(count) % 64 - 32), np.rint(v) + rounded,
    ]  # fmt: skip
    out = np.zeros((len(rows), count), np.float32)
    return Case(2, [out, x, np.int32(count)], {0: np.array(rows)}, relative=1e-6)


def divisions() -> Case:
    draw = np.random.default_rng(5)
    a, b = (draw.integers(-(1 << 63), 1 << 63, 500, np.int64) >> draw.integers(0, 60, 500)
            for _ in range(2))  # fmt: skip
    b[b == 0] = 1
    signed, unsigned = [(int(x), int(y)) for x, y in zip(a, b, strict=True)], 1 << 64

    def cut(x: int, y: int) -> int:
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    def short(x: int) -> int:
        return (x + (1 << 31)) % (1 << 32) - (1 << 31)

    rows = [
        [cut(x, y) for x, y in signed],
        [x - y * cut(x, y) for x, y in signed],
        [x % unsigned // (y % unsigned) for x, y in signed],
        [x % unsigned % (y % unsigned) for x, y in signed],
        [short(cut(short(x), short(y) | 1)) for x, y in signed],
        [x % (1 << 32) % (y % (1 << 32) | 1) for x, y in signed],
        [x * y >> 64 for x, y in signed],
        [(x << (y & 63)) ^ (x >> (y & 31)) for x, y in signed],
    ]
    out = np.zeros((len(rows), 500), np.int64)
    result = np.array([[n % unsigned for n in row] for row in rows], np.uint64).view(np.int64)
    return Case(2, [out, a, b, np.int32(500)], {0: result})


def votes() -> Case:
    x = whole(0, 100, 2 * ITEMS)

    def of_wave(width: int) -> dict[int, Array]:
        odd = (x & 1).reshape(-1, width)
        before = np.cumsum(odd, 1) - odd
        totals = np.broadcast_to(odd.sum(1, keepdims=True), odd.shape)
        first = np.broadcast_to(x.reshape(-1, width)[:, :1], odd.shape)
        return {0: np.stack([before, totals, first], 2)}

    return Case(2, [np.zeros((len(x), 3), np.int32), x], {}, of_wave=of_wave)


def calls() -> Case:
    x = whole(1, 1000, 2 * ITEMS)

    def steps(n: int) -> int:
        count = 0
        while n > 1:
            n, count = (3 * n + 1 if n % 2 else n // 2), count + 1
        return count

    result = [(2 * n, n * n, steps(n))[i % 3] for i, n in enumerate(x.tolist())]
    return Case(2, [np.zeros_like(x), x], {0: np.array(result)})


def filter_() -> Case:
    x, factor = drawn(500).astype(np.float32), drawn(5, seed=3).astype(np.float32)
    shift, i = 2, np.arange(500)
    ring = np.zeros((500, 8))
    for k in range(8):
        ring[i, (k * 3 + i) % 8] = x[(i + k) % 500]
    total = sum(float(factor[k]) * ring[i, (k * 3 + i + shift) % 8] for k in range(5))
    weights = np.zeros(
        (), np.dtype([("factor", "5f4"), ("shift", "i2"), ("sign", "i1"), ("", "u1")])
    )
    weights["factor"], weights["shift"], weights["sign"] = factor, shift, -1
    given = [np.zeros_like(x), x, weights, np.int32(500)]
    return Case(2, given, {0: -total}, 1e-6)


CASES: dict[str, Callable[[], Case]] = {
    one.__name__.rstrip("_"): one
    for one in (vector_add, reduce, transpose, atomics, scan, softmax, sort, histogram, functions,
                divisions, votes, calls, filter_)
}  # fmt: skip
CASES["matmul_half"] = lambda: matmul(np.float16, 2.0**-8)
CASES["matmul_single"] = lambda: matmul(np.float32, 1e-6)
CASES["matmul_double"] = lambda: matmul(np.float64, 1e-14)


def chosen() -> list[tuple[str, str, str]]:
    """Chips, levels of optimisation and programs: without --full, four of all."""
    found = [(chip, level, name) for chip in CHIPS for level in LEVELS for name in CASES]
    return found if "FULL_TESTS" in os.environ else random.Random("HIP").sample(found, 4)


@cache
def compiled(chip: str, level: str) -> CodeObject:
    for program, package in ((CLANG, CLANG), (LLD, "lld-22")):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}: `apt-get install {package}` brings it")
    command = [
        CLANG, "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc",
        "-nogpulib", f"--offload-arch={chip}", level, "-std=c++17", "-ffp-contract=off",
        "-o", "-", str(SOURCE),
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
    return loaded(ran.stdout)


def assert_holds(case: Case, wave: int, found: list[Array]) -> None:
    """That a launch left in its arrays what the case expects, in waves of this width."""
    for place, expected in (case.of_wave(wave) if case.of_wave else case.expected).items():
        if expected.dtype.kind in "iu":
            np.testing.assert_array_equal(found[place].reshape(expected.shape), expected)
            continue
        near = case.error * np.abs(expected).max()
        np.testing.assert_allclose(found[place].astype(float), expected, case.relative, near)


@pytest.mark.parametrize(("chip", "level", "name"), chosen())
def test_programs_give_what_numpy_gives(machine, chip, level, name):
    code, case = compiled(chip, level), CASES[name]()
    found = launched(machine(chip), code, name, (case.groups, 1, 1), ITEMS, case.arguments)
    assert_holds(case, code.kernels[name].wave, found)
