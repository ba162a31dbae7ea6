"""Loops eliminated from conditions, beside trying all of their iterations."""

from __future__ import annotations

import itertools
import random

import pytest

from treadle.ir.elimination import is_met_for_each
from treadle.ir.evaluate import evaluate
from treadle.ir.node import Node
from treadle.ir.op import Op

SIZES = (5, 4, 3, 6)
OWN, TAP, OUTER, OTHER = LOOPS = tuple(Node.range(size, n) for n, size in enumerate(SIZES))


def is_met(conditions, own, kept):
    """What is_met_for_each proves, by trying all."""
    others = [loop for loop in LOOPS if loop not in own]

    def iterations(loops):
        sizes = (range(SIZES[LOOPS.index(loop)]) for loop in loops)
        return [dict(zip(loops, values, strict=True)) for values in itertools.product(*sizes)]

    rest = iterations(others)
    for mine in iterations(own):
        whole = [{**mine, **theirs} for theirs in rest]
        if all(evaluate(c, whole[0]) for c in kept):
            if not any(all(evaluate(c, at) for c in conditions) for at in whole):
                return False
    return True


# Windows that reach beyond an image's borders, and offsets of a window with a stride of 3.
WINDOW = [OUTER - TAP < 2, ~(OUTER - TAP < -2)]
OFFSETS = [~(TAP * 3 + OUTER < 1)]


@pytest.mark.parametrize(
    ("conditions", "own", "kept"),
    [
        (WINDOW, {TAP}, []),
        (OFFSETS, {TAP}, []),
        ([*WINDOW, OTHER * 2 - OWN < 1], {TAP, OWN}, []),
        ([TAP * 3 - OUTER - (OWN * 2) % 3 < 1, OUTER < 5], {TAP, OWN}, [TAP < 1]),
        ([OWN - OUTER < 2, OTHER < OUTER], {OWN}, [OWN < 3]),
        ([], {OWN}, []),
    ],
)
def test_what_holds_is_proved(conditions, own, kept):
    assert is_met(conditions, own, kept)
    assert is_met_for_each(conditions, frozenset(own), kept)


@pytest.mark.parametrize(
    ("conditions", "own", "kept"),
    [
        ([OUTER - OWN < -1], {OWN}, []),  # none before the first
        ([OUTER < OTHER, OTHER < OUTER], {OWN}, []),  # at odds with each other
        ([OWN < 3], {OWN}, []),  # about no other loop
        ([OUTER < OWN], {OWN}, [OWN < 3]),
        # 1 <= 3 * TAP - 3 * OUTER <= 2 has an answer among fractions only.
        ([~(TAP * 3 - OUTER * 3 < 1), TAP * 3 - OUTER * 3 < 3], {TAP}, []),
    ],
)
def test_what_does_not_hold_is_not_proved(conditions, own, kept):
    assert not is_met(conditions, own, kept)
    assert not is_met_for_each(conditions, frozenset(own), kept)


def test_random_conditions_are_proved_only_where_they_hold():
    rng = random.Random(0)
    proved = 0
    for _ in range(1500):
        own = frozenset(rng.sample(LOOPS, rng.randint(1, 3)))
        conditions = []
        for _ in range(rng.randint(1, 4)):
            terms = [rng.choice((-3, -2, -1, 0, 0, 1, 2)) * loop for loop in LOOPS]
            less = sum(terms[1:], terms[0]) < rng.randint(-3, 6)
            conditions.append(~less if rng.random() < 0.5 else less)
        conditions = [c for c in conditions if c.op is not Op.CONST]
        kept = [c for c in conditions if rng.random() < 0.3]
        conditions = [c for c in conditions if c not in kept]
        if is_met_for_each(conditions, own, kept):
            proved += bool(conditions)
            assert is_met(conditions, own, kept)
    assert proved > 100


def test_a_number_known_at_launch_is_met_whatever_it_is():
    length = Node.variable("length", 1, 9)
    assert is_met_for_each([OUTER < length], frozenset({OWN}), [])
    assert not is_met_for_each([OUTER + 1 < length], frozenset({OWN}), [])


def test_other_conditions_prove_nothing():
    assert not is_met_for_each([OUTER.eq(OWN)], frozenset({OWN}), [])
