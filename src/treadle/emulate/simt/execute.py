"""Runs kernels of a front end on this processor.

    program = Program(FRONT_END, translate, compile_ir)
    program.launch("add", grid=(4, 1, 1), block=(256, 1, 1), params=data, memory=regions)

Kernels are translated and compiled when they are first launched. What went wrong in a launch is an
EmulationFault that says where: kernel, block, thread, the place in the code, the address and what
is near it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from treadle.emulate.simt.faults import EmulationFault, Launched, describe
from treadle.emulate.simt.front_end import Dim, FrontEnd, Translation
from treadle.emulate.simt.launch_shadow import LaunchShadow
from treadle.emulate.simt.machine import (
    KNOWN,
    KNOWN_BYTES,
    LAST_STAMP,
    MOST_THREADS,
    REGION_WORDS,
    Region,
    Windows,
)
from treadle.emulate.simt.support import support_ir, support_symbols
from treadle.forks import fork_safe
from treadle.runtime.loader import Library, load_object
from treadle.uninterrupted import Job, uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from treadle.emulate.simt.machine import Machine

__all__ = ["TURNS", "CompileIR", "EmulationFault", "Program"]

# Of all warps of a block, each at most machine.SLICE backward branches: 200 million in all, about
# 12 seconds of a loop that never ends. Kernels that wait for copies use turns up without branches.
TURNS = 200_000
_Run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class CompileIR(Protocol):
    """Turns LLVM IR into an object for this machine; `quick` is for code that hardly runs."""

    def __call__(self, source: str, /, *, quick: bool = False) -> bytes: ...


class _Memory:
    """Zeroed bytes on a cache line, kept for as long as somebody holds this."""

    def __init__(self, nbytes: int) -> None:
        self._data = (ctypes.c_char * (nbytes + 64))()
        self.address = -(-ctypes.addressof(self._data) // 64) * 64

    def put(self, offset: int, value: int, nbytes: int) -> None:
        data = (value & ((1 << (8 * nbytes)) - 1)).to_bytes(nbytes, "little")
        ctypes.memmove(self.address + offset, data, nbytes)

    def get(self, offset: int, nbytes: int) -> int:
        return int.from_bytes(ctypes.string_at(self.address + offset, nbytes), "little")


class _Worker:
    """The records of one host thread for one kernel and one shape of block."""

    def __init__(self, front: FrontEnd, translation: Translation, block: Dim, dynamic: int) -> None:
        self._machine = machine = front.machine
        threads = block[0] * block[1] * block[2]
        warps = -(-threads >> machine.shift)
        shared = (
            -(-translation.shared_bytes // 16) * 16 + dynamic
            if dynamic
            else (translation.shared_bytes)
        )
        self.shared_bytes = shared
        self.record = _Memory(machine.block_bytes)
        self.warps = _Memory(warps * translation.warp_bytes)
        # A little more, since shadows are read in pieces and kernels may have none.
        self.shared = _Memory(shared + 64)
        self.shadows = [_Memory(4 * shared + 64) for _ in range(2)]
        self.local = _Memory(warps * machine.width * translation.local_bytes + 16)
        local_bytes = translation.local_bytes
        windows = front.windows or Windows(
            self.shared.address, shared, self.local.address, threads * local_bytes
        )
        for name, value in (
            ("warps", self.warps.address), ("warp_bytes", translation.warp_bytes),
            ("shared", self.shared.address), ("shared_bytes", shared),
            ("written", self.shadows[0].address), ("read", self.shadows[1].address),
            ("local", self.local.address), ("local_bytes", local_bytes),
            ("shared_window", windows.shared), ("shared_window_bytes", windows.shared_bytes),
            ("local_window", windows.local), ("local_window_bytes", windows.local_bytes),
            ("local_window_step", 0 if front.windows else local_bytes),
        ):  # fmt: skip
            self._put(name, value, 8)
        self._put("warp_count", warps, 4)
        self._put("threads", threads, 4)
        self._number_threads(block, warps, translation.warp_bytes)

    def _put(self, name: str, value: int, nbytes: int) -> None:
        self.record.put(self._machine.block[name], value, nbytes)

    def _number_threads(self, block: Dim, warps: int, warp_bytes: int) -> None:
        """Writes the coordinates of each thread into its warp."""
        width = self._machine.width
        threads = np.arange(warps * width, dtype=np.int32)
        x, y, _ = block
        places = (threads % x, threads // x % y, threads // (x * y))
        for axis, place in zip("xyz", places, strict=True):
            for warp, numbers in enumerate(place.reshape(warps, width)):
                at = self.warps.address + warp * warp_bytes + self._machine.warp[f"tid_{axis}"]
                ctypes.memmove(at, numbers.ctypes.data, numbers.nbytes)

    @property
    def stamp(self) -> int:
        return self.record.get(self._machine.block["stamp"], 4)

    def prepare(self, launch: int, shadow: LaunchShadow, number: int, checks_races: bool) -> None:
        """Before a launch: forgets what is known of memory, and the oldest stamps."""
        self._put("launch", launch, 8)
        known = self.record.address + self._machine.block["known"]
        ctypes.memset(known, 0, KNOWN_BYTES * KNOWN)
        if self.stamp > LAST_STAMP // 2:
            self._put("stamp", 0, 4)
            for table in self.shadows:
                ctypes.memset(table.address, 0, 4 * self.shared_bytes)
        self.first_stamp = self.stamp
        shadow.enter(lambda name, value: self._put(name, value, 8), number, self.first_stamp)
        self._put("checks_races", checks_races, 4)


Made = TypeVar("Made", bound=Translation)


@dataclass(frozen=True)
class _Loaded(Generic[Made]):
    translation: Made
    library: Library
    workers: dict[tuple, list[_Worker]]


class Program(Generic[Made]):
    """Kernels that can be run: those that `translate` knows by name.

    Kernels are compiled quickly: most are launched once, and spend their time in the functions
    that check what they access, which are compiled with care.
    `threads` is how many host threads run blocks, and with `checks_races` data races in global
    memory are faults as those in shared memory are.
    """

    def __init__(
        self,
        front: FrontEnd,
        translate: Callable[[str], Made],
        compile_ir: CompileIR,
        threads: int = 1,
        checks_races: bool = False,
    ) -> None:
        self._front, self._translate = front, translate
        self._checks_races = checks_races
        self._compile_ir, self._threads = compile_ir, max(1, threads)
        self._loaded: dict[str, _Loaded[Made]] = {}
        self._lock = fork_safe(threading.Lock())

    def translation(self, name: str) -> Made:
        """A kernel's translation; raises what `translate` does for what is not emulated."""
        return self._load(name).translation

    def _load(self, name: str) -> _Loaded[Made]:
        with self._lock:
            found = self._loaded.get(name)
            if found is None:
                made = self._translate(name)
                support = _support(self._front, self._compile_ir)
                code = self._compile_ir(made.ir, quick=True)
                # Each name that a library could import costs the linker more than a kilobyte.
                wanted = [s for s in support_symbols(self._front) if s.encode() in code]
                library = load_object(
                    code, [made.symbol], {symbol: support.address(symbol) for symbol in wanted}
                )
                library.needs = support
                found = self._loaded[name] = _Loaded(replace(made, ir=""), library, {})
        return found

    def launch(
        self,
        name: str,
        grid: Dim,
        block: Dim,
        params: bytes,
        memory: Sequence[Region],
        dynamic_shared: int = 0,
        fields: Mapping[str, int] | None = None,
    ) -> None:
        """Runs a grid and returns when it has finished.

        `params` are bytes that the kernel finds behind the Launch record's `params` and may read,
        `memory` lists the live allocations, and `fields` are the values of those that the front end
        added to the record, 8 bytes each. Raises EmulationFault, ValueError for a block of more
        threads than 1,024.
        """
        if block[0] * block[1] * block[2] > MOST_THREADS:
            raise ValueError(f"a block of {block} threads: there are at most {MOST_THREADS}")
        loaded = self._load(name)
        machine = self._front.machine
        held = _Memory(len(params) + 16)
        ctypes.memmove(held.address, params, len(params))
        table = _table([*memory, Region(held.address, len(params))])
        launch = _launch_record(machine, grid, block, held.address, table)
        for field, value, nbytes in (
            ("dynamic_shared", dynamic_shared, 4), ("limit", TURNS, 8),
            *((field, value, 8) for field, value in (fields or {}).items()),
        ):  # fmt: skip
            launch.put(machine.launch[field], value, nbytes)
        shadow = LaunchShadow.take()
        try:
            threads = min(self._threads, grid[0] * grid[1] * grid[2])
            # Threads use memory of this call, and go on whatever the main one is told.
            uninterrupted(lambda: self._run(loaded, block, dynamic_shared, launch, shadow, threads))
            get = lambda field, nbytes: launch.get(machine.launch[field], nbytes)
            fault = get("fault", 4)
            if fault:
                where = Launched(
                    self._front, loaded.translation, grid, block, list(memory), shadow.block_at
                )
                raise describe(fault, get, where)
        finally:
            shadow.give()

    def _run(
        self,
        loaded: _Loaded[Made],
        block: Dim,
        dynamic: int,
        launch: _Memory,
        shadow: LaunchShadow,
        n: int,
    ) -> None:
        key = (block, dynamic)
        idle = loaded.workers.setdefault(key, [])
        with self._lock:
            workers = [idle.pop() for _ in range(min(n, len(idle)))]
        workers += [
            _Worker(self._front, loaded.translation, block, dynamic)
            for _ in range(n - len(workers))
        ]
        shadow.start(n)
        for number, worker in enumerate(workers):
            worker.prepare(launch.address, shadow, number, self._checks_races)
        run = _Run(_support(self._front, self._compile_ir).address("treadle_simt_run"))
        kernel = loaded.library.address(loaded.translation.symbol)
        calls = [
            functools.partial(run, launch.address, worker.record.address, kernel)
            for worker in workers
        ]
        _threads().run(calls)
        shadow.leave(max(worker.stamp - worker.first_stamp for worker in workers))
        with self._lock:
            idle += workers


