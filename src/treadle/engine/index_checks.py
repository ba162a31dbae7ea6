"""CHECK_INDEX=1: indices out of range, found on the device and raised by the next read on the host.

    x[index]               the graph has CHECKED(index), which knows the bounds
    flags_of(order)        for each of these a Flag: one number to compute beside what is asked for
    look()                 called before values are read: IndexOutOfRange, with the user's line

The number is the largest distance of an index from its lower bound, unsigned: an index below that
bound is a large one, so a single maximum tells both ends. An index in memory is not looked at again
until that memory is written. Replays of a captured call enlarge numbers that last. Large indices
are read once, beside what is gathered by them (schedule/output_reductions.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass

from ..config import settings
from ..dtype import DType, dtypes
from ..errors import DeviceError, IndexOutOfRange
from ..explained import of_before
from ..ir.args import BoundsArg, ReduceArg, Token
from ..ir.node import Node
from ..ir.op import Op
from ..ir.origin import origin_of
from ..ir.views import behind_reshape, operand
from .memory import Memory, adopt, memory_of, new_memory, on_read
from .prepacked import expects_replays
from .realized import is_backed, resolve

__all__ = ["Flag", "flags_of", "look"]

MOST_WAITING = 256  # flags that no read has looked at; then the host waits for them


@dataclass(eq=False)
class Flag:
    """Whether the indices that `checked` names are in range: `graph` computes its number.

    `lasts`: in memory that replays enlarge. `seen`: the moment of that memory's last change when
    somebody looked.
    """

    checked: Node
    graph: Node
    lasts: bool = False
    seen: int = 0

    def computed(self, node: Node) -> None:
        """From now on reads look at the memory of `node`, the value of the graph."""
        memory = memory_of(behind_reshape(node).arg)
        if self.lasts:
            _lasting[memory] = self
            return
        _remember(self.checked)
        _waiting.append((self, memory))
        if len(_waiting) > MOST_WAITING:
            look()


_waiting: list[tuple[Flag, Memory]] = []
_lasting: weakref.WeakKeyDictionary[Memory, Flag] = weakref.WeakKeyDictionary()
# By the memory's identity: the moment of its last change, and the bounds that it was within then.
_looked_at: weakref.WeakKeyDictionary[Token, tuple[int, frozenset[BoundsArg]]] = (
    weakref.WeakKeyDictionary()
)


def flags_of(order: Iterable[Node], device: str) -> list[Flag]:
    """A flag for each index of the graph `order` that has to be looked at, for `device`."""
    if settings.CHECK_INDEX != 1:
        return []
    checked = [node for node in order if node.op is Op.CHECKED and 0 not in node.shape]
    if expects_replays():
        return [_lasting_flag(node, device) for node in checked if _can_change(node)]
    return [Flag(node, _distance(node)) for node in checked if not _is_known(node)]


def look() -> None:
    """Raises IndexOutOfRange if an index was out of range since the last look."""
    flags = _waiting.copy()
    _waiting.clear()
    for memory, flag in [*_lasting.items()]:
        if memory.changed > flag.seen:
            flag.seen = memory.changed
            flags.append((flag, memory))
    wrong = [found for flag, memory in flags if (found := _message(flag, memory))]
    if wrong:
        raise of_before(IndexOutOfRange(wrong[0]))


on_read.append(look)


def _can_change(checked: Node) -> bool:
    """Whether a replay may find other indices than the call before the capture."""
    return any(node.op in (Op.BUFFER, Op.VARIABLE) for node in checked.toposort())


def _distance(checked: Node) -> Node:
    """The largest distance of an index from the lower bound, unsigned, of shape (1,)."""
    index, arg = operand(checked), checked.arg
    signed, unsigned = _types(index)
    places = index.cast(unsigned if index.dtype.is_unsigned else signed)
    distance = (places - arg.lowest if arg.lowest else places).cast(unsigned)
    if arg.ignored is not None:
        distance = index.eq(arg.ignored).where(0, distance)
    axes = tuple(range(len(index.shape)))
    most = Node(Op.REDUCE, unsigned, (distance,), ReduceArg(Op.MAX, axes)) if axes else distance
    return Node(Op.RESHAPE, unsigned, (most,), (1,))


def _types(index: Node) -> tuple[DType, DType]:
    """The types that indices are compared in: signed, and unsigned."""
    is_long = index.dtype.itemsize == 8
    return (dtypes.int64, dtypes.uint64) if is_long else (dtypes.int32, dtypes.uint32)


def _lasting_flag(checked: Node, device: str) -> Flag:
    """A flag in memory of its own, which each replay enlarges."""
    distance = _distance(checked)
    memory = new_memory(device, distance.dtype, 1)
    _clear(memory)
    old = adopt(memory)
    write = Node(Op.ASSIGN, old.dtype, (old, old.maximum(distance)))
    return Flag(checked, Node(Op.AFTER, old.dtype, (old, write)), lasts=True)


def _clear(memory: Memory) -> None:
    import numpy as np

    memory.store(np.zeros(1, memory.stored))


def _message(flag: Flag, memory: Memory) -> str | None:
    """What is wrong with the indices of a flag, if anything is; it is cleared then.

    Nothing is known of a device that is lost or runs nothing: what reads from it says so.
    """
    try:
        distance, checked = int(memory.array()[0]), flag.checked
    except DeviceError:
        return None
    arg, (signed, unsigned) = checked.arg, _types(checked)
    if distance < arg.size - arg.lowest:
        return None
    if flag.lasts:
        _clear(memory)
    place = distance + arg.lowest
    if not checked.dtype.is_unsigned and place > signed.max:
        place -= unsigned.max + 1
    origin = origin_of(checked)
    meant = f"expected {arg.lowest} to {arg.size - 1}" if arg.size else "no place is in that axis"
    what = (
        f"[{origin.operation if origin else 'index'}] {place} lies outside of axis {arg.axis} of "
        f"size {arg.size}: it is in an index of shape {checked.shape}, {meant}"
    )
    return "\n  ".join([what, *([origin.where] if origin else []), _SINCE])


_SINCE = (
    "found by the first read since: what was computed there is 0 or was not written, and "
    "assignments have happened; CHECK_INDEX=2 looks before anything is computed"
)


def _memory_below(checked: Node) -> tuple[Node, Memory] | None:
    """The BUFFER that an index is all of, and its memory, where nobody else writes to that."""
    index = resolve(operand(checked))
    if not is_backed(index) or (buffer := behind_reshape(index)).op is not Op.BUFFER:
        return None
    memory = memory_of(buffer.arg)
    return None if memory.is_exposed else (buffer, memory)


def _is_known(checked: Node) -> bool:
    """Whether this index was looked at, for these bounds, in the values that it has."""
    below = _memory_below(checked)
    if below is None:
        return False
    version, seen = _looked_at.get(below[0].arg.token, (-1, ()))
    return version == below[1].changed and checked.arg in seen


def _remember(checked: Node) -> None:
    below = _memory_below(checked)
    if below is not None:
        buffer, memory = below
        version, seen = _looked_at.get(buffer.arg.token, (-1, frozenset()))
        known = seen if version == memory.changed else frozenset()
        _looked_at[buffer.arg.token] = memory.changed, known | {checked.arg}
