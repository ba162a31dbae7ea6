"""Triton's programs: their code for a GPU, made in a process of its own, and what they compute.

    facts = compiled("cuda:80", folder, ["softmax"])["softmax"]      # and folder / "softmax.cubin"
    case = CASES["softmax"]()

A program that Triton does not make for a chip has "failed" among its facts.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from .judges import judge

PROGRAMS = Path(__file__).with_name("triton_programs.py")
Array = np.ndarray[Any, Any]
KINDS = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "xf32": np.float32, "i8": np.int8, "fp8": ml_dtypes.float8_e4m3fnuz,
    "fp8_ocp": ml_dtypes.float8_e4m3fn, "bf8_ocp": ml_dtypes.float8_e5m2,
}  # fmt: skip


def compiled(target: str, folder: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """By program, what a launch has to know. The test skips where there is no wheel."""
    path = str(judge("triton"))
    assembler = Path(path, "triton", "backends", "nvidia", "bin", "ptxas")
    if target.startswith("cuda") and not os.access(assembler, os.X_OK):
        pytest.skip(f"no {assembler}: where {path} is removed, .ci/judges --full makes it anew")
    ran = subprocess.run(
        [sys.executable, str(PROGRAMS), target, str(folder), *names], capture_output=True,
        text=True, env={**os.environ, "PYTHONPATH": path, "TRITON_CACHE_DIR": str(folder)},
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return {one["program"]: one for one in map(json.loads, ran.stdout.splitlines())}


# -- what they compute ------------------------------------------------------------------------


@dataclass
class Case:
    """A launch, and what its first argument holds afterwards: within `error` of the largest."""

    groups: int
    arguments: list[Any]
    expected: Array
    error: float

    def check(self, found: Array) -> None:
        """Raises AssertionError where it is not that."""
        largest = np.abs(self.expected).max()
        np.testing.assert_allclose(
            found.astype(float), self.expected, rtol=0, atol=self.error * largest
        )


def _drawn(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def _softmax_of(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _softmax() -> Case:
    x = (8 * _drawn(5, 389)).astype(np.float32)
    return Case(5, [np.zeros_like(x), x, np.int32(389)], _softmax_of(x.astype(float)), 1e-6)


def _layer_norm() -> Case:
    x, (weight, bias) = _drawn(5, 389).astype(np.float16), _drawn(2, 389, seed=2)
    weight, bias = weight.astype(np.float32), bias.astype(np.float32)
    wide = x.astype(float)
    result = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    given = [np.zeros_like(x), x, weight, bias, np.int32(389)]
    return Case(5, given, result * weight + bias, 2.0**-11)


def _matmul(kind: str) -> Case:
    rows, columns, depth, side = 45, 70, 83, 16 if kind == "f64" else 32
    a, b = _drawn(rows, depth), _drawn(depth, columns, seed=2)
    if kind == "i8":
        a, b = 40 * a, 40 * b
    a, b = (np.clip(one, -128, 127).astype(KINDS[kind]) for one in (a, b))
    total = {"i8": np.int32, "f64": np.float64}.get(kind, np.float32)
    given = [np.zeros((rows, columns), total), a, b, *map(np.int32, (rows, columns, depth))]
    groups = math.ceil(rows / side) * math.ceil(columns / side)
    error = {"i8": 0, "f64": 1e-14, "xf32": 2.0**-10}.get(kind, 1e-6)
    return Case(groups, given, a.astype(float) @ b.astype(float), error)


def _attention(kind: str) -> Case:
    heads, length, depth = 2, 75, 32
    q, k, v = (one.astype(KINDS[kind]) for one in _drawn(3, heads, length, depth))
    scores = q.astype(float) @ k.astype(float).swapaxes(1, 2) / math.sqrt(depth)
    scores[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
    out = np.zeros((heads, length, depth), np.float32)
    given = [out, q, k, v, np.int32(length), np.float32(1 / math.sqrt(depth))]
    # Weights are rounded to the type of the values before they are multiplied.
    error = 2.0**-9 if kind == "bf16" else 2.0**-12
    expected = _softmax_of(scores) @ v.astype(float)
    return Case(heads * math.ceil(length / 32), given, expected, error)


def _sort() -> Case:
    x = np.random.default_rng(3).integers(-1000, 1000, (2, 256), np.int32)
    return Case(2, [np.zeros_like(x), x], np.sort(x, 1), 0)


def _scan() -> Case:
    x = _drawn(2, 512).astype(np.float32)
    return Case(2, [np.zeros_like(x), x], np.cumsum(x.astype(float), 1), 1e-6)


def _histogram() -> Case:
    x = np.random.default_rng(4).integers(0, 32, 700, np.int32)
    given = [np.zeros(32, np.int32), x, np.int32(700)]
    return Case(3, given, np.bincount(x, minlength=32), 0)


CASES: dict[str, Callable[[], Case]] = {
    "softmax": _softmax, "layer_norm": _layer_norm, "sort": _sort, "scan": _scan,
    "histogram": _histogram,
    **{f"matmul_{kind}": partial(_matmul, kind) for kind in KINDS},
    **{f"attention_{kind}": partial(_attention, kind) for kind in ("f16", "bf16")},
}  # fmt: skip
