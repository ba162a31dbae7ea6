"""Calls of groups as a replay makes them: their arguments are addresses, as those of kernels.

    call = RepeatedCall(collective, replay)
    call.set_arg(0, slot, address)      where an operand is, or a result behind all operands
    call.run()                          begun; if it `is_small` or `is_alone`, it is over
    call.finish()                       over

A small call has arrays of its own, so that MPI can prepare it once, and its operands and results
are copied. A large one reads and writes in place, unless it is of several operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, cast

from ..dtype import _to_np_dtype
from ..runtime.buffer import host_view
from ..runtime.communicator import Call, Channel, Communicator
from .background_calls import Job, Steps, call_in_order, run_in_order, take_part_in_order
from .devices import Device
from .memory import Memory
from .steps import SMALL, Collective

if TYPE_CHECKING:
    import numpy as np

__all__ = ["RepeatedCall", "Replay", "is_repeated"]


def is_repeated(step: object) -> bool:
    """Whether a step is a call whose memory the host finds at addresses."""
    return isinstance(step, Collective) and all(
        memory.is_shared and Device[memory.device].runtime.has_addresses
        for memory in (*step.operands, *step.made)
    )


class Replay:
    """The channels of a captured function's calls, one for each group; `check` is what they are."""

    def __init__(self, check: str) -> None:
        self._check = check
        self._channels: dict[Communicator, Channel] = {}

    def channel(self, group: Communicator, where: str) -> Channel:
        """Opened by the first call of a group. Raises DistributedError."""
        if group not in self._channels:
            self._channels[group] = group.channel(self._check, where)
        return self._channels[group]


class _Piece(NamedTuple):
    """Memory of a call, `size` bytes, and where they are among those of all, in bytes."""

    slot: int
    begin: int
    size: int


class RepeatedCall:
    """`step` in a replay; `is_alone` if nothing is computed between its begin and its end."""

    def __init__(self, step: Collective, replay: Replay) -> None:
        self.step, self.is_alone = step, False
        self._replay, self._group = replay, cast("Communicator", step.arg.group)
        where = step.origin.where if step.origin else ""
        self._call = Call(step.arg.kind, step.arg.op, step.arg.peer, where, None)
        self._given = _pieces(step.operands, 0)
        self._taken = _pieces(step.made, len(step.operands))
        self._addresses = [m.buffer.argument for m in (*step.operands, *step.made)]
        self._bytes: dict[int, memoryview] = {}  # what is there, by slots
        self._is_in_place = len(self._taken) == 1 and len(self._given) < 2
        self._arrays: tuple[np.ndarray | None, np.ndarray] | None = None  # if it is in place
        self._make: Callable[[], None] | None = None  # what makes it, once it has been prepared
        self._job: Job | None = None
        sizes = (sum(piece.size for piece in pieces) for pieces in (self._given, self._taken))
        self.is_small = max(sizes) <= SMALL

    @property
    def operands(self) -> Sequence[Memory]:
        """The memory that this step read when it was captured."""
        return self.step.operands

    @property
    def made(self) -> Sequence[Memory]:
        """The memory that it was then the first to write."""
        return self.step.made

    def set_arg(self, _: int, slot: int, address: object) -> None:
        """From now on the argument is at this address, an integer."""
        self._addresses[slot], self._arrays = cast("int", address), None
        self._bytes.pop(slot, None)

    def run(self) -> None:
        """Begin it. Raises DistributedError."""
        if self.is_small:
            make = self._make or self._prepared()
            make()
        elif self.is_alone and self._is_in_place:
            take_part_in_order(self._channel, self._call, *self._in_place())
        elif self.is_alone:
            run_in_order(self._steps(self._channel))
        else:
            self._job = call_in_order(self._steps(self._channel))

    def finish(self) -> None:
        """Wait until it is over. Raises DistributedError."""
        job, self._job = self._job, None
        if job is not None:
            job.wait()

    @property
    def _channel(self) -> Channel:
        """What the first call of a group opens, on the thread that replays, in the same order."""
        return self._replay.channel(self._group, self._call.where)

    def _prepared(self) -> Callable[[], None]:
        """What copies operands to an array, exchanges it, and copies results from another one."""
        channel = self._channel
        given, result = self._new_arrays()
        exchange = channel.repeated(self._call, given, result)
        if exchange is None:
            self._make = lambda: run_in_order(self._steps(channel))
            return self._make
        there = self._bytes
        to, back = _parts(self._given, given), _parts(self._taken, result)

        def make() -> None:
            if len(there) < len(self._addresses):
                self._look()
            for slot, part in to:
                part[:] = there[slot]
            exchange()
            for slot, part in back:
                there[slot][:] = part

        self._make = make
        return make

    def _steps(self, channel: Channel) -> Steps:
        """The call in steps; it has its number among the calls of the program from now on."""
        if self._is_in_place:
            return channel.steps(self._call, *self._in_place())
        self._look()
        given, result = self._new_arrays()
        return self._copied(channel.steps(self._call, given, result), given, result)

    def _in_place(self) -> tuple[np.ndarray | None, np.ndarray]:
        """The only operand, if there is one, and the only result, where they are."""
        if self._arrays is None:
            self._look()
            there, step = self._bytes, self.step
            arrays = [self._array(there[piece.slot]) for piece in (*self._given, *self._taken)]
            given = arrays[0].reshape(step.shape) if self._given else None
            self._arrays = given, arrays[-1].reshape(step.arg.shape)
        return self._arrays

    def _copied(self, steps: Steps, given: np.ndarray | None, result: np.ndarray) -> Steps:
        """A call of several operands and results, which are copied before it and behind it."""
        there = self._bytes
        for slot, part in _parts(self._given, given):
            part[:] = there[slot]
        yield from steps
        for slot, part in _parts(self._taken, result):
            there[slot][:] = part

    def _look(self) -> None:
        """See the bytes where arguments have come to be."""
        for piece in (*self._given, *self._taken):
            if piece.slot not in self._bytes:
                self._bytes[piece.slot] = host_view(self._addresses[piece.slot], piece.size, None)

    def _array(self, there: memoryview) -> np.ndarray:
        import numpy as np

        dtype = _to_np_dtype(self.step.made[0].dtype)
        return np.frombuffer(there, dtype) if there.nbytes else np.empty(0, dtype)

    def _new_arrays(self) -> tuple[np.ndarray | None, np.ndarray]:
        """For what all operands are, if there are any, and for all results."""
        import numpy as np

        step, dtype = self.step, _to_np_dtype(self.step.made[0].dtype)
        if len(step.made) > 1:
            size = sum(memory.size for memory in step.made)
            return np.empty(size, dtype), np.empty(size, dtype)
        given = np.empty(step.shape, dtype) if step.operands else None
        return given, np.empty(step.arg.shape, dtype)


def _pieces(memories: Sequence[Memory], first: int) -> list[_Piece]:
    sizes = [memory.size * memory.dtype.itemsize for memory in memories]
    begins = [0, *accumulate(sizes)]
    return [_Piece(first + n, begins[n], size) for n, size in enumerate(sizes)]


def _parts(pieces: Sequence[_Piece], array: np.ndarray | None) -> list[tuple[int, memoryview]]:
    """The bytes of each piece in `array`, with its slot."""
    if array is None:
        return []
    whole = array.reshape(-1).view("uint8").data
    return [(piece.slot, whole[piece.begin : piece.begin + piece.size]) for piece in pieces]
