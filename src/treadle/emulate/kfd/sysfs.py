"""What the kernel shows of its GPUs in sysfs: the topology of /dev/kfd, as text files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.kfd.gpu import EmulatedGPU
    from treadle.emulate.machine.platform import EmulatedPlatform

__all__ = ["TOPOLOGY", "show"]

TOPOLOGY = "/sys/devices/virtual/kfd/kfd/topology"
_FB_PUBLIC = 1  # a heap of the GPU's memory that the host can map all of
_PCI_EXPRESS = 2


def show(platform: EmulatedPlatform, gpus: Sequence[EmulatedGPU], has_peers: bool) -> None:
    """Makes the files: node 0 is the processor, the GPUs follow."""
    platform.add_text(f"{TOPOLOGY}/generation_id", "1\n")
    _show_node(platform, 0, 0, "", {"cpu_cores_count": 8, "simd_count": 0, "mem_banks_count": 1})
    for node, gpu in enumerate(gpus, 1):
        peers = [other for other in range(1, len(gpus) + 1) if other != node] if has_peers else []
        facts = _properties(gpu, node, len(peers))
        _show_node(platform, node, gpu.gpu_id, gpu.chip.name, facts)
        bank = {
            "heap_type": _FB_PUBLIC, "size_in_bytes": gpu.chip.vram, "flags": 0, "width": 256,
            "mem_clk_max": 1000,
        }  # fmt: skip
        _show_properties(platform, f"{TOPOLOGY}/nodes/{node}/mem_banks/0/properties", bank)
        _show_link(platform, f"{TOPOLOGY}/nodes/{node}/io_links/0", node, 0)
        for number, peer in enumerate(peers):
            _show_link(platform, f"{TOPOLOGY}/nodes/{node}/p2p_links/{number}", node, peer)


def _show_node(
    platform: EmulatedPlatform, node: int, gpu_id: int, name: str, properties: dict[str, int]
) -> None:
    folder = f"{TOPOLOGY}/nodes/{node}"
    platform.add_text(f"{folder}/gpu_id", f"{gpu_id}\n")
    platform.add_text(f"{folder}/name", f"{name}\n")
    _show_properties(platform, f"{folder}/properties", properties)


def _show_link(platform: EmulatedPlatform, folder: str, start: int, end: int) -> None:
    link = {"type": _PCI_EXPRESS, "node_from": start, "node_to": end, "weight": 20, "flags": 1}
    _show_properties(platform, f"{folder}/properties", link)


def _show_properties(platform: EmulatedPlatform, path: str, properties: dict[str, int]) -> None:
    platform.add_text(path, "".join(f"{name} {value}\n" for name, value in properties.items()))


def _properties(gpu: EmulatedGPU, node: int, peers: int) -> dict[str, int]:
    chip = gpu.chip
    return {
        "cpu_cores_count": 0,
        "simd_count": chip.units * chip.simds_per_unit,
        "mem_banks_count": 1,
        "io_links_count": 1,
        "p2p_links_count": peers,
        "max_waves_per_simd": chip.waves // chip.simds_per_unit,
        "lds_size_in_kb": chip.lds >> 10,
        "wave_front_size": chip.wave,
        "array_count": chip.engines * chip.arrays,
        "simd_arrays_per_engine": chip.arrays,
        "cu_per_simd_array": chip.units // (chip.engines * chip.arrays),
        "simd_per_cu": chip.simds_per_unit,
        "max_slots_scratch_cu": chip.waves,
        "gfx_target_version": chip.version,
        "vendor_id": 0x1002,
        "device_id": chip.device_id,
        "location_id": node << 8,
        "domain": 0,
        "drm_render_minor": gpu.minor,
        "num_sdma_engines": 2,
        "num_sdma_queues_per_engine": 8,
        "num_cp_queues": 24,
        "max_engine_clk_fcompute": 2000,
        "local_mem_size": 0,
        "unique_id": 0x7EAD1E00 + node,
        "num_xcc": chip.partitions,
    }
