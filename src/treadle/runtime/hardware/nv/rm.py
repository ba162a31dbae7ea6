"""NVIDIA's kernel driver as one object of a process: its resource manager (RM) and UVM.

    rm = RM(platform)                             # DeviceError where it is not there, or too old
    device = rm.alloc(rm.client, DEVICE, "device", deviceId=0)
    rm.control(device, "class_list")["numClasses"]
    rm.free(rm.client, device)

Everything is an object of RM's: a number of ours, its class and its parent. What lies at addresses
of a GPU is an external range of UVM's, which is mapped and freed by itself: never managed memory.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from treadle.errors import DeviceError
from treadle.runtime.hardware.adapter import numbered
from treadle.runtime.hardware.failures import opening, opening_failed
from treadle.runtime.hardware.host_memory import address_of
from treadle.runtime.hardware.nv.abi import Call, abi_of, is_newer
from treadle.runtime.hardware.nv.failures import ADVICE, RMError
from treadle.runtime.hardware.platform import Platform
from treadle.runtime.hardware.structs import Struct, Value

__all__ = ["CONTROL", "RM", "Card"]

CONTROL, _UVM = "/dev/nvidiactl", "/dev/nvidia-uvm"
_ABOUT = "/proc/driver/nvidia/version"
_ROOT_CLIENT = 0x41  # NV01_ROOT_CLIENT
_QUERY = ord("2")  # NV_RM_API_VERSION_CMD_QUERY
_HANDLES = 0x7D000000  # RM's own begin at 0xC1D00000


class Card(NamedTuple):
    """A GPU that the driver shows."""

    gpu_id: int
    minor: int

    @property
    def path(self) -> str:
        return f"/dev/nvidia{self.minor}"


class RM:
    """The opened driver. All threads may use it. `fd` is /dev/nvidiactl. Raises DeviceError."""

    def __init__(self, platform: Platform) -> None:
        self.platform, self._newer = platform, ""
        self._files: list[int] = []  # to be closed where the rest fails
        try:
            with opening("NV", "open the kernel driver"):
                self._begin()
        except BaseException:
            for fd in self._files:
                platform.close(fd)
            raise

    def _begin(self) -> None:
        self.fd = self._open(CONTROL)
        self._refuse_closed()
        self.abi = abi_of("570.0")  # the calls up to here are the same in all
        self.version = self._version()
        self.abi = abi_of(self.version)
        self._newer = self.version if is_newer(self.version) else ""
        self._uvm_fd = self._open(_UVM)
        self._numbers = itertools.count(_HANDLES + 1)
        given = self._escape("alloc", hClass=_ROOT_CLIENT)
        self.client: int = given["hObjectNew"]
        self.uvm("initialize")
        self._initialize_memory_management()
        self.cards = self._cards()
        self.opened: dict[int, object] = {}  # by GPU: UVM knows one address space of each

    def _open(self, path: str) -> int:
        try:
            self._files.append(fd := self.platform.open(path))
        except OSError as error:
            raise opening_failed(ADVICE, path, error) from error
        return fd

    def _close(self, fd: int) -> None:
        self._files.remove(fd)
        self.platform.close(fd)

    def _refuse_closed(self) -> None:
        """The closed kernel modules have another interface for some of this."""
        try:
            about = self.platform.read_text(_ABOUT)
        except OSError:  # a container may hide it
            return
        if "Open Kernel Module" not in about:
            raise DeviceError(
                "NV: the kernel driver is NVIDIA's closed one, and only the open kernel modules "
                "are known to work; install those (nvidia-open), or use DEV=CUDA"
            )

    def _version(self) -> str:
        given = self._ioctl(self.fd, "check_version", self.abi.calls["check_version"], cmd=_QUERY)
        return bytes(given["versionString"]).split(b"\0")[0].decode(errors="replace")

    def _initialize_memory_management(self) -> None:
        """Some kernels refuse it; then pages of the host are known to UVM by its own file."""
        second = self._open(_UVM)
        try:
            call = self.abi.uvm["mm_initialize"]
            self._ioctl(second, "mm_initialize", call, uvmFd=self._uvm_fd)
        except RMError:
            self._close(second)

    def _cards(self) -> list[Card]:
        given = self._ioctl(self.fd, "card_info", self.abi.calls["card_info"])
        return [Card(one["gpu_id"], one["minor_number"]) for one in given["cards"] if one["valid"]]

    # -- calls ------------------------------------------------------------------------------------

    def _ioctl(self, fd: int, name: str, call: Call, /, **values: Value) -> dict[str, Value]:
        request, layout = call
        argument = layout.pack(**values)
        try:
            self.platform.ioctl(fd, request, argument)
        except OSError as error:
            raise self._refused(name, error=error) from error
        return layout.unpack(argument)

    def _refused(self, name: str, status: int = 0, error: OSError | None = None) -> RMError:
        return RMError(name, status, error, self._newer)

    def _escape(self, name: str, /, **values: Value) -> dict[str, Value]:
        given = self._ioctl(self.fd, name, self.abi.calls[name], **values)
        status = given["status"] if "status" in given else given["params"]["status"]
        if status:
            raise self._refused(name, status)
        return given

    def uvm(self, name: str, /, **values: Value) -> None:
        """One call of UVM's. Raises RMError."""
        request, layout = self.abi.uvm[name]
        argument = layout.pack(**values)
        try:
            self.platform.ioctl(self._uvm_fd, request, argument)
        except OSError as error:
            raise self._refused(name, error=error) from error
        at = layout.offsets["rmStatus"]
        status = int.from_bytes(argument[at : at + 4], "little")
        if status:
            raise self._refused(name, status)

    def uvm_free(self, base: int, nbytes: int) -> None:
        """An external range is no more, with all that is mapped to it."""
        has_length = "length" in self.abi.uvm["free"].argument.offsets
        self.uvm("free", base=base, **({"length": nbytes} if has_length else {}))

    # -- objects ----------------------------------------------------------------------------------

    def alloc(self, parent: int, kind: int, layout: str | None = None, **values: Value) -> int:
        """A new object of class `kind`; its number. `layout` names its parameters in the ABI."""
        number = next(self._numbers)
        block = self.abi.parameters[layout].pack(**values) if layout else bytearray(1)
        self._escape(
            "alloc",
            hRoot=self.client,
            hObjectParent=parent,
            hObjectNew=number,
            hClass=kind,
            pAllocParms=address_of(block) if layout else 0,
            paramsSize=len(block) if layout else 0,
        )
        return number

    def alloc_host_memory(self, device: int, kind: int, flags: int, address: int, n: int) -> int:
        """A memory object of `n` bytes that this process has already; its number."""
        number = next(self._numbers)
        given = {
            "hRoot": self.client, "hObjectParent": device, "hObjectNew": number, "hClass": kind,
            "flags": flags, "pMemory": address, "limit": n - 1,
        }  # fmt: skip
        self._escape("alloc_memory", params=given, fd=-1)
        return number

    def free(self, parent: int, number: int) -> None:
        """An object, with all that are below it, is no more."""
        self._escape("free", hRoot=self.client, hObjectParent=parent, hObjectOld=number)

    def control(self, number: int, name: str, /, **values: Value) -> dict[str, Value]:
        """A control call of an object; what its parameters hold then."""
        command, layout = self.abi.controls[name]
        block = layout.pack(**values)
        self._escape(
            "control",
            hClient=self.client,
            hObject=number,
            cmd=command,
            params=address_of(block),
            paramsSize=len(block),
        )
        return layout.unpack(block)

    def list_control(
        self, number: int, name: str, layout: Struct, fields: tuple[str, str], indices: list[int]
    ) -> list[int]:
        """A control call about a list that lies elsewhere: a value for each index."""
        block = bytearray().join(layout.pack(index=index) for index in indices)
        count, pointer = fields
        self.control(number, name, **{count: len(indices), pointer: address_of(block)})
        each = layout.nbytes
        return [layout.unpack(block[at : at + each])["data"] for at in range(0, len(block), each)]

    # -- files and mappings -----------------------------------------------------------------------

    def open_card(self, card: Card) -> int:
        """A GPU's file, which belongs to this client from now on. Raises DeviceError."""
        fd = self._open(card.path)
        try:
            self._register(fd)
        except BaseException:
            self._close(fd)
            raise
        return fd

    def close_card(self, fd: int) -> None:
        """The file of a GPU is no longer open."""
        self._close(fd)

    def _register(self, fd: int) -> None:
        self._ioctl(fd, "register_fd", self.abi.calls["register_fd"], ctl_fd=self.fd)

    def map_to_host(self, path: str, device: int, memory: int, nbytes: int, address: int) -> None:
        """Maps a memory object to reserved addresses, by /dev/nvidiactl or a GPU's file."""
        fd = self._open(path)
        try:
            if path != CONTROL:
                self._register(fd)
            given = {
                "hClient": self.client, "hDevice": device, "hMemory": memory, "length": nbytes,
            }  # fmt: skip
            self._escape("map_memory", params=given, fd=fd)
            self.platform.map(fd, nbytes, 0, address)
        except OSError as error:
            raise self._refused("mmap", error=error) from error
        finally:
            self._close(fd)  # what is mapped stays so

    def map_to_gpu(self, device: int, space: int, memory: int, nbytes: int, address: int) -> None:
        """Maps a memory object into a device's own virtual memory, at a chosen address."""
        self._escape(
            "map_memory_dma",
            hClient=self.client,
            hDevice=device,
            hDma=space,
            hMemory=memory,
            length=nbytes,
            flags=_DMA_FLAGS,
            dmaOffset=address,
        )

    def card(self, index: int, name: str) -> Card:
        """GPU `index`. Raises DeviceError if there is none."""
        return numbered(self.cards, index, name)


# NVOS46: pages of 4 KiB (11:8), snooped (4), at the address that is given (15).
_DMA_FLAGS = 1 << 8 | 1 << 4 | 1 << 15
