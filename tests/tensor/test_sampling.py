"""Random numbers: distribution, repetition, equality across devices."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Device, Tensor, dtypes
from treadle.errors import DTypeError
from treadle.tensor import random_bits

COUNT = 40_000


@pytest.fixture(autouse=True)
def _seeded():
    Tensor.manual_seed(1234)


def test_uniform_numbers_fill_the_unit_interval_evenly(device):
    x = Tensor.rand(COUNT, device=device).numpy()
    assert x.min() >= 0
    assert x.max() < 1
    counts, _ = np.histogram(x, bins=20, range=(0, 1))
    chi_square = ((counts - COUNT / 20) ** 2 / (COUNT / 20)).sum()
    assert chi_square < 45  # 19 degrees of freedom: exceeded once in 1,400 seeds
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02


def test_normal_numbers_have_the_moments_of_a_normal_distribution(device):
    x = Tensor.randn(COUNT, device=device).numpy().astype(np.float64)
    assert abs(x.mean()) < 0.02
    assert abs(x.std() - 1) < 0.02
    assert abs((x**3).mean()) < 0.06
    assert abs((x**4).mean() - 3) < 0.15
    assert abs((np.abs(x) < 1).mean() - 0.6827) < 0.01


def test_calls_differ_and_a_seed_repeats_them(device):
    first, second = (Tensor.rand(50, device=device).numpy() for _ in range(2))
    assert not np.array_equal(first, second)
    Tensor.manual_seed(1234)
    np.testing.assert_array_equal(Tensor.rand(50, device=device).numpy(), first)
    np.testing.assert_array_equal(Tensor.rand(50, device=device).numpy(), second)
    Tensor.manual_seed(5)
    assert not np.array_equal(Tensor.rand(50, device=device).numpy(), first)


def test_the_order_of_realising_does_not_matter(device):
    first, second = Tensor.rand(9, device=device), Tensor.rand(9, device=device)
    late = second.numpy(), first.numpy()
    Tensor.manual_seed(1234)
    np.testing.assert_array_equal(Tensor.rand(9, device=device).numpy(), late[1])
    np.testing.assert_array_equal(Tensor.rand(9, device=device).numpy(), late[0])


@pytest.mark.parametrize("order", [(0, 2, 4), (4, 2, 0), (2, 5, 1), (5, 0)])
def test_what_is_drawn_and_computed_later_keeps_its_numbers(device, order):
    expected = [Tensor.rand(3, device=device).numpy() for _ in range(6)]
    Tensor.manual_seed(1234)
    drawn = []
    for step in range(6):
        drawn.append(Tensor.rand(3, device=device))
        if step % 2 and step // 2 < len(order):
            drawn[min(order[step // 2], step)].realize()
    for index in order:
        drawn[index].realize()
    found = [tensor.numpy() for tensor in drawn]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_draws_that_nothing_computes_do_not_pile_up(device):
    def nodes_after(draws):
        for _ in range(draws):
            computed, last = Tensor.rand(2, device=device), Tensor.rand(3, device=device)
            computed.realize()
            del computed, last
        return len(random_bits._states[Device.canonicalize(device)].node.toposort())

    assert nodes_after(20) == nodes_after(40)


def test_numbers_are_the_same_on_every_device(device):
    here = Tensor.rand(3, 5, device=device).numpy()
    integers = Tensor.randint(20, high=1000, device=device).numpy()
    Tensor.manual_seed(1234)
    np.testing.assert_array_equal(Tensor.rand(3, 5, device="REF").numpy(), here)
    np.testing.assert_array_equal(Tensor.randint(20, high=1000, device="REF").numpy(), integers)


def test_the_generator_is_threefry_2x32():
    from treadle.tensor.random_bits import random_words

    Tensor.manual_seed(0)  # known answers of the authors are for other counters: write it out
    low, high = random_words((2,), "REF")
    got = [Tensor._of(node, "REF").tolist() for node in (low, high)]
    expected = [_threefry((0, 0), (i, 1)) for i in range(2)]
    assert list(zip(*got, strict=True)) == expected
    assert _threefry((0, 0), (0, 0)) == (0x6B200159, 0x99BA4EFE)  # Salmon et al., kat_vectors


def _threefry(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    mask = 0xFFFFFFFF
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    a, b = (counter[0] + keys[0]) & mask, (counter[1] + keys[1]) & mask
    for i in range(20):
        r = ((13, 15, 26, 6), (17, 29, 16, 24))[i // 4 % 2][i % 4]
        a = (a + b) & mask
        b = ((b << r | b >> (32 - r)) & mask) ^ a
        if i % 4 == 3:
            n = i // 4 + 1
            a, b = (a + keys[n % 3]) & mask, (b + keys[(n + 1) % 3] + n) & mask
    return a, b


def test_integers_cover_their_range_evenly(device):
    x = Tensor.randint(COUNT, low=-3, high=4, device=device)
    assert x.dtype is dtypes.int32
    counts = np.bincount(x.numpy() + 3)
    assert len(counts) == 7
    assert np.abs(counts - COUNT / 7).max() < 300
    wide = Tensor.randint(100, low=-(1 << 62), high=1 << 62, dtype=dtypes.int64, device=device)
    assert np.abs(wide.numpy()).max() > 1 << 60
    with pytest.raises(ValueError, match=r"\[randint\]"):
        Tensor.randint(3, low=4, high=4)


def test_initialisers_have_the_right_spread(device):
    on = {"device": device}
    assert np.abs(Tensor.uniform(1000, low=2, high=5, **on).numpy() - 3.5).max() <= 1.5
    assert abs(Tensor.normal(COUNT, mean=4, std=0.5, **on).std().item() - 0.5) < 0.01
    assert np.abs(Tensor.scaled_uniform(10, 10, **on).numpy()).max() <= 0.1
    assert np.abs(Tensor.glorot_uniform(20, 30, **on).numpy()).max() <= np.sqrt(6 / 50)
    bound = np.sqrt(6 / (1 + 1e-4) / 50)
    uniform = Tensor.kaiming_uniform(100, 50, **on).numpy()
    assert 0.95 * bound < np.abs(uniform).max() <= bound
    normal = Tensor.kaiming_normal(400, 50, **on).numpy()
    assert abs(normal.std() / np.sqrt(2 / (1 + 1e-4) / 50) - 1) < 0.03


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_float_dtype_stays_below_one(device, dtype):
    if not Device[device].target.supports(getattr(dtypes, dtype)):
        pytest.skip(f"{device} has no float64")
    x = Tensor.rand(5000, dtype=dtype, device=device)
    assert x.dtype == dtype
    values = x.numpy().astype(np.float64)
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 0.02
    assert x.rand_like().dtype == dtype
    assert x.randn_like().shape == (5000,)


def test_integers_are_asked_for_by_name():
    with pytest.raises(DTypeError, match=r"\[rand\] gives floats, not int32"):
        Tensor.rand(3, dtype=dtypes.int32)


def test_bernoulli_draws_by_each_element_or_by_one_probability(device):
    Tensor.manual_seed(3)
    p = Tensor(np.repeat([0.0, 0.25, 1.0], 4000).astype(np.float32).reshape(3, 4000), device=device)
    for drawn in (p.bernoulli(), Tensor.bernoulli(p)):
        np.testing.assert_allclose(drawn.mean(1).numpy(), [0, 0.25, 1], atol=0.03)
    assert abs(p.bernoulli(0.75).mean().item() - 0.75) < 0.02
