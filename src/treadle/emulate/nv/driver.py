"""The kernel driver: /dev/nvidiactl, a file for each GPU, /dev/nvidia-uvm, for one process.

Its calls are found by the numbers of `nv_escape.h` and `uvm_ioctl.h`, and their arguments are read
by the offsets of its release. A number that is not there is ENOTTY, an argument of another size
EINVAL. What is wrong with the content of a call is a status in its argument.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from treadle.emulate.machine.driver import Driver
from treadle.emulate.machine.layout import Given
from treadle.emulate.machine.memory import MemoryObject
from treadle.emulate.machine.platform import Doorbells, refusal
from treadle.emulate.nv import tables
from treadle.emulate.nv.chips import chip
from treadle.emulate.nv.faults import Status
from treadle.emulate.nv.gpu import EmulatedGPU
from treadle.emulate.nv.rm import ResourceManager
from treadle.emulate.nv.uvm import UVM

if TYPE_CHECKING:
    from treadle.emulate.machine.platform import EmulatedPlatform
    from treadle.emulate.nv.dispatch import Execute

__all__ = ["EmulatedNV"]

_DOORBELL_BYTES, _DOORBELL = 0x10000, 0x90
_QUERY = ord("2")
_CARDS = 32
_OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build\n"
_CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Release Build\n"


class EmulatedNV(Driver[EmulatedGPU]):
    """A driver with one GPU for each name in `archs`.

    `version` is the driver's, `vram` the bytes of memory of each GPU where they are not the chip's.
    `is_closed` makes the modules NVIDIA's closed ones.
    """

    def __init__(
        self,
        platform: EmulatedPlatform,
        archs: Sequence[str],
        execute: Execute,
        *,
        version: str = "580.142",
        vram: int | None = None,
        is_closed: bool = False,
    ) -> None:
        chips = [chip(arch) for arch in archs]
        if vram is not None:
            chips = [replace(one, vram=vram) for one in chips]
        gpus = [EmulatedGPU(platform, one, n, execute) for n, one in enumerate(chips)]
        super().__init__(platform, gpus)
        self.version = version
        major = int(version.partition(".")[0])
        self.release = max([one for one in (570, 580, 590) if one <= major], default=570)
        self.rm = ResourceManager(gpus, self.release, platform.program)
        platform.add_text(
            "/proc/driver/nvidia/version", (_CLOSED if is_closed else _OPEN).format(version)
        )
        self.add_file("/dev/nvidiactl", partial(ControlFile, self, None))
        self.add_file("/dev/nvidia-uvm", partial(UVMFile, self))
        for gpu in gpus:
            self.add_file(f"/dev/nvidia{gpu.number}", partial(ControlFile, self, gpu))


class ControlFile:
    """/dev/nvidiactl, or the file of a GPU, which has to be registered before it is used."""

    def __init__(self, driver: EmulatedNV, gpu: EmulatedGPU | None) -> None:
        self._driver, self._rm, self._gpu = driver, driver.rm, gpu
        self._mapping: MemoryObject | Doorbells | None = None
        self._is_registered = False
        calls = {
            "RM_ALLOC": ("NVOS21_PARAMETERS", self._alloc),
            "RM_ALLOC_MEMORY": ("nv_ioctl_nvos02_parameters_with_fd", self._alloc_memory),
            "RM_FREE": ("NVOS00_PARAMETERS", self._free),
            "RM_CONTROL": ("NVOS54_PARAMETERS", self._control),
            "RM_MAP_MEMORY": ("nv_ioctl_nvos33_parameters_with_fd", self._map_memory),
            "RM_MAP_MEMORY_DMA": ("NVOS46_PARAMETERS", self._map_memory_dma),
        }  # fmt: skip
        self._calls = {tables.number(f"NV_ESC_{name}"): found for name, found in calls.items()}

    def ioctl(self, request: int, argument: bytearray) -> None:
        """One call."""
        number, size = request & 0xFF, request >> 16 & 0x3FFF
        if request >> 30 != 3 or request >> 8 & 0xFF != ord("F"):
            raise refusal(errno.ENOTTY)
        if size != len(argument):
            raise refusal(errno.EFAULT)
        names = ("CARD_INFO", "REGISTER_FD", "CHECK_VERSION_STR")
        plain = {tables.number(f"NV_ESC_{name}"): name.lower() for name in names}
        if number in plain:
            getattr(self, f"_{plain[number]}")(argument)
            return
        if number not in self._calls:
            raise refusal(errno.ENOTTY)
        structure, call = self._calls[number]
        layout = tables.structure(structure, self._driver.release)
        if size != layout.nbytes:
            raise refusal(errno.EINVAL, f"{structure} has {layout.nbytes} bytes, not {size}")
        given = Given(layout, argument)
        try:
            call(given)
        except Status as refused:
            given["status"] = refused.number
            self._driver.platform.failure = str(refused)

    # -- what the driver tells --------------------------------------------------------------------

    def _card_info(self, argument: bytearray) -> None:
        layout = tables.structure("nv_ioctl_card_info_t", self._driver.release)
        if len(argument) != _CARDS * layout.nbytes:
            raise refusal(errno.EINVAL, f"room for {_CARDS} cards is wanted")
        for gpu in self._driver.gpus:
            block = memoryview(argument)[gpu.number * layout.nbytes :][: layout.nbytes]
            layout.put(block, "valid", 1)
            layout.put(block, "gpu_id", gpu.gpu_id)
            layout.put(block, "minor_number", gpu.number)

    def _register_fd(self, argument: bytearray) -> None:
        given = Given(tables.structure("nv_ioctl_register_fd_t", self._driver.release), argument)
        control = self._driver.platform.file(given["ctl_fd"])
        if self._gpu is None or not isinstance(control, ControlFile) or control._gpu is not None:
            raise refusal(errno.EINVAL, "only the file of a GPU is registered, with nvidiactl")
        if self._is_registered:
            raise refusal(errno.EINVAL, "the file is registered already")
        self._is_registered = self._gpu.is_open = True

    def _check_version_str(self, argument: bytearray) -> None:
        layout = tables.structure("nv_ioctl_rm_api_version_t", self._driver.release)
        if len(argument) != layout.nbytes:
            raise refusal(errno.EINVAL)
        if layout.get(argument, "cmd") != _QUERY:
            raise refusal(errno.EINVAL, "only queries of the version are emulated")
        at, nbytes = layout.fields["versionString"]
        argument[at : at + nbytes] = self._driver.version.encode().ljust(nbytes, b"\0")

    # -- objects ----------------------------------------------------------------------------------

    def _alloc(self, given: Given) -> None:
        if given["hClass"] == tables.number("NV01_ROOT_CLIENT"):
            given["hObjectNew"] = self._rm.objects.add_client()
            return
        block = self._block(given["pAllocParms"], given["paramsSize"])
        self._rm.alloc(
            given["hRoot"], given["hObjectParent"], given["hObjectNew"], given["hClass"], block
        )

    def _alloc_memory(self, given: Given) -> None:
        self._rm.alloc_host_memory(
            given["hRoot"], given["hObjectParent"], given["hObjectNew"], given["hClass"],
            given["pMemory"], given["limit"],
        )  # fmt: skip

    def _free(self, given: Given) -> None:
        self._rm.free(given["hRoot"], given["hObjectParent"], given["hObjectOld"])

    def _control(self, given: Given) -> None:
        block = self._block(given["params"], given["paramsSize"])
        self._rm.control(given["hClient"], given["hObject"], given["cmd"], block)
        self._driver.platform.program.write(given["params"], bytes(block))

    def _block(self, address: int, nbytes: int) -> bytearray:
        """Parameters that lie in the program's memory."""
        program = self._driver.platform.program
        return bytearray(program.read(address, nbytes) if nbytes else b"")

    def _map_memory_dma(self, given: Given) -> None:
        client = given["hClient"]
        self._rm.objects.find(client, given["hDevice"], "NV01_DEVICE_0")
        self._rm.objects.find(client, given["hDma"], "NV01_MEMORY_VIRTUAL")
        one = self._rm.objects.find(client, given["hMemory"])
        if one.memory is None or given["length"] > one.nbytes:
            raise Status("INVALID_LIMIT")
        if not given["flags"] & 1 << 15:
            raise Status("NOT_SUPPORTED", "addresses of RM's choice are not emulated")

    # -- mappings to the host ---------------------------------------------------------------------

    def _map_memory(self, given: Given) -> None:
        client, nbytes = given["hClient"], given["length"]
        self._rm.objects.find(client, given["hDevice"], "NV01_DEVICE_0", "NV20_SUBDEVICE_0")
        one = self._rm.objects.find(client, given["hMemory"], "NV01_MEMORY_SYSTEM", "USERMODE")
        target = self._driver.platform.file(given["fd"])
        if not isinstance(target, ControlFile) or given["offset"]:
            raise Status("INVALID_ARGUMENT", "fd or offset")
        if one.kind == "USERMODE":
            if target._gpu is not one.gpu or not target._is_registered:
                raise Status("INVALID_ARGUMENT", "registers are mapped by the file of their GPU")
            if nbytes != _DOORBELL_BYTES or one.gpu is None:
                raise Status("INVALID_LIMIT", f"{nbytes} bytes of registers")
            memory = MemoryObject(_DOORBELL_BYTES)
            target._mapping = Doorbells(memory, partial(_rung, one.gpu))
            return
        if target._gpu is not None or nbytes > one.nbytes:
            raise Status("INVALID_ARGUMENT", "memory of the host's is mapped by nvidiactl")
        assert isinstance(one.memory, MemoryObject)
        target._mapping = one.memory

    def map(self, nbytes: int, offset: int) -> MemoryObject | Doorbells:
        """What was made ready to be mapped."""
        found, self._mapping = self._mapping, None
        if found is None or offset:
            raise refusal(errno.EINVAL)
        return found

    def close(self) -> None:
        pass


