"""Calls of replays through MPI: prepared once, and met by each other alone.

Comparing what processes call takes as long as a small call. A replay makes the same calls each
time, so its processes compare all of them once, and then have a communicator of MPI's of their own.
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

__all__ = ["Compared", "MPIChannel"]

_LOOKS = 1000  # at a call that is prepared, before anything else is thought of


class Group(Protocol):
    """What a channel asks of the group that it is of: an MPICommunicator."""

    name: str
    calls: int
    failed: str
    whereabouts: Whereabouts

    def place_of(self, call: Call, given: np.ndarray | None, channel: str = "") -> Place: ...

    def enter(self, place: Place) -> None: ...

    def refuse(self) -> None: ...

    def note_failure(self, place: Place, error: BaseException, held: object) -> None: ...

    def steps(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Iterator[None]: ...

    def made(
        self,
        comm: MPI.Comm,
        place: Place,
        call: Call,
        given: np.ndarray | None,
        result: np.ndarray | None,
    ) -> Iterator[None]: ...

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
        return self._steps(self._comm, call, given, result)

    def _steps(
        self, comm: MPI.Comm, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Iterator[None]:
        return self._made(comm, self._group.place_of(call, given, self._name), call, given, result)

    def _made(
        self,
        comm: MPI.Comm,
        place: Place,
        call: Call,
        given: np.ndarray | None,
        result: np.ndarray | None,
    ) -> Iterator[None]:
        group = self._group
        group.enter(place)
        try:
            yield from group.made(comm, place, call, given, result)
        except BaseException as error:
            group.note_failure(place, error, (given, result))
            raise
        finally:
            group.whereabouts.leave(place)

    def repeated(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Callable[[], None]:
        """What makes this call with these arrays, each time. Raises DistributedError."""
        group = self._group
        request = group.prepared(self._prepared, call, given, result)
        if request is None:
            return lambda: finished(self._steps(self._prepared, call, given, result))
        start, test, looks = request.Start, request.Test, range(_LOOKS)
        whereabouts, what = group.whereabouts, self._described(call, given)
        here = (group, what, call.where)

        def make() -> None:  # as `_made`, with as few calls of functions as can be
            if group.failed:
                group.refuse()
            group.calls += 1
            whereabouts.prepared = here
            try:
                start()
                for _ in looks:
                    if test():
                        break
                else:
                    finished(group.until(request, Place(group.name, group.calls, what, call.where)))
            except BaseException as error:
                place = Place(group.name, group.calls, what, call.where)
                group.note_failure(place, error, (given, result))
                raise
            finally:
                whereabouts.prepared = None

        return make

    def _described(self, call: Call, given: np.ndarray | None) -> str:
        what = call.described("" if given is None else f"{given.dtype} {given.shape}")
        return f"{what} in {self._name}"


class Compared:
    """A channel on the group's own communicator, whose calls are compared one by one."""

    def __init__(self, group: Group, check: str) -> None:
        self._group, self._check = group, check

    def steps(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Iterator[None]:
        """Make a call, one look after the other. Raises DistributedError."""
        return self._group.steps(replace(call, check=self._check), given, result)

    def repeated(self, call: Call, given: np.ndarray | None, result: np.ndarray | None) -> None:
        """Nothing: compared calls are all in one order."""
