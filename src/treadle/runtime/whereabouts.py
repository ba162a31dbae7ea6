"""Where each process of an MPI job is: in which calls of which groups, at work, or at its end.

    whereabouts.enter(place := Place("world", 12, "all_reduce add of float32 (4,)", "train.py:7"))
    whereabouts.ask([1, 2])     ->  {1: [Place(...)]}       process 2 does not answer
    whereabouts.leave(place)

A thread of each process answers. It looks for questions now and then, and takes part in no call.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["ENDED", "Place", "Whereabouts"]

ENDED = "ended"
_ASK, _ANSWER = 1, 2  # tags
_LOOK = 0.1  # seconds between two looks for questions
_ANSWER_TIME = 5.0  # seconds that an answer may take


class Place(NamedTuple):
    """Call number `call` of a group, which is `what` at the user's line `where`; "" is at work.

    Calls are numbered as the program has them, which is the same order in all processes.
    """

    group: str = ""
    call: int = 0
    what: str = ""
    where: str = ""

    @property
    def text(self) -> str:
        """The call with its line."""
        return f"{self.what} at {self.where}" if self.where else self.what

    @property
    def kind(self) -> str:
        """The first word of `what`."""
        return self.what.partition(" ")[0]


class Numbered(Protocol):
    """A group, and how many calls it has had."""

    name: str
    calls: int


class Whereabouts:
    """Tells the other processes where this one is, and asks where they are."""

    def __init__(self, comm: MPI.Comm) -> None:
        self.open: set[Place] = set()  # the calls that this process is in
        # The last call of a group, which is prepared and begun on the thread that has made it.
        self.prepared: tuple[Numbered, str, str] | None = None
        self.last = ("", 0)  # the group, and the number, of the call that began last
        self._has_ended = False
        self._comm = comm
        self._comm.Set_errhandler(_returned())
        self._lock = threading.Lock()  # one thread at a time receives
        self._answers: dict[int, list[Place]] = {}
        self._sent: list[MPI.Request] = []  # MPI may still read what they send
        self._is_open = True
        self._thread = threading.Thread(target=self._serve, name="treadle whereabouts", daemon=True)
        self._thread.start()

    def numbers_of(self, comm: MPI.Comm) -> list[int]:
        """The numbers that the processes of a communicator have here."""
        from mpi4py import MPI

        ranks = list(range(comm.size))
        return MPI.Group.Translate_ranks(comm.Get_group(), ranks, self._comm.Get_group())

    def shrink(self) -> Whereabouts:
        """Those of the processes that are still there. These here answer no more."""
        self.close()
        return Whereabouts(self._comm.Shrink())

    def enter(self, place: Place) -> None:
        """From now on this process is in that call, too."""
        self.open.add(place)
        self.last = place.group, place.call

    def leave(self, place: Place) -> None:
        """The call is over."""
        self.open.discard(place)

    def end(self) -> MPI.Request:
        """From now on it makes no more calls; the request is over when none of them does."""
        self._has_ended = True
        return self._comm.Ibarrier()

    @property
    def places(self) -> list[Place]:
        """Where this process is: at least one place."""
        if self._has_ended:
            return [Place(what=ENDED)]
        found = [*self.open.copy()]
        if (prepared := self.prepared) is not None:
            group, what, where = prepared
            found.append(Place(group.name, group.calls, what, where))
        return found or [Place(*self.last)]

    def close(self) -> None:
        """Answer no more."""
        self._is_open = False
        self._thread.join()

    def ask(self, numbers: Sequence[int]) -> dict[int, list[Place]]:
        """Where the processes of these numbers are; those that do not answer are left out."""
        self._answers = {}
        for number in numbers:
            self._send(bytearray(), number, _ASK)
        deadline = time.monotonic() + _ANSWER_TIME
        while len(self._answers) < len(numbers) and time.monotonic() < deadline:
            self._receive()
            time.sleep(0.005)
        return self._answers

    def _send(self, data: bytearray, number: int, tag: int) -> None:
        from mpi4py import MPI

        with contextlib.suppress(MPI.Exception):  # of one that is gone; nobody waits for it
            self._sent = [request for request in self._sent if not _is_over(request)]
            self._sent.append(self._comm.Isend(data, number, tag))

    def _serve(self) -> None:
        while self._is_open:
            self._receive()
            time.sleep(_LOOK)

    def _receive(self) -> None:
        """Answer what was asked, and note what was answered."""
        from mpi4py import MPI

        with self._lock, contextlib.suppress(MPI.Exception):  # one of them is gone
            status = MPI.Status()
            while self._comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
                data = bytearray(status.Get_count(MPI.BYTE))
                self._comm.Recv(data, status.source, status.tag)
                if status.tag == _ASK:
                    told = bytearray(json.dumps(self.places).encode())
                    self._send(told, status.source, _ANSWER)
                else:
                    self._answers[status.source] = [Place(*row) for row in json.loads(data)]


def _returned() -> MPI.Errhandler:
    """Errors are raised, and end nothing by themselves."""
    from mpi4py import MPI

    return MPI.ERRORS_RETURN


def _is_over(request: MPI.Request) -> bool:
    """Whether it was sent, or never will be."""
    from mpi4py import MPI

    try:
        return request.Test()
    except MPI.Exception:
        return True
