"""Calls of replays through MPI: prepared once, and met by each other alone.

Comparing what processes call takes as long as a small call. A replay makes the same calls each
time, so its processes compare all of them once, and then have communicators of MPI's of their own.
Who makes another call meets nobody there. Those who wait for it ask where it is, as in any call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from .communicator import Call, finished
from .whereabouts import Place, Whereabouts

if TYPE_CHECKING:
    import numpy as np
    from mpi4py import MPI

__all__ = ["Compared", "MPIChannel", "is_over_soon"]

_LOOKS = range(1000)  # at a small call, before anything else is thought of


def is_over_soon(request: MPI.Request, looks: range = _LOOKS) -> bool:
    """Whether a request is over when it has been looked at that often."""
    test = request.Test
    for _ in looks:  # noqa: SIM110  (a generator takes longer than a look)
        if test():
            return True
    return False


class Group(Protocol):
    """What a channel asks of the group that it is of: an MPICommunicator."""

    name: str
    calls: int
    failed: str
    whereabouts: Whereabouts

    def described(self, call: Call, given: np.ndarray | None, channel: str = "") -> str: ...

    def refuse(self) -> None: ...

    def note_failure(self, place: Place, error: BaseException, held: object) -> None: ...

    def steps(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Iterator[None]: ...

    def take_part(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> None: ...

    def steps_on(
        self,
        comm: MPI.Comm,
        call: Call,
        given: np.ndarray | None,
        result: np.ndarray | None,
        channel: str = "",
    ) -> Iterator[None]: ...

    def take_part_on(
        self,
        comm: MPI.Comm,
        call: Call,
        given: np.ndarray | None,
        result: np.ndarray | None,
        channel: str = "",
    ) -> None: ...

    def prepared(
        self, comm: MPI.Comm, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> MPI.Prequest | None: ...

    def until(self, request: MPI.Request, mine: Place) -> Iterator[None]: ...


class MPIChannel:
    """A channel with communicators of MPI's; `name` is what errors call it.

    All processes have to start the calls on one communicator in one order. Small calls, which are
    prepared, overtake large ones that wait for their turn, in some processes and not in others. So
    there are two.
    """

    def __init__(self, group: Group, comm: MPI.Comm, prepared: MPI.Comm, name: str) -> None:
        self._group, self._comm, self._prepared, self._name = group, comm, prepared, name

    def steps(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Iterator[None]:
        """Make a call, one look after the other. Raises DistributedError."""
        return self._group.steps_on(self._comm, call, given, result, self._name)

    def take_part(self, call: Call, given: np.ndarray | None, result: np.ndarray | None) -> None:
        """Make a call; returns when `result` is there. Raises DistributedError."""
        self._group.take_part_on(self._comm, call, given, result, self._name)

    def repeated(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Callable[[], None]:
        """What makes this call with these arrays, each time. Raises DistributedError."""
        group, comm, name = self._group, self._prepared, self._name
        request = group.prepared(comm, call, given, result)
        if request is None:
            return lambda: finished(group.steps_on(comm, call, given, result, name))
        start = request.Start
        whereabouts, what = group.whereabouts, group.described(call, given, name)
        here = (group, what, call.where)

        def make() -> None:  # as `steps_on`, with as few calls of functions as can be
            if group.failed:
                group.refuse()
            group.calls += 1
            whereabouts.prepared = here
            try:
                start()
                if not is_over_soon(request):
                    finished(group.until(request, Place(group.name, group.calls, what, call.where)))
            except BaseException as error:
                place = Place(group.name, group.calls, what, call.where)
                group.note_failure(place, error, (given, result))
                raise
            finally:
                whereabouts.prepared = None

        return make


class Compared:
    """A channel on the group's own communicator, whose calls are compared one by one."""

    def __init__(self, group: Group, check: str) -> None:
        self._group, self._check = group, check

    def steps(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Iterator[None]:
        """Make a call, one look after the other. Raises DistributedError."""
        return self._group.steps(replace(call, check=self._check), given, result)

    def take_part(self, call: Call, given: np.ndarray | None, result: np.ndarray | None) -> None:
        """Make a call; returns when `result` is there. Raises DistributedError."""
        self._group.take_part(replace(call, check=self._check), given, result)

    def repeated(self, call: Call, given: np.ndarray | None, result: np.ndarray | None) -> None:
        """Nothing: compared calls are all in one order."""
