"""Variables that each call of a captured function binds anew: what depends on them in a replay.

    bind_holders(capture)          what the function has made gets the values of the captured call
    renew(capture)                 what gets new memory in each replay, and how much
    sizes_with(capture, {"n": 7})  how many elements that is now

Kernels take variables when they are launched (`CallList.set_var`). Memory is the other thing that
depends on them: scratch memory is as large as the largest values want it, results are as large as
this call's.
"""

from __future__ import annotations

from collections.abc import Container

from ..errors import JitError
from ..ir.node import Node, toposort
from ..ir.op import Op
from ..ir.symbolic import Size, bind, bound_size
from .capture import Capture, bases_of
from .memory import memory_of
from .realized import born_since, current, tracked_since
from .steps import BetweenRuns

__all__ = ["bind_holders", "renew", "sizes_with"]


def renew(capture: Capture) -> None:
    """Decide what gets new memory in each replay: results, and what has another size each time.

    Raises JitError where something else has memory of such a size: it would be left as it is.
    """
    owned = {id(m): m for _, of_one in capture.returned for m in of_one if capture.is_made(m)}
    sizes: dict[int, Size] = {}
    for run in capture.runs if capture.values else ():
        for (_, size, _), memory in zip(run.program.outputs, run.outputs, strict=True):
            if not isinstance(size, int):
                fixed = {n: v for n, v in run.rounds[0].items() if n not in capture.values}
                [sizes[id(memory)]] = bind([size], fixed)
                owned.setdefault(id(memory), memory)
    _refuse_others(capture, sizes)
    capture.made = [*owned.values()]
    capture.sizes = [sizes.get(id(memory), memory.size) for memory in capture.made]


def _refuse_others(capture: Capture, sizes: Container[int]) -> None:
    results = {id(m) for _, memories in capture.returned for m in memories}
    moved = [m for s in capture.steps if isinstance(s, BetweenRuns) for m in s.operands]
    kept = [memory_of(b.arg) for h in born_since(capture.began) for b in bases_of(h)]
    for memory in (*moved, *(m for m in kept if id(m) not in results)):
        if id(memory) in sizes:
            names = ", ".join(capture.values)
            raise JitError(
                f"[jit] the captured function keeps, moves to another device or gives to the host "
                f"{memory.dtype.name} of a size that depends on a variable ({names}): return it, "
                "or give it a fixed size"
            )


def sizes_with(capture: Capture, values: dict[str, int]) -> list[int]:
    """How many elements each of `capture.made` has with these values of variables."""
    return [bound_size(size, values) for size in capture.sizes]


def bind_holders(capture: Capture) -> None:
    """Give the variables their values in what the function has made: nobody else knows them."""
    for holder in tracked_since(capture.began) if capture.values else ():
        [node], order = current([holder.node])
        sizes = (size for n in order for size in n.shape if isinstance(size, Node))
        if any(n.op is Op.VARIABLE for n in toposort([*order, *sizes])):
            [holder.node] = bind([node], capture.values)
