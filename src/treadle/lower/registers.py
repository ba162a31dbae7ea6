"""REDUCE to registers: an accumulator before the loop, an UPDATE inside, a read after its END.

    REDUCE(x, r; ADD)  ->  acc = REGISTER(0); AFTER(acc, END(UPDATE(acc, x, r; ADD), r))

Reductions over the same loops share them: one END holds all their updates, and what else is done in
these loops. The second one of a sum of two sums goes on in the register of the first
(`_continued`). A tuple has a register for each of its items (ir/accumulators.py).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from ..ir.accumulators import tuple_of, updates_of
from ..ir.choices import take
from ..ir.graph import toposort
from ..ir.loops import closed_ranges, free_ranges
from ..ir.node import Node, behind_after, rebuild
from ..ir.op import Op
from ..ir.views import After, End, Reduce, Update, operand
from .linearize import nodes_of_phase, phase_ends

__all__ = ["lower_reduces"]

Groups = dict[tuple[Node, ...], list[Node]]  # what shares loops, by these
Free = dict[Node, frozenset[Node]]
New = dict[Node, Node]


def lower_reduces(root: Node) -> Node:
    """`root` with every REDUCE turned into register updates, in each phase by itself.

    Phases may share loops, and what is reduced in them: each has registers of its own.
    """
    taken = max((n.arg.number for n in root.toposort() if n.op is Op.REGISTER), default=0)
    numbers = itertools.count(taken + 1)
    ends: New = {}
    for end in phase_ends(root):
        ends[end] = _lower_phase(end, ends, numbers)
    return Node.sink(ends[end] for end in root.src)


def _lower_phase(end: Node, earlier: New, numbers: Iterator[int]) -> Node:
    """The phase `end` behind those of `earlier`."""
    order = nodes_of_phase(end)
    free = free_ranges(end)
    groups: Groups = {}
    for node in sorted(order, key=lambda n: n.op is Op.END):  # those of loops with REDUCEs alone
        if node.op is Op.REDUCE or (node.op is Op.END and closed_ranges(node) in groups):
            groups.setdefault(closed_ranges(node), []).append(node)
    new = dict(earlier)
    starts = _continued(order, groups, free)

    def sources(node: Node) -> Sequence[Node]:
        """Of a REDUCE those of all that share its loops, and what they go on from."""
        members = groups.get(closed_ranges(node))
        if members is None:
            return node.src
        return [*(s for m in members for s in m.src), *(starts[m] for m in members if m in starts)]

    for node in toposort((end,), lambda n: n not in earlier, sources):
        if node in new:
            continue
        if (group := groups.get(closed_ranges(node))) is not None:
            _lower_group(_by_factor(group), free, new, numbers, starts)
        elif node.op is Op.ADD and starts.get(node.src[1]) is node.src[0]:
            new[node] = new[node.src[1]]  # which goes on where the other sum ended
        else:
            src = tuple(new[s] for s in node.src)
            new[node] = node if src == node.src else rebuild(node, src)
    return new[end]


def _by_factor(members: list[Node]) -> list[Node]:
    """`members` in their order, those together that multiply by the same element in all lanes.

    So that it takes a register for no longer than that, however results are stored.
    """
    first: dict[Node, int] = {}
    keys = {}
    for number, member in enumerate(members):
        value = operand(member)
        factors = [s for s in value.src if s.op is Op.BROADCAST] if value.op is Op.MUL else []
        keys[member] = first.setdefault(factors[0], number) if factors else number
    return sorted(members, key=keys.__getitem__)


def _continued(order: list[Node], groups: Groups, free: Free) -> New:
    """Sums that go on where another one ended, since nothing but the sum of both is wanted.

    Fewer values wait in registers so: tiles of two products are as large as those of one. Neither
    shares loops with what needs a reduction, so that no two wait for each other. Both are inside
    of the same loops: the register of the second is there for all steps of these.
    """
    users = Counter(source for node in order for source in node.src)
    first = {r for loops, members in groups.items() if not _needs_any(members) for r in loops}
    found: New = {}
    for node in order:
        if node.op is not Op.ADD or any(s.op is not Op.REDUCE for s in node.src):
            continue
        one, other = node.src
        loop, next_loop = (closed_ranges(s)[0] for s in node.src)
        are_sums = one.arg.op is other.arg.op is Op.ADD and {loop, next_loop} <= first
        is_later = loop.arg.number < next_loop.arg.number
        is_alike = free[one] == free[other] and users[one] == users[other] == 1
        if are_sums and is_later and is_alike:
            take("continued_sums")
            found[other] = one
    return found


def _needs_any(members: list[Node]) -> bool:
    """Whether a reduction, or what shares its loops, reads another one."""
    below = Node.sink(s for member in members for s in member.src).toposort()
    return any(n.op is Op.REDUCE for n in below)


def _lower_group(
    members: list[Node], free: Free, new: New, numbers: Iterator[int], starts: New
) -> None:
    loops = tuple(new[r] for r in closed_ranges(members[0]))
    around = frozenset().union(*(free[m] for m in members))
    outer = tuple(sorted((new[r] for r in around), key=lambda r: r.arg.number))
    held: dict[Node, list[Node]] = {}  # the registers of what each reduction combines
    effects: list[Node] = []
    for member in members:
        if member.op is Op.END:
            effects.extend(new[effect] for effect in End.of(member).effects)
            continue
        reduce, start = Reduce.of(member), new[starts[member]] if member in starts else None
        made = updates_of(new[reduce.value], reduce.arg.op, outer, loops, numbers, start)
        held[member] = [behind_after(Update.of(update).register) for update in made]
        effects.extend(made)
    if len({member.op for member in members}) > 1:
        take("shared_loops")
    finish = End(tuple(effects), loops).node()
    new.update((member, finish) for member in members)
    for member, registers in held.items():
        new[member] = tuple_of([After(register, (finish,)).node() for register in registers])
