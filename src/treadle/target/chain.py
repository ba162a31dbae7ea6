"""Products whose sums are, register for register, a factor of the next product.

    chain_of(MMA["float16"]).is_turned     ->  False: sums of q @ k.T are x of the next product
    chain_of(RDNA4["float16"]).is_turned   ->  True: sums of k @ q.T are y of the next product

The maps of a unit decide. Sums of some products side by side are as many keys as a factor has
steps. They are that factor if each of them is in the lane and the element where the factor has the
same row, whatever the step: a sum allows steps in any order, so the other factor is held in the
order of the keys. Where the unit reads that from shared memory by itself, keys are in its order.
Where lanes hold a factor several times and each has some of the sums, they give each other theirs.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from treadle.target.matrix import Digit, Fragment, MatrixUnit

__all__ = ["Chain", "chain_of"]

_BITS = 16  # of a factor's elements: two are a word


@dataclass(frozen=True)
class Chain:
    """Maps of a product of rows and keys, whose sums weigh values in the next product.

    The unit multiplies rows by keys, or if the chain `is_turned` keys by rows. `rows` and `keys`
    are maps of these factors to lines and steps, `sums` is that of the results to rows and keys, or
    to rows and columns of the next product. `values` maps to columns, and to keys as steps. All
    have the same digits of the number of a lane. Keys and values that the unit itself reads have
    no map. Lanes that are so far `apart`, if any, have sums of other steps, and hold all of them.
    """

    is_turned: bool
    rows: Fragment
    keys: Fragment | None
    sums: Fragment
    values: Fragment | None
    apart: int = 0

    @property
    def elements(self) -> dict[int, tuple[int, ...]]:
        """The elements of a lane's sums that are of one row, by the first of them."""
        rows: dict[int, list[int]] = {}
        for element in range(self.sums.count):
            rows.setdefault(self.sums.place(0, element)[0], []).append(element)
        return {elements[0]: tuple(elements) for elements in rows.values()}

    @property
    def lanes_of_row(self) -> tuple[int, ...]:
        """How far apart lanes are that have the same rows: bits of the number of a lane."""
        found, weight = [], 1
        for digit in self.sums.lanes:
            if digit.axis == 1:
                found += [weight << bit for bit in range(digit.extent.bit_length() - 1)]
            weight *= digit.extent
        return tuple(found)


@functools.cache
def chain_of(unit: MatrixUnit) -> Chain | None:
    """How sums of one product of a unit are a factor of the next, if they are."""
    x, y, out = unit.x, unit.y, unit.out
    if x is None or out is None or unit.dtype.bits != _BITS:
        return None
    if unit.memory is not None:  # of all columns, the fewest that there are
        out = out.with_columns(out.elements[-1].step)
    chains = [Chain(False, x, y, out, y)]
    if y is not None:
        turned = Fragment(*(tuple(map(_turned, d)) for d in (out.lanes, out.elements)))
        chains.append(Chain(True, y, x, turned, x))
    for chain in chains:
        order, values = _order(chain), chain.values
        if order is not None and values is not None:
            return _with_same_lanes(replace(chain, values=_reordered(values, order)))
        if order == tuple(range(unit.steps)):  # as y lies in memory
            return _with_same_lanes(chain)
        exchanged = _exchanged(chain)
        if exchanged is not None:
            return _with_same_lanes(exchanged)
    return None


def _turned(digit: Digit) -> Digit:
    return digit if digit.axis is None else digit._replace(axis=1 - digit.axis)


