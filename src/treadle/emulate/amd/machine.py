"""Registers of a wave, as fields of the core's Warp, and the front end of each width.

Vector registers are v0 to v255 and a0 to a255 (accumulators of CDNA), 32 bits in each lane. Scalar
registers are s0 to s123, named by the number that they have as operands: VCC is s106 and s107,
TTMP0 is s108. `exec` is the core's mask; waves of 32 lanes keep EXEC_HI as a scalar of its own.
FLAT_SCRATCH is s102 and s103 before gfx10, and later not among them.
"""

from __future__ import annotations

from functools import cache

from treadle.emulate.simt.front_end import FaultFacts, FrontEnd
from treadle.emulate.simt.machine import Fault, Machine, Windows
from treadle.emulate.simt.registers import Place

__all__ = [
    "ILLEGAL", "NOT_WAITED", "PRIVATE", "SCALARS", "SHARED", "TTMP7", "TTMP8", "TTMP9", "VCC",
    "WINDOW", "front_end", "places",
]  # fmt: skip

VCC, _TTMP = 106, 108
SCALARS, VECTORS = 124, 256
TTMP7, TTMP8, TTMP9 = _TTMP + 7, _TTMP + 8, _TTMP + 9
ILLEGAL = Fault.FIRST_OWN
NOT_WAITED = Fault.FIRST_OWN + 1
# Most registers of the matrices of an instruction: A, B, the sums, and what picks from a sparse A,
# or the scales of A and B.
_MATRICES = {"a": 8, "b": 8, "d": 32, "k": 2}
_OTHERS = ("m0", "scc", "exec_hi", "flat_scratch_lo", "flat_scratch_hi")
# Where generic addresses of shared and of scratch memory begin, as the driver says as well.
SHARED, PRIVATE, WINDOW = 1 << 48, 2 << 48, 1 << 32


@cache
def _machine(width: int) -> Machine:
    scalars = (*(f"s{n}" for n in range(SCALARS)), *_OTHERS)
    vectors = [f"{letter}{n}" for letter in "va" for n in range(VECTORS)]
    return Machine(
        width,
        has_lane_counters=False,
        needs_alignment=False,
        warp=(
            *((name, 4) for name in scalars),
            *((name, 4 * width) for name in vectors),
            *((f"matrix_{name}", 4 * count * width) for name, count in _MATRICES.items()),
        ),
    )


def _illegal(facts: FaultFacts) -> str:
    return f"{facts.who}: the wave reached an instruction that is not emulated"


def _not_waited(facts: FaultFacts) -> str:
    return f"{facts.who}: the wave does not wait for memory"


@cache
def front_end(width: int) -> FrontEnd:
    """The front end of waves of 32 or 64 lanes."""
    return FrontEnd(
        "AMD",
        _machine(width),
        symbols=("treadle_simt_host",),
        faults={ILLEGAL: _illegal, NOT_WAITED: _not_waited},
        windows=Windows(SHARED, WINDOW, PRIVATE, WINDOW),
    )


@cache
def places(width: int) -> dict[str, Place]:
    """Where each register lies."""
    machine = _machine(width)
    found = {"exec": Place(machine.warp["exec"], machine.mask, is_scalar=True)}
    for name in (*(f"s{n}" for n in range(SCALARS)), *_OTHERS):
        found[name] = Place(machine.warp[name], "i32", is_scalar=True)
    for letter in "va":
        for n in range(VECTORS):
            name = f"{letter}{n}"
            found[name] = Place(machine.warp[name], "i32")
    return found
