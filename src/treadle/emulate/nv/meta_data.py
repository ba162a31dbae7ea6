"""Queue meta data (QMD) as the hardware reads them: every bit has a meaning here, or is zero.

    meta = MetaData(chip, data)         # ChannelFault for what is not emulated, or cannot be
    meta.grid, meta.block, meta.program, meta.banks, meta.next

A field that nothing here asks for has to be zero. What is asked for and has a wrong value is a
fault. What is ignored stands with its reason in `IGNORED`.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from treadle.emulate.nv import tables
from treadle.emulate.nv.faults import ChannelFault

if TYPE_CHECKING:
    from treadle.emulate.nv.chips import Chip

__all__ = ["IGNORED", "MetaData", "wrong"]

_KIB = 1 << 10
_BANKS = 8
_NO_GROUP = 0x3F
_GRID_CTA = 2  # QMD_TYPE_GRID_CTA
_SYSMEMBAR = 1  # CWD_MEMBAR_TYPE_L1_SYSMEMBAR
_SCHEDULE = 1  # DEPENDENT_QMD0_ACTION_QMD_SCHEDULE
_REGISTERS_OF_SM = 65536
_MOST_THREADS = 1024
_ALIGNMENT = 256  # of a constant bank in memory; of a program it is 128

_HINT = "how soon the next meta data are fetched: a matter of speed"
_TEXTURES = "kernels here have no textures"
# Fields that have no effect on a result, and why.
IGNORED = {
    "SM_GLOBAL_CACHING_ENABLE": "whether loads use the first cache: a matter of speed",
    "INVALIDATE_TEXTURE_HEADER_CACHE": _TEXTURES,
    "INVALIDATE_TEXTURE_SAMPLER_CACHE": _TEXTURES,
    "INVALIDATE_TEXTURE_DATA_CACHE": _TEXTURES,
    "SAMPLER_INDEX": _TEXTURES,
    "API_VISIBLE_CALL_LIMIT": "a limit of 32 nested calls, or none: kernels nest less",
    "DEPENDENT_QMD0_PREFETCH": _HINT,
    "DEPENDENT_QMD_PREFETCH[0]": _HINT,
}
_CACHES = {
    "INSTRUCTION": "INVALIDATE_INSTRUCTION_CACHE", "DATA": "INVALIDATE_SHADER_DATA_CACHE",
    "CONSTANT": "INVALIDATE_SHADER_CONSTANT_CACHE",
}  # fmt: skip


def wrong(told: str) -> ChannelFault:
    """A fault of the compute class: a value that it does not take."""
    return ChannelFault("GR_CLASS_ERROR", told)


@functools.cache
def _names(version: str) -> dict[str, tuple[str, int]]:
    """By each field's name without its unit: its whole name, and the unit as a shift."""
    names: dict[str, tuple[str, int]] = {}
    for name in tables.qmd(version).fields:
        shift = re.search(r"_SHIFTED(\d+)", name)
        names[re.sub(r"_SHIFTED\d+", "", name)] = name, int(shift[1]) if shift else 0
    return names


class _Fields:
    """The fields, and which of them were asked for. SHIFTEDn at the end of a name says the unit."""

    def __init__(self, version: str, data: bytes) -> None:
        self._values = tables.qmd(version).decode(data)
        self.left = self._values.pop("")
        self._names = _names(version)
        self._asked = set(IGNORED)

    def get(self, *names: str) -> int:
        """A field by the first of its names that this version has, in its unit's multiples."""
        for name in names:
            if name in self._names:
                self._asked.add(name)
                whole, shift = self._names[name]
                return self._values[whole] << shift
        return 0

    def address(self, name: str, number: str = "") -> int:
        """An address whose upper bits are a field of their own."""
        _, shift = self._names[f"{name}_LOWER{number}"]
        low = self.get(f"{name}_LOWER{number}")
        return low | self.get(f"{name}_UPPER{number}") >> shift << 32 + shift

    def others(self) -> list[str]:
        """Fields that are not zero, and that nobody has asked for."""
        return [
            whole
            for name, (whole, _) in self._names.items()
            if self._values[whole] and name not in self._asked
        ]


