"""What LLaMA-style code does with caches and positions."""

import numpy as np
import pytest

from treadle import Tensor, TinyJit, Variable

DEVICES = ("CPU", "CPU:1")


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_2_14_a_part_of_a_sharded_tensor_is_assigned_to(axis):
    cache = Tensor.zeros(4, 6).contiguous().shard(DEVICES, axis=axis).realize()
    wanted = np.zeros((4, 6), np.float32)
    cache[1:3] = Tensor.ones(2, 6).shard(DEVICES)
    cache.shrink((None, (1, 4))).assign(7).realize()
    wanted[1:3], wanted[:, 1:4] = 1, 7
    np.testing.assert_array_equal(cache.numpy(), wanted)


def test_2_14_a_sharded_cache_is_written_by_replays():
    cache = Tensor.zeros(4, 6).contiguous().shard(DEVICES, axis=1).realize()

    @TinyJit
    def keep(x):
        cache[1:2] = x
        return (cache.sum(0) * 1).realize()

    for n in range(4):
        x = Tensor.full((1, 6), float(n)).contiguous().shard(DEVICES, axis=1).realize()
        assert keep(x).tolist() == [n] * 6


def test_2_14_bounds_decide_a_condition_on_a_bound_variable():
    start = Variable("start_pos", 1, 9).bind(3)
    assert start > 0
    assert not start < 1
    assert start
    free = Variable("start_pos", 0, 9)
    with pytest.raises(TypeError, match="bounds"):
        bool(free > 0)
