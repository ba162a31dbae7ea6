"""Rules by which reductions go through one loop together: on exact numbers, and in kernels."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.bench.attention_programs import PROGRAMS
from treadle.engine.realized import current
from treadle.ir.carried import factors_of, rows_of
from treadle.ir.evaluate import evaluate
from treadle.ir.loops import ranges_of
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.schedule.passes import schedule
from treadle.target import parse_target

SCORES = [None, -2, 0, 1, 3]  # None is -inf


def power(score, base):
    """2 ** (score - base), exactly."""
    return Fraction(0) if score is None else Fraction(2) ** (score - base)


@pytest.mark.parametrize("tiles", [(1, 1, 1, 1), (2, 2), (1, 3), (3, 1), (4,)])
def test_carried_sums_are_those_of_the_definition(tiles):
    """All scores of four keys, in tiles of keys, with any factor beside the exponential."""
    factors = [Fraction(3), Fraction(-5, 7), Fraction(1, 2), Fraction(11)]
    for scores in itertools.product(SCORES, repeat=4):
        most, total, first = None, Fraction(0), 0
        for size in tiles:
            tile = range(first, first + size)
            shown = [scores[j] for j in tile if scores[j] is not None]
            larger = max([*shown, *([] if most is None else [most])], default=None)
            base = 0 if larger is None else larger
            total *= power(most, base)
            total += sum(power(scores[j], base) * factors[j] for j in tile)
            most, first = larger, first + size
        all_shown = [s for s in scores if s is not None]
        assert most == max(all_shown, default=None)
        base = 0 if most is None else most
        assert total == sum(power(s, base) * f for s, f in zip(scores, factors, strict=True))


def test_sums_that_change_places_are_equal():
    rng = np.random.default_rng(0)
    w, g, y = (
        [[Fraction(int(n), 7) for n in row] for row in rng.integers(-9, 9, shape)]
        for shape in ((1, 6), (1, 4), (6, 4))
    )
    dots = [sum(g[0][c] * y[j][c] for c in range(4)) for j in range(6)]
    sums = [sum(w[0][j] * y[j][c] for j in range(6)) for c in range(4)]
    assert sum(w[0][j] * dots[j] for j in range(6)) == sum(g[0][c] * sums[c] for c in range(4))


def drawn(rng, leaves, depth):
    """An expression of products, quotients and negations, and what else stands in them."""
    if depth == 0 or rng.random() < 0.15:
        return leaves[rng.integers(len(leaves))]
    inner = lambda: drawn(rng, leaves, depth - 1)
    kind = rng.integers(5)
    if kind == 0:
        return Node(Op.NEG, dtypes.float64, (inner(),))
    if kind == 1:
        return Node(Op.FDIV, dtypes.float64, (inner(), leaves[rng.integers(len(leaves))]))
    if kind == 2:
        return inner() + 1.5
    return inner() * inner()


@pytest.mark.parametrize("seed", range(40))
def test_factors_of_both_kinds_are_the_product(seed):
    rng = np.random.default_rng(seed)
    loops = [Node.range(4, number) for number in range(2)]
    leaves = [Node(Op.CAST, dtypes.float64, (loop,)) + 0.5 for loop in loops]
    node = drawn(rng, leaves, 5)
    mine, others = factors_of(node).split(loops[0])
    assert loops[0] not in ranges_of(others.node(dtypes.float64))
    places = np.meshgrid(np.arange(4), np.arange(4), indexing="ij")
    values = dict(zip(loops, places, strict=True))
    both = mine.node(dtypes.float64) * others.node(dtypes.float64)
    np.testing.assert_allclose(evaluate(both, values), evaluate(node, values), rtol=1e-12)


def rows_in(name, is_step=True, tokens=512):
    """What the rules make of the kernels of a program."""

    def make(*shape):
        made = Tensor.full(shape, 0.5, dtype=dtypes.bfloat16, device="CPU").contiguous().realize()
        made.requires_grad = True
        return made

    made = PROGRAMS[name](tokens, make)
    nodes = [made.result.node]
    if is_step:
        made.result.backward(make(*made.result.shape).detach())
        nodes += [t.grad.node for t in made.wanted]
    kernels, _ = schedule(current(nodes)[0], "CPU", parse_target("sm_80"))
    return [rows_of(kernel.ast.src[0]) for kernel in kernels]


def test_softmax_is_one_pass_with_its_maximum_and_its_sum():
    (found,) = rows_in("causal", is_step=False)
    ((most, total, result),) = found.passes
    assert (most.op, total.op, result.op) == (Op.MAX, Op.ADD, Op.ADD)
    assert total.most is result.most is most.total
    assert most.factor.value == pytest.approx(1 / 8)  # the scale leaves the maximum
    assert result.value is not None


def test_a_step_has_two_passes_for_what_waits_for_statistics_and_one_that_reads_them():
    first, second = rows_in("causal")
    assert [len(reductions) for reductions in first.passes] == [3, 1]
    assert len(first.dots) == 1
    assert [len(reductions) for reductions in second.passes] == [2]
    assert not any(r.most for reductions in second.passes for r in reductions)


def test_what_no_maximum_is_taken_of_is_not_carried():
    first, _ = rows_in("sigmoid")
    assert [len(reductions) for reductions in first.passes] == [2]
    for name, op in (("squared relu", Op.MUL), ("exponentials", Op.EXP)):
        q, k, v = (Tensor.full((512, 64), 0.5, dtype=dtypes.bfloat16, device="CPU").contiguous()
                   for _ in range(3))  # fmt: skip
        Tensor.realize(q, k, v)
        scores = q.matmul(k.T, dtype=dtypes.float32)
        weights = scores.relu().square() if op is Op.MUL else (scores - 3.0).exp()
        node = (weights.cast(dtypes.bfloat16) @ v).node
        (kernel,), _ = schedule(current([node])[0], "CPU", parse_target("sm_80"))
        ((one,),) = rows_of(kernel.ast.src[0]).passes
        assert one.base is None, name


def test_a_base_below_the_maximum_is_no_base():
    """exp(s - m / 2) would overflow on the way: it waits for the maximum, in a second pass."""
    q, k, v = (Tensor.full((512, 64), 0.5, dtype=dtypes.bfloat16, device="CPU").contiguous()
               for _ in range(3))  # fmt: skip
    Tensor.realize(q, k, v)
    scores = q.matmul(k.T, dtype=dtypes.float32)
    most = scores.max(-1, keepdim=True)
    counts = []
    for base in (most, most.maximum(1.0), most * 0.5, most.minimum(1.0)):
        node = ((scores - base).exp().cast(dtypes.bfloat16) @ v).node
        (kernel,), _ = schedule(current([node])[0], "CPU", parse_target("sm_80"))
        counts.append(len(rows_of(kernel.ast.src[0]).passes))
    assert counts == [1, 1, 2, 2]


def test_the_place_of_an_extreme_is_no_carried_total():
    """Rows of a product that the kernels of places compute: nothing is kept for them."""
    x, w = (Tensor.full(shape, 0.5, device="CPU").contiguous() for shape in ((95, 4), (4, 260)))
    Tensor.realize(x, w)
    scores = x @ w
    largest = scores.max(1)
    for results in ([(scores > 0).where(scores, -1e30)], [scores, -scores], [scores, largest]):
        nodes = [(r if r is largest else r.argmax(1)).node for r in results]
        kernels, _ = schedule(current(nodes)[0], "CPU", parse_target("sm_80"))
        places = [k for k in kernels if any(n.op is Op.TUPLE for n in k.ast.toposort())]
        assert places
        assert all(rows_of(end) is None for kernel in places for end in kernel.ast.src)
