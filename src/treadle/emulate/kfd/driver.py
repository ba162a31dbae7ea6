"""The kernel driver: /dev/kfd and the render nodes, for one process.

Its calls are found by the numbers of kfd_ioctl.h, and their arguments are read by its offsets. A
number that is not there is ENOTTY. Handles, queues and events belong to whoever made them; what
names one that does not exist is EINVAL.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from treadle.emulate.kfd import sysfs, tables
from treadle.emulate.kfd.chips import chip
from treadle.emulate.kfd.context_save import ContextSave
from treadle.emulate.kfd.events import SIGNAL, Events, Wait
from treadle.emulate.kfd.gpu import QUEUE_TYPES, EmulatedGPU
from treadle.emulate.kfd.queue import QueueFacts
from treadle.emulate.machine.memory import (
    POISON,
    HostPages,
    MemoryFault,
    MemoryObject,
    Permission,
)
from treadle.emulate.machine.platform import Doorbells, refusal
from treadle.runtime.hardware.host_memory import PAGE

if TYPE_CHECKING:
    from treadle.emulate.kfd.dispatch import Execute
    from treadle.emulate.kfd.injection import Injection
    from treadle.emulate.machine.platform import EmulatedPlatform

__all__ = ["EmulatedKFD"]

# Kinds of memory and permissions, by the bits of kfd_ioctl.h.
_VRAM = 1
_WRITABLE, _EXECUTABLE = 1 << 31, 1 << 30

_DOORBELL_PAGES = 0x2000
_DOORBELLS, _REGISTERS = 3 << 62, 0  # where those of a GPU are in /dev/kfd
_EVENTS = 2 << 62  # where the page of events is, if the driver makes it
_NEVER = 0xFFFFFFFF  # a timeout in ms
_COMPLETE, _TIMEOUT, _FAIL = 0, 1, 2  # the result of a wait
_WAIT_EVENTS = tables.layout("kfd_ioctl_wait_events_args")
_FIRST_MINOR = 128
_ADDRESS_CONFIG = 0x444  # how images lie in Navi 21's memory; images are not emulated
_TILE_MODES = {"tile_config": 32, "macro_tile_config": 16}  # all 0 since generation 9
_COMPUTE = (0, 2)  # types of queues that run kernels


@dataclass
class _Allocation:
    """Memory of one GPU."""

    gpu: EmulatedGPU
    start: int
    nbytes: int
    memory: MemoryObject | HostPages
    flags: int
    mapped: list[EmulatedGPU] = field(default_factory=list)

    @property
    def permissions(self) -> int:
        writes = Permission.WRITE if self.flags & _WRITABLE else 0
        executes = Permission.EXECUTE if self.flags & _EXECUTABLE else 0
        return Permission.READ | writes | executes


class EmulatedKFD:
    """A driver with one GPU for each name in `archs`.

    `has_peers` says whether GPUs reach each other's memory. `version` is the driver's interface,
    `vram` the bytes of memory of each GPU where they are not the chip's. `refuses_access` makes the
    device files those of another user.
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
        self.platform, self.version = platform, version
        self.refuses_access = False
        self.events = Events()
        self._allocations: dict[int, _Allocation] = {}
        self._queues: dict[int, EmulatedGPU] = {}
        self._acquired: set[int] = set()
        self._numbers = 0
        chips = [chip(arch) for arch in archs]
        if vram is not None:
            chips = [replace(one, vram=vram) for one in chips]
        self.gpus = [
            EmulatedGPU(platform, one, 0x5000 + i, _FIRST_MINOR + i, execute, self.events)
            for i, one in enumerate(chips)
        ]
        self._doorbells = {gpu.gpu_id: MemoryObject(_DOORBELL_PAGES) for gpu in self.gpus}
        self._registers = {gpu.gpu_id: MemoryObject(PAGE) for gpu in self.gpus}
        self._slots: dict[tuple[int, int], int] = {}  # (GPU, doorbell) -> queue
        self._has_peers = has_peers
        platform.add_device("/dev/kfd", _KFDFile(self))
        for gpu in self.gpus:
            platform.add_device(f"/dev/dri/renderD{gpu.minor}", _RenderNode(self, gpu))
        sysfs.show(platform, self.gpus, has_peers)

    def inject(self, injection: Injection | None) -> None:
        """Drops commands on purpose, on all GPUs, from now on."""
        for gpu in self.gpus:
            gpu.injection = injection

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    # -- calls ------------------------------------------------------------------------------------

    def ioctl(self, request: int, argument: bytearray) -> None:
        """One call of /dev/kfd.

        Of its number only the lowest byte counts, and the caller's size. An argument that is
        shorter than the driver's, of a program for an older one, has zeros behind it.
        """
        found = tables.ioctl(request)
        call = getattr(self, f"_call_{found.name}", None) if found is not None else None
        if found is None or call is None:
            raise refusal(errno.ENOTTY)
        size = request >> 16 & 0x3FFF
        if len(argument) < size:
            raise refusal(errno.EFAULT)
        whole = bytearray(argument[:size].ljust(found.layout.nbytes, b"\0"))
        call(_Argument(found.layout, whole))
        argument[:size] = whole[:size]

    def _gpu(self, gpu_id: int) -> EmulatedGPU:
        """A GPU whose memory the process has acquired. EINVAL; ENODEV if it is lost."""
        for gpu in self.gpus:
            if gpu.gpu_id == gpu_id:
                if gpu.is_lost:
                    raise refusal(errno.ENODEV)
                return gpu
        raise refusal(errno.EINVAL, f"there is no GPU {gpu_id:#x}")

    def _own(self, gpu_id: int) -> EmulatedGPU:
        gpu = self._gpu(gpu_id)
        if gpu_id not in self._acquired:
            raise refusal(errno.ENODEV, "the process has not acquired the GPU's memory")
        return gpu

    def _call_get_version(self, given: _Argument) -> None:
        given["major_version"], given["minor_version"] = self.version

    def _call_acquire_vm(self, given: _Argument) -> None:
        gpu = self._gpu(given["gpu_id"])
        node = self.platform.file(given["drm_fd"])
        if not isinstance(node, _RenderFile) or node.gpu is not gpu:
            raise refusal(errno.EINVAL, "this is not the GPU's render node")
        self._acquired.add(gpu.gpu_id)

    def _call_runtime_enable(self, given: _Argument) -> None:
        if given["r_debug"] or given["mode_mask"] & ~1:
            raise refusal(errno.EINVAL, "debuggers are not emulated")

    def _call_get_clock_counters(self, given: _Argument) -> None:
        gpus = [gpu for gpu in self.gpus if gpu.gpu_id == given["gpu_id"]]
        now = self.platform.now()
        given["gpu_clock_counter"] = gpus[0].clock() if gpus else 0  # node 0 has only the host's
        given["cpu_clock_counter"] = given["system_clock_counter"] = now
        given["system_clock_freq"] = 10**9

    def _call_get_process_apertures_new(self, given: _Argument) -> None:
        count, layout = given["num_of_nodes"], tables.layout("kfd_process_device_apertures")
        given["num_of_nodes"] = len(self.gpus)
        if count < len(self.gpus):
            if count:
                raise refusal(errno.EINVAL)
            return
        for number, gpu in enumerate(self.gpus):
            block = bytearray(layout.nbytes)
            layout.put(block, "lds_base", 1 << 48)
            layout.put(block, "lds_limit", (1 << 48) + (1 << 32) - 1)
            layout.put(block, "scratch_base", 2 << 48)
            layout.put(block, "scratch_limit", (2 << 48) + (1 << 32) - 1)
            layout.put(block, "gpuvm_base", 1 << 16)
            layout.put(block, "gpuvm_limit", (1 << 47) - 1)
            layout.put(block, "gpu_id", gpu.gpu_id)
            at = given["kfd_process_device_apertures_ptr"] + number * layout.nbytes
            self.platform.program.write(at, bytes(block))

    def _call_set_memory_policy(self, given: _Argument) -> None:
        self._own(given["gpu_id"])
        if given["default_policy"] > 1 or given["alternate_policy"] > 1:
            raise refusal(errno.EINVAL, "a policy of caches that is none")

    def _call_set_scratch_backing_va(self, given: _Argument) -> None:
        self._own(given["gpu_id"])  # it is for queues that the driver schedules itself

    def _call_set_trap_handler(self, given: _Argument) -> None:
        self._own(given["gpu_id"])  # no instruction that is emulated traps

    def _call_get_tile_config(self, given: _Argument) -> None:
        self._gpu(given["gpu_id"])
        for array, most in _TILE_MODES.items():
            count = min(given[f"num_{array}s"], most)
            self.platform.program.write(given[f"{array}_ptr"], bytes(4 * count))
            given[f"num_{array}s"] = count
        given["gb_addr_config"] = _ADDRESS_CONFIG

    def _call_set_xnack_mode(self, given: _Argument) -> None:
        wanted, given["xnack_enabled"] = given["xnack_enabled"], 0
        if 0 < wanted < 1 << 31:  # a negative number asks for the mode that there is
            raise refusal(errno.EPERM, "no GPU here goes on after a page fault")

    # -- memory -----------------------------------------------------------------------------------

    def _call_available_memory(self, given: _Argument) -> None:
        gpu = self._gpu(given["gpu_id"])
        given["available"] = gpu.chip.vram - gpu.used

    def _call_alloc_memory_of_gpu(self, given: _Argument) -> None:
        gpu, nbytes, flags = self._own(given["gpu_id"]), given["size"], given["flags"]
        start = given["va_addr"]
        if nbytes == 0 or nbytes % PAGE or start % PAGE or not 1 << 16 <= start < 1 << 47:
            raise refusal(errno.EINVAL, f"{nbytes} bytes at {start:#x}")
        number = self._number()
        offset = number << 12 | 1 << 40
        memory: MemoryObject | HostPages
        match flags & 0xFFFF:
            case 1:  # the GPU's own
                if nbytes > gpu.chip.vram - gpu.used:
                    raise refusal(errno.ENOMEM)
                memory = MemoryObject(nbytes, POISON)
                gpu.used += nbytes
            case 2:  # the host's
                memory = MemoryObject(nbytes)
            case 4:  # the program's
                memory = self._user_pages(given["mmap_offset"], nbytes)
            case 8 | 16 as kind:  # doorbells and registers: stores of a GPU to them are not seen
                offset = (_DOORBELLS if kind == 8 else _REGISTERS) | gpu.gpu_id << 46
                memory, flags = self._of_driver(nbytes, offset), flags & ~_WRITABLE
            case kind:
                raise refusal(errno.EINVAL, f"memory of kind {kind:#x} is not emulated")
        handle = gpu.gpu_id << 32 | number
        self._allocations[handle] = _Allocation(gpu, start, nbytes, memory, flags)
        given["handle"], given["mmap_offset"] = handle, offset

    def _user_pages(self, address: int, nbytes: int) -> HostPages:
        if address % PAGE:
            raise refusal(errno.EINVAL, "memory of the host's that begins inside of a page")
        return self.platform.program.pages(address, nbytes)

    def _allocation(self, handle: int) -> _Allocation:
        if handle not in self._allocations:
            raise refusal(errno.EINVAL, f"there is no memory {handle:#x}")
        return self._allocations[handle]

    def _call_free_memory_of_gpu(self, given: _Argument) -> None:
        allocation = self._allocation(given["handle"])
        if allocation.mapped:
            raise refusal(errno.EBUSY, "the memory is still mapped to a GPU")
        if allocation.flags & _VRAM:
            allocation.gpu.used -= allocation.nbytes
        del self._allocations[given["handle"]]

    def _targets(self, given: _Argument) -> list[EmulatedGPU]:
        count = given["n_devices"]
        if count == 0:
            raise refusal(errno.EINVAL)
        data = self.platform.program.read(given["device_ids_array_ptr"], 4 * count)
        return [self._own(gpu_id) for gpu_id in memoryview(data).cast("I")]

    def _call_map_memory_to_gpu(self, given: _Argument) -> None:
        allocation = self._allocation(given["handle"])
        for done, gpu in enumerate(self._targets(given)):
            given["n_success"] = done
            is_peer = gpu is not allocation.gpu and allocation.flags & _VRAM
            if is_peer and not self._has_peers:
                raise refusal(errno.EINVAL, "the GPU does not reach the other's memory")
            if gpu not in allocation.mapped and not gpu.drops("mapping"):
                self._map(allocation, gpu)
            given["n_success"] = done + 1

    def _map(self, allocation: _Allocation, gpu: EmulatedGPU) -> None:
        try:
            gpu.space.map(
                allocation.start, allocation.nbytes, allocation.memory, allocation.permissions
            )
        except ValueError as error:
            raise refusal(errno.EINVAL, str(error)) from error
        allocation.mapped.append(gpu)

    def _call_unmap_memory_from_gpu(self, given: _Argument) -> None:
        allocation = self._allocation(given["handle"])
        for done, gpu in enumerate(self._targets(given), 1):
            if gpu in allocation.mapped:
                gpu.space.unmap(allocation.start)
                allocation.mapped.remove(gpu)
            given["n_success"] = done

    def memory_at(self, gpu: EmulatedGPU, nbytes: int, offset: int) -> MemoryObject:
        """What is mapped from a render node."""
        allocation = self._allocations.get(gpu.gpu_id << 32 | (offset & (1 << 40) - 1) >> 12)
        memory = allocation.memory if allocation is not None and offset >> 40 == 1 else None
        if not isinstance(memory, MemoryObject) or nbytes > memory.nbytes:
            raise refusal(errno.EINVAL)
        return memory

    # -- queues -----------------------------------------------------------------------------------

    def _call_create_queue(self, given: _Argument) -> None:
        gpu, kind = self._own(given["gpu_id"]), given["queue_type"]
        size = given["ring_size"]
        if kind not in QUEUE_TYPES or size < 1024 or size & size - 1:
            raise refusal(errno.EINVAL, f"a queue of type {kind} with a ring of {size} bytes")
        if given["queue_percentage"] > 100 or given["queue_priority"] > 15:
            raise refusal(errno.EINVAL, "the queue's percentage or priority")
        wanted = [
            (given["ring_base_address"], size), (given["read_pointer_address"], 8),
            (given["write_pointer_address"], 8),
        ]  # fmt: skip
        if kind in _COMPUTE:
            wanted += self._compute_memory(gpu, given)
        for address, nbytes in wanted:
            self._check_mapped(gpu, address, nbytes)
        number = self._number()
        slot = next(i for i in range(_DOORBELL_PAGES // 8) if (gpu.gpu_id, i) not in self._slots)
        self._slots[gpu.gpu_id, slot] = number
        self._queues[number] = gpu
        facts = QueueFacts(
            given["ring_base_address"],
            size,
            given["read_pointer_address"],
            given["write_pointer_address"],
        )
        gpu.add_queue(number, kind, facts)
        given["queue_id"] = number
        given["doorbell_offset"] = _DOORBELLS | gpu.gpu_id << 46 | slot * 8

    def _compute_memory(self, gpu: EmulatedGPU, given: _Argument) -> list[tuple[int, int]]:
        save = ContextSave(gpu.chip)
        if given["eop_buffer_size"] != save.end_of_pipe:
            raise refusal(errno.EINVAL, f"an EOP buffer of {given['eop_buffer_size']} bytes")
        if given["ctl_stack_size"] != save.control_stack:
            raise refusal(errno.EINVAL, f"a control stack of {given['ctl_stack_size']} bytes")
        if given["ctx_save_restore_size"] < save.area:
            raise refusal(errno.EINVAL, f"an area of {given['ctx_save_restore_size']} bytes")
        return [
            (given["eop_buffer_address"], save.end_of_pipe),
            (given["ctx_save_restore_address"], save.whole),
        ]

    def _check_mapped(self, gpu: EmulatedGPU, address: int, nbytes: int) -> None:
        try:
            gpu.space.pieces(address, nbytes, Permission.READ | Permission.WRITE)
        except MemoryFault as fault:
            raise refusal(errno.EFAULT, f"a queue's memory: {fault}") from fault

    def _call_destroy_queue(self, given: _Argument) -> None:
        number = given["queue_id"]
        if number not in self._queues:
            raise refusal(errno.EINVAL, f"there is no queue {number}")
        self._queues.pop(number).remove_queue(number)
        self._slots = {slot: queue for slot, queue in self._slots.items() if queue != number}

    def map(self, nbytes: int, offset: int) -> MemoryObject | Doorbells:
        """What is mapped from /dev/kfd."""
        memory = self._of_driver(nbytes, offset)
        if offset >> 62 != _DOORBELLS >> 62:
            return memory
        return Doorbells(memory, partial(self._rung, self._own(_gpu_id(offset))))

    def _of_driver(self, nbytes: int, offset: int) -> MemoryObject:
        """The doorbells or the registers of a GPU, by their place in /dev/kfd."""
        kind = offset >> 62 << 62
        gpu_id = self._own(_gpu_id(offset)).gpu_id
        memory = {_DOORBELLS: self._doorbells, _REGISTERS: self._registers}.get(kind, {})
        if offset != kind | gpu_id << 46 or gpu_id not in memory:
            raise refusal(errno.EINVAL)
        if nbytes != memory[gpu_id].nbytes:
            raise refusal(errno.EINVAL)
        return memory[gpu_id]

    def _rung(self, gpu: EmulatedGPU, offset: int, value: int) -> None:
        number = self._slots.get((gpu.gpu_id, offset // 8))
        if number is not None:
            gpu.rung(number, value)

    # -- events -----------------------------------------------------------------------------------

    def _call_create_event(self, given: _Argument) -> None:
        page = given["event_page_offset"]
        if page and not self.events.has_page():
            allocation = self._allocation(page)
            gpu = allocation.gpu
            self.events.set_page(gpu.space, allocation.start, allocation.nbytes)
        number = self.events.create(given["event_type"], bool(given["auto_reset"]))
        given["event_id"] = given["event_trigger_data"] = number
        if given["event_type"] == SIGNAL:  # by the offset a program knows that it has a slot
            given["event_slot_index"], given["event_page_offset"] = number, _EVENTS

    def _call_destroy_event(self, given: _Argument) -> None:
        self.events.destroy(given["event_id"])

    def _call_set_event(self, given: _Argument) -> None:
        self.events.set(given["event_id"])

    def _call_reset_event(self, given: _Argument) -> None:
        self.events.reset(given["event_id"])

    def _call_wait_events(self, given: _Argument) -> None:
        wait = self._begin_wait(given)
        try:
            if not wait.is_over and given["timeout"]:
                self.platform.run_engines(lambda: self._go_on(wait, given["timeout"]))
        finally:
            self._end_wait(wait, given)

    def begin_wait(self, argument: bytearray) -> Wait:
        """Begins a call of wait_events; `end_wait` ends it, when the wait is over or nobody waits.

        For those who have other things to do meanwhile. The timeout is theirs.
        """
        return self._begin_wait(_Argument(_WAIT_EVENTS, argument))

    def end_wait(self, wait: Wait, argument: bytearray) -> None:
        self._end_wait(wait, _Argument(_WAIT_EVENTS, argument))

    def _begin_wait(self, given: _Argument) -> Wait:
        data, start = tables.layout("kfd_event_data"), given["events_ptr"]
        block = self.platform.program.read(start, given["num_events"] * data.nbytes)
        numbers = [
            data.get(block[at : at + data.nbytes], "event_id")
            for at in range(0, len(block), data.nbytes)
        ]
        return self.events.wait(numbers, bool(given["wait_for_all"]))

    def _end_wait(self, wait: Wait, given: _Argument) -> None:
        self.events.leave(wait)
        result = _FAIL if wait.is_broken else _COMPLETE if wait.is_over else _TIMEOUT
        given["wait_result"] = result
        nbytes, start = tables.layout("kfd_event_data").nbytes, given["events_ptr"]
        for place, number in enumerate(wait.numbers):
            if result == _COMPLETE and number in wait.happened:
                self.platform.program.write(start + place * nbytes, wait.happened[number])

    def _go_on(self, wait: Wait, timeout: int) -> None:
        """Until the wait is over. Where nothing can happen the clock moves by the timeout."""
        end = self.platform.now() + timeout * 10**6
        while not wait.is_over:
            now = self.platform.now()
            if timeout != _NEVER and now >= end:
                return
            if not self.platform.scheduler.step():
                self.platform.skip(end - now)
                if timeout == _NEVER:
                    raise refusal(errno.EDEADLK, "nothing can happen any more")


def _gpu_id(offset: int) -> int:
    """The GPU that a place in /dev/kfd belongs to."""
    return offset >> 46 & 0xFFFF


class _Argument:
    """The argument of a call, by names."""

    def __init__(self, layout: tables.Layout, block: bytearray) -> None:
        self._layout, self._block = layout, block

    def __getitem__(self, name: str) -> int:
        return self._layout.get(self._block, name)

    def __setitem__(self, name: str, value: int) -> None:
        self._layout.put(self._block, name, value)


class _KFDFile:
    """/dev/kfd, closed and open."""

    def __init__(self, driver: EmulatedKFD) -> None:
        self._driver = driver

    def open(self, fd: int) -> _KFDFile:
        if self._driver.refuses_access:
            raise refusal(errno.EACCES)
        return self

    def ioctl(self, request: int, argument: bytearray) -> None:
        self._driver.ioctl(request, argument)

    def map(self, nbytes: int, offset: int) -> MemoryObject | Doorbells:
        return self._driver.map(nbytes, offset)

    def close(self) -> None:
        pass


class _RenderNode:
    """/dev/dri/renderD*."""

    def __init__(self, driver: EmulatedKFD, gpu: EmulatedGPU) -> None:
        self._driver, self._gpu = driver, gpu

    def open(self, fd: int) -> _RenderFile:
        if self._driver.refuses_access:
            raise refusal(errno.EACCES)
        return _RenderFile(self._driver, self._gpu)


class _RenderFile:
    """An open render node. Of the DRM's own calls there are none."""

    def __init__(self, driver: EmulatedKFD, gpu: EmulatedGPU) -> None:
        self._driver, self.gpu = driver, gpu

    def ioctl(self, request: int, argument: bytearray) -> None:
        raise refusal(errno.ENOTTY)

    def map(self, nbytes: int, offset: int) -> MemoryObject:
        return self._driver.memory_at(self.gpu, nbytes, offset)

    def close(self) -> None:
        pass
