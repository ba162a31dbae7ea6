"""Run a program of several processes on two hosts that are network namespaces of this machine.

    python scripts/two_hosts.py python -m treadle.bench.distributed_training
    python scripts/two_hosts.py --delay 0.001 --rate 1e8 treadle run -n 2 train.py

It adds `--hosts` and `--ssh`, which say where that is, and needs root on Linux, as the tests of two
hosts do, whose wire it takes (`tests/distributed/network.py`): the kernel's own one if no frame is
to be delayed, lost or limited. Both hosts are this machine, so each gets half of its cores, unless
TREADLE_CPU_COUNT says otherwise: threads of both that take turns on all cores would wait for each
other in each step.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """The exit code is the command's."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that a frame takes")
    parser.add_argument("--loss", type=float, default=0.0, help="the part of frames that is lost")
    parser.add_argument("--rate", type=float, default=float("inf"), help="bytes a second")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run")
    options = parser.parse_args()
    if not options.command:
        parser.error("give a command, such as: python -m treadle.bench.collectives")
    sys.path.insert(0, str(ROOT))
    from tests.distributed.network import TwoHosts, missing

    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    wire = options.delay, options.loss, options.rate
    is_direct = wire == (0.0, 0.0, float("inf"))
    with (
        tempfile.TemporaryDirectory() as folder,
        TwoHosts(Path(folder), *wire, is_direct=is_direct) as hosts,
    ):
        where = ["--hosts", str(hosts.file), "--ssh", str(hosts.ssh)]
        command = [*hosts.on_first(), *placed(options.command, where)]
        half = str(max(1, len(os.sched_getaffinity(0)) // 2))
        variables = {"TREADLE_CPU_COUNT": half, **os.environ}
        return subprocess.run(command, check=False, env=variables).returncode


def placed(command: list[str], where: list[str]) -> list[str]:
    """A command with the options `where` it runs: before the program of `treadle run`, or last."""
    if "run" not in command:
        return [*command, *where]
    at = command.index("run") + 1
    return [*command[:at], *where, *command[at:]]


if __name__ == "__main__":
    sys.exit(main())
