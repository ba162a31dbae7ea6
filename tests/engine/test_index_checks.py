"""CHECK_INDEX=1 where the largest index is computed beside what is gathered, in one pass."""

import numpy as np
import pytest

from treadle import Tensor, TinyJit
from treadle.errors import IndexOutOfRange
from treadle.ir.choices import observing

ROWS, COLUMNS, SIZE = 1100, 1000, 1500


def filled():
    data = np.random.default_rng(0).standard_normal((ROWS, SIZE)).astype(np.float32)
    return Tensor(data, device="CPU").realize()


def places(dtype, wrong=None):
    """Indices in range, but for `wrong` in the last row, if that is given."""
    found = np.random.default_rng(1).integers(0, SIZE, (ROWS, COLUMNS))
    if wrong is not None:
        found[-1, -1] = wrong
    return Tensor(found.astype(dtype), device="CPU").realize()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_indices_in_range_are_gathered_in_one_pass(dtype):
    x, at = filled(), places(dtype)
    with observing() as seen:
        y = x.gather(1, at).realize()
    assert [("fused_reduction_output" in kernel) for kernel in seen.kernels] == [True]
    np.testing.assert_array_equal(y.numpy(), np.take_along_axis(x.numpy(), at.numpy(), 1))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("wrong", [SIZE, -1, -SIZE - 1, 2**31 - 1])
def test_an_index_out_of_range_raises_by_the_next_read(dtype, wrong):
    y = filled().gather(1, places(dtype, wrong)).realize()
    with pytest.raises(IndexOutOfRange, match=rf"\[gather\] {wrong} lies outside of axis 1"):
        y.numpy()
    assert y.numpy()[-1, -1] == 0


def test_replays_raise_too_and_the_flag_is_cleared():
    x, right, wrong = filled(), places(np.int32), places(np.int32, SIZE + 7)
    step = TinyJit(lambda at: x.gather(1, at).realize())
    for _ in range(4):
        step(right)
    found = step(wrong)
    with pytest.raises(IndexOutOfRange, match=f"{SIZE + 7} lies outside"):
        found.numpy()
    expected = np.take_along_axis(x.numpy(), right.numpy(), 1)
    np.testing.assert_array_equal(step(right).numpy(), expected)


def test_indices_on_a_device_that_runs_nothing_disturb_no_other():
    places = Tensor([1, 2], device="NULL")
    Tensor.zeros(3, 4, device="NULL").contiguous()[places].realize()
    assert Tensor([5], device="CPU").add(1).tolist() == [6]
