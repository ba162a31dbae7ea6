"""An index that is a sum of loops is, at each position, what substituting gives."""

import itertools
import random

import pytest

from treadle.ir.loops import free_ranges
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.rules.index import simplify
from treadle.lower.expand import _Expander

U, V = Node.range(4, 0, "unroll"), Node.range(8, 1, "vector")
LOOPS = [Node.range(n, k) for n, k in ((5, 2), (16, 3), (7, 4))]


def index(rng):
    """A sum of loops and their digits, in which copied ones stand alone or, at times, do not."""
    total = Node.index(rng.randrange(9))
    for loop in rng.sample([U, V, *LOOPS], rng.randrange(1, 6)):
        total = total + loop * rng.choice((1, 1, 3, 16, 40))
    if rng.random() < 0.5:
        total = total + (LOOPS[1] * 8 + LOOPS[0]) // rng.choice((3, 8)) * 8
    if rng.random() < 0.3:
        total = total + (U * 8 + LOOPS[1]) % 24
    return total


@pytest.mark.parametrize("seed", range(40))
def test_a_linear_index_is_what_substituting_gives(seed):
    node = simplify(index(random.Random(seed)))
    expander = _Expander(Node.sink((node,)), False, lambda _: 0)
    linear = expander._linear_of(node)
    mixed = [n for n in node.toposort() if n.op in (Op.MOD, Op.IDIV)]
    assert linear is not None or any(U in free_ranges(n)[n] for n in mixed)
    if linear is None:
        return
    for u, v in itertools.product((0, 3), (None, 0, 7)):
        position = {U: u} | ({} if v is None else {V: v})
        mapping = {r: Node.index(n) for r, n in position.items()}
        assert linear.at(position) is simplify(node.substitute(mapping))
