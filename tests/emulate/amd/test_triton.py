"""Triton's code for AMD's GPUs on emulated ones, against NumPy in float64."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.emulate.amd.foreign import launched, loaded
from tests.emulate.judges import judge

PROGRAMS = Path(__file__).with_name("triton_programs.py")
CHIPS = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
Array = np.ndarray[Any, Any]
KINDS = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "xf32": np.float32, "i8": np.int8, "fp8": ml_dtypes.float8_e4m3fnuz,
    "fp8_ocp": ml_dtypes.float8_e4m3fn, "bf8_ocp": ml_dtypes.float8_e5m2,
}  # fmt: skip
# Chips that have units for products of these, where Triton makes them.
ONLY = {
    "matmul_f64": ("gfx90a",), "matmul_xf32": ("gfx942",), "matmul_fp8": ("gfx942",),
    "matmul_fp8_ocp": ("gfx1201",), "matmul_bf8_ocp": ("gfx1201",),
}  # fmt: skip


@dataclass
class Case:
    """A launch, and what its first argument holds afterwards: within `error` of the largest."""

    groups: tuple[int, int, int]
    arguments: list[Any]
    expected: Array
    error: float


def drawn(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def softmax_of(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def softmax() -> Case:
    x = (8 * drawn(5, 389)).astype(np.float32)
    out = np.zeros_like(x)
    return Case((5, 1, 1), [out, x, np.int32(389)], softmax_of(x.astype(float)), 1e-6)


def layer_norm() -> Case:
    x, (weight, bias) = drawn(5, 389).astype(np.float16), drawn(2, 389, seed=2).astype(np.float32)
    wide = x.astype(float)
    result = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    given = [np.zeros_like(x), x, weight, bias, np.int32(389)]
    return Case((5, 1, 1), given, result * weight + bias, 2.0**-11)


def matmul(kind: str) -> Case:
    rows, columns, depth, side = 45, 70, 83, 16 if kind == "f64" else 32
    a, b = drawn(rows, depth), drawn(depth, columns, seed=2)
    if kind == "i8":
        a, b = 40 * a, 40 * b
    a, b = (np.clip(one, -128, 127).astype(KINDS[kind]) for one in (a, b))
    total = {"i8": np.int32, "f64": np.float64}.get(kind, np.float32)
    sizes = (np.int32(n) for n in (rows, columns, depth))
    given = [np.zeros((rows, columns), total), a, b, *sizes]
    groups = (-(-rows // side), -(-columns // side), 1)
    result = a.astype(float) @ b.astype(float)
    return Case(groups, given, result, {"i8": 0, "f64": 1e-14, "xf32": 2.0**-10}.get(kind, 1e-6))


def attention(kind: str) -> Case:
    heads, length, depth = 2, 75, 32
    q, k, v = (one.astype(KINDS[kind]) for one in drawn(3, heads, length, depth))
    scores = q.astype(float) @ k.astype(float).swapaxes(1, 2) / math.sqrt(depth)
    scores[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
    out = np.zeros((heads, length, depth), np.float32)
    given = [out, q, k, v, np.int32(length), np.float32(1 / math.sqrt(depth))]
    # Weights are rounded to the type of the values before they are multiplied.
    error = 2.0**-9 if kind == "bf16" else 2.0**-12
    return Case((-(-length // 32), heads, 1), given, softmax_of(scores) @ v.astype(float), error)


def sort() -> Case:
    x = np.random.default_rng(3).integers(-1000, 1000, (2, 256), np.int32)
    return Case((2, 1, 1), [np.zeros_like(x), x], np.sort(x, 1), 0)


def scan() -> Case:
    x = drawn(2, 512).astype(np.float32)
    return Case((2, 1, 1), [np.zeros_like(x), x], np.cumsum(x.astype(float), 1), 1e-6)


def histogram() -> Case:
    x = np.random.default_rng(4).integers(0, 32, 700, np.int32)
    given = [np.zeros(32, np.int32), x, np.int32(700)]
    return Case((3, 1, 1), given, np.bincount(x, minlength=32), 0)


CASES = {
    **{one.__name__: one for one in (softmax, layer_norm, sort, scan, histogram)},
    **{f"matmul_{kind}": lambda kind=kind: matmul(kind) for kind in KINDS},
    **{f"attention_{kind}": lambda kind=kind: attention(kind) for kind in ("f16", "bf16")},
}


def chosen() -> list[tuple[str, str]]:
    """Chips and programs: without --full, two of all."""
    found = [(c, name) for c in CHIPS for name in CASES if c in ONLY.get(name, CHIPS)]
    return found if "FULL_TESTS" in os.environ else random.Random("Triton").sample(found, 2)


@cache
def compiled(chip: str, folder: Path) -> dict[str, dict[str, Any]]:
    """What a launch of each program that is wanted for a chip has to know; its code is a file."""
    names = [name for of, name in chosen() if of == chip]
    ran = subprocess.run(
        [sys.executable, str(PROGRAMS), chip, str(folder), *names], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(judge("triton")), "TRITON_CACHE_DIR": str(folder)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return {one["program"]: one for one in map(json.loads, ran.stdout.splitlines())}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("triton")


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="Triton's wheel is for Python 3.11")
@pytest.mark.parametrize(("chip", "name"), chosen())
def test_programs_give_what_numpy_gives(machine, folder, chip, name):
    place = folder / chip
    place.mkdir(exist_ok=True)
    case, facts = CASES[name](), compiled(chip, place)[name]
    code = loaded((place / f"{name}.hsaco").read_bytes())
    (symbol,) = code.kernels
    # Behind the program's own arguments are two places for profiles and for scratch memory.
    found = launched(
        machine(chip), code, symbol, case.groups, facts["workgroup"], [*case.arguments, 0, 0],
        facts["shared"],
    )[0]  # fmt: skip
    np.testing.assert_allclose(
        found.astype(float), case.expected, rtol=0, atol=case.error * np.abs(case.expected).max()
    )
