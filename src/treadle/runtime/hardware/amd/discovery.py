"""Which GPUs the kernel driver shows, from sysfs alone: nothing is opened.

nodes = find_nodes(platform)
nodes[0].arch                        -> "gfx1100"
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.runtime.hardware.amd.generations import arch_of
from treadle.runtime.hardware.platform import Platform

__all__ = ["NODES", "Node", "find_nodes"]

NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
_IN_VRAM = (1, 2)  # heaps of the GPU's memory: that the host sees all of, and a part of


@dataclass(frozen=True)
class Node:
    """One GPU. Sizes in bytes.

    `number` is the driver's of the node, `minor` that of its render node. `units` are compute
    units, `slots` the most waves of one that have scratch memory. `peers` are the nodes whose
    memory it reaches.
    """

    number: int
    gpu_id: int
    minor: int
    name: str
    version: int
    memory: int
    units: int
    slots: int
    engines: int
    arrays: int
    wave: int
    lds: int
    partitions: int
    peers: tuple[int, ...]

    @property
    def arch(self) -> str:
        return arch_of(self.version)


def find_nodes(platform: Platform) -> list[Node]:
    """All GPUs, in the driver's order; none where there is no such driver."""
    try:
        numbers = sorted(int(name) for name in platform.names(NODES))
    except FileNotFoundError:
        return []
    found = [_node(platform, number) for number in numbers]
    return [node for node in found if node is not None]


def _node(platform: Platform, number: int) -> Node | None:
    """One node, or None for a processor, and for a GPU that this process may not see."""
    folder = f"{NODES}/{number}"
    try:
        gpu_id = int(platform.read_text(f"{folder}/gpu_id"))
        facts = _properties(platform, f"{folder}/properties")
    except (PermissionError, FileNotFoundError):
        return None  # a container shows the nodes of GPUs that it does not share
    if gpu_id == 0 or not facts.get("gfx_target_version"):
        return None
    per_unit = max(facts["simd_per_cu"], 1)
    engine_arrays = max(facts["simd_arrays_per_engine"], 1)
    return Node(
        number=number,
        gpu_id=gpu_id,
        minor=facts["drm_render_minor"],
        name=platform.read_text(f"{folder}/name").strip(),
        version=facts["gfx_target_version"],
        memory=_memory(platform, folder),
        units=facts["simd_count"] // per_unit,
        slots=facts["max_slots_scratch_cu"],
        engines=facts["array_count"] // engine_arrays,
        arrays=facts["array_count"],
        wave=facts["wave_front_size"],
        lds=facts["lds_size_in_kb"] << 10,
        partitions=max(facts.get("num_xcc", 1), 1),
        peers=_peers(platform, folder),
    )


def _properties(platform: Platform, path: str) -> dict[str, int]:
    """A file of lines `name number`."""
    lines = (line.split() for line in platform.read_text(path).splitlines())
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}


def _folders(platform: Platform, folder: str) -> list[dict[str, int]]:
    """The properties of all that is in a folder, which need not be there."""
    try:
        names = sorted(platform.names(folder))
    except FileNotFoundError:
        return []
    return [_properties(platform, f"{folder}/{name}/properties") for name in names]


def _memory(platform: Platform, folder: str) -> int:
    banks = _folders(platform, f"{folder}/mem_banks")
    return sum(bank["size_in_bytes"] for bank in banks if bank.get("heap_type") in _IN_VRAM)


def _peers(platform: Platform, folder: str) -> tuple[int, ...]:
    links = _folders(platform, f"{folder}/p2p_links") + _folders(platform, f"{folder}/io_links")
    return tuple(sorted({link["node_to"] for link in links}))
