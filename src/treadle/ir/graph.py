"""What of a Node the modules below it see: those that Node itself stands on.

Intervals, shapes and the short text of a node are asked for while nodes are made, so they know a
node as what it shows, `AnyNode`, and make none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from .op import Op

if TYPE_CHECKING:
    from ..dtype import DType

__all__ = ["AnyNode", "short", "toposort", "users_of"]


class AnyNode(Protocol):
    """`op` applied to `src`, as in `Node`."""

    @property
    def op(self) -> Op: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def src(self) -> tuple[Self, ...]: ...

    @property
    def arg(self) -> Any: ...

    @property
    def shape(self) -> tuple[Any, ...]: ...


N = TypeVar("N", bound=AnyNode)


def toposort(
    roots: Iterable[N],
    enter: Callable[[N], bool] | None = None,
    sources: Callable[[N], Sequence[N]] | None = None,
) -> list[N]:
    """Every node of these graphs, sources first: its own, or those that `sources` has for a node.

    Where `enter(node)` is false, the node is listed and its sources are not visited through it.
    """
    done: dict[N, None] = {}
    stack: list[N | None] = list(roots)
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is None:  # all that stood above it is done: the sources of the next
            node = stack.pop()
            assert node is not None
            done[node] = None
        elif node in done:
            continue
        else:
            below: Sequence[N] = ()
            if enter is None or enter(node):
                below = node.src if sources is None else sources(node)
            if not below:
                done[node] = None
                continue
            stack += node, None
            for source in reversed(below):
                if source not in done:
                    stack.append(source)
    return list(done)


def short(node: AnyNode, depth: int = 4) -> str:
    """`node` as an expression on one line, cut at `depth`."""
    if node.op is Op.CONST:
        return str(node.arg)
    if node.op is Op.RANGE:
        return f"r{node.arg.number}"
    if node.op is Op.VARIABLE:
        return str(node.arg.name)
    name = node.op.name.lower()
    if node.op is Op.BUFFER:
        return f"buffer({node.arg.size}, {node.dtype.name}, {node.arg.device})"
    if not node.src:
        return f"{name}({node.arg})"
    if depth == 0:
        return f"{name}(...)"
    return f"{name}({', '.join(short(s, depth - 1) for s in node.src)})"


def users_of(nodes: Iterable[N]) -> defaultdict[N, list[N]]:
    """Those of `nodes` that have a node as a source, for each time that they do."""
    users: defaultdict[N, list[N]] = defaultdict(list)
    for node in nodes:
        for source in node.src:
            users[source].append(node)
    return users
