"""The records of simdgroups, which have 32 threads with program counters of their own."""

from __future__ import annotations

from treadle.emulate.simt.machine import Machine

__all__ = ["ELEMENTS", "LANES", "MACHINE", "SIDE", "splat"]

LANES = 32
SIDE = 8  # rows and columns of a simdgroup's matrix
ELEMENTS = SIDE * SIDE // LANES  # of it that a lane has

# `constants` is the address of the kernel's constant variables. `matrices` are two factors, what
# is added, and the result: the elements of all lanes, as float64.
MACHINE = Machine(LANES, launch=(("constants", 8),), warp=(("matrices", 4 * 8 * SIDE * SIDE),))


def splat(bits: int, value: int) -> str:
    """A constant, the same in each lane."""
    value &= (1 << bits) - 1
    if bits == 1:
        return f"splat (i1 {'true' if value else 'false'})"
    return f"splat (i{bits} {value})" if value else "zeroinitializer"
