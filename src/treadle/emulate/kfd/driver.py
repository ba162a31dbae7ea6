"""The kernel driver: /dev/kfd and the render nodes, for one process.

Its calls are found by the numbers of kfd_ioctl.h, and their arguments are read by its offsets. A
number that is not there is ENOTTY. Handles, queues and events belong to whoever made them; what
names one that does not exist is EINVAL. What a call does stands with its subject: `facts`,
`allocations`, `queue_calls`, `event_calls`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from treadle.emulate.kfd import sysfs, tables
from treadle.emulate.kfd.allocations import DOORBELLS, Allocations
from treadle.emulate.kfd.chips import chip
from treadle.emulate.kfd.event_calls import EventCalls
from treadle.emulate.kfd.events import Events, Wait
from treadle.emulate.kfd.facts import Facts
from treadle.emulate.kfd.gpu import EmulatedGPU
from treadle.emulate.kfd.process import Process, gpu_id_of
from treadle.emulate.kfd.queue_calls import Queues
from treadle.emulate.machine.driver import Driver
from treadle.emulate.machine.layout import Given
from treadle.emulate.machine.platform import Doorbells, refusal

if TYPE_CHECKING:
    from treadle.emulate.kfd.dispatch import Execute
    from treadle.emulate.machine.memory import MemoryObject
    from treadle.emulate.machine.platform import EmulatedPlatform

__all__ = ["EmulatedKFD"]

_FIRST_MINOR = 128


class EmulatedKFD(Driver[EmulatedGPU]):
    """A driver with one GPU for each name in `archs`.

    `has_peers` says whether GPUs reach each other's memory. `version` is the driver's interface,
    `vram` the bytes of memory of each GPU where they are not the chip's.
    """

    def __init__(
        self,
        platform: EmulatedPlatform,
        archs: Sequence[str],
        execute: Execute,
        *,
        version: tuple[int, int] = (1, 17),
        has_peers: bool = True,
        vram: int | None = None,
    ) -> None:
        self.events = Events()
        chips = [chip(arch) for arch in archs]
        if vram is not None:
            chips = [replace(one, vram=vram) for one in chips]
        gpus = [
            EmulatedGPU(platform, one, 0x5000 + i, _FIRST_MINOR + i, execute, self.events)
            for i, one in enumerate(chips)
        ]
        super().__init__(platform, gpus)
        self._process = Process(gpus)
        self.allocations = Allocations(platform, self._process, has_peers)
        self.queues = Queues(self._process)
        self._event_calls = EventCalls(platform, self.events, self.allocations)
        facts = Facts(platform, self._process, version)
        parts = (self, facts, self.allocations, self.queues, self._event_calls)
        self._calls = dict(call for part in parts for call in _calls_of(part))
        self.add_file("/dev/kfd", partial(_KFDFile, self))
        for gpu in gpus:
            path = f"/dev/dri/renderD{gpu.minor}"
            self.add_file(path, partial(_RenderFile, self.allocations, gpu))
        sysfs.show(platform, gpus, has_peers)

    # -- calls ------------------------------------------------------------------------------------

    def ioctl(self, request: int, argument: bytearray) -> None:
        """One call of /dev/kfd.

        Of its number only the lowest byte counts, and the caller's size. An argument that is
        shorter than the driver's, of a program for an older one, has zeros behind it.
        """
        found = tables.ioctl(request)
        call = self._calls.get(found.name) if found is not None else None
        if found is None or call is None:
            raise refusal(errno.ENOTTY)
        size = request >> 16 & 0x3FFF
        if len(argument) < size:
            raise refusal(errno.EFAULT)
        whole = bytearray(argument[:size].ljust(found.layout.nbytes, b"\0"))
        call(Given(found.layout, whole))
        argument[:size] = whole[:size]

    def call_acquire_vm(self, given: Given) -> None:
        gpu = self._process.gpu(given["gpu_id"])
        node = self.platform.file(given["drm_fd"])
        if not isinstance(node, _RenderFile) or node.gpu is not gpu:
            raise refusal(errno.EINVAL, "this is not the GPU's render node")
        self._process.acquire(gpu)

    def begin_wait(self, argument: bytearray) -> Wait:
        """Begins a call of wait_events; `end_wait` ends it, when the wait is over or nobody waits.

        For those who have other things to do meanwhile. The timeout is theirs.
        """
        return self._event_calls.begin_wait(argument)

    def end_wait(self, wait: Wait, argument: bytearray) -> None:
        """Ends it, and puts into the argument what came of it."""
        self._event_calls.end_wait(wait, argument)

    def map(self, nbytes: int, offset: int) -> MemoryObject | Doorbells:
        """What is mapped from /dev/kfd."""
        memory = self.allocations.of_driver(nbytes, offset)
        if offset >> 62 != DOORBELLS >> 62:
            return memory
        gpu = self._process.own(gpu_id_of(offset))
        return Doorbells(memory, partial(self.queues.rung, gpu))


def _calls_of(part: object) -> Iterator[tuple[str, Callable[[Given], None]]]:
    """The calls that a part does, by their names."""
    for name in dir(part):
        if name.startswith("call_"):
            yield name.removeprefix("call_"), getattr(part, name)


class _KFDFile:
    """/dev/kfd."""

    def __init__(self, driver: EmulatedKFD) -> None:
        self._driver = driver

    def ioctl(self, request: int, argument: bytearray) -> None:
        self._driver.ioctl(request, argument)

    def map(self, nbytes: int, offset: int) -> MemoryObject | Doorbells:
        return self._driver.map(nbytes, offset)

    def close(self) -> None:
        pass


class _RenderFile:
    """/dev/dri/renderD*, open. Of the DRM's own calls there are none."""

    def __init__(self, allocations: Allocations, gpu: EmulatedGPU) -> None:
        self._allocations, self.gpu = allocations, gpu

    def ioctl(self, request: int, argument: bytearray) -> None:
        raise refusal(errno.ENOTTY)

    def map(self, nbytes: int, offset: int) -> MemoryObject:
        return self._allocations.memory_at(self.gpu, nbytes, offset)

    def close(self) -> None:
        pass
