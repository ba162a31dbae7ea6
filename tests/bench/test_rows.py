"""Every row gives PyTorch's numbers, gradients included, in each library that is installed."""

import os

import numpy as np
import pytest

from treadle.bench.libraries.base import NotOffered
from treadle.bench.peers import PEERS, installed
from treadle.bench.rows import works

CALLS = 3  # TinyJit runs plainly, captures, and then replays
# torch.compile and JAX compile for minutes.
SLOW = ("torch.compile", "torch treadle", "jax", "tinygrad")
NO_RESULTS = ("bandwidth",)
CHECKED = [
    name
    for name in PEERS
    if name not in NO_RESULTS and (name not in SLOW or os.environ.get("FULL_TESTS"))
]


def results(name, work):
    """What each of some calls gives."""
    library = PEERS[name].library()
    run = library.prepare(work)
    return [[np.copy(a) for a in library.arrays(run())] for _ in range(CALLS)]


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch warns of its own


@pytest.mark.parametrize("work", works(quick=True), ids=lambda w: w.name)
def test_a_row_gives_the_same_numbers_in_every_library(work):
    pytest.importorskip("torch", reason="PyTorch is the oracle of this test")
    expected = results("torch", work)
    check = same_rate if work.random else CHECKS.get(work.group, same_numbers)
    for name in CHECKED:
        if not installed(PEERS[name]):
            continue
        try:
            check(results(name, work), expected)
        except NotOffered:
            assert not name.startswith("treadle") or work.task == "training"


def same_numbers(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(b).max())


def same_sizes(found, expected):
    """The columns of a decomposition have any sign."""
    same_numbers(*([[np.abs(a) for a in call] for call in calls] for calls in (found, expected)))


def same_colours(found, expected):
    """Halves and bytes may be rounded to either side."""
    for ours, theirs in zip(found, expected, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            step = 1 if a.dtype == np.uint8 else 1e-3
            np.testing.assert_allclose(a.astype(np.float32), b.astype(np.float32), atol=step)


CHECKS = {"linalg": same_sizes, "video": same_colours}


def same_rate(found, expected):
    """Elements are dropped at random: as many, and the others scaled alike."""
    (first,), (second,), _ = found
    assert not np.array_equal(first, second)
    (theirs,) = expected[0]
    assert np.mean(first == 0) == pytest.approx(np.mean(theirs == 0), abs=0.02)
    both = (first != 0) & (theirs != 0)
    np.testing.assert_allclose(first[both], theirs[both], rtol=1e-6)


def test_the_names_of_rows_are_different():
    for quick in (False, True):
        names = [work.name for work in works(quick)]
        assert len(set(names)) == len(names)


def test_a_word_that_a_library_lacks_is_not_offered():
    with pytest.raises(NotOffered, match="NumPy has no conv2d"):
        PEERS["numpy"].library().conv2d(None, None)
