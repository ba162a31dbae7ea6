"""Memory objects of KGSL: each has a number, an address of the GPU's, and may be mapped."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.emulate.machine.memory import POISON, HostPages, MemoryObject, Permission
from treadle.emulate.machine.platform import refusal
from treadle.runtime.hardware.host_memory import PAGE, round_up

if TYPE_CHECKING:
    from treadle.emulate.kgsl.gpu import EmulatedGPU
    from treadle.emulate.machine.layout import Given
    from treadle.emulate.machine.platform import EmulatedPlatform

__all__ = ["Objects"]

_READ_ONLY, _CPU_MAP = 1 << 24, 1 << 28
_ALIGN_SHIFT = 16
_FIRST = 0x5_0000_0000  # of the GPU's addresses: none of the host's
_USER_ADDRESS = 2  # a type of memory: the program's


@dataclass
class _Object:
    start: int
    nbytes: int
    flags: int
    memory: MemoryObject | HostPages
    is_mapped: bool


class Objects:
    """The objects of a process."""

    def __init__(self, platform: EmulatedPlatform, gpu: EmulatedGPU) -> None:
        self._platform, self._gpu = platform, gpu
        self._objects: dict[int, _Object] = {}
        self._numbers, self._end = 0, _FIRST

    def _find(self, number: int) -> _Object:
        if number not in self._objects:
            raise refusal(errno.EINVAL, f"there is no object {number}")
        return self._objects[number]

    def _add(self, nbytes: int, flags: int, memory: MemoryObject | HostPages) -> int:
        """Gives an object an address, a page behind the one before."""
        align = max(PAGE, 1 << (flags >> _ALIGN_SHIFT & 0xFF))
        start = round_up(self._end, align)
        self._end = start + round_up(nbytes, PAGE) + PAGE
        is_mapped = not self._gpu.drops("mapping")
        if is_mapped:
            permissions = Permission.READ | Permission.EXECUTE
            permissions |= 0 if flags & _READ_ONLY else Permission.WRITE
            self._gpu.space.map(start, round_up(nbytes, PAGE), memory, permissions)
        self._numbers += 1
        self._objects[self._numbers] = _Object(start, nbytes, flags, memory, is_mapped)
        return self._numbers

    def call_gpuobj_alloc(self, given: Given) -> None:
        nbytes, flags = given["size"], given["flags"]
        if flags & _CPU_MAP:
            raise refusal(errno.EINVAL, "addresses that are the host's are not emulated")
        if not nbytes or flags >> _ALIGN_SHIFT & 0xFF > 32:
            raise refusal(errno.EINVAL, f"{nbytes} bytes, flags {flags:#x}")
        whole = round_up(nbytes, PAGE)
        if self._gpu.used + whole > self._gpu.memory:
            raise refusal(errno.ENOMEM)
        self._gpu.used += whole
        given["id"] = self._add(nbytes, flags, MemoryObject(whole, POISON))
        given["mmapsize"] = given["va_len"] = whole

    def call_map_user_mem(self, given: Given) -> None:
        """The program's own memory, from the beginning of a page on."""
        address, nbytes = given["hostptr"], given["len"]
        if given["memtype"] != _USER_ADDRESS or given["offset"] or given["flags"] & _CPU_MAP:
            raise refusal(errno.EINVAL, f"memory of type {given['memtype']} is not emulated")
        if not nbytes or address % PAGE or nbytes % PAGE:
            raise refusal(errno.EINVAL, f"{nbytes} bytes at {address:#x} are no whole pages")
        pages = self._platform.program.pages(address, nbytes)
        given["gpuaddr"] = self._objects[self._add(nbytes, given["flags"], pages)].start

    def call_sharedmem_free(self, given: Given) -> None:
        for number, found in self._objects.items():
            if found.start == given["gpuaddr"]:
                self._free(number)
                return
        raise refusal(errno.EINVAL, f"there is no object at {given['gpuaddr']:#x}")

    def call_gpuobj_info(self, given: Given) -> None:
        found = self._find(given["id"])
        given["gpuaddr"], given["flags"] = found.start, found.flags
        given["size"] = found.nbytes
        given["va_len"] = round_up(found.nbytes, PAGE)

    def call_gpuobj_free(self, given: Given) -> None:
        if given["flags"]:
            raise refusal(errno.EINVAL, "objects that are freed at an event are not emulated")
        self._free(given["id"])

    def _free(self, number: int) -> None:
        found = self._find(number)
        if found.is_mapped:
            self._gpu.space.unmap(found.start)
        if isinstance(found.memory, MemoryObject):
            self._gpu.used -= round_up(found.nbytes, PAGE)
        del self._objects[number]

    def memory_at(self, nbytes: int, offset: int) -> MemoryObject:
        """What is mapped at an offset: the object of that page's number."""
        found = self._objects.get(offset // PAGE)
        if found is None or offset % PAGE or not isinstance(found.memory, MemoryObject):
            raise refusal(errno.EINVAL, f"no object is mapped at {offset:#x}")
        if nbytes > round_up(found.nbytes, PAGE):
            raise refusal(errno.EINVAL, f"{nbytes} bytes of an object of {found.nbytes}")
        return found.memory

    def clear(self) -> None:
        """The process is gone."""
        for number in list(self._objects):
            self._free(number)
