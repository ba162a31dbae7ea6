"""Sums of all processes beside MPI's own call and PyTorch's: `python -m treadle.bench.collectives`.

    4 B       bare 4 µs   captured 7 µs   eager 60 µs   Gloo 180 µs

`bare` is what mpi4py's Allreduce takes on the same arrays. `captured` is a TinyJit with nothing
else in it, `eager` a call that is not captured, `Gloo` torch.distributed's, where torch is there.
All take turns in one run, and the slowest process counts. From the bare calls follow the time that
a message takes to set out, and that of each byte: what an estimate for other sizes needs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .processes import Times, connect_gloo, give, medians, run_bench

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["as_text", "main", "measured"]

SIZES = {"4 B": 4, "4 KB": 4 << 10, "1 MB": 1 << 20, "64 MB": 64 << 20}
CALLS = {"4 B": 200, "4 KB": 200, "1 MB": 20, "64 MB": 1}  # in a row, of one turn
SHARE = 1.15  # of the bare call's time, at most
MORE = {"captured": 3e-6, "eager": 50e-6}  # seconds on top of that


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the processes, and print what they have measured; 1 where a limit is missed."""
    module = "treadle.bench.collectives"
    status, found = run_bench(module, __doc__, arguments, measured, as_text)
    return status or int(any(_is_over(found[size], way) for size in found for way in MORE))


def measured(options: argparse.Namespace) -> None:
    """Measure a call of each way for each size, as one of the processes."""
    import numpy as np
    from mpi4py import MPI

    from ..distributed import init

    world, comm = init(), MPI.COMM_WORLD.Dup()
    gloo = _of_gloo if connect_gloo(world.rank, world.size, Path(options.worker)) else None
    found: Times = {}
    for size, nbytes in SIZES.items():
        ways = _ways(np.ones(nbytes // 4, np.float32), world.size, comm, gloo)
        found[size] = medians(ways, CALLS[size], options.rounds, comm)
    give(options, found, world.rank)


def _ways(
    x: object, size: int, comm: MPI.Comm, gloo: Callable[[object], Callable[[], object]] | None
) -> dict[str, Callable[[], object]]:
    import numpy as np

    from ..distributed import init
    from ..engine.background_calls import finish_calls
    from ..engine.jit import TinyJit
    from ..tensor import Tensor

    assert isinstance(x, np.ndarray)
    world, result = init(), np.empty_like(x)
    mine = Tensor(x).realize()
    step = TinyJit(lambda t: world.allreduce(t).realize())

    def bare() -> None:
        comm.Allreduce(x, result)

    def captured() -> None:
        step(mine)
        finish_calls()

    def eager() -> None:
        world.allreduce(mine).realize()
        finish_calls()

    eager()
    assert world.allreduce(mine).numpy()[-1] == size
    ways: dict[str, Callable[[], object]] = {"bare": bare, "captured": captured, "eager": eager}
    return ways if gloo is None else {**ways, "Gloo": gloo(x)}


def _of_gloo(x: object) -> Callable[[], object]:
    """A call of torch.distributed's."""
    import torch
    from torch import distributed

    tensor = torch.zeros_like(torch.as_tensor(x))  # zeros: it is added up in place
    return lambda: distributed.all_reduce(tensor)


def _limit(times: Mapping[str, float], way: str) -> float:
    return SHARE * times["bare"] + MORE[way]


def _is_over(times: Mapping[str, float], way: str) -> bool:
    return times[way] > _limit(times, way)


def as_text(found: Times, count: int) -> str:
    """A line for each size, then what the bare calls say of the transport."""
    lines = [f"a sum of float32 over {count} processes, the median of a call:"]
    for size, times in found.items():
        words = []
        for way, seconds in times.items():
            text = f"{way} {seconds * 1e6:,.1f} µs"
            if way != "bare":
                text += f" ({seconds / times['bare']:.2f}x"
                text += ", over its limit)" if way in MORE and _is_over(times, way) else ")"
            words.append(text)
        lines.append(f"{size:>6}  " + "   ".join(words))
    small, large = found["4 B"]["bare"], found["64 MB"]["bare"]
    rate = (SIZES["64 MB"] - SIZES["4 B"]) / max(large - small, 1e-9)
    lines.append(f"bare: {small * 1e6:.1f} µs for a call, then {rate / 1e9:.2f} GB/s")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
