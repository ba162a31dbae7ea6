"""LLVM's table of AMD instruction encodings, as rows that a chip and a wave size select.

A row has fixed bits and fields: `v_add_f32` as VOP2 has 7 fixed bits, and the fields src0, src1 and
vdst. The file is read at first use (40 ms) and makes a row's parts when an instruction first
matches it, since a program uses some hundreds of the thousands.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any, TypeAlias

from treadle.emulate.amd.operands import FieldClass, Place, field_class

__all__ = ["CHIPS", "Field", "Row", "generation", "rows", "wave_sizes"]

# Chips whose instructions are those of another.
_SAME = {"gfx1200": "gfx1201"}
CHIPS = (
    "gfx900",
    "gfx90a",
    "gfx942",
    "gfx950",
    "gfx1010",
    "gfx1030",
    "gfx1100",
    "gfx1151",
    "gfx1200",
    "gfx1201",
)
# What the table does not say: predicates that are false on a chip, beyond those that it lists.
_FALSE = {"gfx1100": {"HasSALUFloatInsts"}}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an instruction: where its bits are, and what it names."""

    name: str
    pieces: tuple[tuple[int, int, int], ...]  # position, mask of the width, lowest bit
    of: FieldClass
    width: int
    llvm_class: str

    def read(self, word: int) -> int:
        """The field's number in the instruction `word`."""
        value = 0
        for at, mask, low in self.pieces:
            value |= (word >> at & mask) << low
        return value

    @property
    def is_tagged(self) -> bool:
        """Whether the field has bit 8 for every vector register, though it names nothing else."""
        if self.of.place is Place.EITHER:
            return (
                self.width >= 9 and "LdSt" not in self.llvm_class and "Dst" not in self.llvm_class
            )
        return self.of.place in (Place.VECTOR, Place.ACCUMULATOR) and self.width == 9


_THREE_SOURCES = (0b110100, 0b110101, 0b110011)  # leading bits of VOP3 and VOP3P, gfx9 and gfx10
_SECOND_SOURCE, _THIRD_SOURCE = 41, 50  # where they begin
_OP_SEL = 0x7800  # where VOP3 selects halves

# A field of an instruction: its name, where it begins in the instruction, its bits, and which of
# the operand's own bits is the first.
Piece: TypeAlias = tuple[str, int, int, int]


class Row:
    """One encoding of one operation."""

    def __init__(self, name: str, asm: str, size: int, mask: int, value: int, chip: Chip) -> None:
        self.name = name
        self.asm = asm
        self.size = size
        self.mask = mask
        self.value = value
        self._chip = chip
        self._sides: list[list[list[str]]] = []
        self._pieces: list[Piece] = []

    def describe(self, pieces: list[Piece], sides: list[list[list[str]]]) -> Row:
        """The same row with its fields and operands as the file has them."""
        self._pieces, self._sides = pieces, sides
        return self

    @cached_property
    def classes(self) -> dict[str, str]:
        """LLVM's class for each operand, by name: first what is written, then what is read."""
        return {name: of for side in self._sides for name, of in side}

    @cached_property
    def results(self) -> tuple[str, ...]:
        """The operands that are written."""
        return tuple(name for name, _ in self._sides[0])

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """All fields that an operand has, in the order of the operands."""
        pieces: dict[str, list[tuple[int, int, int]]] = {}
        widths: dict[str, int] = {}
        for name, at, width, low in self._pieces:
            pieces.setdefault(name, []).append((at, (1 << width) - 1, low))
            widths[name] = max(widths.get(name, 0), low + width)
        return tuple(
            Field(name, tuple(pieces[name]), field_class(of), widths[name], of)
            for name, of in self.classes.items()
            if name in pieces
        )

    @cached_property
    def has_unsigned_offset(self) -> bool:
        """Whether an offset of 24 bits is that into a buffer, which is never negative."""
        return "offset" in self.classes and self.operation.startswith(
            ("buffer_", "tbuffer_", "s_buffer_", "s_atc_probe_buffer")
        )

    @cached_property
    def stray(self) -> int:
        """The bits of op_sel in VOP3 that a row says nothing of: they must be 0.

        Some operations of generation 10 select halves, which their rows do not say.
        """
        if not re.fullmatch("VOP3(_.*)?", self.encoding):
            return 0
        known = self.mask
        for _, at, width, _ in self._pieces:
            known |= (1 << width) - 1 << at
        return _OP_SEL & ~known

    @cached_property
    def registers(self) -> tuple[Field, ...]:
        return tuple(f for f in self.fields if f.of.place is not Place.IMMEDIATE)

    @cached_property
    def numbers(self) -> tuple[Field, ...]:
        return tuple(f for f in self.fields if f.of.place is Place.IMMEDIATE)

    @cached_property
    def operation(self) -> str:
        """The operation's name, common to all of its encodings: `v_add_f32`."""
        return _operation(self.asm)

    @cached_property
    def encoding(self) -> str:
        """The encoding's name: `VOP2`, `VOP3_DPP8`, `SMEM`."""
        return self._chip.encoding(self)

    @cached_property
    def mnemonic(self) -> str:
        """The name as LLVM prints it: `v_add_f32_e32`."""
        return self._chip.mnemonic(self)


