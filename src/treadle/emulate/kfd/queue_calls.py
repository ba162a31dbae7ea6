"""Calls of /dev/kfd about queues: they are created and destroyed, and have doorbells."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from treadle.emulate.kfd.allocations import DOORBELL_BYTES, DOORBELLS
from treadle.emulate.kfd.context_save import ContextSave
from treadle.emulate.kfd.gpu import QUEUE_TYPES
from treadle.emulate.kfd.queue import QueueFacts
from treadle.emulate.machine.memory import MemoryFault, Permission
from treadle.emulate.machine.platform import refusal

if TYPE_CHECKING:
    from treadle.emulate.kfd.gpu import EmulatedGPU
    from treadle.emulate.kfd.process import Process
    from treadle.emulate.machine.layout import Given

__all__ = ["Queues"]

_COMPUTE = (0, 2)  # types of queues that run kernels


class Queues:
    """The queues of one process, each on a GPU."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._queues: dict[int, EmulatedGPU] = {}
        self._slots: dict[tuple[int, int], int] = {}  # (GPU, doorbell) -> queue

    def __len__(self) -> int:
        return len(self._queues)

    def call_create_queue(self, given: Given) -> None:
        gpu, kind = self._process.own(given["gpu_id"]), given["queue_type"]
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
        number = self._process.number()
        slot = next(i for i in range(DOORBELL_BYTES // 8) if (gpu.gpu_id, i) not in self._slots)
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
        given["doorbell_offset"] = DOORBELLS | gpu.gpu_id << 46 | slot * 8

    def _compute_memory(self, gpu: EmulatedGPU, given: Given) -> list[tuple[int, int]]:
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

    def call_destroy_queue(self, given: Given) -> None:
        number = given["queue_id"]
        if number not in self._queues:
            raise refusal(errno.EINVAL, f"there is no queue {number}")
        self._queues.pop(number).remove_queue(number)
        self._slots = {slot: queue for slot, queue in self._slots.items() if queue != number}

    def rung(self, gpu: EmulatedGPU, offset: int, value: int) -> None:
        """The program has stored to a GPU's doorbells."""
        number = self._slots.get((gpu.gpu_id, offset // 8))
        if number is not None:
            gpu.rung(number, value)
