"""What the steps of a kernel cost on a kind of processor, by which schedules are ranked.

    PROCESSOR.of(Effort(phases=1, arithmetic=1e6, ...))  ->  seconds

The prices are not written by hand: scripts/fit_costs.py fits them to measured schedules.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CACHE_LINE", "CACHE_SHARE", "PAGE", "PAGES", "Costs", "Effort", "costs_of"]

CACHE_LINE = 64  # bytes, on every processor that treadle knows
CACHE_SHARE = 0.75  # of a cache, for what is to stay there
PAGE, PAGES = 4096, 2048  # bytes, and how many a core knows the places of


class Effort(NamedTuple):
    """What the steps of a kernel are, counted by optimize/cost.py.

    Instructions of vectors: `arithmetic` and `accesses`; elements that are loaded or stored one by
    one, `apart`; additions that other work could have hidden, `waits`; steps of loops in the code;
    lines that come into each cache; pages whose places a core does not know any more.
    """

    phases: float
    arithmetic: float
    accesses: float
    apart: float
    waits: float
    steps: float
    into_l1: float
    into_l2: float
    into_l3: float
    pages: float


class Costs(Effort):
    """Nanoseconds for one of each."""

    def of(self, effort: Effort) -> float:
        """Seconds."""
        return 1e-9 * sum(price * count for price, count in zip(self, effort, strict=True))


# Of processors with vectors of 32 bytes, fitted to the schedules of a Zen 3.
PROCESSOR = Costs(
    phases=2980, arithmetic=0.134, accesses=0.0426, apart=0.427, waits=0.0326, steps=0.157,
    into_l1=0.0775, into_l2=0.25, into_l3=0.89, pages=1.22,
)  # fmt: skip
# Of others the schedules' tiles alone were measured. A Zen 5, of 64 bytes, loads two vectors beside
# two products, so that loads matter little to a tile; what was seen of 16 is by loads and padding.
WIDE = PROCESSOR._replace(accesses=0.0134, into_l1=0.0134, pages=0)
NARROW = PROCESSOR._replace(accesses=PROCESSOR.arithmetic, into_l1=0, pages=0)
_BY_BYTES = {32: PROCESSOR, 64: WIDE}


def costs_of(vector_bytes: int) -> Costs:
    """The prices of processors with vectors of so many bytes."""
    return _BY_BYTES.get(vector_bytes, NARROW)
