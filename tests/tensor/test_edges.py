"""Edges that PyTorch's OpInfo found: sizes of 0, no axes at all, and what has to be refused."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import DTypeError, ShapeError

from .oracle import compare

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_a_softmax_of_nothing_has_the_dtype_asked_for(name):
    empty = Tensor.zeros(5, 0)
    assert getattr(empty, name)(-1, dtype=dtypes.float64).dtype is dtypes.float64
    assert getattr(empty, name)(-1).dtype is dtypes.float32


@pytest.mark.parametrize("keep", [True, False])
def test_a_scalar_is_selected_or_not(keep):
    values = Tensor(3.0).masked_select(Tensor(keep))
    assert values.tolist() == [3.0] * keep


def test_padding_other_axes_than_an_empty_one(device):
    x = np.zeros((0, 3), np.float32)
    assert Tensor(x, device=device).pad(((0, 0), (1, 2)), mode="reflect").numpy().shape == (0, 6)


@pytest.mark.parametrize("pads", [(-1, 1, -2, 1), (2, -1, -1, 3), (-1, -1, 1, 1)])
def test_circular_padding_goes_round_what_is_left_after_the_cut(device, pads):
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype(np.float32)
    compare(
        device, lambda t: t.pad((*pads, 0, 0, 0, 0), mode="circular"),
        lambda t: torch.nn.functional.pad(t, pads, "circular"), x,
    )  # fmt: skip


@pytest.mark.parametrize("offset", [-4, -2, 0, 1, 4])
def test_diagonals_at_an_offset_and_of_other_axes_match_pytorch(device, offset):
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
    compare(device, lambda t: t.diagonal(offset, 2, 0), lambda t: t.diagonal(offset, 2, 0), x)
    compare(device, lambda t: t.diag(offset), lambda t: t.diag(offset), x[0])
    compare(device, lambda t: t.diag(offset), lambda t: t.diag(offset), x[0, 0])


def test_a_diagonal_of_one_axis_is_refused():
    with pytest.raises(ShapeError, match=r"\[diagonal\] dim1 1 and dim2 -1 are the same axis"):
        Tensor.zeros(2, 3).diagonal(0, 1, -1)


def test_gelu_by_tanh_matches_pytorch(device):
    x = np.linspace(-6, 6, 41, dtype=np.float32)
    compare(device, lambda t: t.gelu("tanh"),
            lambda t: torch.nn.functional.gelu(t, approximate="tanh"), x)  # fmt: skip
    with pytest.raises(ValueError, match=r"\[gelu\]"):
        Tensor(x).gelu("asdf")


@pytest.mark.parametrize("pool", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize(
    "options", [{"padding": -1}, {"padding": 2}, {"dilation": 0}, {"stride": 0}]
)
def test_pooling_of_padding_alone_or_without_steps_is_refused(pool, options):
    with pytest.raises(ShapeError, match=r"\[\w+\] (padding|stride|dilation)"):
        getattr(Tensor.zeros(1, 1, 6, 6), pool)(2, **options)


def test_convolutions_in_no_groups_or_without_steps_are_refused():
    x, weight = Tensor.zeros(1, 2, 4, 4), Tensor.zeros(2, 2, 2, 2)
    with pytest.raises(ShapeError, match="groups=0"):
        x.conv2d(weight, groups=0)
    with pytest.raises(ShapeError, match="stride"):
        x.conv2d(weight, stride=0)


def test_values_without_a_place_each_are_not_unpooled():
    with pytest.raises(ShapeError, match=r"\[max_unpool2d\] one place for each value"):
        Tensor.zeros(1, 1, 4, 4).max_unpool2d(Tensor.zeros(1, 1, 4, 1, dtype=dtypes.int32))


def test_counts_and_ranges_that_are_no_numbers_are_refused():
    with pytest.raises(ShapeError, match=r"\[linspace\] steps is a whole number"):
        Tensor.linspace(0, 1, 3.0)  # type: ignore[arg-type]
    for bad in (float("inf"), float("nan")):
        with pytest.raises(ShapeError, match=r"\[arange\] .* must be finite"):
            Tensor.arange(0, bad)


def test_only_tensors_are_joined():
    with pytest.raises(DTypeError, match=r"\[cat\] joins tensors, not a NoneType"):
        Tensor([1.0]).cat(None)  # type: ignore[arg-type]


def test_no_part_of_tensor_hides_a_helper_of_another():
    """What is public may be extended, and calls what it extends; helpers are each part's own."""
    homes = {}
    for part in Tensor.__mro__:
        for name in vars(part):
            if name.startswith("_") and not name.startswith("__"):
                homes.setdefault(name, []).append(part.__name__)
    assert {name: parts for name, parts in homes.items() if len(parts) > 1} == {}


INF = np.inf
EDGES = {
    "softplus": (INF, -INF, 100, -20),
    "logsigmoid": (INF, -INF, 20, -100),
    "sigmoid": (INF, -INF, 200, -200),
    "atan": (INF, -INF, 0),
    "asin": (1, -1, INF, 2, 0),
    "acos": (1, -1, INF, 2, 0),
    "asinh": (INF, -INF, 0),
    "acosh": (INF, 1, 0.5, 1e30),
    "atanh": (1, -1, INF, -INF, 2),
    "sinh": (88.8, 89, -89, 89.4, 90, INF),
    "cosh": (88.8, 89, -89, 89.4, 90, -INF),
    "digamma": (INF,),
    "lgamma": (INF, -INF, 3),
    "logit": (0, 1, 0.5),
    "erfinv": (1, -1, 2, 0, 0.5),
    "erfc": (INF, -INF, 0, 9, 30),
    "log1p": (-1, -2, INF, 0, 1e30),
    "hardsigmoid": (-2.9999, -2.99999, -3, 3, 2.9999, INF, -INF),
}


@pytest.mark.parametrize("device", ["CPU", "REF"])
@pytest.mark.parametrize("name", EDGES)
def test_values_and_slopes_at_the_ends_are_pytorchs(name, device):
    x = np.array(EDGES[name], np.float32)
    theirs = getattr(torch.nn.functional, name, None) or getattr(torch, name)
    compare(device, lambda t: getattr(t, name)(), theirs, x, rtol=2e-6, atol=1e-30)


@pytest.mark.parametrize("device", ["CPU", "REF"])
def test_logaddexp_of_an_infinity_passes_the_gradient_to_it(device):
    x, y = np.array([INF, -INF, 0.0], np.float32), np.array([0.0, 1.0, -INF], np.float32)
    compare(device, lambda a, b: a.logaddexp(b), torch.logaddexp, x, y)
    equal = Tensor([INF, -INF]).logaddexp(Tensor([INF, -INF]))
    assert equal.tolist() == [INF, -INF]


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_reaches_as_far_as_its_type(device, approximate):
    x = np.array([1.7e38, -1.7e38, 1e-38], np.float32)
    compare(device, lambda t: t.gelu(approximate),
            lambda t: torch.nn.functional.gelu(t, approximate=approximate), x)  # fmt: skip


def test_the_logarithm_of_the_normal_distribution_reaches_as_far_as_its_type(device):
    x = np.array([-1.84e19, -1e10], np.float32)
    exact = torch.special.log_ndtr(torch.tensor(x).double()).numpy()
    np.testing.assert_allclose(Tensor(x, device=device).log_ndtr().numpy(), exact, rtol=1e-6)
