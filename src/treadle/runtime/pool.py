"""A native worker pool: runs prepared call lists on this thread and, where it pays, on others.

    pool = WorkerPool(target, load, workers=3)
    pool.replay(header_address)         # without the GIL, one native call

Workers start at the first phase that is worth sharing, spin briefly after each, then sleep. Beside
a library whose own threads spin, such as PyTorch, they would share cores with these: there the pool
borrows that library's threads. When two Python threads run at once, the second runs its calls
alone: nobody waits, nothing is mixed.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import TYPE_CHECKING

from treadle.runtime.pool_ir import MAX_WORKERS, POOL_BYTES, POOL_FIELDS, POOL_SYMBOLS, pool_ir

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.runtime.loader import Library
    from treadle.target import Target

__all__ = ["WorkerPool"]

# Long enough to bridge what Python does between two replays, short enough to go unnoticed.
_SPIN_NS = 200_000

_Borrow = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_Stop = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_Replay = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


class WorkerPool:
    """`workers` threads beside the calling one; 0 means that no thread is ever made.

    `load_ir(text, symbols)` compiles and loads LLVM IR. `address` is the pool's native memory.
    """

    address: int

    def __init__(
        self,
        target: Target,
        load_ir: Callable[[str, tuple[str, ...]], Library],
        workers: int,
        spin_ns: int = _SPIN_NS,
    ) -> None:
        self._library = load_ir(pool_ir(target), POOL_SYMBOLS)
        self._workers, self._spin_ns = min(max(workers, 0), MAX_WORKERS), spin_ns
        self._words = _aligned_words(POOL_BYTES // 8)
        self.address = ctypes.addressof(self._words)
        self.replay: Callable[[int], object] = _Replay(self._library.address("treadle_replay"))
        self._reset()
        stop = _Stop(self._library.address("treadle_pool_stop"))
        # Runs when the pool is collected and at exit. It holds the code and the memory that the
        # threads use, and lets go of neither if a daemon thread is still running a kernel.
        self._finalizer = weakref.finalize(self, _stop, stop, self._words, self._library)
        _pools.add(self)

    @property
    def threads_started(self) -> int:
        """How many worker threads exist now."""
        return self._get("workers") if self._get("started") else 0

    def stop(self) -> bool:
        """Ends and joins the workers until they are next needed. False while a run is under way."""
        stop = _Stop(self._library.address("treadle_pool_stop"))
        return bool(stop(self.address))

    def borrow(self, region: int, rank: int) -> bool:
        """From now on workers are another library's OpenMP threads; False while a run is under way.

        `region` and `rank` are the addresses of its GOMP_parallel and omp_get_thread_num. A forked
        child, in which that library has no threads, has workers of its own again.
        """
        borrow = _Borrow(self._library.address("treadle_pool_borrow"))
        return bool(borrow(self.address, region, rank))

    @property
    def is_borrowing(self) -> bool:
        """Whether workers are another library's threads."""
        return bool(self._get("region"))

    def _get(self, field: str) -> int:
        return self._words[POOL_FIELDS[field] // 8]

    def _reset(self) -> None:
        """The state of a pool without threads. In a forked child only the calling thread exists."""
        ctypes.memset(self.address, 0, POOL_BYTES)
        self._words[POOL_FIELDS["workers"] // 8] = self._workers
        self._words[POOL_FIELDS["spin_ns"] // 8] = self._spin_ns


def _aligned_words(count: int) -> ctypes.Array[ctypes.c_int64]:
    """Zeroes that start on a pair of cache lines; private, so that a forked child gets a copy."""
    memory = (ctypes.c_int64 * (count + 16))()
    return (ctypes.c_int64 * count).from_buffer(memory, -ctypes.addressof(memory) % 128)


_abandoned: list[object] = []


def _stop(stop: Callable[[int], int], words: ctypes.Array[ctypes.c_int64], code: object) -> None:
    if not stop(ctypes.addressof(words)):
        # Threads are in it: never unload the code, not even when the interpreter is torn down.
        _abandoned.append((words, code))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_abandoned))


def _reset_after_fork() -> None:
    for pool in list(_pools):
        pool._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
