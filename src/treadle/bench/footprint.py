"""The peak memory of whole programs, each in a process of its own, beside PyTorch's.

footprint("MLP inference, batch 128", quick=False)
  ->  {"treadle": Footprint(1.3e8, 6.5e7), "torch": Footprint(2.6e8, 2.3e7)}
"""

from __future__ import annotations

import resource
import sys

from .peers import PEERS, installed
from .process import numbers
from .results import Footprint
from .rows import programs
from .work import Work

__all__ = ["footprint", "measured_programs", "peak"]

CALLS = 3  # as many as TinyJit needs to replay
CODE = "from treadle.bench.footprint import peak; print(*peak({peer!r}, {name!r}, {quick}))"


def measured_programs(quick: bool) -> list[Work]:
    """The rows whose memory is measured; a smoke test has the last two."""
    return programs.rows(quick)[-2 if quick else 0 :]


def footprint(name: str, quick: bool) -> dict[str, Footprint]:
    """What a program takes in treadle and, where it is installed, in PyTorch. Raises UserError."""
    peers = [peer for peer in ("treadle", "torch") if installed(PEERS[peer])]
    return {
        peer: Footprint(*numbers(CODE.format(peer=peer, name=name, quick=quick), new_cache=False))
        for peer in peers
    }


def peak(peer: str, name: str, quick: bool) -> tuple[int, int]:
    """Bytes of this process at most, and how many of them come on top of the imported library."""
    work = next(work for work in measured_programs(quick) if work.name == name)
    library = PEERS[peer].library()
    imported = _most()
    run = library.prepare(work)
    for _ in range(CALLS):
        run()
    return _most(), _most() - imported


def _most() -> int:
    """The largest resident size of this process so far, in bytes.

    Linux gives a child its parent's peak in getrusage, so that VmHWM is read there.
    """
    if sys.platform == "linux":
        with open("/proc/self/status", encoding="ascii") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
