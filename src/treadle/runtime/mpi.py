"""The processes of an MPI job, through mpi4py.

    communicator = open_mpi()          all processes that the launcher started
    communicator.take_part(Call("all_reduce", Op.ADD), given, result)
    communicator.channel("a replay of ...", "train.py:7")               for replays

A wait can be interrupted, and it does not last for ever. Calls are MPI's nonblocking ones, and this
process looks at them. Who has waited for PATIENCE seconds asks the others where they are: a thread
of each process answers (`Whereabouts`). So who hangs, who has ended, and who makes another call is
named.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import hashlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, cast

from ..config import settings
from ..errors import DistributedError
from ..ir.op import Op
from .communicator import ENDS_THE_JOB, Call, Channel, finished
from .mpi_channel import Compared, MPIChannel, is_over_soon
from .whereabouts import ENDED, Place, Whereabouts

if TYPE_CHECKING:
    import numpy as np
    from mpi4py import MPI

__all__ = ["MPICommunicator", "open_mpi"]

PATIENCE = 2.0  # seconds until the others are asked
_OF_TWO = frozenset(("send", "receive"))
_CAN_SHRINK = "OMPI_MCA_mpi_ft_enable"  # what Open MPI's launcher says to its processes
_ALONE = 5.0  # seconds that the launcher has to end a process that aborts
_CHANNELS = 64  # that a group has at most, as MPI has some thousands for all
_PIECE = 1 << 20  # bytes for each process of what one call combines at most
_LOOKS = range(64)  # in a step: the rest of one takes longer than a look
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
        import numpy as np
        from mpi4py import MPI

        self._mpi, self._comm, self.whereabouts = MPI, comm, whereabouts
        self._comm.Set_errhandler(MPI.ERRORS_RETURN)
        self._checks = comm.Dup()
        self._checks.Set_errhandler(MPI.ERRORS_RETURN)
        self._mine, self._largest = np.zeros(2, np.uint64), np.zeros(2, np.uint64)
        self._told: _Digest | None = None  # what `_mine` has
        self._comparison: MPI.Prequest | None = None
        with contextlib.suppress(NotImplementedError):  # an MPI before version 4
            self._comparison = self._checks.Allreduce_init(self._mine, self._largest, MPI.MAX)
        self._ops = {Op.ADD: MPI.SUM, Op.MUL: MPI.PROD, Op.MAX: MPI.MAX, Op.MIN: MPI.MIN}
        self.failed = ""
        self._is_smaller = False  # than the job once was
        self._held: object = None  # what MPI may still write to after a failure
        self._channels: list[tuple[MPI.Comm, MPI.Comm]] = []
        # The numbers of this group's processes among those of the job.
        self._numbers = whereabouts.numbers_of(comm)
        self.calls = 0
        self.name, self.rank, self.size = name, comm.rank, comm.size

    def take_part(self, call: Call, given: np.ndarray | None, result: np.ndarray | None) -> None:
        """Make a call; returns when `result` is there. Raises DistributedError.

        With as few calls of functions as can be: some hundred take longer than a small one.
        """
        self.take_part_on(self._comm, call, given, result)

    def take_part_on(
        self,
        comm: MPI.Comm,
        call: Call,
        given: np.ndarray | None,
        result: np.ndarray | None,
        channel: str = "",
    ) -> None:
        """The same on one of MPI's communicators, that of `channel` if it is not the group's own.

        The call has its number among those of the program from now on.
        """
        is_small = given is not None and 0 < given.nbytes <= _PIECE
        if not is_small or call.kind not in _PREPARED:
            finished(self.steps_on(comm, call, given, result, channel))
            return
        if self.failed:
            self.refuse()
        self.calls += 1
        what = self.described(call, given, channel)
        there = self.whereabouts
        there.last, there.prepared = (self.name, self.calls), (self, what, call.where)
        try:
            if call.check is not None:
                self._compare(call, what)
            request = _STARTS[call.kind](self, comm, call, given, result)
            if not is_over_soon(request):
                finished(self.until(request, self._place(call, what)))
        except BaseException as error:
            self.note_failure(self._place(call, what), error, (given, result))
            raise
        finally:
            there.prepared = None

    def _place(self, call: Call, what: str) -> Place:
        """The last call."""
        return Place(self.name, self.calls, what, call.where)

    def _compare(self, call: Call, what: str) -> None:
        """`_compared` for the last call, most often with the first looks."""
        digest = _digest(call.check or what)
        request = self._begin_comparison(digest)
        if not is_over_soon(request):
            finished(self.until(request, self._place(call, what)))
        if self._largest.tobytes() != digest.text:
            finished(self._tell_differences(self._place(call, what)))

    def steps(
        self, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> Iterator[None]:
        """Make a call, one look after the other. Raises DistributedError."""
        return self.steps_on(self._comm, call, given, result)

    def steps_on(
        self,
        comm: MPI.Comm,
        call: Call,
        given: np.ndarray | None,
        result: np.ndarray | None,
        channel: str = "",
    ) -> Iterator[None]:
        """The same on one of MPI's communicators, as `take_part_on` has them."""
        self.calls += 1
        what = self.described(call, given, channel)
        place = Place(self.name, self.calls, what, call.where)
        return self._inside(place, self._made(comm, place, call, given, result), (given, result))

    def described(self, call: Call, given: np.ndarray | None, channel: str = "") -> str:
        """What all processes have to say alike of a call."""
        what = call.described("" if given is None else _array_text(given.dtype, given.shape))
        return f"{what} in {channel}" if channel else what

    def _inside(self, place: Place, steps: Iterator[None], held: object) -> Iterator[None]:
        """Take steps while this process is in a call. Raises DistributedError."""
        if self.failed:
            self.refuse()
        self.whereabouts.enter(place)
        try:
            yield from steps
        except BaseException as error:
            self.note_failure(place, error, held)
            raise
        finally:
            self.whereabouts.leave(place)

    def channel(self, check: str, where: str) -> Channel:
        """Communicators of MPI's that nothing but the calls of one replay meets on.

        After _CHANNELS of them, calls are compared. Raises DistributedError.
        """
        self.take_part(Call("barrier", where=where, check=check, told=check), None, None)
        if len(self._channels) == _CHANNELS:
            return Compared(self, check)
        self.calls += 1
        place = Place(self.name, self.calls, check, where)
        finished(self._inside(place, self._with_more_channels(place), None))
        return MPIChannel(self, *self._channels[-1], f"replay {len(self._channels)}")

    def _with_more_channels(self, place: Place) -> Iterator[None]:
        comm, request = self._comm.Idup()
        yield from self.until(request, place)
        prepared, request = self._comm.Idup()
        yield from self.until(request, place)
        self._channels.append((comm, prepared))

    def refuse(self) -> None:
        """Raises DistributedError, which says what has failed before."""
        raise DistributedError(f"[distributed] this group has failed before: {self.failed}")

    def note_failure(self, place: Place, error: BaseException, held: object) -> None:
        """From now on the group has failed, by an error in that call.

        MPI may still write to what is `held`. Raises DistributedError for MPI's own errors.
        """
        self._held = held
        if isinstance(error, DistributedError):
            self.failed = str(error)
        elif isinstance(error, self._mpi.Exception):
            self.failed = f"{place.text}: {self._reason(cast('MPI.Exception', error))}"
            raise DistributedError(f"[distributed] MPI failed in {self.failed}") from error
        else:
            self.failed = f"{place.text} was interrupted ({type(error).__name__})"

    def split(self, color: int, key: int) -> MPICommunicator:
        """A communicator of those that give the same color. Raises DistributedError."""
        self.take_part(Call("barrier", where="split"), None, None)
        comm = self._comm.Split(color, key)
        return MPICommunicator(comm, self.whereabouts, f"{self.name}/{color}")

    def shrink(self) -> MPICommunicator:
        """The processes that are still there, in their order; all of them call it.

        Calls of this communicator are over on all of them, also those that are waited in. Raises
        DistributedError where MPI cannot go on without a process.
        """
        try:
            for comm in (self._comm, self._checks, *chain(*self._channels)):
                comm.Revoke()
            comm, others = self._comm.Shrink(), self.whereabouts.shrink()
        except (self._mpi.Exception, NotImplementedError) as error:
            raise DistributedError(
                "[distributed] this MPI cannot go on without a process: it takes Open MPI, and "
                f"`treadle run --shrink` ({error})"
            ) from error
        self.failed = self.failed or "a smaller one goes on"
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
        if self.failed:
            self.abort(1)
        finished(self.until(self.whereabouts.end(), Place(what=ENDED), may_end=True))
        self.whereabouts.close()
        import mpi4py

        # Open MPI may wait there for ever for one that died.
        if mpi4py.rc.finalize is False and not self._is_smaller:
            self._mpi.Finalize()

    # -- one call ---------------------------------------------------------------------------------

    def _compared(self, check: str, place: Place) -> Iterator[None]:
        """Raises DistributedError where not all processes make this call."""
        digest = _digest(check)
        yield from self.until(self._begin_comparison(digest), place)
        if self._largest.tobytes() != digest.text:
            yield from self._tell_differences(place)

    def _begin_comparison(self, digest: _Digest) -> MPI.Request:
        """What leaves the largest numbers of all processes in `_largest`."""
        if self._told is not digest:
            self._mine[:], self._told = digest.numbers, digest
        if self._comparison is None:
            return self._checks.Iallreduce(self._mine, self._largest, self._mpi.MAX)
        self._comparison.Start()
        return self._comparison

    def _tell_differences(self, place: Place) -> Iterator[None]:
        """Raises DistributedError, which names what each process calls."""
        import numpy as np

        told = np.zeros(_TEXT, np.uint8)
        encoded = place.text.encode()[:_TEXT]
        told[: len(encoded)] = np.frombuffer(encoded, np.uint8)
        all_told = np.empty((self.size, _TEXT), np.uint8)
        yield from self.until(self._checks.Iallgather(told, all_told), place)
        lines = [bytes(row).rstrip(b"\0").decode(errors="replace") for row in all_told]
        raise DistributedError(_differences(dict(enumerate(lines))))

    def _made(
        self,
        comm: MPI.Comm,
        place: Place,
        call: Call,
        given: np.ndarray | None,
        result: np.ndarray | None,
    ) -> Iterator[None]:
        """The steps of a call, which is compared first if it says so."""
        if call.check is not None and call.kind not in _OF_TWO:
            yield from self._compared(call.check or place.what, place)
        if call.kind == "barrier":
            yield from self.until(comm.Ibarrier(), place)
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
        if call.kind == "all_reduce" and result.nbytes > _PIECE * self.size:
            assert given is not None
            yield from self._in_pieces(comm, place, call, given.reshape(-1), result.reshape(-1))
            return
        yield from self.until(_STARTS[call.kind](self, comm, call, given, result), place)

    def _in_pieces(
        self, comm: MPI.Comm, place: Place, call: Call, given: np.ndarray, result: np.ndarray
    ) -> Iterator[None]:
        """A large combination of 1-D arrays as several calls: the next has begun when one ends.

        MPI copies what the others give. A copy of the whole would be new pages of the system each
        time, and would have left the caches before it is combined.
        """
        size = _PIECE * self.size // result.itemsize
        begun: deque[MPI.Request] = deque()
        for begin in range(0, result.size, size):
            piece = slice(begin, begin + size)
            arrays = given[piece], result[piece]
            begun.append(self.start_reduction("Iallreduce", comm, call, *arrays))
            if len(begun) > 1:
                yield from self.until(begun.popleft(), place)
        for request in begun:
            yield from self.until(request, place)

    def start_reduction(
        self, method: str, comm: MPI.Comm, call: Call, *arrays: np.ndarray | None
    ) -> MPI.Request:
        """MPI's `method` on arrays that it knows the type of."""
        assert call.op is not None
        return getattr(comm, method)(*arrays, op=self._ops[call.op])

    def start_reduce(
        self, comm: MPI.Comm, call: Call, given: np.ndarray, result: np.ndarray
    ) -> MPI.Request:
        """The combination at one process."""
        assert call.op is not None
        target = result if self.rank == call.peer else None
        return comm.Ireduce(given, target, op=self._ops[call.op], root=call.peer)

    def prepared(
        self, comm: MPI.Comm, call: Call, given: np.ndarray | None, result: np.ndarray | None
    ) -> MPI.Prequest | None:
        """A call that can be started again and again; None where MPI, or this kind, cannot.

        All processes prepare the same calls in one order.
        """
        if call.kind not in _PREPARED or given is None or given.size == 0:
            return None
        try:
            return cast("MPI.Prequest", _PREPARED[call.kind](self, comm, call, given, result))
        except NotImplementedError:  # an MPI before version 4
            return None

    def until(self, request: MPI.Request, mine: Place, may_end: bool = False) -> Iterator[None]:
        """Looks at a request of a call until it is over, or DistributedError: it never will be."""
        if request.Test():
            return
        start = time.monotonic()
        asked = start + PATIENCE
        while True:
            yield
            if is_over_soon(request, _LOOKS):
                return
            now = time.monotonic()
            if now > asked:
                places = self._ask()
                if request.Test():  # or it raises, where MPI has found out who is gone
                    return
                self._judge(mine, places, now - start, may_end)
                asked = time.monotonic() + PATIENCE

    def _ask(self) -> dict[int, list[Place]]:
        """Where the other processes are, by their numbers in this group."""
        others = {n: rank for rank, n in enumerate(self._numbers) if rank != self.rank}
        answers = self.whereabouts.ask(list(others))
        return {others[number]: found for number, found in answers.items()}

    def _judge(
        self, mine: Place, places: Mapping[int, Sequence[Place]], waited: float, may_end: bool
    ) -> None:
        """Raises DistributedError where the others will never make the call this one waits in."""
        silent = sorted({*range(self.size)} - {self.rank, *places})
        if silent:
            raise DistributedError(
                f"[distributed] {_named(silent)} did not answer: stopped, or gone; process "
                f"{self.rank} waits in {mine.text}"
            )
        if may_end:  # all the others are at work, or waiting for each other
            return
        for rank, found in places.items():
            if any(place.what == ENDED for place in found):
                raise DistributedError(
                    f"[distributed] process {rank} has ended its program, and process {self.rank} "
                    f"waits for it in {mine.text}"
                )
        each = [(rank, place) for rank, found in places.items() for place in found]
        here = {rank: place for rank, place in each if _is_same_call(place, mine)}
        if any(place.what != mine.what for place in here.values()) and mine.kind not in _OF_TWO:
            texts = {rank: place.text for rank, place in here.items()}
            raise DistributedError(_differences({self.rank: mine.text, **texts}))
        if waited > settings.DISTRIBUTED_TIMEOUT:
            come = {rank for rank, p in each if p.group == mine.group and p.call >= mine.call}
            late = [rank for rank in places if rank not in come]
            raise DistributedError(
                f"[distributed] {_named(late or list(places))} did not come to "
                f"{mine.text} within DISTRIBUTED_TIMEOUT={settings.DISTRIBUTED_TIMEOUT} seconds"
            )


