"""What connects the processes of a group: an engine, such as MPI, behind one method.

    communicator.take_part(Call("all_reduce", Op.ADD), given, result)

All processes of the group make the same calls in the same order. `given` and `result` are arrays in
memory of this process, which the call reads and writes in place.

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

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..ir.op import Op

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ENDS_THE_JOB", "Alone", "Call", "Communicator"]

ENDS_THE_JOB = "failed and ends the job"  # what a process says of itself before it does


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
        if self.told:
            return self.told
        words = [self.kind]
        if self.op is not None:
            words.append(self.op.name.lower())
        if given:
            words.append(f"of {given}")
        if self.kind in ("reduce", "broadcast", "send", "receive"):
            words.append(f"with process {self.peer}")
        return " ".join(words)


class Communicator(Protocol):
    """The processes of a group, of which this one has number `rank` of `size`."""

    name: str
    rank: int
    size: int

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
    """A group of this process: what it gives is what it gets."""

    name, rank, size = "world", 0, 1

    def take_part(self, call: Call, given: np.ndarray | None, result: np.ndarray | None) -> None:
        """Copy."""
        if given is not None and result is not None:
            result[...] = given.reshape(result.shape)

    def split(self, color: int, key: int) -> Alone:
        """The same."""
        return self

    def abort(self, status: int) -> None:
        """End this process at once."""
        os._exit(status)
