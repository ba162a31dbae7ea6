"""Random programs with several results and assignments: every device against the interpreter."""

import os
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from treadle import Tensor, dtypes

from ..thinning import processor_and_one_other

SIZES = [1, 2, 3, 5, 16, 17, 33, 64, 100]
DTYPES = [dtypes.float32, dtypes.float32, dtypes.float32, dtypes.float16, dtypes.int32]
COUNT, BLOCKS = (2000 if os.environ.get("FULL_TESTS") else 12), 6


def elementwise(rng, x, y):
    """A value like `x`, of `x` and `y` at the same places."""
    y = y.cast(x.dtype)
    kind = rng.choice(["blend", "larger", "where", "less", "mean", "peak"])
    if kind == "blend":
        return x * 0.5 + y * 0.25 if x.dtype.is_float else x + y
    if kind == "larger":
        return x.maximum(y)
    if kind == "where":
        return (x < y).where(y, x)
    if kind == "mean" and x.dtype.is_float:
        return x - y.float().mean(-1, keepdim=True).cast(x.dtype)
    if kind == "peak":
        return x + y.max(0, keepdim=True)
    return x - y


def other_places(rng, x):
    kind = rng.choice(["flip", "roll", "pad", "none"])
    if kind == "flip":
        return x.flip(rng.randrange(x.ndim))
    if kind == "roll":
        return x.roll(1, rng.randrange(x.ndim))
    if kind == "pad":
        return x.pad(((1, 0),) + ((0, 0),) * (x.ndim - 1))[: x.shape[0]]
    return x


def statistic(rng, x):
    kind = rng.choice(["sum", "max", "var", "square", "argmax"])
    axis = rng.randrange(x.ndim)
    if kind == "square":
        return (x.float() * x.float()).sum(axis)
    if kind == "argmax":
        return x.argmax(axis)
    return getattr(x.float() * 0.5 if kind == "var" else x, kind)(axis)


def change(rng, state, kept):
    """One step of a program: an assignment, a new value, or a result to look at later."""
    target, other = rng.choice(state), rng.choice(state)
    kind = rng.choice(["assign", "assign", "assign", "part", "swap", "keep", "statistic"])
    if kind == "assign":
        target.assign(elementwise(rng, target, other_places(rng, other)))
    elif kind == "part":
        half = max(1, target.shape[0] // 2)
        target[:half] = other[-half:].cast(target.dtype)
    elif kind == "swap":
        old = target * 1
        target.assign(other.cast(target.dtype))
        other.assign(old.cast(other.dtype))
    elif kind == "keep":
        kept.append(elementwise(rng, target, other_places(rng, other)))
    else:
        kept.append(statistic(rng, target))


def program(rng, device):
    """The values of all tensors of a program of two to nine steps, which run together."""
    shape = [rng.choice(SIZES) for _ in range(rng.choice([1, 2, 2, 3]))]
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    state = [
        Tensor(numbers.integers(-8, 8, shape).astype(np.float32), device=device)
        .cast(rng.choice(DTYPES))
        .realize()
        for _ in range(rng.randrange(2, 5))
    ]
    kept = []
    for _ in range(rng.randrange(2, 10)):
        change(rng, state, kept)
    Tensor.realize(*state, *kept)
    return [tensor.numpy() for tensor in (*state, *kept)]


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_updates_give_the_same_on_every_device(block, engines):
    @seed(block)
    @settings(
        max_examples=COUNT // BLOCKS, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.integers(0, 1 << 30))
    def check(start):
        reference = program(random.Random(start), "REF")
        for device in processor_and_one_other(engines, start):
            ours = program(random.Random(start), device)
            for mine, expected in zip(ours, reference, strict=True):
                tolerance = 4e-3 if expected.dtype == np.float16 else 2e-4
                np.testing.assert_allclose(
                    mine, expected, rtol=tolerance, atol=tolerance * 10, err_msg=device
                )

    check()
