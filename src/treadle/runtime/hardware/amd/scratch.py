"""Scratch memory: what work items keep in memory when registers run out, for all waves of a GPU.

    scratch.need(256, 64)           # bytes of a work item, work items of a wave
    scratch.ring_size(wave_bytes)   # what COMPUTE_TMPRING_SIZE is to hold

How sizes are counted, and how a wave finds its part, differs between generations.
"""

from __future__ import annotations

from treadle.runtime.hardware.amd.discovery import Node
from treadle.runtime.hardware.amd.generations import Generation
from treadle.runtime.hardware.amd.memory import GPUMemory, Where
from treadle.runtime.hardware.blocks import Block
from treadle.runtime.hardware.host_memory import round_up

__all__ = ["Scratch"]

_MOST_WAVES = 0xFFF  # what the field holds

# A buffer descriptor's third and fourth words: components in order, 32-bit elements that lanes
# take in turn. Formats are numbered anew in gfx10.
_ORDER = 4 | 5 << 3 | 6 << 6 | 7 << 9
_PER_LANE, _EVERY = 1 << 23, {32: 2 << 21, 64: 3 << 21}
_SWIZZLED = 1 << 31
_GFX9_FORMAT = 4 << 12 | 4 << 15
_GFX10_FORMAT = 20 << 12 | 1 << 24 | 2 << 28


class Scratch:
    """The scratch memory of one device. `block` is None until a kernel needs some.

    `version` changes with the block: commands that were made for another are void.
    """

    def __init__(self, node: Node, generation: Generation, memory: GPUMemory) -> None:
        self._node, self._generation, self._memory = node, generation, memory
        self.block: Block | None = None
        self.version = 0

    def wave_bytes(self, private_bytes: int, wave: int) -> int:
        """What one wave needs, in the unit of the generation."""
        return round_up(private_bytes * wave, self._generation.scratch_unit)

    def is_enough(self, wave_bytes: int) -> bool:
        """Whether all waves can have so much."""
        return wave_bytes == 0 or (
            self.block is not None and self.block.nbytes >= wave_bytes * self._all_waves
        )

    def grow(self, wave_bytes: int) -> None:
        """Takes more memory. No work may use what there was."""
        self.block = None
        self.block = self._memory.alloc(wave_bytes * self._all_waves, Where.VRAM)
        self.version += 1

    @property
    def wave(self) -> int:
        """How many lanes the GPU's usual waves have."""
        return self._node.wave

    @property
    def _all_waves(self) -> int:
        return self._node.units * self._node.slots

    def ring_size(self, wave_bytes: int) -> int:
        """The register that says how many waves there are, and what each has."""
        parts = self._node.partitions
        if self._generation.scratch_by_engine:
            parts *= self._node.engines
        waves = min(self._all_waves // parts, _MOST_WAVES) if wave_bytes else 0
        return waves | wave_bytes // self._generation.scratch_unit << 12

    @property
    def base(self) -> int:
        """Its address, or 0."""
        return self.block.address if self.block is not None else 0

    def descriptor(self, wave: int) -> list[int]:
        """Four words by which waves of so many lanes find it, before gfx11."""
        size = self.block.nbytes if self.block is not None else 0
        form = _GFX10_FORMAT if self._generation.has_gcr else _GFX9_FORMAT
        high = self.base >> 32 & 0xFFFF | _SWIZZLED
        last = _ORDER | form | _PER_LANE | _EVERY[wave]
        return [self.base & 0xFFFFFFFF, high, min(size, 0xFFFFFFFF), last]
