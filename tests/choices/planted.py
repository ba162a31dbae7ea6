"""Numbers that go wrong where loops are cut: extremes, ties and zeros at the ends of lines.

`planted(rng, array)` gives many of its lines along one axis a largest and a least element of their
own, at the first or last place, or beside a place where vectors, tiles and chunks end. Numbers at
random have such there too seldom: of 975 in a line, one of the first eight is the largest in 0.8 %
of the lines.
"""

from __future__ import annotations

import numpy as np

__all__ = ["edges", "planted", "planted_places"]

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 1024)  # of vectors, tiles and chunks
LINES = 0.5  # of those along the axis
FACTORS = 1.05, 1.5  # of the largest magnitude, so that no two extremes are the same


def edges(size: int) -> np.ndarray:
    """The places of a line of `size` where something begins or ends, the ends of it three times."""
    inner = [width + at for width in WIDTHS for at in (-1, 0, 1)]
    last = [size // width * width + at for width in WIDTHS for at in (-1, 0, 1)]
    places = [1, 2, size - 2, size // 2, *inner, *last, *[0, size - 1] * 3]
    return np.array([at for at in places if 0 <= at < size], np.int64)


def planted(rng: np.random.Generator, array: np.ndarray, is_smooth: bool) -> np.ndarray:
    """A copy of `array` with such lines; as it is if it is not of floats, or has one element.

    Where values are `is_smooth`, there are neither ties nor zeros: the slopes of maxima and kinks
    are none there.
    """
    if array.dtype.kind != "f" or array.size < 2:
        return array
    found = array.copy()
    lines = _lines(rng, found)
    size, largest = lines.shape[-1], np.abs(array).max()
    at = np.stack([rng.choice(edges(size), lines.shape[:-1]) for _ in range(3)])
    values = np.array((1, -1, 1)).reshape(3, *(1,) * (lines.ndim - 1)) * largest
    values = values * rng.uniform(*FACTORS, at.shape)
    if not is_smooth:
        values[2] = np.where(rng.random(at.shape[1:]) < 0.5, values[0], 0)  # a tie, or a zero
    chosen = rng.random(lines.shape[:-1]) < LINES
    for place, value in list(zip(at, values, strict=True))[: 2 if is_smooth else 3]:
        old = np.take_along_axis(lines, place[..., None], -1)[..., 0]
        new = np.where(chosen, value.astype(array.dtype), old)
        np.put_along_axis(lines, place[..., None], new[..., None], -1)
    return found


def _lines(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """The elements along one axis, a long one most often, as a view whose last axis that is."""
    often = np.sqrt(np.array(array.shape) - 1)
    return np.moveaxis(array, rng.choice(array.ndim, p=often / often.sum()), -1)


def planted_places(rng: np.random.Generator, found: np.ndarray, below: int) -> np.ndarray:
    """Places below a size, some at the ends of which are the first and the last one."""
    at = rng.choice(edges(len(found)), min(len(found), 8))
    found[at] = rng.choice((0, below - 1), len(at))
    return found
