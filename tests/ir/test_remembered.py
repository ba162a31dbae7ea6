"""What a thread works out once while it makes one kernel."""

import threading

import pytest

from treadle.ir.loops import free_ranges, ranges_of
from treadle.ir.node import Node
from treadle.ir.remembered import Table, once, remembered

calls = []
TABLE = Table()


@once
def doubled(number):
    calls.append(number)
    return 2 * number


@pytest.fixture(autouse=True)
def no_calls():
    calls.clear()


def test_a_result_is_computed_once_in_a_block():
    with remembered():
        assert [doubled(3), doubled(4), doubled(3)] == [6, 8, 6]
        with remembered():  # the same block
            assert doubled(4) == 8
    assert calls == [3, 4]


def test_nothing_is_kept_outside_of_a_block():
    assert doubled(3) == doubled(3) == 6
    with remembered():
        doubled(3)
    with remembered():
        doubled(3)
    assert calls == [3, 3, 3, 3]


def test_threads_remember_apart():
    def other():
        doubled(3)
        with remembered():
            assert not TABLE.here()

    with remembered():
        doubled(3)
        TABLE.here()[3] = 4
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert calls == [3, 3]


def test_what_raises_is_tried_again():
    @once
    def fails_first(number):
        calls.append(number)
        if len(calls) == 1:
            raise ZeroDivisionError
        return number

    with remembered():
        with pytest.raises(ZeroDivisionError):
            fails_first(5)
        assert fails_first(5) == 5


@pytest.mark.parametrize("is_remembered", [False, True])
def test_ranges_of_a_node_are_those_of_the_graph(is_remembered):
    row, column = Node.range(8, 0), Node.range(16, 1)
    inner = row * 16 + column
    cases = {row: {row}, inner: {row, column}, inner % 3 + row: {row, column}, row.like(2): set()}
    if is_remembered:
        with remembered():
            assert {node: set(ranges_of(node)) for node in cases} == cases
            assert {node: set(ranges_of(node)) for node in cases} == cases
    else:
        assert {node: set(ranges_of(node)) for node in cases} == cases
    assert all(free_ranges(node)[node] == ranges for node, ranges in cases.items())
