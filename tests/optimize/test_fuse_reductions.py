"""Reductions that read the same elements share a loop, unless one needs the other."""

import numpy as np

from treadle import Tensor
from treadle.ir.op import Op
from treadle.optimize.moves import Moves
from treadle.optimize.reduction_moves import fuse_reductions
from treadle.target import parse_target


def loops(*tensors):
    """The different loops of reductions in the one kernel that computes `tensors`, once joined."""
    (kernel,) = tensors[0].schedule(*tensors[1:])
    moves = Moves(kernel.ast, parse_target("x86-64-v3"))
    fuse_reductions(moves)
    return len({n.src[1:] for n in moves.root.toposort() if n.op is Op.REDUCE})


def filled(seed=0):
    data = np.random.default_rng(seed).standard_normal((64, 128)).astype(np.float32)
    return Tensor(data).realize()


def test_a_sum_and_a_sum_of_squares_are_one_loop():
    x = filled()
    assert loops(x.sum(1), (x * x).sum(1), x.max(1)) == 1


def test_a_variance_needs_its_mean_first():
    assert loops(*filled().var_mean(1)) == 2


def test_each_level_of_two_softmaxes_is_one_loop():
    x = filled()
    assert loops(x.softmax(), (x * 2).softmax()) == 2


def test_what_reads_other_memory_keeps_its_loop():
    assert loops(filled().sum(1) * filled(1).sum(1)) == 2


def test_what_reads_the_memory_of_two_others_joins_them():
    x, y = filled(), filled(1)
    for a, b, both in ((x.sum(1), y.sum(1), (x * y).sum(1)), (y.sum(1), x.max(1), (y * x).sum(1))):
        assert loops(a * b * both) == loops(both * a * b) == loops(a * both * b) == 1
