"""Kernels in the order in which results are wanted, after what they need."""

from __future__ import annotations

from treadle.dtype import dtypes
from treadle.ir.node import Node
from treadle.schedule.kernel import Kernel
from treadle.schedule.soonest import soonest

A, B, C, D = (Node.const(dtypes.float32, number) for number in range(4))


def kernel(stores: Node, *reads: Node) -> Kernel:
    """One that reads some values and stores another."""
    return Kernel(Node.sink([stores]), (stores,), (*reads, stores), (len(reads),), "CPU", "")


def test_what_is_wanted_first_comes_first_with_what_it_needs():
    a, b, c, d = kernel(A), kernel(B, A), kernel(C, B), kernel(D, A)
    assert soonest([a, b, c, d], [D, C]) == [a, d, b, c]
    assert soonest([a, b, c, d], [C, D]) == [a, b, c, d]
    assert soonest([a, b, c, d], []) == [a, b, c, d]


def test_kernels_that_write_to_one_memory_stay_in_order():
    first, again, reader = kernel(A), kernel(A, B), kernel(C, A)
    other = kernel(D)
    assert soonest([other, first, again, reader], [C]) == [first, again, reader, other]
