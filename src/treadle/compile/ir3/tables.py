"""The instructions of Adreno that the compiler makes: which bits say what, and how long they take.

    FORMS["add.f"].fixed             ->  the bits that make it an add.f
    FORMS["add.f"].fields["SRC1"]    ->  (0, 16): sixteen bits from bit 0

Written for this compiler, in the names of Mesa's description of the instruction set, with which
tests/compile/test_ir3_tables.py compares each bit. The first word of a name is the instruction;
what is behind it in the text (types, conditions) are fields.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "ALU", "CONDITIONS", "FLOATS", "FORMS", "LATE", "OTHER", "TYPES", "Form", "category",
    "split_name",
]  # fmt: skip

ALU, OTHER = 3, 6  # cycles until arithmetic is ready for arithmetic, and for all else
LATE = 2  # cycles that a product's instruction reads what it adds later

Fields = dict[str, tuple[int, int]]

TYPES = {"f16": 0, "f32": 1, "u16": 2, "u32": 3, "s16": 4, "s32": 5, "u8": 6}
CONDITIONS = {"lt": 0, "le": 1, "gt": 2, "ge": 3, "eq": 4, "ne": 5}
# Bits of the floats that an operand can be by itself, and their numbers.
FLOATS = {
    0x00000000: 0, 0x3F000000: 1, 0x3F800000: 2, 0x40000000: 3, 0x402DF854: 4, 0x40490FDB: 5,
    0x3EA2F983: 6, 0x3F317218: 7, 0x3FB8AA3B: 8, 0x3E9A209B: 9, 0x40549A78: 10, 0x40800000: 11,
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """`category` is the number in the top three bits; `fixed` has those bits too."""

    category: int
    fixed: int
    fields: Fields


_FLAGS: Fields = {"JP": (59, 1), "SY": (60, 1)}
_CAT0: Fields = {**_FLAGS, "IMMED": (0, 32), "REPEAT": (40, 3), "SS": (44, 1)}
_CAT1: Fields = {
    **_FLAGS, "DST": (32, 8), "REPEAT": (40, 2), "SRC_R": (43, 1), "SS": (44, 1), "UL": (45, 1),
    "DST_TYPE": (46, 3), "DST_REL": (49, 1), "SRC_TYPE": (50, 3), "ROUND": (55, 2),
}  # fmt: skip
_CAT2: Fields = {
    **_FLAGS, "SRC1": (0, 16), "DST": (32, 8), "REPEAT": (40, 2), "SAT": (42, 1),
    "SRC1_R": (43, 1), "SS": (44, 1), "UL": (45, 1), "DST_CONV": (46, 1), "EI": (47, 1),
    "SRC2_R": (51, 1), "FULL": (52, 1),
}  # fmt: skip
_CAT3: Fields = {
    **_FLAGS, "SRC1": (0, 13), "SRC1_NEG": (14, 1), "SRC2_R": (15, 1), "SRC3": (16, 13),
    "SRC3_R": (29, 1), "SRC2_NEG": (30, 1), "SRC3_NEG": (31, 1), "DST": (32, 8), "REPEAT": (40, 2),
    "SAT": (42, 1), "SRC1_R": (43, 1), "SS": (44, 1), "UL": (45, 1), "DST_CONV": (46, 1),
    "SRC2": (47, 8),
}  # fmt: skip
_CAT4: Fields = {
    **_FLAGS, "SRC": (0, 16), "DST": (32, 8), "REPEAT": (40, 2), "SAT": (42, 1), "SRC_R": (43, 1),
    "SS": (44, 1), "UL": (45, 1), "DST_CONV": (46, 1), "FULL": (52, 1),
}  # fmt: skip
_CAT6: Fields = {**_FLAGS, "TYPE": (49, 3)}
_LOAD: Fields = {**_CAT6, "OFF": (1, 13), "SRC": (14, 8), "SIZE": (24, 8), "DST": (32, 8)}
_STORE: Fields = {
    **_CAT6, "SRC": (1, 8), "OFF_HI": (9, 5), "SIZE": (24, 8), "OFF_LO": (32, 8), "DST": (41, 8),
}  # fmt: skip
_TEXTURE: Fields = {
    "FULL": (0, 1), "SRC1": (1, 8), "SRC2": (9, 8), "1D": (18, 1), "SAMP": (21, 4), "TEX": (25, 7),
    "DST": (32, 8), "WRMASK": (40, 4), "TYPE": (44, 3), "3D": (48, 1), "A": (49, 1), "SV": (50, 1),
    "S2EN_BINDLESS": (51, 1), "O": (52, 1), "SRC2_IMM_OFFSET": (53, 1), **_FLAGS,
}  # fmt: skip
_IMAGE: Fields = {
    **_CAT6, "BASE": (1, 3), "OFFSET_HI": (4, 2), "MODE": (6, 2), "BINDLESS": (8, 1),
    "D_MINUS_ONE": (9, 2), "TYPED": (11, 1), "TYPE_SIZE_MINUS_ONE": (12, 2), "HAS_OFFSET": (23, 1),
    "SRC2": (24, 8), "SRC1": (32, 8), "SSBO": (41, 8), "OFFSET_LO": (54, 5),
}  # fmt: skip
_BARRIER: Fields = {
    **_FLAGS, "SS": (44, 1), "W": (51, 1), "R": (52, 1), "L": (53, 1), "G": (54, 1),
}  # fmt: skip

_WITH_ONE_SOURCE = {
    "absneg.f": 6, "floor.f": 9, "ceil.f": 10, "rndne.f": 11, "trunc.f": 13, "clz.b": 53,
}  # fmt: skip
_WITH_TWO_SOURCES = {
    "add.f": 0, "mul.f": 3, "add.u": 16, "sub.u": 18, "min.u": 22, "min.s": 23, "max.u": 24,
    "max.s": 25, "and.b": 28, "or.b": 29, "xor.b": 31, "mul.u24": 48, "mul.s24": 49, "mull.u": 50,
    "shl.b": 54, "shr.b": 55, "ashr.b": 56,
}  # fmt: skip
_COMPARISONS = {"cmps.f": 5, "cmps.u": 20, "cmps.s": 21}
_WITH_THREE_SOURCES = {
    "madsh.m16": 3, "mad.s24": 5, "mad.f32": 7, "sel.b16": 8, "sel.b32": 9,
}  # fmt: skip
_SPECIAL = {"rcp": 0, "sqrt": 6}


def _fixed(number: int, *bits: tuple[int, int]) -> int:
    """The bits of a category, and values at places."""
    return number << 61 | sum(value << low for low, value in bits)


def _forms() -> dict[str, Form]:
    two = {**_CAT2, "SRC2": (16, 16)}
    forms = {
        "nop": Form(0, _fixed(0), _CAT0),
        "end": Form(0, _fixed(0, (55, 6)), _CAT0),
        "br": Form(0, _fixed(0, (55, 1)), {**_CAT0, "INV1": (52, 1), "COMP1": (53, 2)}),
        "mov-immed": Form(1, _fixed(1, (53, 2)), {**_CAT1, "SRC": (0, 32)}),
        "mov-const": Form(1, _fixed(1, (53, 1)), {**_CAT1, "SRC": (0, 11)}),
        "mov-gpr": Form(1, _fixed(1), {**_CAT1, "SRC": (0, 8)}),
    }
    for name, opcode in _WITH_ONE_SOURCE.items():
        forms[name] = Form(2, _fixed(2, (53, opcode)), _CAT2)
    for name, opcode in _WITH_TWO_SOURCES.items():
        forms[name] = Form(2, _fixed(2, (53, opcode)), two)
    for name, opcode in _COMPARISONS.items():
        forms[name] = Form(2, _fixed(2, (53, opcode)), {**two, "COND": (48, 3)})
    for name, opcode in _WITH_THREE_SOURCES.items():
        forms[name] = Form(3, _fixed(3, (55, opcode)), _CAT3)
    for name, opcode in _SPECIAL.items():
        forms[name] = Form(4, _fixed(4, (53, opcode)), _CAT4)
    return forms | _memory_forms()


def _memory_forms() -> dict[str, Form]:
    load = {**_CAT6, "SRC1": (14, 8), "SIZE": (24, 3), "DST": (32, 8)}
    store = {**_CAT6, "SRC3": (1, 8), "SIZE": (24, 3), "DST_OFF": (40, 1), "SRC1": (41, 8)}
    place = {"OFF": (9, 2), "SRC2_ADD_DWORD_SHIFT": (12, 2)}
    return {
        "ldg": Form(6, _fixed(6, (0, 1), (23, 1)), {**load, "OFF": (1, 13)}),
        "ldg.a": Form(6, _fixed(6, (0, 1), (22, 1), (23, 1)), {**load, **place, "SRC2": (1, 8)}),
        "stg": Form(6, _fixed(6, (54, 3), (23, 1)), {**store, "OFF_HI": (9, 5), "OFF_LO": (32, 8)}),
        "stg.a": Form(6, _fixed(6, (54, 3), (52, 1), (23, 1)), {**store, **place, "SRC2": (32, 8)}),
        "ldl": Form(6, _fixed(6, (54, 1), (0, 1), (23, 1)), _LOAD),
        "ldp": Form(6, _fixed(6, (54, 2), (0, 1), (23, 1)), _LOAD),
        "stl": Form(6, _fixed(6, (54, 4), (23, 1), (40, 1)), _STORE),
        "stp": Form(6, _fixed(6, (54, 5), (23, 1), (40, 1)), _STORE),
        "isam": Form(5, _fixed(5), _TEXTURE),
        "ldib.b": Form(6, _fixed(6, (14, 0b110000110), (53, 1)), _IMAGE),
        "stib.b": Form(6, _fixed(6, (14, 0b110011101), (53, 1)), _IMAGE),
        "bar": Form(7, _fixed(7, (55, 0), (49, 1)), _BARRIER),
        "fence": Form(7, _fixed(7, (55, 1), (49, 1)), _BARRIER),
    }


FORMS = _forms()


def split_name(op: str) -> tuple[str, str]:
    """The name of an instruction as FORMS has it, and the rest of the text: types, a condition."""
    if op.startswith(("mov.", "cov.")):
        return op[:3], op[4:]
    name = op
    while name not in FORMS:
        name = name.rpartition(".")[0]
    return name, op[len(name) + 1 :]


def category(op: str) -> int:
    """The category of an instruction: 2 and 3 are arithmetic, 4 special functions, 5 textures,
    6 memory.
    """
    if op.startswith(("mov.", "cov.")):
        return 1
    return FORMS[split_name(op)[0]].category
