"""The kernel driver: /dev/kgsl-3d0, for one process.

Its calls are found by the numbers of `msm_kgsl.h`, and their arguments are read by its offsets. A
number that is not there is ENOTTY. What names a context or an object that is not there is EINVAL,
and a context that a fault has ended EDEADLK.
"""

from __future__ import annotations

import errno
from functools import partial
from typing import TYPE_CHECKING

from treadle.emulate.kgsl.abi import CALLS, COMMAND, DEVICE_INFO, VERSION
from treadle.emulate.kgsl.chips import chip
from treadle.emulate.kgsl.gpu import EmulatedGPU
from treadle.emulate.kgsl.objects import Objects
from treadle.emulate.machine.driver import Driver
from treadle.emulate.machine.layout import Given
from treadle.emulate.machine.platform import refusal

if TYPE_CHECKING:
    from treadle.emulate.kgsl.commands import Context
    from treadle.emulate.kgsl.dispatch import Execute
    from treadle.emulate.machine.memory import MemoryObject
    from treadle.emulate.machine.platform import EmulatedPlatform, Placed

__all__ = ["PATH", "EmulatedKGSL"]

PATH = "/dev/kgsl-3d0"
_DEVICE_INFO, _VERSION, _CONSTRAINT = 0x1, 0x8, 0x12
_GMEM_BYTES = 1 << 20
_IB = 1  # a flag of a command object: packets
_CONSUMED, _RETIRED, _QUEUED = 1, 2, 3  # kinds of timestamps
_FOREVER = 0xFFFFFFFF
_MOST_COMMANDS = 2000


class EmulatedKGSL(Driver[EmulatedGPU]):
    """A driver with one GPU of a chip, whose objects take no more than so many bytes of memory."""

    def __init__(
        self, platform: EmulatedPlatform, arch: str, execute: Execute, *, memory: int = 1 << 32
    ) -> None:
        gpu = EmulatedGPU(platform, chip(arch), execute, memory)
        super().__init__(platform, [gpu])
        self.gpu = gpu
        self.objects = Objects(platform, gpu)
        self._open = 0
        self.add_file(PATH, partial(_File, self))

    # -- calls

    def ioctl(self, request: int, argument: bytearray) -> None:
        """One call."""
        if request not in CALLS:
            raise refusal(errno.ENOTTY)
        if self.gpu.is_lost:
            raise refusal(errno.ENODEV)
        name, layout = CALLS[request]
        if len(argument) < layout.nbytes:
            raise refusal(errno.EFAULT)
        call = getattr(self, f"call_{name}", None) or getattr(self.objects, f"call_{name}")
        call(Given(layout, argument))

    def call_device_getproperty(self, given: Given) -> None:
        layout = {_DEVICE_INFO: DEVICE_INFO, _VERSION: VERSION}.get(given["type"])
        if layout is None or given["sizebytes"] != layout.nbytes:
            raise refusal(errno.EINVAL, f"property {given['type']:#x} is not emulated")
        block = bytearray(layout.nbytes)
        values = {"drv_major": 3, "drv_minor": 14, "dev_major": 3, "dev_minor": 1}
        if layout is DEVICE_INFO:
            values = {
                "device_id": 1, "chip_id": self.gpu.chip.chip_id, "mmu_enabled": 1,
                "gpu_id": self.gpu.chip.gpu_id, "gmem_sizebytes": _GMEM_BYTES,
            }  # fmt: skip
        for name, value in values.items():
            layout.put(block, name, value)
        self.platform.program.write(given["value"], bytes(block))

    def call_setproperty(self, given: Given) -> None:
        if given["type"] != _CONSTRAINT:  # which makes the GPU fast, and changes nothing here
            raise refusal(errno.EINVAL, f"property {given['type']:#x} cannot be set")

    def call_drawctxt_create(self, given: Given) -> None:
        given["drawctxt_id"] = self.gpu.add_context()

    def call_drawctxt_destroy(self, given: Given) -> None:
        self._context(given["drawctxt_id"])
        self.gpu.remove_context(given["drawctxt_id"])

    def _context(self, number: int) -> Context:
        if number not in self.gpu.contexts:
            raise refusal(errno.EINVAL, f"there is no context {number}")
        return self.gpu.contexts[number]

    def _valid(self, number: int) -> Context:
        context = self._context(number)
        if context.is_halted:
            raise refusal(errno.EDEADLK, "a fault has ended the context")
        return context

    def call_gpu_command(self, given: Given) -> None:
        context, program = self._valid(given["context_id"]), self.platform.program
        count = given["numcmds"]
        if not 0 < count <= _MOST_COMMANDS or given["cmdsize"] != COMMAND.nbytes:
            raise refusal(errno.EINVAL, f"{count} commands of {given['cmdsize']} bytes")
        if given["numsyncs"]:
            raise refusal(errno.EINVAL, "waiting for other contexts is not emulated")
        data = program.read(given["cmdlist"], count * COMMAND.nbytes)
        buffers = []
        for at in range(0, len(data), COMMAND.nbytes):
            command = Given(COMMAND, bytearray(data[at : at + COMMAND.nbytes]))
            if command["flags"] != _IB or not command["size"] or command["size"] % 4:
                raise refusal(errno.EINVAL, f"a command with flags {command['flags']:#x}")
            buffers.append((command["gpuaddr"] + command["offset"], command["size"]))
        given["timestamp"] = context.submit(buffers)

    def call_device_waittimestamp_ctxtid(self, given: Given) -> None:
        """The engines go on meanwhile: EDEADLK where a fault ends the context, else ETIMEDOUT.

        A timeout of 0 is none.
        """
        context, wanted = self._context(given["context_id"]), given["timestamp"]
        if wanted > context.queued:
            raise refusal(errno.EINVAL, f"timestamp {wanted} is of nothing that was submitted")
        end = self.platform.now() + given["timeout"] * 1_000_000
        while context.retired < wanted:
            if context.is_halted:
                raise refusal(errno.EDEADLK, "a fault has ended the context")
            if given["timeout"] not in (0, _FOREVER) and self.platform.now() >= end:
                raise refusal(errno.ETIMEDOUT)
            self.platform.pause()
        self.platform.ordering.host_hears(context.ended)

    def call_cmdstream_readtimestamp_ctxtid(self, given: Given) -> None:
        context = self._context(given["context_id"])
        stamps = {_CONSUMED: context.retired, _RETIRED: context.retired, _QUEUED: context.queued}
        if given["type"] not in stamps:
            raise refusal(errno.EINVAL, f"there is no timestamp of kind {given['type']}")
        given["timestamp"] = stamps[given["type"]]
        if given["type"] == _RETIRED:
            self.platform.ordering.host_hears(context.ended)

    # -- files

    def opened(self) -> None:
        self._open += 1

    def closed(self) -> None:
        """The last file that is closed takes all with it."""
        self._open -= 1
        if not self._open:
            for number in list(self.gpu.contexts):
                self.gpu.remove_context(number)
            self.objects.clear()


class _File:
    """/dev/kgsl-3d0, open."""

    def __init__(self, driver: EmulatedKGSL) -> None:
        self._driver = driver
        driver.opened()

    def ioctl(self, request: int, argument: bytearray) -> None:
        self._driver.ioctl(request, argument)

    def map(self, nbytes: int, offset: int) -> MemoryObject | Placed:
        return self._driver.objects.memory_at(nbytes, offset)

    def close(self) -> None:
        self._driver.closed()
