"""Sums of bytes begin in 16 bits, and are the same numbers as in any other order."""

from __future__ import annotations

import random

import numpy as np
import pytest

from treadle import Context, Tensor, dtypes
from treadle.engine.run import scheduled
from treadle.ir.narrow_sums import added_in_part, type_of_parts
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.target import parse_target

BYTES = ["int8", "uint8", "bool"]
TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]


def bytes_of(kind: str, fill: str, *shape: int) -> np.ndarray:
    """Random numbers, or of one kind the least or the largest alone: those make sums overflow."""
    if kind == "bool":
        if fill == "random":
            return np.random.default_rng(3).integers(0, 2, shape).astype(bool)
        return np.full(shape, fill == "most")
    info = np.iinfo(kind)
    if fill == "random":
        return np.random.default_rng(3).integers(info.min, info.max + 1, shape).astype(kind)
    return np.full(shape, info.min if fill == "least" else info.max, kind)


def sums_of(tensor: Tensor, target: str) -> list[Node]:
    """All ADDs of integer vectors in the programs that compute `tensor`."""
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    ast, _ = optimize(kernel.ast, parse_target(target))
    phases = lower(ast, len(kernel.buffers), parse_target(target)).phases
    nodes = [n for phase in phases for n in phase.program.src]
    return [n for n in nodes if n.op is Op.ADD and n.dtype.count > 1 and n.dtype.scalar.is_int]


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("target", TARGETS)
def test_most_additions_are_of_16_bits(axis, target):
    sums = sums_of(Tensor(bytes_of("int8", "random", 4096, 4096)).sum(axis=axis), target)
    narrow = [n for n in sums if n.dtype.scalar is dtypes.int16]
    wide = [n for n in sums if n.dtype.scalar is dtypes.int32]
    assert len(narrow) >= 3
    assert narrow[0].dtype.count * 2 == parse_target(target).vector_bytes
    assert len(wide) <= len(narrow) + 16  # of the parts, and of all lanes in the end


@pytest.mark.parametrize("fill", ["least", "random", "most"])
@pytest.mark.parametrize("kind", BYTES)
@pytest.mark.parametrize(
    "shape",
    [(4096, 700), (129, 4096), (128, 4096), (127, 3000), (37, 70_000), (2000, 50), (64, 8, 512)],
    ids=str,
)
def test_no_sum_overflows(shape, kind, fill):
    values = bytes_of(kind, fill, *shape)
    exact, x = values.astype(np.int64), Tensor(values)
    for axis in (None, 0, -1):
        np.testing.assert_array_equal(x.sum(axis=axis).numpy(), exact.sum(axis=axis))
        wide = x.sum(axis=axis, dtype=dtypes.int64).numpy()
        np.testing.assert_array_equal(wide, exact.sum(axis=axis))
    np.testing.assert_array_equal(x.cumsum(axis=0).numpy(), exact.cumsum(axis=0))


def drawn(seed: int) -> None:
    """A random program of sums of bytes beside other reductions, as it is and in NumPy."""
    rng = random.Random(seed)
    shapes = [(515, 1030), (1024, 333), (96, 4000), (3000, 64), (7, 9, 2050), (300, 17, 96)]
    shape = rng.choice(shapes)
    kinds = [rng.choice(BYTES) for _ in range(2)]
    values = [bytes_of(kind, rng.choice(["random", "least", "most"]), *shape) for kind in kinds]
    axis = rng.choice([None, 0, -1, (0, -1)])
    x, y = map(Tensor, values)
    a, b = (value.astype(np.int64) for value in values)
    found, exact = x.sum(axis=axis), a.sum(axis=axis)
    for word in rng.sample(["other", "extreme", "masked", "squares", "scaled", "shifted"], 2):
        if word == "other":
            found, exact = found - y.sum(axis=axis), exact - b.sum(axis=axis)
        elif word == "extreme":
            most = y.max(axis=axis).cast(dtypes.int32)
            found, exact = found + most, exact + b.max(axis=axis).astype(np.int64)
        elif word == "masked":
            kept = Tensor.arange(shape[-1]) % 3 == 1
            found = found + kept.where(y.cast(dtypes.int32), 0).sum(axis=axis)
            exact = exact + np.where(np.arange(shape[-1]) % 3 == 1, b, 0).sum(axis=axis)
        elif word == "squares":
            wide = y.cast(dtypes.int32)
            found, exact = found + (wide * wide).sum(axis=axis), exact + (b * b).sum(axis=axis)
        elif word == "scaled":
            found, exact = found * 3 + 1, exact * 3 + 1
        else:
            part = (slice(1, None),) * len(shape)
            found = found + x[part].sum(axis=axis).sum()
            exact = exact + a[part].sum(axis=axis).sum()
    apart = found.numpy().astype(np.int64) - exact  # 32 bits wrap around
    np.testing.assert_array_equal(apart % (1 << 32), np.zeros_like(apart))


@pytest.mark.parametrize("seed", range(24))
def test_sums_beside_other_reductions_agree_with_numpy(seed):
    with Context(CHECK_KERNELS=1):
        drawn(seed)


def test_what_is_wider_than_bytes_or_computed_wide_stays_as_it_is():
    for kind, is_narrow in (("int8", True), ("bool", True), ("int16", False), ("int32", False)):
        x = Tensor(np.ones((256, 64), kind)).sum(axis=0)
        (kernel,) = scheduled([(x.node, x.device)])
        (reduce,) = (n for n in kernel.ast.toposort() if n.op is Op.REDUCE)
        assert (added_in_part(reduce) is not None) is is_narrow
        assert type_of_parts(reduce, 8) is (dtypes.int16 if is_narrow else None)
        assert type_of_parts(reduce, 129) is None
    positive = (Tensor(np.ones((256, 64), np.float32)) > 0).sum(axis=0)
    (kernel,) = scheduled([(positive.node, positive.device)])
    (reduce,) = (n for n in kernel.ast.toposort() if n.op is Op.REDUCE)
    assert added_in_part(reduce) is None