_SUFFIX = re.compile(r"(_e64_dpp|_e32|_e64|_sdwa|_dpp)$")


def _operation(asm: str) -> str:
    name = re.sub(r"\{.*?\}", "", asm).strip()
    return _SUFFIX.sub("", re.split(r"\W", name.lower(), maxsplit=1)[0])


# The encodings by their leading bits, longest first. Bits 14 and 15 tell flat memory from scratch
# and global memory on generations 9 and 10, 16 and 17 on 11, the last two leading bits on 12.
_VECTOR = {"0111110": "VOPC", "0111111": "VOP1", "0": "VOP2"}
_SCALAR = {
    "101111101": "SOP1",
    "101111110": "SOPC",
    "101111111": "SOPP",
    "1011": "SOPK",
    "10": "SOP2",
}
_MEMORY = {"110110": "DS", "110111": "FLAT", "111000": "MUBUF", "111010": "MTBUF", "111100": "MIMG"}
_PREFIXES = {
    9: _VECTOR
    | _SCALAR
    | _MEMORY
    | {
        "110000": "SMEM",
        "110001": "EXP",
        "110100111": "VOP3P",
        "110100": "VOP3",
        "110101": "VINTRP",
    },
    10: _VECTOR
    | _SCALAR
    | _MEMORY
    | {"111101": "SMEM", "111110": "EXP", "110011": "VOP3P", "110101": "VOP3", "110010": "VINTRP"},
    11: _VECTOR
    | _SCALAR
    | _MEMORY
    | {"111101": "SMEM", "111110": "EXP", "110010": "VOPD", "110101": "VOP3"}
    | {"11001100": "VOP3P", "11001101": "VINTERP", "11001110": "LDSDIR"},
    12: _VECTOR
    | _SCALAR
    | {"111101": "SMEM", "111110": "VEXPORT", "110010": "VOPD", "110101": "VOP3"}
    | {"11001100": "VOP3P", "11001101": "VINTERP", "11001110": "VDSDIR"}
    | {"110110": "VDS", "110100": "VIMAGE", "111001": "VSAMPLE", "110001": "VBUFFER"}
    | {"11101100": "VFLAT", "11101101": "VSCRATCH", "11101110": "VGLOBAL"},
}
_SEGMENTS = {9: 14, 10: 14, 11: 16}
_SEGMENT_NAMES = ("FLAT", "SCRATCH", "GLOBAL")


