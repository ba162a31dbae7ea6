"""NCCL as nccl4py's bindings give it, made of Python: it computes in memory of the emulated GPU.

    fake = FakeNCCL(together=2)         the ranks are threads of this process
    fake = FakeNCCL(together=1)         the others are like this one, and give the same
    fake.install(monkeypatch)           `from nccl.bindings import nccl` finds it

Calls are asynchronous: a communicator is in progress until all ranks have made one. Those that
differ are an error of all, as NCCL never promises. `log` has the calls in their order.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np

from treadle.runtime import nccl

__all__ = ["FakeNCCL", "NCCLError"]

NUMPY = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
FOLDS = [np.add.reduce, np.multiply.reduce, np.maximum.reduce, np.minimum.reduce]
SUCCESS, INVALID_ARGUMENT, IN_PROGRESS = 0, 4, 7


class NCCLError(Exception):
    """What the bindings raise."""


class _Comm:
    def __init__(self, world: tuple[bytes, int], rank: int, size: int) -> None:
        self.world, self.rank, self.size = world, rank, size
        self.posted = 0
        self.is_alive = True


class _Config:
    blocking = None


class _UniqueId:
    def __init__(self, data: bytes) -> None:
        self.data = data

    @classmethod
    def from_buffer(cls, data: bytes) -> _UniqueId:
        assert len(data) == 128
        return cls(bytes(data))


class FakeNCCL:
    """The functions that treadle calls, with the names and the order of arguments of 0.6.0."""

    NCCLError, Config, UniqueId = NCCLError, _Config, _UniqueId

    def __init__(self, together: int) -> None:
        self.together = together
        self.log: list[tuple[object, ...]] = []
        self.state = SUCCESS  # that all communicators have, if it is another
        self.last_error = ""
        self.hangs = False
        self.refuses = ""  # who calls comm_init_rank_config
        self._lock = threading.Lock()
        self._here = threading.local()
        self._rounds: dict[object, dict[int, list[tuple[object, ...]]]] = {}
        self._done: set[object] = set()
        self._wrong: set[object] = set()
        self._ids = 0

    def install(self, monkeypatch) -> None:
        package, bindings = ModuleType("nccl"), ModuleType("nccl.bindings")
        package.__path__ = bindings.__path__ = []
        bindings.__spec__ = ModuleSpec("nccl.bindings", None)
        bindings.nccl = self  # pyright: ignore[reportAttributeAccessIssue]
        package.bindings = bindings  # pyright: ignore[reportAttributeAccessIssue]
        monkeypatch.setitem(sys.modules, "nccl", package)
        monkeypatch.setitem(sys.modules, "nccl.bindings", bindings)
        monkeypatch.setattr(nccl, "_connections", {})
        nccl.is_installed.cache_clear()

    # -- the group --------------------------------------------------------------------------------

    def get_version(self) -> int:
        return 23203

    def get_unique_id(self) -> bytes:
        self._ids += 1
        return self._ids.to_bytes(128, "little")

    def comm_init_rank_config(self, nranks, comm_id, rank, config) -> _Comm:
        assert config.blocking == 0, "who waits in NCCL cannot be interrupted"
        if self.refuses:
            raise NCCLError(self.refuses)
        comm = _Comm((comm_id.data, nranks), rank, nranks)
        self._post(comm, [("init", nranks)])
        return comm

    def comm_get_async_error(self, comm) -> int:
        assert comm.is_alive, "asked after it was let go of"
        if self.state != SUCCESS:
            return self.state
        with self._lock:
            last = comm.world, comm.posted - 1
            if last in self._wrong:
                return INVALID_ARGUMENT
            return SUCCESS if last in self._done else IN_PROGRESS

    def get_error_string(self, result) -> str:
        return {4: "invalid argument", 6: "remote process exited"}[result]

    def get_last_error(self, comm) -> str:
        assert comm.is_alive
        return self.last_error

    def comm_finalize(self, comm) -> None:
        self._post(comm, [("finalize",)])

    def comm_destroy(self, comm) -> None:
        self._let_go("destroy", comm)

    def comm_abort(self, comm) -> None:
        self._let_go("abort", comm)

    def _let_go(self, what: str, comm: _Comm) -> None:
        assert comm.is_alive, f"{what} after it was let go of"
        comm.is_alive = False
        self.log.append((what, comm.rank))

    # -- calls ------------------------------------------------------------------------------------

    def group_start(self) -> None:
        assert getattr(self._here, "calls", None) is None, "a group in a group"
        self._here.calls = []

    def group_end(self) -> None:
        calls, self._here.calls = self._here.calls, None
        for comm in dict.fromkeys(comm for comm, _ in calls):
            self._post(comm, [call for of, call in calls if of is comm])

    def _call(self, comm, stream, *call) -> None:
        assert comm.is_alive
        assert stream > 1, "the device's default stream"
        self.log.append((call[0], comm.rank, *call[3:]))
        self._here.calls.append((comm, call))

    def all_reduce(self, given, result, count, datatype, op, comm, stream) -> None:
        self._call(comm, stream, "all_reduce", given, result, count, datatype, op)

    def reduce(self, given, result, count, datatype, op, root, comm, stream) -> None:
        self._call(comm, stream, "reduce", given, result, count, datatype, op, root)

    def reduce_scatter(self, given, result, recvcount, datatype, op, comm, stream) -> None:
        self._call(comm, stream, "reduce_scatter", given, result, recvcount, datatype, op)

    def broadcast(self, given, result, count, datatype, root, comm, stream) -> None:
        self._call(comm, stream, "broadcast", given, result, count, datatype, root)

    def all_gather(self, given, result, sendcount, datatype, comm, stream) -> None:
        self._call(comm, stream, "all_gather", given, result, sendcount, datatype)

    def send(self, given, count, datatype, peer, comm, stream) -> None:
        self._call(comm, stream, "send", given, 0, count, datatype, peer)

    def recv(self, result, count, datatype, peer, comm, stream) -> None:
        self._call(comm, stream, "recv", 0, result, count, datatype, peer)

    # -- what all of them give --------------------------------------------------------------------

    def _post(self, comm: _Comm, calls: list[tuple[object, ...]]) -> None:
        with self._lock:
            place = comm.world, comm.posted
            comm.posted += 1
            posted = self._rounds.setdefault(place, {})
            posted[comm.rank] = calls
            if self.hangs or len(posted) < self.together:
                return
            every = [posted.get(rank, calls) for rank in range(comm.size)]
            alike = {tuple((c[0], *c[3:5]) for c in one) for one in every}
            if len(alike) > 1:
                self._wrong.add(place)
                return
            for number, call in enumerate(calls):
                if call[0] not in ("init", "finalize"):
                    self._compute([one[number] for one in every], posted, every)
            self._done.add(place)

    def _compute(self, calls, posted, every) -> None:
        name, _, _, count, datatype, *more = calls[0]
        size = len(calls)
        if name == "send":
            return
        if name == "recv":  # the others' messages to whoever receives
            for rank in posted:
                number = every[rank].index(calls[rank])
                peer = every[rank][number][5]
                (sent,) = (c for c in every[peer] if c[0] == "send" and c[5] == rank)
                _array(calls[rank][2], count, datatype)[...] = _array(sent[1], count, datatype)
            return
        each = count * (size if name == "reduce_scatter" else 1)
        given = np.stack([_array(call[1], each, datatype) for call in calls])
        for rank in posted:
            result = calls[rank][2]
            if name == "all_gather":
                _array(result, count * size, datatype)[...] = given.reshape(-1)
            elif name == "broadcast":
                _array(result, count, datatype)[...] = given[more[0]]
            elif name == "reduce_scatter":
                total = FOLDS[more[0]](given).astype(given.dtype)
                _array(result, count, datatype)[...] = total.reshape(size, -1)[rank]
            elif name == "all_reduce" or rank == more[1]:
                total = FOLDS[more[0]](given).astype(given.dtype)
                _array(result, count, datatype)[...] = total


def _array(address: int, count: int, datatype: int) -> np.ndarray:
    """Memory of the emulated GPU."""
    dtype = np.dtype(NUMPY[datatype])
    return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype)
