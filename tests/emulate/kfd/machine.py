"""Emulated AMD GPUs whose kernels are Python functions, and devices of the runtime on them.

    machine = Machine("gfx1100", seed=3)
    device = machine.device()
    double = machine.kernel(device, double_all, slots=2)
    device.run([Launch([double], [a.argument, b.argument], [count])])

A kernel's code is a number by which `execute` finds the function. It is called with a Run, which
has the arguments, and the memory as the GPU sees it.
"""

import struct

import numpy as np
from tests.emulate import machines
from tests.emulate.machines import download, upload

from treadle.emulate.kfd import EmulatedKFD, KernelFault
from treadle.runtime.base import Entry, Slot
from treadle.runtime.hardware.amd import KFD, AMDDevice
from treadle.runtime.hardware.codeobject import Argument, Descriptor, Image, KernelCode

__all__ = ["KERNARG_SGPRS", "Machine", "Run", "download", "load", "upload"]

KERNARG_SGPRS = 1 << 3
WAVE32 = 1 << 10
MAGIC = 0xC0DE0000


class Run:
    """A launch as the function of a kernel sees it."""

    def __init__(self, dispatch, kernarg):
        self.dispatch, self.space, self._kernarg = dispatch, dispatch.space, kernarg

    def addresses(self, count):
        return struct.unpack(f"<{count}Q", self.space.read(self._kernarg, 8 * count))

    def integers(self, slots, count):
        return struct.unpack(f"<{count}i", self.space.read(self._kernarg + 8 * slots, 4 * count))

    def read(self, address, count, dtype=np.int32):
        nbytes = count * np.dtype(dtype).itemsize
        return np.frombuffer(self.space.read(address, nbytes), dtype).copy()

    def write(self, address, values):
        self.space.write(address, np.asarray(values).tobytes())


class Machine(machines.Machine):
    """A computer with emulated GPUs."""

    prefix = "AMD"

    def __init__(self, *archs, uses_aql=None, **options):
        self.functions, self._uses_aql = [], uses_aql
        super().__init__(*archs, **options)

    def make_driver(self, archs, **options):
        return EmulatedKFD(self.platform, archs, self.execute, **options)

    def open_driver(self):
        return KFD(self.platform)

    def open_device(self, name, index):
        return AMDDevice(
            name, self.opened, index, lambda node: node.arch,
            uses_aql=self._uses_aql, timeout=self.timeout,
        )  # fmt: skip

    def run_dispatch(self, dispatch):
        (code,) = struct.unpack("<Q", dispatch.space.fetch(dispatch.program, 8))
        if code & 0xFFFF0000 != MAGIC:
            raise KernelFault(f"{code:#x} is no instruction")
        low, high = dispatch.user_sgprs[:2]
        self.functions[code & 0xFFFF](Run(dispatch, low | high << 32))

    def kernel(self, device, function, slots=1, variables=0, grid=1, work_items=64, **more):
        """A phase that calls a function, in the GPU's memory."""
        self.functions.append(function)
        code = MAGIC | len(self.functions) - 1
        name = getattr(function, "__name__", "kernel")
        return load(device, name, code, slots, variables, grid, work_items, **more)


def load(
    device, name, code, slots, variables, grid, work_items, *,
    private=0, group=0, shared=0, rsrc1=0x00AC0000, rsrc3=0, properties=None,
):  # fmt: skip
    """A kernel of which the code is a number: its descriptor, and the code behind it."""
    properties = KERNARG_SGPRS if properties is None else properties
    properties |= WAVE32 if device.node.wave == 32 else 0
    words = sum(n for bit, n in enumerate((4, 2, 2, 2, 2, 2, 1)) if properties >> bit & 1)
    rsrc2 = words << 1 | 1 << 7 | (1 if private else 0)
    descriptor = struct.pack(
        "<IIIIq20sIIIHHI", group, private, 8 * slots + 4 * variables, 0, 256, bytes(20), rsrc3,
        rsrc1, rsrc2, properties, 0, 0,
    )  # fmt: skip
    data = descriptor.ljust(256, b"\0") + struct.pack("<Q", code)
    arguments = [Argument(8 * n, 8, "global_buffer") for n in range(slots)]
    arguments += [Argument(8 * slots + 4 * n, 4, "by_value") for n in range(variables)]
    kernel = KernelCode(
        name, 0, 256, Descriptor.read(data, 0), tuple(arguments), device.node.wave, 0, 0, 0, 1024
    )
    entry = Entry(
        name, grid, work_items, tuple(Slot(number, 4, True) for number in range(slots)),
        tuple(range(variables)), shared=shared,
    )  # fmt: skip
    (phase,) = device.load_image(Image(data, 256, 0, {name: kernel}), [entry]).phases
    return phase
