"""What the kernel shows of its GPUs in sysfs: the topology of /dev/kfd, as text files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.kfd.gpu import EmulatedGPU
    from treadle.emulate.machine.platform import EmulatedPlatform

__all__ = ["TOPOLOGY", "show"]

TOPOLOGY = "/sys/devices/virtual/kfd/kfd/topology"
_SYSTEM, _FB_PUBLIC = 0, 1  # heaps: the host's memory, and a GPU's that the host can map all of
_SYSTEM_BYTES = 16 << 30
_PCI_EXPRESS = 2
_DATA_OF_GPU = 1 | 1 << 3  # a type of caches
_FIRMWARE = 100  # of both engines, as if it were new enough for all
_CAPABILITY = 2 << 12 | 2 << 8 | 1 << 7  # doorbells of 64 bits, and 4 addresses to watch


def show(platform: EmulatedPlatform, gpus: Sequence[EmulatedGPU], has_peers: bool) -> None:
    """Makes the files: node 0 is the processor, the GPUs follow."""
    platform.add_text(f"{TOPOLOGY}/generation_id", "1\n")
    system = {"platform_oem": 0, "platform_id": 0, "platform_rev": 0}
    _show_properties(platform, f"{TOPOLOGY}/system_properties", system)
    processor = {
        "cpu_cores_count": 8, "simd_count": 0, "mem_banks_count": 1, "caches_count": 0,
        "io_links_count": len(gpus), "p2p_links_count": 0, "cpu_core_id_base": 0,
    }  # fmt: skip
    _show_node(platform, 0, 0, "", processor)
    _show_bank(platform, 0, _SYSTEM, _SYSTEM_BYTES)
    for node, gpu in enumerate(gpus, 1):
        peers = [other for other in range(1, len(gpus) + 1) if other != node] if has_peers else []
        facts = _properties(gpu, node, len(peers))
        _show_node(platform, node, gpu.gpu_id, gpu.chip.name, facts)
        _show_bank(platform, node, _FB_PUBLIC, gpu.chip.vram)
        for level, kilobytes in enumerate(gpu.chip.caches, 1):
            _show_cache(platform, node, level, kilobytes)
        _show_link(platform, f"{TOPOLOGY}/nodes/0/io_links/{node - 1}", 0, node)
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


def _show_bank(platform: EmulatedPlatform, node: int, heap: int, nbytes: int) -> None:
    bank = {
        "heap_type": heap, "size_in_bytes": nbytes, "flags": 0, "width": 256, "mem_clk_max": 1000,
    }  # fmt: skip
    _show_properties(platform, f"{TOPOLOGY}/nodes/{node}/mem_banks/0/properties", bank)


def _first_unit(node: int) -> int:
    """The number of a GPU's first compute unit, among those of all."""
    return 0x80000000 + (node << 12)


def _show_cache(platform: EmulatedPlatform, node: int, level: int, kilobytes: int) -> None:
    """One cache of each level, where drivers show all of them."""
    cache = {
        "processor_id_low": _first_unit(node), "level": level, "size": kilobytes,
        "cache_line_size": 64, "cache_lines_per_tag": 1, "association": 0, "latency": 0,
        "type": _DATA_OF_GPU, "sibling_map": 1,
    }  # fmt: skip
    _show_properties(platform, f"{TOPOLOGY}/nodes/{node}/caches/{level - 1}/properties", cache)


def _show_link(platform: EmulatedPlatform, folder: str, start: int, end: int) -> None:
    link = {
        "type": _PCI_EXPRESS, "version_major": 0, "version_minor": 0, "node_from": start,
        "node_to": end, "weight": 20, "min_latency": 0, "max_latency": 0, "min_bandwidth": 0,
        "max_bandwidth": 0, "recommended_transfer_size": 0, "flags": 1,
    }  # fmt: skip
    _show_properties(platform, f"{folder}/properties", link)


def _show_properties(platform: EmulatedPlatform, path: str, properties: dict[str, int]) -> None:
    platform.add_text(path, "".join(f"{name} {value}\n" for name, value in properties.items()))


def _properties(gpu: EmulatedGPU, node: int, peers: int) -> dict[str, int]:
    chip = gpu.chip
    return {
        "cpu_cores_count": 0,
        "simd_count": chip.units * chip.simds_per_unit,
        "mem_banks_count": 1,
        "caches_count": len(chip.caches),
        "io_links_count": 1,
        "p2p_links_count": peers,
        "cpu_core_id_base": 0,
        "simd_id_base": _first_unit(node),
        "max_waves_per_simd": chip.waves // chip.simds_per_unit,
        "lds_size_in_kb": chip.lds >> 10,
        "gds_size_in_kb": 0,
        "num_gws": 0,
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
        "hive_id": 0,
        "num_sdma_engines": 2,
        "num_sdma_xgmi_engines": 0,
        "num_sdma_queues_per_engine": 8,
        "num_cp_queues": 24,
        "max_engine_clk_fcompute": 2000,
        "local_mem_size": 0,
        "fw_version": _FIRMWARE,
        "capability": _CAPABILITY,
        "debug_prop": 0,
        "sdma_fw_version": _FIRMWARE,
        "unique_id": 0x7EAD1E00 + node,
        "num_xcc": chip.partitions,
        "max_engine_clk_ccompute": 2000,
    }
