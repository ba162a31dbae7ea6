"""Decision: what becomes of one node of a tensor graph, and why. A value: deciding changes nothing.

Decision(node, True, "3 kernels need it and it holds a reduction")
Decision(node, False, "it is computed once for each row", Claim(home, rows))
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.node import Node
from .index import Index

__all__ = ["Claim", "Decision", "Home"]


@dataclass(eq=False)
class Home:
    """Loops that fill memory; at most one matmul-like reduction runs inside them."""

    ranges: Index
    heavy: bool = False
    row_stats: list[frozenset[Node]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Claim:
    """What a reduction that is computed inside the loops of `home` takes from others.

    The `rows` that a statistic is computed for are those of all that follow it; where they are
    None, it is the one matmul-like reduction that a home may have.
    """

    home: Home
    rows: frozenset[Node] | None = None

    def apply(self) -> None:
        """Note it at its home."""
        if self.rows is None:
            self.home.heavy = True
        else:
            self.home.row_stats.append(self.rows)


@dataclass(frozen=True, eq=False)
class Decision:
    """`node` gets memory of its own if it `is_stored`, else it is computed where it is used.

    `is_output`: stored since the graph was asked for it. `claim` holds once an inlined reduction
    has moved into its kernel.
    """

    node: Node
    is_stored: bool
    reason: str
    claim: Claim | None = None
    is_output: bool = False
