"""Scratch memory: by each generation's rules, as the emulated GPU reads its registers."""

import pytest
from tests.emulate.kfd.machine import KERNARG_SGPRS, Machine

from treadle.runtime.base import Launch

SCRATCH_DESCRIPTOR, FLAT_SCRATCH, PRIVATE_SIZE = 1 << 0, 1 << 5, 1 << 6
GPUS = [
    ("gfx90a", False), ("gfx90a", True), ("gfx942", True), ("gfx1030", False), ("gfx1030", True),
    ("gfx1100", False), ("gfx1100", True), ("gfx1201", False), ("gfx1201", True),
]  # fmt: skip


@pytest.fixture(params=GPUS, ids=lambda row: f"{row[0]}-{'AQL' if row[1] else 'PM4'}")
def machine(request):
    arch, uses_aql = request.param
    return Machine(arch, uses_aql=uses_aql, vram=1 << 40)


def run(machine, device, private, properties=None):
    phase = machine.kernel(device, lambda run: None, private=private, properties=properties)
    device.run([Launch([phase], [0])])
    device.synchronize()
    return machine.dispatches[-1]


def small(machine):
    """A device that says that few waves have scratch memory, so that this is small."""
    path = "/sys/devices/virtual/kfd/kfd/topology/nodes/1/properties"
    text = machine.platform.read_text(path)
    slots = "max_slots_scratch_cu"
    machine.platform.add_text(path, text.replace(f"{slots} 32", f"{slots} 1"))
    return machine.device()


def test_a_wave_has_what_its_work_items_need_in_the_unit_of_the_generation(machine):
    device = small(machine)
    unit = 256 if device.generation.name in ("gfx11", "gfx12") else 1024
    for private in (4, 100):
        seen = run(machine, device, private)
        need = private * device.node.wave
        if machine._uses_aql:
            assert seen.scratch_wave >= need
        else:
            assert seen.scratch_wave == -(-need // unit) * unit


def test_all_waves_fit_into_the_memory(machine):
    device = small(machine)
    seen = run(machine, device, 64)
    block = device.scratch.block
    waves = device.node.units * device.node.slots
    assert block.nbytes >= waves * seen.scratch_wave
    machine.driver.gpus[0].space.pieces(block.address, block.nbytes, 3)  # is mapped


def test_launches_that_are_given_together_have_what_the_last_of_them_needs(machine):
    """What there was before is freed: a launch that was prepared before would use it."""
    device = small(machine)
    phases = [machine.kernel(device, lambda run: None, private=nbytes) for nbytes in (16, 4096)]
    device.run([Launch([phase], [0]) for phase in phases])
    device.synchronize()
    assert len({seen.scratch for seen in machine.dispatches}) == 1
    assert machine.dispatches[0].scratch in (0, device.scratch.base)


def test_newer_gpus_are_told_by_a_register_where_it_is(machine):
    device = small(machine)
    seen = run(machine, device, 64)
    is_told = device.node.arch in ("gfx942", "gfx1100", "gfx1201")
    assert seen.scratch == (device.scratch.base if is_told else 0)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1030"])
def test_older_gpus_are_told_by_scalar_registers(arch):
    machine = Machine(arch, vram=1 << 40)
    device = small(machine)
    wants = SCRATCH_DESCRIPTOR | KERNARG_SGPRS | FLAT_SCRATCH | PRIVATE_SIZE
    phase = machine.kernel(device, lambda run: None, private=64, properties=wants)
    machine.driver.gpus[0].execute = machine.dispatches.append
    device.run([Launch([phase], [0])])
    device.synchronize()
    words = machine.dispatches[-1].user_sgprs
    assert len(words) == 9
    assert words[0] | (words[1] & 0xFFFF) << 32 == device.scratch.base
    assert words[1] >> 31 == 1  # swizzled
    block = device.scratch.block
    assert block is not None
    assert words[2] == block.nbytes
    assert words[3] >> 23 & 1 == 1  # each lane its own element
    assert 8 << (words[3] >> 21 & 3) == machine.dispatches[-1].wave  # which take turns
    assert words[6] | words[7] << 32 == device.scratch.base
    assert words[8] == 64


def test_a_kernel_that_needs_more_gets_more_and_replays_know(machine):
    device = small(machine)
    first = machine.kernel(device, lambda run: None, private=16)
    calls = device.call_list([Launch([first], [0])])
    calls.run()
    device.synchronize()
    before = device.scratch.base
    run(machine, device, 512)
    assert device.scratch.base != before
    calls.run()
    device.synchronize()
    seen = machine.dispatches[-1]
    assert seen.scratch in (0, device.scratch.base)


def test_a_kernel_without_scratch_takes_no_memory(machine):
    device = small(machine)
    run(machine, device, 0)
    assert device.scratch.block is None
