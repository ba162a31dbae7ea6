"""What describes data, distances and arithmetic of integers and floats, against NumPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import DTypeError, ShapeError

rng = np.random.default_rng(0)
X = rng.standard_normal((4, 6)).astype(np.float32)


def test_covariance_and_correlation_are_numpys(device):
    x = Tensor(X, device=device)
    np.testing.assert_allclose(x.cov().numpy(), np.cov(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(x.corrcoef().numpy(), np.corrcoef(X), rtol=1e-5, atol=1e-6)
    often, much = np.array([1, 2, 0, 3, 1, 1], np.int32), np.ones(6, np.float32) / 2
    mine = x.cov(0, Tensor(often, device=device), Tensor(much, device=device))
    wanted = np.cov(X, ddof=0, fweights=often, aweights=much)
    np.testing.assert_allclose(mine.numpy(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_statistics_of_more_halves_than_a_half_counts(dtype):
    values = np.random.default_rng(3).integers(-8, 9, (2, 70000)).astype(np.float32) / 4 + 1
    x = Tensor(values, device="CPU").cast(dtype)
    for found, wanted in (
        (x.nanmean(1), values.mean(1)), (x.cov(), np.cov(values)),
        (x.corrcoef(), np.corrcoef(values)),
    ):  # fmt: skip
        assert found.dtype == dtype
        np.testing.assert_allclose(found.float().numpy(), wanted, rtol=1e-2, atol=1e-2)


def test_correlations_of_halves_whose_variances_are_beyond_them():
    values = np.random.default_rng(4).normal(size=(3, 500)).astype(np.float16) * 300
    found, wanted = Tensor(values).corrcoef(), np.corrcoef(values.astype(np.float64))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-3, atol=1e-3)
    assert Tensor(values[0]).corrcoef().item() == 1


def test_quantiles_beside_an_infinity_are_numpys():
    for values in ([1.0, -np.inf, 2, 3], [1.0, np.inf, 2, 3]):
        for share in (0.25, 0.4, 0.75):
            found = Tensor(values).quantile(share).item()
            with np.errstate(invalid="ignore"):
                wanted = np.quantile(np.array(values, np.float32), share)
            assert found == wanted, (values, share)


@pytest.mark.parametrize("density", [False, True])
def test_histograms_are_numpys(density):
    flat = Tensor(X, device="CPU")
    counts, edges = flat.histogram(5, density=density)
    wanted, borders = np.histogram(X, 5, density=density)
    np.testing.assert_allclose(counts.numpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose(edges.numpy(), borders, rtol=1e-5)
    counts, _ = flat.histogram(Tensor([-1.0, 0.0, 0.5, 3.0], device="CPU"))
    assert counts.tolist() == np.histogram(X, [-1.0, 0.0, 0.5, 3.0])[0].tolist()
    counts, _ = flat.T[:, :2].histogramdd([2, 3], (-2.0, 2.0, -1.0, 1.0))
    ranges = [(-2.0, 2.0), (-1.0, 1.0)]
    assert counts.tolist() == np.histogramdd(X.T[:, :2], [2, 3], ranges)[0].tolist()


def test_the_order_of_what_is_not_nan():
    x = X.copy()
    x[0, :3], x[1] = np.nan, np.nan
    mine = Tensor(x, device="CPU")
    with warnings.catch_warnings(action="ignore"):
        wanted = np.nanquantile(x, [0.1, 0.5], axis=1)
    found = mine.nanquantile(Tensor([0.1, 0.5], device="CPU"), 1)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)
    values, places = mine.nanmedian(1)
    assert values.numpy()[0] == np.sort(x[0])[1] == x[0, places.tolist()[0]]
    assert np.isnan(values.numpy()[1])
    assert mine.median(1)[0].isnan().tolist() == [True, True, False, False]


def test_the_most_frequent_element_is_the_smallest_of_several():
    x = Tensor([[3, 1, 3, 1, 2], [5, 4, 5, 5, 4]], device="CPU")
    values, places = x.mode()
    assert (values.tolist(), places.tolist()) == ([1, 5], [3, 3])
    with pytest.raises(ShapeError, match=r"\[mode\]"):
        Tensor.zeros(2, 0).mode()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32,
                                   np.int64, np.uint64])  # fmt: skip
def test_divisors_are_numpys_up_to_pell_and_fibonacci_numbers(dtype):
    """Which need the most steps: of remainders nearest to 0, and of those that are not negative."""
    most = int(np.iinfo(dtype).max)
    a, b = [0, 1, 12, most, 0, 100, most], [0, 5, 18, 6, 0, 75, most - 1]
    for factor in (2, 1):
        first, second = 1, factor
        while factor * second + first <= most:
            first, second = second, factor * second + first
            a += [second, first]
            b += [first, second]
    a, b = np.array(a, dtype), np.array(b, dtype)
    x, y = Tensor(a, device="CPU"), Tensor(b, device="CPU")
    assert x.gcd(y).tolist() == np.gcd(a, b).tolist()
    assert x[:3].lcm(y[:3]).tolist() == np.lcm(a[:3], b[:3]).tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_divisors_of_all_numbers_of_eight_bits_are_numpys(dtype):
    numbers = np.arange(256).astype(np.uint8).view(dtype)
    x = Tensor(numbers, device="CPU")
    wanted = np.gcd(*np.meshgrid(*[numbers.astype(np.int32)] * 2, indexing="ij")).astype(dtype)
    np.testing.assert_array_equal(x.reshape(256, 1).gcd(x.reshape(1, 256)).numpy(), wanted)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_parts_of_floats_are_numpys(dtype):
    info = np.finfo(dtype)
    x = [0.0, -0.0, 1.0, -6.0, 0.1, info.max, info.tiny, info.smallest_subnormal, np.inf, np.nan]
    x = np.array(x, dtype)
    fractions, powers = Tensor(x, device="CPU").frexp()
    wanted, exponents = np.frexp(x)
    np.testing.assert_array_equal(fractions.numpy(), wanted)
    np.testing.assert_array_equal(powers.numpy()[:-2], exponents[:-2])


def test_distances_between_rows(device):
    a, b = X[:3], X[1:]
    wanted = np.abs(a[:, None] - b[None]).sum(-1)
    mine = Tensor(a, device=device).cdist(Tensor(b, device=device), 1.0)
    np.testing.assert_allclose(mine.numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert Tensor(X, device=device).pdist().shape == (6,)
    assert Tensor(X, device=device).renorm(2, 0, 1.0).vector_norm(2, 1).max().item() <= 1.0


def test_equality_of_all_and_numbers_beside_nan():
    x = Tensor([1.0, float("nan")], device="CPU")
    assert not x.equal(x)
    assert x[:1].equal(Tensor([1.0], device="CPU"))
    assert not x.equal(Tensor([1.0], device="CPU"))
    assert x.fmax(0.5).tolist() == [1.0, 0.5]
    assert x.fmin(2).dtype is dtypes.float32
    assert Tensor([0.0, 0.0], device="CPU").xlog1py(x.sub(2.0)).isnan().tolist() == [False, True]


def test_a_product_is_added_to_what_counts_unless_beta_is_0():
    nan = Tensor(float("nan"), device="CPU")
    x = Tensor(X, device="CPU")
    np.testing.assert_allclose(nan.addmm(x, x.T, beta=0).numpy(), X @ X.T, rtol=1e-5, atol=1e-6)
    assert nan.addmm(x, x.T).isnan().all().item()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.gcd(x), DTypeError, r"\[gcd\] takes integers"),
        (lambda x: x.int().frexp(), DTypeError, r"\[frexp\] takes floats"),
        (lambda x: x.addmm(x, x[0]), ShapeError, r"\[addmm\] takes tensors of 2 and 2 axes"),
        (lambda x: x[None].addmm(x, x.T), ShapeError, r"\[addmm\] .* do not broadcast"),
        (lambda x: x.int().addmv(x.int(), x[0].int(), alpha=0.5), DTypeError, "integers are not"),
        (lambda x: x.cdist(x.T), ShapeError, r"\[cdist\] takes rows of one length"),
        (lambda x: x.cdist(x, -1), ValueError, "p is at least 0"),
        (lambda x: x.renorm(2, 0, -1.0), ValueError, r"\[renorm\]"),
        (lambda x: x.cov(fweights=x[0]), DTypeError, "fweights are integers"),
        (lambda x: x.cov(aweights=x[0, :2]), ShapeError, "one weight for each of 6"),
        (lambda x: x.histogram(0), ShapeError, "bins are 1 or more"),
        (lambda x: x.histogram(3, (1.0, 0.0)), ShapeError, "a range ascends"),
        (lambda x: x.int().histogram(3), DTypeError, "takes floats"),
        (lambda x: x.histogramdd([1, 2]), ShapeError, "for 6 axes"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(Tensor(X, device="CPU"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("q", [0.0, 0.37, 0.5, 0.999, 1.0])
def test_quantiles_of_many_halves_are_of_the_right_places(dtype, q):
    x = Tensor(np.random.default_rng(0).standard_normal(70001), device="CPU").cast(dtype)
    wanted = np.quantile(x.cast("float64").numpy(), q)
    for found in (x.quantile(q), x.nanquantile(q)):
        assert found.dtype is x.dtype
        np.testing.assert_allclose(found.cast("float64").item(), wanted, rtol=8e-3, atol=1e-6)
