"""PTX for bulk copies and the mbarriers that they report to, for both renderers.

Each is one text of inline assembly. Its operands are numbered, with `sign` before the number, and
addresses in shared memory are words of 32 bits; `percent` is how the language writes that sign.
"""

from __future__ import annotations

from ..ir.node import Node
from ..ir.op import Op

__all__ = ["READY", "arrive", "await_phase", "copy_box", "expect", "init", "mbarriers_of"]

# After `init`, before anybody else looks at an mbarrier.
READY = "fence.mbarrier_init.release.cluster;"


def init(sign: str) -> str:
    """mbarrier 0 starts its first phase, which is over after 1 arrivals."""
    return f"mbarrier.init.shared::cta.b64 [{sign}0], {sign}1;"


def await_phase(sign: str) -> str:
    """Goes on when the phase of parity 1 of mbarrier 0 is over."""
    return (
        "{ .reg .pred over; "
        f"again: mbarrier.try_wait.parity.shared::cta.b64 over, [{sign}0], {sign}1; "
        "@!over bra again; }"
    )


def expect(sign: str) -> str:
    """Arrives at mbarrier 0, and tells it to wait for 1 bytes."""
    return f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [{sign}0], {sign}1;"


def arrive(sign: str, percent: str) -> str:
    """The first work item of each subgroup arrives at mbarrier 0, unless 1 is 0."""
    return (
        "{ .reg .pred first; .reg .b32 lane; "
        f"mov.u32 lane, {percent}laneid; setp.eq.u32 first, lane, 0; "
        f"setp.ne.and.u32 first, {sign}1, 0, first; "
        f"@first mbarrier.arrive.shared::cta.b64 _, [{sign}0]; }}"
    )


def copy_box(sign: str, rank: int) -> str:
    """The box of tensor map 1 that begins at 3, .. goes to 0 and reports to mbarrier 2."""
    place = ", ".join(f"{sign}{3 + axis}" for axis in range(rank))
    return (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        f"[{sign}0], [{sign}1, {{{place}}}], [{sign}2];"
    )


def mbarriers_of(program: Node) -> list[Node]:
    """The memory that holds mbarriers, in order."""
    found = {n for n in program.toposort() if n.op is Op.LOCAL and n.arg.arrivals}
    return sorted(found, key=lambda n: n.arg.number)
