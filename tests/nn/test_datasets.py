"""The digits: real, split by seed, and clear about what is missing."""

import sys

import numpy as np
import pytest

from treadle import nn
from treadle.errors import UserError


def test_the_digits_are_scaled_images_and_labels_of_which_a_fifth_is_held_back():
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    train_x, train_y, test_x, test_y = nn.datasets.digits()
    assert (train_x.shape, train_y.shape) == ((1438, 1, 8, 8), (1438,))
    assert (test_x.shape, test_y.shape) == ((359, 1, 8, 8), (359,))
    assert (train_x.dtype.name, train_y.dtype.name) == ("float32", "int32")
    pixels, labels = train_x.numpy(), train_y.numpy()
    assert (pixels.min(), pixels.max()) == (0.0, 1.0)
    assert sorted(np.unique(labels)) == list(range(10))


def test_the_split_depends_on_the_seed_alone():
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    first, again, other = (nn.datasets.digits(seed=s)[3].numpy() for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_without_scikit_learn_the_error_names_the_command_to_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(UserError, match=r'pip install "treadle\[demo\]"'):
        nn.datasets.digits()
