"""The processes of a group, for memory of CUDA devices: NVIDIA's NCCL, through nccl4py.

    connected = connection(group, device, where)        None: memory goes through the host's
    begun = connected.begin(call, results)              on the thread that launches kernels
    connected.take_part(call, "float32 (4,)", given, results, begun)    on whatever thread

Calls are those of `communicator`, with memory of the device in place of arrays. Each one begins
with a barrier of the group that told the processes of each other, MPI's say. So who makes another
call, hangs or is gone is named there, as for memory of the host, and NCCL begins when all are here.
It works on a stream of its own, behind what was on the device's stream when the call began.
"""

from __future__ import annotations

import contextlib
import functools
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple

from ..config import settings
from ..errors import DistributedError
from ..ir.op import Op
from .communicator import Call, Communicator
from .cuda.device import CUDADevice
from .cuda.driver import DriverError, Event
from .cuda.memory import CUDABuffer

__all__ = [
    "NCCLCommunicator", "Part", "abort_nccl", "close_nccl", "connection", "is_installed",
    "open_nccl", "serves",
]  # fmt: skip

SPIN = 0.002  # seconds of looking without a pause
PAUSE, LONGEST_PAUSE = 20e-6, 1e-3  # seconds between two looks after that
_CLOSING = 10.0  # seconds that the others have at the end
_OPENING = "the opening of NCCL for CUDA memory (NCCL=0 in all processes: through the host's)"
_ID, _TEXT = 128, 512  # bytes of a ncclUniqueId, and of what a process tells the others

# ncclDataType_t and ncclRedOp_t of nccl.h. What is moved, and not combined, are bytes.
_TYPES = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6,
    "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
_BYTES = _TYPES["uint8"]
_OPS = {Op.ADD: 0, Op.MUL: 1, Op.MAX: 2, Op.MIN: 3}
_SUCCESS, _IN_PROGRESS = 0, 7  # ncclResult_t
_MOVES = frozenset(("all_gather", "all_to_all", "broadcast"))
_REDUCTIONS = frozenset(("all_reduce", "reduce", "reduce_scatter"))


class Part(NamedTuple):
    """`size` elements of `dtype`, in memory of the device."""

    buffer: CUDABuffer
    dtype: str
    size: int
    itemsize: int

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return self.size * self.itemsize


def serves(call: Call, dtype: str) -> bool:
    """Whether NCCL has the call; all processes say the same.

    Not messages: only two know of one, and the other's memory may be anywhere.
    """
    return call.kind in _MOVES or (call.kind in _REDUCTIONS and dtype in _TYPES)


