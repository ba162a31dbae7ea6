"""Operations and bytes: what a kernel has to do, and nothing that it need not."""

import numpy as np
import pytest

from treadle import Tensor, Variable, dtypes
from treadle.engine.counters import GlobalCounters
from treadle.engine.devices import Device
from treadle.engine.pipeline import program_of
from treadle.engine.steps import listeners


def works(*tensors):
    """What each kernel of these tensors does."""
    program, _, _ = program_of([tensor.node for tensor in tensors], "CPU")
    return [kernel.work for kernel in program.kernels]


def floats(*shape, dtype: type = np.float32):
    return Tensor(np.ones(shape, dtype), device="CPU").realize()


def test_a_product_multiplies_and_adds():
    [work] = works(floats(64, 32) @ floats(32, 48))
    assert work.ops == work.lanes == 2 * 64 * 32 * 48
    assert (work.read, work.written) == (4 * (64 * 32 + 32 * 48), 4 * 64 * 48)


def test_wide_numbers_take_more_room_in_a_vector_and_narrow_integers_less():
    [double] = works(floats(100, dtype=np.float64) * 3)
    [byte] = works(Tensor(np.ones(100, np.int8), device="CPU").realize() * 3)
    assert (double.ops, double.lanes) == (100, 200)
    assert (byte.ops, byte.lanes) == (100, 25)


def test_a_rotation_is_one_operation():
    x = Tensor(np.ones(100, np.uint32), device="CPU").realize()
    [rotation] = works((x << 13) | (x >> 19))
    [others] = works((x << 13) | (x >> 18))
    assert (rotation.ops, others.ops) == (100, 300)


def test_only_rows_that_are_looked_up_are_read():
    table, places = floats(1000, 16), Tensor(np.arange(5), device="CPU").realize()
    [work] = works(table[places])
    assert work.read == 5 * 16 * 4 + 5 * places.dtype.itemsize
    assert work.written == 5 * 16 * 4
    assert work.buffers > 1000 * 16 * 4


def test_only_the_part_that_is_taken_is_read():
    [work] = works(floats(1000, 16)[3:5] + 1)
    assert (work.read, work.written) == (2 * 16 * 4, 2 * 16 * 4)


def test_what_is_read_again_and_again_counts_once():
    [work] = works(floats(1, 16).expand(100, 16) + floats(100, 16))
    assert work.read == 4 * (16 + 1600)


def test_memory_that_is_changed_in_place_is_read_and_written_and_touched_once():
    x, seen = floats(100), []
    x += 1
    listeners.append(seen.append)
    GlobalCounters.reset()
    x.realize()
    listeners.remove(seen.append)
    [work] = [kernel.work for step in seen for kernel in step.program.kernels]
    assert (work.read, work.written, work.touched) == (400, 400, 400)
    assert GlobalCounters.global_mem == 800


@pytest.mark.parametrize("length", [512, 1024])
def test_a_causal_mask_hides_about_half_of_attention(length):
    q, k, v = (floats(1, 4, length, 64) for _ in range(3))
    whole = sum(work.ops for work in works(q.scaled_dot_product_attention(k, v)))
    causal = works(q.scaled_dot_product_attention(k, v, is_causal=True))
    assert 0.4 < sum(work.ops for work in causal) / whole < 0.75


def test_sizes_known_at_launch_are_not_fixed():
    n = Variable("n", 1, 10).bind(5)
    program, _, _ = program_of([(floats(10, 4).shrink(((0, n), (0, 4))) * 2).node], "CPU")
    assert [kernel.work.is_fixed for kernel in program.kernels] == [False]


def test_positions_known_at_launch_are_fixed():
    n = Variable("n", 0, 5).bind(5)
    program, _, _ = program_of([(floats(10, 4).shrink(((n, n + 3), (0, 4))) * 2).node], "CPU")
    assert [kernel.work.is_fixed for kernel in program.kernels] == [True]


def test_half_precision_is_computed_in_float32_here():
    assert not Device["CPU"].target.is_native(dtypes.bfloat16)
    [work] = works(floats(100).cast(dtypes.bfloat16).realize() * 3)
    assert work.lanes >= work.ops
