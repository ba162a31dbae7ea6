"""The order of kernels around assignments: right, and no more work than there are of them."""

import numpy as np
import pytest

from treadle import Tensor, nn
from treadle.dtype import dtypes
from treadle.ir.node import Node
from treadle.schedule.kernel import Kernel
from treadle.schedule.order import soonest

from .work import BAR, work


def drawn_after(layers):
    """A weight, with random numbers drawn before it that nobody wants any more."""
    Tensor.manual_seed(3)
    for _ in range(layers):
        nn.Linear(2, 3)
    return nn.Linear(2, 3).weight


def written_from_itself(times):
    x = Tensor(np.arange(16, dtype=np.float32)).realize()
    for i in range(times):
        x[i % 16] = x[(i + 5) % 16] + 1
    return x


def added_to(times):
    x = Tensor(np.arange(16, dtype=np.float32)).realize()
    for _ in range(times):
        x += 1
    return x


@pytest.mark.parametrize("make", [drawn_after, written_from_itself, added_to])
def test_ten_times_the_assignments_take_about_ten_times_the_work(make):
    make(4).schedule()
    small = work(make(30).schedule)
    assert work(make(300).schedule) < BAR * small


def test_what_is_drawn_after_forgotten_layers_is_what_is_drawn_anyway():
    after = drawn_after(5).numpy()
    Tensor.manual_seed(3)
    layers = [nn.Linear(2, 3) for _ in range(6)]
    for layer in layers:
        Tensor.realize(*nn.state.get_parameters(layer))
    np.testing.assert_array_equal(after, layers[-1].weight.numpy())


def test_each_assignment_reads_what_those_before_it_left():
    expected = np.arange(16, dtype=np.float32)
    for i in range(40):
        expected[i % 16] = expected[(i + 5) % 16] + 1
    np.testing.assert_array_equal(written_from_itself(40).numpy(), expected)


def test_values_of_each_version_survive_the_versions_after_it():
    x = Tensor(np.arange(4, dtype=np.float32)).realize()
    sums = []
    for _ in range(20):
        sums.append((x * 2).sum())
        x[1:] = x[:-1] + x[1:]
    y, expected = np.arange(4, dtype=np.float32), []
    for _ in range(20):
        expected.append(2 * y.sum())
        y[1:] = y[:-1] + y[1:]
    Tensor.realize(*sums)
    assert [s.item() for s in sums] == expected
    np.testing.assert_array_equal(x.numpy(), y)


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