class MetaData:
    """What one launch is. `stale` names the caches that it does not invalidate."""

    def __init__(self, chip: Chip, data: bytes) -> None:
        fields = _Fields(chip.qmd, data)
        get = fields.get
        major, minor = get("QMD_MAJOR_VERSION"), get("QMD_MINOR_VERSION", "QMD_VERSION")
        if f"{major}.{minor}" != chip.qmd:
            raise wrong(f"meta data of version {major}.{minor}, and {chip.arch} has {chip.qmd}")
        self.grid = _three(
            get("GRID_WIDTH", "CTA_RASTER_WIDTH"), get("GRID_HEIGHT", "CTA_RASTER_HEIGHT"),
            get("GRID_DEPTH", "CTA_RASTER_DEPTH"),
        )  # fmt: skip
        self.block = _three(*[get(f"CTA_THREAD_DIMENSION{axis}") for axis in range(3)])
        self.program = fields.address("PROGRAM_ADDRESS")
        self.registers = get("REGISTER_COUNT", "REGISTER_COUNT_V")
        self.barriers = get("BARRIER_COUNT")
        self.shared = get("SHARED_MEMORY_SIZE")
        self.local = get("SHADER_LOCAL_MEMORY_HIGH_SIZE")
        self.stale = {cache for cache, field in _CACHES.items() if not get(field)}
        self.banks = dict(self._bank(fields, n) for n in range(_BANKS) if _is_valid(fields, n))
        self.next = self._dependent(fields)
        self._check_sizes(chip, fields)
        self._check_constants(chip, fields)
        others = fields.others()
        if fields.left or others:
            names = others or [f"bits {fields.left:#x} that are no field's"]
            raise wrong(f"meta data with {', '.join(names)}, which is not emulated")

    def _bank(self, fields: _Fields, n: int) -> tuple[int, tuple[int, int]]:
        address = fields.address("CONSTANT_BUFFER_ADDR", f"[{n}]")
        nbytes = fields.get(f"CONSTANT_BUFFER_SIZE[{n}]")
        if address % _ALIGNMENT or not nbytes:
            raise wrong(f"constant bank {n} of {nbytes} bytes at {address:#x}")
        if not fields.get(f"CONSTANT_BUFFER_INVALIDATE[{n}]"):
            self.stale.add("CONSTANT")
        return n, (address, nbytes)

    def _dependent(self, fields: _Fields) -> int | None:
        """The address of the meta data that come next, if any."""
        enabled = fields.get("DEPENDENT_QMD0_ENABLE", "DEPENDENT_QMD_ENABLE[0]")
        action = fields.get("DEPENDENT_QMD0_ACTION", "DEPENDENT_QMD_ACTION[0]")
        pointer = fields.get("DEPENDENT_QMD0_POINTER") << 8
        if not enabled:
            if action or pointer:
                raise wrong("meta data that name others, and do not start them")
            return None
        if action != _SCHEDULE:
            raise wrong(f"action {action} for meta data that come next is not emulated")
        return pointer

    def _check_sizes(self, chip: Chip, fields: _Fields) -> None:
        threads = self.block[0] * self.block[1] * self.block[2]
        if 0 in self.grid or not 0 < threads <= _MOST_THREADS:
            raise wrong(f"a grid of {self.grid} blocks of {self.block} threads")
        warps = -(-threads // 32)
        if self.registers > 255 or self.registers * 32 * warps > _REGISTERS_OF_SM:
            raise wrong(f"{self.registers} registers for each of {threads} threads")
        if self.barriers > 16:
            raise wrong(f"{self.barriers} barriers, and there are 16")
        least, most, target = (
            (fields.get(f"{which}_SM_CONFIG_SHARED_MEM_SIZE") - 1) * 4 * _KIB
            for which in ("MIN", "MAX", "TARGET")
        )
        if not 0 < least <= target <= most <= chip.shared:
            raise wrong(f"shared memory set from {least} to {most} bytes, to {target}")
        if self.shared > least or self.shared % 128:
            raise wrong(f"{self.shared} bytes of shared memory where {least} are set")
        if fields.get("SHADER_LOCAL_MEMORY_LOW_SIZE"):
            raise wrong("local memory at the bottom of its window is not emulated")

    def _check_constants(self, chip: Chip, fields: _Fields) -> None:
        wanted = {
            ("SASS_VERSION",): chip.sass, ("QMD_GROUP_ID",): _NO_GROUP,
            ("CWD_MEMBAR_TYPE",): _SYSMEMBAR,
        }  # fmt: skip
        if chip.qmd != "3.0":
            wanted[("QMD_TYPE",)] = _GRID_CTA
        for names, value in wanted.items():
            found = fields.get(*names)
            if found != value:
                raise wrong(f"meta data with {names[0]} {found:#x}, not {value:#x}")


def _is_valid(fields: _Fields, n: int) -> bool:
    return bool(fields.get(f"CONSTANT_BUFFER_VALID[{n}]"))


def _three(x: int, y: int, z: int) -> tuple[int, int, int]:
    return x, y, z
