"""The job that this process is part of: how it begins, and how it ends.

A process that fails ends the job: the others would wait for it. One that has ended its program
stays until the others have, so that it can tell them.
"""

from __future__ import annotations

import atexit
import os
import sys
from types import TracebackType

from ..engine.background_calls import finish_calls
from ..engine.collectives import used
from ..errors import DistributedError
from ..runtime.mpi import MPICommunicator, open_mpi
from .group import Group

__all__ = ["init"]

_SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
_world: list[Group] = []


def init() -> Group:
    """All processes of the job that this one was started in; called again it is the same group.

    The job is one of MPI's: `treadle run -n 4 train.py`, or `mpiexec -n 4 python train.py`. A
    process that was started alone is a group of one. Raises DistributedError where there is no MPI,
    or where another launcher started this process as one of several.
    """
    if not _world:
        communicator = open_mpi()
        _check_launcher(communicator)
        _end_the_job_with(communicator)
        used.is_used = True
        _world.append(Group(communicator))
    return _world[0]


def _check_launcher(communicator: MPICommunicator) -> None:
    for name in _SIZES:
        wanted = os.environ.get(name, "")
        if communicator.size == 1 and wanted.isdecimal() and int(wanted) > 1:
            raise DistributedError(
                f"[distributed] {name} says that this process is one of {wanted}, but MPI knows of "
                "it alone: the launcher is of another MPI; start with `treadle run`"
            )


def _end_the_job_with(communicator: MPICommunicator) -> None:
    """A failure of this process ends all; else it waits for the others at its end."""
    told = sys.excepthook

    def failed(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        told(kind, error, traceback)
        if communicator.size > 1:
            print(f"process {communicator.rank} failed and ends the job", file=sys.stderr)
            sys.stderr.flush()
            sys.stdout.flush()
            communicator.abort(130 if isinstance(error, KeyboardInterrupt) else 1)

    sys.excepthook = failed

    def ended() -> None:
        finish_calls()
        communicator.close()

    atexit.register(ended)
