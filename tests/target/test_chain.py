"""Chains of products: weights that never leave their lanes give what matrices give."""

import numpy as np
import pytest

from treadle.target import (
    CDNA2,
    CDNA3,
    CDNA4,
    MMA,
    RDNA3,
    RDNA4,
    SIMDGROUP,
    WGMMA,
    chain_of,
)

# Of AMD's units of 32 x 32 one product has more keys than the next one takes.
CHAINED = {
    **{f"mma {kind}": (MMA[kind], False) for kind in ("float16", "bfloat16")},
    **{f"wgmma {kind}": (WGMMA[kind], False) for kind in ("float16", "bfloat16")},
    **{f"rdna3 {kind}": (RDNA3[kind], True) for kind in ("float16", "bfloat16")},
    **{f"rdna4 {kind}": (RDNA4[kind], True) for kind in ("float16", "bfloat16")},
    **{f"simdgroup {kind}": (SIMDGROUP[kind], False) for kind in ("float16", "bfloat16")},
    **{
        f"cdna{number} {kind}": (family[kind, 16], True)
        for number, family in ((2, CDNA2), (3, CDNA3), (4, CDNA4))
        for kind in ("float16", "bfloat16")
    },
}
OTHERS = {
    "wgmma of bytes": WGMMA["int8"], "rdna3 of bytes": RDNA3["int8"],
    "mfma of 32": CDNA3["float16", 32], "bytes": MMA["int8"], "tf32": MMA["tf32"],
}  # fmt: skip


def held(matrix, fragment):
    """What each lane has of a matrix."""
    lanes, elements = range(fragment.width), range(fragment.count)
    return np.array([[matrix[fragment.place(lane, n)] for n in elements] for lane in lanes])


def matrix_of(values, fragment):
    """The matrix of which lanes have such values, each place in as many lanes as say the same."""
    found = np.full(fragment.shape, np.nan)
    for lane, mine in enumerate(values):
        for element, value in enumerate(mine):
            found[fragment.place(lane, element)] = value
    assert not np.isnan(found).any()
    return found


def product(unit, x, y):
    """What lanes have of the sums, by what they have of x and y, as the unit's own maps say.

    A unit that reads y by itself takes the matrix, of as many columns as it has rows.
    """
    if unit.memory is not None:
        return held(matrix_of(x, unit.x) @ y.T, unit.out.with_columns(len(y)))
    return held(matrix_of(x, unit.x) @ matrix_of(y, unit.y).T, unit.out)


def factor(matrix, fragment):
    """What lanes hold of a factor, or the matrix where nobody does."""
    return matrix if fragment is None else held(matrix, fragment)


def of_all(weights, apart):
    """What lanes hold when those that are so far apart have given each other theirs."""
    if not apart:
        return weights
    lane = np.arange(len(weights))
    low = lane & ~apart
    return np.concatenate([weights[low], weights[low | apart]], axis=1)


@pytest.mark.parametrize("name", CHAINED)
def test_sums_are_a_factor_of_the_next_product_as_lanes_hold_them(name):
    unit, is_turned = CHAINED[name]
    chain = chain_of(unit)
    assert chain.is_turned == is_turned
    multiply = (lambda x, y: product(unit, y, x)) if is_turned else lambda x, y: product(unit, x, y)
    rows, keys = chain.sums.shape
    random = np.random.default_rng(0)
    whole = lambda *shape: random.integers(-4, 5, shape).astype(float)
    steps = unit.steps
    q, k, v = whole(rows, steps), whole(steps, steps), whole(steps, keys)
    blocks = [
        multiply(held(q, chain.rows), factor(k[first : first + keys], chain.keys))
        for first in range(0, steps, keys)
    ]
    weights = of_all(np.concatenate(blocks, axis=1), chain.apart)
    out = multiply(weights, factor(v.T, chain.values))
    np.testing.assert_array_equal(matrix_of(out, chain.sums), q @ k.T @ v)


@pytest.mark.parametrize("name", CHAINED)
def test_lanes_that_share_a_row_are_said_with_the_elements_of_each(name):
    unit, _ = CHAINED[name]
    chain = chain_of(unit)
    for lane in range(chain.sums.width):
        for first, own in chain.elements.items():
            row, _ = chain.sums.place(lane, first)
            lanes = {lane}
            for step in chain.lanes_of_row:
                lanes |= {other ^ step for other in lanes}
            columns = {chain.sums.place(other, n)[1] for other in lanes for n in own}
            assert {chain.sums.place(other, n)[0] for other in lanes for n in own} == {row}
            assert columns == set(range(chain.sums.shape[1]))
    assert sorted(n for own in chain.elements.values() for n in own) == [*range(chain.sums.count)]


@pytest.mark.parametrize("name", OTHERS)
def test_other_units_have_no_such_sums(name):
    assert chain_of(OTHERS[name]) is None
