"""Calls of replays through MPI: prepared once, and met by each other alone.

Comparing what processes call takes as long as a small call. A replay makes the same calls each
time, so its processes compare all of them once, and then have a communicator of MPI's of their own.
Who makes another call meets nobody there. Those who wait for it ask where it is, as in any call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from .communicator import Call, finished

if TYPE_CHECKING:
    import numpy as np
    from mpi4py import MPI

    from .mpi import MPICommunicator

__all__ = ["Compared", "MPIChannel"]

_LOOKS = 1000  # at a call that is prepared, before anything else is thought of


class MPIChannel:
    """A channel with a communicator of MPI's; `name` is what errors call it."""

    def __init__(self, group: MPICommunicator, comm: MPI.Comm, name: str) -> None:
        self._group, self._comm, self._name = group, comm, name

    def steps(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Iterator[None]:
        """Make a call, one look after the other. Raises DistributedError."""
        group, what = self._group, self._described(call, given)
        group.enter(what, call.where)
        try:
            yield from group.made(self._comm, call, given, result)
        except BaseException as error:
            group.note_failure(what, error, (given, result))
            raise
        finally:
            group.leave()

    def repeated(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Callable[[], None]:
        """What makes this call with these arrays, each time. Raises DistributedError."""
        group, what, where = self._group, self._described(call, given), call.where
        request = group.prepared(self._comm, call, given, result)
        if request is None:
            return lambda: finished(self.steps(call, given, result))
        start, test, looks = request.Start, request.Test, range(_LOOKS)
        whereabouts = group.whereabouts
        here, at_work = (group, what, where), (group, "", "")

        def make() -> None:  # as `steps`, with as few calls of functions as can be
            if group.failed:
                group.refuse()
            group.calls += 1
            whereabouts.here = here
            try:
                start()
                for _ in looks:
                    if test():
                        break
                else:
                    finished(group.until(request))
            except BaseException as error:
                group.note_failure(what, error, (given, result))
                raise
            finally:
                whereabouts.here = at_work

        return make

    def _described(self, call: Call, given: np.ndarray | None) -> str:
        what = call.described("" if given is None else f"{given.dtype} {given.shape}")
        return f"{what} in {self._name}"


class Compared:
    """A channel on the group's own communicator, whose calls are compared one by one."""

    def __init__(self, group: MPICommunicator, check: str) -> None:
        self._group, self._check = group, check

    def steps(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Iterator[None]:
        """Make a call, one look after the other. Raises DistributedError."""
        return self._group.steps(replace(call, check=self._check), given, result)

    def repeated(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Callable[[], None]:
        """What makes this call with these arrays, each time."""
        return lambda: finished(self.steps(call, given, result))
