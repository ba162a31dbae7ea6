"""A process with one emulated GPU, whose calls are made by the numbers of kfd_ioctl.h alone."""

import ctypes
import sys

import pytest

from treadle.emulate.kfd import EmulatedKFD, tables
from treadle.emulate.machine.platform import EmulatedPlatform

collect_ignore_glob = [] if sys.platform == "linux" else ["*"]  # memory in files without names

WRITABLE, EXECUTABLE = 1 << 31, 1 << 30
PAGE = 4096


class Process:
    """A program that knows the driver by its header: nothing here is the runtime's."""

    def __init__(self, arch="gfx1100", seed=0, execute=lambda dispatch: None, **options):
        self.platform = EmulatedPlatform(seed, sees_host=False)
        self.driver = EmulatedKFD(self.platform, [arch], execute, **options)
        self.gpu = self.driver.gpus[0]
        self.fd = self.platform.open("/dev/kfd")
        self.render = self.platform.open("/dev/dri/renderD128")

    def call(self, name, **values):
        number, found = next(
            (number, one) for number, one in tables.ioctls().items() if one.name == name
        )
        argument = bytearray(found.layout.nbytes)
        for field, value in values.items():
            found.layout.put(argument, field, value)
        self.platform.ioctl(self.fd, number, argument)
        return {field: found.layout.get(argument, field) for field in found.layout.fields}

    def acquire(self):
        self.call("acquire_vm", drm_fd=self.render, gpu_id=self.gpu.gpu_id)

    def alloc(self, nbytes, kind=2, flags=WRITABLE | EXECUTABLE, at=None, **values):
        at = self.platform.reserve(nbytes, PAGE) if at is None else at
        given = self.call(
            "alloc_memory_of_gpu", va_addr=at, size=nbytes, gpu_id=self.gpu.gpu_id,
            flags=kind | flags, **values,
        )  # fmt: skip
        return at, given["handle"], given["mmap_offset"]

    def on_gpus(self, call, handle, *gpus):
        ids = (ctypes.c_uint32 * len(gpus))(*gpus)
        return self.call(
            call, handle=handle, device_ids_array_ptr=ctypes.addressof(ids), n_devices=len(gpus)
        )["n_success"]

    def mapped(self, nbytes, kind=2, flags=WRITABLE | EXECUTABLE):
        """Memory that the GPU has, and the host too if it is the host's."""
        at, handle, offset = self.alloc(nbytes, kind, flags)
        if kind == 2:
            self.platform.map(self.render, nbytes, offset, at)
        self.on_gpus("map_memory_to_gpu", handle, self.gpu.gpu_id)
        return at


@pytest.fixture
def process():
    process = Process()
    process.acquire()
    return process
