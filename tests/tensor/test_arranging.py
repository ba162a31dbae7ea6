"""Formulas of axes and named moves against NumPy and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.errors import ShapeError

from .oracle import compare

torch = pytest.importorskip("torch")
CUBE = np.arange(2 * 6 * 4, dtype=np.float32).reshape(2, 6, 4)

FORMULAS = {
    "b c t -> t b c": ({}, lambda x: x.transpose(2, 0, 1)),
    "b (h d) t -> b h (d t)": ({"h": 3}, lambda x: x.reshape(2, 3, 8)),
    "b (h d) t->(h b) t d": (
        {"d": 2}, lambda x: x.reshape(2, 3, 2, 4).transpose(1, 0, 3, 2).reshape(6, 4, 2)
    ),
    "... t -> t ...": ({}, lambda x: np.moveaxis(x, -1, 0)),
    "b ... -> (b ...)": ({}, np.ravel),
    "b c t -> b 1 c () t": ({}, lambda x: x.reshape(2, 1, 6, 1, 4)),
    "(one b) c t -> one b c t": ({"one": 1}, lambda x: x[None]),
}  # fmt: skip


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_rearranges(device, formula):
    sizes, want = FORMULAS[formula]
    got = Tensor(CUBE, device=device).rearrange(formula, **sizes)
    np.testing.assert_array_equal(got.numpy(), want(CUBE))


def test_a_formula_has_gradients():
    compare("CPU", lambda x: x.rearrange("b (h d) t -> h b (t d)", h=2).square(),
            lambda x: x.reshape(2, 2, 3, 4).permute(1, 0, 3, 2).reshape(2, 2, 12).square(),
            CUBE)  # fmt: skip


@pytest.mark.parametrize(
    ("formula", "sizes", "word"),
    [
        ("b c t", {}, "needs one '->'"), ("b c -> c b", {}, "names 2 axes"),
        ("b c t -> b c", {}, "t on one side only"), ("b b t -> b t", {}, "names b twice"),
        ("b (h d) t -> b h d t", {}, "sizes of h, d"), ("b c (t -> b c t", {}, "not closed"),
        ("b (h d) t -> b h d t", {"h": 4}, "no multiple of 4"),
        ("b c t -> b c t", {"z": 2}, "name z"),
        ("b c) t -> b c t", {}, "cannot be read"),
        ("b ((c) d) t -> b c d t", {}, "cannot be read"),
        ("b c t -> b c t", {"c": 5}, "6 elements, its names say 5"),
    ],
)  # fmt: skip
def test_a_formula_that_does_not_fit_is_refused(formula, sizes, word):
    with pytest.raises(ShapeError, match=word):
        Tensor(CUBE).rearrange(formula, **sizes)


MOVES = {
    "movedim": (lambda x: x.movedim((0, 2), (1, 0)), lambda x: x.movedim((0, 2), (1, 0))),
    "narrow": (lambda x: x.narrow(1, -4, 3), lambda x: x.narrow(1, -4, 3)),
    "select": (lambda x: x.select(2, -1), lambda x: x.select(2, -1)),
    "unbind": (lambda x: x.unbind(1)[4], lambda x: x.unbind(1)[4]),
    "tile": (lambda x: x.tile(2, 1), lambda x: x.tile(2, 1)),
    "rot90": (lambda x: x.rot90(1, (1, 2)), lambda x: x.rot90(1, (1, 2))),
    "rot90 twice": (lambda x: x.rot90(2), lambda x: x.rot90(2)),
    "rot90 back": (lambda x: x.rot90(-1), lambda x: x.rot90(-1)),
    "fliplr": (lambda x: x.fliplr(), lambda x: x.fliplr()),
    "ravel": (lambda x: x.ravel(), lambda x: x.ravel()),
    "broadcast_to": (lambda x: x.broadcast_to(3, 2, 6, 4), lambda x: x.broadcast_to((3, 2, 6, 4))),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_named_move_matches_pytorch(device, name):
    ours, theirs = MOVES[name]
    compare(device, ours, theirs, CUBE)


def test_pixels_are_shuffled_as_by_pytorch(device):
    x = np.arange(2 * 8 * 3 * 2, dtype=np.float32).reshape(2, 8, 3, 2)
    compare(device, lambda x: x.pixel_shuffle(2), lambda x: torch.pixel_shuffle(x, 2), x)
    y = x.reshape(2, 2, 4, 6)
    compare(device, lambda x: x.pixel_unshuffle(2), lambda x: torch.pixel_unshuffle(x, 2), y)


def test_moves_that_do_not_fit_are_refused():
    x = Tensor(CUBE)
    for mistake in (
        lambda: x.movedim((0, 1), 2), lambda: x.narrow(1, 4, 3), lambda: x.rot90(1, (0, 0)),
        lambda: x.broadcast_to(2, 6, 5), lambda: x.t(), lambda: x.pixel_shuffle(4),
    ):  # fmt: skip
        with pytest.raises(ShapeError):
            mistake()
