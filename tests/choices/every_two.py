"""Every two terms beside each other, every scan of a term, every term added onto another matrix.

Values alone, so that as few kernels as can be have as much to do as can be.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from .chains import CORES, SOURCES, Core, behind, scattered_of
from .parts import Part
from .recipes import Recipe
from .terms import NUMBERS, TERMS, terms_of

__all__ = ["every_two"]

# Rows and columns: few results; fewer, in a tile's way or across it; one long row; long rows, which
# are of whole vectors of 64 bytes and, with another matrix beside them, just fit small caches.
FEW, NARROW, TALL, SHORT, LONG = (3, 64), (7, 5), (7, 64), (7, 24), (1, 2049)
MANY, LARGE = (32, 64), (1030, 1024)
CUT = ("masked_products", "masked_products_of_wide_rows", "masked_products_apart")
SHARED = ("masked_products_of_fewer_steps",)  # whose columns are packed for all workers
DOWN = ("sums_down", "costly_sums_down", "variances_down")
MOVED = ("joined", "joined_rows", "turned")
OF_ROWS = ("softmax", "normalised", "largest_of_rows", "mirrored", "part_of_rows")
SEVERAL = 24
# Without reductions, or with such as are taken for one of their terms.
MOVED_SOURCES = ("plain", "every_second", "digits", "joined", "joined_digits", "joined_both_ways")
MOVED_CORES = ("plain", "picked_columns", "picked_row", "taken")
MOVED_SINKS = (
    "turned",
    "woven_with_others",
    "joined",
    "joined_rows",
    "totals_down",
    "turned_twice",
)
LARGE_SUMS = frozenset((
    "masked_sums", "padded_products", "masked_sums_down", "sums_of_sums", "sums_of_sums_down",
    "places_along", "places_down", "sum_of_two_sums", *CUT, *SHARED,
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
    yield from _several()
    for number, (size, one, two) in enumerate(_pairs()):
        part = terms_of(random.Random(number), *size, one, two)
        yield f"{one} and {two}, {size}", _values(part)
    for (scan, size), term in itertools.product(SCANS.items(), TERMS):
        rng = random.Random(f"{scan} {term}")
        core = CORES["totals_down" if scan == "totals_of_long_rows" else scan]
        first = terms_of(rng, *size, term)
        yield f"{scan} of {term}", behind(rng, first._replace(ends=True), core, "plain")
    for source, core, sink in itertools.product(MOVED_SOURCES, MOVED_CORES, MOVED_SINKS):
        rng = random.Random(f"{source} {core} {sink}")
        first = SOURCES[source](rng, 32, 264)
        yield f"{source}, {core}, {sink}", behind(rng, first, core, sink)
    for source, term in itertools.product(ONTO, (*NUMBERS, *CUT, "picked", "every_second", "rows")):
        rng = random.Random(f"{source} {term}")
        first = SOURCES[source](rng, 32, 64)
        sink = lambda rng, shape, term=term: scattered_of(rng, shape, True, term)
        yield f"{term} onto {source}", behind(rng, first, sink)


def _several() -> Iterator[tuple[str, Recipe]]:
    """Six terms at a time, with a product among them, a row or a column; and scans of six."""
    few = {FEW: CUT, TALL: CUT, NARROW: CUT, SHORT: SHARED, LONG: DOWN, MANY: MOVED}
    few |= {LARGE: OF_ROWS}
    for number, (size, first) in itertools.product(range(SEVERAL), few.items()):
        rng = random.Random(f"{number} {size}")
        others = [name for name in TERMS if size != LARGE or name not in LARGE_SUMS]
        names = [rng.choice(first), *rng.sample(others, 1 if size == LARGE else 5)]
        yield f"{', '.join(names)}, {size}", _values(terms_of(rng, *size, *names))
    for number, (scan, size) in itertools.product(range(SEVERAL), SCANS.items()):
        rng = random.Random(f"{number} {scan}")
        first = terms_of(rng, *size, *rng.sample([*TERMS], 5))
        core = CORES["totals_down" if scan == "totals_of_long_rows" else scan]
        yield f"{scan} of several, {number}", behind(rng, first._replace(ends=True), core, "plain")
    for term in TERMS:
        if term not in LARGE_SUMS:
            rng = random.Random(f"ahead {term}")
            first = terms_of(rng, *LARGE, "softmax", "part_of_rows", term)
            yield f"rows ahead and {term}", _values(first)
    for number in range(4):
        rng = random.Random(f"ahead onto {number}")
        first = terms_of(rng, *LARGE, "softmax", "part_of_rows")
        yield f"several onto rows ahead, {number}", behind(rng, first, _onto(rng, 2))
    for number, size in itertools.product(range(SEVERAL), ((64, 128), (300, 12))):
        rng = random.Random(f"onto {number} {size}")
        first = terms_of(rng, *size, rng.choice((*SHARED, "masked_products")))
        yield f"several onto a product, {number}", behind(rng, first, _onto(rng, 4))
    for number, source in itertools.product(range(SEVERAL), ONTO):
        rng = random.Random(f"{number} {source}")
        first = SOURCES[source](rng, *rng.choice(((32, 128), (4, 600), (32, 64))))
        yield f"several onto {source}, {number}", behind(rng, first, _onto(rng, 4))


def _onto(rng: random.Random, count: int) -> Core:
    """So many terms, most of them numbers, each element of which is added at a place."""
    names = rng.sample([*NUMBERS, "picked", "every_second", "rows", "largest_of_rows"], count)
    return lambda rng, shape: scattered_of(rng, shape, True, *names)


def _pairs() -> Iterator[tuple[tuple[int, int], str, str]]:
    for one, two in itertools.combinations(TERMS, 2):
        yield FEW, one, two
    for sizes, first in (
        ((NARROW, TALL), CUT),
        ((LONG,), DOWN),
        ((MANY,), MOVED),
        ((LARGE,), OF_ROWS),
    ):
        for size, one, two in itertools.product(sizes, first, TERMS):
            if size != LARGE or two not in LARGE_SUMS:
                yield size, one, two


def _values(part: Part) -> Recipe:
    return Recipe(part.run, part.inputs, 0, part.loose)
