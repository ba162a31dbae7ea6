"""A process with one emulated GPU, whose calls are made by NVIDIA's headers alone."""

import ctypes
import sys

import pytest

from treadle.emulate.machine.platform import EmulatedPlatform
from treadle.emulate.nv import EmulatedNV, tables

collect_ignore_glob = [] if sys.platform == "linux" else ["*"]  # memory in files without names

PAGE = 4096


class Refused(Exception):
    """A call of the driver's that gave a status."""

    def __init__(self, status):
        names = [name for name in ALL if tables.number(f"NV_ERR_{name}") == status]
        super().__init__(*names)


ALL = (
    "GPU_IS_LOST", "INSERT_DUPLICATE_NAME", "INVALID_ADDRESS", "INVALID_ARGUMENT",
    "INVALID_CLASS", "INVALID_CLIENT", "INVALID_DEVICE", "INVALID_LIMIT",
    "INVALID_OBJECT_HANDLE", "INVALID_OBJECT_PARENT", "INVALID_PARAM_STRUCT", "INVALID_STATE",
    "NO_MEMORY", "NOT_SUPPORTED", "UVM_ADDRESS_IN_USE",
)  # fmt: skip


class Process:
    """A program that knows the driver by its headers: nothing here is the runtime's."""

    def __init__(self, arch="sm_80", seed=0, release=580, execute=lambda dispatch: None, **options):
        self.platform, self.release = EmulatedPlatform(seed, sees_host=False), release
        version = {570: "570.133.20", 580: "580.142", 590: "590.48.01"}[release]
        self.driver = EmulatedNV(self.platform, [arch], execute, version=version, **options)
        self.gpu = self.driver.gpus[0]
        self.control = self.platform.open("/dev/nvidiactl")
        self.uvm_fd = self.platform.open("/dev/nvidia-uvm")
        self.client = self.escape("RM_ALLOC", "NVOS21_PARAMETERS", hClass=0x41)["hObjectNew"]
        self._handles = iter(range(0x100, 0x1000))

    def layout(self, name):
        return tables.structure(name, self.release)

    def block(self, structure, **values):
        layout = self.layout(structure)
        made = bytearray(layout.nbytes)
        for field, value in values.items():
            layout.put(made, field, value)
        return made

    def escape(self, call, structure, on=None, **values):
        argument = self.block(structure, **values)
        number = tables.number(f"NV_ESC_{call}")
        request = 3 << 30 | len(argument) << 16 | ord("F") << 8 | number
        self.platform.ioctl(self.control if on is None else on, request, argument)
        layout = self.layout(structure)
        if "status" in layout.fields and (status := layout.get(argument, "status")):
            raise Refused(status)
        return {field: layout.get(argument, field) for field in layout.fields}

    def alloc(self, parent, kind, structure=None, handle=None, **values):
        """A new object; its handle."""
        block = self.block(structure, **values) if structure else bytearray()
        handle = next(self._handles) if handle is None else handle
        address = ctypes.addressof(ctypes.c_char.from_buffer(block)) if block else 0
        number = kind if isinstance(kind, int) else tables.number(kind)
        self.escape(
            "RM_ALLOC", "NVOS21_PARAMETERS", hRoot=self.client, hObjectParent=parent,
            hObjectNew=handle, hClass=number, pAllocParms=address, paramsSize=len(block),
        )  # fmt: skip
        return handle

    def ask(self, handle, command, structure, **values):
        """A control call."""
        block = self.block(structure, **values)
        self.escape(
            "RM_CONTROL", "NVOS54_PARAMETERS", hClient=self.client, hObject=handle,
            cmd=tables.number(command),
            params=ctypes.addressof(ctypes.c_char.from_buffer(block)), paramsSize=len(block),
        )  # fmt: skip
        layout = self.layout(structure)
        return {field: layout.get(block, field) for field in layout.fields}

    def free(self, parent, handle):
        self.escape(
            "RM_FREE", "NVOS00_PARAMETERS", hRoot=self.client, hObjectParent=parent,
            hObjectOld=handle,
        )  # fmt: skip

    def uvm(self, call, **values):
        structure = f"UVM_{call}_PARAMS"
        argument = self.block(structure, **values)
        self.platform.ioctl(self.uvm_fd, tables.number(f"UVM_{call}"), argument)
        status = self.layout(structure).get(argument, "rmStatus")
        if status:
            raise Refused(status)

    # -- the chain --------------------------------------------------------------------------------

    def open(self):
        """A device with its subdevice and address space, known to UVM."""
        self.file = self.platform.open("/dev/nvidia0")
        self.escape("REGISTER_FD", "nv_ioctl_register_fd_t", on=self.file, ctl_fd=self.control)
        self.device = self.alloc(self.client, "NV01_DEVICE_0", "NV0080_ALLOC_PARAMETERS")
        self.subdevice = self.alloc(self.device, "NV20_SUBDEVICE_0", "NV2080_ALLOC_PARAMETERS")
        self.space = self.alloc(
            self.device, "FERMI_VASPACE_A", "NV_VASPACE_ALLOCATION_PARAMETERS", flags=1 << 3
        )
        self.uvm("INITIALIZE")
        self.mine = {"rmCtrlFd": self.control, "hClient": self.client}
        self.uuid = int.from_bytes(self.gpu.uuid, "little")
        self.uvm("REGISTER_GPU", gpu_uuid=self.uuid, **self.mine)
        self.uvm("REGISTER_GPU_VASPACE", gpuUuid=self.uuid, hVaSpace=self.space, **self.mine)
        return self

    def memory(self, nbytes=PAGE, kind="NV01_MEMORY_SYSTEM", **values):
        """A memory object of the host's, or of the GPU's."""
        location = 1 << 25 if kind == "NV01_MEMORY_SYSTEM" else 0
        given = {
            "owner": self.client, "flags": 0x4000, "attr": location, "size": nbytes,
            "limit": nbytes - 1,
        }  # fmt: skip
        return self.alloc(self.device, kind, "NV_MEMORY_ALLOCATION_PARAMS", **{**given, **values})

    def mapped(self, nbytes=PAGE, kind="NV01_MEMORY_SYSTEM"):
        """Memory at an address of the GPU's and, if it is the host's, of this process."""
        handle = self.memory(nbytes, kind)
        at = self.platform.reserve_low(nbytes, PAGE)
        self.map_for_gpu(handle, at, nbytes)
        if kind == "NV01_MEMORY_SYSTEM":
            self.map_for_host(handle, at, nbytes)
        return at, handle

    def map_for_host(self, handle, at, nbytes, path="/dev/nvidiactl"):
        fd = self.platform.open(path)
        if path != "/dev/nvidiactl":
            self.escape("REGISTER_FD", "nv_ioctl_register_fd_t", on=fd, ctl_fd=self.control)
        self.escape(
            "RM_MAP_MEMORY", "nv_ioctl_nvos33_parameters_with_fd", hClient=self.client,
            hDevice=self.device, hMemory=handle, length=nbytes, fd=fd,
        )  # fmt: skip
        self.platform.map(fd, nbytes, 0, at)

    def map_for_gpu(self, handle, at, nbytes):
        self.uvm("CREATE_EXTERNAL_RANGE", base=at, length=nbytes)
        layout = self.layout("UvmGpuMappingAttributes")
        row = bytearray(layout.nbytes)
        layout.put(row, "gpuUuid", self.uuid)
        layout.put(row, "gpuMappingType", 1)
        self.uvm(
            "MAP_EXTERNAL_ALLOCATION", base=at, length=nbytes,
            perGpuAttributes=int.from_bytes(row, "little"), gpuAttributesCount=1, hMemory=handle,
            **self.mine,
        )  # fmt: skip


@pytest.fixture
def process():
    return Process().open()
