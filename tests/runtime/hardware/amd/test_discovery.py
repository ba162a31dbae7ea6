"""GPUs as sysfs shows them."""

import pytest
from tests.emulate.kfd.machine import Machine

from treadle.emulate.machine.platform import EmulatedPlatform
from treadle.runtime.hardware.amd.discovery import NODES, find_nodes
from treadle.runtime.hardware.amd.generations import arch_of, generation_of


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"])
def test_a_node_has_the_facts_of_its_chip(arch):
    machine = Machine(arch)
    (node,) = find_nodes(machine.platform)
    chip = machine.driver.gpus[0].chip
    assert (node.arch, node.name, node.gpu_id) == (arch, chip.name, machine.driver.gpus[0].gpu_id)
    assert (node.units, node.engines, node.wave) == (chip.units, chip.engines, chip.wave)
    assert (node.memory, node.lds, node.minor) == (chip.vram, chip.lds, 128)
    assert (node.partitions, node.slots) == (chip.partitions, chip.waves)


def test_several_gpus_are_in_order_and_know_their_peers():
    nodes = find_nodes(Machine("gfx1100", "gfx1030", "gfx90a").platform)
    assert [node.arch for node in nodes] == ["gfx1100", "gfx1030", "gfx90a"]
    assert [node.number for node in nodes] == [1, 2, 3]
    assert nodes[0].peers == (0, 2, 3)


def test_gpus_that_do_not_reach_each_other_are_no_peers():
    nodes = find_nodes(Machine("gfx1100", "gfx1100", has_peers=False).platform)
    assert [node.peers for node in nodes] == [(0,), (0,)]


def test_a_machine_without_the_driver_has_no_gpus():
    assert find_nodes(EmulatedPlatform()) == []


def test_nodes_come_by_number_and_not_by_name():
    platform = EmulatedPlatform()
    source = Machine("gfx1100").platform
    for number in (10, 9):
        for name in ("gpu_id", "name", "properties", "mem_banks/0/properties"):
            text = source.read_text(f"{NODES}/1/{name}")
            platform.add_text(f"{NODES}/{number}/{name}", text)
    assert [node.number for node in find_nodes(platform)] == [9, 10]


def test_a_gpu_that_a_container_hides_is_left_out():
    platform = Machine("gfx1100").platform
    platform.add_text(f"{NODES}/2/gpu_id", "77\n")  # and no properties
    assert [node.number for node in find_nodes(platform)] == [1]


@pytest.mark.parametrize(
    ("version", "arch", "generation"),
    [
        (90010, "gfx90a", "gfx90a"), (90402, "gfx942", "gfx94"), (90500, "gfx950", "gfx94"),
        (100300, "gfx1030", "gfx10.3"), (110000, "gfx1100", "gfx11"), (110501, "gfx1151", "gfx11"),
        (120001, "gfx1201", "gfx12"),
    ],
)  # fmt: skip
def test_a_version_is_an_architecture_of_a_generation(version, arch, generation):
    assert (arch_of(version), generation_of(version).name) == (arch, generation)
