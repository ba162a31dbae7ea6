"""The processes of an MPI job, through mpi4py.

    communicator = open_mpi()          all processes that the launcher started
    communicator.take_part(Call("all_reduce", Op.ADD), given, result)

A wait can be interrupted, and it does not last for ever. Calls are MPI's nonblocking ones, and this
process looks at them. Who has waited for PATIENCE seconds asks the others where they are: a thread
of each process answers (`Whereabouts`). So who hangs, who has ended, and who makes another call is
named.
"""

from __future__ import annotations

import faulthandler
import hashlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..config import settings
from ..errors import DistributedError
from ..ir.op import Op
from .communicator import ENDS_THE_JOB, Call
from .whereabouts import ENDED, Place, Whereabouts

if TYPE_CHECKING:
    import numpy as np
    from mpi4py import MPI

__all__ = ["MPICommunicator", "open_mpi"]

SPIN = 0.002  # seconds of looking without a pause
PAUSE, LONGEST_PAUSE = 20e-6, 1e-3  # seconds between two looks after that
PATIENCE = 2.0  # seconds until the others are asked
_OF_TWO = frozenset(("send", "receive"))
_CAN_SHRINK = "OMPI_MCA_mpi_ft_enable"  # what Open MPI's launcher says to its processes
_ALONE = 5.0  # seconds that the launcher has to end a process that aborts
_TEXT = 512  # bytes of a call's description that processes tell each other


def open_mpi() -> MPICommunicator:
    """All processes of this job. Raises DistributedError where mpi4py or its library is missing."""
    try:
        import mpi4py

        if os.environ.get(_CAN_SHRINK) == "1":
            mpi4py.rc.finalize = False  # `close` does that, if all are there
        from mpi4py import MPI
    except ImportError as error:  # mpi4py says what it looked for
        raise DistributedError(
            f'[distributed] there is no MPI ({error}): pip install "treadle[mpi]"'
        ) from error
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise DistributedError(
            "[distributed] this MPI serves one thread alone, and treadle needs MPI_THREAD_MULTIPLE"
        )
    world = MPI.COMM_WORLD.Dup()
    return MPICommunicator(world, Whereabouts(world.Dup()), "world")


