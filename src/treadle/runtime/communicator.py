"""What connects the processes of a group: an engine, such as MPI, behind one method.

    communicator.take_part(Call("all_reduce", Op.ADD), given, result)

All processes of the group make the same calls in the same order. `given` and `result` are arrays in
memory of this process, which the call reads and writes in place.

    finished(communicator.steps(call, given, result))       the same, one look after the other
    channel = communicator.channel("a replay of ...")       for calls that are made again and again

    kind            given       result      what the result is
    all_reduce      s           s           the combination, by `op`, of what all give
    reduce          s           s           the same at process `peer`, zeros elsewhere
    broadcast       s           s           what process `peer` gives
    all_gather      s           (n, *s)     what each gives
    reduce_scatter  (n, *s)     s           the combination of what all give to this process
    all_to_all      (n, *s)     (n, *s)     what each gives to this process
    send            s           (0,)        nothing; process `peer` has it
    receive         nothing     s           what process `peer` sends
    barrier         nothing     nothing     nothing, when all are here
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..ir.op import Op

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ENDS_THE_JOB", "Alone", "Call", "Channel", "Communicator", "Pace", "finished"]

ENDS_THE_JOB = "failed and ends the job"  # what a process says of itself before it does
_SPIN, _SOON = 0.002, 1.0  # seconds of looking without a pause, and of giving way to others alone
_PAUSE, _LONGEST_PAUSE = 20e-6, 1e-3  # seconds between two looks after that


@dataclass(frozen=True)
class Call:
    """One call, as the table above has it. `where` is the user's line that makes it.

    `check` is what all processes have to say alike before it; "" is what the call itself is. None:
    nothing is asked, since an earlier call did. `told` is what errors call it, if it is a part of
    another call.
    """

    kind: str
    op: Op | None = None
    peer: int = 0
    where: str = ""
    check: str | None = ""
    told: str = ""

    def described(self, given: str = "") -> str:
        """What all processes of a group have to say alike; `given` is a dtype and a shape."""
        return self.told or _described(self.kind, self.op, self.peer, given)


@functools.lru_cache(1024)
def _described(kind: str, op: Op | None, peer: int, given: str) -> str:
    words = [kind]
    if op is not None:
        words.append(op.name.lower())
    if given:
        words.append(f"of {given}")
    if kind in ("reduce", "broadcast", "send", "receive"):
        words.append(f"with process {peer}")
    return " ".join(words)


class Pace:
    """How often somebody who waits looks: at first without a pause, later now and then.

    A call gets on when somebody looks: a large one by some ten thousand bytes each time.
    """

    def __init__(self) -> None:
        self._start, self._pause = time.monotonic(), _PAUSE

    def rest(self) -> None:
        """Until it is time to look again."""
        waited = time.monotonic() - self._start
        if waited > _SOON:
            time.sleep(self._pause)
            self._pause = min(self._pause * 1.2, _LONGEST_PAUSE)
        elif waited > _SPIN:
            os.sched_yield()


def finished(steps: Iterator[None]) -> None:
    """Take the steps of a call, one look after the other, until it is over."""
    pace = Pace()
    for _ in steps:
        pace.rest()


class Channel(Protocol):
    """Where the calls of a replay meet, and no others: they need not be compared.

    Who makes another call meets nobody, and those who wait for it find that out by themselves.
    Calls that are made by `steps` are in one order in all processes, and so are those of what
    `repeated` returns. Between the two there is none: one may go on while another is made.
    """

    def steps(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Iterator[None]:
        """Make a call, as Communicator.steps does. Raises DistributedError."""
        ...

    def take_part(self, call: Call, given: np.ndarray | None, result: np.ndarray | None) -> None:
        """Make a call of those by `steps`; returns when `result` is there."""
        ...

    def repeated(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Callable[[], None] | None:
        """What makes this call with these arrays, each time, and returns when it is over.

        All processes prepare the same calls in one order. None: only `steps` makes calls here.
        Raises DistributedError.
        """
        ...


class Communicator(Protocol):
    """The processes of a group, of which this one has number `rank` of `size`."""

    name: str
    rank: int
    size: int

    def steps(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Iterator[None]:
        """Make a call, in steps that wait for nothing: `result` is there when there are no more.

        The first one begins it. Raises DistributedError.
        """
        ...

    def channel(self, check: str, where: str) -> Channel:
        """A channel for calls that all processes will make alike: each says `check`.

        All processes call it; `where` is the user's line. Raises DistributedError.
        """
        ...

    def take_part(self, call: Call, given: np.ndarray | None, result: np.ndarray | None) -> None:
        """Make a call; returns when `result` is there. Raises DistributedError."""
        ...

    def split(self, color: int, key: int) -> Communicator:
        """A communicator of those processes that give the same color, ordered by their keys.

        All processes of this one call it. Raises DistributedError.
        """
        ...

    def abort(self, status: int) -> None:
        """End all processes of the job."""
        ...


class Alone:
    """A group of this process, and its channel: what it gives is what it gets."""

    name, rank, size = "world", 0, 1

    def take_part(self, call: Call, given: np.ndarray | None, result: np.ndarray | None) -> None:
        """Copy."""
        if given is not None and result is not None:
            result[...] = given.reshape(result.shape)

    def steps(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Iterator[None]:
        """Copy, at once."""
        self.take_part(call, given, result)
        yield from ()

    def repeated(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Callable[[], None]:
        """What copies."""
        return functools.partial(self.take_part, call, given, result)

    def channel(self, check: str, where: str) -> Alone:
        """The same."""
        return self

    def split(self, color: int, key: int) -> Alone:
        """The same."""
        return self

    def abort(self, status: int) -> None:
        """End this process at once."""
        os._exit(status)
