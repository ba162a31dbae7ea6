"""Sums of all processes beside MPI's own call and PyTorch's: `python -m treadle.bench.collectives`.

    4 B       bare 4 µs   captured 7 µs   eager 60 µs   Gloo 180 µs

`bare` is what mpi4py's Allreduce takes on the same arrays. `captured` is a TinyJit with nothing
else in it, `eager` a call that is not captured, `Gloo` torch.distributed's, where torch is there.
All take turns in one run, and the slowest process counts. From the bare calls follow the time that
a message takes to set out, and that of each byte: what an estimate for other sizes needs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from ..errors import UserError

__all__ = ["as_text", "main", "measured"]

SIZES = {"4 B": 4, "4 KB": 4 << 10, "1 MB": 1 << 20, "64 MB": 64 << 20}
CALLS = {"4 B": 200, "4 KB": 200, "1 MB": 20, "64 MB": 1}  # in a row, of one turn
SHARE = 1.15  # of the bare call's time, at most
MORE = {"captured": 3e-6, "eager": 50e-6}  # seconds on top of that
ROUNDS, QUICK_ROUNDS = 31, 3
Times = dict[str, dict[str, float]]  # by size and way


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the processes, and print what they have measured; 1 where a limit is missed."""
    options = _parser().parse_args(arguments)
    if options.worker:
        found = measured(options.rounds, Path(options.worker))
        if found:
            Path(options.worker, "found.json").write_text(json.dumps(found), encoding="utf-8")
        return 0
    from ..distributed.launch import Job, run

    with tempfile.TemporaryDirectory() as folder:
        rounds = QUICK_ROUNDS if options.quick else ROUNDS
        program = ["-m", "treadle.bench.collectives", "--worker", folder, "--rounds", str(rounds)]
        hosts = Path(options.hosts) if options.hosts else None
        try:
            status = run(Job(options.n, program, hosts, ssh=options.ssh))
        except UserError as error:
            print(error, file=sys.stderr)
            return 2
        if status:
            return status
        found = json.loads(Path(folder, "found.json").read_text(encoding="utf-8"))
    print(json.dumps(found, indent=2) if options.json else as_text(found, options.n))
    return int(any(_is_over(found[size], way) for size in found for way in MORE))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m treadle.bench.collectives", description=__doc__)
    parser.add_argument("-n", type=int, default=2, help="how many processes (default: 2)")
    parser.add_argument("--hosts", metavar="FILE", help="where they run, as for treadle run")
    parser.add_argument("--ssh", metavar="PROGRAM", default="", help="as for treadle run")
    parser.add_argument("--quick", action="store_true", help="few rounds: a smoke test")
    parser.add_argument("--json", action="store_true", help="the seconds, as JSON")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=argparse.SUPPRESS)
    return parser


def measured(rounds: int, folder: Path) -> Times:
    """The median seconds of a call of each way for each size; on process 0, nothing elsewhere."""
    import numpy as np
    from mpi4py import MPI

    from ..distributed import init

    world = init()
    comm = MPI.COMM_WORLD.Dup()
    gloo = _gloo(world.rank, world.size, folder)
    found: Times = {}
    for size, nbytes in SIZES.items():
        ways = _ways(np.ones(nbytes // 4, np.float32), world.size, comm, gloo)
        for run in ways.values():
            for _ in range(4):  # captures, connections, fresh pages
                run()
        names, turns = list(ways), {name: [] for name in ways}
        for turn in range(rounds):
            for at in range(len(names)):
                name = names[(at + turn) % len(names)]
                comm.Barrier()
                start = time.perf_counter()
                for _ in range(CALLS[size]):
                    ways[name]()
                took = (time.perf_counter() - start) / CALLS[size]
                turns[name].append(comm.allreduce(took, MPI.MAX))
        found[size] = {name: statistics.median(times) for name, times in turns.items()}
    return found if world.rank == 0 else {}


def _ways(
    x: object, size: int, comm: object, gloo: Callable[[object], Callable[[], object]] | None
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
    reduce = getattr(comm, "Allreduce")  # noqa: B009  (mpi4py may be absent)

    def bare() -> None:
        reduce(x, result)

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


def _gloo(rank: int, size: int, folder: Path) -> Callable[[object], Callable[[], object]] | None:
    """What makes a call of torch.distributed's, where torch is there; processes meet in a file.

    On several hosts they have no file in common, and it is left out.
    """
    if find_spec("torch") is None or not folder.is_dir():
        return None
    import torch
    from torch import distributed

    meeting = f"file://{folder / 'gloo'}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size)

    def prepared(x: object) -> Callable[[], object]:
        tensor = torch.zeros_like(torch.as_tensor(x))  # zeros: it is added up in place
        return lambda: distributed.all_reduce(tensor)

    return prepared


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
