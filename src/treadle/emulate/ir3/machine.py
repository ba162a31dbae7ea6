"""Registers of a wave, as fields of the core's Warp, and the front end of each width.

Full registers are r0 to r47, here by components: r0 to r191, 32 bits in each lane. The halves of a
component are two half registers. r192 to r223 are those that all lanes share: one number each.
p0.x to p0.w are flags.
"""

from __future__ import annotations

from functools import cache

from treadle.emulate.simt.front_end import FaultFacts, FrontEnd
from treadle.emulate.simt.machine import Fault, Machine
from treadle.emulate.simt.registers import Place

__all__ = [
    "DIFFERENT",
    "ILLEGAL",
    "NOT_WAITED",
    "OUTSIDE",
    "REGISTERS",
    "WAVES",
    "front_end",
    "places",
]

WAVES = (64, 128)
REGISTERS = 48 * 4  # components of full registers
_COUNT = REGISTERS + 8 * 4
ILLEGAL = Fault.FIRST_OWN
NOT_WAITED = Fault.FIRST_OWN + 1
OUTSIDE = Fault.FIRST_OWN + 2
DIFFERENT = Fault.FIRST_OWN + 3


@cache
def _machine(width: int) -> Machine:
    return Machine(
        width,
        warp=(
            *((f"r{n}", 4 * width) for n in range(REGISTERS)),
            *((f"r{n}", 4) for n in range(REGISTERS, _COUNT)),
            *((name, 4 * width) for name in ("a0", "a1")),
            *((f"p{n}", width // 8) for n in range(4)),
        ),
    )


def _illegal(facts: FaultFacts) -> str:
    return f"{facts.who}: the wave reached an instruction that is not emulated"


def _not_waited(facts: FaultFacts) -> str:
    return f"{facts.who}: the wave uses a register too early"


def _outside(facts: FaultFacts) -> str:
    return f"{facts.who}: a0.x leads to register or constant {facts.address}, which is not there"


def _different(facts: FaultFacts) -> str:
    return f"{facts.who}: lanes set a register that they share to different numbers"


@cache
def front_end(width: int) -> FrontEnd:
    """The front end of waves of 64 or 128 lanes."""
    faults = {ILLEGAL: _illegal, NOT_WAITED: _not_waited, OUTSIDE: _outside, DIFFERENT: _different}
    return FrontEnd("Adreno", _machine(width), faults=faults)


@cache
def places(width: int) -> dict[str, Place]:
    """Where each register lies."""
    machine = _machine(width)
    found = {
        f"r{n}": Place(machine.warp[f"r{n}"], "i32", is_scalar=n >= REGISTERS)
        for n in range(_COUNT)
    }
    found |= {name: Place(machine.warp[name], "i32") for name in ("a0", "a1")}
    found |= {f"p{n}": Place(machine.warp[f"p{n}"], "i1") for n in range(4)}
    return found