def start_move(
    method: str, comm: MPI.Comm, *arrays: np.ndarray | None, **options: int
) -> MPI.Request:
    """MPI's `method` on the bytes of arrays, whatever they hold."""
    moved = [None if a is None else a.reshape(-1).view("uint8") for a in arrays]
    return getattr(comm, method)(*moved, **options)


_STARTS: dict[str, Callable[..., MPI.Request]] = {
    "all_reduce": lambda at, comm, call, *arrays: at.start_reduction(
        "Iallreduce", comm, call, *arrays
    ),
    "reduce": MPICommunicator.start_reduce,
    "reduce_scatter": lambda at, comm, call, *arrays: at.start_reduction(
        "Ireduce_scatter_block", comm, call, *arrays
    ),
    "broadcast": lambda _, comm, call, __, result: start_move(
        "Ibcast", comm, result, root=call.peer
    ),
    "all_gather": lambda _, comm, __, *arrays: start_move("Iallgather", comm, *arrays),
    "all_to_all": lambda _, comm, __, *arrays: start_move("Ialltoall", comm, *arrays),
    "send": lambda _, comm, call, given, __: start_move("Isend", comm, given, dest=call.peer),
    "receive": lambda _, comm, call, __, result: start_move(
        "Irecv", comm, result, source=call.peer
    ),
}
# Those that MPI can prepare once, and start again and again.
_PREPARED: dict[str, Callable[..., object]] = {
    "all_reduce": lambda at, comm, call, *arrays: at.start_reduction(
        "Allreduce_init", comm, call, *arrays
    ),
    "reduce_scatter": lambda at, comm, call, *arrays: at.start_reduction(
        "Reduce_scatter_block_init", comm, call, *arrays
    ),
    "all_gather": lambda _, comm, __, *arrays: start_move("Allgather_init", comm, *arrays),
    "all_to_all": lambda _, comm, __, *arrays: start_move("Alltoall_init", comm, *arrays),
}