class MPICommunicator:
    """The processes of one of MPI's communicators."""

    def __init__(self, comm: MPI.Comm, whereabouts: Whereabouts, name: str) -> None:
        from mpi4py import MPI

        self._mpi, self._comm, self._whereabouts = MPI, comm, whereabouts
        self._comm.Set_errhandler(MPI.ERRORS_RETURN)
        self._checks = comm.Dup()
        self._checks.Set_errhandler(MPI.ERRORS_RETURN)
        self._ops = {Op.ADD: MPI.SUM, Op.MUL: MPI.PROD, Op.MAX: MPI.MAX, Op.MIN: MPI.MIN}
        self._calls = 0
        self._failed = ""
        self._is_smaller = False  # than the job once was
        self._held: object = None  # what MPI may still write to after a failure
        # The numbers of this group's processes among those of the job.
        self._numbers = whereabouts.numbers_of(comm)
        self.name, self.rank, self.size = name, comm.rank, comm.size

    def take_part(self, call: Call, given: np.ndarray | None, result: np.ndarray | None) -> None:
        """Make a call; returns when `result` is there. Raises DistributedError."""
        if self._failed:
            raise DistributedError(f"[distributed] this group has failed before: {self._failed}")
        self._calls += 1
        what = call.described("" if given is None else f"{given.dtype} {given.shape}")
        text = f"{what} at {call.where}" if call.where else what
        self._whereabouts.enter(Place(self.name, self._calls, what, call.where))
        try:
            if call.check is not None and call.kind not in _OF_TWO:
                self._compare(call.check or what, text)
            self._make(call, given, result)
        except DistributedError as error:
            self._failed, self._held = str(error), (given, result)
            raise
        except self._mpi.Exception as error:
            self._failed, self._held = f"{text}: {self._reason(error)}", (given, result)
            raise DistributedError(f"[distributed] MPI failed in {self._failed}") from error
        finally:
            self._whereabouts.leave()

    def split(self, color: int, key: int) -> MPICommunicator:
        """A communicator of those that give the same color. Raises DistributedError."""
        self.take_part(Call("barrier", where="split"), None, None)
        comm = self._comm.Split(color, key)
        return MPICommunicator(comm, self._whereabouts, f"{self.name}/{color}")

    def shrink(self) -> MPICommunicator:
        """The processes that are still there, in their order; all of them call it.

        Calls of this communicator are over on all of them, also those that are waited in. Raises
        DistributedError where MPI cannot go on without a process.
        """
        try:
            for comm in (self._comm, self._checks):
                comm.Revoke()
            comm, others = self._comm.Shrink(), self._whereabouts.shrink()
        except (self._mpi.Exception, NotImplementedError) as error:
            raise DistributedError(
                "[distributed] this MPI cannot go on without a process: it takes Open MPI, and "
                f"`treadle run --shrink` ({error})"
            ) from error
        self._failed = self._failed or "a smaller one goes on"
        smaller = MPICommunicator(comm, others, self.name)
        smaller._is_smaller = True
        return smaller

    def _reason(self, error: MPI.Exception) -> str:
        """Who is gone, where MPI tells."""
        kinds = (self._mpi.ERR_PROC_FAILED, self._mpi.ERR_PROC_FAILED_PENDING)
        if error.Get_error_class() == self._mpi.ERR_REVOKED:
            return "others go on without a process that is gone (distributed.shrink)"
        if error.Get_error_class() not in kinds:
            return str(error)
        group, lost = self._comm.Get_group(), self._comm.Get_failed()
        ranks = self._mpi.Group.Translate_ranks(lost, list(range(lost.size)), group)
        return f"{_named(sorted(ranks))} died"

    def abort(self, status: int) -> None:
        """End all processes of the job.

        MPI waits for its launcher, which may be out of reach: then this process ends alone. Only a
        thread that needs no Python sees to that, since MPI keeps the interpreter's lock.
        """
        print(f"process {self.rank} {ENDS_THE_JOB}", file=sys.stderr)
        sys.stderr.flush()
        sys.stdout.flush()
        self._silent = open(os.devnull, "wb")  # noqa: SIM115  (until the process ends)
        faulthandler.dump_traceback_later(_ALONE, exit=True, file=self._silent)
        self._comm.Abort(status)

    def close(self) -> None:
        """Wait until all processes have ended their programs, so that each can ask the others.

        A group that has failed ends the job.
        """
        if self._failed:
            self.abort(1)
        self._wait(self._whereabouts.end(), may_end=True)
        self._whereabouts.close()
        import mpi4py

        # Open MPI may wait there for ever for one that died.
        if mpi4py.rc.finalize is False and not self._is_smaller:
            self._mpi.Finalize()

    # -- one call ---------------------------------------------------------------------------------

    def _compare(self, check: str, text: str) -> None:
        """Raises DistributedError where not all processes make this call."""
        import numpy as np

        digest = int.from_bytes(hashlib.blake2b(check.encode(), digest_size=8).digest())
        mine = np.array([digest, ~digest & (1 << 64) - 1], np.uint64)
        largest = np.empty_like(mine)
        self._wait(self._checks.Iallreduce(mine, largest, self._mpi.MAX))
        if int(largest[0]) == ~int(largest[1]) & (1 << 64) - 1:
            return
        told = np.zeros(_TEXT, np.uint8)
        encoded = text.encode()[:_TEXT]
        told[: len(encoded)] = np.frombuffer(encoded, np.uint8)
        all_told = np.empty((self.size, _TEXT), np.uint8)
        self._wait(self._checks.Iallgather(told, all_told))
        lines = [bytes(row).rstrip(b"\0").decode(errors="replace") for row in all_told]
        raise DistributedError(_differences(dict(enumerate(lines))))

    def _make(self, call: Call, given: np.ndarray | None, result: np.ndarray | None) -> None:
        if call.kind == "barrier":
            self._wait(self._comm.Ibarrier())
            return
        assert result is not None
        if call.kind == "broadcast":
            assert given is not None
            if self.rank == call.peer:
                result[...] = given
            given = result
        if call.kind == "reduce" and self.rank != call.peer:
            result[...] = 0
        if (given if given is not None else result).size == 0:  # on all processes alike
            return
        self._wait(_STARTS[call.kind](self, call, given, result))

    def start_reduction(self, method: str, call: Call, *arrays: np.ndarray | None) -> MPI.Request:
        """MPI's `method` on arrays that it knows the type of."""
        assert call.op is not None
        return getattr(self._comm, method)(*arrays, op=self._ops[call.op])

    def start_reduce(self, call: Call, given: np.ndarray, result: np.ndarray) -> MPI.Request:
        """The combination at one process."""
        assert call.op is not None
        target = result if self.rank == call.peer else None
        return self._comm.Ireduce(given, target, op=self._ops[call.op], root=call.peer)

    def start_move(self, method: str, *arrays: np.ndarray | None, **options: int) -> MPI.Request:
        """MPI's `method` on the bytes of arrays, whatever they hold."""
        moved = [None if a is None else a.reshape(-1).view("uint8") for a in arrays]
        return getattr(self._comm, method)(*moved, **options)

    def _wait(self, request: MPI.Request, may_end: bool = False) -> None:
        start = time.monotonic()
        pause, asked = PAUSE, start + PATIENCE
        while not request.Test():
            now = time.monotonic()
            if now - start < SPIN:
                continue
            if now > asked:
                places = self._ask()
                if request.Test():  # or it raises, where MPI has found out who is gone
                    return
                self._judge(places, now - start, may_end)
                asked = time.monotonic() + PATIENCE
            time.sleep(pause)
            pause = min(pause * 1.2, LONGEST_PAUSE)

    def _ask(self) -> dict[int, Place]:
        """Where the other processes are, by their numbers in this group."""
        others = {n: rank for rank, n in enumerate(self._numbers) if rank != self.rank}
        answers = self._whereabouts.ask(list(others))
        return {others[number]: place for number, place in answers.items()}

    def _judge(self, places: Mapping[int, Place], waited: float, may_end: bool) -> None:
        """Raises DistributedError where the others will never make the call this one waits in."""
        mine = self._whereabouts.place
        silent = sorted({*range(self.size)} - {self.rank, *places})
        if silent:
            raise DistributedError(
                f"[distributed] {_named(silent)} did not answer: stopped, or gone; process "
                f"{self.rank} waits in {mine.text}"
            )
        if may_end:  # all the others are at work, or waiting for each other
            return
        for rank, place in places.items():
            if place.what == ENDED:
                raise DistributedError(
                    f"[distributed] process {rank} has ended its program, and process {self.rank} "
                    f"waits for it in {mine.text}"
                )
            same_call = (place.group, place.call) == (mine.group, mine.call)
            if same_call and place.what and place.what != mine.what and mine.kind not in _OF_TWO:
                raise DistributedError(_differences({self.rank: mine.text, rank: place.text}))
        if waited > settings.DISTRIBUTED_TIMEOUT:
            late = [rank for rank, place in places.items() if place.call < mine.call]
            raise DistributedError(
                f"[distributed] {_named(late or list(places))} did not come to "
                f"{mine.text} within DISTRIBUTED_TIMEOUT={settings.DISTRIBUTED_TIMEOUT} seconds"
            )


