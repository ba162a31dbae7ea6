"""Bits of queue meta data (QMD) that are changed, one at a time: noticed, or harmless.

A seed chooses what is launched: a kernel that adds, keeps an array in local memory, exchanges by
shared memory or reads variables; how many blocks and threads; alone, or before another launch. Each
bit of the first launch's meta data is changed, and the launch starts again. The GPU has to stop, or
the result is wrong; or it is right, and the field is one of those that can do no harm.
"""

from __future__ import annotations

import functools
import re
from random import Random

import numpy as np
from tests.emulate.nv.machine import Machine, compiled, download, upload

from treadle.emulate.machine.memory import MemoryFault
from treadle.emulate.nv import tables
from treadle.emulate.nv.chips import chip
from treadle.emulate.nv.faults import ChannelFault
from treadle.emulate.nv.injection import Injection
from treadle.emulate.nv.meta_data import IGNORED, MetaData
from treadle.runtime.base import Entry, Launch, Slot

KERNELS = ("add_number", "spill", "share", "globals")
_MORE = "the launch has more than the kernel needs; with less it stops"
_DIVIDED = "how a multiprocessor divides its memory, within what it has and the kernel needs"
# Fields of which some values leave the result right, and why; others stop the launch.
SOMETIMES = {
    "REGISTER_COUNT": _MORE, "BARRIER_COUNT": _MORE, "SHARED_MEMORY_SIZE": _MORE,
    **{f"CONSTANT_BUFFER_SIZE[{n}]": _MORE for n in (0, 3, 4)},
    "CONSTANT_BUFFER_ADDR_LOWER[4]": "for kernels without variables, whose addresses are there",
    "MIN_SM_CONFIG_SHARED_MEM_SIZE": _DIVIDED, "MAX_SM_CONFIG_SHARED_MEM_SIZE": _DIVIDED,
    "TARGET_SM_CONFIG_SHARED_MEM_SIZE": _DIVIDED,
}  # fmt: skip
HARMLESS = IGNORED | SOMETIMES


class Bench:
    """A launch that starts again and again, with one bit of its meta data changed."""

    def __init__(self, arch, seed):
        random = Random(seed)
        self.machine = Machine(arch, seed=seed)
        self.device = device = self.machine.device()
        kernel, threads = random.choice(KERNELS), random.choice((32, 64, 96))
        blocks = random.choice((1, 2, 3)) if kernel == "add_number" else 1
        shared = 4 * threads if kernel == "share" else 0
        entries = [
            Entry(name, blocks, threads, (Slot(0, 4, True), Slot(1, 4, True)), (0,), shared=bytes_)
            for name, bytes_ in ((kernel, shared), ("add_number", 0))
        ]
        phase, after = device.load(compiled(arch), entries).phases  # of one copy of the code
        self.count, number = blocks * threads, random.randrange(1, 1000)
        a = upload(device, np.arange(self.count, dtype=np.int32))
        b, c = (upload(device, np.zeros(self.count, np.int32)) for _ in range(2))
        launches = [Launch([phase], [a.argument, b.argument], [number])]
        if random.random() < 0.5:
            launches.append(Launch([after], [b.argument, c.argument], [number]))
        calls = device.call_list(launches)  # whose launches start each other
        calls.run()
        self.wanted = [download(device, one) for one in (b, c)]
        self._addresses = [one.argument for one in (b, c)]
        self._held = a, b, c, calls
        self._at = phase.meta_data_at(self.machine.dispatches[0].banks[0][0])
        gpu = self.machine.driver.gpus[0]
        self._engine, self._chip = engine_of(gpu), gpu.chip
        self.table = tables.qmd(gpu.chip.qmd)
        self._data = self._engine.space.read(self._at, self.table.nbytes)
        nothing = bytes(
            4 * calls._argument_words
        )  # no second copy, which a changed address may hit
        self._engine.space.write(calls._copies[1].image.address, nothing)
        self._plain = vars(MetaData(gpu.chip, self._data))

    def outcome(self, bit):
        """What comes of one other bit: "right", "wrong", or what stops the launch."""
        changed = int.from_bytes(self._data, "little") ^ 1 << bit
        try:
            meta = MetaData(self._chip, changed.to_bytes(len(self._data), "little"))
            if vars(meta) == self._plain:
                return "right"  # nothing of the launch has changed
            return self._launched(bit)
        except (ChannelFault, MemoryFault) as fault:
            return str(fault)

    def _launched(self, bit):
        space = self._engine.space
        for address in self._addresses:
            space.write(address, bytes(4 * self.count))
        injection = Injection("qmd", every=1 << 40, bit=bit)
        self.machine.driver.inject(injection)
        try:
            self._engine.start(self._at, set())
        finally:
            self.machine.driver.inject(None)
        found = [space.read(address, 4 * self.count) for address in self._addresses]
        return "right" if found == [one.tobytes() for one in self.wanted] else "wrong"


def engine_of(gpu):
    """The compute engine of a GPU's channels."""
    engines = [one for channel in gpu.channels.values() for one in channel.bound.values()]
    return next(one for one in engines if hasattr(one, "start"))


def plain(name):
    """A field's name without its unit, and as most versions have it."""
    return re.sub(r"_SHIFTED\d+", "", name).replace("REGISTER_COUNT_V", "REGISTER_COUNT")


@functools.cache
def field_of_bits(version):
    """By bits, the names of the fields that they belong to, without their units."""
    fields = tables.qmd(version).fields.items()
    return {bit: plain(name) for name, (low, high) in fields for bit in range(low, high + 1)}


def changed_bits(arch, seed, bits=None):
    """By outcomes, the bits of all fields, or of some bits: {"right": [...], "wrong": ...}."""
    bench, found = Bench(arch, seed), {"right": [], "wrong": [], "stopped": []}
    names = field_of_bits(chip(arch).qmd)
    for bit in range(8 * bench.table.nbytes) if bits is None else bits:
        what = bench.outcome(bit)
        found[what if what in found else "stopped"].append((bit, names.get(bit, "")))
    return found
