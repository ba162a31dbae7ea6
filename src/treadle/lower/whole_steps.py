"""Loops whose last step alone is masked: it stands behind them, and all others have no masks.

    for i in 13: y[64 * i + lane] = x[64 * i + lane] where 64 * i + lane < 776
      ->  for i in 12: y[64 * i + lane] = x[64 * i + lane]
          y[768 + lane] = x[768 + lane] where 768 + lane < 776

To compute a mask and load through it takes several instructions, where what is done with a vector
takes one or two. This is done to programs, last of all: whatever looks for loops before finds those
that the schedule made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..dtype import dtypes
from ..ir.choices import take
from ..ir.evaluate import evaluate
from ..ir.loops import TRUE, has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import ALU, Op
from ..ir.remembered import Table
from ..ir.views import Load, Store, behind_broadcast, bound_of, operand, operands
from .lanes import broadcast
from .linearize import Phase
from .streams import stretches

__all__ = ["with_whole_steps"]

MOST_STEPS = 1 << 12  # whose masks are looked at
_CONSTANT = Table[Node, bool]()  # whether no loop is below a node
_MASKED = (Op.LOAD, Op.STORE, Op.WHERE, Op.AND)  # take less where a condition is known
# Machines round quotients of negative numbers up, `evaluate` rounds them down.
_PLAIN = ALU - {Op.IDIV, Op.MOD} | {Op.CONST, Op.LANES, Op.RANGE, Op.STACK, Op.BROADCAST}


def with_whole_steps(phase: Phase) -> Phase:
    """`phase` with the last step of every loop behind it that is masked in that step alone."""
    cuts = _cuts(phase.program.src)
    if not cuts:
        return phase
    take("whole_steps")
    program = tuple(_Program(phase.program.src, cuts).nodes())
    return replace(phase, program=phase.program.replace(src=program))


def _cuts(program: Sequence[Node]) -> dict[Node, dict[Node, bool]]:
    """The loops to cut; for each what its conditions are in all steps but the last."""
    cuts: dict[Node, dict[Node, bool]] = {}
    for loop, body in _innermost(program):
        if has_fixed_size(loop) and 2 <= loop_size(loop) <= MOST_STEPS:
            known = _known(loop, body)
            masked = (n for n in body if n.op in _MASKED)
            if any(not known.keys().isdisjoint(n.src) for n in masked):
                cuts[loop] = known
    return cuts


def _innermost(program: Sequence[Node]) -> Iterator[tuple[Node, Sequence[Node]]]:
    """Loops that no other loop stands in, and what stands in them, of which nothing is read later.

    What comes of a loop is in registers and memory.
    """
    last_used = {source: place for place, node in enumerate(program) for source in node.src}
    places = {node: place for place, node in enumerate(program)}
    for stretch in stretches(program):
        if not stretch.is_loop or stretch.end is None:
            continue
        loop, end = stretch.loops[-1], places[stretch.end]
        is_plain = loop.arg.kind == "loop" and all(n.op is not Op.REGISTER for n in stretch.body)
        if is_plain and all(last_used.get(inner, 0) <= end for inner in stretch.body):
            yield loop, stretch.body


def _known(loop: Node, body: Sequence[Node]) -> dict[Node, bool]:
    """Conditions on `loop` alone that are the same in all of its steps but the last."""
    found: dict[Node, bool] = {}
    last = loop_size(loop) - 1
    alone = {loop}
    for node in body:
        if node.op in _PLAIN and all(s in alone or _is_constant(s) for s in node.src):
            alone.add(node)
            if node.dtype.scalar is dtypes.bool and not _is_constant(node):
                before = evaluate(node, {loop: np.arange(last + 1)})[:last]
                if before.all() or not before.any():
                    found[node] = bool(before.all())
    return found


def _is_constant(node: Node) -> bool:
    known = _CONSTANT.here()
    for part in node.toposort(lambda n: n not in known):
        if part not in known:
            is_plain = part.op in _PLAIN and part.op is not Op.RANGE
            known[part] = is_plain and all(known[source] for source in part.src)
    return known[node]


class _Program:
    """A program with loops cut."""

    def __init__(self, program: Sequence[Node], cuts: dict[Node, dict[Node, bool]]) -> None:
        self.program, self.cuts = program, cuts
        self.new: dict[Node, Node] = {}
        self.constants: dict[Node, None] = {}  # which all loops stand behind
        self.open: list[set[Node]] = [set()]  # what was computed, by the loops that it stands in
        self.is_inside = False  # of any loop, or behind one

    def nodes(self) -> Iterator[Node]:
        made = list(self._made())
        first = next(place for place, node in enumerate(made) if node.op is Op.RANGE)
        before = set(made[:first])
        constants = (node for node in self.constants if node not in before)
        return iter((*made[:first], *constants, *made[first:]))

    def _made(self) -> Iterator[Node]:
        body: list[Node] | None = None
        for node in self.program:
            if node in self.cuts:
                body = [node]
            elif body is None:
                self.new[node] = _with_sources(node, self.new)
                yield from self._once(self.new[node])
            else:
                body.append(node)
                if node.op is Op.END:
                    yield from self._cut(*body)
                    body = None

    def _cut(self, loop: Node, *rest: Node) -> Iterator[Node]:
        *body, end = rest
        last = loop_size(loop) - 1
        whole = loop.replace(src=(bound_of(loop).like(last),))
        self.constants.update(dict.fromkeys(whole.src))
        self.new[end] = end.replace(src=(whole,))
        inside = _copied(body, {**self.new, loop: whole}, self.cuts[loop])
        behind = _copied(body, {**self.new, loop: loop.like(last)}, {})
        for node in (whole, *inside, self.new[end], *behind):
            yield from self._once(node)

    def _once(self, node: Node) -> Iterator[Node]:
        """A node, unless it has been computed in one of the loops around, or before all of them."""
        if node.op is Op.END:
            self.open.pop()
        elif node.dtype is not dtypes.void:
            if any(node in computed for computed in self.open):
                return
            if self.is_inside and _is_constant(node):
                self.constants[node] = None
                return
            if node.op is Op.RANGE:
                self.is_inside = True
                self.open.append(set())
            self.open[-1].add(node)
        yield node


def _copied(body: Sequence[Node], new: dict[Node, Node], known: dict[Node, bool]) -> Iterator[Node]:
    """A copy of a loop's body on `new` sources, where some conditions are known."""
    values = {n: broadcast(Node.const(dtypes.bool, known[n]), n.dtype.count) for n in known}
    new, constants = {**new, **values}, set(values.values())
    for node in body:
        made = None if node in known else _chosen(_with_sources(node, new))
        if made is None:
            continue
        new[node] = made
        if made not in constants:
            for source in made.src:
                if source in constants:
                    yield from (*source.src, source)
            yield made


def _chosen(node: Node) -> Node | None:
    """What a node is where a condition is a constant; None for a STORE of nothing."""
    if node.op in (Op.LOAD, Op.STORE):
        access = Load.of(node) if node.op is Op.LOAD else Store.of(node)
        holds = behind_broadcast(access.gate).value
        if holds is False:
            return access.other if isinstance(access, Load) else None
        return access._replace(gate=TRUE).node() if holds else node
    if node.op is Op.WHERE and (holds := behind_broadcast(operand(node)).value) is not None:
        _, yes, no = node.src
        return yes if holds else no
    if node.op in (Op.AND, Op.OR) and node.dtype.is_bool:
        for side, other in (operands(node), operands(node)[::-1]):
            if (holds := behind_broadcast(side).value) is not None:
                return side if holds == (node.op is Op.OR) else other
    return node


def _with_sources(node: Node, new: dict[Node, Node]) -> Node:
    src = tuple(new.get(source, source) for source in node.src)
    return node if src == node.src else node.replace(src=src)
