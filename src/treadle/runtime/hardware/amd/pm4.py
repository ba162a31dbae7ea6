"""PM4: the commands of a compute queue, as lists of words.

    PM4(generation).wait(address)        -> [header, ...]

Addresses of signals and code are the GPU's. From gfx10 on, packets that handle caches have other
fields than before.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.runtime.hardware.amd.generations import Generation

__all__ = ["PM4", "Register"]

_DISPATCH_DIRECT, _WAIT_REG_MEM, _INDIRECT_BUFFER = 0x15, 0x3C, 0x3F
_COPY_DATA, _EVENT_WRITE, _RELEASE_MEM, _ACQUIRE_MEM = 0x40, 0x46, 0x49, 0x58
_SET_SH_REG = 0x76
_SH_BASE = 0x2C00

_CS_PARTIAL_FLUSH = 7 | 4 << 8  # event, and its index
_CACHE_FLUSH_AND_INV_TS = 0x14 | 5 << 8
_EQUAL, _IN_MEMORY = 3, 1 << 4

# What an acquire does: write back the L2, invalidate instructions, scalars, vectors and the L2.
_GCR_ACQUIRE = (
    1 << 0 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 14 | 1 << 15
)  # GLI_INV GLM_WB GLM_INV GLK_INV GLV_INV GL1_INV GL2_INV GL2_WB
_COHER_ACQUIRE = 1 << 18 | 1 << 22 | 1 << 23 | 1 << 27 | 1 << 29
# TC_WB TCL1 TC SH_KCACHE SH_ICACHE
# What kernels of one GPU need behind each other, who share the L2: scalars and vectors.
_GCR_NEXT = 1 << 7 | 1 << 8 | 1 << 9  # GLK_INV GLV_INV GL1_INV
_COHER_NEXT = 1 << 22 | 1 << 27  # TCL1 SH_KCACHE
_GCR_RELEASE = (
    1 << 12 | 1 << 13 | 1 << 14 | 1 << 15 | 1 << 20 | 1 << 21 | 1 << 22 | 3 << 25
)  # GLM_WB GLM_INV GLV_INV GL1_INV GL2_INV GL2_WB, one after the other, past the cache
_TC_RELEASE = 1 << 15 | 1 << 16 | 1 << 17 | 1 << 21  # TC_WB TCL1 TC TC_MD

_DATA_64, _DATA_CLOCK = 2 << 29, 3 << 29
_INTERRUPT_WHEN_WRITTEN = 2 << 24


class Register:
    """Registers of compute dispatches, by their number among all registers."""

    START_X = 0x2E04
    NUM_THREAD_X = 0x2E07
    PGM_LO = 0x2E0C
    SCRATCH_BASE_LO = 0x2E10
    PGM_RSRC1 = 0x2E12
    RESOURCE_LIMITS = 0x2E15
    TMPRING_SIZE = 0x2E18
    PGM_RSRC3_GFX9 = 0x2E2D
    PGM_RSRC3 = 0x2E28
    USER_DATA_0 = 0x2E40


def _packet(opcode: int, *words: int) -> list[int]:
    return [3 << 30 | len(words) - 1 << 16 | opcode << 8, *words]


def _halves(value: int) -> tuple[int, int]:
    return value & 0xFFFFFFFF, value >> 32


class PM4:
    """Encodes for one generation."""

    def __init__(self, generation: Generation) -> None:
        self._has_gcr = generation.has_gcr

    @property
    def rsrc3(self) -> int:
        """The register COMPUTE_PGM_RSRC3."""
        return Register.PGM_RSRC3 if self._has_gcr else Register.PGM_RSRC3_GFX9

    def set(self, register: int, values: Sequence[int]) -> list[int]:
        """Registers in a row."""
        return _packet(_SET_SH_REG, register - _SH_BASE, *values)

    def dispatch(self, workgroups: tuple[int, int, int], is_wave32: bool) -> list[int]:
        """Starts a kernel with what the registers say."""
        enable, start_at_zero, wave32 = 1 << 0, 1 << 2, (1 << 15) * is_wave32
        return _packet(_DISPATCH_DIRECT, *workgroups, enable | start_at_zero | wave32)

    def barrier(self) -> list[int]:
        """What follows starts when the kernels before have ended, and reads what they wrote."""
        ended = _packet(_EVENT_WRITE, _CS_PARTIAL_FLUSH)
        return ended + self._acquire(_GCR_NEXT, _COHER_NEXT)

    def wait(self, address: int) -> list[int]:
        """Waits until the low 32 bits there are 0."""
        low, high = _halves(address)
        return _packet(_WAIT_REG_MEM, _EQUAL | _IN_MEMORY, low, high, 0, 0xFFFFFFFF, 4)

    def acquire(self) -> list[int]:
        """What follows reads what others have written before."""
        return self._acquire(_GCR_ACQUIRE, _COHER_ACQUIRE)

    def _acquire(self, gcr: int, coher: int) -> list[int]:
        everything = (0xFFFFFFFF, 0xFF, 0, 0, 0)
        if self._has_gcr:
            return _packet(_ACQUIRE_MEM, 0, *everything, gcr)
        return _packet(_ACQUIRE_MEM, coher, *everything)

    def signal(self, address: int, value: int, event: int = 0) -> list[int]:
        """Writes 64 bits when all before has ended and can be seen; interrupts for an event."""
        interrupts = _INTERRUPT_WHEN_WRITTEN if event else 0
        return self._release(_DATA_64 | interrupts, address, value, event)

    def signal_time(self, address: int) -> list[int]:
        """Writes the GPU's clock when all before has ended."""
        return self._release(_DATA_CLOCK, address, 0, 0)

    def _release(self, how: int, address: int, value: int, event: int) -> list[int]:
        caches = _GCR_RELEASE if self._has_gcr else _TC_RELEASE
        return _packet(
            _RELEASE_MEM, _CACHE_FLUSH_AND_INV_TS | caches, how, *_halves(address),
            *_halves(value), event,
        )  # fmt: skip

    def write_time(self, address: int) -> list[int]:
        """Writes the GPU's clock at once."""
        from_clock, to_memory, both_words, confirm = 9, 5 << 8, 1 << 16, 1 << 20
        how = from_clock | to_memory | both_words | confirm
        return _packet(_COPY_DATA, how, 0, 0, *_halves(address))

    def indirect(self, address: int, count: int) -> list[int]:
        """Goes on with `count` words that are elsewhere, and then behind this."""
        valid = 1 << 23
        return _packet(_INDIRECT_BUFFER, *_halves(address), count | valid)
