"""Runs kernels of a module on this processor.

    program = Program(text, compile_ir)
    program.launch("add", grid=(4, 1, 1), block=(256, 1, 1), params=data, memory=regions)

Kernels are translated and compiled when they are first launched. What went wrong in a launch is an
EmulationFault that says where: kernel, block, thread, line of the PTX, address and what is near it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

import numpy as np

from treadle.emulate.ptx.faults import EmulationFault, Launched, describe
from treadle.emulate.ptx.launch_shadow import LaunchShadow
from treadle.emulate.ptx.layout import module_globals
from treadle.emulate.ptx.machine import (
    BLOCK,
    BLOCK_BYTES,
    KNOWN,
    LANES,
    LAST_STAMP,
    LAUNCH,
    LAUNCH_BYTES,
    WARP,
    Region,
)
from treadle.emulate.ptx.reader import read_module
from treadle.emulate.ptx.support import SUPPORT_SYMBOLS, support_ir
from treadle.emulate.ptx.translate import Translation, translate
from treadle.forks import fork_safe
from treadle.runtime.loader import Library, load_object
from treadle.uninterrupted import Job, uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

    def __init__(self, translation: Translation, block: tuple[int, int, int], dynamic: int) -> None:
        threads = block[0] * block[1] * block[2]
        warps = -(-threads // LANES)
        shared = (
            -(-translation.shared_bytes // 16) * 16 + dynamic
            if dynamic
            else (translation.shared_bytes)
        )
        self.shared_bytes = shared
        self.record = _Memory(BLOCK_BYTES)
        self.warps = _Memory(warps * translation.warp_bytes)
        # A little more, since shadows are read in pieces and kernels may have none.
        self.shared = _Memory(shared + 64)
        self.shadows = [_Memory(4 * shared + 64) for _ in range(2)]
        self.local = _Memory(warps * LANES * translation.local_bytes + 16)
        put = self.record.put
        for name, value in (
            ("warps", self.warps.address), ("warp_bytes", translation.warp_bytes),
            ("shared", self.shared.address), ("shared_bytes", shared),
            ("written", self.shadows[0].address), ("read", self.shadows[1].address),
            ("local", self.local.address), ("local_bytes", translation.local_bytes),
        ):  # fmt: skip
            put(BLOCK[name], value, 8)
        put(BLOCK["warp_count"], warps, 4)
        put(BLOCK["threads"], threads, 4)
        self._number_threads(block, warps, translation.warp_bytes)

    def _number_threads(self, block: tuple[int, int, int], warps: int, warp_bytes: int) -> None:
        """Writes %tid of each thread into its warp."""
        threads = np.arange(warps * LANES, dtype=np.int32)
        x, y, _ = block
        places = (threads % x, threads // x % y, threads // (x * y))
        for axis, place in zip("xyz", places, strict=True):
            for warp, numbers in enumerate(place.reshape(warps, LANES)):
                at = self.warps.address + warp * warp_bytes + WARP[f"tid_{axis}"]
                ctypes.memmove(at, numbers.ctypes.data, numbers.nbytes)

    @property
    def stamp(self) -> int:
        return self.record.get(BLOCK["stamp"], 4)

    def prepare(self, launch: int, shadow: LaunchShadow, number: int, checks_races: bool) -> None:
        """Before a launch: forgets what is known of memory, and the oldest stamps."""
        put = self.record.put
        put(BLOCK["launch"], launch, 8)
        ctypes.memset(self.record.address + BLOCK["known"], 0, 16 * KNOWN)
        if self.stamp > LAST_STAMP // 2:
            put(BLOCK["stamp"], 0, 4)
            for table in self.shadows:
                ctypes.memset(table.address, 0, 4 * self.shared_bytes)
        self.first_stamp = self.stamp
        shadow.enter(lambda name, value: put(BLOCK[name], value, 8), number, self.first_stamp)
        put(BLOCK["checks_races"], checks_races, 4)


@dataclass(frozen=True)
class _Loaded:
    translation: Translation
    library: Library
    workers: dict[tuple, list[_Worker]]


class Program:
    """A module that can be run.

    Kernels are compiled quickly: most are launched once, and spend their time in the functions
    that check what they access, which are compiled with care.
    `threads` is how many host threads run blocks, and with `checks_races` data races in global
    memory are faults as those in shared memory are. Raises PTXError if the text is not PTX.
    """

    def __init__(
        self, text: str, compile_ir: CompileIR, threads: int = 1, checks_races: bool = False
    ) -> None:
        self.module = read_module(text)
        self._checks_races = checks_races
        self._compile_ir, self._threads = compile_ir, max(1, threads)
        self._loaded: dict[str, _Loaded] = {}
        self._lock = fork_safe(threading.Lock())

    def translation(self, name: str) -> Translation:
        """A kernel's translation; raises PTXError for what is not emulated."""
        return self._load(name).translation

    def _load(self, name: str) -> _Loaded:
        with self._lock:
            found = self._loaded.get(name)
            if found is None:
                made = translate(self.module, name)
                support = _support(self._compile_ir)
                code = self._compile_ir(made.ir, quick=True)
                # Each name that a library could import costs the linker more than a kilobyte.
                wanted = [symbol for symbol in SUPPORT_SYMBOLS if symbol.encode() in code]
                library = load_object(
                    code, [made.symbol], {symbol: support.address(symbol) for symbol in wanted}
                )
                library.needs = support
                found = self._loaded[name] = _Loaded(replace(made, ir=""), library, {})
        return found

    def launch(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        params: bytes,
        memory: Sequence[Region],
        variables: dict[str, int] | None = None,
        dynamic_shared: int = 0,
    ) -> None:
        """Runs a grid and returns when it has finished.

        `params` is laid out as the kernel's parameters are, `memory` lists the live allocations
        and `variables` the addresses of the module's own. Raises EmulationFault.
        """
        loaded = self._load(name)
        blocks = grid[0] * grid[1] * grid[2]
        held = _Memory(len(params) + 16)
        ctypes.memmove(held.address, params, len(params))
        table = _table([*memory, Region(held.address, len(params))])
        numbers = module_globals(self.module)
        addresses = (ctypes.c_int64 * (len(numbers) + 1))()
        for variable, number in numbers.items():
            addresses[number] = (variables or {}).get(variable, 0)
        launch = _Memory(LAUNCH_BYTES)
        for field, value, nbytes in (
            ("params", held.address, 8), ("table", ctypes.addressof(table), 8),
            ("table_count", len(table) // 2, 8), ("globals", ctypes.addressof(addresses), 8),
            ("blocks", blocks, 8), ("grid_x", grid[0], 4), ("grid_y", grid[1], 4),
            ("grid_z", grid[2], 4), ("block_x", block[0], 4), ("block_y", block[1], 4),
            ("block_z", block[2], 4), ("static_shared", loaded.translation.shared_bytes, 4),
            ("dynamic_shared", dynamic_shared, 4), ("limit", TURNS, 8),
        ):  # fmt: skip
            launch.put(LAUNCH[field], value, nbytes)
        shadow = LaunchShadow.take()
        try:
            threads = min(self._threads, blocks)
            # Threads use memory of this call, and go on whatever the main one is told.
            uninterrupted(lambda: self._run(loaded, block, dynamic_shared, launch, shadow, threads))
            fault = launch.get(LAUNCH["fault"], 4)
            if fault:
                where = Launched(loaded.translation, grid, block, list(memory), shadow.block_at)
                raise describe(fault, launch.get, where)
        finally:
            shadow.give()

    def _run(
        self,
        loaded: _Loaded,
        block: tuple[int, int, int],
        dynamic: int,
        launch: _Memory,
        shadow: LaunchShadow,
        n: int,
    ) -> None:
        key = (block, dynamic)
        idle = loaded.workers.setdefault(key, [])
        with self._lock:
            workers = [idle.pop() for _ in range(min(n, len(idle)))]
        workers += [_Worker(loaded.translation, block, dynamic) for _ in range(n - len(workers))]
        shadow.start(n)
        for number, worker in enumerate(workers):
            worker.prepare(launch.address, shadow, number, self._checks_races)
        run = _Run(_support(self._compile_ir).address("treadle_ptx_run"))
        kernel = loaded.library.address(loaded.translation.symbol)
        calls = [
            functools.partial(run, launch.address, worker.record.address, kernel)
            for worker in workers
        ]
        _threads().run(calls)
        shadow.leave(max(worker.stamp - worker.first_stamp for worker in workers))
        with self._lock:
            idle += workers


def _table(memory: Sequence[Region]) -> ctypes.Array[ctypes.c_int64]:
    """(start, end) of each region, sorted."""
    rows = sorted((region.start, region.start + region.nbytes) for region in memory)
    return (ctypes.c_int64 * (2 * len(rows)))(*(value for row in rows for value in row))


_support_lock = fork_safe(threading.Lock())
_support_libraries: list[Library] = []


def _support(compile_ir: CompileIR) -> Library:
    """The support functions: compiled once a process."""
    with _support_lock:
        if not _support_libraries:
            _support_libraries.append(load_object(compile_ir(support_ir()), SUPPORT_SYMBOLS))
        return _support_libraries[0]


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