class Chip:
    """The rows of one chip at one wave size."""

    def __init__(self, chip: str, wave_size: int) -> None:
        self.generation = generation(chip)
        self.rows: list[tuple[int, Row]] = []  # with the rank of the namespace, best first
        table = _table()
        said = table["meta"]["chips"][_SAME.get(chip, chip)]
        absent = {*said["not"], *_FALSE.get(chip, ())}
        absent.add("isWave64" if wave_size == 32 else "isWave32")
        lacking = set(table["meta"]["lacking"][_SAME.get(chip, chip)])
        for rank, namespace in enumerate(_namespaces(said["ns"], wave_size)):
            for name, asm, size, mask, value, fields, operands, predicates in table["rows"][
                namespace
            ]:
                if name not in lacking and absent.isdisjoint(table["predicates"][predicates]):
                    pieces = table["fields"][fields]
                    row = Row(
                        name, asm, size, mask & ~self._unused(size, value, pieces), value, self
                    )
                    self.rows.append((rank, row.describe(pieces, table["operands"][operands])))

    def _unused(self, size: int, value: int, pieces: list[Piece]) -> int:
        """The bits of sources that an operation of VOP3 does not have: they do not matter.

        The rows of generations 9 and 10 have them as zeros, and compilers write other numbers.
        """
        if size != 8 or self.generation > 10 or value >> 26 & 63 not in _THREE_SOURCES:
            return 0
        found = 0
        for first in _SECOND_SOURCE, _THIRD_SOURCE:
            if not any(at < first + 9 and at + width > first for _, at, width, _ in pieces):
                found |= 0x1FF << first
        return found & ~value

    @cached_property
    def _long(self) -> set[str]:
        """Operations with an encoding of 8 bytes: only then do the short ones get a suffix."""
        return {row.operation for _, row in self.rows if row.encoding == "VOP3"}

    @cached_property
    def _short(self) -> set[str]:
        """Operations that have an encoding of 4 bytes: the long ones get a suffix."""
        return {row.operation for _, row in self.rows if row.size == 4}

    def encoding(self, row: Row) -> str:
        bits = f"{row.value & 0xFFFFFFFF:032b}"
        prefixes = _PREFIXES[self.generation]
        found = max((p for p in prefixes if bits.startswith(p)), key=len, default="")
        name = prefixes.get(found, "")
        if name == "FLAT":
            name = _SEGMENT_NAMES[row.value >> _SEGMENTS[self.generation] & 3]
        if "dpp8" in row.classes:
            return f"{name}_DPP8"
        if "dpp_ctrl" in row.classes:
            return f"{name}_DPP16"
        return f"{name}_SDWA" if "src0_sel" in row.classes else name

    def mnemonic(self, row: Row) -> str:
        written = re.split(r"[\s$]", re.sub(r"[{}]", "", row.asm), maxsplit=1)[0]
        adjoined = re.match(r"[\w{}]*\$", row.asm)
        if not adjoined or not row.asm.startswith("v_"):
            return written
        return row.operation + self._suffix(row)

    def _suffix(self, row: Row) -> str:
        base, _, variant = row.encoding.partition("_")
        if variant == "SDWA":
            return "_sdwa"
        if variant:
            return "_e64_dpp" if base.startswith("VOP3") else "_dpp"
        if base == "VINTRP":
            return "_e32"
        if base == "VOP3":
            return "_e64" if row.operation in self._short else ""
        without = base == "VOP2" and self.generation > 9 and row.operation not in self._long
        named = "_e32" in row.name and not without
        return "_e32" if base in ("VOP1", "VOP2", "VOPC") and named else ""


def _namespaces(listed: list[str], wave_size: int) -> list[str]:
    """The namespaces in the order to try: those of a wave of 64 first, or not at all."""
    wide = [name for name in listed if name.endswith("W64")]
    others = [name for name in listed if name not in wide]
    return wide + others if wave_size == 64 else others


@cache
def _table() -> dict[str, Any]:
    with (resources.files("treadle.emulate.amd") / "encodings.json.gz").open("rb") as file:
        return json.loads(gzip.decompress(file.read()))


def generation(chip: str) -> int:
    """9 for gfx90a, 11 for gfx1151."""
    return int(chip.removeprefix("gfx")[:-2])


def wave_sizes(chip: str) -> tuple[int, ...]:
    """The wave sizes of a chip, the usual one first."""
    return (64,) if generation(chip) == 9 else (32, 64)


@cache
def rows(chip: str, wave_size: int) -> tuple[tuple[int, Row], ...]:
    """The rows of a chip with the rank of their namespace, 0 first."""
    return tuple(Chip(chip, wave_size).rows)
