"""The kernel driver amdgpu, as one object of a process: its calls, its GPUs, its events.

    kfd = KFD(platform)                    # DeviceError where it is not there, or too old
    kfd.call("get_version")["minor_version"]
    kfd.sleep(10**9)                       # until a GPU interrupts or fails, at most a second

The driver tells of faults by two events that belong to the process. Whoever sleeps hears of them
for all GPUs, so a fault is handed to the device that it is of (`watch`).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakSet

from treadle.forks import fork_safe
from treadle.runtime.hardware.adapter import numbered
from treadle.runtime.hardware.amd.abi import (
    CALLS,
    EVENT_DATA,
    HW_EXCEPTION,
    MEMORY_EXCEPTION,
    EventType,
)
from treadle.runtime.hardware.amd.discovery import Node, find_nodes
from treadle.runtime.hardware.amd.failures import (
    ADVICE,
    OLDEST_INTERFACE,
    AMDFailures,
    KFDError,
    too_old,
)
from treadle.runtime.hardware.driver_file import DriverFile
from treadle.runtime.hardware.failures import opening_failed
from treadle.runtime.hardware.host_memory import address_of
from treadle.runtime.hardware.platform import Platform

__all__ = ["EVENT_PAGE_BYTES", "KFD", "Interrupt"]

_RUNTIME_ENABLE_SINCE = (1, 14)
EVENT_PAGE_BYTES = 0x8000
_LONGEST_SLEEP = 1_000_000_000
_COMPLETE = 0


Shared = Callable[[Node], None]


class Interrupt(NamedTuple):
    """What a GPU writes, and where, before it interrupts to end a sleep."""

    event: int
    mailbox: int


class KFD(DriverFile):
    """The opened driver. Failures of calls are KFDErrors."""

    path, calls, advice, error = "/dev/kfd", CALLS, ADVICE, KFDError
    version: tuple[int, int]

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        self.nodes = find_nodes(platform)
        self.interrupt: Interrupt | None = None
        self._faults: dict[int, int] = {}  # kinds of events by their numbers
        self._watchers: defaultdict[int, WeakSet[AMDFailures]] = defaultdict(WeakSet)
        self._render: dict[int, int] = {}  # render nodes by GPU
        self._shared: list[Shared] = []
        self._poll: _Wait | None = None
        self._lock = fork_safe(threading.RLock())

    def begin(self) -> None:
        """Asks for the driver's interface. Raises DeviceError for one that is too old."""
        given = self.call("get_version")
        self.version = given["major_version"], given["minor_version"]
        if self.version < OLDEST_INTERFACE:
            raise too_old(self.version)

    def acquire(self, node: Node) -> int:
        """Gives this process addresses on a GPU; the number of its open render node."""
        with self._lock:
            if node.gpu_id not in self._render:
                path = f"/dev/dri/renderD{node.minor}"
                try:
                    fd = self.platform.open(path)
                except OSError as error:
                    raise opening_failed(ADVICE, path, error) from error
                self.call("acquire_vm", drm_fd=fd, gpu_id=node.gpu_id)
                if self.version >= _RUNTIME_ENABLE_SINCE and not self._render:
                    self.call("runtime_enable", mode_mask=1)
                self._render[node.gpu_id] = fd
                for map_to in self._shared:
                    map_to(node)
            return self._render[node.gpu_id]

    def share(self, map_to: Shared) -> None:
        """Maps memory to all GPUs of this process, those to come included."""
        with self._lock:
            for node in self.nodes:
                if node.gpu_id in self._render:
                    map_to(node)
            self._shared.append(map_to)

    # -- events -----------------------------------------------------------------------------------

    def make_events(self, handle: int, address: int) -> Interrupt:
        """Makes the events of this process, over a page that GPUs write to."""
        given = self.call(
            "create_event", event_page_offset=handle, event_type=EventType.SIGNAL, auto_reset=1
        )
        mailbox = address + 8 * given["event_slot_index"]
        for kind in (EventType.MEMORY, EventType.HW_EXCEPTION):
            event = self.call("create_event", event_type=kind, auto_reset=1)
            self._faults[event["event_id"]] = kind
        self.interrupt = Interrupt(given["event_id"], mailbox)
        return self.interrupt

    def watch(self, node: Node, failures: AMDFailures) -> None:
        """Who is told of the faults of a GPU."""
        self._watchers[node.gpu_id].add(failures)

    def sleep(self, nanoseconds: int) -> None:
        """Sleeps until a GPU interrupts or fails, or for so long."""
        assert self.interrupt is not None
        milliseconds = -(-min(nanoseconds, _LONGEST_SLEEP) // 1_000_000)
        _Wait([self.interrupt.event, *self._faults], milliseconds).run(self)

    def poll(self) -> None:
        """Hears of the faults that there have been, and does not wait for any."""
        with self._lock:
            if self._poll is None:
                self._poll = _Wait(list(self._faults), 0)
            self._poll.run(self)

    def hear(self, block: memoryview) -> None:
        """One event, which has happened if it tells anything."""
        kind = self._faults.get(EVENT_DATA.unpack(block)["event_id"])
        if kind == EventType.MEMORY:
            told = MEMORY_EXCEPTION.unpack(block)
            why = told["failure"]
            for watcher in self._watchers[told["gpu_id"]]:
                watcher.memory_fault(told["va"], bool(why["read_only"]), bool(why["no_execute"]))
        elif kind == EventType.HW_EXCEPTION:
            told = HW_EXCEPTION.unpack(block)
            for watcher in self._watchers[told["gpu_id"]]:
                watcher.hw_exception(bool(told["memory_lost"]))

    def node(self, index: int, name: str) -> Node:
        """GPU `index`. Raises DeviceError if there is none."""
        return numbered(self.nodes, index, name)


class _Wait:
    """A call that waits for one of some events, for so many milliseconds at most."""

    def __init__(self, numbers: list[int], milliseconds: int) -> None:
        size = EVENT_DATA.nbytes
        self._blocks = bytearray(size * len(numbers))
        self._each = [
            memoryview(self._blocks)[at : at + size] for at in range(0, len(self._blocks), size)
        ]
        for block, number in zip(self._each, numbers, strict=True):
            EVENT_DATA.put(block, event_id=number)
        self._request, layout = CALLS["wait_events"]
        self._argument = layout.pack(
            events_ptr=address_of(self._blocks), num_events=len(numbers), timeout=milliseconds
        )
        self._result = layout.offsets["wait_result"]

    def run(self, kfd: KFD) -> None:
        """Waits. Raises KFDError."""
        try:
            kfd.platform.ioctl(kfd.fd, self._request, self._argument)
        except OSError as error:
            raise KFDError("wait_events", error) from error
        if self._argument[self._result] == _COMPLETE:
            for block in self._each:
                kfd.hear(block)
                EVENT_DATA.put(block, data=(0, 0, 0, 0))
