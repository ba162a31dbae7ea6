"""What benches of several processes share: their arguments, the job, turns, and PyTorch's group.

    status, found = run_bench("treadle.bench.collectives", __doc__, arguments, measured, as_text)

It starts the job, each of whose processes calls `measured(options)`, which ends with

    give(options, {row: medians(ways, 20, options.rounds, comm)}, rank)
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
from typing import TYPE_CHECKING

from ..errors import DistributedError, UserError

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Times", "Ways", "connect_gloo", "give", "medians", "run_bench"]

ROUNDS, QUICK_ROUNDS = 31, 3
WARM_UPS = 4  # captures, connections, fresh pages
Times = dict[str, dict[str, float]]  # seconds, by row and way
Ways = Mapping[str, Callable[[], object]]


def run_bench(
    module: str,
    about: str | None,
    arguments: Sequence[str] | None,
    measured: Callable[[argparse.Namespace], None],
    as_text: Callable[[Times, int], str],
) -> tuple[int, Times]:
    """An exit code, and what was measured and printed; nothing where this is one of the processes.

    `module` is started again for each process, and `about` what it says of itself.
    """
    options = _options(module, about, arguments)
    if options.worker:
        measured(options)
        return 0, {}
    try:
        found = _found_by(options)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2, {}
    print(json.dumps(found, indent=2) if options.json else as_text(found, options.n))
    return 0, found


def _options(module: str, about: str | None, arguments: Sequence[str] | None) -> argparse.Namespace:
    """What a bench was called with; `worker` is the folder of a process that measures."""
    parser = argparse.ArgumentParser(f"python -m {module}", description=about)
    parser.add_argument("-n", type=int, default=2, help="how many processes (default: 2)")
    parser.add_argument("--hosts", metavar="FILE", help="where they run, as for treadle run")
    parser.add_argument("--ssh", metavar="PROGRAM", default="", help="as for treadle run")
    parser.add_argument("--quick", action="store_true", help="few rounds: a smoke test")
    parser.add_argument("--json", action="store_true", help="the seconds, as JSON")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.module, options.rounds = module, QUICK_ROUNDS if options.quick else ROUNDS
    return options


def _found_by(options: argparse.Namespace) -> Times:
    """What the processes of a bench measure. Raises UserError where they do not come to an end."""
    from ..distributed.launch import Job, run

    with tempfile.TemporaryDirectory() as folder:
        program = ["-m", options.module, "--worker", folder, *(["--quick"] * options.quick)]
        hosts = Path(options.hosts) if options.hosts else None
        status = run(Job(options.n, program, hosts, ssh=options.ssh))
        if status:
            raise DistributedError(f"[bench] the processes ended with exit code {status}")
        return json.loads(Path(folder, "found.json").read_text(encoding="utf-8"))


def give(options: argparse.Namespace, found: Times, rank: int) -> None:
    """Leave what was measured to the process that has started the job."""
    if rank == 0:
        Path(options.worker, "found.json").write_text(json.dumps(found), encoding="utf-8")


def medians(ways: Ways, calls: int, rounds: int, comm: MPI.Comm) -> dict[str, float]:
    """The median seconds of a call of each way, `calls` in a row; the slowest process counts."""
    from mpi4py import MPI

    for run in ways.values():
        for _ in range(WARM_UPS):
            run()
    names: list[str] = list(ways)
    turns: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for at in range(len(names)):
            name = names[(at + turn) % len(names)]
            comm.Barrier()
            start = time.perf_counter()
            for _ in range(calls):
                ways[name]()
            took = (time.perf_counter() - start) / calls
            turns[name].append(comm.allreduce(took, MPI.MAX))
    return {name: statistics.median(times) for name, times in turns.items()}


def connect_gloo(rank: int, size: int, folder: Path) -> bool:
    """Whether torch is there, whose processes then meet in a file, as a group of Gloo's.

    On several hosts that have no file in common it is left out.
    """
    if find_spec("torch") is None or not folder.is_dir():
        return False
    from torch import distributed

    meeting = f"file://{folder / 'gloo'}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size)
    return True
