"""Conditions without which a step changes nothing, and the bounds of loops that follow from them.

Random masks around random arithmetic, against what the values are at every place.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.ir.accumulators import identity
from treadle.ir.args import ParamRef, ReduceArg, StageArg
from treadle.ir.conditions import TRUE
from treadle.ir.evaluate import evaluate
from treadle.ir.loops import ranges_of
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.views import Load, Reduce, Stage
from treadle.optimize.masked_bounds import (
    extreme,
    needed,
    shown,
    span_of,
    span_of_rows,
    value_where,
)

ROW, STEP, INNER = LOOPS = tuple(Node.range(size, n) for n, size in enumerate((7, 9, 3)))
MEMORY = Node(Op.PARAM, dtypes.float32, (), ParamRef(0, 1 << 10))
OPS = (Op.ADD, Op.MAX, Op.MIN, Op.MUL)


class Programs:
    """Random values under random masks. Loads are of positive numbers."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.loads = {}

    def comparison(self):
        number = self.random.randint
        sums = STEP * number(-2, 3) + ROW * number(-2, 2) + INNER * number(-1, 1) + number(-5, 9)
        if number(0, 2) == 0:
            sums = (STEP + ROW * number(-1, 1)) // number(1, 4) - number(0, 2)
        condition = (
            sums.cast(dtypes.int32) < number(-3, 9) if number(0, 1) else sums < number(-3, 9)
        )
        return ~condition if number(0, 1) else condition

    def linear(self):
        by = lambda: self.random.randint(-3, 3)
        return STEP * by() + INNER * by() + ROW * by() + by()

    def condition(self):
        one, other = self.comparison(), self.comparison()
        return self.random.choice((one, one & other, one | other, ~(one & other), ~(one | other)))

    def load(self):
        index = ROW * 27 + STEP * 3 + INNER + self.random.randint(0, 99)
        gated = self.random.random() < 0.4
        gate, other = self.condition() if gated else TRUE, Node.const(dtypes.float32, 0)
        load = Load(MEMORY, index, gate, other, dtypes.float32)
        self.loads[load.node()] = load
        return load.node()

    def value(self, depth, none):
        if depth == 0:
            return self.load()
        inner = self.value(depth - 1, none)
        kind = self.random.randrange(7)
        if kind == 0:
            return inner * self.load()
        if kind == 1:
            return inner - self.load()
        if kind == 2:
            return inner.alu(Op.FDIV, self.load() + 1.0)
        if kind == 3:
            return Node(Op.EXP, inner.dtype, (inner,))
        yes, no = inner, Node.const(inner.dtype, self.random.choice((none, none, 0.0, -np.inf)))
        return self.condition().where(*((yes, no) if kind < 6 else (no, yes)))

    def everywhere(self, node):
        """What a node is at all places."""
        grid = np.meshgrid(*(np.arange(r.src[0].arg) for r in LOOPS), indexing="ij")
        known = dict(zip(LOOPS, grid, strict=True))
        numbers = np.random.default_rng(0).uniform(0.5, 2, 1 << 10)
        for load, (_, index, gate, _, _) in self.loads.items():
            shown = numbers[evaluate(index, known)].astype(np.float32)
            known[load] = np.where(evaluate(gate, known), shown, 0)
        return np.broadcast_to(evaluate(node, known), grid[0].shape)


@pytest.mark.parametrize("op", OPS)
def test_a_step_without_what_it_needs_changes_nothing(op):
    found = bounded = 0
    for seed in range(150):
        programs = Programs(seed)
        none = identity(op, dtypes.float32).value
        value = programs.value(programs.random.randint(1, 3), none)
        with np.errstate(all="ignore"):
            counts = programs.everywhere(value) != none
        conditions = needed(value, op)
        for condition in conditions:
            assert not counts[~programs.everywhere(condition)].any()
            found += 1
        span = span_of(conditions, STEP, frozenset((ROW,)))
        first, last = (programs.everywhere(end) for end in (span.begin, span.end))
        steps = programs.everywhere(STEP)
        assert not counts[(steps < first) | (steps >= last)].any()
        bounded += bool(span.loops)
    assert found > 30
    assert bounded > 4


