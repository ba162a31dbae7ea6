"""Bits of queue meta data that are changed, and commands that are dropped: noticed, or harmless."""

import os

import numpy as np
import pytest
from tests.emulate.nv.machine import CHIPS, Machine, download, upload

from treadle.emulate.nv import tables
from treadle.emulate.nv.chips import chip
from treadle.emulate.nv.injection import Injection
from treadle.errors import DeviceError
from treadle.runtime.base import Launch

IS_FULL = "FULL_TESTS" in os.environ
COUNT = 64
OF_EACH_QMD = ("sm_80", "sm_90a", "sm_120")


def outcome(arch, injection, seed=0):
    """What became of a program of two copies and two kernels: "right", "wrong" or the error."""
    machine = Machine(arch, seed=seed, timeout=0.05)
    try:
        device = machine.device()
        phase = machine.kernel(device, "add_number")
        machine.driver.inject(injection)
        data = np.arange(COUNT, dtype=np.int32) + seed
        a, b = upload(device, data), device.allocator.alloc(4 * COUNT)
        steps = [Launch([phase], [a.argument, b.argument], [7])]
        device.run([*steps, Launch([phase], [b.argument, b.argument], [5])])
        return "right" if (download(device, b) == data + 12).all() else "wrong"
    except DeviceError as error:
        return str(error)
    finally:
        machine.driver.inject(None)


def bits(arch):
    """The lowest and the highest bit of each field; with `--full` all bits."""
    found = tables.qmd(chip(arch).qmd)
    if IS_FULL:
        return range(8 * found.nbytes)
    return sorted({bit for low, high in found.fields.values() for bit in (low, high)})


@pytest.mark.parametrize("arch", OF_EACH_QMD)
def test_each_changed_bit_of_meta_data_is_noticed_or_harmless(arch):
    fields = tables.qmd(chip(arch).qmd).fields
    machine = Machine(arch, seed=1)
    device = machine.device()
    phase = machine.kernel(device, "add_number")
    device.synchronize()
    compute = next(
        engine
        for channel in machine.driver.gpus[0].channels.values()
        for engine in channel._bound.values()
        if hasattr(engine, "_meta_data")
    )
    data = np.arange(COUNT, dtype=np.int32)
    noticed, harmless = [], []
    a, b = upload(device, data), upload(device, np.zeros(COUNT, np.int32))
    at = device._arguments.address
    for bit in bits(arch):
        device.run([Launch([phase], [a.argument, b.argument], [bit])])
        device.synchronize()
        where = machine.dispatches[-1].banks[0][0]
        assert where >= at
        machine.driver.inject(Injection("qmd", bit=bit))
        try:
            compute._run(phase.meta_data_at(where), set())
        except Exception as error:
            noticed.append((bit, type(error).__name__))
        else:
            harmless.append(bit)
            assert (download(device, b) == data + bit).all(), bit
        finally:
            machine.driver.inject(None)
    assert {name for _, name in noticed} <= {"ChannelFault", "MemoryFault"}
    names = {
        name for name, (low, high) in fields.items() if any(low <= x <= high for x in harmless)
    }
    assert len(noticed) > 10 * len(harmless)
    assert names <= HARMLESS, names - HARMLESS


# Fields whose other values leave the result right, and why:
HARMLESS = {
    # caches that no kernel uses, and how fast something is
    "SM_GLOBAL_CACHING_ENABLE", "INVALIDATE_TEXTURE_HEADER_CACHE",
    "INVALIDATE_TEXTURE_SAMPLER_CACHE", "INVALIDATE_TEXTURE_DATA_CACHE", "SAMPLER_INDEX",
    "API_VISIBLE_CALL_LIMIT", "DEPENDENT_QMD0_PREFETCH", "DEPENDENT_QMD_PREFETCH[0]",
    # more than the kernel needs
    "REGISTER_COUNT", "REGISTER_COUNT_V", "BARRIER_COUNT", "SHARED_MEMORY_SIZE",
    "SHARED_MEMORY_SIZE_SHIFTED7", *(f"CONSTANT_BUFFER_SIZE_SHIFTED4[{n}]" for n in range(8)),
    # how a multiprocessor divides its memory, within what it has
    "MIN_SM_CONFIG_SHARED_MEM_SIZE", "MAX_SM_CONFIG_SHARED_MEM_SIZE",
    "TARGET_SM_CONFIG_SHARED_MEM_SIZE",
}  # fmt: skip

DROPPED = ("acquire", "release", "order", "idle", "mapping")


@pytest.mark.parametrize("kind", DROPPED)
def test_a_dropped_command_is_noticed_or_leaves_the_result_right(kind):
    seeds = range(200 if IS_FULL else 8)
    found = [outcome("sm_80", Injection(kind), seed) for seed in seeds]
    assert any(one != "right" for one in found)
    if kind in ("release", "mapping"):
        assert all("NV: " in one for one in found)  # a timeout, or a fault


@pytest.mark.parametrize("arch", CHIPS if IS_FULL else ("sm_80",))
def test_nothing_dropped_is_right_at_every_seed(arch):
    assert {outcome(arch, None, seed) for seed in range(200 if IS_FULL else 6)} == {"right"}