_STARTS: dict[str, Callable[..., MPI.Request]] = {
    "all_reduce": lambda at, call, *arrays: at.start_reduction("Iallreduce", call, *arrays),
    "reduce": MPICommunicator.start_reduce,
    "reduce_scatter": lambda at, call, *arrays: at.start_reduction(
        "Ireduce_scatter_block", call, *arrays
    ),
    "broadcast": lambda at, call, _, result: at.start_move("Ibcast", result, root=call.peer),
    "all_gather": lambda at, call, *arrays: at.start_move("Iallgather", *arrays),
    "all_to_all": lambda at, call, *arrays: at.start_move("Ialltoall", *arrays),
    "send": lambda at, call, given, _: at.start_move("Isend", given, dest=call.peer),
    "receive": lambda at, call, _, result: at.start_move("Irecv", result, source=call.peer),
}


def _differences(texts: Mapping[int, str]) -> str:
    """Who makes which call; many that make the same one are named once."""
    ranks: dict[str, list[int]] = {}
    for rank, text in sorted(texts.items()):
        ranks.setdefault(text, []).append(rank)
    told = [f"{_named(found)}: {text}" for text, found in ranks.items()]
    return "[distributed] processes make different calls\n  " + "\n  ".join(told)


def _named(ranks: Sequence[int]) -> str:
    return ("process " if len(ranks) == 1 else "processes ") + ", ".join(map(str, ranks))
