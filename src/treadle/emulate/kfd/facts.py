"""Calls of /dev/kfd that ask what there is, or set what has no effect on an emulated GPU."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from treadle.emulate.kfd import tables
from treadle.emulate.machine.platform import refusal

if TYPE_CHECKING:
    from treadle.emulate.kfd.process import Process
    from treadle.emulate.machine.layout import Given
    from treadle.emulate.machine.platform import EmulatedPlatform

__all__ = ["Facts"]

_ADDRESS_CONFIG = 0x444  # how images lie in Navi 21's memory; images are not emulated
_TILE_MODES = {"tile_config": 32, "macro_tile_config": 16}  # all 0 since generation 9


class Facts:
    """What the driver tells of itself and its GPUs. `version` is that of its interface."""

    def __init__(
        self, platform: EmulatedPlatform, process: Process, version: tuple[int, int]
    ) -> None:
        self._platform, self._process, self._version = platform, process, version

    def call_get_version(self, given: Given) -> None:
        given["major_version"], given["minor_version"] = self._version

    def call_runtime_enable(self, given: Given) -> None:
        if given["r_debug"] or given["mode_mask"] & ~1:
            raise refusal(errno.EINVAL, "debuggers are not emulated")

    def call_get_clock_counters(self, given: Given) -> None:
        gpus = [gpu for gpu in self._process.gpus if gpu.gpu_id == given["gpu_id"]]
        now = self._platform.now()
        given["gpu_clock_counter"] = gpus[0].clock() if gpus else 0  # node 0 has only the host's
        given["cpu_clock_counter"] = given["system_clock_counter"] = now
        given["system_clock_freq"] = 10**9

    def call_get_process_apertures_new(self, given: Given) -> None:
        count, layout = given["num_of_nodes"], tables.layout("kfd_process_device_apertures")
        given["num_of_nodes"] = len(self._process.gpus)
        if count < len(self._process.gpus):
            if count:
                raise refusal(errno.EINVAL)
            return
        for number, gpu in enumerate(self._process.gpus):
            block = bytearray(layout.nbytes)
            layout.put(block, "lds_base", 1 << 48)
            layout.put(block, "lds_limit", (1 << 48) + (1 << 32) - 1)
            layout.put(block, "scratch_base", 2 << 48)
            layout.put(block, "scratch_limit", (2 << 48) + (1 << 32) - 1)
            layout.put(block, "gpuvm_base", 1 << 16)
            layout.put(block, "gpuvm_limit", (1 << 47) - 1)
            layout.put(block, "gpu_id", gpu.gpu_id)
            at = given["kfd_process_device_apertures_ptr"] + number * layout.nbytes
            self._platform.program.write(at, bytes(block))

    def call_set_memory_policy(self, given: Given) -> None:
        self._process.own(given["gpu_id"])
        if given["default_policy"] > 1 or given["alternate_policy"] > 1:
            raise refusal(errno.EINVAL, "a policy of caches that is none")

    def call_set_scratch_backing_va(self, given: Given) -> None:
        self._process.own(given["gpu_id"])  # it is for queues that the driver schedules itself

    def call_set_trap_handler(self, given: Given) -> None:
        self._process.own(given["gpu_id"])  # no instruction that is emulated traps

    def call_get_tile_config(self, given: Given) -> None:
        self._process.gpu(given["gpu_id"])
        for array, most in _TILE_MODES.items():
            count = min(given[f"num_{array}s"], most)
            self._platform.program.write(given[f"{array}_ptr"], bytes(4 * count))
            given[f"num_{array}s"] = count
        given["gb_addr_config"] = _ADDRESS_CONFIG

    def call_set_xnack_mode(self, given: Given) -> None:
        wanted, given["xnack_enabled"] = given["xnack_enabled"], 0
        if 0 < wanted < 1 << 31:  # a negative number asks for the mode that there is
            raise refusal(errno.EPERM, "no GPU here goes on after a page fault")
