"""Handles of calls that are replaced by others: of another object, of a freed one, of none.

A program opens a device, allocates, launches, copies and frees, and in the end a kernel uses memory
of nobody's. One handle of one of its calls of RM or UVM is replaced. Then a call has to fail, the
result or the sentence about the fault to be another, or objects to be left.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import re
from collections import Counter
from random import Random
from typing import NamedTuple

import numpy as np
from tests.emulate.nv.machine import Machine, download, upload

from treadle.emulate.nv import tables
from treadle.emulate.nv.objects import Object
from treadle.errors import DeviceError, InternalError, OutOfMemory
from treadle.runtime.base import Launch

WAYS = ("another", "freed", "random")
COUNT = 64
TIMEOUT = 2.0  # of the emulated clock, which also moves while other programs have the processor
_FREED = 0x7CFFFFFF
_ARGUMENTS = {
    "RM_ALLOC": "NVOS21_PARAMETERS", "RM_ALLOC_MEMORY": "nv_ioctl_nvos02_parameters_with_fd",
    "RM_FREE": "NVOS00_PARAMETERS", "RM_CONTROL": "NVOS54_PARAMETERS",
    "RM_MAP_MEMORY": "nv_ioctl_nvos33_parameters_with_fd", "RM_MAP_MEMORY_DMA": "NVOS46_PARAMETERS",
}  # fmt: skip
_UVM = (
    "REGISTER_GPU", "REGISTER_GPU_VASPACE", "REGISTER_CHANNEL", "MAP_EXTERNAL_ALLOCATION",
)  # fmt: skip
# Of classes: their names, and what their objects are made with.
_PARAMETERS = {
    "NV01_ROOT_CLIENT": None,
    "NV01_DEVICE_0": "NV0080_ALLOC_PARAMETERS",
    "NV20_SUBDEVICE_0": "NV2080_ALLOC_PARAMETERS",
    "NV01_MEMORY_VIRTUAL": "NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS",
    "NV01_MEMORY_SYSTEM": "NV_MEMORY_ALLOCATION_PARAMS",
    "NV01_MEMORY_LOCAL_USER": "NV_MEMORY_ALLOCATION_PARAMS",
    "FERMI_VASPACE_A": "NV_VASPACE_ALLOCATION_PARAMETERS",
    "KEPLER_CHANNEL_GROUP_A": "NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS",
    "FERMI_CONTEXT_SHARE_A": "NV_CTXSHARE_ALLOCATION_PARAMETERS",
    "GT200_DEBUGGER": "NV83DE_ALLOC_PARAMETERS",
    "CHANNEL": "NV_CHANNEL_ALLOC_PARAMS",
    "COMPUTE": None, "COPY": None, "USERMODE": None,
}  # fmt: skip

_MEMORIES = ("NV01_MEMORY_SYSTEM", "NV01_MEMORY_LOCAL_USER")
_NOTIFIER = "a channel's error notifier: of a fault both channels' tell"
# Handles that leave the program right where they are another object's or nobody's, and why.
HARMLESS = {
    ("UVM_REGISTER_GPU", "hClient"): "it names who has a part of a GPU, and this GPU is whole",
    ("RM_MAP_MEMORY_DMA", "hMemory"): "RM's own mapping: engines read by UVM's, which is beside it",
    ("RM_ALLOC COPY", "hObjectNew"): "nothing names the copy object again",
    ("RM_ALLOC CHANNEL", "hObjectError"): _NOTIFIER,
    ("RM_MAP_MEMORY", "hMemory"): _NOTIFIER,
    ("RM_MAP_MEMORY", "hDevice"): "a subdevice serves as well as its device",
    ("UVM_MAP_EXTERNAL_ALLOCATION", "hMemory"): _NOTIFIER,
}


class Place(NamedTuple):
    """One handle: `field` of call number `call`. `about` is the call's name and its class's."""

    call: int
    about: str
    structure: str
    field: str


def _structures():
    """By requests, the names of calls and of their arguments."""
    found = {}
    for name, structure in _ARGUMENTS.items():
        nbytes = tables.structure(structure, 580).nbytes
        number = tables.number(f"NV_ESC_{name}")
        found[3 << 30 | nbytes << 16 | ord("F") << 8 | number] = name, structure
    for name in _UVM:
        found[tables.number(f"UVM_{name}")] = f"UVM_{name}", f"UVM_{name}_PARAMS"
    return found


_CALLS = _structures()


class Watched(Machine):
    """A machine that keeps where calls have handles, and replaces one of them."""

    def __init__(self, arch, seed=0, place=None, way="random"):
        super().__init__(arch, seed=seed, timeout=TIMEOUT)
        self.places, self._place, self._way = [], place, way
        self._random, self._number = Random(seed), -1
        self._really, self.platform.ioctl = self.platform.ioctl, self._ioctl

    def _ioctl(self, fd, request, argument):
        self._number += 1
        if request in _CALLS:
            name, structure = _CALLS[request]
            kind = self._class(argument) if name == "RM_ALLOC" else ""
            about = f"{name} {kind}".strip()
            if kind and _PARAMETERS[kind] is not None:
                at = tables.structure(structure, 580).get(argument, "pAllocParms")
                nbytes = tables.structure(_PARAMETERS[kind], 580).nbytes
                block = (ctypes.c_char * nbytes).from_address(at)
                self._look(about, _PARAMETERS[kind], memoryview(block).cast("B"))
            self._look(about, structure, argument)
        self._really(fd, request, argument)

    def _class(self, argument):
        number = tables.structure("NVOS21_PARAMETERS", 580).get(argument, "hClass")
        chip = self.driver.gpus[0].chip
        own = {"COMPUTE": chip.compute, "COPY": chip.copy, "CHANNEL": chip.channel,
               "USERMODE": chip.usermode}  # fmt: skip
        names = {name: own.get(name, name) for name in _PARAMETERS}
        return next(name for name, known in names.items() if tables.number(known) == number)

    def _look(self, about, structure, block):
        layout = tables.structure(structure, 580)
        for field in layout.fields:
            if not re.match(r"h[A-Z]|owner$", field) or field == "hClass":
                continue
            given = layout.get(block, field)
            if not given:
                continue
            place = Place(self._number, about, structure, field)
            self.places.append(place)
            if place == self._place:
                layout.put(block, field, self._other(given))

    def _other(self, given):
        objects = self.driver.rm.objects
        client = objects.first_client
        if self._way == "random":
            return self._random.randrange(1, 1 << 32)
        if self._way == "freed":
            root = objects.find(client, client)
            objects.add(client, Object(_FREED, "NV01_DEVICE_0", root, None))
            objects.remove(client, objects.find(client, _FREED))
            return _FREED
        others = [one.handle for one in objects.of(client) if one.handle != given]
        return self._random.choice(others or [given + 1])


def outcome(machine):
    """What the program comes to: "right", "wrong", what was raised, or what was left."""
    try:
        told = _run(machine)
    except (DeviceError, InternalError, OutOfMemory) as error:
        return str(error)
    gc.collect()
    objects = machine.driver.rm.objects
    left = Counter(one.kind for one in objects.of(objects.first_client))
    return told if left == LEFT else f"objects are left: {left - LEFT}"


# A device that is collected leaves its objects, but for memory.
LEFT = Counter({name: 1 for name in _PARAMETERS if name not in _MEMORIES} | {"CHANNEL": 2})


def _run(machine):
    device = machine.device()
    phase = machine.kernel(device, "add_number")
    data = np.arange(COUNT, dtype=np.int32)
    host = np.zeros(COUNT, np.int32)
    a, b = upload(device, data), device.allocator.alloc(4 * COUNT)
    c = device.allocator.from_pointer(host.ctypes.data, host.nbytes, host)
    device.run([Launch([phase], [a.argument, b.argument], [7])])
    device.run([Launch([phase], [b.argument, c.argument], [5])])
    is_right = (download(device, b) == data + 7).all() and (host == data + 12).all()
    device.run([Launch([phase], [a.argument, 0x5000], [1])])
    try:
        device.synchronize()
    except DeviceError as error:
        is_told = "used memory that is not its own, at 0x5000 (Xid 31)" in str(error)
        return "right" if is_right and is_told else "wrong"
    return "wrong"


@functools.cache
def places(arch):
    """All handles of the program's calls."""
    machine = Watched(arch)
    assert outcome(machine) == "right"
    return tuple(machine.places)


def replaced(arch, place, way, seed):
    """The outcome when one handle is another."""
    return outcome(Watched(arch, seed, place, way))


def drawn(arch, seed, count):
    """Some handles and ways that a seed draws, with their outcomes."""
    random = Random(seed)
    for _ in range(count):
        place, way = random.choice(places(arch)), random.choice(WAYS)
        yield place, way, replaced(arch, place, way, seed)
