"""What libcuda says to NVIDIA's kernel driver: its ioctls, and the commands that it gives channels.

    recorder = Recorder()
    with recorder.listening("libcuda.so"):
        ...                                 # cuInit, an allocation, a launch
        recorder.mark("a launch")           # and reads what channels were given until now
    recorder.write("streams.json.gz")

A runtime that does without libcuda is tested against such a record. Structures are recorded as
bytes, before and after a call, those that they point to included; the layouts that this needs are
in the tables below. Sources: nv_escape.h, nvos.h, alloc_channel.h, uvm_ioctl.h of NVIDIA's open
kernel modules, 580.142. A channel's ring has entries of 8 bytes: the address of commands, and how
many words they are.
"""

from __future__ import annotations

import contextlib
import ctypes
import gzip
import json
import os
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from .interpose import interposed, memory_at

__all__ = ["Call", "Channel", "Recorder", "Submission"]

_ESCAPES = {0x27: "RM_ALLOC_MEMORY", 0x29: "RM_FREE", 0x2A: "RM_CONTROL", 0x2B: "RM_ALLOC",
            0x34: "RM_DUP_OBJECT", 0x4E: "RM_MAP_MEMORY", 0x4F: "RM_UNMAP_MEMORY",
            0x57: "RM_MAP_MEMORY_DMA", 0x58: "RM_UNMAP_MEMORY_DMA", 200: "CARD_INFO",
            201: "REGISTER_FD", 210: "CHECK_VERSION_STR"}  # fmt: skip
# UVM's requests carry no size: that of each structure, for 580 (590 has a smaller one for FREE).
_UVM = {0x30000001: ("UVM_INITIALIZE", 16), 25: ("UVM_REGISTER_GPU_VASPACE", 32),
        27: ("UVM_REGISTER_CHANNEL", 56), 29: ("UVM_ENABLE_PEER_ACCESS", 36),
        33: ("UVM_MAP_EXTERNAL_ALLOCATION", 9264), 34: ("UVM_FREE", 16),
        37: ("UVM_REGISTER_GPU", 40), 73: ("UVM_CREATE_EXTERNAL_RANGE", 24),
        75: ("UVM_MM_INITIALIZE", 8)}  # fmt: skip
_CONTROL, _ALLOC = 0x2A, 0x2B
_GPFIFO = 0x6F  # the last byte of the class of every channel
_MOST_WORDS, _MOST_ENTRIES = 1 << 14, 1 << 12
_IOCTL = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, use_errno=True
)


@dataclass(frozen=True)
class Call:
    """One ioctl: structures as hexadecimal digits, and what they point to as `inner`."""

    seconds: float
    file: str
    name: str
    request: int
    before: str
    after: str
    inner_before: str
    inner_after: str
    result: int
    errno: int


@dataclass
class Channel:
    """A ring of `entries` at `address`; those before `seen` have been read."""

    kind: int
    address: int
    entries: int
    ring: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Submission:
    """Commands that a channel was given up to a mark; no words where they cannot be read."""

    mark: str
    channel: int
    entry: int
    address: int
    words: list[int] | None


