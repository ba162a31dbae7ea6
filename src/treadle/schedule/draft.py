"""Draft: what the scheduler was asked for so far, and the kernels that come of it.

    draft = Draft(nodes, "CPU", target, keeping)
    draft.built                        the kernels that were decided on, by root
    draft.storing({node: "why"})       another draft, in which `node` is stored

A draft is a value; what follows from it is computed when it is first looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from ..ir.node import Node
from ..ir.op import Op
from ..ir.versions import view_base
from ..ir.views import Gather
from ..target import Target
from .compared import compared_with_extremes
from .fuse import decide
from .kernel import Kernel
from .local_intermediates import Keeping
from .order import needs_of, order_roots
from .plan import BOUNDARY, Plan
from .ranges import build_kernel

__all__ = ["Draft"]


@dataclass(frozen=True, eq=False)
class Draft:
    """`nodes` are computed on `device` for `target` (None: one that can do everything).

    `keeping` says which kernels keep rows, `joined` which roots the kernels of others store,
    `asked` why nodes are stored that need not be.
    """

    nodes: list[Node]
    device: str
    target: Target | None
    keeping: Keeping | None
    joined: dict[Node, Node] = field(default_factory=dict)
    asked: dict[Node, str] = field(default_factory=dict)

    def storing(self, asked: dict[Node, str]) -> Draft:
        """The draft in which these nodes are stored, too, each for the reason given."""
        return replace(self, asked=self.asked | asked)

    def of(self, nodes: list[Node]) -> Draft:
        """The draft of another graph; what was asked for named nodes of the old one."""
        return replace(self, nodes=nodes, asked={})

    @cached_property
    def forced(self) -> dict[Node, str]:
        """Why nodes are stored, whatever the rules of fusion say."""
        return compared_with_extremes(self.nodes) | _indexed(self.nodes) | self.asked

    @cached_property
    def plan(self) -> Plan:
        """What was decided."""
        return decide(self.nodes, self.forced, self.keeping, self.joined)

    @cached_property
    def built(self) -> dict[Node, tuple[Kernel, frozenset[Node]]]:
        """By the root of each fusion group, its kernel, and the stored values that it reads."""
        groups = self.plan.kernels
        return {g.root: build_kernel(self.plan, tuple(g.places), self.device) for g in groups}

    @cached_property
    def reads(self) -> dict[Node, frozenset[Node]]:
        """By root, the stored values that its kernel reads."""
        return {root: versions for root, (_, versions) in self.built.items()}

    @cached_property
    def before(self) -> dict[Node, set[Node]]:
        """By root, those whose kernels run before."""
        owners = {root: group.root for root, group in self.plan.groups.items()}
        return needs_of(self.reads, owners)

    @cached_property
    def order(self) -> tuple[list[Node], Node | None]:
        """The roots in order, or an ASSIGN that waits for itself."""
        return order_roots(self.before, self.reads)

    @property
    def kernels(self) -> list[tuple[Kernel, frozenset[Node]]]:
        """The kernels in order."""
        order, _ = self.order
        return [self.built[root] for root in order]


def _indexed(nodes: list[Node]) -> dict[Node, str]:
    """What is indexed by values, which only memory can be."""
    found: dict[Node, str] = {}
    for node in Node.sink(nodes).toposort():
        if node.op is Op.GATHER:
            source = view_base(Gather.of(node).source)
            if source.op not in BOUNDARY:
                found[source] = "it is indexed by values that are not known in advance"
    return found
