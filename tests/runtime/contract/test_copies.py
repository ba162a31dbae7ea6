"""Copies from every runtime to every other, and between devices of one."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.backends import backend_of
from treadle.engine.devices import Opened

from .conftest import RUNTIMES, opened_or_skipped, skip_unless


@pytest.mark.parametrize("other", RUNTIMES)
@pytest.mark.parametrize("size", [0, 1, 3, 1001, 100_003])
def test_values_arrive_on_every_other_runtime(computing: Opened, other: str, size: int) -> None:
    there = opened_or_skipped(other)
    skip_unless(backend_of(other).computes, there, "it runs nothing (`computes`)")
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    source = Tensor(data, device=computing.name).realize()
    copy = source.to(other).realize()
    np.testing.assert_array_equal((copy + 1).numpy(), data + np.uint8(1))
    np.testing.assert_array_equal(source.numpy(), data)


@pytest.mark.parametrize("other", RUNTIMES)
def test_a_copy_waits_for_what_makes_its_source(computing: Opened, other: str) -> None:
    there = opened_or_skipped(other)
    skip_unless(backend_of(other).computes, there, "it runs nothing (`computes`)")
    x = Tensor(np.ones((64, 64), np.float32), device=computing.name).realize()
    for _ in range(3):
        made = (x @ x).realize()
        sent = (made.to(other) + 1).realize()
        del made
        x = (x * 1).realize()
        assert (sent.numpy() == 65).all()
