"""Padded rows: the address of a row of memory, or of zeros where a gate does not hold.

    for c: LOAD(p, base + c, gate, 0)
      ->  line = LINE(p, base, gate);  for c: LOAD(line, c)

A loop may read a row one element at a time under a gate that is the same for all of its steps: a
pixel beyond an image's borders, a row that a matrix was padded by. So the address is chosen once,
outside of the loop, and the loop reads without asking.
"""

from __future__ import annotations

from ..ir.choices import take
from ..ir.loops import has_fixed_size, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify
from ..ir.views import Load, memory_of

__all__ = ["with_padded_rows"]

MOST_ZEROS = 1 << 12  # that a kernel brings along


def with_padded_rows(root: Node) -> Node:
    """`root` with LINEs for what loops read element by element under a gate of all their steps."""
    order = root.toposort()
    written = {memory_of(n) for n in order if n.op is Op.STORE}
    found: dict[Node, Node] = {}
    for node in order:
        if node.op is Op.LOAD and node.dtype.count == 1 and (load := Load.of(node)).is_gated:
            memory, index, gate, other, dtype = load
            is_read = memory.op is Op.PARAM and memory.arg.image is None and memory not in written
            step = _step(index, gate) if is_read and _is_zero(other) else None
            if step is not None:
                place = (memory, simplify(index - step), gate)
                line = Node(Op.LINE, dtype, place, loop_size(step))
                found[node] = Node(Op.LOAD, dtype, (line, step))
    if found:
        take("padded_rows")
    return root.substitute(found)


def _step(index: Node, gate: Node) -> Node | None:
    """The loop along which neighbours are read, if `gate` is the same for all of them."""
    terms, _ = linear_terms(index)
    for loop, coefficient in terms.items():
        is_plain = loop.op is Op.RANGE and loop.arg.kind == "loop" and has_fixed_size(loop)
        others = (gate, *(term for term in terms if term is not loop))
        if is_plain and coefficient == 1 and not any(loop in ranges_of(n) for n in others):
            return loop if loop_size(loop) <= MOST_ZEROS else None
    return None


def _is_zero(value: Node) -> bool:
    """Whether all bits of a constant are 0: those of -0.0 are not."""
    return value.op is Op.CONST and str(value.arg) in ("0", "0.0", "False")
