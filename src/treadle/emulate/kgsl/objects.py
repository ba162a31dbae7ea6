"""Memory objects of KGSL: each has a number, an address of the GPU's, and may be mapped."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from treadle.emulate.machine.memory import POISON, HostPages, MemoryObject, Permission
from treadle.emulate.machine.platform import Placed, refusal
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
    """`start` is 0 as long as it has no address of the GPU's."""

    number: int
    start: int
    nbytes: int
    flags: int
    memory: MemoryObject | HostPages


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

    def _add(self, nbytes: int, flags: int, memory: MemoryObject | HostPages) -> _Object:
        self._numbers += 1
        made = _Object(self._numbers, 0, nbytes, flags, memory)
        self._objects[self._numbers] = made
        return made

    def _place(self, made: _Object, start: int) -> None:
        """Gives an object its address."""
        if made.start or self._gpu.drops("mapping"):
            return
        permissions = Permission.READ | Permission.EXECUTE
        permissions |= 0 if made.flags & _READ_ONLY else Permission.WRITE
        try:
            self._gpu.space.map(start, round_up(made.nbytes, PAGE), made.memory, permissions)
        except ValueError as error:
            raise refusal(errno.EINVAL, str(error)) from error
        made.start = start

    def _place_anywhere(self, made: _Object) -> None:
        """Gives an object an address that is none of the host's, a page behind the one before."""
        start = round_up(self._end, max(PAGE, 1 << (made.flags >> _ALIGN_SHIFT & 0xFF)))
        self._end = start + round_up(made.nbytes, PAGE) + PAGE
        self._place(made, start)

    def call_gpuobj_alloc(self, given: Given) -> None:
        nbytes, flags = given["size"], given["flags"]
        if not nbytes or flags >> _ALIGN_SHIFT & 0xFF > 32:
            raise refusal(errno.EINVAL, f"{nbytes} bytes, flags {flags:#x}")
        whole = round_up(nbytes, PAGE)
        if self._gpu.used + whole > self._gpu.memory:
            raise refusal(errno.ENOMEM)
        self._gpu.used += whole
        made = self._add(nbytes, flags, MemoryObject(whole, POISON))
        if not flags & _CPU_MAP:  # else it gets the address that it is mapped at
            self._place_anywhere(made)
        given["id"] = made.number
        given["mmapsize"] = given["va_len"] = whole

    def call_map_user_mem(self, given: Given) -> None:
        """The program's own memory, from the beginning of a page on."""
        address, nbytes = given["hostptr"], given["len"]
        if given["memtype"] != _USER_ADDRESS or given["offset"]:
            raise refusal(errno.EINVAL, f"memory of type {given['memtype']} is not emulated")
        if not nbytes or address % PAGE or nbytes % PAGE:
            raise refusal(errno.EINVAL, f"{nbytes} bytes at {address:#x} are no whole pages")
        pages = self._platform.program.pages(address, nbytes)
        made = self._add(nbytes, given["flags"], pages)
        if given["flags"] & _CPU_MAP:
            self._place(made, address)
        else:
            self._place_anywhere(made)
        given["gpuaddr"] = made.start

    def call_sharedmem_free(self, given: Given) -> None:
        for number, found in self._objects.items():
            if found.start and found.start == given["gpuaddr"]:
                self._free(number)
                return
        raise refusal(errno.EINVAL, f"there is no object at {given['gpuaddr']:#x}")

    def call_gpuobj_info(self, given: Given) -> None:
        found = self._find(given["id"])
        given["gpuaddr"], given["flags"] = found.start, found.flags
        given["size"] = found.nbytes
        given["va_len"] = round_up(found.nbytes, PAGE)
        given["va_addr"] = found.start if found.flags & _CPU_MAP else 0

    def call_gpuobj_free(self, given: Given) -> None:
        if given["flags"]:
            raise refusal(errno.EINVAL, "objects that are freed at an event are not emulated")
        self._free(given["id"])

    def _free(self, number: int) -> None:
        found = self._find(number)
        if found.start:
            self._gpu.space.unmap(found.start)
        if isinstance(found.memory, MemoryObject):
            self._gpu.used -= round_up(found.nbytes, PAGE)
        del self._objects[number]

    def memory_at(self, nbytes: int, offset: int) -> MemoryObject | Placed:
        """What is mapped at an offset: the object of that page's number."""
        found = self._objects.get(offset // PAGE)
        if found is None or offset % PAGE or not isinstance(found.memory, MemoryObject):
            raise refusal(errno.EINVAL, f"no object is mapped at {offset:#x}")
        if nbytes > round_up(found.nbytes, PAGE):
            raise refusal(errno.EINVAL, f"{nbytes} bytes of an object of {found.nbytes}")
        if found.flags & _CPU_MAP:
            return Placed(found.memory, partial(self._place, found))
        return found.memory

    def clear(self) -> None:
        """The process is gone."""
        for number in list(self._objects):
            self._free(number)
