"""What a reduction holds: one number, or a tuple of them that are combined together.

    REDUCE(x, r; ADD)                   one number, combined by the op itself
    REDUCE(TUPLE(x, place), r; MAX)     an extreme and its place: ITEM(that, 1) is argmax

`ACCUMULATORS` has a row for each op that combines tuples. Whoever cuts a reduction (into registers,
lanes, copies, parts, rows of totals) asks `identity_of` and `combined`, and knows no operator.

An extreme's rule: a NaN is beyond all numbers, zeros of both signs are equal, and the smaller place
is that of the first of equals. So a step that has the value which none is better than, and the
largest place, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from ..dtype import DType, dtypes
from .args import RegisterRef
from .choices import take
from .node import Node, alu, item
from .op import Op
from .views import After, Register, Update

__all__ = [
    "all_combined", "combined", "identity", "identity_of", "is_in_order", "is_tuple", "items",
    "of_lanes", "start_of", "tuple_of", "updates_of", "where_inside",
]  # fmt: skip

Items = tuple[Node, ...]
Across = Callable[[Op, Node], Node]  # in each lane: numbers of all lanes, combined


@dataclass(frozen=True)
class Accumulator:
    """How tuples are combined.

    combine(op, before, after, in_order)    the items of both; `in_order`: `after` comes later
    identity(op, dtypes)                    the items that change nothing
    is_in_order(items, loop)                whether later steps of a loop come later
    start(op, items, loop)                  the items before the first step of such a loop
    of_lanes(op, items, across)             the items of all lanes: `across` combines single ones
    """

    combine: Callable[[Op, Items, Items, bool], Items]
    identity: Callable[[Op, Sequence[DType]], Items]
    is_in_order: Callable[[Items, Node], bool]
    start: Callable[[Op, Items, Node], Items]
    of_lanes: Callable[[Op, Items, Across], Items]


def identity(op: Op, dtype: DType) -> Node:
    """The value that `op` (ADD, MUL, MAX or MIN) leaves others unchanged by."""
    value = {Op.ADD: 0, Op.MUL: 1, Op.MAX: dtype.scalar.min, Op.MIN: dtype.scalar.max}[op]
    return Node.const(dtype, value)


def is_tuple(node: Node) -> bool:
    """Whether `node` is several values together."""
    return node.dtype is dtypes.void


def tuple_of(values: Sequence[Node]) -> Node:
    """`values` together; one of them is itself."""
    return values[0] if len(values) == 1 else Node(Op.TUPLE, dtypes.void, tuple(values))


def items(node: Node) -> Items:
    """The values of a tuple, or the one of anything else."""
    if not is_tuple(node):
        return (node,)
    made = node
    while made.op is not Op.TUPLE:  # a REDUCE or STAGE of one
        made = made.src[0]
    return tuple(item(node, number) for number in range(len(made.src)))


def identity_of(op: Op, value: Node) -> Node:
    """What leaves others unchanged that `op` combines it with, alike to `value`."""
    if not is_tuple(value):
        return identity(op, value.dtype)
    kinds = [part.dtype for part in items(value)]
    return tuple_of(ACCUMULATORS[op].identity(op, kinds))


def start_of(op: Op, value: Node, loops: tuple[Node, ...]) -> Node:
    """What an accumulator of `value` begins with, which takes the steps of `loops`."""
    if not is_in_order(op, value, loops):
        return identity_of(op, value)
    return tuple_of(ACCUMULATORS[op].start(op, items(value), loops[0]))


def is_in_order(op: Op, value: Node, loops: tuple[Node, ...]) -> bool:
    """Whether it is known of each step of `loops` that it comes behind those before it."""
    if not is_tuple(value) or len(loops) != 1:
        return False
    return ACCUMULATORS[op].is_in_order(items(value), loops[0])


def combined(op: Op, before: Node, after: Node, in_order: bool = False) -> Node:
    """Both as one; `in_order`: it is known that `after` comes later."""
    if not is_tuple(before):
        # Zeros of both signs are equal to a reduction, and its elements come in any order.
        is_extreme = op in (Op.MAX, Op.MIN) and before.dtype.is_float
        return alu(op, before, after, arg=is_extreme or None)
    return tuple_of(ACCUMULATORS[op].combine(op, items(before), items(after), in_order))


def all_combined(op: Op, values: Sequence[Node], in_order: bool = False) -> Node:
    """All of `values` as one: neighbours, then what these have become, and so on."""
    while len(values) > 1:
        pairs = [values[n : n + 2] for n in range(0, len(values), 2)]
        values = [reduce(lambda a, b: combined(op, a, b, in_order), pair) for pair in pairs]
    return values[0]


def of_lanes(op: Op, value: Node, across: Across) -> Node:
    """One value of those that lanes hold, which `across` combines for single numbers."""
    if not is_tuple(value):
        return across(op, value)
    return tuple_of(ACCUMULATORS[op].of_lanes(op, items(value), across))


def where_inside(guard: Node, value: Node, op: Op) -> Node:
    """`value` where `guard` holds, else what changes nothing."""
    pairs = zip(items(value), items(identity_of(op, value)), strict=True)
    return tuple_of([guard.where(one, none) for one, none in pairs])


def updates_of(
    value: Node, op: Op, outer: tuple[Node, ...], loops: tuple[Node, ...],
    numbers: Iterator[int], start: Node | None,
) -> list[Node]:  # fmt: skip
    """The UPDATEs of new registers that reduce `value` in each step of `loops`, from `start`."""
    init = start_of(op, value, loops) if start is None else start
    registers = [
        Register(first, outer, RegisterRef(next(numbers)), first.dtype).node()
        for first in items(init)
    ]
    if not is_tuple(value):
        return [Update(registers[0], value, loops, op).node()]
    take("tuple_registers")
    old = tuple_of([After(register, loops).node() for register in registers])
    changed = items(combined(op, old, value, is_in_order(op, value, loops)))
    updates: list[Node] = []
    for register, part in zip(registers, changed, strict=True):
        # One behind the other: each is computed of what all registers were before.
        then = After(register, tuple(updates[-1:])).node() if updates else register
        updates.append(Update(then, part, loops, None).node())
    return updates


# -- an extreme and its place ---------------------------------------------------------------------


def _better(op: Op, before: Items, after: Items, in_order: bool) -> Items:
    """The better one of two values, with its place: of equals, the smaller one."""
    (held, held_place), (value, place) = before, after
    is_better, is_worse = _beyond(op, value, held), _beyond(op, held, value)
    if not in_order:
        is_better = is_better | (~is_worse & (place < held_place))
    return (
        alu(Op.WHERE, is_better, value, held),
        alu(Op.WHERE, is_better, place, held_place),
    )


def _beyond(op: Op, one: Node, other: Node) -> Node:
    """Whether `one` is better than `other`, and not as good."""
    low, high = (other, one) if op is Op.MAX else (one, other)
    if not one.dtype.is_float:
        return low < high
    # Not at most as good, and so perhaps NaN: two instructions of vectors.
    is_at_most = (high < low) | one.eq(other)
    return ~is_at_most & other.eq(other)


def _no_extreme(op: Op, kinds: Sequence[DType]) -> Items:
    value, place = kinds
    return identity(op, value), identity(Op.MIN, place)


def _first(op: Op, parts: Items, loop: Node) -> Items:
    """Where no value is better than none at all, the first place is the result."""
    value, place = parts
    return identity(op, value.dtype), place.substitute({loop: loop.like(0)})


def _is_later(parts: Items, loop: Node) -> bool:
    """Whether places grow with the steps of `loop`."""
    return _grows(parts[1], loop)


def _grows(node: Node, loop: Node) -> bool:
    """Whether a number depends on `loop` and gets larger with each step; it never overflows."""
    if node is loop:
        return True
    used = [source for source in node.src if loop in source.toposort()]
    if node.op in (Op.CAST, Op.BROADCAST):
        return all(_grows(source, loop) for source in node.src)
    if node.op is Op.ADD:
        return bool(used) and all(_grows(source, loop) for source in used)
    if node.op is Op.MUL:
        factor = node.src[1].src[0] if node.src[1].op is Op.BROADCAST else node.src[1]
        return factor.op is Op.CONST and factor.arg > 0 and _grows(node.src[0], loop)
    return False


def _best_of_lanes(op: Op, parts: Items, across: Across) -> Items:
    """The extreme, then the smallest place of those lanes that no other is better than."""
    value, place = parts
    best = across(op, value)
    has_it = value.eq(best)
    if value.dtype.is_float:  # where one is NaN, so is the extreme
        has_it = has_it | value.ne(value)
    return best, across(Op.MIN, has_it.where(place, identity(Op.MIN, place.dtype)))


_EXTREME = Accumulator(_better, _no_extreme, _is_later, _first, _best_of_lanes)

ACCUMULATORS = {Op.MAX: _EXTREME, Op.MIN: _EXTREME}
