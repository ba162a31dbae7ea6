"""`treadle run -n 4 train.py`: starts the processes of a job by the MPI library's own launcher.

    run(Job(4, ["train.py", "--epochs", "3"]))      its exit code

The launcher is the one of this environment, which belongs to the library that mpi4py opens. It
starts processes on other hosts by ssh; treadle has to be installed there, in the same place.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DistributedError

__all__ = ["Job", "run"]

_COUNTS = ("TREADLE_CPU_COUNT", "TREADLE_THREADS", "CPU_COUNT", "THREADS")
_ENDING = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGTERM)
_PROCESS = "treadle.distributed.process"
_END = 5.0  # seconds that an interrupted job has to end by itself


@dataclass(frozen=True)
class Job:
    """`count` processes of the Python program `arguments`: a script, or "-m" and a module.

    `hosts` is a file with a host in each line, such as "node1" or "node1:8" for eight processes.
    """

    count: int
    arguments: Sequence[str]
    hosts: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)


def run(job: Job) -> int:
    """Run a job to its end. Raises DistributedError where it cannot be started."""
    command = [*_launcher(job), sys.executable, "-m", _PROCESS, *job.arguments]
    environment = {**os.environ, **job.environment}
    if job.hosts is None and not any(name in environment for name in _COUNTS):
        environment[_COUNTS[0]] = str(max(1, _cores() // job.count))  # of threads each
    started = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        status = started.wait()
    except KeyboardInterrupt:
        status = _interrupted(started)
    if status:
        print(f"treadle run: the job has failed: {_meaning(status)}", file=sys.stderr)
    return status if status >= 0 else 128 - status


def _cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _launcher(job: Job) -> list[str]:
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise DistributedError(
            '[run] there is no mpiexec, which starts the processes: pip install "treadle[mpi]"'
        )
    if job.hosts is not None and not job.hosts.is_file():
        raise DistributedError(f"[run] there is no file {job.hosts} with the names of hosts")
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    words = told.stdout + told.stderr
    count = ["-n", str(job.count)]
    hosts = [] if job.hosts is None else [str(job.hosts)]
    if "Open MPI" in words or "OpenRTE" in words:
        marked = [found, *count]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            marked.insert(1, "--allow-run-as-root")
        return [*marked, "--hostfile", *hosts] if hosts else [*marked, "--oversubscribe"]
    if "HYDRA" in words or "Intel" in words:
        return [found, *count, *(["-f", *hosts] if hosts else [])]
    raise DistributedError(f"[run] {found} is no launcher of MPICH, Intel MPI or Open MPI")


def _interrupted(started: subprocess.Popen[bytes]) -> int:
    """Pass the interrupt on; what does not end is killed."""
    os.killpg(started.pid, signal.SIGINT)
    try:
        started.wait(_END)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    return 130


def _meaning(status: int) -> str:
    """An exit code of a launcher in words: it passes on the signal that ended a process."""
    if status == 130:
        return "interrupted"
    number = -status if status < 0 else status - 128 if status > 128 else status
    names = {s.value: s.name for s in _ENDING}
    if number in names and status != 1:
        return f"a process was ended by {names[number]}, and so were all others"
    return f"exit code {status}"
