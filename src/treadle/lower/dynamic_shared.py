"""Shared memory that a kernel asks for at its launch, and where its parts lie.

    local0: 40 bytes, local1: 100 bytes at a multiple of 64  ->  local0 at 0, local1 at 64

What a kernel may declare is declared, piece by piece. Where that is too little all pieces are
parts of one, as large as the launch says.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.choices import take
from ..ir.node import Node
from ..ir.op import Op
from .linearize import Phase, waits_for_phase

__all__ = ["ask_for_shared", "local_places"]


def ask_for_shared(phase: Phase, most_declared: int | None) -> Phase:
    """`phase` with the bytes that it has to ask for, if it may not declare what it needs."""
    total = local_places(phase.code)[1]
    if most_declared is None or total <= most_declared:
        return phase
    take("dynamic_shared")
    return replace(phase, asked=total)


def local_places(program: Node) -> tuple[dict[Node, int], int]:
    """Where each LOCAL begins behind those with smaller numbers, and the bytes of all of them."""
    places: dict[Node, int] = {}
    total = 0
    # What an earlier phase had in shared memory is no part of this one.
    here = program.toposort(lambda n: not waits_for_phase(n))
    found = {n for n in here if n.op is Op.LOCAL}
    for node in sorted(found, key=lambda n: n.arg.number):
        step = node.arg.alignment
        places[node] = -(-total // step) * step
        total = places[node] + node.arg.size * node.dtype.itemsize
    return places, total