class NCCLCommunicator:
    """The processes of `group`, of which this one uses `device`, connected by NCCL's `comm`."""

    def __init__(
        self, group: Communicator, device: CUDADevice, api: ModuleType, comm: object
    ) -> None:
        self._group, self._device, self._api, self._comm = group, device, api, comm
        self._stream = device.context.new_stream()
        self._failed = ""
        self._held: object = None  # what a kernel of NCCL's may still write to after a failure
        self.rank, self.size = group.rank, group.size

    def begin(self, call: Call, results: Sequence[Part]) -> Event:
        """The moment from which `call` may read and write: what was started before is over then."""
        device = self._device
        if call.kind == "reduce" and self.rank != call.peer:
            for part in results:
                device.write(part.buffer, memoryview(bytes(part.nbytes)))
        with device.working("begin a call of a group"):
            event = device.context.new_event(False)
            device.context.record(event, device.stream)
        return event

    def take_part(
        self, call: Call, what: str, given: Sequence[Part], results: Sequence[Part], begun: Event
    ) -> None:
        """Make a call; returns when the results are there. Raises DistributedError, DeviceError.

        `what` is the dtype and shape that are given. Several parts are exchanged as one.
        """
        text = f"{call.described(what)} in CUDA memory"
        context = self._device.context
        try:
            if self._failed:
                raise DistributedError(f"[distributed] NCCL has failed before: {self._failed}")
            check = call.check and f"{call.check} in CUDA memory"
            barrier = Call("barrier", where=call.where, check=check, told=text)
            self._group.take_part(barrier, None, None)
            if not any(part.size for part in given):
                return
            text = f"{text} at {call.where}" if call.where else text
            try:
                with self._device.failures.translated("take part in a call of a group"):
                    self._run(call, given, results, begun, text)
            except self._api.NCCLError as error:
                told = self._error(text, str(error))
                self._fail(text, (given, results))
                raise told from error
            except BaseException:
                self._fail(text, (given, results))
                raise
        finally:
            with contextlib.suppress(DriverError):
                context.delete_event(begun)

    def settle(self, text: str, seconds: float) -> None:
        """Wait until NCCL is through with what it was asked for. Raises DistributedError."""
        self._wait(lambda: self._state(text) == _SUCCESS, text, seconds)

    def close(self) -> None:
        """Let go of it, when all processes do. Who does not come is not waited for."""
        if self._failed:
            return
        try:
            with self._device.context.current():
                self._api.comm_finalize(self._comm)
                self.settle("the end", _CLOSING)
                self._api.comm_destroy(self._comm)
                self._device.context.delete_stream(self._stream)
            self._failed = "it was closed"
        except (DistributedError, DriverError, self._api.NCCLError):
            self.abort("it could not be closed")

    def abort(self, why: str) -> None:
        """End what runs, and let go of it at once."""
        if not self._failed:
            self._fail(why, None)

    # -- one call ---------------------------------------------------------------------------------

    def _run(
        self, call: Call, given: Sequence[Part], results: Sequence[Part], begun: Event, text: str
    ) -> None:
        context, seconds = self._device.context, settings.DISTRIBUTED_TIMEOUT
        with context.current():
            context.wait_event(self._stream, begun)
            self._api.group_start()
            try:
                for one, result in zip(given, results, strict=True):
                    _STARTS[call.kind](self, call, one, result)
            finally:
                self._api.group_end()
            self.settle(text, seconds)  # nothing else may come on the stream before
            done = context.new_event(False)
            try:
                context.record(done, self._stream)
                self._wait(lambda: self._is_over(done, text), text, seconds)
            finally:
                context.delete_event(done)

    def _is_over(self, done: Event, text: str) -> bool:
        self._state(text)
        return self._device.context.has_happened(done)

    def _state(self, text: str) -> int:
        """ncclSuccess or ncclInProgress. Raises DistributedError for all else."""
        state = int(self._api.comm_get_async_error(self._comm))
        if state not in (_SUCCESS, _IN_PROGRESS):
            raise self._error(text, self._api.get_error_string(state))
        return state

    def _error(self, text: str, told: str) -> DistributedError:
        last = self._api.get_last_error(self._comm).strip()
        more = f" ({last})" if last else ""
        return DistributedError(f"[distributed] NCCL failed in {text}: {told}{more}")

    def _wait(self, is_over: Callable[[], bool], text: str, seconds: float) -> None:
        start, pause = time.monotonic(), PAUSE
        while not is_over():
            waited = time.monotonic() - start
            if waited > seconds:
                raise DistributedError(
                    f"[distributed] NCCL did not come to the end of {text} within {seconds:g} "
                    "seconds: another process hangs or is gone, or the network is cut"
                )
            if waited > SPIN:
                time.sleep(pause)
                pause = min(pause * 1.2, LONGEST_PAUSE)

    def _fail(self, why: str, held: object) -> None:
        self._failed, self._held = why, held
        with contextlib.suppress(DriverError, self._api.NCCLError), self._device.context.current():
            self._api.comm_abort(self._comm)
            self._device.context.delete_stream(self._stream)

    # -- what NCCL is asked for -------------------------------------------------------------------

    def _all_reduce(self, call: Call, given: Part, result: Part) -> None:
        addresses = given.buffer.argument, result.buffer.argument
        self._api.all_reduce(*addresses, given.size, *_kinds(call, given), *self._where)

    def _reduce(self, call: Call, given: Part, result: Part) -> None:
        addresses = given.buffer.argument, result.buffer.argument
        kinds = _kinds(call, given)
        self._api.reduce(*addresses, given.size, *kinds, call.peer, *self._where)

    def _reduce_scatter(self, call: Call, given: Part, result: Part) -> None:
        addresses = given.buffer.argument, result.buffer.argument
        self._api.reduce_scatter(*addresses, result.size, *_kinds(call, given), *self._where)

    def _broadcast(self, call: Call, given: Part, result: Part) -> None:
        addresses = given.buffer.argument, result.buffer.argument
        self._api.broadcast(*addresses, given.nbytes, _BYTES, call.peer, *self._where)

    def _all_gather(self, call: Call, given: Part, result: Part) -> None:
        addresses = given.buffer.argument, result.buffer.argument
        self._api.all_gather(*addresses, given.nbytes, _BYTES, *self._where)

    def _all_to_all(self, call: Call, given: Part, result: Part) -> None:
        """Messages in one group: NCCL has had a call for it only since 2.28."""
        nbytes = given.nbytes // self.size
        for peer in range(self.size):
            there, here = (part.buffer.argument + peer * nbytes for part in (given, result))
            self._api.send(there, nbytes, _BYTES, peer, *self._where)
            self._api.recv(here, nbytes, _BYTES, peer, *self._where)

    @property
    def _where(self) -> tuple[object, int]:
        stream = self._stream
        return self._comm, 0 if stream is None else int(stream)


_STARTS: dict[str, Callable[[NCCLCommunicator, Call, Part, Part], None]] = {
    "all_reduce": NCCLCommunicator._all_reduce,
    "reduce": NCCLCommunicator._reduce,
    "reduce_scatter": NCCLCommunicator._reduce_scatter,
    "broadcast": NCCLCommunicator._broadcast,
    "all_gather": NCCLCommunicator._all_gather,
    "all_to_all": NCCLCommunicator._all_to_all,
}