class _Digest(NamedTuple):
    """A number for a text, and its complement: the largest of each are these if all are equal."""

    numbers: np.ndarray
    text: bytes  # of the numbers


@functools.lru_cache(maxsize=1024)
def _digest(check: str) -> _Digest:
    import numpy as np

    number = int.from_bytes(hashlib.blake2b(check.encode(), digest_size=8).digest())
    numbers = np.array([number, ~number & (1 << 64) - 1], np.uint64)
    return _Digest(numbers, numbers.tobytes())


def _is_same_call(one: Place, other: Place) -> bool:
    """Whether two processes wait in calls of one number."""
    return bool(one.what) and (one.group, one.call) == (other.group, other.call)


@functools.lru_cache(maxsize=1024)
def _array_text(dtype: np.dtype, shape: tuple[int, ...]) -> str:
    return f"{dtype} {shape}"


def _differences(texts: Mapping[int, str]) -> str:
    """Who makes which call; many that make the same one are named once."""
    ranks: dict[str, list[int]] = {}
    for rank, text in sorted(texts.items()):
        ranks.setdefault(text, []).append(rank)
    told = [f"{_named(found)}: {text}" for text, found in ranks.items()]
    return "[distributed] processes make different calls\n  " + "\n  ".join(told)


def _named(ranks: Sequence[int]) -> str:
    return ("process " if len(ranks) == 1 else "processes ") + ", ".join(map(str, ranks))
