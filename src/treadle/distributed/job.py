"""The job that this process is part of: how it begins, and how it ends.

A process that fails ends the job: the others would wait for it. One that has ended its program
stays until the others have, so that it can tell them.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from types import TracebackType

from .. import __version__
from ..engine.background_calls import finish_calls
from ..engine.collectives import used
from ..errors import DistributedError
from ..runtime.communicator import Alone, Call, Communicator
from ..runtime.mpi import MPICommunicator, open_mpi
from ..runtime.nccl import abort_nccl, close_nccl
from .group import Group
from .rendezvous import join, place_of

__all__ = ["init", "shrink"]

_LAUNCHERS = ("PMI_FD", "PMI_PORT", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE")
_SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
# All processes have to have the same versions.
_VERSIONS = f"treadle {__version__} and NumPy {metadata.version('numpy')}"
_BEGINNING = f"the beginning, with {_VERSIONS}"
_world: list[Group] = []
_communicators: list[MPICommunicator] = []  # the last of all processes


def init() -> Group:
    """All processes of the job that this one was started in; called again it is the same group.

    The job is one of MPI's: `treadle run -n 4 train.py`, or `mpiexec -n 4 python train.py`. Without
    such a launcher the variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say who belongs
    together, as torchrun sets them. A process that was started alone is a group of one. Raises
    DistributedError where there is no MPI, where another launcher started this process as one of
    several, where others do not come, or where versions differ.
    """
    if not _world:
        _world.append(Group(_joined()))
    return _world[0]


def shrink() -> Group:
    """The processes that are still there, as a new group of all, after one of them has died.

    All of them call it, each after a call of a group has raised DistributedError. Groups from
    before, and functions that were captured with them, are over; what was computed is kept. It
    takes Open MPI and `treadle run --shrink`. Raises DistributedError where MPI cannot do that.
    """
    before = init().communicator
    if not isinstance(before, MPICommunicator):
        return _world[0]
    finish_calls()
    abort_nccl()
    _communicators[0] = before.shrink()
    _world[0] = Group(_communicators[0])
    return _world[0]


def _joined() -> Communicator:
    started = [name for name in _SIZES if os.environ.get(name, "1") not in ("", "1")]
    if find_spec("mpi4py") is None and not started:
        return Alone()
    place = None if _has_launcher() else place_of(dict(os.environ))
    leave = join(place, _VERSIONS) if place else None
    communicator = open_mpi()
    _communicators.append(communicator)
    if started and communicator.size == 1:
        raise DistributedError(
            f"[distributed] {started[0]} says that this process is one of "
            f"{os.environ[started[0]]}, but MPI knows of it alone: the launcher is of another MPI; "
            "start with `treadle run`"
        )
    communicator.take_part(Call("barrier", where=_BEGINNING, check=_BEGINNING), None, None)
    _end_the_job(leave)
    used.is_used = True
    return communicator


def _has_launcher() -> bool:
    return any(name in os.environ for name in _LAUNCHERS)


def _end_the_job(leave: Callable[[], None] | None) -> None:
    """A failure of this process ends all; else it waits for the others at its end."""
    told = sys.excepthook

    def failed(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        told(kind, error, traceback)
        communicator = _communicators[0]
        if communicator.size > 1:
            communicator.abort(130 if isinstance(error, KeyboardInterrupt) else 1)

    sys.excepthook = failed

    def ended() -> None:
        finish_calls()
        close_nccl()
        _communicators[0].close()
        if leave is not None:
            leave()

    atexit.register(ended)