class Recorder:
    """Everything of one process, in order."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.channels: list[Channel] = []
        self.submissions: list[Submission] = []
        self.marks: list[tuple[str, int]] = []
        self._start = time.monotonic()
        self._lock = threading.RLock()
        self._ioctl = _IOCTL(("ioctl", ctypes.CDLL(None, use_errno=True)))
        self._callback = _IOCTL(self._heard)  # lives as long as somebody may call it

    @contextlib.contextmanager
    def listening(self, library: str) -> Iterator[None]:
        """Records the ioctls of a loaded library. Raises LookupError if it is not loaded."""
        with interposed(library, {"ioctl": self._callback}):
            yield

    def mark(self, name: str) -> None:
        """What came since the last mark belongs to `name`."""
        with self._lock:
            self.marks.append((name, len(self.calls)))
            for number, channel in enumerate(self.channels):
                self.submissions += self._given(name, number, channel)

    def write(self, path: str) -> None:
        """As JSON, compressed."""
        rows = {
            "calls": [asdict(call) for call in self.calls],
            "channels": [[c.kind, c.address, c.entries] for c in self.channels],
            "submissions": [asdict(one) for one in self.submissions],
            "marks": self.marks,
        }
        with gzip.open(path, "wt", encoding="utf-8") as file:
            json.dump(rows, file)

    # -- calls --------------------------------------------------------------------------------

    def _heard(self, fd: int, request: int, argument: int | None) -> int:
        """What the library calls in place of `ioctl`."""
        address, number = argument or 0, request & 0xFF
        is_nvidia = (request >> 8) & 0xFF == ord("F")
        name, size = _name_and_size(request, is_nvidia)
        before = _read(address, size)
        inner = _inner(number, before) if is_nvidia else (0, 0)
        inner_before = _read(*inner)
        ctypes.set_errno(0)
        result = self._ioctl(fd, request, argument)
        errno = ctypes.get_errno()
        after, inner_after = _read(address, size), _read(*inner)
        with self._lock:
            self.calls.append(Call(
                time.monotonic() - self._start, _path(fd), name, request, before.hex(),
                after.hex(), inner_before.hex(), inner_after.hex(), result, errno,
            ))  # fmt: skip
            if is_nvidia and number == _ALLOC and result == 0:
                self._note_channel(after, inner_after)
        ctypes.set_errno(errno)
        return result

    def _note_channel(self, alloc: bytes, params: bytes) -> None:
        """A new channel, by the class that was asked for and where its ring is."""
        (kind,) = struct.unpack_from("<I", alloc, 12)
        if kind & 0xFF == _GPFIFO and kind > 0xFFF and len(params) >= 20:
            address, entries = struct.unpack_from("<QI", params, 8)
            self.channels.append(Channel(kind, address, entries))

    # -- commands -----------------------------------------------------------------------------

    def _given(self, mark: str, number: int, channel: Channel) -> Iterator[Submission]:
        """The entries of a ring that are others than at the last mark, with their commands."""
        count = min(channel.entries, _MOST_ENTRIES)
        ring = memory_at(channel.address, 8 * count)
        if ring is None:
            return
        entries = list(struct.unpack(f"<{count}Q", ring))
        old = channel.ring or [0] * count
        channel.ring = entries
        for place, (entry, before) in enumerate(zip(entries, old, strict=True)):
            if entry not in (before, 0):
                address, words = entry & 0xFFFFFFFFFC, (entry >> 42) & 0x1FFFFF
                found = memory_at(address, 4 * min(words, _MOST_WORDS))
                listed = (
                    None if found is None else list(struct.unpack(f"<{len(found) // 4}I", found))
                )
                yield Submission(mark, number, place, address, listed)


def _name_and_size(request: int, is_nvidia: bool) -> tuple[str, int]:
    """What an ioctl is called, and how long its structure is."""
    if is_nvidia:
        number = request & 0xFF
        return _ESCAPES.get(number, f"escape {number:#x}"), (request >> 16) & 0x3FFF
    return _UVM.get(request, (f"request {request:#x}", 0))


def _inner(number: int, structure: bytes) -> tuple[int, int]:
    """Where the parameters that an RM_ALLOC or RM_CONTROL points to are, and their size."""
    if number == _CONTROL and len(structure) >= 32:
        return struct.unpack_from("<QI", structure, 16)
    if number == _ALLOC and len(structure) >= 48:  # NVOS64
        return struct.unpack_from("<Q", structure, 16)[0], struct.unpack_from("<I", structure, 32)[
            0
        ]
    if number == _ALLOC and len(structure) >= 32:  # NVOS21
        return struct.unpack_from("<QI", structure, 16)
    return 0, 0


def _read(address: int, count: int) -> bytes:
    return (memory_at(address, count) or b"") if address and count else b""


def _path(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return f"closed {fd}"
