"""An operating system with emulated devices: what a runtime gets in place of LinuxPlatform.

    platform = EmulatedPlatform(seed=7)
    platform.add_text("/sys/.../gpu_id", "4711")
    platform.add_device("/dev/kfd", device)
    fd = platform.open("/dev/kfd")

A device is whatever fits DeviceFile. What it does not know it refuses as Linux does: an unknown
ioctl is ENOTTY, an unknown file ENOENT.

The engines of the devices run whenever the program asks something of the platform, and only then:
some steps at a doorbell, at least one step at a pause. What is collected in the middle of a step
makes its calls behind it: whoever asked for the step holds the platform. The clock is the host's;
where nothing can go on, a pause moves it forward, so that a timeout takes no time.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from treadle.emulate.machine.memory import HostPages, MemoryObject
from treadle.emulate.machine.scheduler import Scheduler
from treadle.forks import fork_safe
from treadle.runtime.hardware import host_memory
from treadle.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "DeviceFile", "Doorbells", "EmulatedPlatform", "OpenFile", "OwnMemory", "Placed",
    "ProgramMemory", "refusal",
]  # fmt: skip

_STEPS_OF_A_DOORBELL = 4
_STEPS_OF_A_PAUSE = 8
_IDLE_NS = 1_000_000  # how far the clock moves at a pause when nothing can go on


def refusal(number: int, what: str = "") -> OSError:
    """The error that Linux would give."""
    return OSError(number, what or os.strerror(number))


class Doorbells(NamedTuple):
    """Pages whose stores a device sees: `rung(offset, value)` is called for each."""

    memory: MemoryObject
    rung: Callable[[int, int], None]


class Placed(NamedTuple):
    """Memory whose device is told where the program maps it: `placed(address)` may refuse."""

    memory: MemoryObject
    placed: Callable[[int], None]


class OpenFile(Protocol):
    """What an open device file can do."""

    def ioctl(self, request: int, argument: bytearray) -> None:
        """OSError ENOTTY for what it does not know."""
        ...

    def map(self, nbytes: int, offset: int) -> MemoryObject | Doorbells | Placed:
        """What is mapped at an offset. OSError EINVAL if there is nothing."""
        ...

    def close(self) -> None: ...


class DeviceFile(Protocol):
    """A device file."""

    def open(self, fd: int) -> OpenFile:
        """OSError EACCES where the user may not."""
        ...


class ProgramMemory(Protocol):
    """The memory of the program that calls drivers: what pointers in its arguments lead to."""

    def read(self, address: int, nbytes: int) -> bytes: ...
    def write(self, address: int, data: bytes) -> None: ...
    def pages(self, address: int, nbytes: int) -> HostPages:
        """Whole pages of it, for a device to use. OSError EFAULT where there are none."""
        ...


class OwnMemory:
    """The program is this process."""

    def read(self, address: int, nbytes: int) -> bytes:
        return ctypes.string_at(address, nbytes)

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def pages(self, address: int, nbytes: int) -> HostPages:
        seen = ctypes.create_string_buffer(nbytes // host_memory.PAGE)
        if ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), seen):
            raise refusal(errno.EFAULT)
        return HostPages(address, nbytes)


class EmulatedPlatform:
    """Files, memory and time of an emulated computer, for one program."""

    is_emulated = True

    def __init__(self, seed: int = 0, program: ProgramMemory | None = None) -> None:
        self.scheduler = Scheduler(seed)
        self.program = program or OwnMemory()
        self.failure = ""  # what `explain` tells
        self._lock = fork_safe(threading.RLock())
        self._texts: dict[str, str] = {}
        self._devices: dict[str, DeviceFile] = {}
        self._open: dict[int, OpenFile] = {}
        self._doorbells: dict[int, tuple[int, Doorbells]] = {}  # page -> where they begin
        self._skipped = 0
        self._is_running = False  # whether some thread does the engines' work
        self._collected: deque[Callable[[], None]] = deque()  # what waits for its end

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        for fd in getattr(self, "_open", ()):  # what the program has not closed
            close(fd)

    # -- what is there ----------------------------------------------------------------------------

    def add_text(self, path: str, text: str) -> None:
        """A file of sysfs."""
        self._texts[path] = text

    def add_device(self, path: str, device: DeviceFile) -> None:
        """A device file."""
        self._devices[path] = device

    def remove_device(self, path: str) -> None:
        """A device file that is no longer there; those who have opened it keep it."""
        del self._devices[path]

    # -- files ------------------------------------------------------------------------------------

    def open(self, path: str) -> int:
        with self._lock:
            device = self._devices.get(path)
            if device is None:
                raise refusal(errno.ENOENT)
            fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)  # a number that is nobody else's
            try:
                self._open[fd] = device.open(fd)
            except OSError:
                os.close(fd)
                raise
            return fd

    def close(self, fd: int) -> None:
        with self._lock:
            self.file(fd).close()
            del self._open[fd]
            os.close(fd)

    def file(self, fd: int) -> OpenFile:
        """The open file with that number. OSError EBADF if there is none."""
        if fd not in self._open:
            raise refusal(errno.EBADF)
        return self._open[fd]

    def ioctl(self, fd: int, request: int, argument: bytearray) -> None:
        with self._lock:
            self.file(fd).ioctl(request, argument)

    def read_text(self, path: str) -> str:
        if path not in self._texts:
            raise refusal(errno.ENOENT)
        return self._texts[path]

    def names(self, folder: str) -> list[str]:
        start = folder.rstrip("/") + "/"
        paths = [*self._texts, *self._devices]
        found = {path[len(start) :].partition("/")[0] for path in paths if path.startswith(start)}
        if not found:
            raise refusal(errno.ENOENT)
        return sorted(found)

    # -- memory -----------------------------------------------------------------------------------

    def reserve(self, nbytes: int, alignment: int) -> int:
        return host_memory.reserve(nbytes, alignment)

    def reserve_low(self, nbytes: int, alignment: int) -> int:
        return host_memory.reserve_low(nbytes, alignment)

    def map(self, fd: int, nbytes: int, offset: int, address: int) -> None:
        with self._lock:
            found = self.file(fd).map(nbytes, offset)
            memory = found.memory if isinstance(found, Doorbells | Placed) else found
            if isinstance(found, Placed):
                found.placed(address)
            host_memory.map_file(memory.fd, nbytes, memory.offset, address)
            if isinstance(found, Doorbells):
                for page in range(0, nbytes, host_memory.PAGE):
                    self._doorbells[address + page] = address, found

    def unmap(self, address: int, nbytes: int) -> None:
        with self._lock:
            for page in [one for one in self._doorbells if address <= one < address + nbytes]:
                del self._doorbells[page]
        host_memory.release(address, nbytes)

    def load32(self, address: int) -> int:
        return ctypes.c_uint32.from_address(address).value

    def load64(self, address: int) -> int:
        return ctypes.c_uint64.from_address(address).value

    def store32(self, address: int, value: int) -> None:
        ctypes.c_uint32.from_address(address).value = value
        self._ring(address, value)

    def store64(self, address: int, value: int) -> None:
        ctypes.c_uint64.from_address(address).value = value
        self._ring(address, value)

    def _ring(self, address: int, value: int) -> None:
        found = self._doorbells.get(address & -host_memory.PAGE)
        if found is None:
            return
        with self._lock:
            base, doorbells = found
            doorbells.rung(address - base, value)
            if not self.scheduler.is_paused:
                self.run_engines(lambda: self.scheduler.some_steps(_STEPS_OF_A_DOORBELL))

    def barrier(self) -> None:
        pass

    # -- time -------------------------------------------------------------------------------------

    def now(self) -> int:
        return time.monotonic_ns() + self._skipped

    def skip(self, nanoseconds: int) -> None:
        """Moves the clock forward."""
        self._skipped += nanoseconds

    def pause(self) -> None:
        self.run_engines(self._go_on)

    def run_engines(self, work: Callable[[], object]) -> None:
        """Lets the engines go on, which Ctrl-C does not cut in two."""
        with self._lock:
            try:
                uninterrupted(lambda: self._run(work))
            finally:
                self._let_go()

    def _run(self, work: Callable[[], object]) -> None:
        self._is_running = True
        try:
            work()
        finally:
            self._is_running = False

    def at_rest(self, action: Callable[[], None]) -> None:
        self._collected.append(action)
        if self._lock.acquire(blocking=False):  # else whoever holds it may wait for this thread
            try:
                if not self._is_running:
                    self._let_go()
            finally:
                self._lock.release()

    def _let_go(self) -> None:
        while self._collected:
            self._collected.popleft()()

    def _go_on(self) -> None:
        if not self.scheduler.step():
            self.skip(_IDLE_NS)
        self.scheduler.some_steps(_STEPS_OF_A_PAUSE)

    def explain(self) -> str:
        return self.failure
