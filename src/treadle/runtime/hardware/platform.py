"""All that a runtime of the hardware asks of the operating system, as one small object.

    fd = platform.open("/dev/kfd")
    argument = bytearray(8)
    platform.ioctl(fd, 0x80084B01, argument)      # changed in place; OSError where it fails
    platform.store64(doorbell, 16)
    while platform.load64(signal): platform.pause()

LinuxPlatform is the machine itself. An emulated machine is another one (`emulate/machine`): it
has files of its own, sees stores to doorbells, and goes on with its work whenever a runtime asks
something of it. So a runtime never waits but by `pause` or a call that waits, and never looks at
a clock but by `now`, and says what it is about to read and write of memory that devices share.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from . import host_memory

__all__ = ["LinuxPlatform", "Platform"]


class Platform(Protocol):
    """An operating system with devices. Addresses are this process's; failures are OSErrors."""

    @property
    def is_emulated(self) -> bool: ...

    # -- files
    def open(self, path: str) -> int:
        """A device file, for reading and writing."""
        ...

    def close(self, fd: int) -> None: ...
    def ioctl(self, fd: int, request: int, argument: bytearray) -> None:
        """One call; `argument` is changed in place."""
        ...

    def read_text(self, path: str) -> str: ...
    def names(self, folder: str) -> list[str]:
        """What is in a folder, in no order."""
        ...

    # -- memory
    def reserve(self, nbytes: int, alignment: int) -> int:
        """Addresses without memory."""
        ...

    def reserve_low(self, nbytes: int, alignment: int) -> int:
        """Addresses without memory that have 40 bits."""
        ...

    def map(self, fd: int, nbytes: int, offset: int, address: int) -> None:
        """Maps a part of a device file to reserved addresses."""
        ...

    def unmap(self, address: int, nbytes: int) -> None: ...
    def load32(self, address: int) -> int: ...
    def load64(self, address: int) -> int: ...
    def store32(self, address: int, value: int) -> None: ...
    def store64(self, address: int, value: int) -> None: ...
    def barrier(self) -> None:
        """What was stored before is visible to devices before what is stored later."""
        ...

    def will_read(self, address: int, nbytes: int) -> None:
        """The program is about to read memory that a device has written."""
        ...

    def will_write(self, address: int, nbytes: int) -> None:
        """The program is about to write memory that a device reads."""
        ...

    # -- time
    def now(self) -> int:
        """Nanoseconds of a clock that never goes back."""
        ...

    def pause(self) -> None:
        """Lets a moment pass, between two looks at memory that a device writes to."""
        ...

    def at_rest(self, action: Callable[[], None]) -> None:
        """Does what an object leaves when it is collected, now or when no call is under way."""
        ...

    def explain(self) -> str:
        """What is known of the last failure of a device beyond what its driver said, or ""."""
        ...


class LinuxPlatform:
    """The machine that this process runs on."""

    is_emulated = False

    def __init__(self) -> None:
        self._fence = threading.Lock()

    def open(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        os.close(fd)

    def ioctl(self, fd: int, request: int, argument: bytearray) -> None:
        import fcntl

        while True:
            try:
                fcntl.ioctl(fd, request, argument, True)
                return
            except OSError as error:
                # A signal came: its handler has run, and the call can be made again.
                if error.errno not in (errno.EINTR, errno.EAGAIN):
                    raise

    def read_text(self, path: str) -> str:
        return Path(path).read_text(encoding="utf-8")

    def names(self, folder: str) -> list[str]:
        return os.listdir(folder)

    def reserve(self, nbytes: int, alignment: int) -> int:
        return host_memory.reserve(nbytes, alignment)

    def reserve_low(self, nbytes: int, alignment: int) -> int:
        return host_memory.reserve_low(nbytes, alignment)

    def map(self, fd: int, nbytes: int, offset: int, address: int) -> None:
        host_memory.map_file(fd, nbytes, offset, address)

    def unmap(self, address: int, nbytes: int) -> None:
        host_memory.release(address, nbytes)

    def load32(self, address: int) -> int:
        return ctypes.c_uint32.from_address(address).value

    def load64(self, address: int) -> int:
        return ctypes.c_uint64.from_address(address).value

    def store32(self, address: int, value: int) -> None:
        ctypes.c_uint32.from_address(address).value = value

    def store64(self, address: int, value: int) -> None:
        ctypes.c_uint64.from_address(address).value = value

    def barrier(self) -> None:
        # Taking a lock is an atomic exchange, which on x86 drains the buffers of stores, write-
        # combining ones included; on ARM, taking and leaving one orders what is around both.
        with self._fence:
            pass

    def will_read(self, address: int, nbytes: int) -> None:
        pass

    def will_write(self, address: int, nbytes: int) -> None:
        pass

    def now(self) -> int:
        return time.monotonic_ns()

    def pause(self) -> None:
        time.sleep(0)

    def at_rest(self, action: Callable[[], None]) -> None:
        action()

    def explain(self) -> str:
        return ""
