"""The CPU device: host memory, code loaded into this process, a native worker pool.

    cpu = CpuDevice("CPU", host_target(), LLVMCompiler(host_target()).compile)
    library = cpu.load(object_bytes, [Entry("kernel", grid=1024)])
    out = cpu.allocator.alloc(4096)
    cpu.run([Launch(library.phases, [out.argument])])

One surprise: `compile_ir` is handed in, so that the pool itself goes through the caller's
compiler and cache, and nothing is compiled before the first launch.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

from treadle.forks import fork_safe
from treadle.runtime.base import Entry, Launch
from treadle.runtime.buffer import HostAllocator
from treadle.runtime.call_lists import CallList, Phase
from treadle.runtime.half import HALF_SYMBOLS, half_ir
from treadle.runtime.loader import Library, load_object
from treadle.runtime.pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treadle.runtime.buffer import HostBuffer
    from treadle.target import Target

__all__ = ["CallList", "CpuDevice", "Entry", "Launch", "Library", "Phase"]

SMALL_WORK = 1 << 15  # operations; less than this stays on the calling thread
SLICE_WORK = 1 << 18  # operations; of less, each thread takes one slice, the same each time
SLICES_PER_THREAD = 8


class CpuDevice:
    """This machine's processor. `threads` counts the calling one; by default `target.cores`."""

    has_addresses = True
    shares_memory = True
    takes_host_memory = True
    kernel_bytes = 1 << 17
    name: str
    target: Target
    threads: int
    allocator: HostAllocator

    def __init__(
        self,
        name: str,
        target: Target,
        compile_ir: Callable[[str], bytes],
        threads: int | None = None,
    ) -> None:
        self.name, self.target = name, target
        self.threads = max(1, target.cores if threads is None else threads)
        self.allocator = HostAllocator(name=name)
        self._compile_ir = compile_ir
        self._opening = fork_safe(threading.RLock())

    def load(self, code: bytes, entries: Sequence[Entry]) -> Library:
        """Loads a relocatable object; `phases` of the result has one Phase for each entry.

        Raises InternalError if the object is broken or needs a symbol that is nowhere.
        """
        library = self._load_object(code, [entry.symbol for entry in entries])
        library.phases = [self._phase(library.address(e.symbol), e) for e in entries]
        return library

    def _load_object(self, code: bytes, symbols: Sequence[str]) -> Library:
        wanted = [name for name in HALF_SYMBOLS if name.encode() in code]
        if not wanted:
            return load_object(code, symbols)
        half = self._half
        library = load_object(code, symbols, {name: half.address(name) for name in wanted})
        library.needs = half
        return library

    def _phase(self, address: int, entry: Entry) -> Phase:
        if entry.work < SMALL_WORK:
            return Phase(address, entry.grid, entry.grid)
        # Many slices even out what threads lose to other processes; few leave each part of a
        # small result in the cache of one core, where the next kernel finds it.
        for_each = entry.work // (self.threads * SLICE_WORK)
        slices = self.threads * min(max(for_each, 1), SLICES_PER_THREAD)
        return Phase(address, entry.grid, max(1, -(-entry.grid // slices)))

    def call_list(self, launches: Sequence[Launch], keep: object = None) -> CallList:
        """Launches prepared for replay by one native call; `keep` lives as long as the list."""
        return CallList(self._pool, launches, keep)

    def run(self, launches: Sequence[Launch]) -> None:
        """Runs launches once, in order, and returns when they are done."""
        CallList(self._pool, launches).run()

    def borrow_threads(self, region: int, rank: int) -> bool:
        """Run kernels on an OpenMP runtime's threads from now on: see WorkerPool.borrow."""
        return self._pool.borrow(region, rank)

    def read(self, buffer: HostBuffer, into: memoryview) -> None:
        """Copies the start of a buffer."""
        into.cast("B")[:] = buffer.view()[: into.nbytes]

    def write(self, buffer: HostBuffer, data: memoryview) -> None:
        """Copies `data` to the start of a buffer."""
        buffer.view()[: data.nbytes] = data.cast("B")

    def synchronize(self) -> None:
        """Nothing to wait for: `run` returns when the work is done."""

    @functools.cached_property
    def _pool(self) -> WorkerPool:
        with self._opening:
            made = self.__dict__.get("_pool")  # another thread may have been first
            return made or WorkerPool(self.target, self._load_ir, self.threads - 1)

    @functools.cached_property
    def _half(self) -> Library:
        return self._load_ir(half_ir(), HALF_SYMBOLS)

    def _load_ir(self, text: str, symbols: tuple[str, ...]) -> Library:
        return load_object(self._compile_ir(text), symbols)
