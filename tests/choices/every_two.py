"""Every two terms beside each other, every scan of a term, every term added onto another matrix.

Values alone, so that as few kernels as can be have as much to do as can be.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from .chains import CORES, SOURCES, behind, scattered_of
from .parts import Part
from .recipes import Recipe
from .terms import NUMBERS, TERMS, terms_of

__all__ = ["every_two"]

# Rows and columns: few results; fewer, in a tile's way or across it; one long row; long rows.
FEW, NARROW, TALL, LONG, LARGE = (3, 64), (7, 5), (7, 64), (1, 2049), (1030, 520)
CUT = ("masked_products", "masked_products_of_wide_rows", "masked_products_apart")
DOWN = ("sums_down", "costly_sums_down", "variances_down")
OF_ROWS = ("softmax", "normalised", "largest_of_rows", "mirrored", "part_of_rows")
LARGE_SUMS = frozenset((
    "masked_sums", "padded_products", "masked_sums_down", "sums_of_sums", "places_along",
    "places_down", "sum_of_two_sums", *CUT,
))  # fmt: skip
SCANS = {
    "totals": (33, 100), "totals_down": (33, 64), "products_down": (64, 40),
    "totals_of_long_rows": (33, 264),
}  # fmt: skip
ONTO = (
    "terms", "woven_whole", "turned", "joined", "joined_rows", "joined_digits", "joined_both_ways"
)  # fmt: skip


def every_two() -> Iterator[tuple[str, Recipe]]:
    """Each program and what it is called."""
    for number, (size, one, two) in enumerate(_pairs()):
        part = terms_of(random.Random(number), *size, one, two)
        yield f"{one} and {two}, {size}", _values(part)
    for (scan, size), term in itertools.product(SCANS.items(), TERMS):
        rng = random.Random(f"{scan} {term}")
        core = CORES["totals_down" if scan == "totals_of_long_rows" else scan]
        first = terms_of(rng, *size, term)
        yield f"{scan} of {term}", behind(rng, first._replace(ends=True), core, "plain")
    for source, term in itertools.product(ONTO, (*NUMBERS, *CUT, "picked", "every_second", "rows")):
        rng = random.Random(f"{source} {term}")
        first = SOURCES[source](rng, 8, 48)
        sink = lambda rng, shape, term=term: scattered_of(rng, shape, True, term)
        yield f"{term} onto {source}", behind(rng, first, sink)


def _pairs() -> Iterator[tuple[tuple[int, int], str, str]]:
    for one, two in itertools.combinations(TERMS, 2):
        yield FEW, one, two
    for sizes, first in (((NARROW, TALL), CUT), ((LONG,), DOWN), ((LARGE,), OF_ROWS)):
        for size, one, two in itertools.product(sizes, first, TERMS):
            if size != LARGE or two not in LARGE_SUMS:
                yield size, one, two


def _values(part: Part) -> Recipe:
    return Recipe(part.run, part.inputs, 0, part.loose)
