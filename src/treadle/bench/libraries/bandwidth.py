"""Memory itself as a contender: a row's bytes, read or copied by code that is not treadle's.

    Bandwidth().prepare(work)()     a sum over `work.amount` bytes, or a copy of half as many,
                                    of and to memory of its own for each frame of a film

It takes its turns beside the libraries, so that it meets the caches, the resting cores and the
neighbours of the machine as they do: on a virtual machine the same loop goes at half the speed
a minute later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

from ...target import available_cores
from ..timing import timed
from ..work import BANDWIDTH, Work
from .base import Library, NotOffered, Run

__all__ = ["Bandwidth"]

_TRIES = 5


class Bandwidth(Library):
    """NumPy's sums and copies on all cores, or PyTorch's: what is faster here for so many bytes."""

    def prepare(self, work: Work) -> Run:
        """Raises NotOffered for rows that have no bar on bandwidth."""
        if BANDWIDTH not in work.bars:
            raise NotOffered(f"{work.name} has no bar on bandwidth")
        if work.film > 1:
            return min(_film_copies(int(work.amount), work.film), key=_seconds)
        make = _sums if work.ceiling == "read" else _copies
        return min(make(int(work.amount)), key=_seconds)


def _seconds(run: Run) -> float:
    return min(timed(run) for _ in range(_TRIES))


def _sums(nbytes: int) -> Iterator[Run]:
    import numpy as np

    source = np.ones(nbytes // 4, np.float32)
    yield _on_each_core(lambda piece: source[piece].sum(), source.size)
    torch = _torch()
    if torch is not None:
        yield torch.from_numpy(source).sum


def _copies(nbytes: int) -> Iterator[Run]:
    import numpy as np

    source = np.ones(nbytes // 8, np.float32)
    target = np.zeros_like(source)
    yield _on_each_core(lambda piece: np.copyto(target[piece], source[piece]), source.size)
    torch = _torch()
    if torch is not None:
        a, b = torch.from_numpy(source), torch.from_numpy(target)
        yield lambda: b.copy_(a)


def _film_copies(nbytes: int, count: int) -> Iterator[Run]:
    """Copies of `count` pieces of memory; no core waits for another between two of them."""
    import numpy as np

    memory = [np.ones(nbytes // 8, np.float32) for _ in range(2 * count)]
    film = list(zip(memory[::2], memory[1::2], strict=True))

    def frames(piece: slice) -> None:
        for source, target in film:
            np.copyto(target[piece], source[piece])

    yield _on_each_core(frames, nbytes // 8)
    torch = _torch()
    if torch is not None:
        pairs = [(torch.from_numpy(source), torch.from_numpy(target)) for source, target in film]
        yield lambda: [target.copy_(source) for source, target in pairs]


def _torch() -> ModuleType | None:
    try:
        import torch
    except ImportError:
        return None
    return torch


def _on_each_core(function: Callable[[slice], object], count: int) -> Run:
    """`function` of a slice of `count` elements on each core: NumPy lets go of the GIL."""
    cores = available_cores()
    ends = [count * core // cores for core in range(cores + 1)]
    pieces = [slice(*ends[core : core + 2]) for core in range(cores)]
    pool = ThreadPoolExecutor(cores)
    return lambda: list(pool.map(function, pieces))
