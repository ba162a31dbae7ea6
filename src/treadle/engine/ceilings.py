"""The ceilings of this machine's processor: operations a second, and bytes a second of each level.

    measured.of(target)                     Ceilings, measured once, remembered on disk by machine
    measured.share(work, seconds, target)   Share(best=0.9e-3, seconds=1e-3, name="memory")

A measured ceiling is never too high, but one that was measured while others had the cores is too
low. So the best that was ever measured counts, and where a kernel is quicker than its ceiling, that
is measured again. A share that is above 1 even then is told as it is: then the ceiling is still too
low, or the kernel's operations or bytes are counted wrongly.
"""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from ..runtime.probe import Rates, fma_peak, stream_rates
from ..target import Target, available_cores, third_level_caches
from .cache import compile_cache
from .work import Work

__all__ = ["Ceilings", "Level", "Measured", "Share", "measure", "measured"]

FMA_STEPS = 1 << 15  # half a millisecond
LEAST_STREAM = 8 << 20  # bytes of each core: more than its part of any cache
TRIES = 3  # of a probe, while its ceiling is exceeded
MOST_PROBES = 16  # in one process
PAUSE = 0.25  # seconds before the third, twice as many before the fourth, ...
CEILINGS = ("compute", "L1", "L2", "L3", "memory")
UNKNOWN = Rates(0.0, 0.0, 0.0)


class Level(NamedTuple):
    """A cache, or memory: `size` bytes of all cores, and how fast they are moved."""

    name: str
    size: float
    rates: Rates


class Limit(NamedTuple):
    """The least time that something takes, and the ceiling that says so."""

    seconds: float
    name: str


class Share(NamedTuple):
    """The part of its time that a kernel would need at best, and the ceiling that it is near to."""

    best: float  # seconds
    seconds: float
    name: str

    @property
    def value(self) -> float:
        return self.best / self.seconds


@dataclass(frozen=True)
class Ceilings:
    """`flops`: float32 operations a second; `levels`: caches, the quickest first, and memory."""

    flops: float
    levels: tuple[Level, ...]

    def best(self, other: Ceilings) -> Ceilings:
        """The higher of both, each."""
        pairs = zip(self.levels, other.levels, strict=True)
        levels = tuple(a._replace(rates=a.rates.best(b.rates)) for a, b in pairs)
        return Ceilings(max(self.flops, other.flops), levels)

    def limits(self, work: Work) -> list[Limit]:
        """What `work` takes at least, where its bytes are in the level that has room for all, and
        where the next quicker cache has as many of them as fit.
        """
        number = next(n for n, level in enumerate(self.levels) if work.touched <= level.size)
        level = self.levels[number]
        found = [self._limit(work, level.rates.seconds(work.read, work.written), level.name)]
        if number:
            inner = self.levels[number - 1]
            part = inner.size / work.touched
            mixed = part * inner.rates.seconds(work.read, work.written)
            mixed += (1 - part) * level.rates.seconds(work.read, work.written)
            found.append(self._limit(work, mixed, f"{level.name} and {inner.name}"))
        return found

    def _limit(self, work: Work, moving: float, name: str) -> Limit:
        computing = work.lanes / self.flops
        return Limit(computing, "compute") if computing > moving else Limit(moving, name)

    def share(self, work: Work, seconds: float) -> Share:
        """How near to its ceiling `work` came that took so many seconds.

        What is quicker than its level came from the next quicker one in part.
        """
        shares = [Share(limit.seconds, seconds, limit.name) for limit in self.limits(work)]
        return next((share for share in shares if share.value <= 1), shares[-1])


def measure(target: Target, names: Collection[str] = CEILINGS) -> Ceilings:
    """The ceilings of these names as they show now, in a tenth of a second each; others are 0."""
    cores = available_cores()
    l1, l2, l3 = target.l1, target.l2, target.l3 * third_level_caches()
    # For each level its size, and of each core what streams go through: half of a cache, for
    # others use that, too; of memory four times what caches hold.
    sizes = {
        "L1": (cores * l1, l1 // 2),
        "L2": (cores * l2, l2 // 2),
        "L3": (max(l3, cores * l2), max(2 * l2, l3 // (2 * cores))),
        "memory": (math.inf, max(4 * l3 // cores, LEAST_STREAM)),
    }
    levels: list[Level] = []
    for name, (size, part) in sizes.items():
        shares = name in ("L3", "memory")
        rates = stream_rates(part, target, shares=shares) if name in names else UNKNOWN
        levels.append(Level(name, size, rates))
    return Ceilings(fma_peak(FMA_STEPS, target) if "compute" in names else 0.0, tuple(levels))


class Measured:
    """The best ceilings that were ever measured for each target, by `probe`."""

    def __init__(
        self,
        probe: Callable[[Target, Collection[str]], Ceilings] = measure,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._probe, self._clock, self._last = probe, clock, -math.inf
        self._found: dict[Target, Ceilings] = {}
        self._probes = 0

    def of(self, target: Target) -> Ceilings:
        """What is known, on disk too; measured where nothing is."""
        found = self._found.get(target) or _saved(target)
        if found is None:
            self._probes += 1
            return self._again(target, CEILINGS, None)
        self._found[target] = found
        return found

    def share(self, work: Work, seconds: float, target: Target) -> Share:
        """How near to its ceiling `work` came, which is measured again where it is exceeded."""
        share = self.of(target).share(work, seconds)
        if share.value <= 1 or not self._may_probe():
            return share
        self._probes += 1
        for _ in range(TRIES):
            names = share.name.split(" and ")
            share = self._again(target, names, self.of(target)).share(work, seconds)
            if share.value <= 1:
                break
        return share

    def _may_probe(self) -> bool:
        """At once, then after a while: what else keeps the machine busy may have ended by then."""
        waited = self._clock() - self._last
        return self._probes < MOST_PROBES and waited >= PAUSE * (self._probes - 1)

    def _again(self, target: Target, names: Collection[str], known: Ceilings | None) -> Ceilings:
        found = self._probe(target, names)
        self._last = self._clock()
        found = self._found[target] = found if known is None else found.best(known)
        compile_cache().put(_key(target), json.dumps([found.flops, found.levels]).encode())
        return found


measured = Measured()


def _key(target: Target) -> str:
    return f"ceilings:{platform.node()}:{available_cores()}:{target!r}"


def _saved(target: Target) -> Ceilings | None:
    data = compile_cache().get(_key(target))
    if data is None:
        return None
    flops, levels = json.loads(data)
    return Ceilings(flops, tuple(Level(name, size, Rates(*rates)) for name, size, rates in levels))
