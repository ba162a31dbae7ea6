"""argmax in two registers: a key and its index, each half as wide as both together.

    REDUCE(key << 32 | place, r; MAX)
      ->  UPDATE(place, WHERE(best < key, place', place)), then UPDATE(best, key; MAX)

Where places go on with the steps of the loop, the first of equal keys is the one that is there. In
other orders, and where a guard leaves out steps, equal keys are decided by their places.
"""

from __future__ import annotations

from ..ir.args import RegisterRef
from ..ir.choices import take
from ..ir.key_value import goes_on, is_better
from ..ir.loops import identity
from ..ir.node import Node, alu
from ..ir.op import Op
from ..ir.views import After, Register, Update

__all__ = ["argmax_updates"]


def argmax_updates(
    key: Node, place: Node, op: Op, outer: tuple[Node, ...], loops: tuple[Node, ...], number: int
) -> list[Node]:
    """The UPDATEs of a place and of a key, whose registers have the numbers behind `number`."""
    take("argmax_registers")
    is_first_best = len(loops) == 1 and goes_on(place, op, loops[0])
    # A key that is no better than none at all still has a place: the first one.
    first = place.substitute({loops[0]: loops[0].like(0)}) if is_first_best else None
    held = _register(identity(op, place.dtype) if first is None else first, outer, number + 1)
    best = _register(identity(op, key.dtype), outer, number + 2)
    old, old_place = (After(register, loops).node() for register in (best, held))
    better = is_better(op, (key, place), (old, old_place), is_first_best)
    taken = alu(Op.WHERE, better, place, old_place)
    update = Update(held, taken, loops, None).node()
    then = After(best, (update,)).node()
    return [update, Update(then, key, loops, op).node()]


def _register(first: Node, outer: tuple[Node, ...], number: int) -> Node:
    return Register(first, outer, RegisterRef(number), first.dtype).node()