def _rung(gpu: EmulatedGPU, offset: int, value: int) -> None:
    if offset == _DOORBELL:
        gpu.rung(value)


class UVMFile:
    """/dev/nvidia-uvm: each that is opened has ranges of its own."""

    def __init__(self, driver: EmulatedNV) -> None:
        self._driver, self._uvm = driver, UVM(driver.rm)
        names = (
            "REGISTER_GPU", "REGISTER_GPU_VASPACE", "REGISTER_CHANNEL", "ENABLE_PEER_ACCESS",
            "CREATE_EXTERNAL_RANGE", "MAP_EXTERNAL_ALLOCATION", "FREE",
        )  # fmt: skip
        self._calls = {tables.number(f"UVM_{name}"): name for name in names}

    def ioctl(self, request: int, argument: bytearray) -> None:
        """One call."""
        uvm, release = self._uvm, self._driver.release
        if request == tables.number("UVM_INITIALIZE"):
            uvm.is_initialized = True
            return
        if request == tables.number("UVM_MM_INITIALIZE"):
            return
        name = self._calls.get(request)
        if name is None:
            raise refusal(errno.ENOTTY)
        layout = tables.structure(f"UVM_{name}_PARAMS", release)
        if len(argument) < layout.nbytes:
            raise refusal(errno.EFAULT)
        given = Given(layout, argument)
        try:
            if not uvm.is_initialized:
                raise Status("INVALID_STATE", "UVM is not initialized")
            getattr(uvm, f"call_{name.lower()}")(given)
        except Status as refused:
            given["rmStatus"] = refused.number
            self._driver.platform.failure = str(refused)

    def map(self, nbytes: int, offset: int) -> MemoryObject:
        raise refusal(errno.EINVAL)

    def close(self) -> None:
        pass
