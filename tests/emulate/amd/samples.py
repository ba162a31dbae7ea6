"""Machine code for a chip, made from the table itself: a row's fixed bits, and fields at random.

A field is filled within its class, so that most samples are instructions: scalar pairs are even,
sources name registers, constants or literals, numbers that are reserved stay out.
"""

from __future__ import annotations

import random

from treadle.emulate.amd.operands import Place
from treadle.emulate.amd.table import Field, Row, generation

_ACCUMULATORS = ("gfx90a", "gfx942", "gfx950")
_MODIFIERS = ("Int", "IntT16")
_DPP = (*range(256), *range(0x101, 0x110), *range(0x111, 0x120), *range(0x121, 0x130), 0x140, 0x141)


def sample(row: Row, chip: str, draw: random.Random) -> bytes:
    """An instruction of this row; bits that do not matter are 0."""
    word = row.value
    for field in row.fields:
        number = _number(field, row, chip, draw)
        for at, mask, low in field.pieces:
            word |= (number >> low & mask) << at
    literal = draw.getrandbits(64) | 1 << 30
    return word.to_bytes(row.size, "little") + literal.to_bytes(8, "little")


def _number(field: Field, row: Row, chip: str, draw: random.Random) -> int:
    place = field.of.place
    if field.llvm_class.startswith("KImm"):
        return (0x1234 if field.of.bits == 16 else 0x12345678) + draw.randrange(1000)
    if place is Place.IMMEDIATE:
        return _modifier(field, row, generation(chip), draw)
    if place is Place.SOURCE and field.width >= 8:
        return _source(field.width, draw)
    if place is Place.SDWA:
        return draw.choice([draw.randrange(256), 256 + draw.randrange(100)])
    if place is Place.SDWA_SCALAR:
        return draw.choice([0, 128 + 2 * draw.randrange(48)])
    if place in (Place.SCALAR, Place.SOURCE):
        align = min(4, max(1, field.of.bits // 32))
        align = 4 if align == 3 else align
        return draw.randrange((100 - field.of.bits // 32) // align) * align
    return _vector(field, chip, draw)


def _vector(field: Field, chip: str, draw: random.Random) -> int:
    if field.width == 9:
        return 256 + 2 * draw.randrange(96)
    number = 2 * draw.randrange(64)
    if field.of.place is Place.EITHER and field.width == 10:
        number |= 0 if "LdSt" in field.llvm_class or "Dst" in field.llvm_class else 256
        number |= 512 if chip in _ACCUMULATORS and draw.random() < 0.3 else 0
    return number


def _source(width: int, draw: random.Random) -> int:
    if width >= 9 and draw.random() < 0.5:
        return 256 + 2 * draw.randrange(96)
    scalars, constants = range(0, 100, 2), (*range(128, 209), *range(240, 249))
    return draw.choice([draw.choice(scalars), 106, 126, draw.choice(constants), 255, 253])


def _modifier(field: Field, row: Row, of: int, draw: random.Random) -> int:
    if field.name == "fi" and field.width == 9:
        return draw.choice([0xE9, 0xEA])
    if field.name in ("cbsz", "blgp") and row.operation.endswith("_f8f6f4"):
        return draw.randrange(5)
    if field.name == "dpp_ctrl":
        return draw.choice(_DPP)
    if field.name == "dst_unused":
        return draw.randrange(3)
    if field.name.endswith("_sel") and field.width == 3:
        return draw.randrange(7)
    if field.name == "cpol" and of == 12:
        return 8 * draw.randrange(4)
    if field.name.endswith("_modifiers") and field.llvm_class.startswith(_MODIFIERS):
        return draw.choice([0, 4, 8, 12]) if "SDWA" not in field.llvm_class else draw.randrange(2)
    if field.llvm_class == "flat_offset" and row.encoding == "FLAT" and of < 12:
        return draw.randrange(1 << 11)
    if field.llvm_class in ("Offset", "OptSMEMOffsetMod") and of == 12:
        return draw.randrange(1, 1 << min(field.width - 1, 22))
    return 0 if draw.random() < 0.5 else draw.getrandbits(field.width)