def _order(chain: Chain) -> tuple[int, ...] | None:
    """The key that each step of the next product is; None if its rows are no sums.

    Bits of a step are bits of a key.
    """
    rows, steps = chain.rows, chain.rows.shape[1]
    sums = chain.sums.tiled((1, -(-steps // chain.sums.shape[1])))
    if (sums.shape, sums.width, sums.count) != (rows.shape, rows.width, rows.count):
        return None
    order: dict[int, int] = {}
    for lane in range(rows.width):
        for element in range(rows.count):
            (row, step), (same, key) = rows.place(lane, element), sums.place(lane, element)
            if row != same or order.setdefault(step, key) != key:
                return None
    in_bits = all(order[n] == sum(order[n & 1 << b] for b in range(n.bit_length())) for n in order)
    return tuple(order[n] for n in range(steps)) if in_bits else None


def _exchanged(chain: Chain) -> Chain | None:
    """`chain` where lanes that hold the same of a factor have its steps as sums, each its part.

    Keys and columns come in such an order that what a lane has are steps side by side.
    """
    keys, values, sums = chain.keys, chain.values, chain.sums
    shared = [n for n, digit in enumerate(sums.lanes) if digit.axis == 1]
    if keys is None or values is None or len(shared) != 1 or sums.lanes[shared[0]].extent != 2:
        return None
    order, step = [0] * sums.shape[1], 1  # the step that each key is
    for digit in (*sums.elements, sums.lanes[shared[0]]):
        if digit.axis == 1:
            order = [n + key // digit.step % digit.extent * step for key, n in enumerate(order)]
            step *= digit.extent
    keys, values, sums = (
        _reordered(keys, order, 0),
        _reordered(values, order, 0),
        _reordered(sums, order),
    )
    first, (digit, *last) = sums.lanes[: shared[0]], sums.lanes[shared[0] :]
    whole = Fragment((*first, Digit(None, 2), *last), (*sums.elements, digit))
    if (whole.width, whole.count) != (chain.rows.width, chain.rows.count):
        return None
    places = itertools.product(range(whole.width), range(whole.count))
    if any(whole.place(*place) != chain.rows.place(*place) for place in places):
        return None
    apart = math.prod(digit.extent for digit in first)
    return Chain(chain.is_turned, chain.rows, keys, sums, values, apart)


def _reordered(factor: Fragment, order: Sequence[int], axis: int = 1) -> Fragment:
    """The map of a factor whose steps come in another order, or its lines."""

    def digits(given: tuple[Digit, ...]) -> tuple[Digit, ...]:
        found: list[Digit] = []
        for digit in given:
            for part in _parts(digit, range(1, digit.extent)):
                one = part._replace(step=order[part.step]) if part.axis == axis else part
                last = found[-1] if found else None
                if last and (last.axis, last.step * last.extent) == (one.axis, one.step):
                    found[-1] = last._replace(extent=last.extent * one.extent)
                else:
                    found.append(one)
        return tuple(found)

    return Fragment(digits(factor.lanes), digits(factor.elements))


def _with_same_lanes(chain: Chain) -> Chain:
    """`chain` with digits of lanes so small that all maps have the same."""
    begins: set[int] = set()
    for one in filter(None, (chain.rows, chain.keys, chain.sums, chain.values)):
        begins |= {math.prod(d.extent for d in one.lanes[:n]) for n in range(len(one.lanes))}

    def split(one: Fragment) -> Fragment:
        lanes, weight = [], 1
        for digit in one.lanes:
            lanes += _parts(digit, [n // weight for n in begins if n % weight == 0])
            weight *= digit.extent
        return Fragment(tuple(lanes), one.elements)

    keys, values = (one and split(one) for one in (chain.keys, chain.values))
    return replace(chain, rows=split(chain.rows), keys=keys, sums=split(chain.sums), values=values)


def _parts(digit: Digit, begins: Iterable[int]) -> list[Digit]:
    """A digit in parts, which begin at such powers of two; those outside of it do not count."""
    starts = sorted({1, *(n for n in begins if n & (n - 1) == 0 and 1 < n < digit.extent)})
    ends = [*starts[1:], digit.extent]
    return [
        Digit(digit.axis, end // start, digit.step * start)
        for start, end in zip(starts, ends, strict=True)
    ]
