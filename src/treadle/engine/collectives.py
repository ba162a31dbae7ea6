"""Calls of groups of processes are made when they are written, in the order of the program.

    issue([node])       each COLLECTIVE below that has not been made is made now

All processes make them in one order, that in which the same program wrote them, whoever looks at
what. In what is being traced, for vmap say, there are no values yet: its results are issued.

    [node] = with_calls([node])     the same of a graph over a mesh, with its transfers written out
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakSet

from ..ir.args import Mesh
from ..ir.node import Node, toposort
from ..ir.op import Op
from ..ir.origin import mark, pass_on
from ..schedule.mesh_transfers import calls_of, with_transfers
from ..schedule.shard import nodes_of, partition
from .arguments import is_traced
from .kernel_boundaries import device_of
from .realized import current, is_backed, resolve
from .run import realize

__all__ = ["Used", "issue", "used", "with_calls"]


@dataclass
class Used:
    """Whether this process is in a group: without one nothing is looked for."""

    is_used: bool = False


used = Used()


def issue(nodes: Sequence[Node]) -> None:
    """Make the calls that have not been made. Raises DistributedError."""
    if not used.is_used:
        return
    if len(nodes) == 1 and nodes[0].op is Op.COLLECTIVE:
        [call] = nodes
        if all(map(is_backed, map(resolve, call.src))):  # most often: nothing to look for
            realize([(call, call.arg.device or device_of(call.src, call))])
            return
    order = toposort(nodes, lambda n: resolve(n) is n)
    calls = [n for n in order if n.op is Op.COLLECTIVE and resolve(n) is n and not is_traced(n)]
    calls.sort(key=lambda n: n.arg.number)
    for device, together in itertools.groupby(calls, lambda n: device_of(n.src, n)):
        realize([(call, device) for call in together])


def with_calls(nodes: Sequence[Node], mesh: Mesh) -> list[Node]:
    """Graphs of the same values, whose processes have made the calls that these consist of.

    Raises DistributedError.
    """
    roots = with_transfers(nodes)
    is_new = lambda n: n not in _with_calls and resolve(n) is n
    calls = calls_of(roots, [n for n in toposort(roots, is_new) if is_new(n)])
    ready = [node for node in calls if not is_traced(node)]
    for node in ready:
        mark(node)
        below = [p for one in (node, *current([node])[0]) for p in nodes_of(partition([one])[one])]
        pass_on(node, [n for n in toposort(below, is_new) if n.op is Op.COLLECTIVE])
    if ready:
        realize([(n, mesh[0] if n.op is Op.PART else mesh) for n in ready])
    if len(ready) == len(calls):
        _with_calls.update(roots)
    return roots


# Graphs over meshes whose calls have been made: each operation looks at what is new alone.
_with_calls: WeakSet[Node] = WeakSet()