def _kinds(call: Call, given: Part) -> tuple[int, int]:
    """NCCL's numbers of what is combined, and how."""
    assert call.op is not None
    return _TYPES[given.dtype], _OPS[call.op]


# -- connections ----------------------------------------------------------------------------------

# They stay until the job ends, since closing one is a call of all. None: NCCL cannot be used.
_connections: dict[tuple[Communicator, int], NCCLCommunicator | None] = {}


@functools.cache
def is_installed() -> bool:
    """Whether there is nccl4py; it is not imported."""
    try:
        return find_spec("nccl.bindings") is not None
    except ModuleNotFoundError:  # there is no nccl, or another one
        return False


def connection(group: Communicator, device: CUDADevice, where: str) -> NCCLCommunicator | None:
    """What connects the group's GPUs; the first call opens it, and all processes make that alike.

    None, after one warning with the reason, where it cannot be opened in some process. Raises
    DistributedError where processes make different calls.
    """
    key = group, device.index
    if key not in _connections:
        found = open_nccl(group, device, where)
        if isinstance(found, str):
            warnings.warn(
                f"[distributed] CUDA memory goes through the host's, as NCCL cannot be used: "
                f"{found} (NCCL=0 turns it off)",
                RuntimeWarning,
                stacklevel=2,
            )
        _connections[key] = None if isinstance(found, str) else found
    return _connections[key]


def open_nccl(group: Communicator, device: CUDADevice, where: str) -> NCCLCommunicator | str:
    """The same, anew; where it cannot be opened, who says why. All processes find the same."""
    api, own, reason = _loaded(group.rank == 0)
    told = _told_by_all(group, own, reason, where)
    if api is None or any(reason for _, reason in told):
        return _reasons(told)
    found = _initialized(api, group, device, told[0][0])
    reason = found if isinstance(found, str) else ""
    told = _told_by_all(group, b"", reason, where)
    if isinstance(found, str) or any(reason for _, reason in told):
        if not isinstance(found, str):
            found.abort("another process could not open it")
        return _reasons(told)
    return found


def _loaded(is_first: bool) -> tuple[ModuleType | None, bytes, str]:
    """NCCL's functions, the id of a new group if this is its first process, or why not."""
    try:
        from nccl.bindings import nccl as api

        api.get_version()
        return api, bytes(api.get_unique_id()) if is_first else b"", ""
    except Exception as error:  # of imports, of what looks for the library, of NCCL itself
        return None, b"", _first_line(error)


def _initialized(
    api: ModuleType, group: Communicator, device: CUDADevice, unique_id: bytes
) -> NCCLCommunicator | str:
    """This process's part in the group with that id, or why not."""
    # Less than what the others, who are through with it, wait in the next call of the group.
    seconds = settings.DISTRIBUTED_TIMEOUT / 2
    found = None
    try:
        with device.context.current():
            config = api.Config()
            config.blocking = 0
            name = api.UniqueId.from_buffer(unique_id)
            comm = api.comm_init_rank_config(group.size, name, group.rank, config)
            found = NCCLCommunicator(group, device, api, comm)
            found.settle("the opening", seconds)
            return found
    except (DistributedError, DriverError, api.NCCLError) as error:
        if found is not None:
            found.abort("it could not be opened")
        return _first_line(error)


def _told_by_all(group: Communicator, own: bytes, text: str, where: str) -> list[tuple[bytes, str]]:
    """What each process tells: an id, and a text."""
    import numpy as np

    row = own.ljust(_ID, b"\0") + text.encode()[:_TEXT].ljust(_TEXT, b"\0")
    rows = np.empty((group.size, _ID + _TEXT), np.uint8)
    call = Call("all_gather", where=where, told=_OPENING)
    group.take_part(call, np.frombuffer(row, np.uint8), rows)
    return [
        (one[:_ID].tobytes(), one[_ID:].tobytes().rstrip(b"\0").decode(errors="replace"))
        for one in rows
    ]


def _reasons(told: Sequence[tuple[bytes, str]]) -> str:
    """Who says why, those that say the same together."""
    ranks: dict[str, list[str]] = {}
    for rank, (_, reason) in enumerate(told):
        if reason:
            ranks.setdefault(reason, []).append(str(rank))
    return "; ".join(f"process {', '.join(those)}: {reason}" for reason, those in ranks.items())


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines or [type(error).__name__])[0].removeprefix("[distributed] ")


def close_nccl() -> None:
    """Close all connections, at the end of the job, in the order in which they were opened."""
    for found in _connections.values():
        if found is not None:
            found.close()
    _connections.clear()


def abort_nccl() -> None:
    """End all connections at once, since a process is gone."""
    for found in _connections.values():
        if found is not None:
            found.abort("a smaller group goes on")
    _connections.clear()