@pytest.mark.parametrize("is_most", [False, True])
def test_the_most_in_a_box_is_no_less_than_at_any_of_its_places(is_most):
    for seed in range(150):
        programs, box = Programs(seed), {STEP: (ROW, ROW + 2), INNER: (ROW.like(0), ROW.like(2))}
        quotient = programs.linear() // programs.random.randint(1, 4)
        node = quotient.maximum(programs.linear()).minimum(programs.linear() + 5)
        most = extreme(node, box, is_most)
        assert most is not None
        assert ranges_of(most) <= {ROW}
        for row, step, inner in itertools.product(range(7), range(3), range(3)):
            inside = evaluate(node, {ROW: row, STEP: row + step, INNER: inner})
            limit = evaluate(most, {ROW: row})
            assert inside <= limit if is_most else inside >= limit


def test_what_is_not_monotonic_has_the_bounds_of_its_type_of_arithmetic():
    by = extreme((ROW + 90) // (STEP + 1), {STEP: (ROW.like(0), ROW.like(8))}, True)
    assert by is not None
    assert all(evaluate(by, {ROW: n}) >= 90 + n for n in range(7))
    most = extreme(ROW + (STEP * 5) % 7, {STEP: (ROW, ROW + 1)}, True)
    assert most is not None
    assert [int(evaluate(most, {ROW: n})) for n in range(7)] == [n + 6 for n in range(7)]
    assert extreme(Node(Op.XOR, dtypes.index, (STEP - 3, ROW)), {STEP: (ROW, ROW)}, True) is None


def masked(place):
    return (place < ROW + 1).where(Programs(0).load(), -np.inf)


def test_a_condition_on_a_kept_row_is_one_on_where_it_is_read():
    fill = Node.range(9, 7)
    row = Stage(masked(fill), TRUE, (fill,), (STEP,), (fill,), StageArg("shared", (9,)),
                dtypes.float32).node()  # fmt: skip
    largest = Reduce(row, (STEP,), ReduceArg(Op.MAX)).node()
    weight = Node(Op.EXP, dtypes.float32, (row - largest,))
    total = Reduce(weight * Programs(1).load(), (STEP,), ReduceArg(Op.ADD)).node()
    span = span_of_rows((largest, total), 9, frozenset((ROW,)))
    assert span is not None
    ends = [[int(evaluate(n, {ROW: row})) for n in (span.begin, span.end)] for row in range(7)]
    assert ends == [[0, row + 1] for row in range(7)]
    whole = Reduce(weight + 1.0, (STEP,), ReduceArg(Op.ADD)).node()
    assert span_of_rows((largest, whole), 9, frozenset((ROW,))) is None


def test_a_sum_of_sums_counts_where_any_of_its_inner_steps_does():
    shown = (STEP * 3 + INNER < ROW * 2).where(Programs(0).load(), 0.0)
    inner = Reduce(shown, (INNER,), ReduceArg(Op.ADD)).node()
    (condition,) = needed(inner, Op.ADD)
    assert ranges_of(condition) == {ROW, STEP}
    for row, step in itertools.product(range(7), range(9)):
        assert bool(evaluate(condition, {ROW: row, STEP: step})) == (step * 3 < row * 2)


def test_what_is_shown_asks_no_more_but_reads_nothing_else():
    one, other = STEP < ROW, ~(STEP < 3)
    gated = Load(MEMORY, STEP, one, Node.const(dtypes.float32, 0), dtypes.float32).node()
    assert shown((one & other).where(gated, -np.inf) + 1.0, [one]) is (
        other.where(gated, -np.inf) + 1.0
    )
    assert shown((~one | other).where(-np.inf, one.where(gated, 0.0)), [one, STEP < 3]) is gated


def test_zero_absorbs_what_is_finite_alone():
    load = Programs(0).load()
    product = (STEP < ROW).where(load, 0.0) * load
    assert needed(product, Op.ADD) == [STEP < ROW]
    assert needed(product, Op.ADD, others_are_finite=False) == []
    assert value_where(product, {load: 0.0}) == 0
    assert value_where(load - ROW.cast(dtypes.float32), {load: -np.inf}) == -np.inf
