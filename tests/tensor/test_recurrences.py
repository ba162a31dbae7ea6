"""Linear recurrences, and what is made of them: log of running sums of exponentials, products."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Context, GlobalCounters, Tensor, TinyJit, dtypes, vmap
from treadle.errors import DTypeError, IndexOutOfRange, ShapeError
from treadle.func import jvp

from .oracle import compare, compare_twice

RNG = np.random.default_rng(5)
# The first fills one row of totals, the last three vectors or blocks of several.
SHAPES = [(1,), (7,), (3, 40), (300, 33), (4, 50, 129), (8, 2000), (2000, 8), (640, 500)]
CASES = [(shape, axis) for shape in SHAPES for axis in range(len(shape))]


def drawn(shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype), RNG.uniform(-1, 1, size=shape).astype(dtype)


def in_order(x, factor, axis):
    lines, factors = np.moveaxis(x.astype(np.float64), axis, 0), np.moveaxis(factor, axis, 0)
    held = [lines[0]]
    for line, each in zip(lines[1:], factors[1:], strict=True):
        held.append(each * held[-1] + line)
    return np.moveaxis(np.stack(held), 0, axis)


def by_steps(x, factor, axis):
    """The same by PyTorch."""
    torch = pytest.importorskip("torch")
    held = []
    for line, each in zip(x.unbind(axis), factor.unbind(axis), strict=True):
        held.append(each * held[-1] + line if held else line)
    return torch.stack(held, axis)


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_values(device, shape, axis):
    x, factor = drawn(shape)
    with Context(CHECK_KERNELS=1):
        found = Tensor(x, device=device).linear_recurrence(Tensor(factor, device=device), axis)
        found = found.numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, in_order(x, factor, axis), rtol=0, atol=2e-6)


@pytest.mark.parametrize(("shape", "axis"), [case for case in CASES if case[0][case[1]] < 600])
def test_gradients_are_those_of_the_steps(shape, axis):
    x, factor = drawn(shape, np.float64)
    compare(
        "CPU", lambda x, f: x.linear_recurrence(f, axis), lambda x, f: by_steps(x, f, axis),
        x, factor, rtol=1e-10, atol=1e-10,
    )  # fmt: skip


def test_gradients_of_gradients_and_tangents():
    x, factor = drawn((5, 30), np.float64)
    ours, theirs = (lambda x, f: x.linear_recurrence(f, 1)), (lambda x, f: by_steps(x, f, 1))
    compare_twice(ours, theirs, x, factor)
    dx, df = drawn((5, 30), np.float64)
    _, moved = jvp(ours, (Tensor(x), Tensor(factor)), (Tensor(dx), Tensor(df)))
    step = 1e-6
    ahead, behind = (in_order(x + s * dx, factor + s * df, 1) for s in (step, -step))
    np.testing.assert_allclose(moved.numpy(), (ahead - behind) / (2 * step), atol=1e-7)


def test_a_batch_and_devices_of_a_split_tensor():
    x, factor = drawn((6, 40, 8))
    expected = in_order(x, factor, 1)
    ours = Tensor(x), Tensor(factor)
    batched = vmap(lambda a, b: a.linear_recurrence(b, 0))(*ours)
    np.testing.assert_allclose(batched.numpy(), expected, atol=2e-6)
    for axis in range(3):
        split = [a.shard(("CPU:0", "CPU:1"), axis) for a in ours]
        found = split[0].linear_recurrence(split[1], 1)
        np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_what_else_is_in_a_program_changes_nothing(axis):
    x, factor = drawn((40, 300))
    expected = in_order(x, factor, axis)
    ours = Tensor(x).realize(), Tensor(factor).realize()
    with Context(REPRODUCIBLE=1):
        found = (ours[0] * 2 - ours[0]).linear_recurrence(ours[1], axis)
        np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)
    turned = (ours[0] * (1 + 2j)).real.linear_recurrence(ours[1], axis) * 1j  # beside complex ones
    np.testing.assert_allclose(turned.numpy(), expected * 1j, atol=2e-6)
    step = TinyJit(lambda x, factor: x.linear_recurrence(factor, axis).realize())
    for scale in (1.0, 2.0, -3.0, 0.5):
        found = step((ours[0] * scale).realize(), ours[1])
        np.testing.assert_allclose(found.numpy(), scale * expected, atol=6e-6)
    place = (ours[0] + 0).realize()
    place.assign(place.flip(axis).linear_recurrence(place * 0.5, axis))
    behind = in_order(np.flip(x, axis), x * np.float32(0.5), axis)
    np.testing.assert_allclose(place.numpy(), behind, rtol=1e-5, atol=2e-6)


def test_factors_that_are_beyond_all_numbers_together_leave_zeros(device):
    x = np.zeros((2, 3000), np.float32)
    x[0, 2990:], x[1, :3] = 1, 1e-30
    factor = np.full_like(x, 2.0)
    factor[1, 1500:] = 0
    found = Tensor(x, device=device).linear_recurrence(Tensor(factor, device=device), 1).numpy()
    with np.errstate(over="ignore", invalid="ignore"):
        expected = in_order(x, factor, 1)
    is_number = np.abs(expected) < 1e38
    np.testing.assert_allclose(found[is_number], expected[is_number], rtol=1e-5)
    assert is_number[0].all()


def test_an_infinite_factor_of_one_step_is_not_a_number():
    with Context(CHECK_KERNELS=1):
        found = Tensor([[1.0], [2.0]]).linear_recurrence(Tensor([[np.inf], [2.0]]), 1)
        assert np.array_equal(found.numpy(), [[np.nan], [2]], equal_nan=True)


def test_dtypes_promote_and_shapes_broadcast(device):
    x = Tensor([1, 2, 3], device=device)
    assert x.linear_recurrence(2).dtype is dtypes.float32
    assert x.linear_recurrence(2).tolist() == [1, 4, 11]
    assert x.linear_recurrence(Tensor([[0.5], [0.0]], device=device), 1).tolist() == [
        [1, 2.5, 4.25], [1, 2, 3],
    ]  # fmt: skip
    assert Tensor(3.0, device=device).linear_recurrence(0.5).item() == 3
    assert Tensor.zeros(0, 3, device=device).linear_recurrence(0.5).shape == (0, 3)


def test_half_types_are_computed_in_float32():
    x, factor = (a.astype(np.float16) for a in drawn((3, 3000)))
    found = Tensor(x).linear_recurrence(Tensor(factor), 1)
    assert found.dtype is dtypes.float16
    expected = in_order(x, factor.astype(np.float64), 1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-3, atol=1e-4)


def test_long_averages_round_as_sums_do():
    ones = Tensor.ones(1 << 16).realize()  # a float32 would stay at 2 ** 24 * its last place
    found = (ones * 0.1).linear_recurrence(1 - 1e-6).numpy()
    steps = np.float64(np.float32(0.1)) * np.float64(np.float32(1 - 1e-6)) ** np.arange(1 << 16)
    np.testing.assert_allclose(found, steps.cumsum(), rtol=3e-7)


def test_what_no_recurrence_has_is_refused():
    x = Tensor([1.0, 2.0])
    with pytest.raises(IndexOutOfRange, match="linear_recurrence"):
        x.linear_recurrence(0.5, 1)
    with pytest.raises(ShapeError, match="linear_recurrence"):
        x.linear_recurrence(Tensor([1.0, 2.0, 3.0]))
    with pytest.raises(DTypeError, match="linear_recurrence"):
        x.linear_recurrence(1j)
    with pytest.raises(DTypeError, match="linear_recurrence"):
        x.cast(dtypes.complex64).linear_recurrence(0.5)


# -- what is made of them --------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "axis"), CASES)
@pytest.mark.parametrize("scale", [1, 300])
def test_logs_of_running_sums_of_exponentials(shape, axis, scale):
    x = (RNG.normal(size=shape) * scale).astype(np.float32)
    with Context(CHECK_KERNELS=1):
        found = Tensor(x).logcumsumexp(axis).numpy()
    np.testing.assert_allclose(
        found, np.logaddexp.accumulate(x.astype(np.float64), axis), rtol=2e-7, atol=2e-6
    )


def test_they_begin_before_the_first_number_and_end_with_the_first_nan():
    inf, nan = np.inf, np.nan
    x = [[-inf, -inf, 3, -inf, 1e4], [1e4, inf, 3, -inf, 1], [-inf, -1e4, nan, 1e4, 1], [-inf] * 5]
    x = np.array(x, np.float32)
    found = Tensor(x, requires_grad=True)
    found.logcumsumexp(1)[::3].sum().backward()
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp.accumulate(x, 1)
    np.testing.assert_array_equal(found.detach().logcumsumexp(1).numpy(), expected)
    assert found.grad[::3].tolist() == [[0, 0, 2, 0, 1], [0] * 5]


@pytest.mark.parametrize("axis", [0, 1])
def test_they_take_kernels_and_memory_for_a_few_arrays(axis):
    x = Tensor.randn(300, 400).realize().requires_grad_()
    for name in ("logcumsumexp", "cumprod"):
        GlobalCounters.reset()
        x.grad = None
        getattr(x, name)(axis).sum().backward()
        x.grad.realize()
        assert GlobalCounters.kernel_count <= 8
        assert GlobalCounters.global_mem < 40 * x.nbytes()  # each element's share: no square of 300


@pytest.mark.parametrize(("shape", "axis"), [((5, 40), 1), ((300, 33), 0), ((4, 50, 129), 1)])
def test_gradients_of_running_products_with_zeros(shape, axis):
    x = RNG.uniform(-1.3, 1.3, size=shape)
    x.flat[:: 7 * shape[-1]] = 0
    compare("CPU", lambda x: x.cumprod(axis), lambda x: x.cumprod(axis), x, rtol=1e-9, atol=1e-10)
    if x.size < 1000:
        compare_twice(lambda x: x.cumprod(axis), lambda x: x.cumprod(axis), x)
