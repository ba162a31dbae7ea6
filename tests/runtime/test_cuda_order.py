"""The order of kernels in a graph: all that is needed, for the memory of now and of later."""

import random

import pytest

from treadle.runtime.cuda.order import Order, Use


def conflicts(addresses, functions):
    """The pairs of functions that use the same bytes, one of them writing."""
    found = set()
    for later, uses in enumerate(functions):
        for earlier in range(later):
            for a in uses:
                for b in functions[earlier]:
                    x, y = addresses[a.cell], addresses[b.cell]
                    touch = max(x, y) < min(x + a.nbytes, y + b.nbytes)
                    if touch and (a.is_written or b.is_written):
                        found.add((earlier, later))
    return found


def reached(before):
    """All pairs that the direct ones order."""
    found = []
    for direct in before:
        found.append(set(direct).union(*(found[n] for n in direct)))
    return {(earlier, later) for later, all_ in enumerate(found) for earlier in all_}


def closed(pairs, count):
    """What conflicts order, one after the other."""
    return reached([[a for a, b in sorted(pairs) if b == later] for later in range(count)])


def random_list(generator):
    """A few kernels over a few pieces of memory, some of which overlap."""
    cells = [(call, number) for call in range(generator.randint(2, 6)) for number in range(3)]
    places = [generator.randrange(0, 60) for _ in range(generator.randint(2, 8))]
    addresses = {cell: generator.choice(places) for cell in cells}
    functions = [
        [
            Use((call, number), generator.choice((0, 4, 10)), number == 0)
            for number in range(generator.randint(1, 3))
        ]
        for call in sorted({call for call, _ in cells})
    ]
    return cells, addresses, functions


@pytest.mark.parametrize("seed", range(200))
def test_what_conflicts_is_ordered_and_nothing_else(seed):
    generator = random.Random(seed)
    cells, addresses, functions = random_list(generator)
    order = Order(addresses, functions)
    needed = conflicts(addresses, functions)
    assert reached(order.before) == closed(needed, len(functions))
    for _ in range(20):
        moving = generator.sample(cells, generator.randint(0, len(cells)))
        moved = {cell: generator.choice((100, 104, 120, 140, addresses[cell])) for cell in moving}
        if order.holds(moved):
            there = conflicts({**addresses, **moved}, functions)
            assert there <= reached(order.before)


def uses(*rows):
    """Functions that write their first cell and read the others, eight bytes each."""
    return [
        [Use((call, number), 8, number == 0) for number in range(len(row))]
        for call, row in enumerate(rows)
    ]


def ordered(*rows):
    addresses = {(call, n): at for call, row in enumerate(rows) for n, at in enumerate(row)}
    return Order(addresses, uses(*rows))


def test_inputs_and_results_that_move_together_keep_their_order():
    order = ordered((100, 0), (200, 100), (300, 0))
    assert order.before == [[], [0], []]
    assert order.holds({})
    assert order.holds({(0, 1): 400, (2, 1): 400})  # the input, everywhere
    assert order.holds({(0, 1): 400})  # or in one place
    assert order.holds({(0, 0): 500, (1, 1): 500, (0, 1): 400})  # a result with its reader
    assert not order.holds({(0, 0): 500})  # or without
    assert not order.holds({(0, 0): 500, (1, 1): 508})
    assert not order.holds({(0, 1): 196})  # an input that is another's result
    assert not order.holds({(1, 0): 296})  # two results at one place
    assert not order.holds({(1, 0): 400, (2, 1): 404})


def test_longer_ways_need_no_edge_of_their_own():
    assert ordered((100, 0), (200, 100), (300, 200, 100)).before == [[], [0], [1]]
    ring = [(100 * (n % 3), 100 * ((n + 2) % 3)) for n in range(9)]
    assert ordered(*ring).before == [[]] + [[n] for n in range(8)]
