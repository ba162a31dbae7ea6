"""Bounds of an index under conditions, against all the values that there are."""

from __future__ import annotations

import itertools

import pytest

from treadle.dtype import dtypes
from treadle.ir.args import ParamRef
from treadle.ir.conditions import TRUE, all_of, bounds_where, parts, stays_inside
from treadle.ir.evaluate import evaluate
from treadle.ir.node import Node
from treadle.ir.op import Op

M, J, P = (Node.range(size, number) for number, size in enumerate((6, 4, 2)))

CASES = [
    (M - J + 4, [~(M - J < -2), M - J < 3]),
    (M - J, [J - M < 1]),
    (J * 2 + P - 1, [~(J * 2 + P < 1), J * 2 + P < 8]),
    (M * 10 + J * 4 + P * 2 - 2, [~(J * 2 + P < 1)]),
    (M * 10 + J * 4 + P * 3, [J * 2 + P < 4]),
    ((M - J) * 7 + P, [M - J < 2, ~(M - J < 0)]),
    (M + J, [M < 3, J.eq(2)]),
    (J - M, [M - J < 2, ~(M - J < 0)]),
]


@pytest.mark.parametrize(("index", "conditions"), CASES)
def test_bounds_hold_for_all_values_and_are_no_wider_than_without_conditions(index, conditions):
    low, high = bounds_where(index, conditions)
    least, most = bounds_where(index, [])
    assert least <= low
    assert high <= most
    found = []
    for values in itertools.product(range(6), range(4), range(2)):
        at = dict(zip((M, J, P), values, strict=True))
        if all(evaluate(c, at) for c in conditions):
            found.append(int(evaluate(index, at)))
    assert low <= min(found)
    assert max(found) <= high


@pytest.mark.parametrize(
    ("index", "conditions", "expected"),
    [(*CASES[0], (2, 6)), (*CASES[2], (0, 6)), (*CASES[5], (0, 8)), (*CASES[7], (-1, 0))],
)
def test_bounds_of_sums_that_conditions_are_about_are_exact(index, conditions, expected):
    assert bounds_where(index, conditions) == expected


def test_an_index_stays_inside_where_a_condition_says_so():
    memory = Node(Op.PARAM, dtypes.float32, (), ParamRef(0, 7))
    after = Node(Op.AFTER, dtypes.float32, (memory,))
    index = J * 2 + P - 1
    assert stays_inside(index, memory, [~(J * 2 + P < 1)])
    assert stays_inside(index, after, [~(J * 2 + P < 1)])
    assert not stays_inside(index, memory, [])
    assert not stays_inside(index + 1, memory, [~(J * 2 + P < 1)])


def test_parts_of_a_condition_are_found_once_each():
    one, two = M < 3, J < 2
    assert parts((one & two) & one) == [one, two]
    assert parts(TRUE) == []
    assert all_of([]) is TRUE
    assert all_of([one, two]) is one & two