def _launch_record(
    machine: Machine, grid: Dim, block: Dim, params: int, table: ctypes.Array[ctypes.c_uint64]
) -> _Memory:
    launch = _Memory(machine.launch_bytes)
    for field, value, nbytes in (
        ("params", params, 8), ("table", ctypes.addressof(table), 8),
        ("table_count", len(table) // REGION_WORDS, 8),
        ("blocks", grid[0] * grid[1] * grid[2], 8),
        *((f"grid_{axis}", size, 4) for axis, size in zip("xyz", grid, strict=True)),
        *((f"block_{axis}", size, 4) for axis, size in zip("xyz", block, strict=True)),
    ):  # fmt: skip
        launch.put(machine.launch[field], value, nbytes)
    return launch


def _table(memory: Sequence[Region]) -> ctypes.Array[ctypes.c_uint64]:
    """Start, end, delta, permissions and footprint of each region, sorted."""
    rows = sorted(
        (r.start, r.start + r.nbytes, r.delta, int(r.access), r.footprint) for r in memory
    )
    words = [value & (1 << 64) - 1 for row in rows for value in row]
    return (ctypes.c_uint64 * len(words))(*words)


_support_lock = fork_safe(threading.Lock())
_support_libraries: dict[FrontEnd, Library] = {}


def _support(front: FrontEnd, compile_ir: CompileIR) -> Library:
    """The support functions of a front end: compiled once a process."""
    with _support_lock:
        found = _support_libraries.get(front)
        if found is None:
            found = load_object(compile_ir(support_ir(front)), support_symbols(front))
            _support_libraries[front] = found
        return found


class _Threads:
    """Threads that run the workers of launches, as many as there have been at a time.

    Executors of Python hold a lock of theirs while a process forks, and take it for each call: a
    fork that waits for a launch would wait for ever.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = fork_safe(threading.Lock())
        self._count = self._needed = 0

    def run(self, calls: list[Callable[[], object]]) -> None:
        """Make all calls at a time, the first by this thread. Raises what one of them does."""
        first, *others = map(Job, calls)
        self._need(len(others))
        try:
            for job in others:
                self._jobs.put(job)
            first.do()
            for job in (first, *others):
                job.outcome()
        finally:
            self._need(-len(others))

    def _need(self, more: int) -> None:
        with self._lock:
            self._needed += more
            for _ in range(self._count, self._needed):
                threading.Thread(
                    target=self._work, name="treadle-emulated-gpu", daemon=True
                ).start()
                self._count += 1

    def _work(self) -> None:
        while True:
            self._jobs.get().do()


@functools.cache
def _threads() -> _Threads:
    return _Threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not live on in a child
