"""Kernel: what the scheduler hands to the compiler, and the buffers it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.node import Node

__all__ = ["Kernel"]


@dataclass(frozen=True, eq=False)
class Kernel:
    """One launch: `ast` is a SINK of ENDs over STOREs, PARAM slot i of it is `buffers[i]`.

    `roots` are the nodes whose values it stores. A buffer is a BUFFER node, or such a root.
    `writes` are the slots written; `reason` says why the kernel ends where it does, `choices` by
    which of the scheduler's choices it came about (see ir/choices.py).
    """

    ast: Node
    roots: tuple[Node, ...]
    buffers: tuple[Node, ...]
    writes: tuple[int, ...]
    device: str
    reason: str
    choices: frozenset[str] = frozenset()

    @property
    def nest(self) -> Node:
        """The END of the loops that store its results: the last one."""
        return self.ast.src[-1]
